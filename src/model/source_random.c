/* source_random.c - random weights made on demand: a pure function of seed, tensor name and row, whatever the
 * order, the thread, or how many rows are asked for at once.
 *
 * Each number is the sum of four random bytes, brought to mean 0 and deviation 1 (Irwin-Hall: near enough to a
 * normal distribution for weights, and twenty times faster than logarithms and sines). Matrices have deviation
 * 1/sqrt(n_col), which keeps the size of activations from layer to layer. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/rand.h"
#include "model/source_parts.h"

#define CHUNK 1024 /* numbers at once; a multiple of every block */

static bool writable(enum qr_dtype type)
{
    return type == QR_F32 || type == QR_F16 || type == QR_BF16 || type == QR_Q8_0 || type == QR_Q4_0 || type == QR_Q4_1;
}

static enum qr_status add(struct qr_source *source, const char *name, int layer, enum qr_dtype type, int64_t n_row,
                          int64_t n_col, struct qr_err *err)
{
    struct qr_source_tensor tensor = {.type = type, .n_row = (uint64_t)n_row, .n_col = (uint64_t)n_col};

    if (layer < 0)
        snprintf(tensor.name, sizeof tensor.name, "%s", name);
    else
        snprintf(tensor.name, sizeof tensor.name, "blk.%d.%s", layer, name);
    return qr_source_add(source, &tensor, NULL, err);
}

static enum qr_status add_layer(struct qr_source *source, int layer, enum qr_dtype type, struct qr_err *err)
{
    const struct qr_config *c = &source->config;
    const int64_t q = (int64_t)c->n_head * c->head_dim, kv = (int64_t)c->n_kv_head * c->head_dim;
    const struct {
        const char *name;
        enum qr_dtype type;
        int64_t n_row, n_col;
        bool wanted;
    } parts[] = {
        {"attn_norm.weight", QR_F32, 1, c->n_embd, true},
        {"attn_q.weight", type, q, c->n_embd, true},
        {"attn_q.bias", QR_F32, 1, q, c->qkv_bias},
        {"attn_k.weight", type, kv, c->n_embd, true},
        {"attn_k.bias", QR_F32, 1, kv, c->qkv_bias},
        {"attn_v.weight", type, kv, c->n_embd, true},
        {"attn_v.bias", QR_F32, 1, kv, c->qkv_bias},
        {"attn_q_norm.weight", QR_F32, 1, c->head_dim, c->qk_norm},
        {"attn_k_norm.weight", QR_F32, 1, c->head_dim, c->qk_norm},
        {"attn_output.weight", type, c->n_embd, q, true},
        {"attn_output.bias", QR_F32, 1, c->n_embd, c->o_bias},
        {"post_attention_norm.weight", QR_F32, 1, c->n_embd, c->post_norms},
        {"ffn_norm.weight", QR_F32, 1, c->n_embd, true},
        {"ffn_gate.weight", type, c->n_ff, c->n_embd, true},
        {"ffn_gate.bias", QR_F32, 1, c->n_ff, c->mlp_bias},
        {"ffn_up.weight", type, c->n_ff, c->n_embd, true},
        {"ffn_up.bias", QR_F32, 1, c->n_ff, c->mlp_bias},
        {"ffn_down.weight", type, c->n_embd, c->n_ff, true},
        {"ffn_down.bias", QR_F32, 1, c->n_embd, c->mlp_bias},
        {"post_ffw_norm.weight", QR_F32, 1, c->n_embd, c->post_norms},
    };

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i].wanted)
            QR_TRY(add(source, parts[i].name, layer, parts[i].type, parts[i].n_row, parts[i].n_col, err));
    return QR_OK;
}

enum qr_status qr_source_fill_random(struct qr_source *source, enum qr_dtype type, struct qr_err *err)
{
    const struct qr_config *config = &source->config;

    if (!writable(type))
        return qr_fail(err, QR_UNSUPPORTED, "random weights cannot be %s, only F32 F16 BF16 Q8_0 Q4_0 Q4_1",
                       qr_dtype_info(type)->name);
    source->random = true;
    QR_TRY(qr_source_reserve(source, 3 + 20 * (uint64_t)config->n_layer, err));
    QR_TRY(add(source, "token_embd.weight", -1, type, config->n_vocab, config->n_embd, err));
    for (int layer = 0; layer < config->n_layer; layer++)
        QR_TRY(add_layer(source, layer, type, err));
    QR_TRY(add(source, "output_norm.weight", -1, QR_F32, 1, config->n_embd, err));
    if (!config->tie_embd)
        QR_TRY(add(source, "output.weight", -1, type, config->n_vocab, config->n_embd, err));
    return qr_source_finish(source, err);
}

/* FNV-1a (Fowler, Noll, Vo). */
static uint64_t hash_name(const char *name)
{
    uint64_t hash = 0xCBF29CE484222325u;

    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 0x100000001B3u;
    return hash;
}

/* Numbers [first, first + n) of a row, first a multiple of 4. The sum of four bytes has mean 510 and variance
 * 4 * (256^2 - 1) / 12 = 21845. */
static void make_numbers(const uint32_t key[2], uint64_t row, uint64_t first, uint64_t n, float mean, float deviation,
                         float *out)
{
    const float scale = deviation / 147.8005413f;

    for (uint64_t i = 0; i < n; i += 4) {
        const uint32_t counter[4] = {(uint32_t)((first + i) / 4), 0, (uint32_t)row, (uint32_t)(row >> 32)};
        uint32_t bits[4];

        qr_philox(counter, key, bits);
        for (uint64_t k = 0; k < 4 && i + k < n; k++) {
            uint32_t pairs = (bits[k] & 0x00FF00FF) + (bits[k] >> 8 & 0x00FF00FF); /* two sums of two bytes */
            int sum = (int)((pairs & 0xFFFF) + (pairs >> 16));

            out[i + k] = mean + scale * (float)(sum - 510);
        }
    }
}

enum qr_status qr_source_random_rows(const struct qr_source *source, const struct qr_source_tensor *tensor,
                                     uint64_t row, uint64_t n, void *dst, struct qr_err *err)
{
    const uint64_t hash = hash_name(tensor->name) ^ source->seed * 0x9E3779B97F4A7C15u; /* odd: no two seeds meet */
    const uint32_t key[2] = {(uint32_t)hash, (uint32_t)(hash >> 32)};
    const bool norm = strstr(tensor->name, "_norm.") != NULL, bias = strstr(tensor->name, ".bias") != NULL;
    const float mean = norm ? 1 : 0;
    const float deviation = norm || bias ? 0.1f : 1 / sqrtf((float)tensor->n_col);
    uint8_t *out = dst;
    float numbers[CHUNK];

    for (uint64_t r = row; r < row + n; r++) {
        for (uint64_t at = 0; at < tensor->n_col; at += CHUNK) {
            uint64_t count = tensor->n_col - at < CHUNK ? tensor->n_col - at : CHUNK;

            make_numbers(key, r, at, count, mean, deviation, numbers);
            if (!qr_quant(tensor->type, numbers, out, count))
                return qr_fail(err, QR_INTERNAL, "random weights cannot be %s", qr_dtype_info(tensor->type)->name);
            out += qr_row_bytes(tensor->type, count);
        }
    }
    return QR_OK;
}
