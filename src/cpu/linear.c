/* linear.c - LINEAR: the input is packed row by row, then panels are handed out in groups.
 *
 * Tokens go in chunks of which the packed input stays in a core's second cache while the panels pass. */
#include "base/pack.h"
#include "cpu/exec.h"

#define L2_BYTES      400000    /* of packed input, of the 512 KiB and more that cores have */
#define PORTION_BYTES (1 << 20) /* of weights: a longer stream is not faster */

bool qr_cpu_type_is_float(enum qr_dtype type)
{
    return type == QR_F32 || type == QR_F16 || type == QR_BF16 || type == QR_F8S || type == QR_FP8;
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

/* Panels handed out together. One token is bound by memory, which gives most along few long streams: 2 portions for a
 * worker (355 tok/s on the default model with 2 threads, where 8 gave 271). Many tokens are bound by arithmetic:
 * smaller portions end together. */
static int group_of(const struct qr_span *span, int n_worker, int n_token)
{
    int parts = n_token < 16 ? 2 : 8, n = span->n_panel / (n_worker * parts), max = 16;
    if (n_token < 16)
        max = (int)(PORTION_BYTES / span->panel_bytes) + 1;
    return n_worker == 1 ? span->n_panel : n < 1 ? 1 : n > max ? max : n;
}

struct work {
    const struct qr_span *span;
    int n_span;
    bool any_float, any_int;
    struct qr_range rows; /* the packed input begins with the first of them */
    struct qr_act act;
};

static struct work work_of(const struct qr_cpu_exec *exec, int op_index)
{
    const struct qr_op *op = &exec->plan->op[op_index];
    struct work work = {.span = exec->span + exec->op_span[op_index],
                        .n_span = exec->op_span[op_index + 1] - exec->op_span[op_index],
                        .act = exec->act};
    for (int s = 0; s < work.n_span; s++) {
        if (qr_cpu_type_is_float(work.span[s].type))
            work.any_float = true;
        else
            work.any_int = true;
    }
    work.rows = qr_cpu_range(exec, op_index);
    work.act.n_token = work.rows.n;
    work.act.n_col = (int)op->weight->n_col;
    work.act.n_block = (work.act.n_col + QR_ACT_BLOCK - 1) / QR_ACT_BLOCK;
    work.act.chunk = chunk_of(work.act.n_block, work.any_float);
    return work;
}

void qr_cpu_pack_rows(const struct qr_cpu_exec *exec, int op, int r0, int r1)
{
    struct work work = work_of(exec, op);
    size_t stride;
    const float *x = qr_cpu_value(exec, exec->plan->op[op].in[0], &stride);
    int t0 = r0 - work.rows.first, t1 = r1 - work.rows.first;
    x += (size_t)r0 * stride;
    if (work.any_int)
        exec->table->act_i16(&work.act, x, stride, t0, t1);
    if (work.any_float)
        exec->table->act_f32(&work.act, x, stride, t0, t1);
}

static int count_portions(const struct work *work, int n_worker)
{
    int n = 0;
    for (int s = 0; s < work->n_span; s++) {
        int group = group_of(&work->span[s], n_worker, work->act.n_token);
        n += (work->span[s].n_panel + group - 1) / group;
    }
    return n;
}

int qr_cpu_count_dots(const struct qr_cpu_exec *exec, int op)
{
    struct work work = work_of(exec, op);
    return count_portions(&work, exec->n_thread) * ((work.act.n_token + work.act.chunk - 1) / work.act.chunk);
}

/* Portion i of a chunk: some panels of a span. */
void qr_cpu_dot(const struct qr_cpu_exec *exec, int op, int item)
{
    struct work work = work_of(exec, op);
    int n_portion = count_portions(&work, exec->n_thread);
    int i = item % n_portion; // NOLINT(clang-analyzer-core.DivideZero): the item exists, so there are portions
    int t0 = item / n_portion * work.act.chunk, left = work.act.n_token - t0;
    const struct qr_span *span = work.span;
    for (;; span++) {
        int group = group_of(span, exec->n_thread, work.act.n_token), n = (span->n_panel + group - 1) / group;
        if (i < n)
            break;
        i -= n;
    }
    int group = group_of(span, exec->n_thread, work.act.n_token), first = i * group;
    int last = first + group < span->n_panel ? first + group : span->n_panel;
    int row = first * QR_PANEL_ROWS, row_end = last * QR_PANEL_ROWS;
    struct qr_dot job = {
        .panel = span->panel + (uint64_t)first * span->panel_bytes,
        .panel_bytes = span->panel_bytes,
        .n_panel = last - first,
        .act = &work.act,
        .t0 = t0,
        .nt = left < work.act.chunk ? left : work.act.chunk,
        .n_row = (row_end < (int)span->n_row ? row_end : (int)span->n_row) - row,
        .bias = span->bias ? span->bias + row : NULL,
    };
    float *y = qr_cpu_value(exec, exec->plan->op[op].out[0], &job.y_stride);
    job.y = y + (size_t)(work.rows.first + t0) * job.y_stride + span->y_col + row;
    exec->table->dot[span->type](&job);
}
