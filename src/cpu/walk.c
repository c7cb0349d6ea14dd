/* walk.c - the workers run a step's phases in order. Items are taken from a counter, and a phase is over when all its
 * items are done, whoever did them: a worker that the system has put aside holds nobody up unless it holds an item.
 * Who comes back late walks through what the others have finished. */
#include <sched.h>
#include "base/clock.h"
#include "cpu/exec.h"

#define SPINS 4000 /* looks, some 50 us, before the CPU is offered to others */

static void run_item(struct qr_cpu_exec *exec, const struct qr_phase *phase, int item, int worker)
{
    const struct qr_op *op = &exec->plan->op[phase->op];
    switch (phase->kind) {
    case QR_PHASE_ROWS:
        for (int i = phase->op; i < phase->op + phase->n_op; i++, op++) {
            struct qr_range rows = qr_cpu_range(exec, i);
            int r0 = rows.first + (int)((int64_t)rows.n * item / phase->n_item);
            int r1 = rows.first + (int)((int64_t)rows.n * (item + 1) / phase->n_item);
            if (op->code == QR_OP_LINEAR)
                qr_cpu_pack_rows(exec, i, r0, r1);
            else
                qr_cpu_op_rows(exec, op, r0, r1);
        }
        break;
    case QR_PHASE_DOT:
        qr_cpu_dot(exec, phase->op, item);
        break;
    case QR_PHASE_ATTEND:
        qr_cpu_attend(exec, op, item, worker);
        break;
    case QR_PHASE_MERGE:
        qr_cpu_merge(exec, op, item, worker);
        break;
    }
}

static void run_phase(struct qr_cpu_exec *exec, struct qr_phase *phase, int worker)
{
    int mine = 0, item;
    while ((item = atomic_fetch_add_explicit(&phase->next, 1, memory_order_relaxed)) < phase->n_item) {
        run_item(exec, phase, item, worker);
        mine++;
        if (worker == 0)
            qr_exec_went_on(&exec->base);
    }
    if (mine)
        atomic_fetch_add_explicit(&phase->done, mine, memory_order_release);
    for (int i = 0; atomic_load_explicit(&phase->done, memory_order_acquire) < phase->n_item; i++) {
        if (i < SPINS)
            qr_cpu_pause();
        else
            sched_yield();
    }
}

void qr_cpu_walk(void *ctx, int worker, int n_worker)
{
    struct qr_cpu_exec *exec = ctx;
    bool timed = exec->profile && worker == 0;
    double last = timed ? qr_now_s() : 0;
    (void)n_worker;
    for (int i = 0; i < exec->n_phase; i++) {
        run_phase(exec, &exec->phase[i], worker);
        if (timed) {
            enum qr_opcode code = exec->plan->op[exec->phase[i].op].code;
            double now = qr_now_s();
            exec->seconds[code] += now - last;
            exec->count[code] += exec->phase[i].kind != QR_PHASE_DOT && exec->phase[i].kind != QR_PHASE_MERGE;
            last = now;
        }
    }
}
