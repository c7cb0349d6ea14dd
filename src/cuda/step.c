/* step.c - a step's numbers checked against the limits, and laid out in the one buffer that goes to the device. */
#include <string.h>
#include "cuda/exec.h"

/* What the device's kernels ask beyond what every executor does. */
static enum qr_status check_more(const struct qr_cuda_exec *exec, const struct qr_step *step, struct qr_err *err)
{
    const struct qr_exec_limits *l = &exec->limits;
    if (exec->samples && (step->place < 0 || step->place > l->n_place - step->n_row))
        return qr_fail(err, QR_INVALID, "the ids of a step's %d rows are to be left from place %d on but there are %d",
                       step->n_row, step->place, l->n_place);
    for (int s = 0; s < step->n_seq; s++) {
        if (step->seq_len[s] > l->max_len)
            return qr_fail(err, QR_INVALID, "sequence %d has %d tokens but the executor was made for %d", s,
                           step->seq_len[s], l->max_len);
        for (int t = step->seq_begin[s] + 1; t < step->seq_begin[s + 1]; t++)
            if (step->position[t] != step->position[t - 1] + 1)
                return qr_fail(err, QR_INVALID, "token %d stands at position %d, not behind the one before it", t,
                               step->position[t]);
    }
    return QR_OK;
}

enum qr_status qr_cuda_check_step(const struct qr_cuda_exec *exec, const struct qr_step *step, struct qr_err *err)
{
    QR_TRY(qr_step_check(exec->plan, &exec->limits, step, err));
    return check_more(exec, step, err);
}

/* ---------------------------------------------------------------- attention's units */

/* Tokens of a sequence that one unit of few pairs holds make it a decoding one. */
static bool is_few(const struct qr_cuda_exec *exec, int n_token)
{
    return n_token * exec->sizes.group <= QR_CU_FEW;
}

static int cuts_of(const struct qr_step *step, int s)
{
    return step->position[step->seq_begin[s + 1] - 1] / QR_CU_CUT + 1;
}

/* A context of more than twice the cuts that are a multiprocessor's share of all is cut, as long as there is room for the
 * parts: cuts one after the other overlap, and parts have to be added. Which way a token goes does not change its result. */
static int add_few(const struct qr_cuda_exec *exec, const struct qr_step *step, struct qr_cu_item *item)
{
    int n = 0, part = 0;
    int64_t total = 0;
    for (int s = 0; s < step->n_seq; s++) {
        int n_token = step->seq_begin[s + 1] - step->seq_begin[s];
        if (n_token > 0 && is_few(exec, n_token))
            total += cuts_of(step, s);
    }
    int64_t share = (total * (int64_t)exec->plan->n_kv_head + exec->on.n_sm - 1) / exec->on.n_sm;
    for (int s = 0; s < step->n_seq; s++) {
        int begin = step->seq_begin[s], end = step->seq_begin[s + 1];
        if (begin == end || !is_few(exec, end - begin))
            continue;
        int n_cut = cuts_of(step, s);
        struct qr_cu_item unit = {.row = begin,
                                  .n_pair = (end - begin) * exec->sizes.group,
                                  .sequence = s,
                                  .cut = -1,
                                  .n_cut = n_cut,
                                  .part = part,
                                  .tile = s,
                                  .first = step->position[begin]};
        if (n_cut == 1 || (share > 1 && n_cut <= 2 * share) || part + n_cut > exec->sizes.n_part) {
            item[n++] = unit;
            continue;
        }
        for (unit.cut = 0; unit.cut < n_cut; unit.cut++)
            item[n++] = unit;
        part += n_cut;
    }
    return n;
}

/* The last tile of a sequence first: it sees the most keys. */
static int add_many(const struct qr_cuda_exec *exec, const struct qr_step *step, struct qr_cu_item *item)
{
    int n = 0;
    for (int s = 0; s < step->n_seq; s++) {
        int begin = step->seq_begin[s], end = step->seq_begin[s + 1], pairs = (end - begin) * exec->sizes.group;
        if (begin == end || is_few(exec, end - begin))
            continue;
        for (int p = (pairs - 1) / QR_CU_MANY * QR_CU_MANY; p >= 0; p -= QR_CU_MANY)
            item[n++] = (struct qr_cu_item){.row = begin,
                                            .pair = p,
                                            .n_pair = pairs - p < QR_CU_MANY ? pairs - p : QR_CU_MANY,
                                            .sequence = s,
                                            .cut = -1,
                                            .first = step->position[begin]};
    }
    return n;
}

/* ---------------------------------------------------------------- the buffer */

#define GRAPH_TOKENS 512

/* The sizes that graphs come in: every one to 8, then eights, then thirty-twos. */
static int padded(int n, int most)
{
    int to = n <= 8 ? n : n <= 64 ? (n + 7) / 8 * 8 : (n + 31) / 32 * 32;
    return to < most ? to : most;
}

static int power_of_two(int n, int most)
{
    int to = 1;
    while (to < n)
        to *= 2;
    return to < most ? to : most;
}

/* n values and then padding up to n_padded. */
static uint64_t put(int32_t *words, uint64_t *at, const int32_t *from, int n, int n_padded, int32_t padding)
{
    uint64_t here = *at;
    if (n > 0)
        memcpy(words + here, from, (size_t)n * sizeof *from);
    for (int i = n; i < n_padded; i++)
        words[here + (uint64_t)i] = padding;
    *at = (here + (uint64_t)n_padded + 3) & ~UINT64_C(3);
    return here;
}

static int pages_of(const struct qr_step *step, int s)
{
    return (step->seq_len[s] + QR_PAGE - 1) / QR_PAGE;
}

static bool only_few(const struct qr_cuda_exec *exec, const struct qr_step *step)
{
    for (int s = 0; s < step->n_seq; s++)
        if (!is_few(exec, step->seq_begin[s + 1] - step->seq_begin[s]))
            return false;
    return true;
}

static void put_table(const struct qr_step *step, int32_t *words, uint64_t *at)
{
    int stride = 0;
    for (int s = 0; s < step->n_seq; s++)
        stride = pages_of(step, s) > stride ? pages_of(step, s) : stride;
    words[2] = stride;
    for (int s = 0; s < step->n_seq; s++) {
        int n = pages_of(step, s);
        int32_t *row = words + *at + (uint64_t)s * (uint64_t)stride;
        memcpy(row, step->block_table + (size_t)s * (size_t)step->table_stride, (size_t)n * sizeof *row);
        memset(row + n, 0, (size_t)(stride - n) * sizeof *row);
    }
    *at += ((uint64_t)step->n_seq * (uint64_t)stride + 3) & ~UINT64_C(3);
}

bool qr_cuda_fill_step(const struct qr_cuda_exec *exec, const struct qr_step *step, bool graph, int32_t *words,
                       struct qr_cuda_shape *shape)
{
    const uint64_t item_words = sizeof(struct qr_cu_item) / 4;
    uint64_t at = 4;
    if (graph && (step->n_token > GRAPH_TOKENS || !only_few(exec, step)))
        return false;
    *shape = (struct qr_cuda_shape){.n_token = step->n_token, .n_row = step->n_row, .n_copy = step->n_copy};
    if (graph) {
        shape->n_token = padded(step->n_token, exec->limits.max_token);
        shape->n_row = step->n_row == step->n_token && shape->n_token <= exec->limits.max_row
                           ? shape->n_token
                           : padded(step->n_row, exec->limits.max_row);
    }
    shape->token = put(words, &at, step->token, step->n_token, shape->n_token, 0);
    shape->position = put(words, &at, step->position, step->n_token, shape->n_token, 0);
    shape->slot = put(words, &at, step->slot, step->n_token, shape->n_token, -1);
    shape->row = put(words, &at, step->row, step->n_row, shape->n_row, 0);
    shape->few = at;
    words[0] = add_few(exec, step, (struct qr_cu_item *)(void *)(words + at));
    shape->max_few = graph ? power_of_two(words[0], exec->sizes.max_few) : words[0];
    memset(words + at + (uint64_t)words[0] * item_words, 0,
           (uint64_t)(shape->max_few - words[0]) * sizeof(struct qr_cu_item));
    at += (uint64_t)shape->max_few * item_words;
    shape->many = at;
    words[1] = shape->max_many = graph ? 0 : add_many(exec, step, (struct qr_cu_item *)(void *)(words + at));
    at += (uint64_t)shape->max_many * item_words;
    words[3] = 0;
    shape->table = at;
    put_table(step, words, &at);
    shape->copy_from = put(words, &at, step->copy_from, step->n_copy, step->n_copy, 0);
    shape->copy_to = put(words, &at, step->copy_to, step->n_copy, step->n_copy, 0);
    shape->end = at;
    return true;
}
