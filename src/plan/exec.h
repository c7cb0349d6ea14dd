/* exec.h - what every executor offers to the engine: a step in, logits out.
 *
 * A step is data for the plan: what differs between prefill, decode and a mix of them. Submit and collect are apart because
 * on a GPU the next step is launched before the last one's results are read; the CPU does its work in
 * submit. Not thread safe: the engine thread owns its executor. */
#ifndef QR_PLAN_EXEC_H
#define QR_PLAN_EXEC_H
#include "base/err.h"
#include "base/dtype.h"
#include "plan/op.h"

#define QR_PAGE 16 /* tokens of a block, as block ids, tables and hashes count them */

struct qr_step {
    int n_token;                /* T */
    int n_seq;                  /* S */
    int n_row;                  /* R */
    const int32_t *token;       /* [T] ids */
    const int32_t *position;    /* [T] in its sequence, from 0 */
    const int32_t *slot;        /* [T] block * QR_PAGE + place; -1: padding, not stored */
    const int32_t *seq_begin;   /* [S + 1] rows of the step: sequence s has [seq_begin[s], seq_begin[s+1]) */
    const int32_t *seq_len;     /* [S] tokens in the cache after this step */
    const int32_t *block_table; /* [S, table_stride] block ids of sequence s in order */
    int table_stride;
    const int32_t *row; /* [R] rows of the step that want logits, ascending */
};

struct qr_exec_limits {
    int max_token;         /* T of a step */
    int max_seq;           /* S */
    int max_row;           /* R */
    int max_len;           /* positions: size of the cos/sin table */
    int n_block;           /* KV blocks of QR_PAGE tokens over all layers */
    enum qr_dtype kv_type; /* QR_F32, QR_F16, QR_BF16 */
};

struct qr_result {
    int n_row;
    const float *logits; /* [R, n_vocab], valid until the next submit */
};

struct qr_exec;
struct qr_exec_ops {
    const char *name; /* "cpu" */
    enum qr_status (*submit)(struct qr_exec *exec, const struct qr_step *step, struct qr_err *err);
    enum qr_status (*collect)(struct qr_exec *exec, struct qr_result *result, struct qr_err *err);
    void (*destroy)(struct qr_exec *exec);
};
struct qr_exec { /* the head of every executor's own struct */
    const struct qr_exec_ops *ops;
};

static inline enum qr_status qr_exec_submit(struct qr_exec *exec, const struct qr_step *step, struct qr_err *err)
{
    return exec->ops->submit(exec, step, err);
}

static inline enum qr_status qr_exec_collect(struct qr_exec *exec, struct qr_result *result, struct qr_err *err)
{
    return exec->ops->collect(exec, result, err);
}

static inline void qr_exec_destroy(struct qr_exec *exec)
{
    if (exec)
        exec->ops->destroy(exec);
}
#endif
