/* config_rope.c - the rope part of a config.json, in its three spellings: rope_theta and rope_scaling with "type" or
 * "rope_type", and rope_parameters of transformers 5, which has all in one object. */
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

/* Real numbers that scaling cannot do without. */
static enum qr_status need_real(const json_t *scaling, const char *key, double *out, struct qr_err *err)
{
    const json_t *value = json_object_get(scaling, key);

    if (!value || json_is_null(value))
        return qr_fail(err, QR_FORMAT, "\"%s\" is missing", key);
    return qr_json_real(scaling, key, 0, 1e9, out, err);
}

static enum qr_status read_scaling(const json_t *scaling, struct qr_config *out, struct qr_err *err)
{
    struct qr_rope *rope = &out->rope;
    const char *type = NULL;
    int64_t original = 0;

    QR_TRY(qr_json_string(scaling, "type", &type, err));
    QR_TRY(qr_json_string(scaling, "rope_type", &type, err)); /* the newer one wins */
    if (!type || strcmp(type, "default") == 0)
        return QR_OK;
    if (strcmp(type, "linear") == 0) {
        rope->kind = QR_ROPE_LINEAR;
        return need_real(scaling, "factor", &rope->factor, err);
    }
    if (strcmp(type, "llama3") != 0)
        return qr_fail(err, QR_UNSUPPORTED, "rope type \"%s\" is not supported; quire knows default, linear and llama3",
                       type);
    rope->kind = QR_ROPE_LLAMA3;
    QR_TRY(need_real(scaling, "factor", &rope->factor, err));
    QR_TRY(need_real(scaling, "low_freq_factor", &rope->low_freq_factor, err));
    QR_TRY(need_real(scaling, "high_freq_factor", &rope->high_freq_factor, err));
    QR_TRY(qr_json_int(scaling, "original_max_position_embeddings", 1, INT32_MAX, &original, err));
    if (original == 0)
        return qr_fail(err, QR_FORMAT, "\"original_max_position_embeddings\" is missing");
    rope->original_max_len = (int32_t)original;
    return QR_OK;
}

static enum qr_status whole_head(const json_t *object, struct qr_err *err)
{
    double part = 1;

    QR_TRY(qr_json_real(object, "partial_rotary_factor", 0, 1e9, &part, err));
    if (part != 1)
        return qr_fail(err, QR_UNSUPPORTED, "partial_rotary_factor is %g; quire turns whole heads only", part);
    return QR_OK;
}

enum qr_status qr_config_rope_from_hf(const json_t *config, struct qr_config *out, struct qr_err *err)
{
    static const char *const spelling[] = {"rope_parameters", "rope_scaling"};
    enum qr_status status;

    QR_TRY(qr_json_real(config, "rope_theta", 0, 1e12, &out->rope.theta, err));
    QR_TRY(whole_head(config, err));
    for (int i = 0; i < 2; i++) {
        const json_t *scaling = json_object_get(config, spelling[i]);

        if (!scaling || json_is_null(scaling))
            continue;
        if (!json_is_object(scaling))
            return qr_fail(err, QR_FORMAT, "\"%s\" is no JSON object", spelling[i]);
        if (json_is_object(json_object_get(scaling, "full_attention")) ||
            json_is_object(json_object_get(scaling, "sliding_attention")))
            return qr_fail(err, QR_UNSUPPORTED, "\"%s\" differs by layer, which quire does not know", spelling[i]);
        status = qr_json_real(scaling, "rope_theta", 0, 1e12, &out->rope.theta, err);
        if (status == QR_OK)
            status = whole_head(scaling, err);
        if (status == QR_OK)
            status = read_scaling(scaling, out, err);
        if (status != QR_OK)
            return qr_err_prefix(err, status, "\"%s\"", spelling[i]);
        return QR_OK;
    }
    return QR_OK;
}
