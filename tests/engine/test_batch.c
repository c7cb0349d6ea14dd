/* test_batch.c - sixty-four requests of every kind at once give, token for token and logit for logit, what each gives
 * alone: with preemption, with and without the prefix cache, in chunks, with drafts, with steps in flight; on a fake
 * executor and on the CPU's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/rand.h"
#include "engine/setup.h"
#include "fake.h"
#include "late.h"
#include "mixed.h"

enum { N_REQUEST = 64, MAX_CHOICE = 3, N_ANSWER = N_REQUEST * MAX_CHOICE, DRAFTS = 3 };

/* What a round runs on: an executor and what an engine on it is made from. */
struct ground {
    struct qr_engine_parts (*make)(struct qr_exec_limits limits);
    int n_vocab;
    const char *name;
};

static struct mixed mixed[N_REQUEST];
static struct answer alone[N_ANSWER], together[N_ANSWER];
static struct spy spy;

/* ---------------------------------------------------------------- drafts */

/* Proposes what the same text went on with when it was alone, and something else now and then. */
static int propose(void *ctx, const int32_t *token, int n_token, int most, int32_t *draft)
{
    (void)ctx;
    for (int a = 0; a < N_ANSWER; a++) {
        const struct mixed *m = &mixed[a / MAX_CHOICE];
        int n_prompt = (int)m->request.n_prompt, behind = n_token - n_prompt, n = 0;
        if (!alone[a].done || behind < 0 || behind >= alone[a].n ||
            memcmp(token, m->prompt, (size_t)n_prompt * sizeof *token) != 0 ||
            memcmp(token + n_prompt, alone[a].id, (size_t)behind * sizeof *token) != 0)
            continue;
        for (; n < most && behind + n < alone[a].n; n++)
            draft[n] = alone[a].id[behind + n] ^ (qr_rand_uniform(5, (uint32_t)a, (uint32_t)(behind + n)) < 0.25f);
        return n;
    }
    return 0;
}

/* ---------------------------------------------------------------- grounds */

static struct qr_engine_parts on_fake(struct qr_exec_limits limits)
{
    struct fake *f = fake_exec(limits);
    assert_non_null(f);
    return fake_parts(&f->head, limits);
}

static struct qr_model *tiny;

static struct qr_engine_parts on_cpu(struct qr_exec_limits limits)
{
    struct qr_setup setup;
    struct qr_engine_options options = {.n_thread = 2, .fuse_mask = -1};
    struct qr_pool *pool;
    struct qr_exec *exec;
    struct qr_err err;
    if (qr_setup_make(tiny, &options, &setup, &err) != QR_OK || qr_pool_create(2, &pool, &err) != QR_OK ||
        qr_cpu_exec_create(setup.plan, &limits, setup.isa, pool, &exec, &err) != QR_OK)
        fail_msg("%s", err.message);
    struct qr_engine_parts parts = fake_parts(exec, limits);
    parts.pool = pool;
    parts.plan = setup.plan;
    parts.n_vocab = tiny->config.n_vocab;
    return parts;
}

/* ---------------------------------------------------------------- rounds */

struct round {
    bool no_cache;
    int chunk, drafts, run_ahead;
};

static struct qr_engine *engine_for(const struct ground *ground, struct qr_exec_limits limits,
                                    const struct round *round)
{
    struct qr_engine *engine;
    struct qr_err err;
    limits.n_place = (round->run_ahead + 1) * limits.max_row;
    limits.kv_type = QR_F16;
    struct qr_engine_parts parts = ground->make(limits);
    parts.run_ahead = round->run_ahead;
    parts.no_prefix_cache = round->no_cache;
    if (round->drafts)
        parts.drafter = (struct qr_drafter){.most = round->drafts, .propose = propose};
    parts.exec = round->run_ahead > 0
                     ? late_exec(parts.exec, limits, parts.n_vocab, (uint64_t)round->chunk + 7, &spy, NULL)
                     : spied_exec(parts.exec, limits, parts.n_vocab, &spy);
    if (qr_engine_start(&parts, &engine, &err) != QR_OK)
        fail_msg("%s", err.message);
    return engine;
}

static void each_alone(const struct ground *ground)
{
    const struct qr_exec_limits roomy = {
        .max_token = 512, .max_seq = 16, .max_row = 64, .max_len = MIXED_MAX_LEN, .n_block = 400};
    struct round plain = {.no_cache = true, .chunk = 512};
    struct qr_engine *engine = engine_for(ground, roomy, &plain);
    for (int i = 0; i < N_REQUEST; i++) {
        mixed_make(&mixed[i], i, ground->n_vocab);
        uint64_t id = ask(engine, &mixed[i].request);
        for (int c = 0; c < MAX_CHOICE; c++)
            alone[i * MAX_CHOICE + c] =
                (struct answer){.request = id, .choice = c, .done = c >= mixed_choices(&mixed[i])};
        await_answers(engine, &alone[i * MAX_CHOICE], MAX_CHOICE);
        for (int c = 0; c < mixed_choices(&mixed[i]); c++) {
            const struct answer *a = &alone[i * MAX_CHOICE + c];
            assert_true(a->finish == QR_FINISH_STOP || a->finish == QR_FINISH_LENGTH);
            assert_int_equal(a->usage.prompt_tokens, mixed[i].request.n_prompt);
        }
    }
    qr_engine_destroy(engine);
}

static void all_together(const struct ground *ground, const struct round *round)
{
    const struct qr_exec_limits crowded = {/* sequences must give way to each other */
                                           .max_token = round->chunk,
                                           .max_seq = 8,
                                           .max_row = 16,
                                           .max_len = MIXED_MAX_LEN,
                                           .n_block = 13};
    struct qr_engine *engine = engine_for(ground, crowded, round);
    struct qr_engine_stats stats;
    for (int i = 0; i < N_REQUEST; i++) {
        uint64_t id = ask(engine, &mixed[i].request);
        for (int c = 0; c < MAX_CHOICE; c++)
            together[i * MAX_CHOICE + c] =
                (struct answer){.request = id, .choice = c, .done = c >= mixed_choices(&mixed[i])};
    }
    await_answers(engine, together, N_ANSWER);
    qr_engine_stats(engine, &stats);
    qr_engine_destroy(engine); /* surplus steps may have been on their way */
    printf("%s, cache %s, chunks of %d, %d drafts, %d ahead: %d preempted, %d of %d prompt tokens cached, %d of %d "
           "drafts taken, %d texts again\n",
           ground->name, round->no_cache ? "off" : "on", round->chunk, round->drafts, round->run_ahead,
           (int)stats.n_preempted, (int)stats.n_cached, (int)stats.n_asked, (int)stats.n_taken, (int)stats.n_draft,
           spy.n_again);
    assert_true(stats.n_preempted > 0);
    assert_true(round->no_cache || stats.n_cached > 100);
    assert_true(round->drafts == 0 || stats.n_taken > 100);
    for (int a = 0; a < N_ANSWER; a++) {
        if (a % MAX_CHOICE >= mixed_choices(&mixed[a / MAX_CHOICE]))
            continue;
        assert_same_answer(&alone[a], &together[a]);
        assert_int_equal(together[a].usage.output_tokens, together[a].n);
        answer_free(&together[a]);
    }
    assert_int_equal(spy.n_differ, 0);
}

/* Sanitizers make a round some twenty times slower: there one in five is run. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { ROUND_STEP = 5 };
#else
enum { ROUND_STEP = 1 };
#endif

static void every_way(const struct ground *ground)
{
    memset(&spy, 0, sizeof spy);
    each_alone(ground);
    for (int k = 0; k < 24; k += ROUND_STEP) {
        struct round round = {.no_cache = k % 2, .chunk = k / 2 % 2 ? 512 : 16, .run_ahead = k / 4 % 3};
        round.drafts = k / 12 ? DRAFTS : 0;
        all_together(ground, &round);
    }
    assert_true(spy.n_again > 10000);
    for (int a = 0; a < N_ANSWER; a++)
        answer_free(&alone[a]);
}

static void on_a_fake_device(void **state)
{
    const struct ground ground = {on_fake, FAKE_VOCAB, "fake"};
    (void)state;
    every_way(&ground);
}

static void on_the_cpu(void **state)
{
    struct qr_err err;
    (void)state;
    if (qr_model_open("dummy:tiny-qwen3", NULL, &tiny, &err) != QR_OK)
        fail_msg("%s", err.message);
    const struct ground ground = {on_cpu, tiny->config.n_vocab, "cpu"};
    every_way(&ground);
    qr_model_close(tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_a_fake_device),
        cmocka_unit_test(on_the_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
