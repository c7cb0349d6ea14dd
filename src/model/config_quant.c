/* config_quant.c - quantization_config of a config.json: the three kinds of quantised safetensors that quire reads.
 * Sources: the model cards and files of Qwen's and DeepSeek's FP8 releases; AutoGPTQ's and GPTQModel's quantize_config;
 * AutoAWQ's quant_config; compressed-tensors' float-quantized. */
#include <string.h>
#include "base/json.h"
#include "model/config_parts.h"

static enum qr_status read_bits(const json_t *q, const char *method, struct qr_quant *out, struct qr_err *err)
{
    int64_t bits = 4, group = 128;

    QR_TRY(qr_json_int(q, "bits", 1, 64, &bits, err));
    QR_TRY(qr_json_int(q, "w_bit", 1, 64, &bits, err));
    if (bits != 4)
        return qr_fail(err, QR_UNSUPPORTED, "\"%s\" with %lld bits is not supported; quire reads it with 4", method,
                       (long long)bits);
    QR_TRY(qr_json_int(q, "group_size", -1, 1 << 20, &group, err));
    QR_TRY(qr_json_int(q, "q_group_size", -1, 1 << 20, &group, err));
    if (group != -1 && (group < 32 || group % 32 != 0))
        return qr_fail(err, QR_UNSUPPORTED,
                       "\"%s\" with groups of %lld is not supported; quire reads groups that are multiples of 32, "
                       "or -1 for whole rows",
                       method, (long long)group);
    out->group = group == -1 ? 0 : (int32_t)group;
    return QR_OK;
}

static enum qr_status read_gptq(const json_t *q, struct qr_quant *out, struct qr_err *err)
{
    const char *format = "gptq";

    out->method = QR_QUANT_GPTQ;
    QR_TRY(read_bits(q, "gptq", out, err));
    QR_TRY(qr_json_bool(q, "desc_act", &out->act_order, err));
    QR_TRY(qr_json_string(q, "checkpoint_format", &format, err));
    if (strcmp(format, "gptq") != 0 && strcmp(format, "gptq_v2") != 0)
        return qr_fail(err, QR_UNSUPPORTED, "checkpoint_format \"%s\" is not supported; quire reads gptq and gptq_v2",
                       format);
    out->zeros_as_they_are = strcmp(format, "gptq_v2") == 0;
    return QR_OK;
}

static enum qr_status read_awq(const json_t *q, struct qr_quant *out, struct qr_err *err)
{
    const char *version = "gemm";

    out->method = QR_QUANT_AWQ;
    QR_TRY(read_bits(q, "awq", out, err));
    QR_TRY(qr_json_string(q, "version", &version, err));
    if (strcasecmp(version, "gemm") != 0)
        return qr_fail(err, QR_UNSUPPORTED, "\"awq\" of version %s is not supported; quire reads gemm", version);
    return QR_OK;
}

/* [rows, columns] that share a scale, under a key. */
static enum qr_status read_block(const json_t *q, const char *key, struct qr_quant *out, struct qr_err *err)
{
    const json_t *block = json_object_get(q, key);
    int64_t rows, cols;

    if (!block || json_is_null(block))
        return QR_OK;
    rows = json_integer_value(json_array_get(block, 0));
    cols = json_integer_value(json_array_get(block, 1));
    if (json_array_size(block) != 2 || rows < 1 || rows > 1 << 20 || cols < 32 || cols > 1 << 20 || cols % 32 != 0)
        return qr_fail(err, QR_UNSUPPORTED, "\"%s\" must be two numbers, the second a multiple of 32, as in [128, 128]",
                       key);
    out->block_rows = (int32_t)rows;
    out->block_cols = (int32_t)cols;
    return QR_OK;
}

static enum qr_status read_fp8(const json_t *q, struct qr_quant *out, struct qr_err *err)
{
    const char *format = "e4m3";

    out->method = QR_QUANT_FP8;
    QR_TRY(qr_json_string(q, "fmt", &format, err));
    if (strcmp(format, "e4m3") != 0 && strcmp(format, "float8_e4m3fn") != 0)
        return qr_fail(err, QR_UNSUPPORTED, "\"fp8\" of fmt %s is not supported; quire reads e4m3", format);
    return read_block(q, "weight_block_size", out, err);
}

/* One of compressed-tensors' config_groups: 8-bit floats with a scale for a tensor, a row or a block, the same block in
 * all groups. */
static enum qr_status read_group(const json_t *group, const char *name, bool first, struct qr_quant *out,
                                 struct qr_err *err)
{
    const json_t *weights = json_object_get(group, "weights");
    struct qr_quant own = {.method = QR_QUANT_FP8};
    const char *type = "float", *strategy = "tensor";
    int64_t bits = 8;

    QR_TRY(qr_json_string(weights, "type", &type, err));
    QR_TRY(qr_json_string(weights, "strategy", &strategy, err));
    QR_TRY(qr_json_int(weights, "num_bits", 1, 64, &bits, err));
    if (strcmp(type, "float") != 0 || bits != 8)
        return qr_fail(err, QR_UNSUPPORTED,
                       "\"compressed-tensors\" %.60s: weights of type %.40s with %lld bits are not "
                       "supported; quire reads floats of 8",
                       name, type, (long long)bits);
    if (strcmp(strategy, "block") == 0)
        QR_TRY(read_block(weights, "block_structure", &own, err));
    if (!first && (own.block_rows != out->block_rows || own.block_cols != out->block_cols))
        return qr_fail(err, QR_UNSUPPORTED,
                       "\"compressed-tensors\" %.60s: groups whose blocks differ are not supported", name);
    *out = own;
    return QR_OK;
}

/* compressed-tensors names a format for all its groups of layers. */
static enum qr_status read_compressed(const json_t *q, struct qr_quant *out, struct qr_err *err)
{
    const char *format = "?", *name;
    json_t *group;
    int n = 0;

    QR_TRY(qr_json_string(q, "format", &format, err));
    if (strcmp(format, "float-quantized") != 0)
        return qr_fail(err, QR_UNSUPPORTED,
                       "\"compressed-tensors\" of format %s is not supported; quire reads "
                       "float-quantized",
                       format);
    if (json_object_size(json_object_get(q, "transform_config")) > 0)
        return qr_fail(err, QR_UNSUPPORTED, "\"compressed-tensors\" with a transform_config is not supported");
    out->method = QR_QUANT_FP8;
    json_object_foreach(json_object_get(q, "config_groups"), name, group)
    {
        QR_TRY(read_group(group, name, n++ == 0, out, err));
    }
    return QR_OK;
}

enum qr_status qr_config_quant_from_hf(const json_t *config, struct qr_config *out, struct qr_err *err)
{
    static const struct {
        const char *name;
        enum qr_status (*read)(const json_t *q, struct qr_quant *out, struct qr_err *err);
    } known[] = {{"fp8", read_fp8}, {"gptq", read_gptq}, {"awq", read_awq}, {"compressed-tensors", read_compressed}};
    const json_t *q = json_object_get(config, "quantization_config");
    const char *method = json_string_value(json_object_get(q, "quant_method"));

    if (!q || json_is_null(q))
        return QR_OK;
    for (size_t i = 0; method && i < sizeof known / sizeof known[0]; i++)
        if (strcmp(method, known[i].name) == 0)
            return known[i].read(q, &out->quant, err);
    return qr_fail(err, QR_UNSUPPORTED,
                   "the weights are quantised by \"%s\" (quantization_config); quire reads fp8, gptq and awq "
                   "safetensors, and quantised models as GGUF",
                   method ? method : "?");
}
