/* test_batch.c - sixty-four requests of mixed lengths at once on the GPU, some drawn and some greedy, give what each gives alone: ids
 * and log-probabilities bit for bit, with chunks of prompts and beginnings in common. Only where there is a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "base/rand.h"
#include "cuda/gpu.h"
#include "engine/ask.h"
#include "engine/stats.h"

enum { N_REQUEST = 64, MAX_PROMPT = 700, SHARED = 130 };

struct mixed {
    int32_t prompt[MAX_PROMPT];
    struct qr_request request;
};

/* A third of the prompts begin alike; every other request is drawn. */
static void make(struct mixed *m, int i, uint32_t n_vocab)
{
    const int n = 1 + (int)(qr_rand_uniform(3, (uint32_t)i, 0) * (MAX_PROMPT - 1));
    random_tokens(m->prompt, n, n_vocab, (uint64_t)i + 100);
    if (i % 3 == 0)
        random_tokens(m->prompt, n < SHARED ? n : SHARED, n_vocab, 7);
    m->request = ask_request(m->prompt, (size_t)n, 1 + (int)(qr_rand_uniform(3, (uint32_t)i, 1) * 40));
    m->request.sampling.logprobs = 1;
    if (i % 2) {
        m->request.sampling.temperature = 0.9f;
        m->request.sampling.top_p = 0.95f;
        m->request.sampling.seed = (uint64_t)i;
        m->request.sampling.has_seed = true;
    }
}

static struct qr_engine *engine_for(struct qr_model *model, const struct qr_engine_options *options)
{
    struct qr_engine *engine;
    struct qr_err err;
    if (qr_engine_create(model, options, &engine, &err) != QR_OK)
        fail_msg("%s", err.message);
    return engine;
}

static void check(const char *name)
{
    static struct mixed mixed[N_REQUEST];
    static struct answer alone[N_REQUEST], together[N_REQUEST];
    struct qr_engine_options options = {
        .device = "cuda", .fuse_mask = -1, .max_model_len = 1024, .kv_cache_tokens = 12000, .no_prefix_cache = true};
    struct qr_engine_stats stats;
    struct qr_model *model;
    struct qr_err err;
    need_gpu();
    if (qr_model_open(name, NULL, &model, &err) != QR_OK)
        fail_msg("%s", err.message);
    struct qr_engine *engine = engine_for(model, &options);
    for (int i = 0; i < N_REQUEST; i++) {
        alone[i] = together[i] = (struct answer){0};
        make(&mixed[i], i, (uint32_t)qr_model_vocab_size(model));
        ask_alone(engine, &mixed[i].request, &alone[i]);
    }
    qr_engine_destroy(engine);
    options.no_prefix_cache = false;
    options.max_num_seqs = 64;
    options.max_num_batched_tokens = 300;
    engine = engine_for(model, &options);
    for (int i = 0; i < N_REQUEST; i++)
        together[i].request = ask(engine, &mixed[i].request);
    await_answers(engine, together, N_REQUEST);
    qr_engine_stats(engine, &stats);
    qr_engine_destroy(engine);
    print_message("%s: %d preempted, %d prompt tokens from the cache\n", name, (int)stats.n_preempted,
                  (int)stats.n_cached);
    assert_true(stats.n_cached > 0);
    for (int i = 0; i < N_REQUEST; i++) {
        assert_same_answer(&alone[i], &together[i]);
        answer_free(&alone[i]);
        answer_free(&together[i]);
    }
    qr_model_close(model);
}

static void heads_of_64(void **state)
{
    (void)state;
    check("dummy:smollm2-135m");
}

static void heads_of_128(void **state)
{
    (void)state;
    check("dummy:qwen3-0.6b");
}

static void biased(void **state)
{
    (void)state;
    check("dummy:qwen2.5-1.5b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(heads_of_64), cmocka_unit_test(heads_of_128),
                                       cmocka_unit_test(biased)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
