/* json.c - jansson with limits and clear errors. */
#include "base/json.h"
#include <stdlib.h>
#include <string.h>
#include "base/mapfile.h"

#define MAX_DEPTH 200 /* jansson recurses once a level, and so does whoever walks the value */

/* Deepest nesting of n bytes of JSON; right for valid text, and never too small for what jansson would enter. */
static int json_depth(const char *data, size_t n)
{
    int depth = 0, deepest = 0;
    bool in_string = false;

    for (size_t i = 0; i < n; i++) {
        char c = data[i];

        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > deepest)
                deepest = depth;
            if (deepest > MAX_DEPTH)
                return deepest;
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return deepest;
}

enum qr_status qr_json_parse(const char *data, size_t n, const char *what, json_t **out, struct qr_err *err)
{
    json_error_t error = {0};

    *out = NULL;
    if (json_depth(data, n) > MAX_DEPTH)
        return qr_fail(err, QR_LIMIT, "%s: JSON is nested more than %d deep", what, MAX_DEPTH);
    *out = json_loadb(n ? data : "", n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (*out)
        return QR_OK;
    /* jansson sets no text when its own allocations fail */
    if (!error.text[0] || json_error_code(&error) == json_error_out_of_memory)
        return qr_fail(err, QR_NOMEM, "%s: out of memory while parsing %zu bytes of JSON", what, n);
    return qr_fail(err, QR_FORMAT, "%s: bad JSON at line %d, column %d: %s", what, error.line, error.column,
                   error.text);
}

enum qr_status qr_json_file(const char *path, uint64_t cap, json_t **out, struct qr_err *err)
{
    enum qr_status status;
    char *data;
    size_t n;

    *out = NULL;
    QR_TRY(qr_read_file(path, cap, &data, &n, err));
    status = qr_json_parse(data, n, path, out, err);
    free(data);
    return status;
}

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a real number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        break;
    }
    return "null";
}

/* The value of key, or NULL where it is absent or null. */
static const json_t *present(const json_t *obj, const char *key)
{
    const json_t *value = json_object_get(obj, key);

    return json_is_null(value) ? NULL : value;
}

static enum qr_status wrong_type(const json_t *value, const char *key, const char *wanted, struct qr_err *err)
{
    return qr_fail(err, QR_INVALID, "\"%s\" must be %s, not %s", key, wanted, type_name(value));
}

enum qr_status qr_json_int(const json_t *obj, const char *key, int64_t min, int64_t max, int64_t *out,
                           struct qr_err *err)
{
    const json_t *value = present(obj, key);
    int64_t number;

    if (!value)
        return QR_OK;
    if (!json_is_integer(value))
        return wrong_type(value, key, "an integer", err);
    number = json_integer_value(value);
    if (number < min || number > max)
        return qr_fail(err, QR_INVALID, "\"%s\" is %lld but must be %lld to %lld", key, (long long)number,
                       (long long)min, (long long)max);
    *out = number;
    return QR_OK;
}

enum qr_status qr_json_real(const json_t *obj, const char *key, double min, double max, double *out, struct qr_err *err)
{
    const json_t *value = present(obj, key);
    double number;

    if (!value)
        return QR_OK;
    if (!json_is_number(value))
        return wrong_type(value, key, "a number", err);
    number = json_number_value(value);
    if (!(number >= min && number <= max))
        return qr_fail(err, QR_INVALID, "\"%s\" is %g but must be %g to %g", key, number, min, max);
    *out = number;
    return QR_OK;
}

enum qr_status qr_json_bool(const json_t *obj, const char *key, bool *out, struct qr_err *err)
{
    const json_t *value = present(obj, key);

    if (!value)
        return QR_OK;
    if (!json_is_boolean(value))
        return wrong_type(value, key, "true or false", err);
    *out = json_is_true(value);
    return QR_OK;
}

enum qr_status qr_json_string(const json_t *obj, const char *key, const char **out, struct qr_err *err)
{
    const json_t *value = present(obj, key);

    if (!value)
        return QR_OK;
    if (!json_is_string(value))
        return wrong_type(value, key, "a string", err);
    /* the caller sees a C string: a NUL inside would cut it silently */
    if (strlen(json_string_value(value)) != json_string_length(value))
        return qr_fail(err, QR_INVALID, "\"%s\" must not hold a NUL character", key);
    *out = json_string_value(value);
    return QR_OK;
}
