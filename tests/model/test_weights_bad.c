/* Loading that cannot succeed: damaged files are refused by the tensor's name, and whatever fails leaves nothing behind. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "common/fault.h"
#include "common/tmp.h"
#include "model/open_weights.h"
#include "model/synth.h"

/* A tensor's place in a GGUF file. */
static uint64_t offset_in(const char *path, const char *tensor)
{
    struct qr_gguf *gguf;
    struct qr_err err;
    assert_int_equal(qr_gguf_open(path, &gguf, &err), QR_OK);
    const struct qr_gguf_tensor *t = qr_gguf_find(gguf, tensor);
    assert_non_null(t);
    uint64_t offset = (uint64_t)(t->data - qr_gguf_map(gguf)->data);
    qr_gguf_close(gguf);
    return offset;
}

static void patch(const char *path, uint64_t offset, const void *data, size_t n)
{
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0 && pwrite(fd, data, n, (off_t)offset) == (ssize_t)n);
    close(fd);
}

static void expect_failure(const char *path, enum qr_status status, const char *words)
{
    struct qr_source *source = open_source(path);
    struct qr_weights *weights;
    struct qr_pool *pool;
    struct qr_err err;
    assert_int_equal(qr_pool_create(2, &pool, &err), QR_OK);
    assert_int_equal(qr_weights_load(source, false, pool, NULL, NULL, &weights, &err), status);
    assert_null(weights);
    if (!strstr(err.message, words))
        fail_msg("'%s' does not say '%s'", err.message, words);
    qr_pool_destroy(pool);
    qr_source_close(source);
}

static void nan_is_refused(void **state)
{
    static const struct {
        enum qr_dtype type;
        const char *tensor;
        int at, n; /* bytes into the tensor, and of the number */
        uint32_t bits;
    } cases[] = {
        {QR_F32, "blk.1.ffn_down.weight", 64 * 160 * 4 - 4, 4, 0x7F800000},
        {QR_F32, "blk.0.attn_norm.weight", 8, 4, 0x7FC00001},
        {QR_F32, "output_norm.weight", 0, 4, 0xFF800000},
        {QR_F16, "token_embd.weight", 1000, 2, 0xFC00},
        {QR_BF16, "blk.1.attn_k.weight", 10, 2, 0x7F81},
        {QR_Q8_0, "blk.0.ffn_gate.weight", 34, 2, 0x7C00},
        {QR_Q4_0, "blk.0.attn_q.weight", 18 * 5, 2, 0x7E00},
        {QR_Q4_1, "output.weight", 20 * 7 + 2, 2, 0xFE12}, /* the minimum of a block */
    };
    struct qr_config config = shape_config("tiny-llama");
    const char *path = tmp_path(state, "nan.gguf");
    struct qr_err err;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(qr_synth_write(&config, 1, cases[i].type, path, 0, true, NULL, NULL, &err), QR_OK);
        patch(path, offset_in(path, cases[i].tensor) + (uint64_t)cases[i].at, &cases[i].bits, (size_t)cases[i].n);
        expect_failure(path, QR_FORMAT, cases[i].tensor);
    }
}

static void file_shrinks_while_mapped(void **state)
{
    static const char *const names[] = {"short.gguf", "short"};
    struct qr_config config = shape_config("tiny-llama");
    struct qr_weights *weights;
    struct qr_err err;
    for (int i = 0; i < 2; i++) {
        char path[4096], file[4200];
        snprintf(path, sizeof path, "%s", tmp_path(state, names[i]));
        snprintf(file, sizeof file, "%s%s", path, i ? "/model.safetensors" : "");
        assert_int_equal(qr_synth_write(&config, 1, QR_F32, path, 0, false, NULL, NULL, &err), QR_OK);
        struct qr_source *source = open_source(path);
        assert_int_equal(truncate(file, 16384), 0);
        assert_int_equal(qr_weights_load(source, false, NULL, NULL, NULL, &weights, &err), QR_IO);
        assert_null(weights);
        assert_non_null(strstr(err.message, "became shorter"));
        qr_source_close(source);
    }
}

static void rows_that_cannot_be_merged(void **state)
{
    struct qr_config config = shape_config("tiny-qwen2");
    struct qr_weights *weights;
    struct qr_err err;
    (void)state;
    config.n_kv_head = 1;
    config.head_dim = 8;
    struct qr_source *source = random_source(&config, QR_F32);
    assert_int_equal(qr_weights_load(source, true, NULL, NULL, NULL, &weights, &err), QR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "8 rows"));
    qr_source_close(source);
    config = shape_config("tiny-qwen2");
    config.n_ff = 200;
    source = random_source(&config, QR_F32);
    assert_int_equal(qr_weights_load(source, true, NULL, NULL, NULL, &weights, &err), QR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "200 rows"));
    qr_source_close(source);
}

struct steps {
    uint64_t done, total, largest; /* largest: the most bytes from one call to the next */
    uint64_t stop_after;           /* bytes; 0: never */
    int calls, stop_at;
    pthread_t thread;
};

static bool on_progress(void *ctx, uint64_t done, uint64_t total)
{
    struct steps *s = ctx;
    assert_true(done > s->done && done <= total && (s->total == 0 || s->total == total));
    assert_true(s->thread == 0 || pthread_equal(s->thread, pthread_self()));
    s->largest = done - s->done > s->largest ? done - s->done : s->largest;
    s->done = done;
    s->total = total;
    return ++s->calls != s->stop_at && (s->stop_after == 0 || done < s->stop_after);
}

static void progress_and_stop(void **state)
{
    struct qr_config config = shape_config("tiny-qwen2");
    struct qr_source *source = random_source(&config, QR_F32);
    struct steps steps = {0};
    struct qr_weights *weights;
    struct qr_err err;
    (void)state;
    assert_int_equal(qr_weights_load(source, false, NULL, on_progress, &steps, &weights, &err), QR_OK);
    assert_true(steps.calls > 10 && steps.done == steps.total);
    qr_weights_free(weights);
    steps = (struct steps){.stop_at = 5};
    assert_int_equal(qr_weights_load(source, false, NULL, on_progress, &steps, &weights, &err), QR_CANCELLED);
    assert_null(weights);
    assert_int_equal(steps.calls, 5);
    qr_source_close(source);
}

/* Whoever asks for an end is heard every few hundred kilobytes, in the thread that loads, however large a matrix is. */
static void stop_within_a_matrix(void **state)
{
    struct qr_config config = shape_config("tiny-qwen2");
    struct steps steps = {.thread = pthread_self()};
    struct qr_weights *weights;
    struct qr_pool *pool;
    struct qr_err err;
    (void)state;
    config.n_vocab = 40000;
    uint64_t embd = (uint64_t)config.n_vocab * (uint64_t)config.n_embd * sizeof(float);
    assert_true(embd > (uint64_t)8 << 20);
    struct qr_source *source = random_source(&config, QR_F32);
    assert_int_equal(qr_weights_load(source, false, NULL, on_progress, &steps, &weights, &err), QR_OK);
    assert_true(steps.done == steps.total && steps.largest < 300000);
    qr_weights_free(weights);
    steps = (struct steps){.stop_after = embd / 2, .thread = pthread_self()};
    assert_int_equal(qr_weights_load(source, false, NULL, on_progress, &steps, &weights, &err), QR_CANCELLED);
    assert_null(weights);
    assert_true(steps.done >= embd / 2 && steps.done < embd / 2 + 300000);
    assert_int_equal(qr_pool_create(3, &pool, &err), QR_OK);
    steps = (struct steps){.thread = pthread_self()};
    assert_int_equal(qr_weights_load(source, false, pool, on_progress, &steps, &weights, &err), QR_OK);
    assert_true(steps.done == steps.total);
    qr_weights_free(weights);
    qr_pool_destroy(pool);
    qr_source_close(source);
}

static bool load_once(void *ctx)
{
    struct qr_weights *weights;
    struct qr_err err;
    if (qr_weights_load(ctx, false, NULL, NULL, NULL, &weights, &err) != QR_OK)
        return false;
    qr_weights_free(weights);
    return true;
}

static void every_failure_is_survived(void **state)
{
    struct qr_config config = shape_config("tiny-qwen3");
    (void)state;
    if (!fault_works())
        skip();
    struct qr_source *source = random_source(&config, QR_Q4_1);
    long live = fault_live();
    assert_true(fault_torture(load_once, source, FAULT_ANY, 0) >= 4);
    assert_int_equal(fault_live(), live);
    qr_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nan_is_refused, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(file_shrinks_while_mapped, tmp_setup, tmp_teardown),
        cmocka_unit_test(rows_that_cannot_be_merged),
        cmocka_unit_test(progress_and_stop),
        cmocka_unit_test(stop_within_a_matrix),
        cmocka_unit_test(every_failure_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
