/* gguf_file.h - what the gguf*.c files share: the struct, and a cursor over the mapped header. */
#ifndef QR_MODEL_GGUF_FILE_H
#define QR_MODEL_GGUF_FILE_H
#include "base/arena.h"
#include "model/gguf.h"
#include "model/names.h"

struct qr_gguf_key {
    struct qr_str name;
    enum qr_gguf_kind kind; /* of the value; of the elements when it is an array */
    bool array;
    uint64_t n;                   /* elements; 1 when it is no array */
    const uint8_t *data;          /* numbers as in the file: little endian, on any address */
    const struct qr_str *strings; /* [n] when kind is QR_GGUF_STRING */
};

struct qr_gguf {
    struct qr_map map;
    struct qr_arena *arena; /* owns the arrays below */
    uint32_t version;
    uint64_t alignment; /* of tensor data: a power of two */
    uint64_t n_key;
    struct qr_gguf_key *key;  /* [n_key] */
    struct qr_name *key_name; /* [n_key] sorted */
    uint64_t n_tensor;
    struct qr_gguf_tensor *tensor; /* [n_tensor] */
    uint64_t *tensor_offset;       /* [n_tensor] from the start of the data, as in the file */
    struct qr_name *tensor_name;   /* [n_tensor] sorted */
    struct qr_gguf **part; /* [n_part] the other files of a split model, whose tensors stand in the list above */
    uint64_t n_part;
};

/* Reads from the front of the file; every read says where the file ended too early. */
struct qr_gguf_cursor {
    const uint8_t *data;
    uint64_t size, at;
};

enum qr_status qr_gguf_take(struct qr_gguf_cursor *cursor, uint64_t n, const uint8_t **out, struct qr_err *err);
enum qr_status qr_gguf_take_u32(struct qr_gguf_cursor *cursor, uint32_t *out, struct qr_err *err);
enum qr_status qr_gguf_take_u64(struct qr_gguf_cursor *cursor, uint64_t *out, struct qr_err *err);
enum qr_status qr_gguf_take_str(struct qr_gguf_cursor *cursor, struct qr_str *out, struct qr_err *err);

uint64_t qr_gguf_kind_bytes(enum qr_gguf_kind kind); /* 0: a string or an array */

/* gguf.c: one file, whatever it says of others. gguf_split.c: where *gguf is one of several parts, opens them all; *gguf is
 * the first one then. On error *gguf is what it was. */
enum qr_status qr_gguf_open_one(const char *path, struct qr_gguf **gguf, struct qr_err *err);
enum qr_status qr_gguf_open_parts(struct qr_gguf **gguf, struct qr_err *err);

/* The two halves of the header. Both fill gguf from cursor on. */
enum qr_status qr_gguf_read_keys(struct qr_gguf *gguf, struct qr_gguf_cursor *cursor, struct qr_err *err);
enum qr_status qr_gguf_read_tensors(struct qr_gguf *gguf, struct qr_gguf_cursor *cursor, struct qr_err *err);
#endif
