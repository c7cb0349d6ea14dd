/* test_transformers.c - models of real shapes with random weights: the GPU's logits against transformers' fp32 run of the same files,
 * which transformers_reference.py leaves in the folder QUIRE_REFERENCE names. The error allowed is the smaller of 1e-2 and of
 * transformers' own bf16 run. Skips where there is no such folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "cuda/gpu.h"

enum { N_TOKEN = 364, N_DECODE = 64 };

static void read_all(const char *folder, const char *name, void *to, size_t n)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    if (!f || fread(to, 1, n, f) != n)
        fail_msg("%s: cannot read %zu bytes", path, n);
    fclose(f);
}

static void compare(const char *shape)
{
    const char *root = getenv("QUIRE_REFERENCE");
    char folder[900], text[128] = {0};
    struct model model;
    int32_t token[N_TOKEN];
    double allowed[2];
    need_gpu();
    if (!root) {
        print_message("skipped: QUIRE_REFERENCE names no folder of transformers_reference.py\n");
        skip();
    }
    snprintf(folder, sizeof folder, "%s/%s", root, shape);
    read_all(folder, "error.txt", text, 30);
    assert_int_equal(sscanf(text, "%lf %lf", &allowed[0], &allowed[1]), 2);
    read_all(folder, "ids.i32", token, sizeof token);
    model_open(&model, folder);
    float *want = malloc((size_t)N_TOKEN * model.n_vocab * sizeof *want);
    assert_non_null(want);
    read_all(folder, "logits.f32", want, (size_t)N_TOKEN * model.n_vocab * sizeof *want);
    double error[2];
    gpu_errors(&model, token, N_TOKEN, N_DECODE, want, error);
    print_message(
        "%s: relative error of the prompt's logits %.4f (transformers in bf16 %.4f), of the steps' %.4f (%.4f)\n",
        shape, error[0], allowed[0], error[1], allowed[1]);
    for (int i = 0; i < 2; i++)
        assert_true(error[i] < 1e-2 && error[i] < allowed[i]);
    free(want);
    model_close(&model);
}

static void qwen2(void **state)
{
    (void)state;
    compare("qwen2.5-1.5b");
}

static void qwen3(void **state)
{
    (void)state;
    compare("qwen3-0.6b");
}

static void llama3(void **state)
{
    (void)state;
    compare("llama-3.2-1b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(qwen2), cmocka_unit_test(qwen3), cmocka_unit_test(llama3)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
