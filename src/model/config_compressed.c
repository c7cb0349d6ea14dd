/* config_compressed.c - the quantization_config of compressed-tensors: of all that it can say, quire reads weights that are
 * 8-bit floats with a scale for a tensor, a row or a block. What says something else is refused here, before shapes that
 * happen to fit are read as what they are not. Source: compressed_tensors/quantization/{quant_args,quant_config}.py. */
#include <string.h>
#include "base/json.h"
#include "model/config_parts.h"

static enum qr_status refuse(const char *group, const char *what, const char *reads, struct qr_err *err)
{
    return qr_fail(err, QR_UNSUPPORTED, "\"compressed-tensors\" %.60s: %.200s; quire reads %s", group, what, reads);
}

/* Something that must be an object where it stands; null is as if it were not there. */
static enum qr_status check_object(const json_t *value, const char *name, struct qr_err *err)
{
    if (!value || json_is_null(value) || json_is_object(value))
        return QR_OK;
    return qr_fail(err, QR_FORMAT, "\"compressed-tensors\" %.60s must be an object", name);
}

static enum qr_status check_format(const json_t *q, const char *group, const char *format, struct qr_err *err)
{
    QR_TRY(qr_json_string(q, "format", &format, err));
    if (strcmp(format, "float-quantized") == 0)
        return QR_OK;
    return qr_fail(err, QR_UNSUPPORTED,
                   "\"compressed-tensors\"%s%.60s of format %.60s is not supported; quire reads float-quantized",
                   group ? " " : "", group ? group : "", format);
}

static enum qr_status check_numbers(const json_t *weights, const char *name, struct qr_err *err)
{
    const char *type = "int"; /* which the library takes it to be */
    int64_t bits = 8;
    bool symmetric = true;

    QR_TRY(qr_json_string(weights, "type", &type, err));
    QR_TRY(qr_json_int(weights, "num_bits", 1, 64, &bits, err));
    if (strcmp(type, "float") != 0 || bits != 8)
        return qr_fail(err, QR_UNSUPPORTED,
                       "\"compressed-tensors\" %.60s: weights of type %.40s with %lld bits are not "
                       "supported; quire reads floats of 8",
                       name, type, (long long)bits);
    QR_TRY(qr_json_bool(weights, "symmetric", &symmetric, err));
    if (!symmetric)
        return refuse(name, "weights with zero points (symmetric is false) are not supported", "scales alone", err);
    if (json_is_true(json_object_get(weights, "dynamic")) || json_is_string(json_object_get(weights, "dynamic")))
        return refuse(name, "weights with dynamic scales are not supported", "scales that stand in the file", err);
    return QR_OK;
}

/* How weights share scales. Left out, the size of groups tells it, as the library has it. */
static enum qr_status read_strategy(const json_t *weights, const char *name, struct qr_quant *out, struct qr_err *err)
{
    const json_t *order = json_object_get(weights, "actorder"), *block = json_object_get(weights, "block_structure");
    int64_t group = 0;

    QR_TRY(qr_json_int(weights, "group_size", -1, INT32_MAX, &group, err));
    const char *strategy = group > 0 ? "group" : group < 0 ? "channel" : "tensor";
    QR_TRY(qr_json_string(weights, "strategy", &strategy, err));
    bool tensor = strcmp(strategy, "tensor") == 0, channel = strcmp(strategy, "channel") == 0;
    bool blocks = strcmp(strategy, "block") == 0;
    if (!tensor && !channel && !blocks)
        return qr_fail(err, QR_UNSUPPORTED,
                       "\"compressed-tensors\" %.60s: strategy %.40s is not supported; quire reads tensor, channel and "
                       "block",
                       name, strategy);
    if (group > 0 || (group < 0 && !channel))
        return qr_fail(err, QR_FORMAT, "\"compressed-tensors\" %.60s: group_size %lld makes no sense with strategy %s",
                       name, (long long)group, strategy);
    if (order && !json_is_null(order) && !json_is_false(order))
        return qr_fail(err, QR_FORMAT, "\"compressed-tensors\" %.60s: actorder makes no sense with strategy %s", name,
                       strategy);
    bool has_block = block && !json_is_null(block);
    if (has_block != blocks)
        return qr_fail(err, QR_FORMAT, "\"compressed-tensors\" %.60s: strategy %s %s a block_structure", name, strategy,
                       blocks ? "needs" : "has no use for");
    out->scales = tensor ? QR_SCALES_ONE : channel ? QR_SCALES_ROWS : QR_SCALES_ANY;
    return blocks ? qr_config_quant_block(weights, "block_structure", out, err) : QR_OK;
}

/* One of config_groups; blocks are the same in all of them. */
static enum qr_status read_group(const json_t *group, const char *name, bool first, struct qr_quant *out,
                                 struct qr_err *err)
{
    struct qr_quant own = {.method = QR_QUANT_FP8};
    const json_t *weights = json_object_get(group, "weights");

    if (!json_is_object(group) || !json_is_object(weights))
        return refuse(name, "it has no weights", "groups whose weights are quantised", err);
    QR_TRY(check_format(group, name, "float-quantized", err));
    QR_TRY(check_numbers(weights, name, err));
    QR_TRY(read_strategy(weights, name, &own, err));
    if (!first && (own.block_rows != out->block_rows || own.block_cols != out->block_cols))
        return qr_fail(err, QR_UNSUPPORTED,
                       "\"compressed-tensors\" %.60s: groups whose blocks differ are not supported", name);
    if (!first && own.scales != out->scales)
        own.scales = QR_SCALES_ANY; /* which matrix is in which group is not looked at */
    *out = own;
    return QR_OK;
}

enum qr_status qr_config_quant_compressed(const json_t *q, struct qr_quant *out, struct qr_err *err)
{
    const json_t *groups = json_object_get(q, "config_groups"), *sparsity = json_object_get(q, "sparsity_config");
    const char *name, *sparse = "dense";
    json_t *group;
    int n = 0;

    QR_TRY(check_format(q, NULL, "?", err));
    QR_TRY(check_object(groups, "config_groups", err));
    QR_TRY(check_object(sparsity, "sparsity_config", err));
    QR_TRY(qr_json_string(sparsity, "format", &sparse, err));
    if (strcmp(sparse, "dense") != 0)
        return refuse("sparsity_config", "weights with parts left out are not supported", "dense ones", err);
    if (json_object_size(json_object_get(q, "transform_config")) > 0)
        return qr_fail(err, QR_UNSUPPORTED, "\"compressed-tensors\" with a transform_config is not supported");
    out->method = QR_QUANT_FP8;
    json_object_foreach((json_t *)(uintptr_t)groups, name, group)
    {
        QR_TRY(read_group(group, name, n++ == 0, out, err));
    }
    return QR_OK;
}
