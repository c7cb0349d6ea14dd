/* walk.c - the plan's ops as kernel launches, in order, on the executor's stream. */
#include "cuda/exec.h"

/* The step that is being launched. */
struct walk {
    struct qr_cuda_exec *exec;
    const struct qr_cuda_shape *shape;
    const struct qr_op *op;
    const struct qr_cuda_op *bound;
    const void *gated; /* silu(gate) * up, where LINEAR has done so already: what the next LINEAR reads; else NULL */
};

static const int32_t *step_words(const struct walk *w, uint64_t at)
{
    return w->exec->step + at;
}

static float *value_at(const struct walk *w, int value, int *stride)
{
    const struct qr_plan *plan = w->exec->plan;
    *stride = (int)plan->value[qr_value_root(plan, value)].cols;
    return (float *)(void *)(w->exec->activation + w->exec->sizes.buffers.offset[value]);
}

static int rows_of(const struct walk *w, int value)
{
    return w->exec->plan->value[value].rows == QR_ROWS_T ? w->shape->n_token : w->shape->n_row;
}

static int cols_of(const struct walk *w, int value)
{
    return (int)w->exec->plan->value[value].cols;
}

static const float *scale_of(const struct walk *w, int which)
{
    return w->op->scale[which] ? w->exec->vectors + w->bound->vector[which] : NULL;
}

static const struct qr_cuda_storage *storage_of(const struct walk *w)
{
    return &w->exec->sizes.storage[w->bound->storage];
}

static cudaError_t embed(const struct walk *w)
{
    const struct qr_cuda_storage *s = storage_of(w);
    struct qr_cu_embed a = {.tiles = w->exec->tiles + s->offset,
                            .k = s->k,
                            .row = (int)w->op->weight->row,
                            .n_row = (int)w->op->weight->n_row,
                            .token = step_words(w, w->shape->token),
                            .place = w->exec->place,
                            .cols = (int)w->op->weight->n_col,
                            .n = w->shape->n_token};
    a.x = value_at(w, w->op->out[0], &a.x_stride);
    return s->quant ? qr_cu_run_embed_quant(&w->exec->on, &a, s->quant) : qr_cu_run_embed(&w->exec->on, &a);
}

static cudaError_t norm(const struct walk *w)
{
    const struct qr_op *op = w->op;
    struct qr_cu_norm a = {.scale = scale_of(w, 0),
                           .width = (int)op->width,
                           .cols = cols_of(w, op->in[0]),
                           .n = rows_of(w, op->in[0]),
                           .eps = op->eps};
    a.x = value_at(w, op->in[0], &a.x_stride);
    if (op->n_in > 1)
        a.r = value_at(w, op->in[1], &a.r_stride);
    a.y = value_at(w, op->out[op->n_out - 1], &a.y_stride);
    if (w->bound->y16) {
        a.y16 = w->exec->x16;
        a.y16_stride = a.cols;
        if (w->bound->y_unread)
            a.y = NULL;
    }
    switch (op->code) {
    case QR_OP_MEAN_SQUARE:
        return qr_cu_run_mean_square(&w->exec->on, &a);
    case QR_OP_RSQRT:
        return qr_cu_run_rsqrt(&w->exec->on, &a);
    case QR_OP_SCALE_ROWS:
        return qr_cu_run_scale_rows(&w->exec->on, &a);
    case QR_OP_SCALE_COLS:
        return qr_cu_run_scale_cols(&w->exec->on, &a);
    default:
        return qr_cu_run_rmsnorm(&w->exec->on, &a);
    }
}

static cudaError_t map(const struct walk *w, enum qr_cu_map what)
{
    const struct qr_op *op = w->op;
    struct qr_cu_rows a = {.cols = cols_of(w, op->in[0]),
                           .n = rows_of(w, op->out[0]),
                           .factor = op->code == QR_OP_SOFT_CAP ? op->soft_cap : op->factor};
    a.x = value_at(w, op->in[0], &a.x_stride);
    if (op->n_in > 1)
        a.r = value_at(w, op->in[1], &a.r_stride);
    a.y = value_at(w, op->out[0], &a.y_stride);
    if (op->code == QR_OP_GATHER)
        a.row = step_words(w, w->shape->row);
    if (w->bound->y16) {
        a.y16 = w->exec->x16;
        a.y16_stride = a.y16_cols = a.cols;
        if (w->bound->y_unread)
            a.y = NULL;
    }
    return qr_cu_run_map(&w->exec->on, what, &a);
}

/* The fp32 input of an op, rounded for it; cols_to: with zeros behind it. */
static cudaError_t convert(const struct walk *w, void *to, int cols_to, int f16)
{
    int value = w->op->in[0];
    struct qr_cu_rows c = {.cols = cols_of(w, value),
                           .n = rows_of(w, value),
                           .y16 = to,
                           .y16_stride = cols_to,
                           .y16_cols = cols_to,
                           .f16 = f16};
    c.x = value_at(w, value, &c.x_stride);
    w->exec->n_launch++;
    return qr_cu_run_map(&w->exec->on, QR_CU_COPY, &c);
}

static cudaError_t linear(struct walk *w)
{
    struct qr_cuda_exec *exec = w->exec;
    const struct qr_op *op = w->op;
    const struct qr_cuda_storage *s = storage_of(w);
    int n = rows_of(w, op->in[0]);
    if (w->bound->convert) {
        cudaError_t e = convert(w, exec->x16, s->k, 0);
        if (e)
            return e;
    }
    struct qr_cu_linear a = {.tiles = exec->tiles + s->offset + op->weight->row / 16 * s->strip,
                             .rows = (int)op->weight->n_row,
                             .k = s->k,
                             .cuts = s->cuts,
                             .x = w->gated ? w->gated : exec->x16,
                             .n = n,
                             .bias = op->weight->bias ? exec->vectors + w->bound->vector[0] : NULL,
                             .work = exec->work,
                             .counter = exec->counter};
    a.y = value_at(w, op->out[0], &a.y_stride);
    if (w->bound->gates && s->quant == QR_CU_NO_QUANT && qr_cu_linear_gates(&exec->on, &a))
        a.gated = a.y; /* nobody needs the fp32 */
    w->gated = a.gated;
    if (s->quant == QR_CU_NO_QUANT)
        return qr_cu_run_linear(&exec->on, &a);
    struct qr_cu_quant_linear q = {.linear = a, .type = s->quant, .expanded = exec->expanded, .y_part = exec->y_part};
    return qr_cu_run_linear_quant(&exec->on, &q);
}

static enum qr_cu_kv kv_of(const struct qr_cuda_exec *exec)
{
    return qr_cuda_kv(exec->limits.kv_type);
}

/* Pages of a layer: all blocks of K, then all of V. */
static char *pages_of(const struct walk *w, int v)
{
    return (char *)w->exec->kv + ((uint64_t)w->op->layer * 2 + (uint64_t)v) * w->exec->sizes.pool;
}

static cudaError_t rope(const struct walk *w)
{
    const struct qr_cuda_exec *exec = w->exec;
    const struct qr_op *op = w->op;
    int at = 0;
    struct qr_cu_rope a = {.cos = op->local ? exec->cos_local : exec->cos,
                           .sin = op->local ? exec->sin_local : exec->sin,
                           .position = step_words(w, w->shape->position),
                           .slot = step_words(w, w->shape->slot),
                           .n_head = (int)op->n_head,
                           .n_kv_head = (int)op->n_kv_head,
                           .head_dim = (int)op->head_dim,
                           .n = w->shape->n_token,
                           .rotate_k = op->code == QR_OP_ROPE_STORE,
                           .q16 = w->bound->y16 ? exec->q16 : NULL,
                           .q_read = !w->bound->y_unread,
                           .kv = kv_of(exec),
                           .eps = op->eps};
    if (op->code != QR_OP_KV_STORE)
        a.q = value_at(w, op->in[at++], &a.q_stride);
    if (op->code != QR_OP_ROPE) {
        a.k = value_at(w, op->in[at++], &a.k_stride);
        a.v = value_at(w, op->in[at], &a.v_stride);
        a.k_pages = pages_of(w, 0);
        a.v_pages = pages_of(w, 1);
    }
    if (op->code == QR_OP_ROPE_STORE) {
        a.q_norm = scale_of(w, 0);
        a.k_norm = scale_of(w, 1);
    }
    return qr_cu_run_rope(&exec->on, &a);
}

static cudaError_t attention(const struct walk *w)
{
    const struct qr_cuda_exec *exec = w->exec;
    const struct qr_cuda_shape *l = w->shape;
    const struct qr_op *op = w->op;
    if (w->bound->convert) {
        cudaError_t e = convert(w, exec->q16, cols_of(w, op->in[0]), exec->limits.kv_type == QR_F16);
        if (e)
            return e;
    }
    struct qr_cu_attention a = {.q = exec->q16,
                                .k_pages = pages_of(w, 0),
                                .v_pages = pages_of(w, 1),
                                .position = step_words(w, l->position),
                                .table = step_words(w, l->table),
                                .count = step_words(w, 0),
                                .few = (const struct qr_cu_item *)(const void *)step_words(w, l->few),
                                .many = (const struct qr_cu_item *)(const void *)step_words(w, l->many),
                                .max_few = w->shape->max_few,
                                .max_many = w->shape->max_many,
                                .part = exec->part,
                                .n_part = exec->sizes.n_part,
                                .counter = exec->tile_counter,
                                .n_head = (int)op->n_head,
                                .n_kv_head = (int)op->n_kv_head,
                                .head_dim = (int)op->head_dim,
                                .window = op->window,
                                .kv = kv_of(exec),
                                .scale = op->attn_scale,
                                .soft_cap = op->soft_cap};
    a.y = value_at(w, op->out[0], &a.y_stride);
    if (w->bound->y16) {
        a.y16 = exec->x16;
        a.y16_stride = cols_of(w, op->out[0]);
        if (w->bound->y_unread)
            a.y = NULL;
    }
    return qr_cu_run_attention(&exec->on, &a);
}

static cudaError_t run(struct walk *w)
{
    switch (w->op->code) {
    case QR_OP_EMBED:
        return embed(w);
    case QR_OP_MEAN_SQUARE:
    case QR_OP_RSQRT:
    case QR_OP_SCALE_ROWS:
    case QR_OP_SCALE_COLS:
    case QR_OP_RMSNORM:
    case QR_OP_ADD_RMSNORM:
        return norm(w);
    case QR_OP_ADD:
        return map(w, QR_CU_ADD);
    case QR_OP_SILU:
        return map(w, QR_CU_SILU);
    case QR_OP_MUL:
        return map(w, QR_CU_MUL);
    case QR_OP_SILU_MUL:
        return map(w, QR_CU_SILU_MUL);
    case QR_OP_GATHER:
        return map(w, QR_CU_COPY);
    case QR_OP_LINEAR:
        return linear(w);
    case QR_OP_ROPE:
    case QR_OP_KV_STORE:
    case QR_OP_ROPE_STORE:
        return rope(w);
    case QR_OP_ATTENTION:
        return attention(w);
    case QR_OP_GELU:
        return map(w, QR_CU_GELU);
    case QR_OP_SCALE:
        return map(w, QR_CU_SCALE);
    case QR_OP_SOFT_CAP:
        return map(w, QR_CU_SOFT_CAP);
    case QR_N_OPCODE:
        break;
    }
    return cudaErrorInvalidValue;
}

enum qr_status qr_cuda_copy_blocks(struct qr_cuda_exec *exec, const struct qr_cuda_shape *shape, struct qr_err *err)
{
    struct qr_cu_copy a = {.pages = (char *)exec->kv,
                           .from = exec->step + shape->copy_from,
                           .to = exec->step + shape->copy_to,
                           .n = shape->n_copy,
                           .n_pool = (int)exec->plan->n_layer * 2,
                           .pool_bytes = (int64_t)exec->sizes.pool,
                           .block_bytes = (int64_t)(exec->sizes.page * exec->plan->n_kv_head)};
    if (shape->n_copy == 0)
        return QR_OK;
    exec->n_launch++;
    return qr_cuda_status(qr_cu_run_copy(&exec->on, &a), "copying blocks", err);
}

/* Inside a graph an event that is to be read from outside has to be an external one. */
static enum qr_status mark(struct qr_cuda_exec *exec, int i, struct qr_err *err)
{
    unsigned flags = exec->capturing ? cudaEventRecordExternal : cudaEventRecordDefault;
    if (!exec->profile)
        return QR_OK;
    return qr_cuda_status(cudaEventRecordWithFlags(exec->mark[i], exec->on.stream, flags), "timing", err);
}

/* Who watches the engine sees that it lives (plan/exec.h): here, as a launch waits while the device's queue is full, and in
 * collect, by an event after every so many ops of a step of many tokens. */
static enum qr_status give_sign(struct qr_cuda_exec *exec, int i, struct qr_err *err)
{
    struct qr_cuda_slot *slot = exec->beating;
    if (exec->capturing)
        return QR_OK;
    qr_exec_went_on(&exec->base);
    if (!slot || (i + 1) % (exec->plan->n_op / QR_CUDA_BEATS + 1) != 0)
        return QR_OK;
    return qr_cuda_status(cudaEventRecord(slot->beat[slot->n_beat++], exec->on.stream), "marking where a step is", err);
}

enum qr_status qr_cuda_walk(struct qr_cuda_exec *exec, const struct qr_cuda_shape *shape, struct qr_err *err)
{
    const struct qr_plan *plan = exec->plan;
    struct walk w = {.exec = exec, .shape = shape};
    QR_TRY(mark(exec, 0, err));
    for (int i = 0; i < plan->n_op; i++) {
        w.op = &plan->op[i];
        w.bound = &exec->sizes.op[i];
        if (!w.gated || w.op->code != QR_OP_SILU_MUL) {
            QR_CUDA(run(&w), qr_opcode_name(w.op->code), err);
            exec->n_launch++;
        }
        QR_TRY(mark(exec, i + 1, err));
        QR_TRY(give_sign(exec, i, err));
    }
    return QR_OK;
}
