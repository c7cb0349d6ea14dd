/* exec.h - the CUDA executor's own struct, and what its files offer one another. */
#ifndef QR_CUDA_EXEC_H
#define QR_CUDA_EXEC_H
#include "cuda/check.h"
#include "cuda/cuda.h"
#include "cuda/launch.h"
#include "cuda/quant.h"
#include "cuda/sample.h"
#include "plan/buffers.h"

/* A storage on the device: bf16 in tiles of 16 x 16 (docs/LAYOUT.md), or as quantised as it is on the host (quant.h). */
struct qr_cuda_storage {
    const struct qr_storage *of;
    uint64_t offset; /* bytes into the weights */
    int rows, k;     /* padded to 16 and 64 */
    int cuts;
    enum qr_cu_quant quant;
    uint64_t strip; /* bytes of 16 rows */
};

/* What is known of an op before any step. */
struct qr_cuda_op {
    int storage;        /* EMBED, LINEAR: index */
    uint64_t vector[2]; /* floats into the vectors: bias, or the scales */
    bool convert;       /* LINEAR, ATTENTION: the input has to be rounded to 16 bits first */
    bool y16;           /* the result goes to the next LINEAR's input, in bf16, or q to ATTENTION's */
    bool y_unread;      /* nobody reads the fp32 result */
    bool gates;         /* LINEAR: the SILU_MUL behind it may be a part of it */
};

/* Bytes of every region; all but host on the device. */
struct qr_cuda_sizes {
    struct qr_buffers buffers;
    struct qr_cuda_storage *storage; /* [n_storage] */
    int n_storage;
    struct qr_cuda_op *op;   /* [n_op] */
    uint64_t tiles, n_float; /* weights: matrices in bytes, vectors in floats */
    uint64_t x16, q16, work, counter, part, tile_counter, step, place, logits_host;
    uint64_t table, table_local;        /* of cosines, and the same of sines; local: 0 where there is none */
    uint64_t expanded, y_part;          /* a quantised matrix as bf16, or a part of it; the result of a part */
    uint64_t pick, picked, sample_work; /* what is wanted of a step's rows, packed; what came out of them; scratch */
    uint64_t page, pool, block, kv;     /* a page; K or V of a layer; a block over all layers; all */
    int n_head, group;                  /* query heads; a KV head's */
    int n_part, max_few, max_many;      /* of attention */
    uint64_t step_words;
};

/* A launch's sizes, and places in the step buffer in 32-bit words. Tokens and rows may be more than the step has: those
 * behind its own are padding, and the units of attention may be fewer than there is room for. */
struct qr_cuda_shape {
    int n_token, n_row, n_copy;
    int max_few, max_many;
    uint64_t token, position, slot, row, few, many, table, copy_from, copy_to, end;
};

/* Signs of life that a step of many tokens gives on its way, at most; each keeps the next kernel from starting early. */
enum { QR_CUDA_BEATS = 8, QR_CUDA_BEAT_TOKENS = 512 };

struct qr_cuda_slot {          /* a step in flight */
    int32_t *words;            /* pinned */
    uint8_t *pick;             /* pinned */
    struct qr_sampled *picked; /* pinned: the device writes it */
    cudaEvent_t done, beat[QR_CUDA_BEATS];
    int n_beat;
    int n_row, place;
};

/* A captured step. */
struct qr_cuda_graph {
    int n_token, n_row, max_few; /* its key; n_token 0: free */
    int n_kernel;
    uint64_t used; /* turn at which it was used last */
    cudaGraphExec_t run;
};
enum { QR_CUDA_GRAPHS = 64 };

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
    float *vectors, *cos, *sin, *cos_local, *sin_local, *part, *work;
    uint8_t *expanded;
    float *y_part;
    uint8_t *activation, *x16, *q16; /* inputs of LINEAR and ATTENTION in 16 bits */
    unsigned *counter, *tile_counter;
    int32_t *step, *place;
    uint8_t *pick;
    float *sample_work;
    bool samples;  /* tokens are picked on the device; else logits go to the host */
    float *logits; /* pinned; NULL when it samples */

    struct qr_cuda_slot slot[QR_MAX_AHEAD + 1];
    int first, n_slot;            /* ring of the steps in flight */
    struct qr_cuda_slot *beating; /* of the step that is being launched, when it is to give signs of life; else NULL */

    bool stream, plain;            /* no graphs; no kernels for this device alone */
    bool convert;                  /* every weight becomes bf16 */
    bool graphs;                   /* no kernel for a whole step */
    int few;                       /* sequences that it is for; 0: those for which it is faster */
    struct qr_cuda_decode *decode; /* decode_host.h: one kernel for a step of few sequences; NULL: graphs do it */
    struct qr_err no_decode;       /* then: why */
    struct qr_cuda_graph graph[QR_CUDA_GRAPHS];
    uint64_t turn;
    uint64_t n_launch;
    bool profile, capturing;
    cudaEvent_t *mark; /* [n_op + 1] while profiling */
    double seconds[QR_N_OPCODE];
    uint64_t count[QR_N_OPCODE];
};

/* memory.c */
/* convert: every weight becomes bf16. */
enum qr_status qr_cuda_sizes(const struct qr_plan *plan, const struct qr_exec_limits *limits, bool convert,
                             struct qr_cuda_sizes *sizes, struct qr_err *err);
void qr_cuda_sizes_free(struct qr_cuda_sizes *sizes);

/* How the kernels call a type of keys and values that qr_cuda_sizes let pass. */
static inline enum qr_cu_kv qr_cuda_kv(enum qr_dtype type)
{
    return type == QR_F16 ? QR_CU_F16 : type == QR_F8S ? QR_CU_FP8 : QR_CU_BF16;
}

/* bind.c: what each op reads and writes in bf16. */
void qr_cuda_bind(const struct qr_plan *plan, struct qr_cuda_sizes *sizes);

/* upload.c */
enum qr_status qr_cuda_upload(struct qr_cuda_exec *exec, const struct qr_cuda_options *options, struct qr_pool *pool,
                              struct qr_err *err);

/* step.c */
enum qr_status qr_cuda_check_step(const struct qr_cuda_exec *exec, const struct qr_step *step, struct qr_err *err);
/* Lays the step out in words; shape->end of them are used. graph: padded to one of few sizes; false: not that step. */
bool qr_cuda_fill_step(const struct qr_cuda_exec *exec, const struct qr_step *step, bool graph, int32_t *words,
                       struct qr_cuda_shape *shape);

/* walk.c: the plan's kernels, in order. */
enum qr_status qr_cuda_copy_blocks(struct qr_cuda_exec *exec, const struct qr_cuda_shape *shape, struct qr_err *err);
enum qr_status qr_cuda_walk(struct qr_cuda_exec *exec, const struct qr_cuda_shape *shape, struct qr_err *err);

/* graph.c: the same by a graph, captured when there is none of that shape yet. */
enum qr_status qr_cuda_launch_graph(struct qr_cuda_exec *exec, const struct qr_cuda_shape *shape, struct qr_err *err);
void qr_cuda_graphs_free(struct qr_cuda_exec *exec);

/* sampling.c */
void qr_cuda_size_sampling(const struct qr_plan *plan, const struct qr_exec_limits *limits,
                           struct qr_cuda_sizes *sizes);
enum qr_status qr_cuda_sample(struct qr_cuda_exec *exec, struct qr_cuda_slot *slot, const struct qr_pick *pick,
                              struct qr_err *err);
#endif
