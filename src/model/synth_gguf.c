/* synth_gguf.c - a GGUF v3 file. Format: docs/gguf.md of the ggml repository; keys and tensors as convert_hf_to_gguf.py
 * of llama.cpp writes them for these families. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/checked.h"
#include "model/synth_parts.h"

#define ALIGNMENT 32

/* Metadata as they will stand in the file. */
struct keys {
    struct qr_buf buf;
    uint64_t n;
    const char *arch;
};

static void put_u32(struct qr_buf *buf, uint32_t v)
{
    qr_buf_append(buf, &v, 4); /* little-endian, as this machine is */
}

static void put_u64(struct qr_buf *buf, uint64_t v)
{
    qr_buf_append(buf, &v, 8);
}

static void put_string(struct qr_buf *buf, const char *s)
{
    put_u64(buf, strlen(s));
    qr_buf_puts(buf, s);
}

/* A key that starts with '.' belongs to the architecture: ".block_count" -> "llama.block_count". */
static void put_key(struct keys *k, const char *key, enum qr_gguf_kind kind)
{
    char full[96];
    snprintf(full, sizeof(full), "%s%s", key[0] == '.' ? k->arch : "", key);
    put_string(&k->buf, full);
    put_u32(&k->buf, kind);
    k->n++;
}

static void key_u32(struct keys *k, const char *key, uint32_t v)
{
    put_key(k, key, QR_GGUF_U32);
    put_u32(&k->buf, v);
}

static void key_f32(struct keys *k, const char *key, float v)
{
    put_key(k, key, QR_GGUF_F32);
    qr_buf_append(&k->buf, &v, 4);
}

static void key_bool(struct keys *k, const char *key, bool v)
{
    put_key(k, key, QR_GGUF_BOOL);
    qr_buf_putc(&k->buf, v ? 1 : 0);
}

static void key_string(struct keys *k, const char *key, const char *v)
{
    put_key(k, key, QR_GGUF_STRING);
    put_string(&k->buf, v);
}

static void key_array(struct keys *k, const char *key, enum qr_gguf_kind kind, uint64_t n)
{
    put_key(k, key, QR_GGUF_ARRAY);
    put_u32(&k->buf, kind);
    put_u64(&k->buf, n);
}

/* general.file_type: enum llama_ftype of llama.h */
static uint32_t file_type(enum qr_dtype type)
{
    static const uint32_t number[QR_N_DTYPE] = {
        [QR_F32] = 0, [QR_F16] = 1, [QR_Q4_0] = 2, [QR_Q4_1] = 3, [QR_Q8_0] = 7, [QR_BF16] = 32};
    return number[type];
}

static void model_keys(struct keys *k, const struct qr_synth *s)
{
    const struct qr_config *c = s->config;
    key_string(k, "general.architecture", k->arch);
    key_string(k, "general.type", "model");
    key_string(k, "general.name", c->name);
    key_u32(k, "general.file_type", file_type(s->type));
    key_u32(k, "general.quantization_version", 2);
    key_u32(k, "general.alignment", ALIGNMENT);
    key_u32(k, ".block_count", (uint32_t)c->n_layer);
    key_u32(k, ".context_length", (uint32_t)c->max_len);
    key_u32(k, ".embedding_length", (uint32_t)c->n_embd);
    key_u32(k, ".feed_forward_length", (uint32_t)c->n_ff);
    key_u32(k, ".attention.head_count", (uint32_t)c->n_head);
    key_u32(k, ".attention.head_count_kv", (uint32_t)c->n_kv_head);
    key_u32(k, ".attention.key_length", (uint32_t)c->head_dim);
    key_u32(k, ".attention.value_length", (uint32_t)c->head_dim);
    key_f32(k, ".attention.layer_norm_rms_epsilon", c->norm_eps);
    key_f32(k, ".rope.freq_base", (float)c->rope.theta);
    key_u32(k, ".rope.dimension_count", (uint32_t)qr_config_rope_dim(c));
    key_u32(k, ".vocab_size", (uint32_t)c->n_vocab);
    if (c->window > 0)
        key_u32(k, ".attention.sliding_window", (uint32_t)c->window);
    if (c->rope.kind == QR_ROPE_LINEAR) {
        key_string(k, ".rope.scaling.type", "linear");
        key_f32(k, ".rope.scaling.factor", (float)c->rope.factor);
    }
    if (c->attn_cap > 0)
        key_f32(k, ".attn_logit_softcapping", c->attn_cap);
    if (c->final_cap > 0)
        key_f32(k, ".final_logit_softcapping", c->final_cap);
    if (c->gen_temperature >= 0)
        key_f32(k, "general.sampling.temp", c->gen_temperature);
    if (c->gen_top_p >= 0)
        key_f32(k, "general.sampling.top_p", c->gen_top_p);
    if (c->gen_top_k >= 0)
        put_key(k, "general.sampling.top_k", QR_GGUF_I32), put_u32(&k->buf, (uint32_t)c->gen_top_k);
    if (c->gen_repetition_penalty >= 0)
        key_f32(k, "general.sampling.penalty_repeat", c->gen_repetition_penalty);
}

static void tokenizer_keys(struct keys *k, const struct qr_config *c, const struct qr_synth_vocab *v)
{
    key_string(k, "tokenizer.ggml.model", "gpt2");
    key_string(k, "tokenizer.ggml.pre", v->pre);
    key_array(k, "tokenizer.ggml.tokens", QR_GGUF_STRING, (uint64_t)v->n);
    for (int32_t i = 0; i < v->n; i++)
        put_string(&k->buf, v->token[i]);
    key_array(k, "tokenizer.ggml.token_type", QR_GGUF_I32, (uint64_t)v->n);
    for (int32_t i = 0; i < v->n; i++)
        put_u32(&k->buf, v->kind[i]);
    key_array(k, "tokenizer.ggml.merges", QR_GGUF_STRING, (uint64_t)v->n_merge);
    for (int i = 0; i < v->n_merge; i++)
        put_string(&k->buf, v->merge[i]);
    if (c->bos >= 0)
        key_u32(k, "tokenizer.ggml.bos_token_id", (uint32_t)c->bos);
    key_u32(k, "tokenizer.ggml.eos_token_id", (uint32_t)v->im_end);
    if (c->n_eos > 2)
        key_u32(k, "tokenizer.ggml.eot_token_id", (uint32_t)c->eos[2]);
    key_u32(k, "tokenizer.ggml.padding_token_id", (uint32_t)v->end_of_text);
    key_bool(k, "tokenizer.ggml.add_bos_token", false);
    key_string(k, "tokenizer.chat_template", qr_synth_chat_template);
}

/* The divisors of the rope frequencies of Llama 3 (rope_scaling "llama3" in transformers' modeling_rope_utils.py), which
 * GGUF files carry as a tensor of head_dim / 2 numbers. */
static void rope_factors(const struct qr_rope *rope, int32_t head_dim, float *out)
{
    double low_wavelength = rope->original_max_len / rope->low_freq_factor;
    double high_wavelength = rope->original_max_len / rope->high_freq_factor;
    for (int32_t i = 0; i < head_dim / 2; i++) {
        double wavelength = 2 * 3.14159265358979323846 * pow(rope->theta, 2.0 * i / head_dim), factor = 1;
        if (wavelength > low_wavelength) {
            factor = rope->factor;
        } else if (wavelength >= high_wavelength) {
            double smooth = (rope->original_max_len / wavelength - rope->low_freq_factor) /
                            (rope->high_freq_factor - rope->low_freq_factor);
            factor = 1 / ((1 - smooth) / rope->factor + smooth);
        }
        out[i] = (float)factor;
    }
}

static uint64_t padding(uint64_t bytes)
{
    return (ALIGNMENT - bytes % ALIGNMENT) % ALIGNMENT;
}

/* Name, dimensions (row length first), type and offset of one tensor; moves *offset behind it. */
static void put_info(struct qr_buf *buf, const char *name, bool vector, uint64_t n_col, uint64_t n_row, int ggml_type,
                     uint64_t bytes, uint64_t *offset)
{
    put_string(buf, name);
    put_u32(buf, vector ? 1 : 2);
    put_u64(buf, n_col);
    if (!vector)
        put_u64(buf, n_row);
    put_u32(buf, (uint32_t)ggml_type);
    put_u64(buf, *offset);
    *offset += bytes + padding(bytes);
}

/* All that stands before the data. */
static enum qr_status header(const struct qr_synth *s, bool factors, struct qr_buf *out, struct qr_err *err)
{
    uint64_t n_tensor = qr_source_n_tensor(s->source), offset = 0;
    struct keys k = {.arch = qr_arch_name(s->config->arch)};
    struct qr_synth_vocab vocab;
    qr_buf_init(&k.buf, 0);
    QR_TRY(qr_synth_vocab_make(s->config, &vocab, err));
    model_keys(&k, s);
    tokenizer_keys(&k, s->config, &vocab);
    qr_synth_vocab_free(&vocab);

    qr_buf_puts(out, "GGUF");
    put_u32(out, 3);
    uint64_t n_listed = factors ? 1 : 0;
    struct qr_source_tensor merged;
    for (uint64_t i = 0; i < n_tensor; i++)
        n_listed += qr_synth_listed(s->source, i, true, &merged) != NULL;
    put_u64(out, n_listed);
    put_u64(out, k.n);
    qr_buf_append(out, k.buf.data, k.buf.len);
    bool failed = k.buf.failed;
    qr_buf_free(&k.buf);
    if (factors)
        put_info(out, "rope_freqs.weight", true, (uint64_t)s->config->head_dim / 2, 1, 0,
                 (uint64_t)s->config->head_dim / 2 * sizeof(float), &offset);
    for (uint64_t i = 0; i < n_tensor; i++) {
        const struct qr_source_tensor *t = qr_synth_listed(s->source, i, true, &merged);
        if (!t)
            continue;
        put_info(out, t->name, qr_synth_is_vector(t), t->n_col, t->n_row, qr_dtype_info(t->type)->ggml_type, t->bytes,
                 &offset);
    }
    while (out->len % ALIGNMENT != 0 && qr_buf_putc(out, 0))
        ;
    return out->failed || failed ? qr_fail(err, QR_NOMEM, "no memory for the header of a GGUF file") : QR_OK;
}

static enum qr_status put_padding(FILE *file, const char *path, uint64_t bytes, struct qr_err *err)
{
    static const uint8_t zero[ALIGNMENT];
    return qr_synth_put(file, path, zero, padding(bytes), err);
}

static enum qr_status put_factors(const struct qr_synth *s, FILE *file, const char *path, struct qr_err *err)
{
    uint64_t bytes = (uint64_t)s->config->head_dim / 2 * sizeof(float);
    float *factor = malloc(bytes);
    if (!factor)
        return qr_fail(err, QR_NOMEM, "no memory for the rope factors");
    rope_factors(&s->config->rope, s->config->head_dim, factor);
    enum qr_status status = qr_synth_put(file, path, factor, bytes, err);
    free(factor);
    return status == QR_OK ? put_padding(file, path, bytes, err) : status;
}

/* Files of arch llama hold the rows of q and k, and their biases, interleaved. */
static uint32_t interleave_of(const struct qr_config *c, const char *name)
{
    bool rotated = strstr(name, ".attn_q.") || strstr(name, ".attn_k.");
    return c->arch == QR_ARCH_LLAMA && rotated ? (uint32_t)c->head_dim : 0;
}

static enum qr_status write_file(struct qr_synth *s, FILE *file, const char *path, struct qr_err *err)
{
    bool factors = s->config->rope.kind == QR_ROPE_LLAMA3;
    struct qr_buf head;
    qr_buf_init(&head, 0);
    enum qr_status status = header(s, factors, &head, err);
    if (status == QR_OK)
        status = qr_synth_put(file, path, head.data, head.len, err);
    qr_buf_free(&head);
    if (status == QR_OK && factors)
        status = put_factors(s, file, path, err);
    for (uint64_t i = 0; status == QR_OK && i < qr_source_n_tensor(s->source); i++) {
        const struct qr_source_tensor *t = qr_source_at(s->source, i);
        status = qr_synth_tensor(s, t, interleave_of(s->config, t->name), file, path, err);
        if (status == QR_OK)
            status = put_padding(file, path, t->bytes, err);
    }
    return status;
}

enum qr_status qr_synth_gguf(struct qr_synth *s, const char *path, struct qr_err *err)
{
    FILE *file = fopen(path, "wbx");
    if (!file)
        return qr_fail_errno(err, "cannot make %s", path);
    enum qr_status status = write_file(s, file, path, err);
    if (fclose(file) != 0 && status == QR_OK)
        status = qr_fail_errno(err, "cannot write to %s", path);
    return status;
}
