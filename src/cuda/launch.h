/* launch.h - the kernels as host code sees them: what each gets, and the call that puts it on a stream.
 *
 * Plain C, so that the executor is C and only kernels are CUDA. Rows are rows of the step; strides are in elements.
 * Pointers are device memory. Shapes are those of plan/op.h. A y16 that is not NULL gets a bf16 copy of the result,
 * the input of the LINEAR that follows; then y may be NULL, when nothing else reads it. */
#ifndef QR_CUDA_LAUNCH_H
#define QR_CUDA_LAUNCH_H
#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Types of keys and values: FP8 is E4M3 with a power of two for each token and head. */
enum qr_cu_kv { QR_CU_BF16, QR_CU_F16, QR_CU_FP8 };

enum { QR_CU_CUT = 256, QR_CU_PAGE = 16 }; /* positions of a cut of attention, of a page: docs/LAYOUT.md */

/* Where and how to launch. */
struct qr_cu_on {
    cudaStream_t stream;
    int early; /* kernels may start while the one before ends (programmatic dependent launch) */
    int arch;  /* 80, 90: compute capability */
    int n_sm;
};

struct qr_cu_embed {
    const void *tiles; /* bf16, packed */
    int k, row, n_row; /* padded columns; the view's first row and its rows */
    const int32_t *token, *place;
    float *x;
    int x_stride, cols, n;
};
cudaError_t qr_cu_run_embed(const struct qr_cu_on *on, const struct qr_cu_embed *a);

/* Norms: groups of `width` columns. r, where there is one, is added to x first. */
struct qr_cu_norm {
    float *x;
    const float *r;
    float *y;
    void *y16;
    const float *scale;
    int x_stride, r_stride, y_stride, y16_stride, width, cols, n;
    float eps;
};
cudaError_t qr_cu_run_rmsnorm(const struct qr_cu_on *on, const struct qr_cu_norm *a);
/* The norm's parts: v = mean square, v = 1/sqrt(v + eps) (x), y = x v (r is v), y *= scale (x). */
cudaError_t qr_cu_run_mean_square(const struct qr_cu_on *on, const struct qr_cu_norm *a);
cudaError_t qr_cu_run_rsqrt(const struct qr_cu_on *on, const struct qr_cu_norm *a);
cudaError_t qr_cu_run_scale_rows(const struct qr_cu_on *on, const struct qr_cu_norm *a);
cudaError_t qr_cu_run_scale_cols(const struct qr_cu_on *on, const struct qr_cu_norm *a);

/* Element by element. */
enum qr_cu_map {
    QR_CU_ADD,
    QR_CU_SILU,
    QR_CU_MUL,
    QR_CU_SILU_MUL,
    QR_CU_GELU,
    QR_CU_SCALE,
    QR_CU_SOFT_CAP,
    QR_CU_COPY
};
struct qr_cu_rows {
    const float *x, *r; /* r: the second input or NULL */
    float *y;
    void *y16;
    const int32_t *row; /* not NULL: row i of x is row[i] (GATHER) */
    int x_stride, r_stride, y_stride, y16_stride, cols, n;
    int y16_cols; /* columns from cols up to here are zeros */
    int f16;      /* y16 is f16, not bf16 */
    float factor; /* SCALE; SOFT_CAP: the cap */
};
cudaError_t qr_cu_run_map(const struct qr_cu_on *on, enum qr_cu_map what, const struct qr_cu_rows *a);

/* Rotation and the store into pages; what is NULL is left out. */
struct qr_cu_rope {
    float *q, *k;
    const float *v;
    void *q16; /* the rotated q in f16 with keys in f16, else in bf16, [n, n_head * head_dim]; then q itself is written
                * only if q_read */
    const float *q_norm, *k_norm;
    const float *cos, *sin; /* [max_len, head_dim / 2] */
    const int32_t *position, *slot;
    char *k_pages, *v_pages; /* of the layer; NULL: not stored */
    int q_stride, k_stride, v_stride, n_head, n_kv_head, head_dim, n;
    int rotate_k, q_read;
    enum qr_cu_kv kv;
    float eps;
};
cudaError_t qr_cu_run_rope(const struct qr_cu_on *on, const struct qr_cu_rope *a);

/* Attention's unit of work: up to 16 or 64 (token, head of the group) pairs of a sequence, for each KV head. Pair p is
 * token p / group, head p % group. */
struct qr_cu_item {
    int32_t row;          /* of the sequence's first token in the step */
    int32_t pair, n_pair; /* the first pair, and how many */
    int32_t sequence;
    int32_t cut;         /* -1: all cuts, else this one alone; then the last of n_cut to end adds them */
    int32_t n_cut, part; /* part: place of cut 0 among the partial results */
    int32_t tile;        /* counter */
    int32_t first;       /* position of that first token */
    int32_t unused[3];   /* units are copied 16 bytes at a time */
};
enum { QR_CU_FEW = 16, QR_CU_MANY = 64 }; /* pairs of an item of each kind */
struct qr_cu_attention {
    const void *q; /* [n, n_head * head_dim] in f16 with keys in f16, else in bf16 */
    float *y;
    void *y16;
    int y_stride, y16_stride;
    const char *k_pages, *v_pages;
    const int32_t *position, *table, *count; /* count: items of each kind, stride of the table */
    const struct qr_cu_item *few, *many;     /* few: up to max_few, those behind the last with n_pair 0 */
    int max_few, max_many;                   /* at least as many as count says; 0: none, nothing is launched */
    float *part; /* [parts, n_kv_head, 16, head_dim], then m c and l [parts, n_kv_head, 16, 2] */
    int n_part;
    unsigned *counter; /* [tiles, n_kv_head], zero before and after */
    int n_head, n_kv_head, head_dim, window;
    enum qr_cu_kv kv;
    float scale, soft_cap;
};
int qr_cu_attention_has(int head_dim);
uint64_t qr_cu_page_bytes(int head_dim, enum qr_cu_kv kv); /* K or V of 16 tokens of one KV head */
cudaError_t qr_cu_run_attention(const struct qr_cu_on *on, const struct qr_cu_attention *a);

/* y = x w^T + bias. */
struct qr_cu_linear {
    const void *tiles;
    int rows, k, cuts; /* rows of y; padded columns; chains */
    const void *x;     /* bf16 [n, k], the padding zero */
    float *y;
    int y_stride, n;
    const float *bias; /* or NULL */
    float *work;       /* qr_cu_linear_work bytes */
    unsigned *counter; /* QR_CU_COUNTERS, zero before and after */
    void *gated;       /* not NULL: in place of y silu(y's first half) * its second half, bf16 [n, rows / 2] */
};
int qr_cu_linear_gates(const struct qr_cu_on *on, const struct qr_cu_linear *a); /* is there a kernel for that? */
enum { QR_CU_COUNTERS = 1 << 16 };
int qr_cu_cuts(int rows, int k);
uint64_t qr_cu_linear_work(int rows, int cuts, int max_n); /* bytes */
cudaError_t qr_cu_run_linear(const struct qr_cu_on *on, const struct qr_cu_linear *a);
/* What a launch asks for first, once: how much shared memory a block may have. */
cudaError_t qr_cu_prepare(const struct qr_cu_on *on, int head_dim);

/* Blocks copied over all layers, in the order of the list. */
struct qr_cu_copy {
    char *pages; /* pools of n_block * block_bytes */
    const int32_t *from, *to;
    int n, n_pool;
    int64_t pool_bytes, block_bytes; /* block: of one pool */
};
cudaError_t qr_cu_run_copy(const struct qr_cu_on *on, const struct qr_cu_copy *a);

#ifdef __cplusplus
}
#endif
#endif
