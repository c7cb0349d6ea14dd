/* walk.c - every worker walks the whole plan; what a worker does of an op is its share of the rows, or what it takes
 * from a counter. Between ops all wait for one another, except where one worker has all the rows of both. */
#include <string.h>
#include "base/clock.h"
#include "base/pack.h"
#include "cpu/exec.h"

float *qr_cpu_value(const struct qr_cpu_exec *exec, int value, size_t *stride)
{
    const struct qr_plan *plan = exec->plan;
    *stride = plan->value[qr_value_root(plan, value)].cols;
    return (float *)(void *)(exec->activation + exec->sizes.buffers.offset[value]);
}

int qr_cpu_rows(const struct qr_cpu_exec *exec, int value)
{
    return exec->plan->value[value].rows == QR_ROWS_T ? exec->step->n_token : exec->step->n_row;
}

void qr_cpu_share(const struct qr_walker *walker, int n, int *begin, int *end)
{
    int each = (n + walker->n_worker - 1) / walker->n_worker;
    *begin = each * walker->worker < n ? each * walker->worker : n;
    *end = *begin + each < n ? *begin + each : n;
}

/* Two counters take turns. The one of the next phase is set to 0 after the barrier: its last users have passed that. */
atomic_int *qr_cpu_next_phase(struct qr_walker *walker)
{
    struct qr_counter *counter = walker->exec->counter;
    int now = walker->phase++ & 1;
    qr_pool_barrier(walker->exec->pool);
    if (walker->worker == 0)
        atomic_store_explicit(&counter[!now].next, 0, memory_order_relaxed);
    return &counter[now].next;
}

/* -------------------------------------------------------- ops row by row */

static void embed(const struct qr_walker *walker, const struct qr_op *op)
{
    const struct qr_cpu_exec *exec = walker->exec;
    const struct qr_weight *weight = op->weight;
    size_t stride;
    float *x = qr_cpu_value(exec, op->out[0], &stride);
    int t0, t1;
    qr_cpu_share(walker, exec->step->n_token, &t0, &t1);
    for (int t = t0; t < t1; t++) {
        uint32_t row = weight->row + (uint32_t)exec->step->token[t];
        const struct qr_segment *segment = weight->storage->segment;
        while (row >= segment->row + segment->n_row)
            segment++;
        row -= segment->row;
        const uint8_t *panel =
            (const uint8_t *)segment->data + row / QR_PANEL_ROWS * qr_panel_bytes(segment->type, weight->n_col);
        qr_unpack_row(segment->type, weight->n_col, panel, (int)(row % QR_PANEL_ROWS), x + (size_t)t * stride);
    }
}

static void gather(const struct qr_walker *walker, const struct qr_op *op)
{
    const struct qr_cpu_exec *exec = walker->exec;
    size_t x_stride, y_stride, cols = exec->plan->value[op->in[0]].cols;
    const float *x = qr_cpu_value(exec, op->in[0], &x_stride);
    float *y = qr_cpu_value(exec, op->out[0], &y_stride);
    int r0, r1;
    qr_cpu_share(walker, exec->step->n_row, &r0, &r1);
    for (int r = r0; r < r1; r++)
        memcpy(y + (size_t)r * y_stride, x + (size_t)exec->step->row[r] * x_stride, cols * sizeof(float));
}

/* x: the first input; r: the second; y: the result that is not x. */
static void rows(const struct qr_walker *walker, const struct qr_op *op, void (*kernel)(const struct qr_rows_job *))
{
    const struct qr_cpu_exec *exec = walker->exec;
    struct qr_rows_job job = {.cols = exec->plan->value[op->in[0]].cols, .width = op->width, .eps = op->eps};
    job.x = qr_cpu_value(exec, op->in[0], &job.x_stride);
    if (op->n_in > 1)
        job.r = qr_cpu_value(exec, op->in[1], &job.r_stride);
    job.y = qr_cpu_value(exec, op->out[op->n_out - 1], &job.y_stride);
    if (op->scale[0])
        job.scale = op->scale[0]->data;
    qr_cpu_share(walker, qr_cpu_rows(exec, op->in[0]), &job.t0, &job.t1);
    kernel(&job);
}

static void rope_store(const struct qr_walker *walker, const struct qr_op *op)
{
    const struct qr_cpu_exec *exec = walker->exec;
    struct qr_rope_job job = {
        .n_head = op->n_head,
        .n_kv_head = op->n_kv_head,
        .head_dim = op->head_dim,
        .eps = op->eps,
        .cos = exec->cos,
        .sin = exec->sin,
        .position = exec->step->position,
        .slot = exec->step->slot,
        .kv = &exec->kv,
        .layer_offset = op->layer < 0 ? 0 : (uint64_t)op->layer * exec->kv.layer_bytes,
        .rotate = op->code != QR_OP_KV_STORE,
        .store = op->code != QR_OP_ROPE,
    };
    int at = 0;
    if (op->code != QR_OP_KV_STORE)
        job.q = qr_cpu_value(exec, op->in[at++], &job.q_stride);
    if (op->code != QR_OP_ROPE) {
        job.k = qr_cpu_value(exec, op->in[at++], &job.k_stride);
        job.v = qr_cpu_value(exec, op->in[at], &job.v_stride);
    }
    if (op->code == QR_OP_ROPE_STORE && op->scale[0]) {
        job.q_norm = op->scale[0]->data;
        job.k_norm = op->scale[1]->data;
    }
    qr_cpu_share(walker, exec->step->n_token, &job.t0, &job.t1);
    exec->table->rope_store(&job);
}

/* ------------------------------------------------------------------ walk */

static void run_op(struct qr_walker *walker, int index)
{
    const struct qr_op *op = &walker->exec->plan->op[index];
    const struct qr_cpu_table *table = walker->exec->table;
    switch (op->code) {
    case QR_OP_EMBED:
        embed(walker, op);
        break;
    case QR_OP_MEAN_SQUARE:
        rows(walker, op, table->mean_square);
        break;
    case QR_OP_RSQRT:
        rows(walker, op, table->rsqrt);
        break;
    case QR_OP_SCALE_ROWS:
        rows(walker, op, table->scale_rows);
        break;
    case QR_OP_SCALE_COLS:
        rows(walker, op, table->scale_cols);
        break;
    case QR_OP_RMSNORM:
        rows(walker, op, table->rmsnorm);
        break;
    case QR_OP_ADD:
        rows(walker, op, table->add);
        break;
    case QR_OP_ADD_RMSNORM:
        rows(walker, op, table->add_rmsnorm);
        break;
    case QR_OP_SILU:
        rows(walker, op, table->silu);
        break;
    case QR_OP_MUL:
        rows(walker, op, table->mul);
        break;
    case QR_OP_SILU_MUL:
        rows(walker, op, table->silu_mul);
        break;
    case QR_OP_LINEAR:
        qr_cpu_linear(walker, index);
        break;
    case QR_OP_ROPE:
    case QR_OP_KV_STORE:
    case QR_OP_ROPE_STORE:
        rope_store(walker, op);
        break;
    case QR_OP_ATTENTION:
        qr_cpu_attention(walker, op);
        break;
    case QR_OP_GATHER:
        gather(walker, op);
        break;
    case QR_N_OPCODE:
        break;
    }
}

/* Has worker 0 all there is to do? (The first rows of a step are worker 0's.) */
static bool is_alone(const struct qr_cpu_exec *exec, const struct qr_op *op)
{
    if (op->code == QR_OP_LINEAR || op->code == QR_OP_ATTENTION)
        return false;
    return (op->n_in == 0 || qr_cpu_rows(exec, op->in[0]) <= 1) &&
           (op->n_out == 0 || qr_cpu_rows(exec, op->out[0]) <= 1);
}

/* Worker 0 may go from an op that is its alone to the next, or to a LINEAR, which begins with packing the same row: the
 * others have nothing to do there. LINEAR and ATTENTION wait by themselves before they hand out work. */
static bool must_wait(const struct qr_cpu_exec *exec, int index)
{
    const struct qr_op *op = &exec->plan->op[index];
    if (index == 0 || op->code == QR_OP_ATTENTION)
        return false;
    return !is_alone(exec, op - 1) || !(is_alone(exec, op) || op->code == QR_OP_LINEAR);
}

void qr_cpu_walk(void *ctx, int worker, int n_worker)
{
    struct qr_cpu_exec *exec = ctx;
    struct qr_walker walker = {.exec = exec, .worker = worker, .n_worker = n_worker};
    const struct qr_plan *plan = exec->plan;
    bool timed = exec->profile && worker == 0;
    double last = timed ? qr_now_s() : 0;
    for (int i = 0; i <= plan->n_op; i++) {
        if (i == plan->n_op || must_wait(exec, i))
            qr_pool_barrier(exec->pool);
        if (timed && i > 0) {
            double now = qr_now_s();
            exec->seconds[plan->op[i - 1].code] += now - last;
            exec->count[plan->op[i - 1].code]++;
            last = now;
        }
        if (i < plan->n_op)
            run_op(&walker, i);
    }
}
