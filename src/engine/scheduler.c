/* scheduler.c - see scheduler.h. */
#include "engine/scheduler.h"
#include <stdlib.h>
#include <string.h>
#include "engine/prefix.h"

enum qr_status qr_scheduler_init(struct qr_scheduler *s, int n_block, int max_token, int max_seq, int max_row,
                                 struct qr_err *err)
{
    *s = (struct qr_scheduler){.max_token = max_token, .max_seq = max_seq, .max_row = max_row, .prefix_cache = true};
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
    qr_queue_free(&s->queue);
    qr_blocks_free(&s->blocks);
    *s = (struct qr_scheduler){0};
}

/* ---------------------------------------------------------------- who is where */

static void wait_in_queue(struct qr_scheduler *s, struct qr_sequence *seq)
{
    seq->state = QR_SEQ_WAITING;
    qr_queue_add(&s->queue, seq);
}

void qr_scheduler_join(struct qr_scheduler *s, struct qr_job *job)
{
    qr_queue_join(&s->queue, job);
    wait_in_queue(s, &job->choice[job->n_added++]);
}

void qr_scheduler_leave(struct qr_scheduler *s, struct qr_job *job)
{
    qr_queue_leave(&s->queue, job);
}

/* The choices behind the first one. */
static void add_siblings(struct qr_scheduler *s, struct qr_job *job)
{
    for (; job->n_added < job->n_choice; job->n_added++)
        if (job->choice[job->n_added].state == QR_SEQ_NEW)
            wait_in_queue(s, &job->choice[job->n_added]);
}

/* From the end, so that of a chain in the prefix cache the end is handed out before the beginning. */
static void drop_blocks(struct qr_scheduler *s, struct qr_sequence *seq)
{
    while (seq->n_block > 0)
        qr_blocks_drop(&s->blocks, seq->block[--seq->n_block]);
    seq->n_computed = seq->n_indexed = seq->n_draft = 0;
}

static void start_running(struct qr_scheduler *s, struct qr_sequence *seq, int share)
{
    int i = s->n_running++;
    qr_queue_remove(&s->queue, seq);
    for (; i > 0 && qr_sequence_before(seq, s->running[i - 1]); i--) {
        s->running[i] = s->running[i - 1];
        s->share[i] = s->share[i - 1];
    }
    s->running[i] = seq;
    s->share[i] = share;
    seq->state = QR_SEQ_RUNNING;
    seq->job->flow->n_running++;
}

static void stop_running(struct qr_scheduler *s, struct qr_sequence *seq)
{
    int i = 0;
    while (s->running[i] != seq)
        i++;
    s->n_running--;
    memmove(&s->running[i], &s->running[i + 1], (size_t)(s->n_running - i) * sizeof(struct qr_sequence *));
    memmove(&s->share[i], &s->share[i + 1], (size_t)(s->n_running - i) * sizeof(*s->share));
    seq->job->flow->n_running--;
    if (s->prefix_cache && !seq->spoiled)
        qr_prefix_keep(&s->blocks, seq);
    drop_blocks(s, seq);
}

static void preempt_last(struct qr_scheduler *s)
{
    struct qr_sequence *seq = s->running[s->n_running - 1];
    stop_running(s, seq);
    wait_in_queue(s, seq);
    s->n_preempted++;
}

void qr_scheduler_end(struct qr_scheduler *s, struct qr_sequence *seq)
{
    enum qr_sequence_state was = seq->state;
    s->blocked = NULL;
    seq->state = was == QR_SEQ_RUNNING && seq->n_flight > 0 ? QR_SEQ_LEAVING : QR_SEQ_ENDED;
    if (was == QR_SEQ_WAITING)
        qr_queue_remove(&s->queue, seq);
    else if (was == QR_SEQ_RUNNING && seq->state == QR_SEQ_ENDED)
        stop_running(s, seq);
    if (was != QR_SEQ_NEW && seq->choice == 0)
        add_siblings(s, seq->job); /* they will not be given its prompt any more */
}

/* ---------------------------------------------------------------- what each brings */

/* What is left of the step while it is planned. */
struct budget {
    int tokens, rows;
};

static int remaining(const struct qr_scheduler *s, const struct qr_sequence *seq)
{
    if (seq->state == QR_SEQ_LEAVING || seq->cancelled)
        return 0;
    if (seq->n_ahead > 0 && (s->drafts || qr_sequence_is_full(seq)))
        return 0; /* its ids are waited for */
    return qr_sequence_length(seq) - seq->n_computed;
}

/* The tokens that seq may bring, at most what it has; takes them off the budget. */
static int take_share(const struct qr_scheduler *s, const struct qr_sequence *seq, struct budget *left)
{
    int n = remaining(s, seq), lo;
    n = n < left->tokens ? n : left->tokens;
    int rows = qr_sequence_rows(seq, seq->n_computed, n, &lo);
    if (rows > left->rows) {
        rows = left->rows;
        n = lo + rows - seq->n_computed;
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

/* Those in the front first, so that the one at the end pays. False: a step in flight may give blocks back. */
static bool grow_running(struct qr_scheduler *s, bool in_flight)
{
    for (int i = 0; i < s->n_running; i++) {
        struct qr_sequence *seq = s->running[i];
        while (i < s->n_running && !grow(s, seq, seq->n_computed + s->share[i])) {
            if (in_flight)
                return false;
            preempt_last(s);
        }
    }
    return true;
}

/* ---------------------------------------------------------------- who starts */

/* New ones as long as all their tokens fit and a block is left for each that runs, so that they are not thrown out again
 * at once. Strictly in order: a long prompt is not overtaken for ever by short ones. */
static void admit(struct qr_scheduler *s, struct qr_batch *batch, struct budget *left)
{
    struct qr_sequence *seq;
    while (s->n_running < s->max_seq && left->tokens > 0 && (seq = qr_queue_first(&s->queue))) {
        if (seq == s->blocked && s->blocks.n_free - s->n_running <= s->blocked_spare)
            return; /* looking a long prompt up again costs more than the step's planning */
        qr_prefix_share(&s->blocks, s->prefix_cache, seq);
        bool copies = qr_prefix_writes_shared(&s->blocks, seq);
        int spare = s->blocks.n_free - (qr_blocks_for(seq->n_token) - seq->n_block + copies);
        bool fits = spare >= s->n_running;
        int share = fits ? take_share(s, seq, left) : 0;
        if (share == 0) {
            drop_blocks(s, seq);
            s->blocked = fits ? NULL : seq;
            s->blocked_spare = s->blocks.n_free - s->n_running;
            return;
        }
        start_running(s, seq, share);
        if (copies)
            qr_prefix_copy(&s->blocks, seq, batch);
        grow(s, seq, seq->n_token);
        if (seq->n_charged == 0) { /* its first start */
            seq->n_cached = seq->n_charged = seq->n_computed;
            s->n_asked += (uint64_t)seq->n_prompt;
            s->n_hit += (uint64_t)seq->n_cached;
        }
    }
}

/* ---------------------------------------------------------------- a step */

enum qr_planned qr_scheduler_plan(struct qr_scheduler *s, struct qr_batch *batch, bool in_flight)
{
    struct budget left = {s->max_token, s->max_row};
    uint64_t preempted = s->n_preempted;
    for (int decoding = 1; decoding >= 0; decoding--)
        for (int i = 0; i < s->n_running; i++) {
            const struct qr_sequence *seq = s->running[i];
            if ((seq->n_token + seq->n_ahead - seq->n_computed == 1) == decoding)
                s->share[i] = take_share(s, seq, &left);
        }
    qr_batch_clear(batch);
    if (!grow_running(s, in_flight))
        return QR_PLAN_WAIT;
    if (s->n_preempted == preempted)
        admit(s, batch, &left);
    for (int i = 0; i < s->n_running; i++) {
        struct qr_sequence *seq = s->running[i];
        int drafts = seq->n_computed + s->share[i] - seq->n_token;
        if (s->share[i] == 0)
            continue;
        if (seq->n_draft > drafts) /* the step has no room for all of them */
            seq->n_draft = drafts > 0 ? drafts : 0;
        qr_batch_add(batch, seq, s->share[i]);
    }
    return batch->n_item > 0 ? QR_PLAN_STEP : in_flight ? QR_PLAN_WAIT : QR_PLAN_IDLE;
}

void qr_scheduler_commit(struct qr_scheduler *s, struct qr_batch *batch)
{
    for (int i = 0; i < batch->n_item; i++) {
        const struct qr_batch_item *item = &batch->item[i];
        struct qr_sequence *seq = item->seq;
        int end = item->position + item->n, fresh = end - seq->n_charged;
        seq->n_computed = end;
        seq->n_flight++;
        if (fresh > 0) { /* what is computed again was charged before */
            int n_output = end > seq->n_prompt ? end - seq->n_prompt : 0;
            n_output = n_output < fresh ? n_output : fresh;
            qr_queue_charge(seq, fresh - n_output, n_output);
            seq->n_charged = end;
        }
        seq->next_logprob += item->n_logprob;
        if (item->n_row > item->n_given && seq->n_draft == 0)
            seq->ahead[seq->n_ahead++] = -1 - (batch->step.place + item->row + item->n_row - 1);
        if (seq->choice == 0 && end >= seq->n_prompt)
            add_siblings(s, seq->job);
    }
}

void qr_scheduler_land(struct qr_scheduler *s, const struct qr_batch_item *item)
{
    struct qr_sequence *seq = item->seq;
    int end = item->position + item->n;
    seq->n_flight--;
    if (seq->n_draft > 0) { /* what was not taken is as if it had not been there */
        seq->n_draft = 0;
        end = end < seq->n_token - 1 ? end : seq->n_token - 1;
        seq->n_computed = end;
    }
    if (seq->state == QR_SEQ_RUNNING && s->prefix_cache)
        qr_prefix_index(&s->blocks, seq, end < seq->n_token ? end : seq->n_token);
    if (seq->state == QR_SEQ_LEAVING && seq->n_flight == 0) {
        seq->state = QR_SEQ_ENDED;
        stop_running(s, seq);
    }
}
