/* make_st.c - see make_st.h. */
#include "model/make_st.h"
#include <stdio.h>
#include <string.h>

const char mk_st_config[] = "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":32,"
                            "\"intermediate_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":2,"
                            "\"num_key_value_heads\":1,\"vocab_size\":40,\"max_position_embeddings\":128,"
                            "\"rms_norm_eps\":1e-05,\"rope_theta\":10000.0,\"hidden_act\":\"silu\","
                            "\"eos_token_id\":2,\"bos_token_id\":1,\"tie_word_embeddings\":false}";

void mk_st(struct qr_buf *file, const char *header, uint64_t length, uint64_t n_data)
{
    uint64_t n = length ? length : strlen(header);

    qr_buf_clear(file);
    qr_buf_append(file, &n, sizeof n);
    qr_buf_puts(file, header);
    for (uint64_t i = 0; i < n_data; i++)
        qr_buf_putc(file, (char)i);
}

void mk_st_begin(struct make_st *m)
{
    *m = (struct make_st){0};
    qr_buf_puts(&m->header, "{\"__metadata__\":{\"format\":\"pt\"}");
}

void mk_st_tensor(struct make_st *m, const char *name, const char *dtype, uint64_t n_row, uint64_t n_col)
{
    bool byte = strcmp(dtype, "F8_E4M3") == 0, word = strcmp(dtype, "F32") == 0 || strcmp(dtype, "I32") == 0;
    uint64_t row_bytes = n_col * (byte ? 1 : word ? 4 : 2), rows = n_row ? n_row : 1;

    qr_buf_printf(&m->header, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", name, dtype);
    if (n_row)
        qr_buf_printf(&m->header, "%llu,", (unsigned long long)n_row);
    qr_buf_printf(&m->header, "%llu],\"data_offsets\":[%llu,%llu]}", (unsigned long long)n_col,
                  (unsigned long long)m->data.len, (unsigned long long)(m->data.len + rows * row_bytes));
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t i = 0; i < row_bytes; i++)
            qr_buf_putc(&m->data, (char)(r + 1));
}

void mk_st_end(struct make_st *m, struct qr_buf *file)
{
    uint64_t n;

    qr_buf_putc(&m->header, '}');
    while (m->header.len % 8 != 0)
        qr_buf_putc(&m->header, ' ');
    n = m->header.len;
    qr_buf_clear(file);
    qr_buf_append(file, &n, sizeof n);
    qr_buf_append(file, m->header.data, m->header.len);
    qr_buf_append(file, m->data.data, m->data.len);
    qr_buf_free(&m->header);
    qr_buf_free(&m->data);
}

void mk_st_model(struct make_st *m, int layer, bool head)
{
    static const struct {
        const char *name;
        uint64_t n_row, n_col;
    } parts[] = {{"input_layernorm", 0, 32},   {"self_attn.q_proj", 32, 32}, {"self_attn.k_proj", 16, 32},
                 {"self_attn.v_proj", 16, 32}, {"self_attn.o_proj", 32, 32}, {"post_attention_layernorm", 0, 32},
                 {"mlp.gate_proj", 64, 32},    {"mlp.up_proj", 64, 32},      {"mlp.down_proj", 32, 64}};
    char name[96];

    for (size_t i = 0; layer >= 0 && i < sizeof parts / sizeof parts[0]; i++) {
        snprintf(name, sizeof name, "model.layers.%d.%s.weight", layer, parts[i].name);
        mk_st_tensor(m, name, "BF16", parts[i].n_row, parts[i].n_col);
    }
    if (layer >= 0)
        return;
    mk_st_tensor(m, "model.embed_tokens.weight", "BF16", 40, 32);
    mk_st_tensor(m, "model.norm.weight", "F32", 0, 32);
    if (head)
        mk_st_tensor(m, "lm_head.weight", "BF16", 40, 32);
}
