/* linear.c - LINEAR over all workers: the input is packed row by row, then panels are handed out in groups.
 *
 * Tokens go in chunks of which the packed input stays in a core's second cache while the panels pass. */
#include "base/pack.h"
#include "cpu/exec.h"

#define L2_BYTES 400000 /* of packed input, of the 512 KiB and more that cores have */

bool qr_cpu_type_is_float(enum qr_dtype type)
{
    return type == QR_F32 || type == QR_F16 || type == QR_BF16;
}

/* Rows of the view that lie in the segment: [*begin, *end) of the storage. */
static bool overlap(const struct qr_weight *weight, const struct qr_segment *segment, uint32_t *begin, uint32_t *end)
{
    uint32_t weight_end = weight->row + weight->n_row, segment_end = segment->row + segment->n_row;
    *begin = segment->row > weight->row ? segment->row : weight->row;
    *end = segment_end < weight_end ? segment_end : weight_end;
    return *begin < *end;
}

int qr_cpu_count_spans(const struct qr_weight *weight)
{
    int n = 0;
    uint32_t begin, end;
    for (int i = 0; i < weight->storage->n_segment; i++)
        n += overlap(weight, &weight->storage->segment[i], &begin, &end);
    return n;
}

enum qr_status qr_cpu_make_spans(const struct qr_op *op, struct qr_span *span, struct qr_err *err)
{
    const struct qr_weight *weight = op->weight;
    for (int i = 0; i < weight->storage->n_segment; i++) {
        const struct qr_segment *segment = &weight->storage->segment[i];
        uint32_t begin, end;
        if (!overlap(weight, segment, &begin, &end))
            continue;
        if (segment->packing != QR_PANEL16 || !qr_pack_supported(segment->type, weight->n_col))
            return qr_fail(err, QR_UNSUPPORTED, "%s of type %s with %u columns is not packed for the CPU", weight->name,
                           qr_dtype_info(segment->type)->name, weight->n_col);
        uint64_t bytes = qr_panel_bytes(segment->type, weight->n_col);
        uint32_t first = (begin - segment->row) / QR_PANEL_ROWS;
        *span = (struct qr_span){.type = segment->type,
                                 .y_col = begin - weight->row,
                                 .n_row = end - begin,
                                 .n_panel = (int)((end - begin + QR_PANEL_ROWS - 1) / QR_PANEL_ROWS),
                                 .panel_bytes = bytes,
                                 .panel = segment->data ? (const uint8_t *)segment->data + first * bytes : NULL,
                                 .bias = weight->bias ? weight->bias + (begin - weight->row) : NULL};
        if (segment->data && segment->bytes / bytes < first + (uint64_t)span->n_panel)
            return qr_fail(err, QR_INTERNAL, "%s has %llu bytes, too few for its %u rows", weight->name,
                           (unsigned long long)segment->bytes, segment->n_row);
        span++;
    }
    return QR_OK;
}

/* Tokens that fill the second cache, a multiple of 8. */
static int chunk_of(int n_block, bool is_float)
{
    int bytes = n_block * QR_ACT_BLOCK * (is_float ? 4 : 2), n = L2_BYTES / bytes / 8 * 8;
    return n < 8 ? 8 : n > QR_MAX_CHUNK ? QR_MAX_CHUNK : n;
}

/* Panels handed out together: some 8 portions for a worker, but few enough steps of the counter. */
static int group_of(int n_panel, int n_worker)
{
    int n = n_panel / (n_worker * 8);
    return n_worker == 1 ? n_panel : n < 1 ? 1 : n > 16 ? 16 : n;
}

struct work {
    const struct qr_span *span;
    int n_span;
    float *y;
    size_t y_stride;
};

/* Portion i of those of a chunk: which panels of which span. False: there are fewer. */
static bool portion_at(const struct work *work, int n_worker, int i, struct qr_dot *job, enum qr_dtype *type)
{
    for (int s = 0; s < work->n_span; s++) {
        const struct qr_span *span = &work->span[s];
        int group = group_of(span->n_panel, n_worker), n = (span->n_panel + group - 1) / group;
        if (i >= n) {
            i -= n;
            continue;
        }
        int first = i * group, last = first + group < span->n_panel ? first + group : span->n_panel;
        int row = first * QR_PANEL_ROWS, row_end = last * QR_PANEL_ROWS;
        job->panel = span->panel + (uint64_t)first * span->panel_bytes;
        job->panel_bytes = span->panel_bytes;
        job->n_panel = last - first;
        job->n_row = (row_end < (int)span->n_row ? row_end : (int)span->n_row) - row;
        job->bias = span->bias ? span->bias + row : NULL;
        job->y = work->y + (size_t)job->t0 * work->y_stride + span->y_col + row;
        *type = span->type;
        return true;
    }
    return false;
}

static int count_portions(const struct work *work, int n_worker)
{
    int n = 0;
    for (int s = 0; s < work->n_span; s++) {
        int group = group_of(work->span[s].n_panel, n_worker);
        n += (work->span[s].n_panel + group - 1) / group;
    }
    return n;
}

static void run_portions(struct qr_walker *walker, const struct work *work, const struct qr_act *act)
{
    const struct qr_cpu_exec *exec = walker->exec;
    int n_portion = count_portions(work, walker->n_worker), n_chunk = (act->n_token + act->chunk - 1) / act->chunk;
    atomic_int *next = qr_cpu_next_phase(walker);
    for (;;) {
        int i = atomic_fetch_add_explicit(next, 1, memory_order_relaxed);
        if (i >= n_portion * n_chunk)
            return;
        int t0 = i / n_portion * act->chunk, left = act->n_token - t0;
        struct qr_dot job = {
            .act = act, .t0 = t0, .nt = left < act->chunk ? left : act->chunk, .y_stride = work->y_stride};
        enum qr_dtype type;
        if (portion_at(work, walker->n_worker, i % n_portion, &job, &type))
            exec->table->dot[type](&job);
    }
}

void qr_cpu_linear(struct qr_walker *walker, int op_index)
{
    struct qr_cpu_exec *exec = walker->exec;
    const struct qr_op *op = &exec->plan->op[op_index];
    struct work work = {.span = exec->span + exec->op_span[op_index],
                        .n_span = exec->op_span[op_index + 1] - exec->op_span[op_index]};
    size_t x_stride;
    const float *x = qr_cpu_value(exec, op->in[0], &x_stride);
    work.y = qr_cpu_value(exec, op->out[0], &work.y_stride);

    bool any_float = false, any_int = false;
    for (int s = 0; s < work.n_span; s++) {
        if (qr_cpu_type_is_float(work.span[s].type))
            any_float = true;
        else
            any_int = true;
    }
    struct qr_act act = exec->act;
    int t0, t1;
    act.n_token = qr_cpu_rows(exec, op->in[0]);
    act.n_col = (int)op->weight->n_col;
    act.n_block = (act.n_col + QR_ACT_BLOCK - 1) / QR_ACT_BLOCK;
    act.chunk = chunk_of(act.n_block, any_float);
    qr_cpu_share(walker, act.n_token, &t0, &t1);
    if (any_int)
        exec->table->act_i16(&act, x + (size_t)t0 * x_stride, x_stride, t0, t1);
    if (any_float)
        exec->table->act_f32(&act, x + (size_t)t0 * x_stride, x_stride, t0, t1);
    run_portions(walker, &work, &act);
}
