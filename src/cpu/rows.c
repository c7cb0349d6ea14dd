/* rows.c - the ops that go row by row: what they work on, found for the kernels. */
#include <string.h>
#include "base/pack.h"
#include "cpu/exec.h"

float *qr_cpu_value(const struct qr_cpu_exec *exec, int value, size_t *stride)
{
    const struct qr_plan *plan = exec->plan;
    *stride = plan->value[qr_value_root(plan, value)].cols;
    return (float *)(void *)(exec->activation + exec->sizes.buffers.offset[value]);
}

struct qr_range qr_cpu_range(const struct qr_cpu_exec *exec, int i)
{
    const struct qr_op *op = &exec->plan->op[i];
    int value = op->code == QR_OP_GATHER || op->n_in == 0 ? op->out[0] : op->in[0];
    if (exec->plan->value[value].rows != QR_ROWS_T)
        return (struct qr_range){0, exec->step->n_row};
    return i > exec->last_attention ? exec->wanted : (struct qr_range){0, exec->step->n_token};
}

int qr_cpu_last_attention(const struct qr_plan *plan)
{
    int last = -1;
    for (int i = 0; i < plan->n_op; i++) {
        enum qr_opcode code = plan->op[i].code;
        if (code == QR_OP_ATTENTION)
            last = i;
        else if (code == QR_OP_KV_STORE || code == QR_OP_ROPE_STORE)
            last = plan->n_op; /* unless an ATTENTION follows: what is stored is for later steps */
    }
    return last;
}

static void embed(const struct qr_cpu_exec *exec, const struct qr_op *op, int r0, int r1)
{
    const struct qr_weight *weight = op->weight;
    size_t stride;
    float *x = qr_cpu_value(exec, op->out[0], &stride);
    for (int t = r0; t < r1; t++) {
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

static void gather(const struct qr_cpu_exec *exec, const struct qr_op *op, int r0, int r1)
{
    size_t x_stride, y_stride, cols = exec->plan->value[op->in[0]].cols;
    const float *x = qr_cpu_value(exec, op->in[0], &x_stride);
    float *y = qr_cpu_value(exec, op->out[0], &y_stride);
    for (int r = r0; r < r1; r++)
        memcpy(y + (size_t)r * y_stride, x + (size_t)exec->step->row[r] * x_stride, cols * sizeof(float));
}

/* x: the first input; r: the second; y: the result that is not x. */
static void rows(const struct qr_cpu_exec *exec, const struct qr_op *op, int r0, int r1,
                 void (*kernel)(const struct qr_rows_job *))
{
    struct qr_rows_job job = {
        .t0 = r0, .t1 = r1, .cols = exec->plan->value[op->in[0]].cols, .width = op->width, .eps = op->eps};
    job.x = qr_cpu_value(exec, op->in[0], &job.x_stride);
    if (op->n_in > 1)
        job.r = qr_cpu_value(exec, op->in[1], &job.r_stride);
    job.y = qr_cpu_value(exec, op->out[op->n_out - 1], &job.y_stride);
    if (op->scale[0])
        job.scale = op->scale[0]->data;
    if (op->code == QR_OP_SCALE)
        job.eps = op->factor;
    if (op->code == QR_OP_SOFT_CAP)
        job.eps = op->soft_cap;
    kernel(&job);
}

static void rope_store(const struct qr_cpu_exec *exec, const struct qr_op *op, int r0, int r1)
{
    struct qr_rope_job job = {
        .t0 = r0,
        .t1 = r1,
        .n_head = op->n_head,
        .n_kv_head = op->n_kv_head,
        .head_dim = op->head_dim,
        .eps = op->eps,
        .cos = op->local ? exec->cos_local : exec->cos,
        .sin = op->local ? exec->sin_local : exec->sin,
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
    exec->table->rope_store(&job);
}

void qr_cpu_op_rows(const struct qr_cpu_exec *exec, const struct qr_op *op, int r0, int r1)
{
    const struct qr_cpu_table *table = exec->table;
    switch (op->code) {
    case QR_OP_EMBED:
        embed(exec, op, r0, r1);
        break;
    case QR_OP_MEAN_SQUARE:
        rows(exec, op, r0, r1, table->mean_square);
        break;
    case QR_OP_RSQRT:
        rows(exec, op, r0, r1, table->rsqrt);
        break;
    case QR_OP_SCALE_ROWS:
        rows(exec, op, r0, r1, table->scale_rows);
        break;
    case QR_OP_SCALE_COLS:
        rows(exec, op, r0, r1, table->scale_cols);
        break;
    case QR_OP_RMSNORM:
        rows(exec, op, r0, r1, table->rmsnorm);
        break;
    case QR_OP_ADD:
        rows(exec, op, r0, r1, table->add);
        break;
    case QR_OP_ADD_RMSNORM:
        rows(exec, op, r0, r1, table->add_rmsnorm);
        break;
    case QR_OP_SILU:
        rows(exec, op, r0, r1, table->silu);
        break;
    case QR_OP_SCALE:
        rows(exec, op, r0, r1, table->scale);
        break;
    case QR_OP_GELU:
        rows(exec, op, r0, r1, table->gelu);
        break;
    case QR_OP_SOFT_CAP:
        rows(exec, op, r0, r1, table->soft_cap);
        break;
    case QR_OP_MUL:
        rows(exec, op, r0, r1, table->mul);
        break;
    case QR_OP_SILU_MUL:
        rows(exec, op, r0, r1, table->silu_mul);
        break;
    case QR_OP_ROPE:
    case QR_OP_KV_STORE:
    case QR_OP_ROPE_STORE:
        rope_store(exec, op, r0, r1);
        break;
    case QR_OP_GATHER:
        gather(exec, op, r0, r1);
        break;
    case QR_OP_LINEAR:
    case QR_OP_ATTENTION:
    case QR_N_OPCODE:
        break;
    }
}
