/* test_engine.c - the engine over a fake executor: the forward recomputed from the ids, choices, cancellation, limits,
 * constraints, fairness, failures. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "ask.h"
#include "fake.h"

enum { MAX_LEN = 160 };

/* Small enough that sequences must give way to each other. */
static const struct qr_exec_limits crowded = {
    .max_token = 24, .max_seq = 8, .max_row = 16, .max_len = MAX_LEN, .n_block = 13};

/* Greedy ids, log-probabilities and the prompt's, against the fake's own function. */
static void the_answer_is_that_of_the_model(void **state)
{
    struct fake *fake;
    struct answer a;
    int32_t ids[MAX_LEN];
    float logits[FAKE_VOCAB];
    (void)state;
    struct qr_engine *engine = fake_engine(crowded, &fake);
    for (int n_prompt = 1; n_prompt < 100; n_prompt += 9) {
        for (int i = 0; i < n_prompt; i++)
            ids[i] = (i * 7 + n_prompt) % FAKE_VOCAB;
        struct qr_request r = ask_request(ids, (size_t)n_prompt, 20);
        r.sampling.ignore_eos = true;
        r.sampling.logprobs = r.sampling.prompt_logprobs = 0;
        ask_alone(engine, &r, &a);
        assert_int_equal(a.n, 20);
        assert_int_equal(a.n_prompt, n_prompt);
        assert_true(isnan(a.prompt[0]));
        for (int i = 0; i < 20; i++)
            ids[n_prompt + i] = a.id[i];
        for (int i = 1; i < n_prompt + 20; i++) {
            double sum = 0;
            int best = 0;
            fake_logits(ids, i, logits);
            for (int v = 0; v < FAKE_VOCAB; v++) {
                sum += exp((double)logits[v]);
                best = logits[v] > logits[best] ? v : best;
            }
            double expected = (double)logits[ids[i]] - log(sum);
            double got = (double)(i < n_prompt ? a.prompt[i] : a.logprob[i - n_prompt]);
            assert_true(fabs(got - expected) < 1e-5);
            if (i < n_prompt)
                assert_int_equal(a.prompt_id[i], ids[i]);
            else
                assert_int_equal(ids[i], best);
        }
        answer_free(&a);
    }
    qr_engine_destroy(engine);
}

/* What an executor prepares while nothing waits holds no request up, and ends. */
static void preparations_wait_for_requests(void **state)
{
    struct fake *fake = fake_exec(crowded);
    struct qr_engine *engine;
    struct answer a;
    int32_t id = 1;
    (void)state;
    assert_non_null(fake);
    fake->to_prepare = 1 << 30; /* at 200 us each, two days */
    struct qr_engine_parts parts = fake_parts(&fake->head, crowded);
    assert_int_equal(qr_engine_start(&parts, &engine, NULL), QR_OK);
    while (!fake->n_prepared)
        usleep(500);
    struct qr_request r = ask_request(&id, 1, 20);
    r.sampling.ignore_eos = true;
    ask_alone(engine, &r, &a);
    assert_int_equal(a.n, 20);
    answer_free(&a);
    fake->to_prepare = 5;
    while (fake->to_prepare > 0)
        usleep(500);
    usleep(20000);
    assert_int_equal(fake->to_prepare, 0); /* not called again */
    qr_engine_destroy(engine);
}

static void prompt_logprobs_from_a_position(void **state)
{
    struct fake *fake;
    struct answer all, some;
    int32_t ids[100];
    (void)state;
    struct qr_engine *engine = fake_engine(crowded, &fake);
    for (int i = 0; i < 100; i++)
        ids[i] = i % FAKE_VOCAB;
    struct qr_request r = ask_request(ids, 100, 0);
    r.sampling.prompt_logprobs = 1;
    ask_alone(engine, &r, &all);
    assert_int_equal(all.n_prompt, 100);
    assert_true(all.n_slice > 5); /* 16 rows a step */
    assert_int_equal(all.finish, QR_FINISH_LENGTH);
    assert_int_equal(all.n, 0);
    for (int from = 0; from <= 100; from += 25) {
        r.sampling.prompt_logprobs_from = from;
        ask_alone(engine, &r, &some);
        assert_int_equal(some.n_prompt, 100 - from);
        for (int i = from > 0 ? from : 1; i < 100; i++) {
            assert_int_equal(some.prompt_id[i - from], ids[i]);
            assert_true(some.prompt[i - from] == all.prompt[i]);
        }
        answer_free(&some);
    }
    answer_free(&all);
    qr_engine_destroy(engine);
}

static void choices_are_as_many_as_asked_for(void **state)
{
    static struct answer together[4];
    struct fake *fake;
    int32_t ids[] = {4, 5, 6};
    int differ = 0;
    (void)state;
    struct qr_engine *engine = fake_engine(crowded, &fake);
    struct qr_request r = ask_request(ids, 3, 30);
    r.sampling.temperature = 1;
    r.sampling.has_seed = true;
    r.sampling.seed = 12;
    r.sampling.ignore_eos = true;
    r.sampling.prompt_logprobs = 0;
    struct answer one;
    ask_alone(engine, &r, &one);
    r.n = 4;
    uint64_t id = ask(engine, &r);
    for (int i = 0; i < 4; i++)
        together[i] = (struct answer){.request = id, .choice = i};
    await_answers(engine, together, 4);
    assert_same_answer(&one, &together[0]);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(together[i].n_prompt, 0); /* once, with the first */
        assert_int_equal(together[i].n, 30);
        differ += memcmp(together[i].id, one.id, 30 * sizeof(int32_t)) != 0;
    }
    assert_int_equal(differ, 3);
    for (int i = 0; i < 4; i++)
        answer_free(&together[i]);
    answer_free(&one);
    qr_engine_destroy(engine);
}

static void where_an_answer_ends(void **state)
{
    struct fake *fake;
    struct answer a;
    int32_t ids[MAX_LEN];
    (void)state;
    struct qr_engine *engine = fake_engine(crowded, &fake);
    for (int i = 0; i < MAX_LEN; i++)
        ids[i] = i % FAKE_VOCAB;
    struct qr_request r = ask_request(ids, 10, -1);
    r.sampling.ignore_eos = true;
    ask_alone(engine, &r, &a); /* to the context's end */
    assert_int_equal(a.n, MAX_LEN - 10);
    assert_int_equal(a.finish, QR_FINISH_LENGTH);
    int32_t stop[] = {a.id[7]};
    int first = 0;
    while (a.id[first] != stop[0])
        first++;
    answer_free(&a);
    r.sampling.stop_token_ids = stop;
    r.sampling.n_stop_token_ids = 1;
    ask_alone(engine, &r, &a);
    assert_int_equal(a.n, first + 1);
    assert_int_equal(a.finish, QR_FINISH_STOP);
    answer_free(&a);
    r.sampling.min_tokens = 20;
    ask_alone(engine, &r, &a);
    assert_true(a.n > 20);
    for (int i = 0; i < 20; i++)
        assert_int_not_equal(a.id[i], stop[0]);
    answer_free(&a);
    r = ask_request(ids, MAX_LEN, 0); /* nothing to generate: the whole context may be prompt */
    ask_alone(engine, &r, &a);
    assert_int_equal(a.n, 0);
    assert_int_equal(a.finish, QR_FINISH_LENGTH);
    answer_free(&a);
    r = ask_request(ids, MAX_LEN - 1, 100);
    ask_alone(engine, &r, &a);
    assert_int_equal(a.n, 1);
    answer_free(&a);
    qr_engine_destroy(engine);
}

/* Each change makes a good request one that is refused; the message names the field. */
static void bad_fields_are_refused(void **state)
{
    static const char *const empty[] = {""};
    static int32_t ids[MAX_LEN + 1];
    static struct qr_logit_bias many[5000];
    static const int32_t outside[] = {FAKE_VOCAB}, negative[] = {-1};
    static const struct qr_logit_bias bias_id[] = {{FAKE_VOCAB, 1}}, bias_nan[] = {{1, NAN}}, bias_big[] = {{1, 101}};
    struct fake *fake;
    struct qr_err err;
    uint64_t id;
    (void)state;
    struct qr_engine *engine = fake_engine(crowded, &fake);
    struct qr_request ok = ask_request(ids, 5, 5);
#define REFUSED(wanted, word, change)                                                                                  \
    do {                                                                                                               \
        struct qr_request r = ok;                                                                                      \
        change;                                                                                                        \
        assert_int_equal(qr_engine_submit(engine, &r, &id, &err), wanted);                                             \
        assert_int_equal(err.status, wanted);                                                                          \
        if (!strstr(err.message, word))                                                                                \
            fail_msg("'%s' does not name %s", err.message, word);                                                      \
        assert_int_equal(qr_engine_submit(engine, &r, &id, NULL), wanted);                                             \
    } while (0)
    REFUSED(QR_INVALID, "cache_salt", r.cache_salt = UINT64_C(1) << 63);
    REFUSED(QR_INVALID, "temperature", r.sampling.temperature = -0.1f);
    REFUSED(QR_INVALID, "temperature", r.sampling.temperature = NAN);
    REFUSED(QR_INVALID, "temperature", r.sampling.temperature = INFINITY);
    REFUSED(QR_INVALID, "temperature", r.sampling.temperature = 101);
    REFUSED(QR_INVALID, "top_p", r.sampling.top_p = 0);
    REFUSED(QR_INVALID, "top_p", r.sampling.top_p = 1.01f);
    REFUSED(QR_INVALID, "top_p", r.sampling.top_p = NAN);
    REFUSED(QR_INVALID, "min_p", r.sampling.min_p = -1);
    REFUSED(QR_INVALID, "min_p", r.sampling.min_p = 2);
    REFUSED(QR_INVALID, "top_k", r.sampling.top_k = -2);
    REFUSED(QR_INVALID, "repetition_penalty", r.sampling.repetition_penalty = 0);
    REFUSED(QR_INVALID, "repetition_penalty", r.sampling.repetition_penalty = -1);
    REFUSED(QR_INVALID, "repetition_penalty", r.sampling.repetition_penalty = INFINITY);
    REFUSED(QR_INVALID, "presence_penalty", r.sampling.presence_penalty = 2.5f);
    REFUSED(QR_INVALID, "frequency_penalty", r.sampling.frequency_penalty = -NAN);
    REFUSED(QR_INVALID, "max_tokens", r.sampling.max_tokens = -2);
    REFUSED(QR_INVALID, "min_tokens", r.sampling.min_tokens = 6);
    REFUSED(QR_INVALID, "min_tokens", r.sampling.min_tokens = -1);
    REFUSED(QR_INVALID, "min_tokens", (r.sampling.max_tokens = -1, r.sampling.min_tokens = MAX_LEN));
    REFUSED(QR_INVALID, "logprobs", r.sampling.logprobs = 21);
    REFUSED(QR_INVALID, "logprobs", r.sampling.logprobs = -2);
    REFUSED(QR_INVALID, "prompt_logprobs", r.sampling.prompt_logprobs = INT32_MAX);
    REFUSED(QR_INVALID, "prompt_logprobs_from", (r.sampling.prompt_logprobs = 0, r.sampling.prompt_logprobs_from = 6));
    REFUSED(QR_INVALID, "n is", r.n = -1);
    REFUSED(QR_INVALID, "n is", r.n = 1 << 30);
    REFUSED(QR_INVALID, "prompt", r.n_prompt = 0);
    REFUSED(QR_INVALID, "prompt", r.prompt = NULL);
    REFUSED(QR_INVALID, "prompt[0] is 97", (r.prompt = outside, r.n_prompt = 1));
    REFUSED(QR_INVALID, "prompt[0] is -1", (r.prompt = negative, r.n_prompt = 1));
    REFUSED(QR_LIMIT, "maximum context length is 160", r.n_prompt = MAX_LEN);
    REFUSED(QR_LIMIT, "maximum context length", (r.n_prompt = MAX_LEN + 1, r.sampling.max_tokens = 0));
    REFUSED(QR_LIMIT, "maximum context length", r.n_prompt = SIZE_MAX / 8);
    REFUSED(QR_INVALID, "stop_token_ids[0]", (r.sampling.stop_token_ids = outside, r.sampling.n_stop_token_ids = 1));
    REFUSED(QR_INVALID, "stop_token_ids", (r.sampling.stop_token_ids = ids, r.sampling.n_stop_token_ids = 100000));
    REFUSED(QR_INVALID, "logit_bias", (r.sampling.logit_bias = bias_id, r.sampling.n_logit_bias = 1));
    REFUSED(QR_INVALID, "logit_bias", (r.sampling.logit_bias = bias_nan, r.sampling.n_logit_bias = 1));
    REFUSED(QR_INVALID, "logit_bias", (r.sampling.logit_bias = bias_big, r.sampling.n_logit_bias = 1));
    REFUSED(QR_INVALID, "logit_bias", (r.sampling.logit_bias = many, r.sampling.n_logit_bias = 5000));
    REFUSED(QR_INVALID, "logit_bias", r.sampling.n_logit_bias = 1);
    REFUSED(QR_UNSUPPORTED, "tokenizer", (r.sampling.stop = empty, r.sampling.n_stop = 1));
    REFUSED(QR_INVALID, "stop has 100000", (r.sampling.stop = empty, r.sampling.n_stop = 100000));
    struct answer a;
    ask_alone(engine, &ok, &a); /* and the engine is well */
    assert_true(a.n > 0);
    answer_free(&a);
    qr_engine_destroy(engine);
}

static void a_cancelled_request_ends_at_once(void **state)
{
    static struct answer a[3];
    struct fake *fake;
    int32_t ids[] = {1, 2, 3};
    struct qr_engine_stats stats;
    (void)state;
    struct qr_engine *engine = fake_engine(crowded, &fake);
    fake->delay_us = 2000;
    struct qr_request r = ask_request(ids, 3, -1);
    r.sampling.ignore_eos = true;
    for (int i = 0; i < 3; i++)
        a[i] = (struct answer){.request = ask(engine, &r)};
    while (fake->n_step < 5)
        usleep(500);
    qr_engine_cancel(engine, a[1].request);
    qr_engine_cancel(engine, 999);
    int at = fake->n_step;
    await_answers(engine, a, 3);
    assert_int_equal(a[1].finish, QR_FINISH_CANCELLED);
    assert_true(a[1].n <= at + 1); /* at most the step in flight and the next */
    assert_int_equal(a[0].finish, QR_FINISH_LENGTH);
    assert_same_answer(&a[0], &a[2]);
    /* before its first step, behind others */
    struct qr_request wide = r;
    wide.n = 20;
    uint64_t first = ask(engine, &wide), second = ask(engine, &wide);
    static struct answer w[40];
    for (int i = 0; i < 40; i++)
        w[i] = (struct answer){.request = i < 20 ? first : second, .choice = i % 20};
    qr_engine_cancel(engine, second);
    qr_engine_cancel(engine, first);
    fake->delay_us = 0;
    await_answers(engine, w, 40);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(w[i].finish, QR_FINISH_CANCELLED);
        answer_free(&w[i]);
    }
    for (int i = 0; i < 3; i++)
        answer_free(&a[i]);
    for (int i = 0; i < 400; i++) { /* all blocks are back */
        qr_engine_stats(engine, &stats);
        if (stats.n_free_block == stats.n_block && stats.n_running == 0)
            break;
        usleep(5000);
    }
    assert_int_equal(stats.n_free_block, stats.n_block);
    qr_engine_destroy(engine);
}

static void a_failure_ends_one_request(void **state)
{
    static struct answer a[9];
    struct fake *fake;
    int32_t good[] = {5, 6, 7}, bad[] = {5, 6, FAKE_POISON};
    (void)state;
    struct qr_engine *engine = fake_engine(crowded, &fake);
    fake->poison = true;
    struct qr_request r = ask_request(good, 3, 20), p = ask_request(bad, 3, 20);
    static const struct qr_logit_bias never[] = {{FAKE_POISON, -100}};
    r.sampling.logit_bias = never;
    r.sampling.n_logit_bias = 1;
    p.sampling.prompt_logprobs = 1;
    for (int i = 0; i < 9; i++)
        a[i] = (struct answer){.request = ask(engine, i % 3 == 1 ? &p : &r)};
    await_answers(engine, a, 9);
    for (int i = 0; i < 9; i++) {
        assert_int_equal(a[i].finish == QR_FINISH_ERROR, i % 3 == 1);
        if (i % 3 == 1) {
            assert_int_equal(a[i].error.status, QR_INTERNAL);
            assert_non_null(strstr(a[i].error.message, "not finite"));
        } else {
            assert_same_answer(&a[i], &a[0]);
        }
        if (i > 0)
            answer_free(&a[i]);
    }
    fake->fail_step = fake->n_step + 3; /* the executor refuses a step: its requests fail, the next is right */
    struct answer b;
    ask_alone(engine, &r, &b);
    assert_int_equal(b.finish, QR_FINISH_ERROR);
    assert_int_equal(b.error.status, QR_IO);
    answer_free(&b);
    ask_alone(engine, &r, &b);
    assert_same_answer(&a[0], &b);
    answer_free(&b);
    answer_free(&a[0]);
    qr_engine_destroy(engine);
}

static void a_full_queue_says_so(void **state)
{
    struct fake *fake;
    struct qr_err err;
    int32_t ids[] = {1};
    uint64_t id;
    int taken = 0;
    (void)state;
    struct qr_engine *engine = fake_engine(crowded, &fake);
    fake->delay_us = 20000;
    struct qr_request r = ask_request(ids, 1, 50);
    enum qr_status status = QR_OK;
    while (taken < 3000 && (status = qr_engine_submit(engine, &r, &id, &err)) == QR_OK)
        taken++;
    assert_int_equal(status, QR_BUSY);
    assert_non_null(strstr(err.message, "one key half"));
    assert_true(taken >= QR_MAX_QUEUE / 2);
    r.key = 5;
    assert_int_equal(qr_engine_submit(engine, &r, &id, &err), QR_OK); /* another key has room */
    qr_engine_destroy(engine);                                        /* with a thousand requests in it */
}

static void *wait_for_ever(void *arg)
{
    struct qr_event event;
    bool got;
    enum qr_status status = qr_engine_next(arg, &event, -1, &got, NULL);
    return (void *)(intptr_t)status;
}

static void destroying_wakes_a_reader(void **state)
{
    struct fake *fake;
    pthread_t thread;
    void *status;
    (void)state;
    struct qr_engine *engine = fake_engine(crowded, &fake);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, engine), 0);
    usleep(50000);
    qr_engine_destroy(engine);
    pthread_join(thread, &status);
    assert_int_equal((int)(intptr_t)status, QR_CANCELLED);
    qr_engine_destroy(NULL);
    qr_event_clear(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answer_is_that_of_the_model),
        cmocka_unit_test(preparations_wait_for_requests),
        cmocka_unit_test(prompt_logprobs_from_a_position),
        cmocka_unit_test(choices_are_as_many_as_asked_for),
        cmocka_unit_test(where_an_answer_ends),
        cmocka_unit_test(bad_fields_are_refused),
        cmocka_unit_test(a_cancelled_request_ends_at_once),
        cmocka_unit_test(a_failure_ends_one_request),
        cmocka_unit_test(a_full_queue_says_so),
        cmocka_unit_test(destroying_wakes_a_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
