/* gguf.h - a GGUF file (v2, v3): typed keys and named tensors, mapped, every size checked.
 * Source of the format: ggml's docs/gguf.md. Pointers live as long as the struct. Read only after open: any
 * number of threads. */
#ifndef QR_MODEL_GGUF_H
#define QR_MODEL_GGUF_H
#include <stdbool.h>
#include "base/mapfile.h"

enum qr_gguf_kind { /* the numbers of the file format */
                    QR_GGUF_U8 = 0,
                    QR_GGUF_I8,
                    QR_GGUF_U16,
                    QR_GGUF_I16,
                    QR_GGUF_U32,
                    QR_GGUF_I32,
                    QR_GGUF_F32,
                    QR_GGUF_BOOL,
                    QR_GGUF_STRING,
                    QR_GGUF_ARRAY,
                    QR_GGUF_U64,
                    QR_GGUF_I64,
                    QR_GGUF_F64
};

struct qr_str { /* not NUL-terminated; points into the mapping */
    const char *s;
    uint64_t n;
};

struct qr_gguf_tensor {
    struct qr_str name;
    int n_dim;       /* 1 .. 4 */
    uint64_t dim[4]; /* as in the file: dim[0] is the row length (n_col), dim[1] the rows */
    int ggml_type;   /* may be one that dtype.h does not know: an error only when it is used */
    const uint8_t *data;
    uint64_t bytes;           /* 0 when the type is unknown */
    const struct qr_map *map; /* the file that holds it */
};

struct qr_gguf;

/* Any part of a split model (NAME-00001-of-00003.gguf) opens all: the keys of the first, the tensors of all. */
enum qr_status qr_gguf_open(const char *path, struct qr_gguf **gguf, struct qr_err *err);
void qr_gguf_close(struct qr_gguf *gguf);
const struct qr_map *qr_gguf_map(const struct qr_gguf *gguf);
uint64_t qr_gguf_n_tensor(const struct qr_gguf *gguf);
const struct qr_gguf_tensor *qr_gguf_tensor_at(const struct qr_gguf *gguf, uint64_t i);
const struct qr_gguf_tensor *qr_gguf_find(const struct qr_gguf *gguf, const char *name); /* NULL: none */

/* Keys. *found tells whether the key is there; a key of another type than asked is QR_FORMAT. Any integer kind is
 * accepted for int, any float kind for real, when the value fits. found may be NULL: then a missing key is QR_FORMAT. */
enum qr_status qr_gguf_int(const struct qr_gguf *gguf, const char *key, int64_t *out, bool *found, struct qr_err *err);
enum qr_status qr_gguf_real(const struct qr_gguf *gguf, const char *key, double *out, bool *found, struct qr_err *err);
enum qr_status qr_gguf_bool(const struct qr_gguf *gguf, const char *key, bool *out, bool *found, struct qr_err *err);
enum qr_status qr_gguf_string(const struct qr_gguf *gguf, const char *key, struct qr_str *out, bool *found,
                              struct qr_err *err);
/* Array of strings: *out is an array of n views that the gguf owns (made at open). */
enum qr_status qr_gguf_strings(const struct qr_gguf *gguf, const char *key, const struct qr_str **out, uint64_t *n,
                               bool *found, struct qr_err *err);
/* Array of any integer or float kind: its elements are read one by one. */
struct qr_gguf_array {
    enum qr_gguf_kind kind;
    uint64_t n;
    const uint8_t *data;
};
enum qr_status qr_gguf_array(const struct qr_gguf *gguf, const char *key, struct qr_gguf_array *out, bool *found,
                             struct qr_err *err);
double qr_gguf_array_real(const struct qr_gguf_array *array, uint64_t i);
int64_t qr_gguf_array_int(const struct qr_gguf_array *array, uint64_t i);
#endif
