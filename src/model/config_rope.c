/* config_rope.c - the rope part of a config.json, in its three spellings: rope_theta and rope_scaling with "type" or
 * "rope_type", and rope_parameters of transformers 5, which has all in one object. */
#include <math.h>
#include <string.h>
#include "base/json.h"
#include "model/config_parts.h"

void qr_config_clear(struct qr_config *config)
{
    *config = (struct qr_config){
        .bos = -1,
        .rope = {.theta = 10000},
        .gen_temperature = -1,
        .gen_top_p = -1,
        .gen_repetition_penalty = -1,
        .gen_top_k = -1,
    };
}

void qr_config_set_gemma(struct qr_config *config)
{
    config->gelu = config->post_norms = true;
    config->embd_scale = (float)sqrt(config->n_embd);
    config->window_period = config->arch == QR_ARCH_GEMMA2 ? 2 : 6;
    config->qk_norm = config->arch == QR_ARCH_GEMMA3;
    if (config->arch == QR_ARCH_GEMMA3) {
        config->rope.theta = 1e6; /* when the file does not say */
        config->rope_local = (struct qr_rope){.theta = 10000};
    }
}

/* Real numbers that scaling cannot do without. */
static enum qr_status need_real(const json_t *scaling, const char *key, double *out, struct qr_err *err)
{
    const json_t *value = json_object_get(scaling, key);

    if (!value || json_is_null(value))
        return qr_fail(err, QR_FORMAT, "\"%s\" is missing", key);
    return qr_json_real(scaling, key, 0, 1e9, out, err);
}

static enum qr_status read_yarn(const json_t *scaling, struct qr_rope *rope, struct qr_err *err)
{
    bool truncate = true;

    rope->kind = QR_ROPE_YARN;
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    QR_TRY(need_real(scaling, "factor", &rope->factor, err));
    QR_TRY(qr_json_real(scaling, "attention_factor", 0, 1e6, &rope->attention_factor, err));
    QR_TRY(qr_json_real(scaling, "beta_fast", 0, 1e6, &rope->beta_fast, err));
    QR_TRY(qr_json_real(scaling, "beta_slow", 0, 1e6, &rope->beta_slow, err));
    QR_TRY(qr_json_real(scaling, "mscale", 0, 1e6, &rope->mscale, err));
    QR_TRY(qr_json_real(scaling, "mscale_all_dim", 0, 1e6, &rope->mscale_all_dim, err));
    QR_TRY(qr_json_bool(scaling, "truncate", &truncate, err));
    rope->no_truncate = !truncate;
    return QR_OK;
}

static enum qr_status read_factors(const json_t *scaling, const char *key, struct qr_rope *rope, float *out,
                                   struct qr_err *err)
{
    const json_t *list = json_object_get(scaling, key);
    size_t n = json_array_size(list);

    if (n < 1 || n > QR_ROPE_MAX_FACTOR || (rope->n_factor && (size_t)rope->n_factor != n))
        return qr_fail(err, QR_FORMAT, "\"%s\" must list a number for each pair of a head, but lists %zu", key, n);
    for (size_t i = 0; i < n; i++) {
        if (!json_is_number(json_array_get(list, i)))
            return qr_fail(err, QR_FORMAT, "\"%s\" holds something that is no number", key);
        out[i] = (float)json_number_value(json_array_get(list, i));
    }
    rope->n_factor = (int32_t)n;
    return QR_OK;
}

static enum qr_status read_longrope(const json_t *scaling, struct qr_rope *rope, struct qr_err *err)
{
    rope->kind = QR_ROPE_LONGROPE;
    QR_TRY(read_factors(scaling, "short_factor", rope, rope->short_factor, err));
    QR_TRY(read_factors(scaling, "long_factor", rope, rope->long_factor, err));
    QR_TRY(qr_json_real(scaling, "factor", 0, 1e6, &rope->factor, err));
    return qr_json_real(scaling, "attention_factor", 0, 1e6, &rope->attention_factor, err);
}

static enum qr_status read_llama3(const json_t *scaling, struct qr_rope *rope, struct qr_err *err)
{
    rope->kind = QR_ROPE_LLAMA3;
    QR_TRY(need_real(scaling, "factor", &rope->factor, err));
    QR_TRY(need_real(scaling, "low_freq_factor", &rope->low_freq_factor, err));
    return need_real(scaling, "high_freq_factor", &rope->high_freq_factor, err);
}

/* original: what stands in place of original_max_position_embeddings when the object does not say it; 0: it must. */
static enum qr_status read_scaling(const json_t *scaling, int64_t original, struct qr_rope *rope, struct qr_err *err)
{
    const char *type = NULL;

    QR_TRY(qr_json_string(scaling, "type", &type, err));
    QR_TRY(qr_json_string(scaling, "rope_type", &type, err)); /* the newer one wins */
    if (!type || strcmp(type, "default") == 0 || strcmp(type, "mrope") == 0)
        return QR_OK;
    if (strcmp(type, "dynamic") == 0) {
        rope->kind = QR_ROPE_DYNAMIC;
        return QR_OK;
    }
    if (strcmp(type, "linear") == 0) {
        rope->kind = QR_ROPE_LINEAR;
        return need_real(scaling, "factor", &rope->factor, err);
    }
    if (strcmp(type, "llama3") == 0) {
        QR_TRY(read_llama3(scaling, rope, err));
        original = 0;
    } else if (strcmp(type, "yarn") == 0) {
        QR_TRY(read_yarn(scaling, rope, err));
    } else if (strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0) { /* its name in Phi-3's first files */
        QR_TRY(read_longrope(scaling, rope, err));
    } else {
        return qr_fail(
            err, QR_UNSUPPORTED,
            "rope type \"%s\" is not supported; quire knows default, linear, dynamic, yarn, longrope, llama3 "
            "and mrope",
            type);
    }
    QR_TRY(qr_json_int(scaling, "original_max_position_embeddings", 1, INT32_MAX, &original, err));
    if (original == 0)
        return qr_fail(err, QR_FORMAT, "\"original_max_position_embeddings\" is missing");
    rope->original_max_len = (int32_t)original;
    return QR_OK;
}

/* int(head_dim * partial_rotary_factor), as transformers has it. */
static enum qr_status read_part(const json_t *object, struct qr_config *out, struct qr_err *err)
{
    double part = 1;

    QR_TRY(qr_json_real(object, "partial_rotary_factor", 0, 1e9, &part, err));
    if (!(part > 0 && part <= 1) || (int32_t)(out->head_dim * part) < 2)
        return qr_fail(
            err, QR_INVALID,
            "partial_rotary_factor is %g; of a head of %d numbers it must leave 2 or more, and not more than all", part,
            out->head_dim);
    if (part != 1)
        out->rope_dim = (int32_t)(out->head_dim * part);
    return QR_OK;
}

static enum qr_status read_object(const json_t *object, int64_t original, struct qr_rope *rope, struct qr_config *out,
                                  struct qr_err *err)
{
    QR_TRY(qr_json_real(object, "rope_theta", 0, 1e12, &rope->theta, err));
    QR_TRY(read_part(object, out, err));
    return read_scaling(object, original, rope, err);
}

/* rope_parameters of a family whose layers with a window turn otherwise. */
static enum qr_status read_both(const json_t *object, int64_t original, struct qr_config *out, struct qr_err *err)
{
    if (out->rope_local.theta == 0)
        return qr_fail(err, QR_UNSUPPORTED, "it differs by layer, which quire does not know for %s models",
                       qr_arch_name(out->arch));
    QR_TRY(read_object(json_object_get(object, "full_attention"), original, &out->rope, out, err));
    return read_object(json_object_get(object, "sliding_attention"), original, &out->rope_local, out, err);
}

enum qr_status qr_config_rope_from_hf(const json_t *config, struct qr_config *out, struct qr_err *err)
{
    static const char *const spelling[] = {"rope_parameters", "rope_scaling"};
    int64_t original = out->max_len;
    enum qr_status status;

    QR_TRY(qr_json_real(config, "rope_theta", 0, 1e12, &out->rope.theta, err));
    if (out->rope_local.theta != 0)
        QR_TRY(qr_json_real(config, "rope_local_base_freq", 0, 1e12, &out->rope_local.theta, err));
    QR_TRY(qr_json_int(config, "original_max_position_embeddings", 1, INT32_MAX, &original, err));
    QR_TRY(read_part(config, out, err));
    for (int i = 0; i < 2; i++) {
        const json_t *scaling = json_object_get(config, spelling[i]);

        if (!scaling || json_is_null(scaling))
            continue;
        if (!json_is_object(scaling))
            return qr_fail(err, QR_FORMAT, "\"%s\" is no JSON object", spelling[i]);
        if (json_is_object(json_object_get(scaling, "full_attention")) ||
            json_is_object(json_object_get(scaling, "sliding_attention")))
            status = read_both(scaling, original, out, err);
        else
            status = read_object(scaling, original, &out->rope, out, err);
        if (status != QR_OK)
            return qr_err_prefix(err, status, "\"%s\"", spelling[i]);
        break;
    }
    /* yarn reaches further than it was trained; Qwen2.5's files leave max_position_embeddings as it was */
    if (out->rope.kind == QR_ROPE_YARN && out->rope.original_max_len * out->rope.factor > out->max_len)
        out->max_len = (int32_t)fmin(out->rope.original_max_len * out->rope.factor, 1 << 28);
    return QR_OK;
}
