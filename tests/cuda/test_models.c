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
    struct setting gpu = {.mask = QR_FUSE_ALL, .n_thread = qr_cpu_count(), .kv_type = QR_BF16};
    float *want = run_logits(&model, cpu, token, N_TOKEN, RUNNER_MAX_TOKEN);
    float *got = gpu_logits(&model, gpu, BY_GRAPH, token, N_TOKEN, N_DECODE, RUNNER_MAX_TOKEN);
    size_t prompt = (size_t)(N_TOKEN - N_DECODE) * model.n_vocab, decode = (size_t)N_DECODE * model.n_vocab;
    double of_prompt = norm_error(got, want, prompt), of_decode = norm_error(got + prompt, want + prompt, decode);
    print_message("%s: relative error of the prompt's logits %.2g, of the decode steps' %.2g\n", name, of_prompt,
                  of_decode);
    assert_true(of_prompt < 1e-2 && of_decode < 1e-2);
    free(want);
    free(got);
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
