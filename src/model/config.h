/* config.h - the shape of a model, one struct whatever file it came from. */
#ifndef QR_MODEL_CONFIG_H
#define QR_MODEL_CONFIG_H
#include <jansson.h>
#include "base/err.h"
#include "model/gguf.h"

enum qr_arch { /* the files in src/arch */
               QR_ARCH_LLAMA,
               QR_ARCH_QWEN2,
               QR_ARCH_QWEN3,
               QR_ARCH_GEMMA2,
               QR_ARCH_GEMMA3,
               QR_ARCH_PHI3,
               QR_N_ARCH
};

/* dynamic (NTK) changes nothing up to max_position_embeddings, beyond which quire does not go; mrope turns text as default
 * does. */
enum qr_rope_kind { QR_ROPE_DEFAULT, QR_ROPE_LINEAR, QR_ROPE_LLAMA3, QR_ROPE_DYNAMIC, QR_ROPE_YARN, QR_ROPE_LONGROPE };

#define QR_ROPE_MAX_FACTOR 256 /* half of the largest head */

struct qr_rope {
    enum qr_rope_kind kind;
    double theta;                             /* base of the frequencies */
    double factor;                            /* linear, llama3 */
    double low_freq_factor, high_freq_factor; /* llama3 */
    int32_t original_max_len;                 /* llama3, yarn, longrope: the context of the first training */
    double attention_factor;                  /* yarn, longrope: of cos and sin; 0: by the formula */
    double beta_fast, beta_slow;              /* yarn */
    double mscale, mscale_all_dim;            /* yarn; 0: not said */
    bool no_truncate;                         /* yarn: the ramp's ends are no whole numbers */
    int32_t n_factor;                         /* longrope: numbers below; 0: the file has them as tensors */
    float short_factor[QR_ROPE_MAX_FACTOR], long_factor[QR_ROPE_MAX_FACTOR];
};

/* Quantised safetensors; GGUF files say it tensor by tensor. */
enum qr_quant_method { QR_QUANT_NONE, QR_QUANT_FP8, QR_QUANT_GPTQ, QR_QUANT_AWQ };
enum qr_scales {
    QR_SCALES_ANY, /* their shape tells */
    QR_SCALES_ONE, /* one a matrix */
    QR_SCALES_ROWS /* one a row */
};

struct qr_quant {
    enum qr_quant_method method;
    int32_t group;                  /* gptq, awq: inputs that share a scale; 0: all */
    int32_t block_rows, block_cols; /* fp8: a scale for each such block; 0: one a row, or one */
    enum qr_scales scales;          /* fp8: what the config says of them */
    bool act_order;                 /* gptq: inputs of a group lie apart (desc_act) */
    bool zeros_as_they_are;         /* gptq_v2 */
};

struct qr_config {
    enum qr_arch arch;
    char name[128]; /* what the file calls itself, else the path's last part */
    int32_t n_layer;
    int32_t n_embd; /* hidden_size */
    int32_t n_head, n_kv_head;
    int32_t head_dim; /* need not be n_embd / n_head */
    int32_t rope_dim; /* rope turns the first so many numbers of a head (Phi-4-mini); 0: all */
    int32_t n_ff;     /* intermediate_size */
    int32_t n_vocab;  /* rows of the embedding */
    int32_t max_len;  /* max_position_embeddings */
    float norm_eps;
    bool tie_embd; /* the head is the embedding matrix */
    bool qkv_bias, o_bias, mlp_bias;
    bool qk_norm;              /* RMS norm of each q and k head */
    int32_t window;            /* sliding window in tokens; 0: none */
    int32_t window_from;       /* the first layer that has the window (Qwen2's max_window_layers) */
    int32_t window_period;     /* n: the last of each n layers has none (Gemma); 0: all from window_from on have it */
    bool post_norms;           /* norms behind attention and MLP too */
    bool norm_plus_one;        /* a Hugging Face file holds norm weights less one */
    bool gelu;                 /* in place of silu */
    float embd_scale;          /* embeddings are multiplied by it; 0: they are not */
    float attn_scale;          /* of q k; 0: 1 / sqrt(head_dim) */
    float attn_cap, final_cap; /* soft caps of scores and logits; 0: none */
    struct qr_rope rope_local; /* of layers with the window; theta 0: the same */
    struct qr_rope rope;
    struct qr_quant quant;
    int32_t eos[8]; /* ids that end a text */
    int n_eos;
    int32_t bos; /* -1: none */
    /* generation_config.json; negative: not said */
    float gen_temperature, gen_top_p, gen_repetition_penalty;
    int gen_top_k;
};

const char *qr_arch_name(enum qr_arch arch);                /* "qwen2" */
const char *qr_arch_names(void);                            /* all of them, for messages */
const char *qr_rope_kind_name(enum qr_rope_kind kind);      /* "yarn" */
int32_t qr_config_rope_dim(const struct qr_config *config); /* head_dim where the whole head turns */
bool qr_config_has_window(const struct qr_config *config, int32_t layer);

/* config: parsed config.json; generation: parsed generation_config.json or NULL. Refuses what quire does not know by name
 * (architecture, rope type, quantization_config, hidden_act other than silu). */
enum qr_status qr_config_from_hf(const json_t *config, const json_t *generation, struct qr_config *out,
                                 struct qr_err *err);
enum qr_status qr_config_from_gguf(const struct qr_gguf *gguf, struct qr_config *out, struct qr_err *err);
/* The last gate for both: positive sizes with caps, n_head % n_kv_head == 0, even head_dim ... */
enum qr_status qr_config_check(const struct qr_config *config, struct qr_err *err);
/* Named shapes for synth and dummy:SHAPE; QR_NOTFOUND lists the names. */
enum qr_status qr_config_from_shape(const char *shape, struct qr_config *out, struct qr_err *err);
#endif
