/* exec.h - what every executor offers to the engine: a step in, picked tokens or logits out.
 *
 * A step is data for the plan: what differs between prefill, decode and a mix of them. It goes through three calls:
 *
 *   submit   the forward is launched
 *   sample   the choice of tokens is launched; may come late, when the host had to make a mask of the last ids first
 *   collect  the host waits for what came out
 *
 * They are apart because on a GPU step k + 1 is submitted before step k is collected: tokens that the host does not
 * know yet are named by the place at which step k leaves them. Steps are collected in the order in which they were
 * submitted. An executor without `sample` (the CPU) works in submit, takes no places and gives logits; each of its
 * steps is collected before the next is submitted. A call that fails ends its step: no further call is made for it.
 * Not thread safe: the engine thread owns its executor. */
#ifndef QR_PLAN_EXEC_H
#define QR_PLAN_EXEC_H
#include "base/err.h"
#include "base/dtype.h"
#include "plan/op.h"
#include "plan/pick.h"

#define QR_PAGE      16 /* tokens of a block, as block ids, tables and hashes count them */
#define QR_MAX_AHEAD 8  /* steps in flight behind the one that is being submitted, at most */

/* Arrays stay as they are until the step is collected. */
struct qr_step {
    int n_token;                /* T */
    int n_seq;                  /* S */
    int n_row;                  /* R */
    const int32_t *token;       /* [T] ids; -1 - p: the id that an earlier step left at place p */
    const int32_t *position;    /* [T] in its sequence, from 0 */
    const int32_t *slot;        /* [T] block * QR_PAGE + place; -1: padding, not stored */
    const int32_t *seq_begin;   /* [S + 1] rows of the step: sequence s has [seq_begin[s], seq_begin[s+1]) */
    const int32_t *seq_len;     /* [S] tokens in the cache after this step */
    const int32_t *block_table; /* [S, table_stride] block ids of sequence s in order */
    int table_stride;
    const int32_t *row; /* [R] rows of the step that want logits, ascending */
    int place;          /* the id picked of row r is left at place + r, within n_place of the limits, and stays there
                         * until QR_MAX_AHEAD more steps were submitted or the place is given to another row */
    int n_copy;         /* blocks whose contents are copied before anything else of the step */
    const int32_t *copy_from, *copy_to; /* [n_copy] block ids */
};

struct qr_exec_limits {
    int max_token;         /* T of a step */
    int max_seq;           /* S */
    int max_row;           /* R */
    int max_len;           /* positions: size of the cos/sin table */
    int n_block;           /* KV blocks of QR_PAGE tokens over all layers */
    enum qr_dtype kv_type; /* QR_F32, QR_F16, QR_BF16; QR_F8S on a GPU: E4M3, a power of two for each token and head */
    int n_place;           /* ids of earlier steps that are kept; 0 where nothing runs ahead */
};

/* Every number of a step against the limits and the plan: QR_LIMIT for what the executor was not made for, QR_INVALID for
 * what no step may say. */
enum qr_status qr_step_check(const struct qr_plan *plan, const struct qr_exec_limits *limits,
                             const struct qr_step *step, struct qr_err *err);

struct qr_result {
    int n_row;
    const float *logits; /* [R, n_vocab], valid until the next submit; NULL where the executor picks */
};

struct qr_exec;
struct qr_exec_ops {
    const char *name; /* "cpu" */
    enum qr_status (*submit)(struct qr_exec *exec, const struct qr_step *step, struct qr_err *err);
    /* pick [R] for the step submitted last; NULL: the executor gives logits. */
    enum qr_status (*sample)(struct qr_exec *exec, const struct qr_pick *pick, struct qr_err *err);
    /* Of the oldest step not collected. picked [R] is filled by an executor that samples. */
    enum qr_status (*collect)(struct qr_exec *exec, struct qr_result *result, struct qr_picked *picked,
                              struct qr_err *err);
    /* A millisecond of what need not be done before the first step, called while nothing waits; false: nothing is left.
     * NULL: there is no such work. */
    bool (*prepare)(struct qr_exec *exec);
    void (*destroy)(struct qr_exec *exec);
};
struct qr_exec { /* the head of every executor's own struct */
    const struct qr_exec_ops *ops;
    char apart[64];    /* a cache line of its own for what follows: it is written all the time */
    uint64_t progress; /* rises while a step is worked on, however long it takes: a sign of life for who watches */
    char apart_too[56];
};

/* By one thread of the executor, at least once a second while it works. */
static inline void qr_exec_went_on(struct qr_exec *exec)
{
    __atomic_store_n(&exec->progress, exec->progress + 1, __ATOMIC_RELAXED);
}

static inline enum qr_status qr_exec_submit(struct qr_exec *exec, const struct qr_step *step, struct qr_err *err)
{
    return exec->ops->submit(exec, step, err);
}

static inline enum qr_status qr_exec_collect(struct qr_exec *exec, struct qr_result *result, struct qr_picked *picked,
                                             struct qr_err *err)
{
    return exec->ops->collect(exec, result, picked, err);
}

static inline bool qr_exec_prepare(struct qr_exec *exec)
{
    return exec->ops->prepare && exec->ops->prepare(exec);
}

static inline void qr_exec_destroy(struct qr_exec *exec)
{
    if (exec)
        exec->ops->destroy(exec);
}
#endif
