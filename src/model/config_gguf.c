/* config_gguf.c - struct qr_config out of the keys and tensor names of a GGUF file. Keys: docs/gguf.md of the ggml
 * repository and the constants of gguf-py. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "model/config_parts.h"
#include "model/names.h"

#define KEY_SIZE 96

/* "block_count" -> "llama.block_count" */
static const char *key_of(const struct qr_config *config, const char *name, char key[KEY_SIZE])
{
    snprintf(key, KEY_SIZE, "%s.%s", qr_arch_name(config->arch), name);
    return key;
}

static enum qr_status find_arch(const struct qr_gguf *gguf, struct qr_config *out, struct qr_err *err)
{
    struct qr_str name;

    QR_TRY(qr_gguf_string(gguf, "general.architecture", &name, NULL, err));
    for (int i = 0; i < QR_N_ARCH; i++) {
        const char *own = qr_arch_name((enum qr_arch)i);

        out->arch = (enum qr_arch)i;
        if (name.n == strlen(own) && memcmp(name.s, own, name.n) == 0)
            return QR_OK;
    }
    return qr_fail(err, QR_UNSUPPORTED, "the architecture is \"%.*s\"; quire knows %s in GGUF files",
                   (int)(name.n > 60 ? 60 : name.n), name.s, qr_arch_names());
}

/* An int32 key. absent: what it is when the file does not say; -1: it must say. */
static enum qr_status read_size(const struct qr_gguf *gguf, const char *key, int32_t absent, int32_t *out,
                                struct qr_err *err)
{
    int64_t value = absent;
    bool found;

    QR_TRY(qr_gguf_int(gguf, key, &value, absent == -1 ? NULL : &found, err));
    if (value < 0 || value > INT32_MAX)
        return qr_fail(err, QR_INVALID, "GGUF key \"%s\" is %lld; it must be 0 to %d", key, (long long)value,
                       INT32_MAX);
    *out = (int32_t)value;
    return QR_OK;
}

/* Rows of the embedding; a file that holds only a tokenizer has none. */
static enum qr_status read_vocab(const struct qr_gguf *gguf, struct qr_config *out, struct qr_err *err)
{
    const struct qr_gguf_tensor *embd = qr_gguf_find(gguf, "token_embd.weight");
    const struct qr_str *tokens;
    uint64_t n = 0;

    if (embd)
        n = embd->n_dim >= 2 ? embd->dim[1] : 0;
    else
        QR_TRY(qr_gguf_strings(gguf, "tokenizer.ggml.tokens", &tokens, &n, NULL, err));
    if (n == 0 || n > INT32_MAX)
        return qr_fail(err, QR_INVALID, "the vocabulary has %llu tokens; it must have 1 to %d", (unsigned long long)n,
                       INT32_MAX);
    out->n_vocab = (int32_t)n;
    return QR_OK;
}

static enum qr_status read_sizes(const struct qr_gguf *gguf, struct qr_config *out, struct qr_err *err)
{
    char key[KEY_SIZE];
    int32_t value_length, n_rot;
    double eps;

    QR_TRY(read_size(gguf, key_of(out, "block_count", key), -1, &out->n_layer, err));
    QR_TRY(read_size(gguf, key_of(out, "embedding_length", key), -1, &out->n_embd, err));
    QR_TRY(read_size(gguf, key_of(out, "attention.head_count", key), -1, &out->n_head, err));
    QR_TRY(read_size(gguf, key_of(out, "attention.head_count_kv", key), out->n_head, &out->n_kv_head, err));
    QR_TRY(read_size(gguf, key_of(out, "feed_forward_length", key), -1, &out->n_ff, err));
    QR_TRY(read_size(gguf, key_of(out, "context_length", key), -1, &out->max_len, err));
    if (out->n_head == 0)
        return qr_fail(err, QR_INVALID, "GGUF key \"%s\" is 0", key_of(out, "attention.head_count", key));
    QR_TRY(read_size(gguf, key_of(out, "attention.key_length", key), out->n_embd / out->n_head, &out->head_dim, err));
    QR_TRY(read_size(gguf, key_of(out, "attention.value_length", key), out->n_embd / out->n_head, &value_length, err));
    QR_TRY(read_size(gguf, key_of(out, "rope.dimension_count", key), out->head_dim, &n_rot, err));
    if (value_length != out->head_dim)
        return qr_fail(err, QR_UNSUPPORTED, "keys have %d numbers a head and values %d; quire wants them equal",
                       out->head_dim, value_length);
    if (n_rot == 0)
        return qr_fail(err, QR_INVALID, "GGUF key \"%s\" is 0", key_of(out, "rope.dimension_count", key));
    out->rope_dim = n_rot == out->head_dim ? 0 : n_rot;
    QR_TRY(qr_gguf_real(gguf, key_of(out, "attention.layer_norm_rms_epsilon", key), &eps, NULL, err));
    out->norm_eps = (float)eps;
    return read_vocab(gguf, out, err);
}

/* Keys that change the answer and that no family here has. A real one may stand at its neutral value. */
static enum qr_status refuse_unknown(const struct qr_gguf *gguf, const struct qr_config *config, struct qr_err *err)
{
    static const struct {
        const char *name;
        double neutral;
    } refused[] = {{"attention.clamp_kqv", 0},    {"attention.max_alibi_bias", 0},
                   {"attn_logit_softcapping", 0}, {"final_logit_softcapping", 0},
                   {"attention.scale", 0},        {"logit_scale", 1},
                   {"embedding_scale", 1},        {"residual_scale", 1}};
    char key[KEY_SIZE];
    int64_t n_expert = 0;
    bool found;

    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        double value = refused[i].neutral;

        QR_TRY(qr_gguf_real(gguf, key_of(config, refused[i].name, key), &value, &found, err));
        if (strstr(refused[i].name, "softcapping") && config->arch == QR_ARCH_GEMMA2)
            continue; /* read_gemma takes them */
        if (value != refused[i].neutral && value != 0)
            return qr_fail(err, QR_UNSUPPORTED, "GGUF key \"%s\" is %g, which quire does not know", key, value);
    }
    QR_TRY(qr_gguf_int(gguf, key_of(config, "expert_count", key), &n_expert, &found, err));
    if (n_expert > 0)
        return qr_fail(err, QR_UNSUPPORTED, "the model is a mixture of %lld experts, which quire does not know",
                       (long long)n_expert);
    return QR_OK;
}

static bool has(const struct qr_gguf *gguf, const char *tensor)
{
    return qr_gguf_find(gguf, tensor) != NULL;
}

/* A real key that may be absent: *out keeps its value then. */
static enum qr_status read_real(const struct qr_gguf *gguf, const struct qr_config *config, const char *name,
                                double *out, struct qr_err *err)
{
    char key[KEY_SIZE];
    bool found;

    return qr_gguf_real(gguf, key_of(config, name, key), out, &found, err);
}

static enum qr_status read_linear(const struct qr_gguf *gguf, bool said_none, struct qr_config *out, struct qr_err *err)
{
    double factor = 0;

    if (said_none) /* an old linear factor would contradict it */
        return QR_OK;
    QR_TRY(read_real(gguf, out, "rope.scale_linear", &factor, err));
    if (factor != 0 && factor != 1) {
        out->rope.kind = QR_ROPE_LINEAR;
        out->rope.factor = factor;
    }
    return QR_OK;
}

/* llama.cpp multiplies the formula's factor of cos and sin by attn_factor. */
static enum qr_status read_yarn(const struct qr_gguf *gguf, struct qr_config *out, struct qr_err *err)
{
    struct qr_rope *rope = &out->rope;
    double attn_factor = 1, ext_factor = 1;

    rope->kind = QR_ROPE_YARN;
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    QR_TRY(read_real(gguf, out, "rope.scaling.yarn_beta_fast", &rope->beta_fast, err));
    QR_TRY(read_real(gguf, out, "rope.scaling.yarn_beta_slow", &rope->beta_slow, err));
    QR_TRY(read_real(gguf, out, "rope.scaling.attn_factor", &attn_factor, err));
    QR_TRY(read_real(gguf, out, "rope.scaling.yarn_attn_factor", &attn_factor, err));
    QR_TRY(read_real(gguf, out, "rope.scaling.yarn_ext_factor", &ext_factor, err));
    if (ext_factor != 1)
        return qr_fail(err, QR_UNSUPPORTED, "rope.scaling.yarn_ext_factor is %g; quire knows 1", ext_factor);
    if (attn_factor != 1 && rope->factor > 0)
        rope->attention_factor = attn_factor * (rope->factor > 1 ? 0.1 * log(rope->factor) + 1 : 1);
    return QR_OK;
}

static enum qr_status read_rope(const struct qr_gguf *gguf, struct qr_config *out, struct qr_err *err)
{
    struct qr_str type = {"none", 4};
    char key[KEY_SIZE];
    bool found;

    QR_TRY(read_real(gguf, out, "rope.freq_base", &out->rope.theta, err));
    if (out->rope_local.theta != 0)
        QR_TRY(read_real(gguf, out, "rope.freq_base_swa", &out->rope_local.theta, err));
    QR_TRY(qr_gguf_string(gguf, key_of(out, "rope.scaling.type", key), &type, &found, err));
    QR_TRY(read_size(gguf, key_of(out, "rope.scaling.original_context_length", key), out->max_len,
                     &out->rope.original_max_len, err));
    if (has(gguf, "rope_factors_long.weight")) { /* with or without a word on it */
        out->rope.kind = QR_ROPE_LONGROPE;
        return read_real(gguf, out, "rope.scaling.attn_factor", &out->rope.attention_factor, err);
    }
    if (type.n == 4 && memcmp(type.s, "none", 4) == 0)
        return read_linear(gguf, found, out, err);
    QR_TRY(read_real(gguf, out, "rope.scaling.factor", &out->rope.factor, err));
    if (type.n == 4 && memcmp(type.s, "yarn", 4) == 0)
        return read_yarn(gguf, out, err);
    if (type.n != 6 || memcmp(type.s, "linear", 6) != 0)
        return qr_fail(err, QR_UNSUPPORTED,
                       "rope scaling \"%.*s\" is not supported; quire knows none, linear and yarn, and "
                       "llama3 and longrope by their tensors",
                       (int)(type.n > 60 ? 60 : type.n), type.s);
    out->rope.kind = QR_ROPE_LINEAR;
    return qr_gguf_real(gguf, key_of(out, "rope.scaling.factor", key), &out->rope.factor, NULL, err);
}

/* GGUF has no key for query_pre_attn_scalar: it is head_dim but in the models of 27B (46 and 62 layers), where it is
 * n_embd / n_head, as llama.cpp has it. */
static enum qr_status read_gemma(const struct qr_gguf *gguf, struct qr_config *out, struct qr_err *err)
{
    double attn_cap = 0, final_cap = 0;
    bool large = out->n_layer == (out->arch == QR_ARCH_GEMMA2 ? 46 : 62);

    qr_config_set_gemma(out);
    out->attn_scale = 1 / sqrtf((float)(large ? out->n_embd / out->n_head : out->head_dim));
    if (out->arch == QR_ARCH_GEMMA3)
        return QR_OK;
    QR_TRY(read_real(gguf, out, "attn_logit_softcapping", &attn_cap, err));
    QR_TRY(read_real(gguf, out, "final_logit_softcapping", &final_cap, err));
    out->attn_cap = (float)attn_cap;
    out->final_cap = (float)final_cap;
    return QR_OK;
}

static enum qr_status add_eos(struct qr_config *out, int64_t id, const char *key, struct qr_err *err)
{
    if (id < 0 || id >= out->n_vocab)
        return qr_fail(err, QR_INVALID, "GGUF key \"%s\" is %lld; the vocabulary has %d tokens", key, (long long)id,
                       out->n_vocab);
    for (int i = 0; i < out->n_eos; i++)
        if (out->eos[i] == id)
            return QR_OK;
    if (out->n_eos < (int)(sizeof out->eos / sizeof out->eos[0]))
        out->eos[out->n_eos++] = (int32_t)id;
    return QR_OK;
}

/* Tokens that end a turn of a chat. A file often names only the one that ends a text, as converters had one key to
 * fill; the markers are found by their text then. */
static bool ends_turn(const struct qr_str *token)
{
    static const char *const marker[] = {"<|im_end|>",      "<|eot_id|>",    "<|eom_id|>", "<|endoftext|>",
                                         "<|end_of_text|>", "<end_of_turn>", "<|end|>"};

    for (size_t i = 0; i < sizeof marker / sizeof marker[0]; i++)
        if (token->n == strlen(marker[i]) && memcmp(token->s, marker[i], token->n) == 0)
            return true;
    return false;
}

static enum qr_status read_tokens(const struct qr_gguf *gguf, struct qr_config *out, struct qr_err *err)
{
    static const char *const eos_key[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                          "tokenizer.ggml.eom_token_id"};
    const struct qr_str *tokens;
    uint64_t n = 0;
    int64_t id;
    bool found;

    for (int i = 0; i < 3; i++) {
        QR_TRY(qr_gguf_int(gguf, eos_key[i], &id, &found, err));
        if (found)
            QR_TRY(add_eos(out, id, eos_key[i], err));
    }
    QR_TRY(qr_gguf_strings(gguf, "tokenizer.ggml.tokens", &tokens, &n, &found, err));
    for (uint64_t i = 0; i < n && i < (uint64_t)out->n_vocab; i++)
        if (ends_turn(&tokens[i]))
            QR_TRY(add_eos(out, (int64_t)i, "tokenizer.ggml.tokens", err));
    id = -1;
    QR_TRY(qr_gguf_int(gguf, "tokenizer.ggml.bos_token_id", &id, &found, err));
    if (found && (id < 0 || id >= out->n_vocab))
        return qr_fail(err, QR_INVALID,
                       "GGUF key \"tokenizer.ggml.bos_token_id\" is %lld; the vocabulary has %d tokens", (long long)id,
                       out->n_vocab);
    out->bos = (int32_t)id;
    return QR_OK;
}

static enum qr_status read_generation(const struct qr_gguf *gguf, struct qr_config *out, struct qr_err *err)
{
    double temperature = -1, top_p = -1, penalty = -1;
    int64_t top_k = -1;
    bool found;

    QR_TRY(qr_gguf_real(gguf, "general.sampling.temp", &temperature, &found, err));
    QR_TRY(qr_gguf_real(gguf, "general.sampling.top_p", &top_p, &found, err));
    QR_TRY(qr_gguf_real(gguf, "general.sampling.penalty_repeat", &penalty, &found, err));
    QR_TRY(qr_gguf_int(gguf, "general.sampling.top_k", &top_k, &found, err));
    if (!(temperature <= 100) || !(top_p <= 1) || !(penalty <= 100) || top_k > INT32_MAX || top_k < INT32_MIN)
        return qr_fail(err, QR_INVALID,
                       "general.sampling: temp %g, top_p %g, penalty_repeat %g, top_k %lld; at most 100, 1, 100 and %d "
                       "are allowed",
                       temperature, top_p, penalty, (long long)top_k, INT32_MAX);
    out->gen_temperature = (float)temperature;
    out->gen_top_p = (float)top_p;
    out->gen_repetition_penalty = (float)penalty;
    out->gen_top_k = (int)top_k;
    return QR_OK;
}

enum qr_status qr_config_from_gguf(const struct qr_gguf *gguf, struct qr_config *out, struct qr_err *err)
{
    struct qr_str name;
    char key[KEY_SIZE];
    bool found;

    qr_config_clear(out);
    QR_TRY(find_arch(gguf, out, err));
    QR_TRY(refuse_unknown(gguf, out, err));
    QR_TRY(read_sizes(gguf, out, err));
    if (out->arch == QR_ARCH_GEMMA2 || out->arch == QR_ARCH_GEMMA3)
        QR_TRY(read_gemma(gguf, out, err));
    QR_TRY(read_rope(gguf, out, err));
    QR_TRY(read_size(gguf, key_of(out, "attention.sliding_window", key), 0, &out->window, err));
    if (out->window >= out->max_len && out->rope_local.theta == 0)
        out->window = 0;
    /* GGUF has no keys for these: what the first layer holds, every layer must hold */
    out->tie_embd = !has(gguf, "output.weight");
    out->qkv_bias = out->arch == QR_ARCH_QWEN2 || has(gguf, "blk.0.attn_q.bias");
    out->o_bias = has(gguf, "blk.0.attn_output.bias");
    out->mlp_bias = has(gguf, "blk.0.ffn_down.bias");
    out->qk_norm = out->arch == QR_ARCH_QWEN3 || out->arch == QR_ARCH_GEMMA3;
    QR_TRY(read_tokens(gguf, out, err));
    QR_TRY(read_generation(gguf, out, err));
    QR_TRY(qr_gguf_string(gguf, "general.name", &name, &found, err));
    if (found)
        qr_name_copy(out->name, sizeof out->name, name.s, name.n);
    return qr_config_check(out, err);
}
