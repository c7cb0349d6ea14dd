/* exec.h - the CUDA executor's own struct, and what its files offer one another. */
#ifndef QR_CUDA_EXEC_H
#define QR_CUDA_EXEC_H
#include "cuda/check.h"
#include "cuda/cuda.h"
#include "cuda/launch.h"
#include "plan/buffers.h"

/* A storage on the device: bf16 in tiles of 16 x 16 (docs/LAYOUT.md). */
struct qr_cuda_storage {
    const struct qr_storage *of;
    uint64_t offset; /* bytes into the weights */
    int rows, k;     /* padded to 16 and 64 */
    int cuts;
};

/* What is known of an op before any step. */
struct qr_cuda_op {
    int storage;        /* EMBED, LINEAR: index */
    uint64_t vector[2]; /* floats into the vectors: bias, or the scales */
    bool convert;       /* LINEAR: its input has to be rounded to bf16 first */
    bool y16;           /* the result goes to the next LINEAR's input, in bf16 */
    bool y_unread;      /* nobody reads the fp32 result */
};

/* Bytes of every region; all but host on the device. */
struct qr_cuda_sizes {
    struct qr_buffers buffers;
    struct qr_cuda_storage *storage; /* [n_storage] */
    int n_storage;
    struct qr_cuda_op *op;   /* [n_op] */
    uint64_t tiles, n_float; /* weights: matrices in bytes, vectors in floats */
    uint64_t x16, work, counter, part, tile_counter, table, step, place, logits_host;
    uint64_t page, pool, block, kv; /* a page; K or V of a layer; a block over all layers; all */
    int n_head, group;              /* query heads; a KV head's */
    int n_part, max_few, max_many;  /* of attention */
    uint64_t step_words;
};

/* Places in the step buffer, in 32-bit words. */
struct qr_cuda_layout {
    uint64_t count, token, position, slot, row, copy_from, copy_to, few, many, table, end;
};

struct qr_cuda_slot { /* a step in flight */
    int32_t *words;   /* pinned */
    cudaEvent_t done;
    int n_row;
};

struct qr_cuda_exec {
    struct qr_exec base;
    const struct qr_plan *plan;
    struct qr_exec_limits limits;
    struct qr_cuda_sizes sizes;
    struct qr_cuda_device device;
    int device_id;
    struct qr_cu_on on;

    uint8_t *memory; /* the one allocation of all that is not weights or KV */
    uint8_t *tiles, *kv;
    float *vectors, *cos, *sin, *part, *work;
    uint8_t *activation, *x16;
    unsigned *counter, *tile_counter;
    int32_t *step, *place;
    float *logits; /* pinned */

    struct qr_cuda_slot slot[QR_MAX_AHEAD + 1];
    int first, n_slot; /* ring of the steps in flight */

    uint64_t n_launch;
    bool profile;
    cudaEvent_t *mark; /* [n_op + 1] while profiling */
    double seconds[QR_N_OPCODE];
    uint64_t count[QR_N_OPCODE];
};

/* memory.c */
enum qr_status qr_cuda_sizes(const struct qr_plan *plan, const struct qr_exec_limits *limits,
                             struct qr_cuda_sizes *sizes, struct qr_err *err);
void qr_cuda_sizes_free(struct qr_cuda_sizes *sizes);

/* bind.c: what each op reads and writes in bf16. */
void qr_cuda_bind(const struct qr_plan *plan, struct qr_cuda_sizes *sizes);

/* upload.c */
enum qr_status qr_cuda_upload(struct qr_cuda_exec *exec, struct qr_pool *pool, struct qr_err *err);

/* step.c */
enum qr_status qr_cuda_check_step(const struct qr_cuda_exec *exec, const struct qr_step *step, struct qr_err *err);
/* Fills words; the number of words used is layout->end. */
void qr_cuda_fill_step(const struct qr_cuda_exec *exec, const struct qr_step *step, int32_t *words,
                       struct qr_cuda_layout *layout);

/* walk.c: the plan's kernels, in order, for n_token tokens and n_row rows. */
struct qr_cuda_shape {
    int n_token, n_row, n_copy;
    int max_few, max_many;
    struct qr_cuda_layout layout;
};
enum qr_status qr_cuda_walk(struct qr_cuda_exec *exec, const struct qr_cuda_shape *shape, struct qr_err *err);
#endif
