/* world.c - see world.h. */
#include "world.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/rand.h"

int world_below(struct world *w, int n)
{
    return (int)(qr_rand_uniform(11, 0, (uint32_t)w->draw++) * (float)n);
}

void world_make(struct world *w, struct world_shape shape)
{
    memset(w, 0, sizeof *w);
    w->shape = shape;
    w->n_ring = shape.run_ahead + 1;
    assert_true(shape.max_row <= 600 && w->n_ring <= WORLD_MAX_RING && shape.n_block <= WORLD_MAX_BLOCK);
    assert_int_equal(qr_scheduler_init(&w->s, shape.n_block, shape.max_token, shape.max_seq, shape.max_row, NULL),
                     QR_OK);
    w->s.prefix_cache = !shape.no_cache;
    w->s.drafts = shape.drafts > 0;
    for (int i = 0; i < w->n_ring; i++)
        assert_int_equal(qr_batch_init(&w->ring[i], shape.max_token, shape.max_seq, shape.max_row,
                                       qr_blocks_for(WORLD_MAX_LEN), NULL),
                         QR_OK);
}

/* ---------------------------------------------------------------- sequences and their tokens */

/* What choice `seq` says at a position: the model of this world. */
static int32_t said(const struct qr_sequence *seq, int position)
{
    return (int32_t)(qr_rand_uniform(seq->job->seed, (uint32_t)seq->choice, (uint32_t)position) * 50) + 1000;
}

static bool stops(const struct qr_sequence *seq, int32_t token)
{
    return seq->job->params.n_stop > 0 && token % 16 == 3;
}

int32_t world_token(const struct qr_sequence *seq, int position)
{
    return position < seq->n_prompt ? seq->token[position] : said(seq, position);
}

static uint64_t mix(uint64_t print, int32_t token)
{
    print = (print ^ (uint64_t)(uint32_t)token) * 0x9E3779B97F4A7C15u;
    return print ^ print >> 29;
}

struct qr_job *world_add(struct world *w, struct world_ask ask)
{
    struct qr_job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    *job = (struct qr_job){.id = w->order + 1, .key = ask.key, .salt = ask.salt, .n_choice = ask.n_choice};
    job->seed = w->order;
    job->params.n_stop = ask.stops; /* a mark for stops(), nothing else reads it */
    job->own_flow = calloc(1, sizeof *job->own_flow);
    job->choice = calloc((size_t)ask.n_choice, sizeof *job->choice);
    assert_non_null(job->own_flow);
    assert_non_null(job->choice);
    int alike = ask.n_prompt * 3 / 4;
    for (int c = 0; c < ask.n_choice; c++) {
        struct qr_sequence *seq = &job->choice[c];
        *seq = (struct qr_sequence){.job = job, .choice = c, .priority = ask.priority, .order = w->order++};
        seq->room = ask.n_prompt + ask.max_output;
        seq->token = calloc((size_t)seq->room + 1, sizeof *seq->token);
        seq->block = calloc((size_t)qr_blocks_for(seq->room) + 1, sizeof *seq->block);
        assert_non_null(seq->token);
        assert_non_null(seq->block);
        seq->n_token = seq->n_prompt = ask.n_prompt;
        seq->max_output = ask.max_output;
        seq->next_logprob = ask.logprobs && c == 0 ? 0 : ask.n_prompt;
        for (int i = 0; i < ask.n_prompt; i++)
            seq->token[i] = i < alike ? ask.family * 100 + i % 7 : (int32_t)job->id * 5000 + i;
    }
    qr_scheduler_join(&w->s, job);
    assert_true(w->n_job < WORLD_MAX_JOB);
    w->job[w->n_job++] = job;
    return job;
}

static void gone(struct world *w, struct qr_job *job)
{
    int i = 0;
    if (++job->n_ended < job->n_choice)
        return;
    qr_scheduler_leave(&w->s, job);
    while (w->job[i] != job)
        i++;
    w->job[i] = w->job[--w->n_job];
    for (int c = 0; c < job->n_choice; c++) {
        assert_int_equal(job->choice[c].n_block, 0);
        free(job->choice[c].token);
        free(job->choice[c].block);
    }
    assert_non_null(job->own_flow);
    free(job->own_flow);
    free(job->choice);
    free(job);
}

static void finish(struct world *w, struct qr_sequence *seq)
{
    qr_scheduler_end(&w->s, seq);
    w->n_ended++;
    if (seq->state == QR_SEQ_ENDED)
        gone(w, seq->job);
}

void world_cancel(struct world *w, struct qr_job *job)
{
    int n = job->n_choice, left = n - job->n_ended;
    job->ending = true;
    for (int c = 0; c < n && left > 0; c++) {
        struct qr_sequence *seq = &job->choice[c];
        if (seq->state == QR_SEQ_ENDED)
            continue;
        left--;
        if (seq->n_flight > 0)
            seq->cancelled = true;
        else
            finish(w, seq);
    }
}

/* ---------------------------------------------------------------- the device */

/* Copies, writes, and reads back all that each sequence of the step looks at. */
static void compute(struct world *w, const struct qr_batch *batch)
{
    const struct qr_step *step = &batch->step;
    for (int i = 0; i < step->n_copy; i++)
        memcpy(&w->slot[step->copy_to[i] * QR_PAGE], &w->slot[step->copy_from[i] * QR_PAGE], QR_PAGE * sizeof *w->slot);
    w->n_copy += (uint64_t)step->n_copy;
    for (int pass = 0; pass < 2; pass++) /* all write, then all read */
        for (int i = 0; i < step->n_seq; i++) {
            const struct qr_sequence *seq = batch->item[i].seq;
            const int32_t *table = step->block_table + i * step->table_stride;
            uint64_t print = seq->job->salt;
            for (int p = 0; p < step->seq_len[i]; p++) {
                const struct qr_batch_item *item = &batch->item[i];
                int at = step->seq_begin[i] + p - item->position;
                int32_t token = p < seq->n_token + seq->n_draft ? seq->token[p] : world_token(seq, p);
                struct world_slot *slot = &w->slot[table[p / QR_PAGE] * QR_PAGE + p % QR_PAGE];
                print = mix(print, token);
                if (pass == 0 && p >= item->position) {
                    assert_ptr_equal(slot, &w->slot[step->slot[at]]);
                    *slot = (struct world_slot){print, token};
                }
                if (pass == 1) {
                    assert_int_equal(slot->token, token);
                    assert_true(slot->print == print);
                }
            }
        }
}

/* What the executor is promised of a step. */
static void check_batch(struct world *w, const struct qr_batch *batch)
{
    const struct qr_step *step = &batch->step;
    int row = 0;
    assert_true(step->n_token <= w->shape.max_token && step->n_row <= w->shape.max_row);
    assert_true(step->n_copy <= w->shape.max_seq);
    assert_int_equal(step->n_seq, batch->n_item);
    for (int i = 0; i < step->n_seq; i++) {
        const struct qr_batch_item *item = &batch->item[i];
        const struct qr_sequence *seq = item->seq;
        int known = seq->n_token + seq->n_draft, end = seq->n_token + seq->n_ahead;
        assert_int_equal(step->seq_begin[i + 1] - step->seq_begin[i], item->n);
        assert_true(item->n > 0 && !seq->cancelled);
        assert_int_equal(step->seq_len[i], item->position + item->n);
        assert_int_equal(item->row, row);
        for (int t = 0; t < item->n; t++) {
            int at = step->seq_begin[i] + t, position = item->position + t;
            assert_int_equal(step->position[at], position);
            if (position < known) {
                assert_int_equal(step->token[at], seq->token[position]);
            } else {
                assert_true(step->token[at] < 0 && position < end);
                assert_int_equal(w->place[-1 - step->token[at]].order, seq->order);
                assert_int_equal(w->place[-1 - step->token[at]].position, position);
            }
            bool full = end - seq->n_prompt >= seq->max_output;
            bool samples = position >= end - 1 && !full;
            bool scores = position + 1 >= seq->next_logprob && position + 1 < seq->n_prompt;
            if (samples || scores) {
                assert_int_equal(step->row[row], at);
                assert_int_equal(item->row_position + row - item->row, position);
                row++;
            }
        }
        assert_int_equal(item->n_row, row - item->row);
    }
    assert_int_equal(step->n_row, row);
}

/* ---------------------------------------------------------------- steps */

static void propose(struct world *w)
{
    for (int i = 0; w->shape.drafts > 0 && i < w->s.n_running; i++) {
        struct qr_sequence *seq = w->s.running[i];
        int most = seq->max_output - qr_sequence_n_output(seq) - 1;
        most = most < w->shape.drafts ? most : w->shape.drafts;
        if (seq->state != QR_SEQ_RUNNING || seq->n_flight > 0 || seq->n_token - seq->n_computed != 1 ||
            qr_sequence_n_output(seq) < 1)
            continue;
        for (seq->n_draft = 0; seq->n_draft < most; seq->n_draft++) {
            int p = seq->n_token + seq->n_draft;
            seq->token[p] = said(seq, p) + (world_below(w, 3) == 0); /* wrong now and then */
        }
    }
}

static void launch(struct world *w)
{
    struct qr_batch *batch = &w->ring[(w->oldest + w->n_flight) % w->n_ring];
    batch->step.place = (int)(batch - w->ring) * w->shape.max_row;
    check_batch(w, batch);
    compute(w, batch);
    for (int i = 0; i < batch->n_item; i++)
        for (int r = 0; r < batch->item[i].n_row; r++) {
            int place = batch->step.place + batch->item[i].row + r;
            w->place[place].order = batch->item[i].seq->order;
            w->place[place].position = batch->item[i].row_position + r + 1;
        }
    qr_scheduler_commit(&w->s, batch);
    w->n_flight++;
    w->n_step++;
    w->n_token += (uint64_t)batch->step.n_token;
}

/* Takes the tokens that an item picked. */
static void follow(struct world *w, const struct qr_batch_item *item)
{
    struct qr_sequence *seq = item->seq;
    bool go_on = true, ends = false;
    if (item->n_row > item->n_given && seq->n_draft == 0) {
        seq->n_ahead--;
        memmove(seq->ahead, seq->ahead + 1, (size_t)seq->n_ahead * sizeof *seq->ahead);
    }
    for (int r = item->n_given; r < item->n_row && go_on && !ends; r++) {
        int next = item->row_position + r + 1;
        int32_t token = said(seq, next);
        assert_int_equal(next, seq->n_token);
        go_on = r + 1 < item->n_row && seq->token[next] == token;
        w->n_taken += go_on;
        seq->token[seq->n_token++] = token;
        ends = stops(seq, token);
        w->n_stopped += ends;
        ends = ends || qr_sequence_n_output(seq) == seq->max_output;
    }
    if (ends || (seq->max_output == 0 && item->position + item->n == seq->n_prompt)) {
        assert_int_equal(seq->next_logprob, seq->n_prompt);
        finish(w, seq);
    }
}

static void land(struct world *w)
{
    const struct qr_batch *batch = &w->ring[w->oldest];
    w->oldest = (w->oldest + 1) % w->n_ring;
    w->n_flight--;
    for (int i = 0; i < batch->n_item; i++) {
        struct qr_sequence *seq = batch->item[i].seq;
        w->n_surplus += seq->state == QR_SEQ_LEAVING;
        if (seq->state == QR_SEQ_RUNNING)
            follow(w, &batch->item[i]);
        bool leaves = seq->state == QR_SEQ_LEAVING;
        qr_scheduler_land(&w->s, &batch->item[i]);
        if (leaves && seq->state == QR_SEQ_ENDED)
            gone(w, seq->job);
        else if (seq->state == QR_SEQ_RUNNING && seq->cancelled && seq->n_flight == 0)
            finish(w, seq);
    }
}

bool world_step(struct world *w)
{
    propose(w);
    enum qr_planned planned =
        qr_scheduler_plan(&w->s, &w->ring[(w->oldest + w->n_flight) % w->n_ring], w->n_flight > 0);
    world_check(w);
    if (planned == QR_PLAN_STEP)
        launch(w);
    else
        assert_true(planned == QR_PLAN_WAIT ? w->n_flight > 0 : w->n_job == 0);
    bool busy = w->n_flight > 0;
    world_check(w);
    if (w->n_flight > (planned == QR_PLAN_STEP ? w->shape.run_ahead : 0))
        land(w);
    world_check(w);
    return busy;
}

void world_end(struct world *w)
{
    while (w->n_flight > 0)
        land(w);
    while (w->n_job > 0)
        world_cancel(w, w->job[0]);
    world_check(w);
    assert_int_equal(w->s.blocks.n_free, w->s.blocks.n_block);
    assert_null(w->s.queue.flow);
    assert_null(w->s.queue.spare);
    qr_scheduler_free(&w->s);
    for (int i = 0; i < w->n_ring; i++)
        qr_batch_free(&w->ring[i]);
}

/* ---------------------------------------------------------------- what must always hold */

static void check_blocks(struct world *w, const int *users)
{
    const struct qr_blocks *b = &w->s.blocks;
    bool listed[WORLD_MAX_BLOCK] = {0}, contents = false;
    int n_free = 0;
    for (int32_t id = b->first, prev = -1; id >= 0; prev = id, id = b->block[id].next, n_free++) {
        assert_false(listed[id]);
        listed[id] = true;
        assert_int_equal(b->block[id].prev, prev);
        assert_true(!contents || b->block[id].serial); /* those without contents stand in front */
        contents = contents || b->block[id].serial;
    }
    assert_int_equal(n_free, b->n_free);
    for (int id = 0; id < b->n_block; id++) {
        const struct qr_block *it = &b->block[id];
        assert_int_equal(it->refs, users[id]);
        assert_int_equal(listed[id], users[id] == 0);
        if (it->serial == 0)
            continue;
        assert_false(w->shape.no_cache);
        assert_int_equal(qr_blocks_find(b, it->parent, it->token), id);
        for (int i = 0; i < QR_PAGE; i++) /* what is indexed was written, all of it */
            assert_true(it->token[i] == -1 || w->slot[id * QR_PAGE + i].token == it->token[i]);
        assert_true(it->token[0] != -1);
    }
}

void world_check(struct world *w)
{
    struct qr_scheduler *s = &w->s;
    int users[WORLD_MAX_BLOCK] = {0}, n_waiting = 0, n_running = 0, n_flow = 0, n_flow_running = 0;
    for (int i = 0; i < s->n_running; i++) {
        const struct qr_sequence *seq = s->running[i];
        assert_true(seq->state == QR_SEQ_RUNNING || (seq->state == QR_SEQ_LEAVING && seq->n_flight > 0));
        assert_true(seq->n_block * QR_PAGE >= seq->n_computed);
        assert_true(seq->n_indexed * QR_PAGE <= seq->n_computed + QR_PAGE);
        assert_true(i == 0 || qr_sequence_before(s->running[i - 1], seq));
        for (int b = 0; b < seq->n_block; b++)
            users[seq->block[b]]++;
    }
    check_blocks(w, users);
    for (int i = 0; i < w->n_job; i++)
        for (int c = 0; c < w->job[i]->n_choice; c++) {
            const struct qr_sequence *seq = &w->job[i]->choice[c];
            n_waiting += seq->state == QR_SEQ_WAITING;
            n_running += seq->state == QR_SEQ_RUNNING || seq->state == QR_SEQ_LEAVING;
            if (seq->state == QR_SEQ_WAITING || seq->state == QR_SEQ_NEW)
                assert_int_equal(seq->n_block + seq->n_computed + seq->n_ahead + seq->n_flight, 0);
            for (int p = seq->n_prompt; p < seq->n_token; p++)
                assert_int_equal(seq->token[p], said(seq, p));
        }
    assert_int_equal(n_waiting, s->queue.n_waiting);
    assert_int_equal(n_running, s->n_running);
    for (const struct qr_flow *flow = s->queue.flow; flow; flow = flow->next) {
        n_flow += flow->n_job;
        n_flow_running += flow->n_running;
        for (const struct qr_sequence *q = flow->first; q; q = q->next, n_waiting--) {
            assert_int_equal(q->state, QR_SEQ_WAITING);
            assert_int_equal(q->job->key, flow->key);
            assert_ptr_equal(q->next ? q->next->prev : flow->last, q);
            assert_true(!q->next || qr_sequence_before(q, q->next));
        }
    }
    assert_int_equal(n_waiting, 0);
    assert_int_equal(n_flow, w->n_job);
    assert_int_equal(n_flow_running, s->n_running);
}
