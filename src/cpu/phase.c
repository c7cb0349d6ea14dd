/* phase.c - a step's phases: one or two for each op. Ops so small that one worker does each of them whole follow one
 * another in one item: waiting costs more than they do. */
#include "cpu/exec.h"

#define GRAIN 8192 /* elements that are worth an item of their own */

static int clamp(int64_t x, int64_t max)
{
    return (int)(x < 1 ? 1 : x > max ? max : x);
}

/* Items of an op that goes row by row. */
static int count_row_items(const struct qr_cpu_exec *exec, int i)
{
    const struct qr_op *op = &exec->plan->op[i];
    int value = op->code == QR_OP_GATHER || op->n_in == 0 ? op->out[0] : op->in[0];
    int64_t rows = qr_cpu_range(exec, i).n, most = 4 * (int64_t)exec->n_thread;
    return clamp(rows * exec->plan->value[value].cols / GRAIN, exec->n_thread == 1 ? 1 : rows < most ? rows : most);
}

static struct qr_phase *add(struct qr_cpu_exec *exec, enum qr_phase_kind kind, int op, int n_item)
{
    struct qr_phase *phase = &exec->phase[exec->n_phase++];
    atomic_store_explicit(&phase->next, 0, memory_order_relaxed);
    atomic_store_explicit(&phase->done, 0, memory_order_relaxed);
    phase->kind = kind;
    phase->op = op;
    phase->n_op = 1;
    phase->n_item = n_item;
    return phase;
}

/* When times are taken, every op has its own phase. */
static void add_rows(struct qr_cpu_exec *exec, int op)
{
    int n_item = count_row_items(exec, op);
    struct qr_phase *last = exec->n_phase ? &exec->phase[exec->n_phase - 1] : NULL;
    if (n_item == 1 && last && last->kind == QR_PHASE_ROWS && last->n_item == 1 && !exec->profile)
        last->n_op++;
    else
        add(exec, QR_PHASE_ROWS, op, n_item);
}

void qr_cpu_plan_phases(struct qr_cpu_exec *exec)
{
    const struct qr_plan *plan = exec->plan;
    exec->n_phase = 0;
    for (int i = 0; i < plan->n_op; i++) {
        const struct qr_op *op = &plan->op[i];
        if (qr_cpu_range(exec, i).n == 0 || (i == exec->last_attention && exec->wanted.n == 0))
            continue; /* no row wants logits */
        if (op->code == QR_OP_ATTENTION) {
            add(exec, QR_PHASE_ATTEND, i, qr_cpu_count_attention(exec, op));
            if (exec->split)
                add(exec, QR_PHASE_MERGE, i, exec->n_item);
            continue;
        }
        add_rows(exec, i);
        if (op->code == QR_OP_LINEAR)
            add(exec, QR_PHASE_DOT, i, qr_cpu_count_dots(exec, i));
    }
}
