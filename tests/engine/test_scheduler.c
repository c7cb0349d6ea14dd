/* test_scheduler.c - blocks and scheduler under random operations, with what must always hold checked after each; and
 * the order in which sequences are served. No executor and no engine: world.c computes and lands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "world.h"

static struct world world;

static struct qr_sequence *add(struct world *w, int n_prompt, int max_output, int priority)
{
    struct world_ask ask = {.family = (int)w->order + 10, .n_prompt = n_prompt, .max_output = max_output};
    ask.n_choice = 1;
    ask.priority = priority;
    return &world_add(w, ask)->choice[0];
}

static void add_random(struct world *w)
{
    int n_prompt = 1 + world_below(w, 120);
    struct world_ask ask = {
        .family = world_below(w, 3),
        .n_prompt = n_prompt,
        .max_output = world_below(w, WORLD_MAX_LEN - n_prompt + 1),
        .n_choice = world_below(w, 4) == 0 ? 1 + world_below(w, 5) : 1,
        .priority = world_below(w, 8) == 0 ? -1 : 0,
        .logprobs = world_below(w, 4) == 0,
        .stops = world_below(w, 2) == 0,
        .key = (uint64_t)world_below(w, 4),
        .salt = (uint64_t)(world_below(w, 5) == 0),
    };
    world_add(w, ask);
}

static void random_operations(void **state)
{
    static const struct world_shape shape[] = {
        {20, 64, 8, 8, 0, 0, false},    {13, 1, 1, 1, 0, 0, false},    {20, 16, 16, 16, 1, 0, false},
        {40, 512, 16, 64, 2, 0, false}, {13, 7, 3, 4, 1, 0, true},     {20, 40, 8, 32, 0, 3, false},
        {20, 64, 8, 40, 2, 3, false},   {16, 64, 16, 64, 3, 0, false}, {64, 100, 16, 16, 1, 2, true},
        {30, 33, 5, 9, 2, 0, false},
    };
    (void)state;
    for (size_t k = 0; k < sizeof shape / sizeof *shape; k++) {
        struct world *w = &world;
        world_make(w, shape[k]);
        w->draw = k * 1000000;
        for (int i = 0; i < 10000; i++) {
            int what = world_below(w, 20);
            if (what < 3 && w->n_job < WORLD_MAX_JOB)
                add_random(w);
            else if (what == 3 && w->n_job > 0)
                world_cancel(w, w->job[world_below(w, w->n_job)]);
            else
                world_step(w);
            world_check(w);
        }
        assert_true(w->n_ended > 100);
        if (shape[k].max_seq > 1)
            assert_true(w->s.n_preempted > 10);
        assert_true(shape[k].no_cache ? w->s.n_hit == 0 || shape[k].max_seq > 1 : w->s.n_hit > 100);
        assert_true(shape[k].run_ahead == 0 || shape[k].drafts > 0 || w->n_surplus > 10);
        assert_true(shape[k].drafts == 0 || w->n_taken > 100);
        assert_true(shape[k].max_seq == 1 || w->n_copy > 10);
        for (int i = 0; i < 1000000 && w->n_job > 0; i++) /* everything comes to its end */
            world_step(w);
        assert_int_equal(w->n_job, 0);
        world_end(w);
    }
}

static void decodes_go_on_while_a_prompt_comes_in_chunks(void **state)
{
    struct world *w = &world;
    (void)state;
    world_make(w, (struct world_shape){20, 16, 4, 4, 0, 0, false});
    struct qr_sequence *a = add(w, 3, 50, 0);
    world_step(w);
    struct qr_sequence *b = add(w, 100, 5, 0);
    for (int i = 1; i <= 6; i++) {
        world_step(w);
        assert_int_equal(a->n_token, 3 + 1 + i);
        assert_int_equal(b->n_computed, 15 * i);
    }
    world_step(w);
    assert_int_equal(b->n_token, 101);
    world_end(w);
}

static void the_youngest_gives_way_and_comes_back(void **state)
{
    struct world *w = &world;
    const struct world_shape shape = {6, 64, 4, 4, 0, 0, true};
    (void)state;
    world_make(w, shape);
    struct qr_sequence *a = add(w, 30, 60, 0), *b = add(w, 60, 4, 0);
    world_step(w);
    assert_int_equal(w->s.n_running, 1); /* 2 + 4 blocks of 6, but one is kept back for the first */
    world_end(w);

    world_make(w, shape);
    a = add(w, 16, 75, 0);
    b = add(w, 16, 60, 0);
    while (w->s.n_preempted == 0)
        world_step(w);
    assert_int_equal(a->state, QR_SEQ_RUNNING);
    assert_int_equal(b->state, QR_SEQ_WAITING);
    int had = b->n_token;
    while (b->state == QR_SEQ_WAITING)
        world_step(w);
    assert_true(b->n_token >= had);
    world_end(w);

    world_make(w, shape); /* the same with the second one more urgent */
    a = add(w, 16, 75, 0);
    b = add(w, 16, 60, -5);
    while (w->s.n_preempted == 0)
        world_step(w);
    assert_int_equal(a->state, QR_SEQ_WAITING);
    assert_int_equal(b->state, QR_SEQ_RUNNING);
    world_end(w);
}

static void a_long_prompt_is_not_overtaken(void **state)
{
    struct world *w = &world;
    (void)state;
    world_make(w, (struct world_shape){12, 64, 8, 8, 0, 0, false});
    struct qr_sequence *a = add(w, 60, 20, 0), *b = add(w, 150, 20, 0), *c = add(w, 5, 5, 0);
    world_step(w);
    world_step(w);
    assert_int_equal(a->state, QR_SEQ_RUNNING);
    assert_int_equal(b->state, QR_SEQ_WAITING);
    assert_int_equal(c->state, QR_SEQ_WAITING);
    world_end(w);
}

/* A prompt that came before costs one token, whole or in part; under another salt, all of them. */
static void a_known_beginning_is_not_computed_again(void **state)
{
    struct world *w = &world;
    struct world_ask ask = {.family = 1, .n_prompt = 64, .max_output = 20, .n_choice = 1};
    (void)state;
    world_make(w, (struct world_shape){40, 512, 4, 4, 0, 0, false});
    for (int round = 0; round < 4; round++) {
        static const int expected[] = {64, 1, 64, 16};
        ask.salt = round == 2;
        struct qr_job *job = world_add(w, ask);
        struct qr_sequence *seq = &job->choice[0];
        for (int i = 0; i < 64; i++)
            seq->token[i] = round == 3 && i >= 48 ? 7 : i * i;
        uint64_t before = w->n_token;
        world_step(w);
        assert_int_equal(w->n_token - before, expected[round]);
        assert_int_equal(seq->n_cached, 64 - expected[round]);
        while (w->n_job > 0)
            world_step(w);
    }
    world_end(w);
}

/* A second turn, made of the first one, its answer and five new tokens, computes these and the answer's last token,
 * which nothing was computed from; wherever in a block the first turn ended. */
static void a_second_turn_computes_what_is_new(void **state)
{
    struct world *w = &world;
    (void)state;
    for (int n_output = 1; n_output < 40; n_output++)
        for (int run_ahead = 0; run_ahead < 2; run_ahead++) {
            struct world_ask ask = {.family = 1, .n_prompt = 50, .max_output = n_output, .n_choice = 1};
            int32_t token[100];
            world_make(w, (struct world_shape){40, 512, 4, 4, run_ahead, 0, false});
            struct qr_sequence *seq = &world_add(w, ask)->choice[0];
            for (int i = 0; i < 50 + n_output; i++)
                token[i] = world_token(seq, i);
            while (w->n_job > 0)
                world_step(w);
            ask.n_prompt = 50 + n_output + 5;
            seq = &world_add(w, ask)->choice[0];
            for (int i = 0; i < ask.n_prompt; i++)
                seq->token[i] = i < 50 + n_output ? token[i] : i;
            uint64_t before = w->n_token;
            world_step(w);
            assert_int_equal(w->n_token - before, 6);
            while (w->n_job > 0)
                world_step(w);
            world_end(w);
        }
}

/* Further choices share the prompt with the first, but for their last token, with the cache on or off; only the block
 * that is not full is copied. */
static void choices_share_their_prompt(void **state)
{
    struct world *w = &world;
    struct world_ask ask = {.family = 1, .n_prompt = 100, .max_output = 30, .n_choice = 5};
    (void)state;
    for (int no_cache = 0; no_cache < 2; no_cache++) {
        world_make(w, (struct world_shape){60, 512, 8, 8, 0, 0, no_cache});
        struct qr_job *job = world_add(w, ask);
        world_step(w);
        assert_int_equal(w->n_token, 100);
        world_step(w);
        assert_int_equal(w->n_token, 100 + 1 + 4);
        assert_int_equal(w->n_copy, 4);
        assert_int_equal(w->s.blocks.n_block - w->s.blocks.n_free, 7 + 4);
        assert_int_equal(job->choice[3].block[5], job->choice[0].block[5]);
        assert_int_not_equal(job->choice[3].block[6], job->choice[0].block[6]);
        while (w->n_job > 0)
            world_step(w);
        world_end(w);
    }
}

/* One key with many requests, another with one: with one running at a time the other waits for the one that runs and
 * no second. */
static void no_key_starves_another(void **state)
{
    struct world *w = &world;
    (void)state;
    for (int run_ahead = 0; run_ahead < 2; run_ahead++) {
        world_make(w, (struct world_shape){20, 64, 1, 4, run_ahead, 0, false});
        struct world_ask ask = {.n_prompt = 20, .max_output = 30, .n_choice = 1, .key = 1};
        for (int i = 0; i < 30; i++) {
            ask.family = i;
            world_add(w, ask);
        }
        for (int i = 0; i < 40; i++)
            world_step(w);
        ask.family = 99;
        ask.key = 2;
        struct qr_job *job = world_add(w, ask);
        uint64_t ended = w->n_ended;
        while (job->choice[0].state == QR_SEQ_WAITING)
            world_step(w);
        assert_true(w->n_ended - ended <= 2);
        world_end(w);
    }
}

static void blocks_by_count_and_contents(void **state)
{
    struct qr_blocks b;
    int32_t id[4], token[3][QR_PAGE];
    (void)state;
    assert_int_equal(qr_blocks_init(&b, 4, NULL), QR_OK);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < QR_PAGE; i++)
            token[k][i] = k * 100 + i;
    for (int i = 0; i < 4; i++)
        id[i] = qr_blocks_take(&b);
    assert_int_equal(qr_blocks_take(&b), -1);
    uint64_t root = QR_BLOCKS_ROOT(0), other = QR_BLOCKS_ROOT(1);
    assert_int_equal(qr_blocks_index(&b, id[0], root, token[0]), id[0]);
    uint64_t serial = b.block[id[0]].serial;
    assert_int_equal(qr_blocks_index(&b, id[1], serial, token[1]), id[1]);
    assert_int_equal(qr_blocks_index(&b, id[2], root, token[0]), id[0]); /* the same again */
    assert_int_equal(qr_blocks_find(&b, root, token[0]), id[0]);
    assert_int_equal(qr_blocks_find(&b, other, token[0]), -1);
    assert_int_equal(qr_blocks_find(&b, root, token[1]), -1);
    assert_int_equal(qr_blocks_find(&b, serial, token[1]), id[1]);
    qr_blocks_ref(&b, id[2]);
    qr_blocks_drop(&b, id[2]);
    assert_int_equal(b.n_free, 0);
    for (int i = 3; i >= 0; i--)
        qr_blocks_drop(&b, id[i]);
    assert_int_equal(b.n_free, 4);
    assert_int_equal(qr_blocks_take(&b), id[2]); /* nothing in it, freed last */
    assert_int_equal(qr_blocks_take(&b), id[3]);
    assert_int_equal(qr_blocks_find(&b, serial, token[1]), id[1]);
    qr_blocks_ref(&b, id[1]); /* found in the cache, then free again: the last to go */
    qr_blocks_drop(&b, id[1]);
    assert_int_equal(qr_blocks_take(&b), id[0]);
    assert_int_equal(qr_blocks_find(&b, root, token[0]), -1);
    assert_int_equal(qr_blocks_take(&b), id[1]);
    assert_int_equal(qr_blocks_find(&b, serial, token[1]), -1);
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
        cmocka_unit_test(a_known_beginning_is_not_computed_again),
        cmocka_unit_test(a_second_turn_computes_what_is_new),
        cmocka_unit_test(choices_share_their_prompt),
        cmocka_unit_test(no_key_starves_another),
        cmocka_unit_test(blocks_by_count_and_contents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
