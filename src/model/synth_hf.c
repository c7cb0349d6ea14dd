/* synth_hf.c - a Hugging Face directory: safetensors (one file, or shards with an index) and the JSON files beside.
 * Format: README of huggingface/safetensors; names of shards and index: transformers' save_pretrained. */
#include <stdlib.h>
#include <string.h>
#include "base/checked.h"
#include "model/synth_parts.h"

struct shard {
    uint64_t first, n; /* tensors of the source */
    uint64_t bytes;
};

/* "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight" */
static bool hf_name(const struct qr_config *config, const char *name, char *out, size_t size)
{
    static const char *const table[][2] = {
        {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
        {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
        {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
        {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
        {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
        {"ffn_down", "mlp.down_proj"},       {"token_embd", "model.embed_tokens"},
        {"output_norm", "model.norm"},       {"output", "lm_head"},
        {"attn_qkv", "self_attn.qkv_proj"},  {"ffn_gate_up", "mlp.gate_up_proj"},
    };
    static const char *const sandwich[][2] = {{"post_attention_norm", "post_attention_layernorm"},
                                              {"ffn_norm", "pre_feedforward_layernorm"},
                                              {"post_ffw_norm", "post_feedforward_layernorm"}};
    int layer = -1, used = 0;
    if (sscanf(name, "blk.%d.%n", &layer, &used) == 1 && used > 0)
        name += used;
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && config->post_norms && i < 3; i++) {
        if (strlen(sandwich[i][0]) == (size_t)(dot - name) &&
            strncmp(sandwich[i][0], name, (size_t)(dot - name)) == 0) {
            snprintf(out, size, "model.layers.%d.%s%s", layer, sandwich[i][1], dot);
            return true;
        }
    }
    for (size_t i = 0; dot && i < sizeof(table) / sizeof(table[0]); i++) {
        if (strlen(table[i][0]) != (size_t)(dot - name) || strncmp(table[i][0], name, (size_t)(dot - name)) != 0)
            continue;
        if (layer >= 0)
            snprintf(out, size, "model.layers.%d.%s%s", layer, table[i][1], dot);
        else
            snprintf(out, size, "%s%s", table[i][1], dot);
        return true;
    }
    return false;
}

static void shard_name(const struct qr_synth *s, uint64_t i, uint64_t n, char out[64])
{
    if (s->shard_bytes == 0)
        snprintf(out, 64, "model.safetensors");
    else
        snprintf(out, 64, "model-%05llu-of-%05llu.safetensors", (unsigned long long)i + 1, (unsigned long long)n);
}

static json_t *shape_of(const struct qr_source_tensor *t)
{
    if (qr_synth_is_vector(t))
        return json_pack("[I]", (json_int_t)t->n_col);
    return json_pack("[I, I]", (json_int_t)t->n_row, (json_int_t)t->n_col);
}

/* The JSON header: name -> {dtype, shape, data_offsets}, padded with blanks so that data start at a multiple of 8. */
static enum qr_status header(const struct qr_synth *s, const struct shard *shard, struct qr_buf *out,
                             struct qr_err *err)
{
    json_t *o = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    uint64_t offset = 0;
    for (uint64_t i = shard->first; o && i < shard->first + shard->n; i++) {
        struct qr_source_tensor merged;
        const struct qr_source_tensor *t = qr_synth_listed(s->source, i, false, &merged);
        char name[160];
        if (!t)
            continue;
        if (!hf_name(s->config, t->name, name, sizeof(name))) {
            json_decref(o);
            return qr_fail(err, QR_INTERNAL, "tensor '%s' has no name in the Hugging Face layout", t->name);
        }
        json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", qr_dtype_info(t->type)->name, "shape", shape_of(t),
                                  "data_offsets", (json_int_t)offset, (json_int_t)(offset + t->bytes));
        offset += t->bytes;
        if (!entry || json_object_set_new(o, name, entry) != 0) {
            json_decref(o);
            o = NULL;
        }
    }
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    qr_buf_puts(out, text ? text : "");
    while (out->len % 8 != 0)
        qr_buf_putc(out, ' ');
    bool good = text && !out->failed;
    free(text);
    return good ? QR_OK : qr_fail(err, QR_NOMEM, "no memory for the header of a safetensors file");
}

static enum qr_status write_body(struct qr_synth *s, const struct shard *shard, FILE *file, const char *path,
                                 struct qr_err *err)
{
    struct qr_buf text;
    qr_buf_init(&text, 0);
    enum qr_status status = header(s, shard, &text, err);
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)text.len >> 8 * i);
    if (status == QR_OK)
        status = qr_synth_put(file, path, length, 8, err);
    if (status == QR_OK)
        status = qr_synth_put(file, path, text.data, text.len, err);
    qr_buf_free(&text);
    for (uint64_t i = shard->first; status == QR_OK && i < shard->first + shard->n; i++)
        status = qr_synth_tensor(s, qr_source_at(s->source, i), 0, file, path, err);
    return status;
}

static enum qr_status write_shard(struct qr_synth *s, const struct shard *shard, const char *dir, const char *name,
                                  struct qr_err *err)
{
    char path[4096];
    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        return qr_fail(err, QR_INVALID, "the path %s/%s is longer than 4095 bytes", dir, name);
    FILE *file = fopen(path, "wbx");
    if (!file)
        return qr_fail_errno(err, "cannot make %s", path);
    enum qr_status status = write_body(s, shard, file, path, err);
    if (fclose(file) != 0 && status == QR_OK)
        status = qr_fail_errno(err, "cannot write to %s", path);
    return status;
}

/* Consecutive tensors, at most shard_bytes together; a larger tensor has a shard of its own. */
static struct shard *cut(const struct qr_synth *s, uint64_t *n_shard)
{
    uint64_t n = qr_source_n_tensor(s->source);
    struct shard *shard = calloc(n > 0 ? n : 1, sizeof(*shard));
    *n_shard = 0;
    for (uint64_t i = 0; shard && i < n; i++) {
        uint64_t bytes = qr_source_at(s->source, i)->bytes, sum = 0;
        struct shard *last = *n_shard > 0 ? &shard[*n_shard - 1] : NULL;
        struct qr_source_tensor merged;
        bool joined = !qr_synth_listed(s->source, i, false, &merged); /* to the one before */
        bool fits =
            last && (joined || s->shard_bytes == 0 || (qr_add_u64(last->bytes, bytes, &sum) && sum <= s->shard_bytes));
        if (!fits) {
            last = &shard[(*n_shard)++];
            last->first = i;
        }
        last->n++;
        last->bytes += bytes;
    }
    return shard;
}

static enum qr_status write_index(const struct qr_synth *s, const struct shard *shard, uint64_t n_shard,
                                  const char *dir, struct qr_err *err)
{
    json_t *map = json_object();
    int failed = map ? 0 : 1;
    for (uint64_t k = 0; k < n_shard; k++) {
        for (uint64_t i = shard[k].first; i < shard[k].first + shard[k].n; i++) {
            char name[160], file[64];
            struct qr_source_tensor merged;
            const struct qr_source_tensor *t = qr_synth_listed(s->source, i, false, &merged);
            if (!t)
                continue;
            hf_name(s->config, t->name, name, sizeof(name)); /* known: the shard's header has it */
            shard_name(s, k, n_shard, file);
            failed |= json_object_set_new(map, name, json_string(file));
        }
    }
    if (failed) {
        json_decref(map);
        return qr_fail(err, QR_NOMEM, "no memory for the index of %llu shards", (unsigned long long)n_shard);
    }
    json_t *o = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)s->total, "weight_map", map);
    return qr_synth_write_json(dir, "model.safetensors.index.json", o, JSON_INDENT(2), err);
}

static enum qr_status write_tensors(struct qr_synth *s, const struct shard *shard, uint64_t n_shard, const char *dir,
                                    struct qr_err *err)
{
    for (uint64_t k = 0; k < n_shard; k++) {
        char name[64];
        shard_name(s, k, n_shard, name);
        QR_TRY(write_shard(s, &shard[k], dir, name, err));
    }
    return s->shard_bytes > 0 ? write_index(s, shard, n_shard, dir, err) : QR_OK;
}

enum qr_status qr_synth_hf(struct qr_synth *s, const char *dir, struct qr_err *err)
{
    struct qr_synth_vocab vocab;
    s->norm_less_one = s->config->norm_plus_one;
    QR_TRY(qr_synth_config(s, dir, err));
    QR_TRY(qr_synth_vocab_make(s->config, &vocab, err));
    enum qr_status status = qr_synth_tokenizer(s, &vocab, dir, err);
    qr_synth_vocab_free(&vocab);
    if (status != QR_OK)
        return status;
    uint64_t n_shard;
    struct shard *shard = cut(s, &n_shard);
    if (!shard)
        return qr_fail(err, QR_NOMEM, "no memory for the list of shards");
    status = write_tensors(s, shard, n_shard, dir, err);
    free(shard);
    return status;
}
