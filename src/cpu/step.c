/* step.c - a step's numbers checked against the limits, and its attention cut into items. */
#include "cpu/exec.h"

static enum qr_status check_counts(const struct qr_cpu_exec *exec, const struct qr_step *step, struct qr_err *err)
{
    const struct qr_exec_limits *limits = &exec->limits;
    const struct {
        const char *name;
        int value, min, max;
    } all[] = {
        {"tokens", step->n_token, 1, limits->max_token},
        {"sequences", step->n_seq, 1, limits->max_seq},
        {"rows with logits", step->n_row, 0, limits->max_row},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].value > all[i].max)
            return qr_fail(err, QR_LIMIT, "a step has %d %s but the executor was made for %d", all[i].value,
                           all[i].name, all[i].max);
        if (all[i].value < all[i].min)
            return qr_fail(err, QR_INVALID, "a step has %d %s but needs at least %d", all[i].value, all[i].name,
                           all[i].min);
    }
    return QR_OK;
}

static enum qr_status check_tokens(const struct qr_cpu_exec *exec, const struct qr_step *step, struct qr_err *err)
{
    int64_t n_slot = (int64_t)exec->limits.n_block * QR_PAGE;
    for (int t = 0; t < step->n_token; t++) {
        if (step->token[t] < 0 || (uint32_t)step->token[t] >= exec->plan->n_vocab)
            return qr_fail(err, QR_INVALID, "token %d of the step is %d but the vocabulary has %u", t, step->token[t],
                           exec->plan->n_vocab);
        if (step->position[t] < 0 || step->position[t] >= exec->limits.max_len)
            return qr_fail(err, QR_LIMIT, "token %d of the step stands at position %d but the executor was made for %d",
                           t, step->position[t], exec->limits.max_len);
        if (step->slot[t] < -1 || step->slot[t] >= n_slot)
            return qr_fail(err, QR_LIMIT, "token %d of the step has slot %d but there are %lld", t, step->slot[t],
                           (long long)n_slot);
    }
    for (int r = 0; r < step->n_row; r++)
        if (step->row[r] < 0 || step->row[r] >= step->n_token || (r > 0 && step->row[r] <= step->row[r - 1]))
            return qr_fail(err, QR_INVALID, "row %d with logits is %d, not ascending in a step of %d tokens", r,
                           step->row[r], step->n_token);
    return QR_OK;
}

static enum qr_status check_copies(const struct qr_cpu_exec *exec, const struct qr_step *step, struct qr_err *err)
{
    int n_block = exec->limits.n_block;
    for (int i = 0; i < step->n_copy; i++)
        if (step->copy_from[i] < 0 || step->copy_from[i] >= n_block || step->copy_to[i] < 0 ||
            step->copy_to[i] >= n_block)
            return qr_fail(err, QR_INVALID, "block %d is to be copied to block %d but there are %d blocks",
                           step->copy_from[i], step->copy_to[i], n_block);
    return QR_OK;
}

static enum qr_status check_sequence(const struct qr_cpu_exec *exec, const struct qr_step *step, int s,
                                     struct qr_err *err)
{
    int begin = step->seq_begin[s], end = step->seq_begin[s + 1], len = step->seq_len[s];
    if (begin > end || end > step->n_token)
        return qr_fail(err, QR_INVALID, "sequence %d has rows %d to %d in a step of %d tokens", s, begin, end,
                       step->n_token);
    int n_page = len / QR_PAGE + (len % QR_PAGE != 0);
    if (len < 0 || n_page > step->table_stride)
        return qr_fail(err, QR_INVALID, "sequence %d has %d tokens but its block table only %d blocks", s, len,
                       step->table_stride);
    for (int t = begin; t < end; t++)
        if (step->position[t] >= len)
            return qr_fail(err, QR_INVALID, "token %d stands at position %d of a sequence with %d tokens", t,
                           step->position[t], len);
    const int32_t *table = step->block_table + (size_t)s * (size_t)step->table_stride;
    for (int p = 0; p < n_page; p++)
        if (table[p] < 0 || table[p] >= exec->limits.n_block)
            return qr_fail(err, QR_INVALID, "block %d of sequence %d is %d but there are %d blocks", p, s, table[p],
                           exec->limits.n_block);
    return QR_OK;
}

enum qr_status qr_cpu_check_step(const struct qr_cpu_exec *exec, const struct qr_step *step, struct qr_err *err)
{
    QR_TRY(check_counts(exec, step, err));
    QR_TRY(check_tokens(exec, step, err));
    QR_TRY(check_copies(exec, step, err));
    if (step->seq_begin[0] != 0)
        return qr_fail(err, QR_INVALID, "the first sequence of a step begins at row %d, not 0", step->seq_begin[0]);
    for (int s = 0; s < step->n_seq; s++)
        QR_TRY(check_sequence(exec, step, s, err));
    if (step->seq_begin[step->n_seq] != step->n_token)
        return qr_fail(err, QR_INVALID, "the sequences of a step have %d rows but it has %d tokens",
                       step->seq_begin[step->n_seq], step->n_token);
    return QR_OK;
}

/* ------------------------------------------------------- attention's items */

/* Query heads that a tile holds for each token: over all attention ops, the most. */
static int heads_in_tile(const struct qr_cpu_exec *exec)
{
    int heads = exec->sizes.max_heads / (int)exec->plan->n_kv_head;
    return heads < 1 ? 1 : heads > QR_ATTN_ROWS ? QR_ATTN_ROWS : heads;
}

static void add_item(struct qr_cpu_exec *exec, struct qr_attn_item item)
{
    exec->item[exec->n_item++] = item;
}

/* The last tile first: it sees the most keys, and work that is handed out should end with small portions. */
static void add_tiles(struct qr_cpu_exec *exec, int sequence, int begin, int end)
{
    int tile = QR_ATTN_ROWS / heads_in_tile(exec);
    for (int t = begin + (end - begin - 1) / tile * tile; t >= begin && end > begin; t -= tile) {
        int n = end - t < tile ? end - t : tile;
        add_item(exec, (struct qr_attn_item){.sequence = sequence, .t0 = t, .n_token = n, .segment = -1});
    }
}

/* Every token of the sequence alone, cut into segments; *used counts (token, segment) pairs. */
static void add_segments(struct qr_cpu_exec *exec, int sequence, int begin, int end, int *used)
{
    for (int t = begin; t < end; t++) {
        int n = exec->step->position[t] / QR_SEGMENT + 1;
        for (int s = 0; s < n; s++)
            add_item(exec,
                     (struct qr_attn_item){
                         .sequence = sequence, .t0 = t, .n_token = 1, .segment = s, .partial = *used, .n_partial = n});
        *used += n;
    }
}

/* Few tiles for many workers (decoding): sequences that bring few tokens are cut into segments, too, as long as the
 * area for partial results has room. Which way a token goes does not change its result. */
void qr_cpu_plan_attention(struct qr_cpu_exec *exec)
{
    const struct qr_step *step = exec->step;
    int tile = QR_ATTN_ROWS / heads_in_tile(exec), n_tile = 0, used = 0;
    for (int s = 0; s < step->n_seq; s++)
        n_tile += (step->seq_begin[s + 1] - step->seq_begin[s] + tile - 1) / tile;
    bool few = exec->n_thread > 1 && n_tile * (int)exec->plan->n_kv_head < 4 * exec->n_thread;
    exec->n_item = 0;
    exec->split = false;
    for (int s = 0; s < step->n_seq; s++) {
        int begin = step->seq_begin[s], end = step->seq_begin[s + 1];
        int pairs = end > begin ? step->position[end - 1] / QR_SEGMENT + 1 : 0;
        if (few && end - begin <= 2 && pairs > 1 && used + pairs * (end - begin) <= exec->sizes.max_partial) {
            add_segments(exec, s, begin, end, &used);
            exec->split = true;
        } else {
            add_tiles(exec, s, begin, end);
        }
    }
}
