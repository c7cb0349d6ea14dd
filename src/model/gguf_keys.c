/* gguf_keys.c - reading the keys of a GGUF header. */
#include <string.h>
#include "model/gguf_file.h"

#define N_KIND         (QR_GGUF_F64 + 1)
#define MAX_KEY_LENGTH 65535 /* docs/gguf.md: a key is at most 2^16 - 1 bytes */

uint64_t qr_gguf_kind_bytes(enum qr_gguf_kind kind)
{
    static const uint8_t bytes[N_KIND] = {
        [QR_GGUF_U8] = 1,  [QR_GGUF_I8] = 1,  [QR_GGUF_U16] = 2,  [QR_GGUF_I16] = 2,    [QR_GGUF_U32] = 4,
        [QR_GGUF_I32] = 4, [QR_GGUF_F32] = 4, [QR_GGUF_BOOL] = 1, [QR_GGUF_STRING] = 0, [QR_GGUF_ARRAY] = 0,
        [QR_GGUF_U64] = 8, [QR_GGUF_I64] = 8, [QR_GGUF_F64] = 8,
    };

    return bytes[kind];
}

static enum qr_status take_kind(struct qr_gguf_cursor *cursor, enum qr_gguf_kind *kind, struct qr_err *err)
{
    uint32_t number;

    QR_TRY(qr_gguf_take_u32(cursor, &number, err));
    if (number >= N_KIND)
        return qr_fail(err, QR_FORMAT, "value type %u is unknown; GGUF has 0 to %d", number, N_KIND - 1);
    *kind = (enum qr_gguf_kind)number;
    return QR_OK;
}

/* key->n strings in a row: each is at least its length field, so that the count is checked before the array is made. */
static enum qr_status read_strings(struct qr_gguf *gguf, struct qr_gguf_cursor *cursor, struct qr_gguf_key *key,
                                   struct qr_err *err)
{
    uint64_t left = cursor->size - cursor->at;
    struct qr_str *strings;

    if (key->n > left / sizeof(uint64_t))
        return qr_fail(err, QR_FORMAT, "the array announces %llu strings, but only %llu bytes follow",
                       (unsigned long long)key->n, (unsigned long long)left);
    strings = qr_arena_array(gguf->arena, key->n, sizeof *strings);
    if (!strings)
        return qr_fail(err, QR_NOMEM, "out of memory for %llu strings", (unsigned long long)key->n);
    for (uint64_t i = 0; i < key->n; i++)
        QR_TRY(qr_gguf_take_str(cursor, &strings[i], err));
    key->strings = strings;
    return QR_OK;
}

static enum qr_status read_value(struct qr_gguf *gguf, struct qr_gguf_cursor *cursor, struct qr_gguf_key *key,
                                 struct qr_err *err)
{
    uint64_t bytes, left;

    key->n = 1;
    QR_TRY(take_kind(cursor, &key->kind, err));
    if (key->kind == QR_GGUF_ARRAY) {
        key->array = true;
        QR_TRY(take_kind(cursor, &key->kind, err));
        QR_TRY(qr_gguf_take_u64(cursor, &key->n, err));
        if (key->kind == QR_GGUF_ARRAY)
            return qr_fail(err, QR_UNSUPPORTED, "arrays inside an array are not supported");
    }
    if (key->kind == QR_GGUF_STRING)
        return read_strings(gguf, cursor, key, err);
    bytes = qr_gguf_kind_bytes(key->kind);
    left = cursor->size - cursor->at;
    if (key->n > left / bytes)
        return qr_fail(err, QR_FORMAT, "%llu values of %llu bytes are announced, but only %llu bytes follow",
                       (unsigned long long)key->n, (unsigned long long)bytes, (unsigned long long)left);
    QR_TRY(qr_gguf_take(cursor, key->n * bytes, &key->data, err));
    for (uint64_t i = 0; key->kind == QR_GGUF_BOOL && i < key->n; i++)
        if (key->data[i] > 1)
            return qr_fail(err, QR_FORMAT, "a boolean is %u; it must be 0 or 1", key->data[i]);
    return QR_OK;
}

static enum qr_status read_key(struct qr_gguf *gguf, struct qr_gguf_cursor *cursor, struct qr_gguf_key *key,
                               struct qr_err *err)
{
    enum qr_status status;

    QR_TRY(qr_gguf_take_str(cursor, &key->name, err));
    if (key->name.n == 0 || key->name.n > MAX_KEY_LENGTH)
        return qr_fail(err, QR_FORMAT, "its name has %llu bytes; 1 to %d are allowed", (unsigned long long)key->name.n,
                       MAX_KEY_LENGTH);
    status = read_value(gguf, cursor, key, err);
    if (status != QR_OK)
        return qr_err_prefix(err, status, "\"%.*s\"", (int)(key->name.n > 100 ? 100 : key->name.n), key->name.s);
    return QR_OK;
}

static enum qr_status read_alignment(struct qr_gguf *gguf, struct qr_err *err)
{
    int64_t alignment = 32; /* docs/gguf.md: when general.alignment is absent */
    bool found;

    QR_TRY(qr_gguf_int(gguf, "general.alignment", &alignment, &found, err));
    if (alignment < 8 || alignment > 1 << 20 || (alignment & (alignment - 1)) != 0)
        return qr_fail(err, QR_FORMAT, "general.alignment is %lld; it must be a power of two from 8 to %d",
                       (long long)alignment, 1 << 20);
    gguf->alignment = (uint64_t)alignment;
    return QR_OK;
}

enum qr_status qr_gguf_read_keys(struct qr_gguf *gguf, struct qr_gguf_cursor *cursor, struct qr_err *err)
{
    const struct qr_name *twice;

    gguf->key = qr_arena_array(gguf->arena, gguf->n_key, sizeof *gguf->key);
    gguf->key_name = qr_arena_array(gguf->arena, gguf->n_key, sizeof *gguf->key_name);
    if (!gguf->key || !gguf->key_name)
        return qr_fail(err, QR_NOMEM, "out of memory for %llu keys", (unsigned long long)gguf->n_key);
    for (uint64_t i = 0; i < gguf->n_key; i++) {
        enum qr_status status = read_key(gguf, cursor, &gguf->key[i], err);

        if (status != QR_OK)
            return qr_err_prefix(err, status, "key %llu of %llu", (unsigned long long)i + 1,
                                 (unsigned long long)gguf->n_key);
        gguf->key_name[i] = (struct qr_name){gguf->key[i].name.s, gguf->key[i].name.n, i};
    }
    qr_names_sort(gguf->key_name, gguf->n_key);
    twice = qr_names_duplicate(gguf->key_name, gguf->n_key);
    if (twice)
        return qr_fail(err, QR_FORMAT, "key \"%.*s\" stands there twice", (int)(twice->n > 100 ? 100 : twice->n),
                       twice->s);
    return read_alignment(gguf, err);
}
