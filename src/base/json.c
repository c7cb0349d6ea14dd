/* json.c - JSON files, and fields of objects with their ranges. */
#include "base/json.h"
#include <stdlib.h>
#include <string.h>
#include "base/mapfile.h"

enum qr_status qr_json_file(const char *path, uint64_t cap, json_t **out, struct qr_err *err)
{
    enum qr_status status;
    char *data;
    size_t n;

    *out = NULL;
    QR_TRY(qr_read_file(path, cap, &data, &n, err));
    status = qr_json_parse_file(data, n, path, out, err);
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
