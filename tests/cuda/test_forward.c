/* test_forward.c - logits of the GPU against the fp32 oracle: every family, every fusion mask, prompt and decode steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/rand.h"
#include "common/tmp.h"
#include "cuda/gpu.h"
#include "plan/fuse.h"
#include "whole/ref_forward.h"

/* A prompt of 300 tokens and 64 steps of one: attention is cut at 256. */
enum { N_TOKEN = 364, N_DECODE = 64, N_RANDOM = 8, N_MASK = QR_N_FUSE + 2 + N_RANDOM };
/* Activations and keys are rounded to bf16, 2^-9 each, some tens of times; so are weights that are no bf16 in the file. */
#define TOLERANCE(type) ((type) == QR_BF16 ? 1e-2 : 1.5e-2)
/* A key or value that such an error takes over the middle between two codes is off by 2^-3 of itself. */
#define TOLERANCE_FP8 4e-2

static void compare(void **state, const char *shape, enum qr_dtype type, enum qr_dtype kv_type)
{
    struct model model;
    static int32_t token[N_TOKEN];
    char name[64];
    double worst = 0;
    need_gpu();
    snprintf(name, sizeof name, "%s-%s.gguf", shape, qr_dtype_info(type)->name);
    const char *path = tmp_path(state, name);
    if (strcmp(shape, "heads-128") == 0)
        heads_write("tiny-qwen3", 0, 12, 2, 128, path);
    else if (strcmp(shape, "heads-64") == 0)
        heads_write("tiny-qwen3", 0, 9, 3, 64, path);
    else if (strcmp(shape, "heads-96") == 0)
        heads_write("tiny-llama", 0, 4, 4, 96, path);
    else if (strcmp(shape, "heads-256") == 0)
        heads_write("tiny-gemma2", 0, 4, 1, 256, path);
    else
        model_write(shape, type, path);
    model_open(&model, path);
    random_tokens(token, N_TOKEN, model.n_vocab, 5);
    float *want =
        kv_type == QR_F8S ? ref_forward_fp8(model.source, token, N_TOKEN) : ref_forward(model.source, token, N_TOKEN);
    for (int i = 0; i < N_MASK; i++) {
        uint32_t mask = i == 0              ? QR_FUSE_ALL
                        : i == 1            ? 0
                        : i < QR_N_FUSE + 2 ? UINT32_C(1) << (i - 2)
                                            : (uint32_t)(qr_rand_uniform(42, 0, (uint32_t)i) * (QR_FUSE_ALL + 1));
        struct setting setting = {.mask = mask, .n_thread = 2, .kv_type = kv_type};
        float *got = gpu_logits(&model, setting, (enum way)(i % N_WAY), token, N_TOKEN, N_DECODE, 200);
        double error = norm_error(got, want, (size_t)N_TOKEN * model.n_vocab);
        if (error > (kv_type == QR_F8S ? TOLERANCE_FP8 : TOLERANCE(type)))
            fail_msg("%s, mask 0x%x: off the oracle by %g", name, mask, error);
        worst = error > worst ? error : worst;
        free(got);
    }
    print_message("%s, keys in %s: worst relative error %.2g\n", name, qr_dtype_info(kv_type)->name, worst);
    free(want);
    model_close(&model);
}

static void llama(void **state)
{
    compare(state, "tiny-llama", QR_BF16, QR_BF16);
}

static void llama_f16(void **state)
{
    compare(state, "tiny-llama", QR_F16, QR_F16);
}

static void llama3_q8(void **state)
{
    compare(state, "tiny-llama3", QR_Q8_0, QR_BF16);
}

static void mistral_window(void **state)
{
    compare(state, "tiny-mistral", QR_BF16, QR_BF16);
}

static void qwen2(void **state)
{
    compare(state, "tiny-qwen2", QR_BF16, QR_BF16);
}

static void qwen2_q4(void **state)
{
    compare(state, "tiny-qwen2", QR_Q4_1, QR_F16);
}

static void qwen3(void **state)
{
    compare(state, "tiny-qwen3", QR_BF16, QR_BF16);
}

static void heads_128(void **state)
{
    compare(state, "heads-128", QR_BF16, QR_BF16);
}

static void heads_64(void **state)
{
    compare(state, "heads-64", QR_BF16, QR_F16);
}

static void heads_96(void **state)
{
    compare(state, "heads-96", QR_BF16, QR_BF16);
}

static void heads_256(void **state)
{
    compare(state, "heads-256", QR_BF16, QR_BF16);
}

/* Scaled embeddings, norms on both sides, GELU, windows, soft caps of scores and logits; then windows with frequencies of their own. */
static void gemma2(void **state)
{
    compare(state, "tiny-gemma2", QR_BF16, QR_BF16);
}

static void gemma3(void **state)
{
    compare(state, "tiny-gemma3", QR_BF16, QR_BF16);
}

static void phi3(void **state)
{
    compare(state, "tiny-phi3", QR_BF16, QR_BF16);
    compare(state, "tiny-phi4", QR_BF16, QR_BF16);
}

static void fp8(void **state)
{
    compare(state, "tiny-llama", QR_BF16, QR_F8S);
    compare(state, "heads-128", QR_BF16, QR_F8S);
    compare(state, "heads-64", QR_BF16, QR_F8S);
    compare(state, "heads-256", QR_BF16, QR_F8S);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, tmp_setup, tmp_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(llama),    WITH_FOLDER(llama_f16), WITH_FOLDER(llama3_q8), WITH_FOLDER(mistral_window),
        WITH_FOLDER(qwen2),    WITH_FOLDER(qwen2_q4),  WITH_FOLDER(qwen3),     WITH_FOLDER(heads_128),
        WITH_FOLDER(heads_64), WITH_FOLDER(heads_96),  WITH_FOLDER(heads_256), WITH_FOLDER(gemma2),
        WITH_FOLDER(gemma3),   WITH_FOLDER(phi3),      WITH_FOLDER(fp8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
