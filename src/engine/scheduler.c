/* scheduler.c - see scheduler.h. */
#include "engine/scheduler.h"
#include <stdlib.h>
#include <string.h>

enum qr_status qr_scheduler_init(struct qr_scheduler *s, int n_block, int max_token, int max_seq, int max_row,
                                 struct qr_err *err)
{
    *s = (struct qr_scheduler){.max_token = max_token, .max_seq = max_seq, .max_row = max_row};
    s->running = calloc((size_t)max_seq, sizeof(struct qr_sequence *));
    s->share = calloc((size_t)max_seq, sizeof(*s->share));
    enum qr_status status = qr_blocks_init(&s->blocks, n_block, err);
    if (status == QR_OK && (!s->running || !s->share))
        status = qr_fail(err, QR_NOMEM, "out of memory for scheduling %d sequences", max_seq);
    if (status != QR_OK)
        qr_scheduler_free(s);
    return status;
}

void qr_scheduler_free(struct qr_scheduler *s)
{
    free(s->running);
    free(s->share);
    qr_blocks_free(&s->blocks);
    *s = (struct qr_scheduler){0};
}

static bool goes_before(const struct qr_sequence *a, const struct qr_sequence *b)
{
    return a->priority != b->priority ? a->priority < b->priority : a->order < b->order;
}

void qr_scheduler_add(struct qr_scheduler *s, struct qr_sequence *seq)
{
    struct qr_sequence *before = s->last;
    while (before && goes_before(seq, before))
        before = before->prev;
    seq->prev = before;
    seq->next = before ? before->next : s->first;
    *(seq->next ? &seq->next->prev : &s->last) = seq;
    *(before ? &before->next : &s->first) = seq;
    seq->state = QR_SEQ_WAITING;
    s->n_waiting++;
}

static void leave_queue(struct qr_scheduler *s, struct qr_sequence *seq)
{
    *(seq->prev ? &seq->prev->next : &s->first) = seq->next;
    *(seq->next ? &seq->next->prev : &s->last) = seq->prev;
    seq->prev = seq->next = NULL;
    s->n_waiting--;
}

static void leave_running(struct qr_scheduler *s, struct qr_sequence *seq)
{
    int i = 0;
    while (s->running[i] != seq)
        i++;
    s->n_running--;
    memmove(&s->running[i], &s->running[i + 1], (size_t)(s->n_running - i) * sizeof(struct qr_sequence *));
    memmove(&s->share[i], &s->share[i + 1], (size_t)(s->n_running - i) * sizeof(*s->share));
    for (int b = 0; b < seq->n_block; b++)
        qr_blocks_drop(&s->blocks, seq->block[b]);
    seq->n_block = 0;
    seq->n_computed = 0;
}

void qr_scheduler_end(struct qr_scheduler *s, struct qr_sequence *seq)
{
    if (seq->state == QR_SEQ_WAITING)
        leave_queue(s, seq);
    else if (seq->state == QR_SEQ_RUNNING)
        leave_running(s, seq);
    seq->state = QR_SEQ_ENDED;
}

static void preempt_last(struct qr_scheduler *s)
{
    struct qr_sequence *seq = s->running[s->n_running - 1];
    leave_running(s, seq);
    qr_scheduler_add(s, seq);
    s->n_preempted++;
}

static void start(struct qr_scheduler *s, struct qr_sequence *seq, int share)
{
    int i = s->n_running++;
    leave_queue(s, seq);
    for (; i > 0 && goes_before(seq, s->running[i - 1]); i--) {
        s->running[i] = s->running[i - 1];
        s->share[i] = s->share[i - 1];
    }
    s->running[i] = seq;
    s->share[i] = share;
    seq->state = QR_SEQ_RUNNING;
}

/* What is left of the step while it is planned. */
struct budget {
    int tokens, rows;
};

/* The tokens that seq may bring, at most what it has; takes them off the budget. */
static int take_share(const struct qr_sequence *seq, struct budget *left)
{
    int n = seq->n_token - seq->n_computed, first = seq->n_computed;
    n = n < left->tokens ? n : left->tokens;
    int lo = qr_sequence_first_row(seq), hi = qr_sequence_last_row(seq);
    lo = lo > first ? lo : first;
    hi = hi < first + n ? hi : first + n - 1;
    int rows = hi >= lo ? hi - lo + 1 : 0;
    if (rows > left->rows) {
        rows = left->rows;
        n = lo + rows - first;
    }
    left->tokens -= n;
    left->rows -= rows;
    return n;
}

/* Blocks for the first n tokens; all or none. */
static bool grow(struct qr_scheduler *s, struct qr_sequence *seq, int n)
{
    int need = qr_blocks_for(n);
    if (need - seq->n_block > s->blocks.n_free)
        return false;
    while (seq->n_block < need)
        seq->block[seq->n_block++] = qr_blocks_take(&s->blocks);
    return true;
}

/* Those in the front first, so that the one at the end pays. Returns whether anyone was preempted. */
static bool grow_running(struct qr_scheduler *s)
{
    uint64_t before = s->n_preempted;
    for (int i = 0; i < s->n_running; i++) {
        struct qr_sequence *seq = s->running[i];
        while (i < s->n_running && !grow(s, seq, seq->n_computed + s->share[i]))
            preempt_last(s);
    }
    return s->n_preempted != before;
}

/* New ones as long as their prompts fit and a block is left for each that runs, so that they are not thrown out again
 * at once. Strictly in order: a long prompt is not overtaken for ever by short ones. */
static void admit(struct qr_scheduler *s, struct budget *left)
{
    while (s->first && s->n_running < s->max_seq && left->tokens > 0) {
        struct qr_sequence *seq = s->first;
        int spare = s->blocks.n_free - qr_blocks_for(seq->n_token);
        if (s->n_running > 0 ? spare < s->n_running : spare < 0)
            return;
        int share = take_share(seq, left);
        if (share == 0)
            return;
        start(s, seq, share);
        grow(s, seq, seq->n_token);
    }
}

void qr_scheduler_plan(struct qr_scheduler *s, struct qr_batch *batch)
{
    struct budget left = {s->max_token, s->max_row};
    for (int decoding = 1; decoding >= 0; decoding--)
        for (int i = 0; i < s->n_running; i++)
            if ((s->running[i]->n_token - s->running[i]->n_computed == 1) == decoding)
                s->share[i] = take_share(s->running[i], &left);
    if (!grow_running(s))
        admit(s, &left);
    qr_batch_clear(batch);
    for (int i = 0; i < s->n_running; i++)
        if (s->share[i] > 0)
            qr_batch_add(batch, s->running[i], s->share[i]);
}

void qr_scheduler_commit(struct qr_batch *batch)
{
    for (int i = 0; i < batch->n_item; i++)
        batch->item[i].seq->n_computed += batch->item[i].n;
}
