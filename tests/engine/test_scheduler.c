/* test_scheduler.c - blocks and scheduler under random operations, with what must always hold checked after each; and
 * the order in which sequences are served. No executor: a step "computes" at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/rand.h"
#include "engine/scheduler.h"

enum { MAX_LEN = 200, N_BLOCK = 20, MAX_LIVE = 40 };

struct world {
    struct qr_scheduler s;
    struct qr_batch batch;
    struct qr_sequence *live[MAX_LIVE];
    int n_live;
    uint64_t order, draw;
    int max_token, max_row;
};

static int below(struct world *w, int n)
{
    return (int)(qr_rand_uniform(11, 0, (uint32_t)w->draw++) * (float)n);
}

static void make_world(struct world *w, int n_block, int max_token, int max_seq, int max_row)
{
    memset(w, 0, sizeof *w);
    w->max_token = max_token;
    w->max_row = max_row;
    assert_int_equal(qr_scheduler_init(&w->s, n_block, max_token, max_seq, max_row, NULL), QR_OK);
    assert_int_equal(qr_batch_init(&w->batch, max_token, max_seq, max_row, qr_blocks_for(MAX_LEN), NULL), QR_OK);
}

static struct qr_sequence *add(struct world *w, int n_prompt, int max_output, bool logprobs, int priority)
{
    struct qr_sequence *seq = calloc(1, sizeof *seq);
    assert_non_null(seq);
    seq->room = n_prompt + max_output;
    seq->token = calloc((size_t)seq->room, sizeof *seq->token);
    seq->block = calloc((size_t)qr_blocks_for(seq->room), sizeof *seq->block);
    assert_non_null(seq->token);
    assert_non_null(seq->block);
    seq->n_token = seq->n_prompt = n_prompt;
    seq->max_output = max_output;
    seq->next_logprob = logprobs ? 0 : n_prompt;
    seq->priority = priority;
    seq->order = w->order++;
    for (int i = 0; i < n_prompt; i++)
        seq->token[i] = (int32_t)seq->order * 1000 + i;
    qr_scheduler_add(&w->s, seq);
    w->live[w->n_live++] = seq;
    return seq;
}

static void end(struct world *w, struct qr_sequence *seq)
{
    int i = 0;
    qr_scheduler_end(&w->s, seq);
    assert_int_equal(seq->n_block, 0);
    while (w->live[i] != seq)
        i++;
    w->live[i] = w->live[--w->n_live];
    free(seq->token);
    free(seq->block);
    free(seq);
}

static bool before(const struct qr_sequence *a, const struct qr_sequence *b)
{
    return a->priority != b->priority ? a->priority < b->priority : a->order < b->order;
}

/* Every block is free or in one table; lists hold what their counts say, in order. */
static void check_lists(struct world *w)
{
    int seen[N_BLOCK] = {0}, n_free = 0, n = 0;
    struct qr_scheduler *s = &w->s;
    for (int32_t b = s->blocks.head; b >= 0; b = s->blocks.next[b], n_free++) {
        assert_int_equal(s->blocks.refs[b], 0);
        seen[b]++;
    }
    assert_int_equal(n_free, s->blocks.n_free);
    for (int i = 0; i < s->n_running; i++) {
        assert_int_equal(s->running[i]->state, QR_SEQ_RUNNING);
        assert_true(s->running[i]->n_block * QR_PAGE >= s->running[i]->n_computed);
        for (int b = 0; b < s->running[i]->n_block; b++) {
            assert_int_equal(s->blocks.refs[s->running[i]->block[b]], 1);
            seen[s->running[i]->block[b]]++;
        }
        if (i > 0)
            assert_true(before(s->running[i - 1], s->running[i]));
    }
    for (int b = 0; b < s->blocks.n_block; b++)
        assert_int_equal(seen[b], 1);
    for (struct qr_sequence *q = s->first; q; q = q->next, n++) {
        assert_int_equal(q->state, QR_SEQ_WAITING);
        assert_int_equal(q->n_block + q->n_computed, 0);
        assert_ptr_equal(q->next ? q->next->prev : s->last, q);
        if (q->next)
            assert_true(before(q, q->next));
    }
    assert_int_equal(n, s->n_waiting);
    assert_int_equal(n + s->n_running, w->n_live);
}

/* What the executor is promised. */
static void check_batch(struct world *w)
{
    const struct qr_step *step = &w->batch.step;
    bool slot_used[N_BLOCK * QR_PAGE] = {0};
    int row = 0;
    assert_true(step->n_token <= w->max_token && step->n_row <= w->max_row);
    assert_int_equal(step->n_seq, w->batch.n_item);
    for (int i = 0; i < step->n_seq; i++) {
        const struct qr_batch_item *item = &w->batch.item[i];
        const struct qr_sequence *seq = item->seq;
        assert_int_equal(step->seq_begin[i + 1] - step->seq_begin[i], item->n);
        assert_true(item->n > 0);
        assert_int_equal(step->seq_len[i], item->position + item->n);
        assert_int_equal(item->position, seq->n_computed);
        assert_int_equal(item->row, row);
        for (int t = 0; t < item->n; t++) {
            int at = step->seq_begin[i] + t, position = item->position + t;
            int32_t block = step->block_table[i * step->table_stride + position / QR_PAGE];
            assert_int_equal(block, seq->block[position / QR_PAGE]);
            assert_int_equal(step->token[at], seq->token[position]);
            assert_int_equal(step->position[at], position);
            assert_int_equal(step->slot[at], block * QR_PAGE + position % QR_PAGE);
            assert_false(slot_used[step->slot[at]]);
            slot_used[step->slot[at]] = true;
            bool samples = position == seq->n_token - 1 && seq->n_token - seq->n_prompt < seq->max_output;
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

/* Plans, checks, "computes", ends what is complete. Returns how many ended. */
static int step(struct world *w)
{
    struct qr_sequence *done[MAX_LIVE];
    int n_done = 0;
    qr_scheduler_plan(&w->s, &w->batch);
    check_lists(w);
    check_batch(w);
    assert_true(w->batch.n_item > 0 || w->n_live == 0);
    qr_scheduler_commit(&w->batch);
    for (int i = 0; i < w->batch.n_item; i++) {
        const struct qr_batch_item *item = &w->batch.item[i];
        struct qr_sequence *seq = item->seq;
        bool samples = seq->n_computed == seq->n_token && seq->n_token - seq->n_prompt < seq->max_output;
        if (seq->next_logprob < seq->n_prompt && (item->n_row - samples > 0 || seq->next_logprob == 0))
            seq->next_logprob += item->n_row - samples + (seq->next_logprob == 0);
        if (samples) {
            seq->token[seq->n_token] = -seq->n_token;
            seq->n_token++;
        }
        if (seq->n_token - seq->n_prompt == seq->max_output && (samples || seq->n_computed == seq->n_token)) {
            assert_int_equal(seq->next_logprob, seq->n_prompt);
            done[n_done++] = seq;
        }
    }
    for (int i = 0; i < n_done; i++)
        end(w, done[i]);
    return n_done;
}

static void finish_world(struct world *w)
{
    while (w->n_live > 0)
        end(w, w->live[0]);
    check_lists(w);
    assert_int_equal(w->s.blocks.n_free, w->s.blocks.n_block);
    qr_scheduler_free(&w->s);
    qr_batch_free(&w->batch);
}

static void random_operations(void **state)
{
    static const struct {
        int max_token, max_seq, max_row;
    } shape[] = {{64, 8, 8}, {1, 1, 1}, {16, 16, 16}, {512, 16, 64}, {7, 3, 4}};
    (void)state;
    for (size_t k = 0; k < sizeof shape / sizeof *shape; k++) {
        struct world w;
        int ended = 0;
        make_world(&w, N_BLOCK, shape[k].max_token, shape[k].max_seq, shape[k].max_row);
        w.draw = k * 1000000;
        for (int i = 0; i < 20000; i++) {
            int what = below(&w, 20);
            if (what < 3 && w.n_live < MAX_LIVE) {
                int n_prompt = 1 + below(&w, 120), output = below(&w, MAX_LEN - n_prompt + 1);
                add(&w, n_prompt, output, below(&w, 4) == 0, below(&w, 8) == 0 ? -1 : 0);
                check_lists(&w);
            } else if (what == 3 && w.n_live > 0) {
                end(&w, w.live[below(&w, w.n_live)]);
                check_lists(&w);
            } else {
                ended += step(&w);
            }
        }
        assert_true(ended > 50);
        if (shape[k].max_seq > 1)
            assert_true(w.s.n_preempted > 10);
        for (int i = 0; i < 1000000 && w.n_live > 0; i++) /* everything comes to its end */
            step(&w);
        assert_int_equal(w.n_live, 0);
        finish_world(&w);
    }
}

static void decodes_go_on_while_a_prompt_comes_in_chunks(void **state)
{
    struct world w;
    (void)state;
    make_world(&w, N_BLOCK, 16, 4, 4);
    struct qr_sequence *a = add(&w, 3, 50, false, 0);
    step(&w);
    struct qr_sequence *b = add(&w, 100, 5, false, 0);
    for (int i = 1; i <= 6; i++) {
        step(&w);
        assert_int_equal(a->n_token, 3 + 1 + i);
        assert_int_equal(b->n_computed, 15 * i);
    }
    step(&w);
    assert_int_equal(b->n_token, 101);
    finish_world(&w);
}

static void the_youngest_gives_way_and_comes_back(void **state)
{
    struct world w;
    (void)state;
    make_world(&w, 6, 64, 4, 4);
    struct qr_sequence *a = add(&w, 30, 60, false, 0), *b = add(&w, 60, 4, false, 0);
    step(&w);
    assert_int_equal(w.s.n_running, 1); /* 2 + 4 blocks of 6, but one is kept back for the first */
    finish_world(&w);

    make_world(&w, 6, 64, 4, 4);
    a = add(&w, 16, 75, false, 0);
    b = add(&w, 16, 60, false, 0);
    while (w.s.n_preempted == 0)
        step(&w);
    assert_int_equal(a->state, QR_SEQ_RUNNING);
    assert_int_equal(b->state, QR_SEQ_WAITING);
    int had = b->n_token;
    while (b->state == QR_SEQ_WAITING)
        step(&w);
    assert_true(b->n_token >= had);
    finish_world(&w);

    make_world(&w, 6, 64, 4, 4); /* the same with the second one more urgent */
    a = add(&w, 16, 75, false, 0);
    b = add(&w, 16, 60, false, -5);
    while (w.s.n_preempted == 0)
        step(&w);
    assert_int_equal(a->state, QR_SEQ_WAITING);
    assert_int_equal(b->state, QR_SEQ_RUNNING);
    finish_world(&w);
}

static void a_long_prompt_is_not_overtaken(void **state)
{
    struct world w;
    (void)state;
    make_world(&w, 12, 64, 8, 8);
    struct qr_sequence *a = add(&w, 60, 20, false, 0), *b = add(&w, 150, 20, false, 0), *c = add(&w, 5, 5, false, 0);
    step(&w);
    step(&w);
    assert_int_equal(a->state, QR_SEQ_RUNNING);
    assert_int_equal(b->state, QR_SEQ_WAITING);
    assert_int_equal(c->state, QR_SEQ_WAITING);
    finish_world(&w);
}

static void blocks_by_count(void **state)
{
    struct qr_blocks b;
    int32_t id[4];
    (void)state;
    assert_int_equal(qr_blocks_init(&b, 4, NULL), QR_OK);
    for (int i = 0; i < 4; i++)
        id[i] = qr_blocks_take(&b);
    assert_int_equal(qr_blocks_take(&b), -1);
    qr_blocks_ref(&b, id[2]);
    qr_blocks_drop(&b, id[2]);
    assert_int_equal(b.n_free, 0);
    qr_blocks_drop(&b, id[3]);
    qr_blocks_drop(&b, id[2]);
    assert_int_equal(b.n_free, 2);
    assert_int_equal(qr_blocks_take(&b), id[3]); /* freed first, used first */
    assert_int_equal(qr_blocks_take(&b), id[2]);
    qr_blocks_free(&b);
    assert_int_equal(qr_blocks_for(0), 0);
    assert_int_equal(qr_blocks_for(1), 1);
    assert_int_equal(qr_blocks_for(16), 1);
    assert_int_equal(qr_blocks_for(17), 2);
    assert_int_equal(qr_blocks_for(INT32_MAX), INT32_MAX / 16 + 1);
    assert_int_equal(qr_blocks_init(&b, 0, NULL), QR_OK);
    assert_int_equal(qr_blocks_take(&b), -1);
    qr_blocks_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_operations),
        cmocka_unit_test(decodes_go_on_while_a_prompt_comes_in_chunks),
        cmocka_unit_test(the_youngest_gives_way_and_comes_back),
        cmocka_unit_test(a_long_prompt_is_not_overtaken),
        cmocka_unit_test(blocks_by_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
