/* test_oracle.c - the oracle against itself in the two file formats, and its logits written out for numpy.
 *
 * With QUIRE_REF_DIR set it writes, for every family and format, the model, NAME.ids (int32) and NAME.logits (fp32, [n,
 * n_vocab]) there; tests/conformance/test_forward.py sets it and compares with numpy_forward.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "common/tmp.h"
#include "whole/ref_forward.h"
#include "whole/runner.h"

enum { N_TOKEN = 50 };

static const struct {
    const char *shape;
    enum qr_dtype type;
} MODEL[] = {{"tiny-llama", QR_F32}, {"tiny-llama3", QR_F32}, {"tiny-mistral", QR_F32}, {"tiny-qwen2", QR_F32},
             {"tiny-qwen3", QR_F32}, {"tiny-gemma2", QR_F32}, {"tiny-gemma3", QR_F32},  {"tiny-phi3", QR_F32},
             {"tiny-phi4", QR_F32},  {"tiny-llama", QR_BF16}, {"tiny-qwen2", QR_F16}};
static const struct {
    const char *shape;
    enum qr_dtype type;
} QUANTISED[] = {{"tiny-llama", QR_Q8_0}, {"tiny-qwen2", QR_Q4_0}, {"tiny-qwen3", QR_Q4_1}};
#define N(array) (sizeof(array) / sizeof(array)[0])

static void write_file(const char *dir, const char *name, const char *suffix, const void *data, size_t n)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%s", dir, name, suffix);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, n, file) != n || fclose(file))
        fail_msg("cannot write %s", path);
}

/* Writes the model and what the oracle makes of it; returns the logits. */
static float *make(const char *dir, const char *shape, enum qr_dtype type, bool gguf, uint32_t *n_vocab)
{
    char name[64], path[4096];
    struct qr_source *source;
    struct qr_err err;
    int32_t token[N_TOKEN];
    snprintf(name, sizeof name, "%s-%s%s", shape, qr_dtype_info(type)->name, gguf ? ".gguf" : "");
    snprintf(path, sizeof path, "%s/%s", dir, name);
    model_write(shape, type, path);
    if (qr_source_open(path, 0, &source, &err))
        fail_msg("%s", err.message);
    *n_vocab = (uint32_t)qr_source_config(source)->n_vocab;
    random_tokens(token, N_TOKEN, *n_vocab, 77);
    float *logits = ref_forward(source, token, N_TOKEN);
    write_file(dir, name, "ids", token, sizeof token);
    write_file(dir, name, "logits", logits, (size_t)N_TOKEN * *n_vocab * sizeof *logits);
    qr_source_close(source);
    return logits;
}

static const char *out_dir(void **state)
{
    const char *dir = getenv("QUIRE_REF_DIR");
    return dir && dir[0] ? dir : *state;
}

/* Rows of q and k lie in another order in one of the formats, and Llama 3's scaling is a tensor in one and a formula in
 * the other (there rounded to fp32). */
static void both_formats_give_the_same_logits(void **state)
{
    for (size_t i = 0; i < N(MODEL); i++) {
        uint32_t n_vocab;
        float *a = make(out_dir(state), MODEL[i].shape, MODEL[i].type, false, &n_vocab);
        float *b = make(out_dir(state), MODEL[i].shape, MODEL[i].type, true, &n_vocab);
        double error = relative_error(a, b, (size_t)N_TOKEN * n_vocab);
        if (error > 1e-5)
            fail_msg("%s: the directory's logits are off the GGUF file's by %g", MODEL[i].shape, error);
        free(b);
        free(a);
    }
}

static void quantised_files_are_read(void **state)
{
    for (size_t i = 0; i < N(QUANTISED); i++) {
        uint32_t n_vocab;
        free(make(out_dir(state), QUANTISED[i].shape, QUANTISED[i].type, true, &n_vocab));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(both_formats_give_the_same_logits, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(quantised_files_are_read, tmp_setup, tmp_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
