/* gguf_lookup.c - asking a GGUF file for keys by name and type. */
#include <math.h>
#include <string.h>
#include "model/gguf_file.h"

static const char *kind_name(const struct qr_gguf_key *key)
{
    static const char *const name[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                       "bool", "string", "array", "u64", "i64", "f64"};

    return name[key->kind];
}

static bool is_int(enum qr_gguf_kind kind)
{
    return kind <= QR_GGUF_I32 || kind == QR_GGUF_U64 || kind == QR_GGUF_I64;
}

static bool is_real(enum qr_gguf_kind kind)
{
    return kind == QR_GGUF_F32 || kind == QR_GGUF_F64;
}

/* found: where to tell whether it is there, or NULL when it must be. *out is NULL when it is not. */
static enum qr_status look_up(const struct qr_gguf *gguf, const char *name, const struct qr_gguf_key **out, bool *found,
                              struct qr_err *err)
{
    const struct qr_name *entry = qr_names_find(gguf->key_name, gguf->n_key, name, strlen(name));

    *out = entry ? &gguf->key[entry->id] : NULL;
    if (found)
        *found = entry != NULL;
    else if (!entry)
        return qr_fail(err, QR_FORMAT, "the GGUF file has no key \"%s\"", name);
    return QR_OK;
}

static enum qr_status wrong_kind(const struct qr_gguf_key *key, const char *wanted, struct qr_err *err)
{
    return qr_fail(err, QR_FORMAT, "GGUF key \"%.*s\" must be %s but is %s%s", (int)key->name.n, key->name.s, wanted,
                   key->array ? "an array of " : "", kind_name(key));
}

/* One little-endian integer; *fits is false for a u64 above the range of int64. */
static int64_t read_int(enum qr_gguf_kind kind, const uint8_t *data, bool *fits)
{
    union {
        uint8_t u8;
        int8_t i8;
        uint16_t u16;
        int16_t i16;
        uint32_t u32;
        int32_t i32;
        uint64_t u64;
        int64_t i64;
    } value;

    memcpy(&value, data, qr_gguf_kind_bytes(kind));
    *fits = kind != QR_GGUF_U64 || value.u64 <= INT64_MAX;
    switch (kind) {
    case QR_GGUF_I8:
        return value.i8;
    case QR_GGUF_U16:
        return value.u16;
    case QR_GGUF_I16:
        return value.i16;
    case QR_GGUF_U32:
        return value.u32;
    case QR_GGUF_I32:
        return value.i32;
    case QR_GGUF_I64:
        return value.i64;
    case QR_GGUF_U64:
        return *fits ? value.i64 : INT64_MAX;
    default:
        return value.u8; /* U8 and BOOL */
    }
}

static double read_real(enum qr_gguf_kind kind, const uint8_t *data)
{
    float f32;
    double f64;

    if (kind == QR_GGUF_F32) {
        memcpy(&f32, data, sizeof f32);
        return (double)f32;
    }
    memcpy(&f64, data, sizeof f64);
    return f64;
}

enum qr_status qr_gguf_int(const struct qr_gguf *gguf, const char *name, int64_t *out, bool *found, struct qr_err *err)
{
    const struct qr_gguf_key *key;
    int64_t value;
    bool fits;

    QR_TRY(look_up(gguf, name, &key, found, err));
    if (!key)
        return QR_OK;
    if (key->array || !is_int(key->kind))
        return wrong_kind(key, "an integer", err);
    value = read_int(key->kind, key->data, &fits);
    if (!fits)
        return qr_fail(err, QR_FORMAT, "GGUF key \"%s\" is over 2^63 - 1", name);
    *out = value;
    return QR_OK;
}

enum qr_status qr_gguf_real(const struct qr_gguf *gguf, const char *name, double *out, bool *found, struct qr_err *err)
{
    const struct qr_gguf_key *key;

    QR_TRY(look_up(gguf, name, &key, found, err));
    if (!key)
        return QR_OK;
    if (key->array || !is_real(key->kind))
        return wrong_kind(key, "a floating-point number", err);
    *out = read_real(key->kind, key->data);
    return QR_OK;
}

enum qr_status qr_gguf_bool(const struct qr_gguf *gguf, const char *name, bool *out, bool *found, struct qr_err *err)
{
    const struct qr_gguf_key *key;

    QR_TRY(look_up(gguf, name, &key, found, err));
    if (!key)
        return QR_OK;
    if (key->array || key->kind != QR_GGUF_BOOL)
        return wrong_kind(key, "a boolean", err);
    *out = key->data[0] != 0;
    return QR_OK;
}

enum qr_status qr_gguf_string(const struct qr_gguf *gguf, const char *name, struct qr_str *out, bool *found,
                              struct qr_err *err)
{
    const struct qr_gguf_key *key;

    QR_TRY(look_up(gguf, name, &key, found, err));
    if (!key)
        return QR_OK;
    if (key->array || key->kind != QR_GGUF_STRING)
        return wrong_kind(key, "a string", err);
    *out = key->strings[0];
    return QR_OK;
}

enum qr_status qr_gguf_strings(const struct qr_gguf *gguf, const char *name, const struct qr_str **out, uint64_t *n,
                               bool *found, struct qr_err *err)
{
    const struct qr_gguf_key *key;

    QR_TRY(look_up(gguf, name, &key, found, err));
    if (!key)
        return QR_OK;
    if (!key->array || key->kind != QR_GGUF_STRING)
        return wrong_kind(key, "an array of strings", err);
    *out = key->strings;
    *n = key->n;
    return QR_OK;
}

enum qr_status qr_gguf_array(const struct qr_gguf *gguf, const char *name, struct qr_gguf_array *out, bool *found,
                             struct qr_err *err)
{
    const struct qr_gguf_key *key;

    QR_TRY(look_up(gguf, name, &key, found, err));
    if (!key)
        return QR_OK;
    if (!key->array || key->kind == QR_GGUF_STRING)
        return wrong_kind(key, "an array of numbers", err);
    *out = (struct qr_gguf_array){key->kind, key->n, key->data};
    return QR_OK;
}

double qr_gguf_array_real(const struct qr_gguf_array *array, uint64_t i)
{
    const uint8_t *at = array->data + i * qr_gguf_kind_bytes(array->kind);
    bool fits;

    return is_real(array->kind) ? read_real(array->kind, at) : (double)read_int(array->kind, at, &fits);
}

/* Reals are cut towards zero; what int64 cannot hold becomes its nearest end, NaN becomes 0. */
int64_t qr_gguf_array_int(const struct qr_gguf_array *array, uint64_t i)
{
    const uint8_t *at = array->data + i * qr_gguf_kind_bytes(array->kind);
    double real;
    bool fits;

    if (!is_real(array->kind))
        return read_int(array->kind, at, &fits);
    real = read_real(array->kind, at);
    if (isnan(real))
        return 0;
    if (real >= 0x1p63)
        return INT64_MAX;
    return real <= -0x1p63 ? INT64_MIN : (int64_t)real;
}
