/* make_gguf.c - see make_gguf.h. */
#include "model/make_gguf.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mk_init(struct make_gguf *m)
{
    *m = (struct make_gguf){.version = 3, .alignment = 32};
}

void mk_free(struct make_gguf *m)
{
    qr_buf_free(&m->keys);
    qr_buf_free(&m->tensors);
    qr_buf_free(&m->data);
    qr_buf_free(&m->file);
}

static void put_u32(struct qr_buf *buf, uint32_t value)
{
    qr_buf_append(buf, &value, sizeof value);
}

static void put_u64(struct qr_buf *buf, uint64_t value)
{
    qr_buf_append(buf, &value, sizeof value);
}

static void put_str(struct qr_buf *buf, const char *s)
{
    put_u64(buf, strlen(s));
    qr_buf_append(buf, s, strlen(s));
}

void mk_raw(struct make_gguf *m, const char *key, uint32_t kind, const void *value, size_t n)
{
    put_str(&m->keys, key);
    put_u32(&m->keys, kind);
    qr_buf_append(&m->keys, value, n);
    m->n_key++;
}

void mk_u8(struct make_gguf *m, const char *key, uint8_t value)
{
    mk_raw(m, key, 0, &value, sizeof value);
}

void mk_u32(struct make_gguf *m, const char *key, uint32_t value)
{
    mk_raw(m, key, 4, &value, sizeof value);
}

void mk_u64(struct make_gguf *m, const char *key, uint64_t value)
{
    mk_raw(m, key, 10, &value, sizeof value);
}

void mk_f32(struct make_gguf *m, const char *key, float value)
{
    mk_raw(m, key, 6, &value, sizeof value);
}

void mk_f64(struct make_gguf *m, const char *key, double value)
{
    mk_raw(m, key, 12, &value, sizeof value);
}

void mk_bool(struct make_gguf *m, const char *key, uint8_t value)
{
    mk_raw(m, key, 7, &value, sizeof value);
}

void mk_str(struct make_gguf *m, const char *key, const char *value)
{
    mk_raw(m, key, 8, "", 0);
    put_str(&m->keys, value);
}

void mk_array(struct make_gguf *m, const char *key, uint32_t kind, uint64_t n, const void *data, size_t n_byte)
{
    mk_raw(m, key, 9, &kind, sizeof kind);
    put_u64(&m->keys, n);
    qr_buf_append(&m->keys, data, n_byte);
}

void mk_strings(struct make_gguf *m, const char *key, const char *const *values, uint64_t n)
{
    mk_array(m, key, 8, n, "", 0);
    for (uint64_t i = 0; i < n; i++)
        put_str(&m->keys, values[i]);
}

void mk_entry(struct make_gguf *m, const char *name, uint32_t type, uint32_t n_dim, const uint64_t *dim,
              uint64_t offset)
{
    put_str(&m->tensors, name);
    put_u32(&m->tensors, n_dim);
    for (uint32_t i = 0; i < n_dim; i++)
        put_u64(&m->tensors, dim[i]);
    put_u32(&m->tensors, type);
    put_u64(&m->tensors, offset);
    m->n_tensor++;
}

static void pad(struct qr_buf *buf, uint64_t alignment)
{
    while (buf->len % alignment != 0)
        qr_buf_putc(buf, 0);
}

uint64_t mk_tensor(struct make_gguf *m, const char *name, uint32_t type, uint32_t n_dim, const uint64_t *dim,
                   const void *data, size_t n_byte)
{
    uint64_t offset;

    pad(&m->data, m->alignment);
    offset = m->data.len;
    mk_entry(m, name, type, n_dim, dim, offset);
    if (data)
        qr_buf_append(&m->data, data, n_byte);
    for (size_t i = 0; !data && i < n_byte; i++)
        qr_buf_putc(&m->data, 0);
    return offset;
}

void mk_finish(struct make_gguf *m)
{
    qr_buf_clear(&m->file);
    qr_buf_append(&m->file, "GGUF", 4);
    put_u32(&m->file, m->version);
    put_u64(&m->file, m->n_tensor);
    put_u64(&m->file, m->n_key);
    qr_buf_append(&m->file, m->keys.data, m->keys.len);
    qr_buf_append(&m->file, m->tensors.data, m->tensors.len);
    m->header = m->file.len;
    if (m->alignment > 0 && m->alignment <= 4096)
        pad(&m->file, m->alignment);
    qr_buf_append(&m->file, m->data.data, m->data.len);
}

void mk_model_keys(struct make_gguf *m, const char *arch)
{
    const struct {
        const char *name;
        uint32_t value;
    } sizes[] = {{"block_count", 2},          {"context_length", 128},     {"embedding_length", 32},
                 {"feed_forward_length", 64}, {"attention.head_count", 2}, {"attention.head_count_kv", 1}};
    const char *tokens[40];
    char text[40][8], key[64];

    mk_str(m, "general.architecture", arch);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, sizes[i].name);
        mk_u32(m, key, sizes[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
    mk_f32(m, key, 1e-5f);
    snprintf(key, sizeof key, "%s.rope.freq_base", arch);
    mk_f32(m, key, 50000.0f);
    for (int i = 0; i < 40; i++) {
        snprintf(text[i], sizeof text[i], "t%d", i);
        tokens[i] = text[i];
    }
    tokens[39] = "<|im_end|>";
    mk_strings(m, "tokenizer.ggml.tokens", tokens, 40);
    mk_u32(m, "tokenizer.ggml.eos_token_id", 3);
    mk_u32(m, "tokenizer.ggml.bos_token_id", 1);
}

/* type 0: F32, 8: Q8_0 (34 bytes a block of 32). Byte i of the data is 1 + i / row bytes: the row's number. */
static void matrix(struct make_gguf *m, const char *name, uint32_t type, uint64_t n_row, uint64_t n_col)
{
    const uint64_t dim[2] = {n_col, n_row};
    size_t row_bytes = type == 8 ? n_col / 32 * 34 : n_col * 4;
    uint8_t *data = malloc(n_row * row_bytes);

    for (uint64_t i = 0; i < n_row; i++)
        memset(data + i * row_bytes, (int)(i + 1), row_bytes);
    mk_tensor(m, name, type, n_row == 1 ? 1 : 2, dim, data, n_row * row_bytes);
    free(data);
}

void mk_model_tensors(struct make_gguf *m, const char *arch)
{
    const struct {
        const char *name;
        uint32_t type;
        uint64_t n_row, n_col;
        const char *arch; /* only there; NULL: everywhere */
    } parts[] = {
        {"attn_norm.weight", 0, 1, 32, NULL},      {"attn_q.weight", 8, 32, 32, NULL},
        {"attn_k.weight", 8, 16, 32, NULL},        {"attn_v.weight", 8, 16, 32, NULL},
        {"attn_q.bias", 0, 1, 32, "qwen2"},        {"attn_k.bias", 0, 1, 16, "qwen2"},
        {"attn_v.bias", 0, 1, 16, "qwen2"},        {"attn_q_norm.weight", 0, 1, 16, "qwen3"},
        {"attn_k_norm.weight", 0, 1, 16, "qwen3"}, {"attn_output.weight", 8, 32, 32, NULL},
        {"ffn_norm.weight", 0, 1, 32, NULL},       {"ffn_gate.weight", 8, 64, 32, NULL},
        {"ffn_up.weight", 8, 64, 32, NULL},        {"ffn_down.weight", 8, 32, 64, NULL},
    };
    char name[64];

    matrix(m, "token_embd.weight", 8, 40, 32);
    for (int layer = 0; layer < 2; layer++) {
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            if (parts[i].arch && strcmp(parts[i].arch, arch) != 0)
                continue;
            snprintf(name, sizeof name, "blk.%d.%s", layer, parts[i].name);
            matrix(m, name, parts[i].type, parts[i].n_row, parts[i].n_col);
        }
    }
    matrix(m, "output_norm.weight", 0, 1, 32);
}
