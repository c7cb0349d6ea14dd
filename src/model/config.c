/* config.c - what every config must satisfy, whatever file it came from. */
#include "model/config.h"
#include <math.h>
#include "base/checked.h"

const char *qr_arch_name(enum qr_arch arch)
{
    static const char *const name[QR_N_ARCH] = {"llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3"};

    return (unsigned)arch < QR_N_ARCH ? name[arch] : "?";
}

const char *qr_arch_names(void)
{
    return "llama, qwen2, qwen3, gemma2, gemma3 and phi3";
}

const char *qr_rope_kind_name(enum qr_rope_kind kind)
{
    switch (kind) {
    case QR_ROPE_DEFAULT:
        return "default";
    case QR_ROPE_LINEAR:
        return "linear";
    case QR_ROPE_LLAMA3:
        return "llama3";
    case QR_ROPE_DYNAMIC:
        return "dynamic";
    case QR_ROPE_YARN:
        return "yarn";
    case QR_ROPE_LONGROPE:
        return "longrope";
    }
    return "?";
}

bool qr_config_has_window(const struct qr_config *config, int32_t layer)
{
    return config->window > 0 && layer >= config->window_from &&
           (config->window_period == 0 || (layer + 1) % config->window_period != 0);
}

int32_t qr_config_rope_dim(const struct qr_config *config)
{
    return config->rope_dim != 0 ? config->rope_dim : config->head_dim;
}

/* Caps: several times what the largest published models of these families have, and small enough that a product
 * of any two, in bytes, is far from 2^63. */
#define MAX_LAYER    4096
#define MAX_EMBD     (1 << 18)
#define MAX_HEAD     4096
#define MAX_HEAD_DIM 512
#define MAX_FF       (1 << 21)
#define MAX_VOCAB    (1 << 24)
#define MAX_LEN      (1 << 28)

static enum qr_status in_range(const char *what, int64_t value, int64_t min, int64_t max, struct qr_err *err)
{
    if (value < min || value > max)
        return qr_fail(err, QR_INVALID, "the model's config: %s is %lld; it must be %lld to %lld", what,
                       (long long)value, (long long)min, (long long)max);
    return QR_OK;
}

/* NaN fails too. */
static enum qr_status above_zero(const char *what, double value, double max, struct qr_err *err)
{
    if (!(value > 0 && value <= max))
        return qr_fail(err, QR_INVALID, "the model's config: %s is %g; it must be above 0 and at most %g", what, value,
                       max);
    return QR_OK;
}

static enum qr_status check_yarn(const struct qr_rope *rope, struct qr_err *err)
{
    QR_TRY(above_zero("beta_fast", rope->beta_fast, 1e6, err));
    QR_TRY(above_zero("beta_slow", rope->beta_slow, 1e6, err));
    if (!(rope->theta > 1)) /* its logarithm is divided by */
        return qr_fail(err, QR_INVALID, "the model's config: rope_theta is %g; yarn wants it above 1", rope->theta);
    return QR_OK;
}

static enum qr_status check_longrope(const struct qr_rope *rope, int32_t dim, struct qr_err *err)
{
    if (rope->n_factor != 0 && rope->n_factor != dim / 2)
        return qr_fail(err, QR_INVALID,
                       "the model's config: longrope has %d factors; heads of which %d numbers turn need %d",
                       rope->n_factor, dim, dim / 2);
    if (rope->original_max_len < 2) /* its logarithm is divided by */
        return qr_fail(err, QR_INVALID,
                       "the model's config: original_max_position_embeddings is %d; longrope wants 2 or more",
                       rope->original_max_len);
    for (int32_t i = 0; i < rope->n_factor; i++) {
        QR_TRY(above_zero("a short_factor", (double)rope->short_factor[i], 1e6, err));
        QR_TRY(above_zero("a long_factor", (double)rope->long_factor[i], 1e6, err));
    }
    return QR_OK;
}

static enum qr_status check_rope(const struct qr_rope *rope, int32_t dim, struct qr_err *err)
{
    QR_TRY(above_zero("rope_theta", rope->theta, 1e12, err));
    if (rope->theta < 1) /* its powers would be out of range */
        return qr_fail(err, QR_INVALID, "the model's config: rope_theta is %g; it must be at least 1", rope->theta);
    if (rope->kind == QR_ROPE_DEFAULT || rope->kind == QR_ROPE_DYNAMIC)
        return QR_OK;
    if (rope->kind != QR_ROPE_LONGROPE)
        QR_TRY(above_zero("the rope scaling factor", rope->factor, 1e6, err));
    if (rope->kind == QR_ROPE_LINEAR)
        return QR_OK;
    QR_TRY(in_range("original_max_position_embeddings", rope->original_max_len, 1, MAX_LEN, err));
    if (rope->attention_factor != 0)
        QR_TRY(above_zero("attention_factor", (double)(float)rope->attention_factor, 1e6, err));
    if (rope->kind == QR_ROPE_YARN)
        return check_yarn(rope, err);
    if (rope->kind == QR_ROPE_LONGROPE)
        return check_longrope(rope, dim, err);
    QR_TRY(above_zero("low_freq_factor", rope->low_freq_factor, 1e6, err));
    QR_TRY(above_zero("high_freq_factor", rope->high_freq_factor, 1e6, err));
    if (!(rope->low_freq_factor < rope->high_freq_factor)) /* their difference is divided by */
        return qr_fail(
            err, QR_INVALID,
            "the model's config: low_freq_factor %g must be below high_freq_factor %g in llama3 rope scaling",
            rope->low_freq_factor, rope->high_freq_factor);
    return QR_OK;
}

/* Numbers that only some families have: 0 says that there is none. */
static enum qr_status check_family(const struct qr_config *config, struct qr_err *err)
{
    if (config->embd_scale != 0)
        QR_TRY(above_zero("the scale of embeddings", (double)config->embd_scale, 1e6, err));
    if (config->attn_scale != 0)
        QR_TRY(above_zero("the scale of attention", (double)config->attn_scale, 1e6, err));
    if (config->attn_cap != 0)
        QR_TRY(above_zero("attn_logit_softcapping", (double)config->attn_cap, 1e6, err));
    if (config->final_cap != 0)
        QR_TRY(above_zero("final_logit_softcapping", (double)config->final_cap, 1e6, err));
    if (config->rope_local.theta != 0)
        QR_TRY(check_rope(&config->rope_local, config->head_dim, err));
    return in_range("the period of windows", config->window_period, 0, MAX_LAYER, err);
}

static enum qr_status check_tokens(const struct qr_config *config, struct qr_err *err)
{
    if (config->n_eos < 0 || config->n_eos > (int)(sizeof config->eos / sizeof config->eos[0]))
        return qr_fail(err, QR_INVALID, "the model's config: %d end-of-text ids; at most %zu are allowed",
                       config->n_eos, sizeof config->eos / sizeof config->eos[0]);
    for (int i = 0; i < config->n_eos; i++)
        QR_TRY(in_range("an end-of-text id", config->eos[i], 0, config->n_vocab - 1, err));
    return in_range("bos_token_id", config->bos, -1, config->n_vocab - 1, err);
}

enum qr_status qr_config_check(const struct qr_config *config, struct qr_err *err)
{
    QR_TRY(in_range("the number of layers", config->n_layer, 1, MAX_LAYER, err));
    QR_TRY(in_range("hidden_size", config->n_embd, 1, MAX_EMBD, err));
    QR_TRY(in_range("the number of attention heads", config->n_head, 1, MAX_HEAD, err));
    QR_TRY(in_range("the number of key-value heads", config->n_kv_head, 1, config->n_head, err));
    QR_TRY(in_range("head_dim", config->head_dim, 2, MAX_HEAD_DIM, err));
    QR_TRY(in_range("intermediate_size", config->n_ff, 1, MAX_FF, err));
    QR_TRY(in_range("vocab_size", config->n_vocab, 1, MAX_VOCAB, err));
    QR_TRY(in_range("the context length", config->max_len, 1, MAX_LEN, err));
    if (config->n_head % config->n_kv_head != 0)
        return qr_fail(err, QR_INVALID,
                       "the model's config: %d attention heads cannot be divided among %d key-value heads",
                       config->n_head, config->n_kv_head);
    if (config->head_dim % 2 != 0)
        return qr_fail(err, QR_INVALID, "the model's config: head_dim is %d; it must be even, as rope turns pairs",
                       config->head_dim);
    QR_TRY(above_zero("rms_norm_eps", (double)config->norm_eps, 1, err));
    QR_TRY(in_range("sliding_window", config->window, 0, MAX_LEN, err));
    QR_TRY(in_range("max_window_layers", config->window_from, 0, MAX_LEN, err));
    QR_TRY(in_range("the numbers of a head that rope turns", config->rope_dim, 0, config->head_dim, err));
    if (config->rope_dim % 2 != 0)
        return qr_fail(err, QR_INVALID, "the model's config: rope turns %d numbers of a head; it turns pairs",
                       config->rope_dim);
    if (qr_config_rope_dim(config) != config->head_dim && config->arch != QR_ARCH_PHI3)
        return qr_fail(err, QR_UNSUPPORTED,
                       "the model's config: rope turns %d of the %d numbers of a head (partial_rotary_factor); quire "
                       "turns whole heads, but in Phi-3's family",
                       config->rope_dim, config->head_dim);
    QR_TRY(check_rope(&config->rope, qr_config_rope_dim(config), err));
    QR_TRY(check_family(config, err));
    return check_tokens(config, err);
}
