/* tokenizer_component.c - what components of a tokenizer.json have in common, and the normalizer. */
#include <stdlib.h>
#include <string.h>
#include "base/base64.h"
#include "base/json.h"
#include "text/tokenizer_impl.h"

enum qr_status qr_component_type(const json_t *json, const char *part, const char **type, struct qr_err *err)
{
    *type = NULL;
    if (json_is_object(json))
        QR_TRY(qr_json_string(json, "type", type, err));
    if (!*type)
        return qr_fail(err, QR_FORMAT, "the %s has no \"type\"", part);
    return QR_OK;
}

enum qr_status qr_component_refuse(const char *part, const char *type, const char *known, struct qr_err *err)
{
    return qr_fail(err, QR_UNSUPPORTED, "the %s \"%.80s\" is not supported (%s)", part, type, known);
}

enum qr_status qr_component_list(const json_t *json, const char *part, const char *key, int depth, json_t **list,
                                 struct qr_err *err)
{
    *list = json_object_get(json, key);
    if (!json_is_array(*list))
        return qr_fail(err, QR_FORMAT, "a Sequence of the %s lacks its list \"%s\"", part, key);
    if (depth >= QR_MAX_NESTING)
        return qr_fail(err, QR_LIMIT, "the %s nests Sequences more than %d deep", part, QR_MAX_NESTING);
    return QR_OK;
}

static enum qr_status copy(const json_t *value, char **out, size_t *n, struct qr_err *err)
{
    *n = json_string_length(value);
    *out = malloc(*n + 1);
    if (!*out)
        return qr_fail(err, QR_NOMEM, "out of memory for a text of %zu bytes", *n);
    memcpy(*out, json_string_value(value), *n + 1);
    return QR_OK;
}

enum qr_status qr_component_replace(const json_t *json, const char *part, struct qr_normal_step *step,
                                    struct qr_err *err)
{
    const json_t *pattern = json_object_get(json, "pattern"), *content = json_object_get(json, "content");
    const json_t *regex = json_object_get(pattern, "Regex"), *string = json_object_get(pattern, "String");
    enum qr_status status;

    *step = (struct qr_normal_step){.kind = QR_NORMAL_REPLACE};
    if (!json_is_string(content) || (!json_is_string(regex) && !json_is_string(string)))
        return qr_fail(err, QR_FORMAT,
                       "the %s Replace needs a \"pattern\" with \"Regex\" or \"String\", and \"content\"", part);
    QR_TRY(copy(content, &step->content, &step->n_content, err));
    status = json_is_string(string)
                 ? copy(string, &step->text, &step->n_text, err)
                 : qr_regex_compile(json_string_value(regex), json_string_length(regex), &step->regex, err);
    if (status != QR_OK) {
        free(step->content);
        *step = (struct qr_normal_step){0};
    }
    return status;
}

static enum qr_status read_strip(const json_t *json, struct qr_normal_step *step, struct qr_err *err)
{
    step->kind = QR_NORMAL_STRIP;
    step->left = step->right = true;
    QR_TRY(qr_json_bool(json, "strip_left", &step->left, err));
    return qr_json_bool(json, "strip_right", &step->right, err);
}

static enum qr_status read_prepend(const json_t *json, struct qr_normal_step *step, struct qr_err *err)
{
    const json_t *text = json_object_get(json, "prepend");

    step->kind = QR_NORMAL_PREPEND;
    if (!json_is_string(text))
        return qr_fail(err, QR_FORMAT, "the normalizer Prepend needs a text \"prepend\"");
    return copy(text, &step->content, &step->n_content, err);
}

/* {"precompiled_charsmap": base64} */
static enum qr_status read_charsmap(const json_t *json, struct qr_normal_step *step, struct qr_err *err)
{
    const json_t *text = json_object_get(json, "precompiled_charsmap");
    enum qr_status status = QR_OK;
    struct qr_buf bytes;

    step->kind = QR_NORMAL_CHARSMAP;
    qr_buf_init(&bytes, 0);
    if (!json_is_string(text) || !qr_base64_decode(json_string_value(text), json_string_length(text), &bytes))
        status = bytes.failed
                     ? qr_fail(err, QR_NOMEM, "out of memory for a tokenizer")
                     : qr_fail(err, QR_FORMAT, "the normalizer Precompiled needs a \"precompiled_charsmap\" in base64");
    if (status == QR_OK)
        status = qr_charsmap_read(bytes.data ? bytes.data : "", bytes.len, &step->map, err);
    qr_buf_free(&bytes);
    return status;
}

static enum qr_status normalizer(const json_t *json, int depth, struct qr_normalizer *out, struct qr_err *err)
{
    static const char *const forms[] = {[QR_NFC] = "NFC", [QR_NFD] = "NFD", [QR_NFKC] = "NFKC", [QR_NFKD] = "NFKD"};
    struct qr_normal_step step = {0};
    const char *type;
    json_t *list, *item;
    size_t i;

    QR_TRY(qr_component_type(json, "normalizer", &type, err));
    if (strcmp(type, "Sequence") == 0) {
        QR_TRY(qr_component_list(json, "normalizer", "normalizers", depth, &list, err));
        json_array_foreach(list, i, item) QR_TRY(normalizer(item, depth + 1, out, err));
        return QR_OK;
    }
    for (i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(type, forms[i]) == 0)
            return qr_normalizer_add_form(out, (enum qr_normal_form)i, err);
    if (strcmp(type, "Lowercase") == 0)
        step.kind = QR_NORMAL_LOWERCASE;
    else if (strcmp(type, "Replace") == 0)
        QR_TRY(qr_component_replace(json, "normalizer", &step, err));
    else if (strcmp(type, "Prepend") == 0)
        QR_TRY(read_prepend(json, &step, err));
    else if (strcmp(type, "Strip") == 0)
        QR_TRY(read_strip(json, &step, err));
    else if (strcmp(type, "Precompiled") == 0)
        QR_TRY(read_charsmap(json, &step, err));
    else
        return qr_component_refuse(
            "normalizer", type,
            "NFC, NFD, NFKC, NFKD, Lowercase, Replace, Prepend, Strip, Precompiled and Sequence are", err);
    return qr_normalizer_add(out, &step, err);
}

enum qr_status qr_tokenizer_read_normalizer(const json_t *json, struct qr_normalizer *out, struct qr_err *err)
{
    return !json || json_is_null(json) ? QR_OK : normalizer(json, 0, out, err);
}
