/* test_models.c - models of real shapes with random weights: the GPU's logits against those of the CPU executor, whose activations are
 * fp32 (tests/whole compares it with the oracle), and its memory against what was said before. Only where there is a GPU. */
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

/* From a context without anything to the end of the first step: within 1% and 64 MB of the account. */
static void memory(void **state)
{
    struct model model;
    struct qr_cuda_device before, after;
    struct qr_cuda_memory said;
    struct qr_err err;
    static int32_t token[N_TOKEN];
    (void)state;
    need_gpu();
    model_open(&model, "dummy:qwen3-0.6b");
    random_tokens(token, N_TOKEN, model.n_vocab, 5);
    assert_int_equal(qr_cuda_device_get(0, true, &before, &err), QR_OK);
    struct runner *r = malloc(sizeof *r);
    assert_non_null(r);
    struct setting setting = {.mask = QR_FUSE_ALL, .n_thread = qr_cpu_count(), .kv_type = QR_BF16};
    gpu_open(r, &model, setting, BY_GRAPH);
    int take[RUNNER_MAX_SEQ] = {1};
    runner_add(r, token, N_TOKEN);
    runner_step(r, take);
    assert_int_equal(qr_cuda_device_get(0, true, &after, &err), QR_OK);
    struct qr_exec_limits limits = gpu_limits(QR_BF16);
    assert_int_equal(qr_cuda_memory(r->plan, &limits, &said, &err), QR_OK);
    double total =
        (double)(said.weights + said.kv + said.activations + said.workspace + said.tables + said.step + said.modules);
    double taken = (double)before.available - (double)after.available, off = taken - total;
    print_message("said %.1f MB, taken %.1f MB\n", total / 1e6, taken / 1e6);
    assert_true(off < total / 100 + 64e6 && -off < total / 100 + 64e6);
    runner_close(r);
    free(r);
    model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory), cmocka_unit_test(qwen2), cmocka_unit_test(qwen3),
                                       cmocka_unit_test(llama3)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
