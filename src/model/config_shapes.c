/* config_shapes.c - the shapes of well-known models by name, for random weights. Sizes are those of each model's
 * config.json on the Hugging Face hub.
 *
 * The tiny ones are for tests: every size that a kernel might take for granted differs from every other, ids 0..255
 * are bytes, and 256.. are <|endoftext|> <|im_start|> <|im_end|>. */
#include <math.h>
#include <string.h>
#include "base/buf.h"
#include "model/config_parts.h"

enum ids { FIRST_IDS, LLAMA3_IDS, QWEN_IDS, TINY_IDS, TINY_BOS_IDS };

static const struct {
    int32_t bos; /* -1: none */
    int n_eos;
    int32_t eos[3];
} special[] = {
    [FIRST_IDS] = {1, 1, {2}},
    [LLAMA3_IDS] = {128000, 3, {128001, 128008, 128009}},
    [QWEN_IDS] = {-1, 2, {151645, 151643}},
    [TINY_IDS] = {-1, 2, {258, 256}},
    [TINY_BOS_IDS] = {256, 2, {258, 256}},
};

struct shape {
    const char *name;
    enum qr_arch arch;
    int32_t n_layer, n_embd, n_head, n_kv_head, head_dim, n_ff, n_vocab;
    int32_t tied; /* 1: the head is the embedding */
    int32_t max_len;
    float norm_eps;
    double rope_theta;
    enum ids ids;
    double llama3_factor; /* 0: rope is not scaled */
    int32_t original_max_len;
    int32_t window;
};

#define LLAMA QR_ARCH_LLAMA
#define QWEN2 QR_ARCH_QWEN2
#define QWEN3 QR_ARCH_QWEN3
#define GEMM2 QR_ARCH_GEMMA2
#define GEMM3 QR_ARCH_GEMMA3
#define PHI_3 QR_ARCH_PHI3

/* clang-format off */
static const struct shape shapes[] = {
    /* name         arch   layer embd head kv dim    ff   vocab tied max_len eps    theta  ids    factor original window */
    {"qwen2.5-0.5b", QWEN2, 24,   896, 14, 2,  64,  4864, 151936, 1,  32768, 1e-6f,     1e6, QWEN_IDS,     0,    0,  0},
    {"qwen2.5-1.5b", QWEN2, 28,  1536, 12, 2, 128,  8960, 151936, 1,  32768, 1e-6f,     1e6, QWEN_IDS,     0,    0,  0},
    {"qwen2.5-3b",   QWEN2, 36,  2048, 16, 2, 128, 11008, 151936, 1,  32768, 1e-6f,     1e6, QWEN_IDS,     0,    0,  0},
    {"qwen2.5-7b",   QWEN2, 28,  3584, 28, 4, 128, 18944, 152064, 0,  32768, 1e-6f,     1e6, QWEN_IDS,     0,    0,  0},
    {"qwen3-0.6b",   QWEN3, 28,  1024, 16, 8, 128,  3072, 151936, 1,  40960, 1e-6f,     1e6, QWEN_IDS,     0,    0,  0},
    {"qwen3-1.7b",   QWEN3, 28,  2048, 16, 8, 128,  6144, 151936, 1,  40960, 1e-6f,     1e6, QWEN_IDS,     0,    0,  0},
    {"qwen3-4b",     QWEN3, 36,  2560, 32, 8, 128,  9728, 151936, 1,  40960, 1e-6f,     1e6, QWEN_IDS,     0,    0,  0},
    {"qwen3-8b",     QWEN3, 36,  4096, 32, 8, 128, 12288, 151936, 0,  40960, 1e-6f,     1e6, QWEN_IDS,     0,    0,  0},
    {"llama-3.2-1b", LLAMA, 16,  2048, 32, 8,  64,  8192, 128256, 1, 131072, 1e-5f,  500000, LLAMA3_IDS,  32, 8192,  0},
    {"llama-3.1-8b", LLAMA, 32,  4096, 32, 8, 128, 14336, 128256, 0, 131072, 1e-5f,  500000, LLAMA3_IDS,   8, 8192,  0},
    {"smollm2-135m", LLAMA, 30,   576,  9, 3,  64,  1536,  49152, 1,   8192, 1e-5f,  100000, FIRST_IDS,    0,    0,  0},
    {"mistral-7b",   LLAMA, 32,  4096, 32, 8, 128, 14336,  32768, 0,  32768, 1e-5f,     1e6, FIRST_IDS,    0,    0,  0},
    {"tiny-llama",   LLAMA,  2,    64,  4, 2,  16,   160,    320, 0,   2048, 1e-5f,   10000, TINY_BOS_IDS, 0,    0,  0},
    {"tiny-llama3",  LLAMA,  2,    64,  4, 2,  16,   160,    320, 1,   2048, 1e-5f,  500000, TINY_BOS_IDS, 8,  256,  0},
    {"tiny-mistral", LLAMA,  2,    64,  4, 2,  32,   160,    320, 0,   2048, 1e-5f,   10000, TINY_BOS_IDS, 0,    0, 24},
    {"tiny-qwen2",   QWEN2,  2,    64,  4, 2,  16,   192,    320, 1,   2048, 1e-6f,     1e6, TINY_IDS,     0,    0,  0},
    {"tiny-qwen3",   QWEN3,  3,    64,  4, 2,  32,   192,    320, 1,   2048, 1e-6f,     1e6, TINY_IDS,     0,    0,  0},
    {"tiny-gemma2",  GEMM2,  4,    64,  4, 2,  32,   160,    320, 1,   2048, 1e-6f,   10000, TINY_BOS_IDS, 0,    0, 24},
    {"tiny-gemma3",  GEMM3,  7,    64,  4, 2,  32,   160,    320, 1,   2048, 1e-6f,     1e6, TINY_BOS_IDS, 0,    0, 24},
    {"tiny-phi3",    PHI_3,  2,    64,  4, 2,  16,   160,    320, 0,   2048, 1e-5f,   10000, TINY_BOS_IDS, 0,    0, 24},
    {"tiny-phi4",    PHI_3,  2,    64,  4, 2,  16,   160,    320, 1,   2048, 1e-5f,   10000, TINY_BOS_IDS, 0,    0,  0},
};
/* clang-format on */
#define N_SHAPE (sizeof shapes / sizeof shapes[0])

static void fill(const struct shape *shape, struct qr_config *out)
{
    qr_config_clear(out);
    memcpy(out->name, shape->name, strlen(shape->name) + 1);
    out->arch = shape->arch;
    out->n_layer = shape->n_layer;
    out->n_embd = shape->n_embd;
    out->n_head = shape->n_head;
    out->n_kv_head = shape->n_kv_head;
    out->head_dim = shape->head_dim;
    out->n_ff = shape->n_ff;
    out->n_vocab = shape->n_vocab;
    out->max_len = shape->max_len;
    out->norm_eps = shape->norm_eps;
    out->tie_embd = shape->tied;
    out->qkv_bias = shape->arch == QWEN2;
    out->qk_norm = shape->arch == QWEN3;
    out->window = shape->window;
    if (shape->arch == PHI_3 && shape->window == 0) /* as Phi-4-mini */
        out->rope_dim = shape->head_dim * 3 / 4;
    out->rope.theta = shape->rope_theta;
    if (shape->llama3_factor != 0)
        out->rope = (struct qr_rope){.kind = QR_ROPE_LLAMA3,
                                     .theta = shape->rope_theta,
                                     .factor = shape->llama3_factor,
                                     .low_freq_factor = 1, /* 1 and 4: all Llama 3 models */
                                     .high_freq_factor = 4,
                                     .original_max_len = shape->original_max_len};
    if (shape->arch == GEMM2 || shape->arch == GEMM3) {
        qr_config_set_gemma(out);
        out->rope.theta = shape->rope_theta;
        out->attn_scale = 1 / sqrtf((float)shape->head_dim);
        out->attn_cap = shape->arch == GEMM2 ? 50 : 0; /* Gemma2Config's */
        out->final_cap = shape->arch == GEMM2 ? 30 : 0;
        out->norm_plus_one = true;
        if (shape->arch == GEMM3) { /* as the models from 4B on */
            out->rope.kind = QR_ROPE_LINEAR;
            out->rope.factor = 8;
        }
    }
    memcpy(out->eos, special[shape->ids].eos, sizeof special[shape->ids].eos);
    out->n_eos = special[shape->ids].n_eos;
    out->bos = special[shape->ids].bos;
}

static enum qr_status no_such_shape(const char *shape, struct qr_err *err)
{
    struct qr_buf names;
    enum qr_status status;

    qr_buf_init(&names, 0);
    for (size_t i = 0; i < N_SHAPE; i++)
        qr_buf_printf(&names, "%s%s", i ? " " : "", shapes[i].name);
    status = qr_fail(err, QR_NOTFOUND, "there is no shape \"%.60s\"; quire knows %s", shape,
                     names.failed ? "others" : names.data);
    qr_buf_free(&names);
    return status;
}

enum qr_status qr_config_from_shape(const char *shape, struct qr_config *out, struct qr_err *err)
{
    for (size_t i = 0; i < N_SHAPE; i++) {
        if (strcmp(shapes[i].name, shape) != 0)
            continue;
        fill(&shapes[i], out);
        return qr_config_check(out, err);
    }
    return no_such_shape(shape, err);
}
