/* config_quant.c - quantization_config of a config.json: the three kinds of quantised safetensors that quire reads.
 * Sources: the model cards and files of Qwen's and DeepSeek's FP8 releases; AutoGPTQ's and GPTQModel's quantize_config;
 * AutoAWQ's quant_config; for compressed-tensors see config_compressed.c. */
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

enum qr_status qr_config_quant_block(const json_t *q, const char *key, struct qr_quant *out, struct qr_err *err)
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
    return qr_config_quant_block(q, "weight_block_size", out, err);
}

enum qr_status qr_config_quant_from_hf(const json_t *config, struct qr_config *out, struct qr_err *err)
{
    static const struct {
        const char *name;
        enum qr_status (*read)(const json_t *q, struct qr_quant *out, struct qr_err *err);
    } known[] = {
        {"fp8", read_fp8}, {"gptq", read_gptq}, {"awq", read_awq}, {"compressed-tensors", qr_config_quant_compressed}};
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
