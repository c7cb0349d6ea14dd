/* test_ahead.c - the engine over a device that answers late: steps in flight, what is thrown away, constraints whose
 * masks come late, failures at every point, many threads, keys in turn. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "fake.h"
#include "late.h"
#include "mixed.h"

enum { MAX_LEN = 160, N_REQUEST = 24 };

static const struct qr_exec_limits small = {
    .max_token = 64, .max_seq = 8, .max_row = 32, .max_len = MAX_LEN, .n_block = 30};

static struct qr_engine *late_engine(struct qr_exec_limits limits, int run_ahead, struct late_hooks *hooks,
                                     struct fake **fake)
{
    struct qr_engine *engine;
    limits.n_place = (run_ahead + 1) * limits.max_row;
    struct fake *f = fake_exec(limits);
    assert_non_null(f);
    struct qr_engine_parts parts = fake_parts(late_exec(&f->head, limits, FAKE_VOCAB, 3, NULL, hooks), limits);
    parts.run_ahead = run_ahead;
    assert_int_equal(qr_engine_start(&parts, &engine, NULL), QR_OK);
    if (fake)
        *fake = f;
    return engine;
}

/* All blocks are back once nothing is left to do. */
static void assert_all_back(struct qr_engine *engine)
{
    struct qr_engine_stats stats;
    for (int i = 0; i < 2000; i++) {
        qr_engine_stats(engine, &stats);
        if (stats.n_running == 0 && stats.n_waiting == 0 && stats.n_free_block == stats.n_block)
            return;
        usleep(1000);
    }
    fail_msg("%d of %d blocks are back, %d run, %d wait", stats.n_free_block, stats.n_block, stats.n_running,
             stats.n_waiting);
}

/* ---------------------------------------------------------------- steps in flight */

static void as_many_steps_are_in_flight_as_allowed(void **state)
{
    (void)state;
    for (int ahead = 0; ahead <= QR_MAX_AHEAD; ahead++) {
        struct late_hooks hooks = {0};
        struct qr_engine *engine = late_engine(small, ahead, &hooks, NULL);
        int32_t ids[] = {5, 6, 7};
        struct qr_request r = ask_request(ids, 3, 40);
        struct answer a;
        r.sampling.ignore_eos = true;
        ask_alone(engine, &r, &a);
        assert_int_equal(a.n, 40);
        assert_int_equal(a.usage.output_tokens, 40);
        answer_free(&a);
        assert_all_back(engine);
        qr_engine_destroy(engine);
        assert_int_equal(hooks.max_flight, ahead + 1);
        assert_int_equal(hooks.n_submit, 40); /* no step beyond the last token that is wanted */
        assert_int_equal(hooks.n_late_sample, 0);
    }
}

/* Masks need the id before: the sampler waits for it, the forward does not. */
static void a_constraint_holds_up_the_sampler_only(void **state)
{
    (void)state;
    struct late_hooks hooks = {0};
    struct qr_engine *engine = late_engine(small, 1, &hooks, NULL);
    int32_t ids[] = {5, 6, 7};
    int vocab = FAKE_VOCAB;
    struct qr_constraint thirds = mixed_constraint;
    struct qr_request r = ask_request(ids, 3, 40);
    struct answer a;
    thirds.ctx = &vocab;
    r.constraint = &thirds;
    r.sampling.ignore_eos = true;
    r.sampling.temperature = 1;
    ask_alone(engine, &r, &a);
    assert_int_equal(a.n, 40);
    for (int i = 0; i < 40; i++)
        assert_int_not_equal((a.id[i] + (i > 0 ? a.id[i - 1] : 0)) % 3, 0);
    answer_free(&a);
    qr_engine_destroy(engine);
    assert_int_equal(hooks.max_flight, 2);
    assert_int_equal(hooks.n_late_sample, 39);
}

/* ---------------------------------------------------------------- constraints that fail */

enum { NOTHING, MASK_FAILS, ACCEPT_FAILS };
struct broken {
    int how, after, n;
    bool silent; /* fails without filling err */
};

static enum qr_status fails(const struct broken *b, struct qr_err *err, const char *why)
{
    return b->silent ? QR_LIMIT : qr_fail(err, QR_LIMIT, "this grammar is too %s", why);
}

static enum qr_status broken_mask(void *ctx, uint32_t *bits, struct qr_err *err)
{
    struct broken *b = ctx;
    if (b->n < b->after || b->how == ACCEPT_FAILS)
        memset(bits, 0xff, (FAKE_VOCAB + 31) / 32 * sizeof *bits);
    else if (b->how == MASK_FAILS)
        return fails(b, err, "deep");
    return QR_OK;
}

static enum qr_status broken_accept(void *ctx, int32_t id, struct qr_err *err)
{
    struct broken *b = ctx;
    (void)id;
    return b->n++ == b->after && b->how == ACCEPT_FAILS ? fails(b, err, "wide") : QR_OK;
}

static void *broken_clone(const void *ctx)
{
    struct broken *b = malloc(sizeof *b);
    if (b)
        *b = *(const struct broken *)ctx;
    return b;
}

static void a_broken_constraint_ends_one_request(void **state)
{
    static const enum qr_status expected[] = {QR_INVALID, QR_LIMIT, QR_LIMIT};
    int32_t ids[] = {5, 6, 7, 8};
    (void)state;
    for (int ahead = 0; ahead < 6; ahead++)
        for (int how = NOTHING; how <= ACCEPT_FAILS; how++) {
            struct qr_engine *engine = late_engine(small, ahead / 2, NULL, NULL);
            struct broken broken = {.how = how, .after = 5, .silent = ahead % 2};
            struct qr_constraint c = {&broken, broken_mask, broken_accept, broken_clone, free};
            struct qr_request r = ask_request(ids, 4, 30), other = ask_request(ids, 3, 30);
            struct answer a[2], alone;
            r.sampling.ignore_eos = other.sampling.ignore_eos = true;
            ask_alone(engine, &other, &alone);
            r.constraint = &c;
            a[0] = (struct answer){.request = ask(engine, &r)};
            a[1] = (struct answer){.request = ask(engine, &other)};
            await_answers(engine, a, 2);
            assert_int_equal(a[0].finish, QR_FINISH_ERROR);
            assert_int_equal(a[0].error.status, expected[how]);
            assert_true(strlen(a[0].error.message) > 10 && strlen(a[0].error.message) < 200);
            assert_int_equal(a[0].n, 5);
            assert_same_answer(&a[1], &alone);
            assert_all_back(engine);
            qr_engine_destroy(engine);
            answer_free(&a[0]);
            answer_free(&a[1]);
            answer_free(&alone);
        }
}

/* ---------------------------------------------------------------- failures of the device */

static void requests(struct mixed *m, struct answer *a, struct qr_engine *engine)
{
    for (int i = 0; i < N_REQUEST; i++) {
        mixed_make(&m[i], i, FAKE_VOCAB);
        m[i].request.n = 1;
        a[i] = (struct answer){.request = ask(engine, &m[i].request)};
    }
    await_answers(engine, a, N_REQUEST);
}

/* Whichever call fails, the requests of that step end with its error, all others are right, and the engine goes on. */
static void a_step_that_fails_ends_its_requests(void **state)
{
    static struct mixed m[N_REQUEST];
    static struct answer right[N_REQUEST], a[N_REQUEST];
    (void)state;
    struct qr_engine *engine = late_engine(small, 0, NULL, NULL);
    requests(m, right, engine);
    qr_engine_destroy(engine);
    for (int ahead = 0; ahead < 3; ahead++)
        for (int kind = 0; kind < 3; kind++)
            for (int number = 1; number < 60; number += 3) {
                struct late_hooks hooks = {0};
                int n_failed = 0;
                *(kind == 0 ? &hooks.fail_submit : kind == 1 ? &hooks.fail_sample : &hooks.fail_collect) = number;
                engine = late_engine(small, ahead, &hooks, NULL);
                requests(m, a, engine);
                for (int i = 0; i < N_REQUEST; i++) {
                    if (a[i].finish == QR_FINISH_ERROR) {
                        assert_int_equal(a[i].error.status, QR_IO);
                        assert_true(a[i].n <= right[i].n);
                        if (a[i].n > 0)
                            assert_memory_equal(a[i].id, right[i].id, (size_t)a[i].n * sizeof(int32_t));
                        n_failed++;
                    } else {
                        assert_same_answer(&a[i], &right[i]);
                    }
                    answer_free(&a[i]);
                }
                assert_in_range(n_failed, 1, 8);
                assert_all_back(engine);
                qr_engine_destroy(engine);
            }
    for (int i = 0; i < N_REQUEST; i++)
        answer_free(&right[i]);
}

/* ---------------------------------------------------------------- cancelling */

static void a_cancelled_request_gives_its_blocks_back(void **state)
{
    (void)state;
    for (int ahead = 0; ahead < 4; ahead++) {
        struct fake *fake;
        struct qr_engine *engine = late_engine(small, ahead, NULL, &fake);
        int32_t ids[40];
        struct answer a[6];
        fake->delay_us = 300;
        for (int i = 0; i < 40; i++)
            ids[i] = i;
        for (int i = 0; i < 6; i++) {
            struct qr_request r = ask_request(ids, (size_t)(40 - i), 100);
            r.sampling.ignore_eos = true;
            a[i] = (struct answer){.request = ask(engine, &r)};
        }
        usleep((unsigned)(2000 * ahead));
        for (int i = 0; i < 6; i += 2)
            qr_engine_cancel(engine, a[i].request);
        await_answers(engine, a, 6);
        for (int i = 0; i < 6; i++) {
            assert_int_equal(a[i].finish, i % 2 ? QR_FINISH_LENGTH : QR_FINISH_CANCELLED);
            assert_int_equal(a[i].usage.output_tokens, a[i].n);
            answer_free(&a[i]);
        }
        assert_all_back(engine);
        qr_engine_destroy(engine);
    }
}

/* ---------------------------------------------------------------- many threads */

struct client {
    struct qr_engine *engine;
    int number;
};

static void *submit_and_cancel(void *arg)
{
    const struct client *c = arg;
    int32_t ids[40];
    for (int i = 0; i < 50; i++) {
        for (int k = 0; k < 40; k++)
            ids[k] = (c->number * 31 + i * 7 + k) % FAKE_VOCAB;
        struct qr_request r = ask_request(ids, (size_t)(1 + i % 40), 1 + i % 25);
        r.n = i % 7 == 3 ? 2 : 1;
        r.key = (uint64_t)c->number;
        uint64_t id;
        if (qr_engine_submit(c->engine, &r, &id, NULL) == QR_OK && i % 4 == 0)
            qr_engine_cancel(c->engine, id);
    }
    return NULL;
}

static void four_threads_submit_and_cancel(void **state)
{
    struct fake *fake;
    pthread_t thread[4];
    struct client client[4];
    struct qr_engine_stats stats;
    int done = 0;
    (void)state;
    const struct qr_exec_limits crowded = {
        .max_token = 24, .max_seq = 8, .max_row = 16, .max_len = MAX_LEN, .n_block = 13};
    struct qr_engine *engine = late_engine(crowded, 2, NULL, &fake);
    for (int i = 0; i < 4; i++) {
        client[i] = (struct client){engine, i};
        assert_int_equal(pthread_create(&thread[i], NULL, submit_and_cancel, &client[i]), 0);
    }
    while (done < 200 + 4 * 7) {
        struct qr_event event;
        bool got;
        assert_int_equal(qr_engine_next(engine, &event, 20000, &got, NULL), QR_OK);
        assert_true(got);
        done += event.kind == QR_EVENT_DONE;
        assert_true(event.kind != QR_EVENT_DONE || event.finish != QR_FINISH_ERROR);
        qr_event_clear(&event);
        qr_engine_stats(engine, &stats);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    assert_true(qr_now_ns() - qr_engine_heartbeat_ns(engine) < 2000000000);
    bool got;
    struct qr_event event;
    assert_int_equal(qr_engine_next(engine, &event, 10, &got, NULL), QR_OK);
    assert_false(got);
    assert_int_equal(fake->bad, 0);
    qr_engine_destroy(engine);
}

/* ---------------------------------------------------------------- keys in turn */

/* A key with a thousand requests in the queue; another one's single request waits for those that run and for at most
 * one more. */
static void a_thousand_requests_do_not_starve_one(void **state)
{
    const struct qr_exec_limits one = {.max_token = 64, .max_seq = 1, .max_row = 1, .max_len = MAX_LEN, .n_block = 20};
    (void)state;
    for (int ahead = 0; ahead < 2; ahead++) {
        struct fake *fake;
        struct qr_engine *engine = late_engine(one, ahead, NULL, &fake);
        int32_t ids[20] = {1, 2, 3};
        struct qr_request r = ask_request(ids, 20, 10);
        uint64_t single = 0, id;
        int n_done = 0, before = 0;
        r.sampling.ignore_eos = true;
        r.key = 1;
        for (int i = 0; i < 1000; i++) {
            ids[19] = i % FAKE_VOCAB;
            ask(engine, &r);
        }
        while (single == 0 || id != single) {
            struct qr_event event;
            bool got;
            assert_int_equal(qr_engine_next(engine, &event, 20000, &got, NULL), QR_OK);
            assert_true(got);
            id = event.request;
            if (event.kind == QR_EVENT_DONE && ++n_done == 10) {
                struct qr_engine_stats stats;
                r.key = 2;
                single = ask(engine, &r);
                qr_engine_stats(engine, &stats);
                before = (int)(stats.n_output / 10); /* of ten tokens each */
            }
            id = event.kind == QR_EVENT_DONE ? id : 0;
            qr_event_clear(&event);
        }
        assert_in_range(n_done - 1 - before, 0, 2);
        qr_engine_destroy(engine);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_steps_are_in_flight_as_allowed),
        cmocka_unit_test(a_constraint_holds_up_the_sampler_only),
        cmocka_unit_test(a_broken_constraint_ends_one_request),
        cmocka_unit_test(a_step_that_fails_ends_its_requests),
        cmocka_unit_test(a_cancelled_request_gives_its_blocks_back),
        cmocka_unit_test(four_threads_submit_and_cancel),
        cmocka_unit_test(a_thousand_requests_do_not_starve_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
