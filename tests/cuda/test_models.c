/* test_models.c - models of real shapes with random weights: the GPU's logits against those of the CPU executor, whose activations are
 * fp32 (tests/whole compares it with the oracle). Only where there is a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "cuda/gpu.h"
#include "plan/fuse.h"

/* A prompt of 300 tokens and 64 steps of one. */
enum { N_TOKEN = 364, N_DECODE = 64 };

static void compare(const char *name)
{
    struct model model;
    static int32_t token[N_TOKEN];
    need_gpu();
    model_open(&model, name);
    random_tokens(token, N_TOKEN, model.n_vocab, 5);
    struct setting cpu = {.mask = QR_FUSE_ALL, .isa = qr_isa_best(), .n_thread = qr_cpu_count(), .kv_type = QR_F32};
    float *want = run_logits(&model, cpu, token, N_TOKEN, RUNNER_MAX_TOKEN);
    double error[2];
    gpu_errors(&model, token, N_TOKEN, N_DECODE, want, error);
    print_message("%s: relative error of the prompt's logits %.2g, of the decode steps' %.2g\n", name, error[0],
                  error[1]);
    assert_true(error[0] < 1e-2 && error[1] < 1e-2);
    free(want);
    model_close(&model);
}

static void qwen2(void **state)
{
    (void)state;
    compare("dummy:qwen2.5-1.5b");
}

static void qwen3(void **state)
{
    (void)state;
    compare("dummy:qwen3-0.6b");
}

static void llama3(void **state)
{
    (void)state;
    compare("dummy:llama-3.2-1b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(qwen2), cmocka_unit_test(qwen3), cmocka_unit_test(llama3)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
