/* kernel.h - what an instruction set supplies: a table of kernels, all on matrices of fp32 with a stride.
 *
 * Every kernel handles a range of rows and writes only those, so that workers split a step by rows; only the dot
 * kernels of LINEAR are split by panels too, and attention by key heads and segments. A row's result does not depend
 * on the range, on other rows, or on the split. Strides count elements. */
#ifndef QR_CPU_KERNEL_H
#define QR_CPU_KERNEL_H
#include <stddef.h>
#include <stdint.h>
#include "base/dtype.h"
#include "cpu/cpu.h"

/* ---------------------------------------------------------------- LINEAR */

#define QR_ACT_BLOCK 32  /* columns that share a scale */
#define QR_MAX_CHUNK 128 /* tokens that pass over a panel together, at most */

/* A block of 32 activations as integers: value = code * scale, |code| <= QR_ACT_MOST (15 bits and sign). How a table keeps
 * the codes in their 64 bytes is its own affair (isa/vec.h). */
#define QR_ACT_MOST 32512 /* 127 * 256: its upper byte, rounded to the nearest, is at most 127 */
struct qr_act_meta {
    float scale;      /* largest magnitude / QR_ACT_MOST; NaN when the block holds no finite numbers */
    float scale_sum;  /* scale * sum */
    int32_t sum;      /* of the 32 codes */
    int32_t sum_high; /* of the codes 16..31 */
};

/* The input of a LINEAR in the order in which dot kernels read it. Tokens go in chunks; in the chunk of nt tokens that
 * begins at token t, token t + i's block b stands at index t * n_block + b * nt + i. */
struct qr_act {
    int n_token, n_col, n_block; /* n_block: n_col / 32 rounded up */
    int chunk;                   /* tokens of all chunks but the last */
    int16_t *code;               /* [n_token * n_block][32], order: isa/vec.h; one token: room for another behind it */
    struct qr_act_meta *meta;    /* [n_token * n_block] */
    float *f32;                  /* [n_token * n_block][32], zeros behind n_col; for F32, F16, BF16 weights */
};

struct qr_dot {
    const uint8_t *panel; /* [n_panel] */
    uint64_t panel_bytes;
    int n_panel;
    const struct qr_act *act;
    int t0, nt;        /* the chunk */
    float *y;          /* token t0, output row 0 of the first panel */
    size_t y_stride;   /* to the next token */
    int n_row;         /* rows of all panels together; the last panel may have fewer than 16 */
    const float *bias; /* [n_row] or NULL */
};

/* ------------------------------------------------------------- row by row */

/* Norms, sums and products over rows [t0, t1): which fields are used stands with each kernel. */
struct qr_rows_job {
    int t0, t1;
    float *x, *r, *y; /* first row of each */
    size_t x_stride, r_stride, y_stride;
    uint32_t cols;
    uint32_t width;     /* norms: columns of a group */
    const float *scale; /* [width] */
    float eps;          /* norms; the number of SCALE and SOFT_CAP */
};

/* --------------------------------------------------------- keys and values */

/* Block id b, layer l, kv head h: K [head_dim][16], then V [16][v_stride], at
 * data + b * block_bytes + l * layer_bytes + h * head_bytes. */
struct qr_kv {
    uint8_t *data;
    uint64_t block_bytes, layer_bytes, head_bytes, v_offset; /* v_offset: bytes from K to V */
    enum qr_dtype type;
    uint32_t head_dim, v_stride; /* v_stride: head_dim rounded up to 16 */
};

struct qr_rope_job {
    int t0, t1;
    float *q, *k, *v; /* NULL: not wanted */
    size_t q_stride, k_stride, v_stride;
    uint32_t n_head, n_kv_head, head_dim;
    const float *q_norm, *k_norm; /* [head_dim] or NULL */
    float eps;
    const float *cos, *sin;  /* [max_len, head_dim/2] */
    const int32_t *position; /* [T] */
    const int32_t *slot;     /* [T] */
    const struct qr_kv *kv;
    uint64_t layer_offset; /* layer * layer_bytes */
    bool rotate, store;
};

#define QR_SEGMENT       256 /* positions: where attention is cut, DESIGN 6.1 */
#define QR_ATTN_ROWS     32  /* (token, query head) pairs that pass over a page together, at most */
#define QR_MAX_HEAD_DIM  512
#define QR_SEGMENT_PAGES (QR_SEGMENT / QR_PAGE)

/* Some tokens of a sequence and the query heads of one kv head. */
struct qr_attn_job {
    const float *q; /* first token, first query head of the group */
    float *y;
    size_t q_stride, y_stride;
    const int32_t *position; /* [n_token] */
    int n_token, group;      /* group: query heads, all of one kv head; n_token * group <= QR_ATTN_ROWS */
    const struct qr_kv *kv;
    uint64_t page_offset;       /* layer and kv head */
    const int32_t *block_table; /* of the sequence */
    float scale, soft_cap;
    int window;
    int segment0, segment1; /* segments to run; all: 0, INT32_MAX */
    float *partial; /* NULL: finish and write y; else [segment1 - segment0][group][2 + v_stride]: max, sum, sums */
    float *scratch; /* qr_attn_scratch() floats, 64-byte aligned */
};

/* Merges partial results of segments [segment0, segment1) of one row into y. */
struct qr_attn_merge_job {
    const float *partial; /* of this row and segment0 */
    size_t partial_stride;
    int segment0, segment1;
    uint32_t head_dim, v_stride;
    float *y;
    float *scratch;
};

/* First position that a token at that position may see. */
static inline int qr_attn_first(int position, int window)
{
    return window > 0 && position - window + 1 > 0 ? position - window + 1 : 0;
}

/* ------------------------------------------------------------------ table */

struct qr_cpu_table {
    void (*act_i16)(const struct qr_act *act, const float *x, size_t stride, int t0, int t1);
    void (*act_f32)(const struct qr_act *act, const float *x, size_t stride, int t0, int t1);
    void (*dot[QR_N_DTYPE])(const struct qr_dot *job);

    void (*mean_square)(const struct qr_rows_job *job); /* y = mean of x*x over each group */
    void (*rsqrt)(const struct qr_rows_job *job);       /* x = 1 / sqrt(x + eps) */
    void (*scale_rows)(const struct qr_rows_job *job);  /* y = x * r, a group by its number */
    void (*scale_cols)(const struct qr_rows_job *job);  /* x *= scale */
    void (*rmsnorm)(const struct qr_rows_job *job);     /* y = norm of x */
    void (*add)(const struct qr_rows_job *job);         /* x += r */
    void (*add_rmsnorm)(const struct qr_rows_job *job); /* x += r, y = norm of x */
    void (*silu)(const struct qr_rows_job *job);        /* x = silu(x) */
    void (*gelu)(const struct qr_rows_job *job);        /* x = gelu(x) */
    void (*scale)(const struct qr_rows_job *job);       /* x *= eps */
    void (*soft_cap)(const struct qr_rows_job *job);    /* x = eps tanh(x / eps) */
    void (*mul)(const struct qr_rows_job *job);         /* x *= r */
    void (*silu_mul)(const struct qr_rows_job *job);    /* x = silu(x) * r */

    void (*rope_store)(const struct qr_rope_job *job);
    void (*attention)(const struct qr_attn_job *job);
    void (*attention_merge)(const struct qr_attn_merge_job *job);

    void (*exp)(float *x, int n); /* in place; the one exponential that all kernels use, for tests */
    void (*tanh)(float *x, int n);
    double (*read_sum)(const void *data, size_t bytes);            /* reads all of it: for measuring bandwidth */
    double (*fma_peak)(int64_t n, bool integer, double *products); /* n rounds of independent products */
};

/* Floats of scratch that attention takes: scores, sums of a segment, totals, a page, largest and sum of each row. */
static inline size_t qr_attn_scratch(uint32_t v_stride)
{
    return QR_ATTN_ROWS * (QR_SEGMENT + 2 * (size_t)v_stride + 2) + 16 * (size_t)v_stride;
}

extern const struct qr_cpu_table qr_cpu_table_c, qr_cpu_table_avx2, qr_cpu_table_avx512;
const struct qr_cpu_table *qr_cpu_table(enum qr_isa isa);
#endif
