/* test_memory.c - what the ledger says of the GPU against what is taken there (cudaMemGetInfo), from after a context is made
 * to steps of a prompt and of single tokens; the KV pool of what is left; and what does not fit. Only where there is a GPU. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/clock.h"
#include "cuda/gpu.h"
#include "engine/ask.h"
#include "engine/model.h"
#include "engine/stats.h"

enum { N_PROMPT = 300 };
#define MIB (1024.0 * 1024.0)

static struct qr_cuda_device look(void)
{
    struct qr_cuda_device gpu;
    struct qr_err err;
    if (qr_cuda_device_get(0, true, &gpu, &err) != QR_OK)
        fail_msg("%s", err.message);
    return gpu;
}

static struct qr_model *model_of(const char *name)
{
    struct qr_model *model;
    struct qr_err err;
    if (qr_model_open(name, NULL, &model, &err) != QR_OK)
        fail_msg("%s", err.message);
    return model;
}

/* An engine's steps leave what the ledger said of it: within 1% and 64 MB. */
static void check(struct qr_model *model, const char *what, struct qr_engine_options options)
{
    struct qr_ledger ledger;
    struct qr_engine *engine;
    struct qr_err err;
    static int32_t token[N_PROMPT];
    options.device = "cuda";
    options.fuse_mask = -1;
    random_tokens(token, N_PROMPT, (uint32_t)qr_model_vocab_size(model), 5);
    struct qr_cuda_device before = look();
    if (qr_model_ledger(model, &options, &ledger, &err) != QR_OK)
        fail_msg("%s: %s", what, err.message);
    double start = qr_now_s();
    if (qr_engine_create(model, &options, &engine, &err) != QR_OK)
        fail_msg("%s: %s", what, err.message);
    double made = qr_now_s() - start, steps[3];
    struct qr_cuda_device after = look();
    steps[0] = (double)before.available - (double)after.available;
    static const int N_REQUEST[] = {1, 24}; /* steps of 24 sequences and fewer, as they end one after the other */
    for (int i = 0; i < 2; i++) {
        struct answer answers[24] = {0};
        for (int r = 0; r < N_REQUEST[i]; r++) {
            struct qr_request request = ask_request(token + r, (size_t)(N_PROMPT - 10 * r), 4 + 2 * r);
            answers[r].request = ask(engine, &request);
        }
        await_answers(engine, answers, N_REQUEST[i]);
        for (int r = 0; r < N_REQUEST[i]; r++)
            answer_free(&answers[r]);
        after = look();
        steps[i + 1] = (double)before.available - (double)after.available;
    }
    qr_engine_destroy(engine);
    double said = (double)ledger.total;
    print_message(
        "%s: the ledger says %.1f MiB; taken %.1f after creation (%.2f s), %.1f after one request, %.1f after 24\n",
        what, said / MIB, steps[0] / MIB, made, steps[1] / MIB, steps[2] / MIB);
    for (int i = 1; i < 3; i++)
        if (fabs(steps[i] - said) > said / 100 + 64e6)
            fail_msg("%s: off by %.1f MiB", what, (steps[i] - said) / MIB);
    if (options.kv_cache_tokens == 0) { /* the share is used up, and kept to */
        double share = options.gpu_memory_utilization > 0 ? options.gpu_memory_utilization : 0.9;
        assert_true(said <= share * (double)before.memory);
        assert_true(said > share * (double)before.memory - 16e6);
    }
}

static void ledger_holds(void **state)
{
    (void)state;
    need_gpu();
    struct qr_model *model = model_of("dummy:qwen3-0.6b");
    check(model, "qwen3-0.6b, 4096 tokens of KV", (struct qr_engine_options){.kv_cache_tokens = 4096});
    check(model, "qwen3-0.6b, steps of 8192 tokens",
          (struct qr_engine_options){.kv_cache_tokens = 16384, .max_num_batched_tokens = 8192, .max_num_seqs = 256});
    check(model, "qwen3-0.6b, a fifth",
          (struct qr_engine_options){.gpu_memory_utilization = 0.2, .max_model_len = 4096});
    check(model, "qwen3-0.6b, all that is there", (struct qr_engine_options){0});
    qr_model_close(model);
}

static bool was_called(void *ctx, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    *(bool *)ctx = true;
    return true;
}

/* Refused with numbers, and before a weight is read. */
static void too_large(void **state)
{
    struct qr_engine_options share = {.device = "cuda", .fuse_mask = -1, .gpu_memory_utilization = 1e-3},
                             cache = {.device = "cuda", .fuse_mask = -1, .kv_cache_tokens = INT64_C(1) << 40};
    const struct {
        const struct qr_engine_options *o;
        const char *word;
    } bad[] = {{&share, "raise gpu_memory_utilization from 0.00"}, {&cache, "lower kv_cache_tokens"}};
    (void)state;
    need_gpu();
    for (int i = 0; i < 2; i++) {
        bool read = false;
        struct qr_model *model;
        struct qr_err err;
        struct qr_model_options options = {.engine = bad[i].o, .progress = was_called, .progress_ctx = &read};
        assert_int_equal(qr_model_open("dummy:qwen3-0.6b", &options, &model, &err), QR_LIMIT);
        assert_null(model);
        assert_false(read);
        if (!strstr(err.message, bad[i].word) || !strstr(err.message, "MiB"))
            fail_msg("'%s' does not say '%s'", err.message, bad[i].word);
        print_message("%s\n", err.message);
    }
    struct qr_engine_options none = {.device = "cuda", .fuse_mask = -1, .gpu_memory_utilization = 1.5};
    struct qr_model *model = model_of("dummy:tiny-llama");
    struct qr_engine *engine;
    struct qr_err err;
    assert_int_equal(qr_engine_create(model, &none, &engine, &err), QR_INVALID);
    qr_model_close(model);
}

struct sending {
    uint64_t done, total;
    int calls, stop_at;
};

static bool on_sent(void *ctx, uint64_t done, uint64_t total)
{
    struct sending *s = ctx;
    assert_true(done > s->done && done <= total && (s->total == 0 || s->total == total));
    s->done = done;
    s->total = total;
    return ++s->calls != s->stop_at;
}

/* Stopped while its weights are sent, an engine leaves the GPU as it was. */
static void stopped_while_weights_are_sent(void **state)
{
    struct sending sending = {0};
    struct qr_engine_options options = {
        .device = "cuda", .fuse_mask = -1, .kv_cache_tokens = 4096, .progress = on_sent, .progress_ctx = &sending};
    struct qr_engine *engine;
    struct qr_err err;
    (void)state;
    need_gpu();
    struct qr_model *model = model_of("dummy:qwen3-0.6b");
    assert_int_equal(qr_engine_create(model, &options, &engine, &err), QR_OK);
    qr_engine_destroy(engine);
    assert_true(sending.done == sending.total && sending.total > 1000000000 && sending.calls > 50);
    struct qr_cuda_device before = look();
    for (int at = 1; at <= 41; at += 20) {
        sending = (struct sending){.stop_at = at};
        assert_int_equal(qr_engine_create(model, &options, &engine, &err), QR_CANCELLED);
        assert_null(engine);
        assert_int_equal(sending.calls, at);
    }
    assert_true(look().available + (UINT64_C(16) << 20) > before.available);
    qr_model_close(model);
}

/* A step of many tokens tells who watches that it goes on: at each launch, and from marks on the device's way. */
static void signs_of_life(void **state)
{
    enum { N = 2000 };
    static int32_t token[N];
    struct qr_engine_options options = {.device = "cuda", .fuse_mask = -1, .kv_cache_tokens = 4096};
    struct qr_model *model;
    struct qr_engine *engine;
    struct qr_err err;
    struct answer answer = {0};
    (void)state;
    need_gpu();
    model = model_of("dummy:tiny-qwen3");
    random_tokens(token, N, (uint32_t)qr_model_vocab_size(model), 5);
    assert_int_equal(qr_engine_create(model, &options, &engine, &err), QR_OK);
    uint64_t before = qr_engine_progress(engine);
    struct qr_request request = ask_request(token, N, 1);
    ask_alone(engine, &request, &answer);
    uint64_t signs = qr_engine_progress(engine) - before;
    print_message("a step of %d tokens: %llu signs of life\n", N, (unsigned long long)signs);
    assert_true(signs > 20); /* some 30 launches and 7 marks */
    answer_free(&answer);
    qr_engine_destroy(engine);
    qr_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ledger_holds), cmocka_unit_test(too_large),
                                       cmocka_unit_test(signs_of_life),
                                       cmocka_unit_test(stopped_while_weights_are_sent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
