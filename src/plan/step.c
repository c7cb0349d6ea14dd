/* step.c - a step's numbers against an executor's limits, the same for every executor. */
#include "plan/exec.h"

static enum qr_status check_counts(const struct qr_exec_limits *limits, const struct qr_step *step, struct qr_err *err)
{
    const struct {
        const char *name;
        int value, min, max;
    } all[] = {
        {"tokens", step->n_token, 1, limits->max_token},
        {"sequences", step->n_seq, 1, limits->max_seq},
        {"rows with logits", step->n_row, 0, limits->max_row},
        {"block copies", step->n_copy, 0, limits->n_block},
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

/* A place is an id that is not known here; where nothing runs ahead there is none. */
static enum qr_status bad_token(const struct qr_plan *plan, const struct qr_exec_limits *limits, int t, int32_t token,
                                struct qr_err *err)
{
    if (limits->n_place == 0)
        return qr_fail(err, QR_INVALID, "token %d of the step is %d but the vocabulary has %u", t, token,
                       plan->n_vocab);
    return qr_fail(err, QR_INVALID, "token %d of the step is %d but the vocabulary has %u and there are %d places", t,
                   token, plan->n_vocab, limits->n_place);
}

static enum qr_status check_tokens(const struct qr_plan *plan, const struct qr_exec_limits *limits,
                                   const struct qr_step *step, struct qr_err *err)
{
    int64_t n_slot = (int64_t)limits->n_block * QR_PAGE;
    for (int t = 0; t < step->n_token; t++) {
        if (step->token[t] >= (int64_t)plan->n_vocab || -1 - (int64_t)step->token[t] >= limits->n_place)
            return bad_token(plan, limits, t, step->token[t], err);
        if (step->position[t] < 0 || step->position[t] >= limits->max_len)
            return qr_fail(err, QR_LIMIT, "token %d of the step stands at position %d but the executor was made for %d",
                           t, step->position[t], limits->max_len);
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

static enum qr_status check_copies(const struct qr_exec_limits *limits, const struct qr_step *step, struct qr_err *err)
{
    int n_block = limits->n_block;
    for (int i = 0; i < step->n_copy; i++)
        if (step->copy_from[i] < 0 || step->copy_from[i] >= n_block || step->copy_to[i] < 0 ||
            step->copy_to[i] >= n_block)
            return qr_fail(err, QR_INVALID, "block %d is to be copied to block %d but there are %d blocks",
                           step->copy_from[i], step->copy_to[i], n_block);
    return QR_OK;
}

static enum qr_status check_sequence(const struct qr_exec_limits *limits, const struct qr_step *step, int s,
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
        if (table[p] < 0 || table[p] >= limits->n_block)
            return qr_fail(err, QR_INVALID, "block %d of sequence %d is %d but there are %d blocks", p, s, table[p],
                           limits->n_block);
    return QR_OK;
}

enum qr_status qr_step_check(const struct qr_plan *plan, const struct qr_exec_limits *limits,
                             const struct qr_step *step, struct qr_err *err)
{
    QR_TRY(check_counts(limits, step, err));
    QR_TRY(check_tokens(plan, limits, step, err));
    QR_TRY(check_copies(limits, step, err));
    if (step->seq_begin[0] != 0)
        return qr_fail(err, QR_INVALID, "the first sequence of a step begins at row %d, not 0", step->seq_begin[0]);
    for (int s = 0; s < step->n_seq; s++)
        QR_TRY(check_sequence(limits, step, s, err));
    if (step->seq_begin[step->n_seq] != step->n_token)
        return qr_fail(err, QR_INVALID, "the sequences of a step have %d rows but it has %d tokens",
                       step->seq_begin[step->n_seq], step->n_token);
    return QR_OK;
}
