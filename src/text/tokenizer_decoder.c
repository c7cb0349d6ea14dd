/* tokenizer_decoder.c - the decoder of a tokenizer.json. */
#include <string.h>
#include "base/json.h"
#include "text/tokenizer_impl.h"

static enum qr_status read_char(const json_t *json, const char *key, struct qr_decode_step *step, struct qr_err *err)
{
    const char *text = NULL;
    size_t len;

    QR_TRY(qr_json_string(json, key, &text, err));
    if (!text || !text[0])
        return qr_fail(err, QR_FORMAT, "a step of the decoder lacks its \"%s\"", key);
    qr_utf8_get(text, &len);
    if (text[len])
        return qr_fail(err, QR_FORMAT, "\"%s\" of the decoder must be one character, not \"%.40s\"", key, text);
    memcpy(step->text, text, len);
    step->n_text = len;
    return QR_OK;
}

static enum qr_status read_strip(const json_t *json, struct qr_decode_step *step, struct qr_err *err)
{
    int64_t start = 0, stop = 0;

    step->kind = QR_DECODE_STRIP;
    QR_TRY(read_char(json, "content", step, err));
    QR_TRY(qr_json_int(json, "start", 0, INT64_MAX, &start, err));
    QR_TRY(qr_json_int(json, "stop", 0, INT64_MAX, &stop, err));
    step->start = (size_t)start;
    step->stop = (size_t)stop;
    return QR_OK;
}

static enum qr_status read_metaspace(const json_t *json, struct qr_decode_step *step, struct qr_err *err)
{
    const char *scheme = NULL;
    bool add = true;

    step->kind = QR_DECODE_METASPACE;
    QR_TRY(read_char(json, "replacement", step, err));
    QR_TRY(qr_json_string(json, "prepend_scheme", &scheme, err));
    QR_TRY(qr_json_bool(json, "add_prefix_space", &add, err));
    step->drop = scheme ? strcmp(scheme, "never") != 0 : add;
    return QR_OK;
}

/* *bytes: ByteLevel was there. */
static enum qr_status decoder(const json_t *json, int depth, struct qr_decoder *out, bool *bytes, struct qr_err *err)
{
    struct qr_decode_step step = {0};
    const char *type;
    json_t *list, *item;
    size_t i;

    QR_TRY(qr_component_type(json, "decoder", &type, err));
    if (strcmp(type, "Sequence") == 0) {
        QR_TRY(qr_component_list(json, "decoder", "decoders", depth, &list, err));
        json_array_foreach(list, i, item) QR_TRY(decoder(item, depth + 1, out, bytes, err));
        return QR_OK;
    }
    if (strcmp(type, "ByteLevel") == 0) {
        *bytes = true;
        return QR_OK;
    }
    if (strcmp(type, "ByteFallback") == 0) {
        step.kind = QR_DECODE_BYTE_FALLBACK;
    } else if (strcmp(type, "Fuse") == 0) {
        step.kind = QR_DECODE_FUSE;
    } else if (strcmp(type, "Replace") == 0) {
        step.kind = QR_DECODE_REPLACE;
        QR_TRY(qr_component_replace(json, "decoder", &step.replace, err));
    } else if (strcmp(type, "Strip") == 0) {
        QR_TRY(read_strip(json, &step, err));
    } else if (strcmp(type, "Metaspace") == 0) {
        QR_TRY(read_metaspace(json, &step, err));
    } else {
        return qr_component_refuse("decoder", type,
                                   "ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip and Sequence are", err);
    }
    return qr_decoder_add(out, &step, err);
}

enum qr_status qr_tokenizer_read_decoder(const json_t *json, struct qr_tokenizer *tok, struct qr_err *err)
{
    bool bytes = false, any = json && !json_is_null(json);

    if (any)
        QR_TRY(decoder(json, 0, &tok->decoder, &bytes, err));
    if (!tok->text && (!bytes || tok->decoder.n > 0))
        return qr_fail(err, QR_UNSUPPORTED,
                       "the pre-tokenizer ByteLevel is supported with the decoder ByteLevel alone, which this "
                       "tokenizer has not");
    if (tok->text && bytes)
        return qr_fail(err, QR_UNSUPPORTED,
                       "the decoder ByteLevel is supported with the pre-tokenizer ByteLevel alone, which this "
                       "tokenizer has not");
    tok->decoder.joined = !any;
    return QR_OK;
}
