/* attend.c - ATTENTION: items of step.c times kv heads; where a token's segments were split, they are merged in a
 * phase of its own. */
#include "cpu/exec.h"

/* The query heads of a kv head go together as far as a tile has rows. */
struct heads {
    int per_kv;  /* query heads of a kv head */
    int per_job; /* of these in one job */
    int n_job;   /* jobs over all kv heads */
};

static struct heads heads_of(const struct qr_op *op)
{
    struct heads h = {.per_kv = (int)(op->n_head / op->n_kv_head)};
    h.per_job = h.per_kv < QR_ATTN_ROWS ? h.per_kv : QR_ATTN_ROWS;
    h.n_job = (int)op->n_kv_head * ((h.per_kv + h.per_job - 1) / h.per_job);
    return h;
}

/* Partial results of a token: for heads [h, h + n) of a job at n_partial * h numbers of (2 + v_stride), there
 * [segment][n]. */
static float *partial_at(const struct qr_cpu_exec *exec, const struct qr_op *op, const struct qr_attn_item *item,
                         int head)
{
    size_t unit = 2 + (size_t)exec->kv.v_stride;
    return exec->partial + ((size_t)item->partial * op->n_head + (size_t)item->n_partial * (size_t)head) * unit;
}

int qr_cpu_count_attention(const struct qr_cpu_exec *exec, const struct qr_op *op)
{
    return exec->n_item * heads_of(op).n_job;
}

/* Does a row that wants logits depend on the item? In all layers but the last every row does. */
static bool wanted(const struct qr_cpu_exec *exec, const struct qr_op *op, const struct qr_attn_item *item)
{
    return op != &exec->plan->op[exec->last_attention] ||
           (item->t0 < exec->wanted.first + exec->wanted.n && item->t0 + item->n_token > exec->wanted.first);
}

void qr_cpu_attend(const struct qr_cpu_exec *exec, const struct qr_op *op, int index, int worker)
{
    const struct qr_step *step = exec->step;
    struct heads heads = heads_of(op);
    const struct qr_attn_item *item = &exec->item[index / heads.n_job];
    if (!wanted(exec, op, item))
        return;
    int job = index % heads.n_job;
    int per_kv_jobs = heads.n_job / (int)op->n_kv_head, kv_head = job / per_kv_jobs;
    int in_group = job % per_kv_jobs * heads.per_job;
    int head = kv_head * heads.per_kv + in_group, left = heads.per_kv - in_group;
    size_t q_stride, y_stride;
    const float *q = qr_cpu_value(exec, op->in[0], &q_stride);
    float *y = qr_cpu_value(exec, op->out[0], &y_stride);
    struct qr_attn_job a = {
        .q = q + (size_t)item->t0 * q_stride + (size_t)head * op->head_dim,
        .y = y + (size_t)item->t0 * y_stride + (size_t)head * op->head_dim,
        .q_stride = q_stride,
        .y_stride = y_stride,
        .position = step->position + item->t0,
        .n_token = item->n_token,
        .group = left < heads.per_job ? left : heads.per_job,
        .kv = &exec->kv,
        .page_offset = (uint64_t)op->layer * exec->kv.layer_bytes + (uint64_t)kv_head * exec->kv.head_bytes,
        .block_table = step->block_table + (size_t)item->sequence * (size_t)step->table_stride,
        .scale = op->attn_scale,
        .soft_cap = op->soft_cap,
        .window = op->window,
        .segment0 = item->segment < 0 ? 0 : item->segment,
        .segment1 = item->segment < 0 ? INT32_MAX : item->segment + 1,
        .scratch = (float *)(void *)(exec->scratch + (size_t)worker * exec->sizes.scratch),
    };
    if (item->segment >= 0)
        a.partial = partial_at(exec, op, item, head) +
                    (size_t)item->segment * (size_t)a.group * (2 + (size_t)exec->kv.v_stride);
    exec->table->attention(&a);
}

/* The last segment's item stands for its token. */
void qr_cpu_merge(const struct qr_cpu_exec *exec, const struct qr_op *op, int index, int worker)
{
    const struct qr_attn_item *item = &exec->item[index];
    if (item->segment < 0 || item->segment != item->n_partial - 1 || !wanted(exec, op, item))
        return;
    struct heads heads = heads_of(op);
    size_t unit = 2 + (size_t)exec->kv.v_stride, y_stride;
    float *y = qr_cpu_value(exec, op->out[0], &y_stride) + (size_t)item->t0 * y_stride;
    int position = exec->step->position[item->t0], begin = qr_attn_first(position, op->window) / QR_SEGMENT;
    for (int head = 0; head < (int)op->n_head; head++) {
        int in_group = head % heads.per_kv, first = head - in_group % heads.per_job;
        int left = heads.per_kv - (first % heads.per_kv), group = left < heads.per_job ? left : heads.per_job;
        struct qr_attn_merge_job job = {
            .partial =
                partial_at(exec, op, item, first) + ((size_t)begin * (size_t)group + (size_t)(head - first)) * unit,
            .partial_stride = (size_t)group * unit,
            .segment0 = begin,
            .segment1 = position / QR_SEGMENT + 1,
            .head_dim = op->head_dim,
            .v_stride = exec->kv.v_stride,
            .y = y + (size_t)head * op->head_dim,
            .scratch = (float *)(void *)(exec->scratch + (size_t)worker * exec->sizes.scratch),
        };
        exec->table->attention_merge(&job);
    }
}
