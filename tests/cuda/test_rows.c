/* test_rows.c - a row's logits depend on its sequence alone, bit for bit: not on chunks, not on neighbours, not on whether it
 * is computed in prefill or decode, not on copies of blocks, not on how steps are launched. */
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

enum { N_TOKEN = 600 };

static void assert_same(const char *shape, const float *got, const float *want, size_t n, const char *how)
{
    size_t differ = 0, first = 0;
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0 && differ++ == 0)
            first = i;
    if (differ)
        fail_msg("%s, %s: %zu of %zu logits differ, the first is number %zu: %.9g, not %.9g", shape, how, differ, n,
                 first, (double)got[first], (double)want[first]);
}

static void chunks(const struct model *model, const char *shape, struct setting setting, const int32_t *token,
                   const float *want)
{
    static const int CHUNK[] = {255, 100, 17, 8, 3, 2, 1};
    for (size_t i = 0; i < sizeof CHUNK / sizeof *CHUNK; i++)
        for (int way = 0; way < N_WAY; way++) {
            static const char *const NAME[N_WAY] = {"graph", "stream", "plain kernels"};
            char how[64];
            snprintf(how, sizeof how, "chunks of %d, %s", CHUNK[i], NAME[way]);
            float *got = gpu_logits(model, setting, way, token, N_TOKEN, 30, CHUNK[i]);
            assert_same(shape, got, want, (size_t)N_TOKEN * model->n_vocab, how);
            free(got);
        }
}

/* Others decode, prefill and wait beside it. */
static void among_others(const struct model *model, const char *shape, struct setting setting, const int32_t *token,
                         const float *want)
{
    static const int TAKE[][RUNNER_MAX_SEQ] = {{60, 0, 100, 5, 0, 1}, {1, 50, 3, 0, 90, 1},  {1, 1, 0, 17, 1, 1},
                                               {1, 1, 1, 1, 1, 1},    {0, 100, 1, 1, 1, 60}, {1, 23, 5, 2, 40, 1}};
    static int32_t other[N_TOKEN];
    struct runner *r = malloc(sizeof *r);
    assert_non_null(r);
    gpu_open(r, model, setting, BY_GRAPH);
    random_tokens(other, N_TOKEN, model->n_vocab, 77);
    for (int s = 0; s < RUNNER_MAX_SEQ; s++)
        runner_add(r, s % 2 == 1 ? token : other, N_TOKEN);
    for (int i = 0; r->sequence[1].done < N_TOKEN; i++)
        runner_step(r, TAKE[i % 6]);
    for (int s = 1; s < RUNNER_MAX_SEQ; s += 2)
        assert_same(shape, r->sequence[s].logits, want, (size_t)r->sequence[s].done * model->n_vocab, "beside others");
    runner_close(r);
    free(r);
}

static void all_ways(const char *shape, const char *path, uint32_t mask, enum qr_dtype kv_type)
{
    struct model model;
    static int32_t token[N_TOKEN];
    char name[64];
    need_gpu();
    snprintf(name, sizeof name, "dummy:%s", shape);
    model_open(&model, path ? path : name);
    random_tokens(token, N_TOKEN, model.n_vocab, 9);
    struct setting setting = {.mask = mask, .n_thread = 2, .kv_type = kv_type};
    float *want = gpu_logits(&model, setting, BY_STREAM, token, N_TOKEN, 0, RUNNER_MAX_TOKEN);
    chunks(&model, shape, setting, token, want);
    among_others(&model, shape, setting, token, want);
    free(want);
    model_close(&model);
}

static void llama(void **state)
{
    (void)state;
    all_ways("tiny-llama", NULL, QR_FUSE_ALL, QR_BF16);
}

static void llama_unfused(void **state)
{
    (void)state;
    all_ways("tiny-llama", NULL, 0, QR_F16);
}

static void mistral(void **state)
{
    (void)state;
    all_ways("tiny-mistral", NULL, QR_FUSE_ALL, QR_BF16);
}

static void qwen2(void **state)
{
    (void)state;
    all_ways("tiny-qwen2", NULL, QR_FUSE_ALL, QR_BF16);
}

static void qwen3(void **state)
{
    (void)state;
    all_ways("tiny-qwen3", NULL, QR_FUSE_ALL, QR_F16);
}

/* Heads as real models have them, 12 on 2 and 9 on 3. */
static void head_128(void **state)
{
    const char *path = tmp_path(state, "heads.gguf");
    need_gpu();
    heads_write("tiny-qwen3", 0, 12, 2, 128, path);
    all_ways("12 heads of 128 on 2", path, QR_FUSE_ALL, QR_BF16);
    all_ways("12 heads of 128 on 2", path, 0, QR_F16);
}

static void head_64(void **state)
{
    const char *path = tmp_path(state, "heads.gguf");
    need_gpu();
    heads_write("tiny-qwen3", 0, 9, 3, 64, path);
    all_ways("9 heads of 64 on 3", path, QR_FUSE_ALL, QR_BF16);
}

static void head_96_and_256(void **state)
{
    const char *path = tmp_path(state, "heads-96.gguf");
    need_gpu();
    heads_write("tiny-llama", 0, 4, 4, 96, path);
    all_ways("4 heads of 96", path, QR_FUSE_ALL, QR_BF16);
    path = tmp_path(state, "heads-256.gguf");
    heads_write("tiny-gemma2", 0, 4, 1, 256, path);
    all_ways("4 heads of 256 on 1", path, QR_FUSE_ALL, QR_BF16);
}

static void fp8(void **state)
{
    const char *path = tmp_path(state, "heads-128.gguf");
    need_gpu();
    heads_write("tiny-qwen3", 0, 12, 2, 128, path);
    all_ways("12 heads of 128 on 2, fp8", path, QR_FUSE_ALL, QR_F8S);
    path = tmp_path(state, "heads-64.gguf");
    heads_write("tiny-qwen3", 0, 9, 3, 64, path);
    all_ways("9 heads of 64 on 3, fp8", path, 0, QR_F8S);
}

static void gemma3(void **state)
{
    (void)state;
    all_ways("tiny-gemma3", NULL, QR_FUSE_ALL, QR_BF16);
}

/* A prompt's blocks copied to others, whose sequence goes on from there. */
static void copies(void **state)
{
    enum { N = 100, HALF = 50 };
    struct model model;
    struct qr_err err;
    struct qr_result result;
    int32_t token[N], position[N], slot[N], table[16], begin[] = {0, HALF}, len[] = {HALF}, row[] = {HALF - 1};
    static const int32_t FROM[] = {1, 2, 3, 4}, TO[] = {9, 7, 11, 8};
    (void)state;
    need_gpu();
    model_open(&model, "dummy:tiny-qwen3");
    random_tokens(token, N, model.n_vocab, 3);
    struct setting setting = {.mask = QR_FUSE_ALL, .n_thread = 1, .kv_type = QR_BF16};
    float *want = gpu_logits(&model, setting, BY_STREAM, token, N, 0, RUNNER_MAX_TOKEN);
    struct runner *r = malloc(sizeof *r);
    assert_non_null(r);
    gpu_open(r, &model, setting, BY_GRAPH);
    struct qr_step step = {.n_token = HALF,
                           .n_seq = 1,
                           .n_row = 1,
                           .token = token,
                           .position = position,
                           .slot = slot,
                           .seq_begin = begin,
                           .seq_len = len,
                           .block_table = table,
                           .table_stride = 16,
                           .row = row};
    for (int i = 0; i < N; i++) { /* the second half lies in other blocks, the copied one among them */
        position[i] = i;
        slot[i] = (i < HALF          ? FROM[i / QR_PAGE]
                   : i / QR_PAGE < 4 ? TO[i / QR_PAGE]
                                     : 20 + i / QR_PAGE) *
                      QR_PAGE +
                  i % QR_PAGE;
    }
    for (int b = 0; b < 16; b++)
        table[b] = b < 4 ? FROM[b] : 0;
    assert_int_equal(qr_exec_submit(r->exec, &step, &err), QR_OK);
    assert_int_equal(qr_exec_collect(r->exec, &result, NULL, &err), QR_OK);
    assert_same("tiny-qwen3", result.logits, want + (size_t)(HALF - 1) * model.n_vocab, model.n_vocab, "before copies");
    for (int b = 0; b < 16; b++)
        table[b] = b < 4 ? TO[b] : 20 + b;
    step.token += HALF;
    step.position += HALF;
    step.slot += HALF;
    len[0] = N;
    step.n_copy = 4;
    step.copy_from = FROM;
    step.copy_to = TO;
    assert_int_equal(qr_exec_submit(r->exec, &step, &err), QR_OK);
    assert_int_equal(qr_exec_collect(r->exec, &result, NULL, &err), QR_OK);
    assert_same("tiny-qwen3", result.logits, want + (size_t)(N - 1) * model.n_vocab, model.n_vocab, "after copies");
    runner_close(r);
    free(r);
    free(want);
    model_close(&model);
}

static int32_t best(const float *logits, uint32_t n)
{
    uint32_t at = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[at])
            at = i;
    return (int32_t)at;
}

/* Greedy decoding with all steps submitted before the first is collected: ids go from step to step by their places. */
static void places(void **state)
{
    enum { PROMPT = 40, STEPS = QR_MAX_AHEAD, N = PROMPT + STEPS };
    struct model model;
    struct qr_err err;
    struct qr_result result;
    static struct qr_picked picked;
    int32_t token[N], position[N], slot[N], table[8], begin[STEPS][2], len[STEPS], row[STEPS];
    struct qr_step step[STEPS];
    struct qr_sampling greedy;
    (void)state;
    need_gpu();
    qr_sampling_defaults(NULL, &greedy);
    greedy.temperature = 0;
    model_open(&model, "dummy:tiny-qwen2");
    random_tokens(token, PROMPT, model.n_vocab, 12);
    struct setting setting = {.mask = QR_FUSE_ALL, .n_thread = 1, .kv_type = QR_BF16};
    for (int i = PROMPT; i < N; i++) { /* what the logits say, one step after the other */
        float *logits = gpu_logits(&model, setting, BY_STREAM, token, i, 0, RUNNER_MAX_TOKEN);
        token[i] = best(logits + (size_t)(i - 1) * model.n_vocab, model.n_vocab);
        free(logits);
    }
    struct qr_exec_limits limits = {
        .max_token = 64, .max_seq = 2, .max_row = 2, .max_len = 128, .n_block = 8, .kv_type = QR_BF16, .n_place = 32};
    struct qr_plan *plan;
    struct qr_pool *pool;
    struct qr_exec *exec;
    assert_int_equal(qr_fuse(model.plan, QR_FUSE_ALL, &plan, &err), QR_OK);
    assert_int_equal(qr_pool_create(1, &pool, &err), QR_OK);
    if (qr_cuda_exec_create(plan, &limits, NULL, pool, &exec, &err) != QR_OK)
        fail_msg("%s", err.message);
    for (int i = 0; i < N; i++) {
        position[i] = i;
        slot[i] = (7 - i / QR_PAGE) * QR_PAGE + i % QR_PAGE;
    }
    for (int b = 0; b < 8; b++)
        table[b] = 7 - b;
    for (int s = 0; s < STEPS; s++) {
        int first = s == 0 ? 0 : PROMPT + s - 1, n = s == 0 ? PROMPT : 1;
        int32_t place = -1 - 2 * (s - 1);
        begin[s][0] = 0;
        begin[s][1] = n;
        len[s] = first + n;
        row[s] = n - 1;
        step[s] = (struct qr_step){.n_token = n,
                                   .n_seq = 1,
                                   .n_row = 1,
                                   .token = s == 0 ? token : &place,
                                   .position = position + first,
                                   .slot = slot + first,
                                   .seq_begin = begin[s],
                                   .seq_len = &len[s],
                                   .block_table = table,
                                   .table_stride = 8,
                                   .row = &row[s],
                                   .place = 2 * s};
        struct qr_pick pick = {
            .samples = true, .n_top = s % 2 ? 3 : -1, .params = &greedy, .position = (uint32_t)(first + n)};
        if (qr_exec_submit(exec, &step[s], &err) != QR_OK || exec->ops->sample(exec, &pick, &err) != QR_OK)
            fail_msg("step %d: %s", s, err.message);
    }
    for (int s = 0; s < STEPS; s++) {
        if (qr_exec_collect(exec, &result, &picked, &err) != QR_OK)
            fail_msg("step %d: %s", s, err.message);
        assert_int_equal(picked.status, QR_OK);
        if (picked.id != token[PROMPT + s])
            fail_msg("step %d picked %d, the logits say %d", s, picked.id, token[PROMPT + s]);
        if (s % 2)
            assert_int_equal(picked.top[0].id, picked.id);
    }
    qr_exec_destroy(exec);
    qr_pool_destroy(pool);
    qr_plan_free(plan);
    model_close(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama),
        cmocka_unit_test(llama_unfused),
        cmocka_unit_test(mistral),
        cmocka_unit_test(qwen2),
        cmocka_unit_test(qwen3),
        cmocka_unit_test_setup_teardown(head_128, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(head_64, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(head_96_and_256, tmp_setup, tmp_teardown),
        cmocka_unit_test_setup_teardown(fp8, tmp_setup, tmp_teardown),
        cmocka_unit_test(gemma3),
        cmocka_unit_test(copies),
        cmocka_unit_test(places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
