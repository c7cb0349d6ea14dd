/* config_gguf.c - struct qr_config out of the keys and tensor names of a GGUF file. Keys: docs/gguf.md of the ggml
 * repository and the constants of gguf-py. */
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
    static const enum qr_arch known[] = {QR_ARCH_LLAMA, QR_ARCH_QWEN2, QR_ARCH_QWEN3};
    struct qr_str name;

    QR_TRY(qr_gguf_string(gguf, "general.architecture", &name, NULL, err));
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const char *own = qr_arch_name(known[i]);

        out->arch = known[i];
        if (name.n == strlen(own) && memcmp(name.s, own, name.n) == 0)
            return QR_OK;
    }
    return qr_fail(err, QR_UNSUPPORTED,
                   "the architecture is \"%.*s\"; quire knows llama, qwen2 and qwen3 in GGUF files",
                   (int)(name.n > 60 ? 60 : name.n), name.s);
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
    if (n_rot != out->head_dim)
        return qr_fail(err, QR_UNSUPPORTED, "rope turns %d of the %d numbers of a head; quire turns whole heads only",
                       n_rot, out->head_dim);
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
        if (value != refused[i].neutral && value != 0)
            return qr_fail(err, QR_UNSUPPORTED, "GGUF key \"%s\" is %g, which quire does not know", key, value);
    }
    QR_TRY(qr_gguf_int(gguf, key_of(config, "expert_count", key), &n_expert, &found, err));
    if (n_expert > 0)
        return qr_fail(err, QR_UNSUPPORTED, "the model is a mixture of %lld experts, which quire does not know",
                       (long long)n_expert);
    return QR_OK;
}

static enum qr_status read_rope(const struct qr_gguf *gguf, struct qr_config *out, struct qr_err *err)
{
    struct qr_str type = {"none", 4};
    char key[KEY_SIZE];
    bool found;

    QR_TRY(qr_gguf_real(gguf, key_of(out, "rope.freq_base", key), &out->rope.theta, &found, err));
    QR_TRY(qr_gguf_string(gguf, key_of(out, "rope.scaling.type", key), &type, &found, err));
    if (type.n == 4 && memcmp(type.s, "none", 4) == 0) {
        double factor = 0;

        if (found) /* "none" was said: an old linear factor would contradict it */
            return QR_OK;
        QR_TRY(qr_gguf_real(gguf, key_of(out, "rope.scale_linear", key), &factor, &found, err));
        if (found && factor != 0 && factor != 1) {
            out->rope.kind = QR_ROPE_LINEAR;
            out->rope.factor = factor;
        }
        return QR_OK;
    }
    if (type.n != 6 || memcmp(type.s, "linear", 6) != 0)
        return qr_fail(err, QR_UNSUPPORTED,
                       "rope scaling \"%.*s\" is not supported; quire knows none and linear, and "
                       "llama3 by its tensor rope_freqs",
                       (int)(type.n > 60 ? 60 : type.n), type.s);
    out->rope.kind = QR_ROPE_LINEAR;
    return qr_gguf_real(gguf, key_of(out, "rope.scaling.factor", key), &out->rope.factor, NULL, err);
}

static bool has(const struct qr_gguf *gguf, const char *tensor)
{
    return qr_gguf_find(gguf, tensor) != NULL;
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
    static const char *const marker[] = {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>"};

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
    QR_TRY(read_rope(gguf, out, err));
    QR_TRY(read_size(gguf, key_of(out, "attention.sliding_window", key), 0, &out->window, err));
    if (out->window >= out->max_len)
        out->window = 0;
    /* GGUF has no keys for these: what the first layer holds, every layer must hold */
    out->tie_embd = !has(gguf, "output.weight");
    out->qkv_bias = out->arch == QR_ARCH_QWEN2 || has(gguf, "blk.0.attn_q.bias");
    out->o_bias = has(gguf, "blk.0.attn_output.bias");
    out->mlp_bias = has(gguf, "blk.0.ffn_down.bias");
    out->qk_norm = out->arch == QR_ARCH_QWEN3;
    QR_TRY(read_tokens(gguf, out, err));
    QR_TRY(read_generation(gguf, out, err));
    QR_TRY(qr_gguf_string(gguf, "general.name", &name, &found, err));
    if (found)
        qr_name_copy(out->name, sizeof out->name, name.s, name.n);
    return qr_config_check(out, err);
}
