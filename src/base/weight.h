/* weight.h - what the plan's ops and the executors know of a matrix: row segments with a type and a packing.
 *
 * DESIGN: a weight is a list of row segments, each starting at a multiple of 16 rows. A `struct qr_weight` may
 * be a view of some rows of another one (q inside qkv); merging q, k, v is then only a wider view. */
#ifndef QR_BASE_WEIGHT_H
#define QR_BASE_WEIGHT_H
#include <stdint.h>
#include "base/dtype.h"

enum qr_packing {
    QR_ROWS,    /* as in a file: row after row, [n_row, n_col] */
    QR_PANEL16, /* base/pack.h: panels of 16 rows, 16 rows side by side */
    QR_FRAGMENT /* the GPU's mma order (src/cuda) */
};

struct qr_segment {
    enum qr_dtype type;
    enum qr_packing packing;
    uint32_t row;     /* first row in the storage, a multiple of 16 */
    uint32_t n_row;   /* its rows */
    const void *data; /* host memory; device memory for cuda */
    uint64_t bytes;
};

/* Storage: one block of rows as loaded. Views point into it. */
struct qr_storage {
    const char *name; /* "blk.0.attn_qkv" */
    uint32_t n_row, n_col;
    int n_segment;
    struct qr_segment *segment; /* [n_segment], in row order without holes */
};

struct qr_weight {
    const char *name; /* "blk.0.attn_q" */
    const struct qr_storage *storage;
    uint32_t row;      /* first row of the view, a multiple of 16 */
    uint32_t n_row;    /* output features */
    uint32_t n_col;    /* input features */
    const float *bias; /* [n_row] fp32 or NULL; views into one array where storage is shared */
};

/* A vector of fp32: norm weights, rope frequencies. */
struct qr_vector {
    const char *name;
    uint32_t n;
    const float *data; /* [n] */
};
#endif
