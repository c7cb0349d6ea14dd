/* test_rows.c - a row's logits depend on its sequence alone, bit for bit: not on how the prompt is cut into chunks, on the
 * number of threads, or on who else is in the step (DESIGN: one arithmetic per row). For every weight type that synth
 * writes, every type of keys and values, every instruction set that runs here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "common/tmp.h"
#include "plan/fuse.h"
#include "whole/runner.h"

enum { N_TOKEN = 90, N_OTHER = 40 };

static const enum qr_dtype KV[] = {QR_F32, QR_F16, QR_BF16};
enum { N_KV = sizeof KV / sizeof KV[0] };

/* Bits are compared in the plain build; under a sanitizer each kernel's path is run, not every combination. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { EVERY_COMBINATION = 0 };
#else
enum { EVERY_COMBINATION = 1 };
#endif

struct where { /* for messages */
    const char *shape;
    enum qr_dtype type;
    struct setting setting;
};

static void assert_same(const struct where *w, const float *a, const float *b, size_t n, const char *what)
{
    if (memcmp(a, b, n * sizeof *a) == 0)
        return;
    size_t i = 0;
    while (memcmp(&a[i], &b[i], sizeof *a) == 0)
        i++;
    fail_msg("%s %s, %s, mask 0x%x, keys and values %s: %s: number %zu is %.9g, else %.9g", w->shape,
             qr_dtype_info(w->type)->name, qr_isa_name(w->setting.isa), w->setting.mask,
             qr_dtype_info(w->setting.kv_type)->name, what, i, (double)a[i], (double)b[i]);
}

static void chunks_and_threads(const struct model *model, const struct where *w, const int32_t *token,
                               const float *want)
{
    static const struct {
        int chunk, n_thread;
    } CASE[] = {{1, 1}, {7, 1}, {64, 1}, {N_TOKEN, 2}, {7, 3}, {1, 4}, {64, 4}};
    for (size_t i = 0; i < sizeof CASE / sizeof CASE[0]; i++) {
        struct setting setting = w->setting;
        char what[64];
        setting.n_thread = CASE[i].n_thread;
        snprintf(what, sizeof what, "chunks of %d on %d threads", CASE[i].chunk, CASE[i].n_thread);
        float *got = run_logits(model, setting, token, N_TOKEN, CASE[i].chunk);
        assert_same(w, got, want, (size_t)N_TOKEN * model->n_vocab, what);
        free(got);
    }
}

/* Four sequences in one step: two in prefill in different chunks, one that decodes, and the one looked at, which first is
 * in prefill and then decodes. */
static void among_others(const struct model *model, const struct where *w, const int32_t *token, const float *want)
{
    struct runner *r = malloc(sizeof *r);
    int32_t other[3][N_OTHER];
    assert_non_null(r);
    runner_open(r, model, w->setting);
    for (int i = 0; i < 3; i++) {
        random_tokens(other[i], N_OTHER, model->n_vocab, 100 + (uint64_t)i);
        if (i == 1)
            runner_add(r, token, N_TOKEN);
        runner_add(r, other[i], N_OTHER);
    }
    const int warm[RUNNER_MAX_SEQ] = {9, 0, 0, 0}, first[RUNNER_MAX_SEQ] = {1, 50, 3, 0};
    const int next[RUNNER_MAX_SEQ] = {1, 1, 0, 17}, last[RUNNER_MAX_SEQ] = {1, 23, 5, 2};
    runner_step(r, warm);
    runner_step(r, first);
    for (int i = 0; i < 5; i++)
        runner_step(r, next);
    while (r->sequence[1].done < N_TOKEN)
        runner_step(r, last);
    assert_same(w, r->sequence[1].logits, want, (size_t)N_TOKEN * model->n_vocab, "beside others");
    runner_close(r);
    free(r);
}

/* Prefill that asks for nothing, then for the last row of each chunk, then decode: what is asked for changes no bit. */
static void other_rows_wanted(const struct model *model, const struct where *w, const int32_t *token, const float *want)
{
    struct runner *r = malloc(sizeof *r);
    assert_non_null(r);
    runner_open(r, model, w->setting);
    int s = runner_add(r, token, N_TOKEN);
    static const int TAKE[] = {20, 30, 11, 1, 1, 27};
    int position = 0;
    for (size_t i = 0; i < sizeof TAKE / sizeof TAKE[0]; i++) {
        const int take[RUNNER_MAX_SEQ] = {TAKE[i]};
        r->wanted = i == 0 ? WANT_NONE : WANT_LAST;
        runner_step(r, take);
        position += TAKE[i];
        size_t last = (size_t)(position - 1) * model->n_vocab;
        if (r->wanted == WANT_LAST)
            assert_same(w, r->sequence[s].logits + last, want + last, model->n_vocab, "only the last row wanted");
    }
    assert_int_equal(position, N_TOKEN);
    runner_close(r);
    free(r);
}

static void all_ways(const struct model *model, struct where *w)
{
    static const uint32_t MASK[] = {QR_FUSE_ALL, 0};
    int32_t token[N_TOKEN];
    random_tokens(token, N_TOKEN, model->n_vocab, 9);
    for (int isa = 0; isa < QR_N_ISA; isa++) {
        if (!qr_isa_runs_here(isa))
            continue;
        for (int i = 0; i < N_KV * 2; i++) {
            if ((i >= N_KV || !EVERY_COMBINATION) && i % N_KV != (int)w->type % N_KV)
                continue; /* unfused: one type of keys and values a type of weights */
            w->setting = (struct setting){.mask = MASK[i / N_KV], .isa = isa, .n_thread = 1, .kv_type = KV[i % N_KV]};
            float *want = run_logits(model, w->setting, token, N_TOKEN, N_TOKEN);
            chunks_and_threads(model, w, token, want);
            among_others(model, w, token, want);
            other_rows_wanted(model, w, token, want);
            free(want);
        }
    }
}

static void check_type(void **state, enum qr_dtype type)
{
    static const char *const SHAPE[] = {"tiny-llama", "tiny-mistral", "tiny-qwen2",
                                        "tiny-qwen3", "tiny-gemma2",  "tiny-gemma3"};
    for (size_t i = 0; i < sizeof SHAPE / sizeof SHAPE[0]; i++) {
        if (!EVERY_COMBINATION && i % 2 != type % 2)
            continue;
        if (i >= 4 && type != (i == 4 ? QR_BF16 : QR_Q8_0)) /* what is theirs alone does not touch the weights */
            continue;
        struct model model;
        struct where w = {.shape = SHAPE[i], .type = type};
        char name[64], path[4096];
        snprintf(name, sizeof name, "%s-%s.gguf", SHAPE[i], qr_dtype_info(type)->name);
        snprintf(path, sizeof path, "%s", tmp_path(state, name));
        model_write(SHAPE[i], type, path);
        model_open(&model, path);
        all_ways(&model, &w);
        model_close(&model);
    }
}

static void f32(void **state)
{
    check_type(state, QR_F32);
}

static void f16(void **state)
{
    check_type(state, QR_F16);
}

static void bf16(void **state)
{
    check_type(state, QR_BF16);
}

static void q8_0(void **state)
{
    check_type(state, QR_Q8_0);
}

static void q4_0(void **state)
{
    check_type(state, QR_Q4_0);
}

static void q4_1(void **state)
{
    check_type(state, QR_Q4_1);
}

/* The sequence beside another one of another length, both decoding over the cuts on four threads. */
static void decode_long_pair(const struct model *model, const struct where *w, const int32_t *token, int n,
                             const float *want)
{
    struct runner *r = malloc(sizeof *r);
    struct setting setting = w->setting;
    assert_non_null(r);
    setting.n_thread = 4;
    runner_open(r, model, setting);
    int a = runner_add(r, token, n), b = runner_add(r, token, n);
    const int first[RUNNER_MAX_SEQ] = {20, 230}, decode[RUNNER_MAX_SEQ] = {1, 1}, more[RUNNER_MAX_SEQ] = {200, 0};
    runner_step(r, first);
    runner_step(r, more);
    for (int i = 0; i < 40; i++)
        runner_step(r, decode);
    runner_step(r, more);
    for (int i = 0; i < 60; i++)
        runner_step(r, decode);
    assert_same(w, r->sequence[a].logits, want, (size_t)r->sequence[a].done * model->n_vocab,
                "decoding beside another");
    assert_same(w, r->sequence[b].logits, want, (size_t)r->sequence[b].done * model->n_vocab,
                "decoding beside another");
    assert_true(r->sequence[a].done > 512 && r->sequence[b].done > 256);
    runner_close(r);
    free(r);
}

/* Attention is cut at multiples of 256 positions (DESIGN): contexts that cross two of them. */
static void long_contexts(void **state)
{
    (void)state;
    enum { N_LONG = 600, N_PAIR = 3 };
    static const char *const SHAPE[N_PAIR] = {"dummy:tiny-llama", "dummy:tiny-qwen3", "dummy:tiny-mistral"};
    static int32_t token[N_LONG];
    for (int i = EVERY_COMBINATION ? 0 : N_PAIR - 1; i < N_PAIR; i++) {
        struct model model;
        struct where w = {.shape = SHAPE[i], .type = QR_BF16};
        model_open(&model, SHAPE[i]);
        random_tokens(token, N_LONG, model.n_vocab, 30);
        for (int isa = 0; isa < QR_N_ISA; isa++) {
            if (!qr_isa_runs_here(isa))
                continue;
            w.setting = (struct setting){.mask = QR_FUSE_ALL, .isa = isa, .n_thread = 1, .kv_type = KV[i]};
            float *want = run_logits(&model, w.setting, token, N_LONG, RUNNER_MAX_TOKEN);
            for (int j = 0; j < 4; j++) { /* on several threads a decoding token's cuts may be shared out */
                static const int CHUNK[] = {100, 7, 2, 1};
                w.setting.n_thread = 1 + j;
                float *got = run_logits(&model, w.setting, token, N_LONG, CHUNK[j]);
                assert_same(&w, got, want, (size_t)N_LONG * model.n_vocab, "a long context in other chunks");
                free(got);
            }
            decode_long_pair(&model, &w, token, N_LONG, want);
            free(want);
        }
        model_close(&model);
    }
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, tmp_setup, tmp_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_FOLDER(f32),
                                       WITH_FOLDER(f16),
                                       WITH_FOLDER(bf16),
                                       WITH_FOLDER(q8_0),
                                       WITH_FOLDER(q4_0),
                                       WITH_FOLDER(q4_1),
                                       cmocka_unit_test(long_contexts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
