/* test_masks.c - whatever passes run, the logits are the oracle's: every family, both file formats, every instruction
 * set that runs here, F32 weights, keys and values in F32; within 1e-4 of the largest logit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "base/rand.h"
#include "common/tmp.h"
#include "plan/fuse.h"
#include "whole/ref_forward.h"
#include "whole/runner.h"

/* 70 tokens: five pages, more than tiny-mistral's window of 24. */
enum { N_TOKEN = 70, N_RANDOM = 20, N_MASK = QR_N_FUSE + 2 + N_RANDOM };
#define TOLERANCE 1e-4

static void fill_masks(uint32_t mask[N_MASK])
{
    int n = 0;
    mask[n++] = 0;
    mask[n++] = QR_FUSE_ALL;
    for (int i = 0; i < QR_N_FUSE; i++)
        mask[n++] = UINT32_C(1) << i;
    for (int i = 0; i < N_RANDOM; i++)
        mask[n++] = (uint32_t)(qr_rand_uniform(42, 0, (uint32_t)i) * (QR_FUSE_ALL + 1));
}

static void compare(const char *shape, const char *path)
{
    struct model model;
    int32_t token[N_TOKEN];
    uint32_t mask[N_MASK];
    double worst = 0;
    fill_masks(mask);
    model_open(&model, path);
    random_tokens(token, N_TOKEN, model.n_vocab, 5);
    float *want = ref_forward(model.source, token, N_TOKEN);
    for (int isa = 0; isa < QR_N_ISA; isa++) {
        if (!qr_isa_runs_here(isa))
            continue;
        for (int i = 0; i < N_MASK; i++) {
            struct setting setting = {.mask = mask[i], .isa = isa, .n_thread = 1 + i % 2, .kv_type = QR_F32};
            float *got = run_logits(&model, setting, token, N_TOKEN, 33);
            double error = relative_error(got, want, (size_t)N_TOKEN * model.n_vocab);
            if (error > TOLERANCE)
                fail_msg("%s, %s, mask 0x%x: off the oracle by %g", shape, qr_isa_name(isa), mask[i], error);
            worst = error > worst ? error : worst;
            free(got);
        }
    }
    print_message("%s: worst relative error %.2g\n", shape, worst);
    free(want);
    model_close(&model);
}

static void both_formats(void **state, const char *shape)
{
    char name[64], path[4096];
    for (int gguf = 0; gguf < 2; gguf++) {
        snprintf(name, sizeof name, "%s%s", shape, gguf ? ".gguf" : "");
        snprintf(path, sizeof path, "%s", tmp_path(state, name));
        model_write(shape, QR_F32, path);
        compare(name, path);
    }
}

static void llama(void **state)
{
    both_formats(state, "tiny-llama");
}

static void llama3_rope(void **state)
{
    both_formats(state, "tiny-llama3");
}

static void mistral_window(void **state)
{
    both_formats(state, "tiny-mistral");
}

static void qwen2(void **state)
{
    both_formats(state, "tiny-qwen2");
}

static void qwen3(void **state)
{
    both_formats(state, "tiny-qwen3");
}

static void gemma2(void **state)
{
    both_formats(state, "tiny-gemma2");
}

static void gemma3(void **state)
{
    both_formats(state, "tiny-gemma3");
}

static void phi3(void **state)
{
    both_formats(state, "tiny-phi3");
    both_formats(state, "tiny-phi4");
}

/* 500 tokens: attention is cut at 256 positions and merged. */
static void long_context(void **state)
{
    (void)state;
    enum { N_LONG = 500 };
    static int32_t token[N_LONG];
    static const char *const SHAPE[] = {"tiny-llama", "tiny-qwen3", "tiny-gemma2", "tiny-gemma3"};
    for (size_t i = 0; i < sizeof SHAPE / sizeof SHAPE[0]; i++) {
        struct model model;
        const char *path = tmp_path(state, SHAPE[i]);
        model_write(SHAPE[i], QR_F32, path);
        model_open(&model, path);
        random_tokens(token, N_LONG, model.n_vocab, 6);
        float *want = ref_forward(model.source, token, N_LONG);
        for (int isa = 0; isa < QR_N_ISA; isa++) {
            if (!qr_isa_runs_here(isa))
                continue;
            struct setting setting = {.mask = QR_FUSE_ALL, .isa = isa, .n_thread = 2, .kv_type = QR_F32};
            float *got = run_logits(&model, setting, token, N_LONG, 200);
            double error = relative_error(got, want, (size_t)N_LONG * model.n_vocab);
            if (error > TOLERANCE)
                fail_msg("%s, %s: off the oracle by %g", SHAPE[i], qr_isa_name(isa), error);
            free(got);
        }
        free(want);
        model_close(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(llama, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(llama3_rope, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(mistral_window, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(qwen2, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(qwen3, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(gemma2, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(gemma3, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(phi3, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(long_context, tmp_setup, tmp_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
