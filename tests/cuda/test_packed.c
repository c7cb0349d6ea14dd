/* test_packed.c - a quantised model gives the same logits, bit for bit, whether its weights stay packed on the GPU or become
 * bf16 there, in chunks of any length and however steps are launched; and packed it takes as much room as is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "common/tmp.h"
#include "cuda/gpu.h"
#include "plan/fuse.h"

enum { N_TOKEN = 300, N_DECODE = 20 };

/* Logits of all positions: chunks first, then N_DECODE tokens one by one. */
static float *logits_of(const struct model *model, uint32_t mask, struct qr_cuda_options options, const int32_t *token,
                        int chunk)
{
    struct setting setting = {.mask = mask, .n_thread = 2, .kv_type = QR_BF16};
    options.logits = true;
    return gpu_logits_as(model, setting, &options, token, N_TOKEN, N_DECODE, chunk);
}

static void same_bits(void **state, const char *shape, enum qr_dtype type, uint32_t mask)
{
    static const int CHUNK[] = {RUNNER_MAX_TOKEN, 40, 32, 17, 9, 8, 1};
    static const struct qr_cuda_options WAY[] = {{.stream = false}, {.stream = true}, {.plain = true}};
    struct model model;
    static int32_t token[N_TOKEN];
    need_gpu();
    const char *path = tmp_path(state, "packed.gguf");
    model_write(shape, type == QR_FP8 ? QR_BF16 : type, path);
    model_open_as(&model, path, type == QR_FP8 ? "fp8" : NULL);
    random_tokens(token, N_TOKEN, model.n_vocab, 5);
    struct qr_cuda_options converted = {.stream = true, .convert = true};
    float *want = logits_of(&model, mask, converted, token, RUNNER_MAX_TOKEN);
    for (size_t i = 0; i < sizeof CHUNK / sizeof *CHUNK; i++)
        for (size_t way = 0; way < sizeof WAY / sizeof *WAY; way++) {
            float *got = logits_of(&model, mask, WAY[way], token, CHUNK[i]);
            for (size_t k = 0; k < (size_t)N_TOKEN * model.n_vocab; k++)
                if (memcmp(&got[k], &want[k], sizeof *got) != 0)
                    fail_msg("%s in %s, chunks of %d, way %zu: logit %zu is %.9g, converted %.9g", shape,
                             qr_dtype_info(type)->name, CHUNK[i], way, k, (double)got[k], (double)want[k]);
            free(got);
        }
    free(want);
    model_close(&model);
}

static void q8_0(void **state)
{
    same_bits(state, "tiny-llama", QR_Q8_0, QR_FUSE_ALL);
}

static void q4_0(void **state)
{
    same_bits(state, "tiny-qwen3", QR_Q4_0, QR_FUSE_ALL);
}

static void q4_1(void **state)
{
    same_bits(state, "tiny-qwen2", QR_Q4_1, QR_FUSE_ALL);
}

static void q4_1_unfused(void **state)
{
    same_bits(state, "tiny-qwen2", QR_Q4_1, 0);
}

static void fp8(void **state)
{
    same_bits(state, "tiny-qwen2", QR_FP8, QR_FUSE_ALL);
}

static void fp8_unfused(void **state)
{
    same_bits(state, "tiny-gemma3", QR_FP8, 0);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, tmp_setup, tmp_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_FOLDER(q8_0),         WITH_FOLDER(q4_0), WITH_FOLDER(q4_1),
                                       WITH_FOLDER(q4_1_unfused), WITH_FOLDER(fp8),  WITH_FOLDER(fp8_unfused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
