/* gguf.c - opening a GGUF file: the fixed header, then keys (gguf_keys.c) and tensors (gguf_tensors.c).
 * Format: docs/gguf.md of the ggml repository. */
#include "model/gguf_file.h"
#include <stdlib.h>
#include <string.h>

#define MAX_COUNT ((uint64_t)1 << 20) /* keys, tensors: real files have hundreds */
/* The shortest entries that can be: u64 length, kind, a byte of value; u64 length, rank, one size, type, offset. */
#define KEY_BYTES    13
#define TENSOR_BYTES 32

enum qr_status qr_gguf_take(struct qr_gguf_cursor *cursor, uint64_t n, const uint8_t **out, struct qr_err *err)
{
    *out = cursor->data + cursor->at;
    if (n > cursor->size - cursor->at)
        return qr_fail(err, QR_FORMAT, "the file is cut off: %llu bytes are wanted at byte %llu, but it ends at %llu",
                       (unsigned long long)n, (unsigned long long)cursor->at, (unsigned long long)cursor->size);
    cursor->at += n;
    return QR_OK;
}

enum qr_status qr_gguf_take_u32(struct qr_gguf_cursor *cursor, uint32_t *out, struct qr_err *err)
{
    const uint8_t *bytes;

    QR_TRY(qr_gguf_take(cursor, sizeof *out, &bytes, err));
    memcpy(out, bytes, sizeof *out);
    return QR_OK;
}

enum qr_status qr_gguf_take_u64(struct qr_gguf_cursor *cursor, uint64_t *out, struct qr_err *err)
{
    const uint8_t *bytes;

    QR_TRY(qr_gguf_take(cursor, sizeof *out, &bytes, err));
    memcpy(out, bytes, sizeof *out);
    return QR_OK;
}

enum qr_status qr_gguf_take_str(struct qr_gguf_cursor *cursor, struct qr_str *out, struct qr_err *err)
{
    const uint8_t *bytes;
    uint64_t n;

    QR_TRY(qr_gguf_take_u64(cursor, &n, err));
    QR_TRY(qr_gguf_take(cursor, n, &bytes, err));
    *out = (struct qr_str){(const char *)bytes, n};
    return QR_OK;
}

/* A count of entries that take at least that many bytes each, before anything is allocated for them. */
static enum qr_status check_count(const struct qr_gguf_cursor *cursor, uint64_t count, uint64_t entry_bytes,
                                  const char *what, struct qr_err *err)
{
    uint64_t left = cursor->size - cursor->at;

    if (count > left / entry_bytes)
        return qr_fail(err, QR_FORMAT, "the header announces %llu %s, but only %llu bytes follow",
                       (unsigned long long)count, what, (unsigned long long)left);
    if (count > MAX_COUNT)
        return qr_fail(err, QR_LIMIT, "the header announces %llu %s; quire reads at most %llu",
                       (unsigned long long)count, what, (unsigned long long)MAX_COUNT);
    return QR_OK;
}

static enum qr_status not_gguf(const uint8_t *data, uint64_t n, struct qr_err *err)
{
    const char *mistaken = qr_file_mistaken(data, n);

    if (mistaken)
        return qr_fail(err, QR_FORMAT, "this is %s", mistaken);
    if (data[0] == '{' || (n > 8 && data[8] == '{'))
        return qr_fail(err, QR_FORMAT,
                       "this is no GGUF file, but a part of a model in a directory (JSON or safetensors): give the "
                       "directory that holds it");
    return qr_fail(err, QR_FORMAT, "this is no GGUF file: it begins with bytes %02x %02x %02x %02x, not \"GGUF\"",
                   data[0], data[1], data[2], data[3]);
}

static enum qr_status read_magic(struct qr_gguf *gguf, struct qr_gguf_cursor *cursor, struct qr_err *err)
{
    const uint8_t *magic;

    QR_TRY(qr_gguf_take(cursor, 4, &magic, err));
    if (memcmp(magic, "GGUF", 4) != 0)
        return not_gguf(magic, gguf->map.size, err);
    QR_TRY(qr_gguf_take_u32(cursor, &gguf->version, err));
    if (__builtin_bswap32(gguf->version) >= 1 && __builtin_bswap32(gguf->version) <= 3)
        return qr_fail(err, QR_UNSUPPORTED,
                       "the file is big endian and quire reads little endian only: convert it with gguf-py's "
                       "gguf-convert-endian");
    if (gguf->version < 2 || gguf->version > 3)
        return qr_fail(err, QR_UNSUPPORTED, "GGUF version %u; quire reads versions 2 and 3", gguf->version);
    return QR_OK;
}

static enum qr_status read_header(void *ctx, struct qr_err *err)
{
    struct qr_gguf *gguf = ctx;
    struct qr_gguf_cursor cursor = {gguf->map.data, gguf->map.size, 0};

    QR_TRY(read_magic(gguf, &cursor, err));
    QR_TRY(qr_gguf_take_u64(&cursor, &gguf->n_tensor, err));
    QR_TRY(qr_gguf_take_u64(&cursor, &gguf->n_key, err));
    QR_TRY(check_count(&cursor, gguf->n_tensor, TENSOR_BYTES, "tensors", err));
    QR_TRY(check_count(&cursor, gguf->n_key, KEY_BYTES, "keys", err));
    QR_TRY(qr_gguf_read_keys(gguf, &cursor, err));
    return qr_gguf_read_tensors(gguf, &cursor, err);
}

enum qr_status qr_gguf_open_one(const char *path, struct qr_gguf **out, struct qr_err *err)
{
    struct qr_gguf *gguf = calloc(1, sizeof *gguf);
    enum qr_status status;

    *out = NULL;
    if (!gguf || !(gguf->arena = qr_arena_create(0))) {
        free(gguf);
        return qr_fail(err, QR_NOMEM, "out of memory while opening %s", path);
    }
    status = qr_map_open(path, &gguf->map, err);
    if (status == QR_OK) {
        /* what the guarded code allocates belongs to the arena, so a jump out of it leaks nothing (but perhaps qsort's
         * scratch memory) */
        status = qr_map_guard(&gguf->map, read_header, gguf, err);
        if (status != QR_OK)
            status = qr_err_prefix(err, status, "%s", path);
    }
    if (status != QR_OK) {
        qr_gguf_close(gguf);
        return status;
    }
    *out = gguf;
    return QR_OK;
}

enum qr_status qr_gguf_open(const char *path, struct qr_gguf **out, struct qr_err *err)
{
    enum qr_status status = qr_gguf_open_one(path, out, err);

    if (status == QR_OK)
        status = qr_gguf_open_parts(out, err);
    if (status != QR_OK) {
        qr_gguf_close(*out);
        *out = NULL;
    }
    return status;
}

void qr_gguf_close(struct qr_gguf *gguf)
{
    if (!gguf)
        return;
    for (uint64_t i = 0; i < gguf->n_part; i++)
        qr_gguf_close(gguf->part[i]);
    if (gguf->part)
        free(gguf->part - 1);
    qr_arena_destroy(gguf->arena);
    qr_map_close(&gguf->map);
    free(gguf);
}

const struct qr_map *qr_gguf_map(const struct qr_gguf *gguf)
{
    return &gguf->map;
}
