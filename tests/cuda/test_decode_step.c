/* test_decode_step.c - the persistent kernel against graphs: the same logits, bit for bit, teacher-forced, alone and in batches,
 * at every cut of attention, whatever ran before; and how its work is shared out. */
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
#include "engine/model.h"
#include "model/synth.h"
#include "plan/fuse.h"
#include "quire.h"
#ifdef QR_TEST_CUDA /* built with nvcc: the executor's host code is there */
#include "cuda/decode_host.h"
#endif

enum { MAX_TOKEN = RUNNER_MAX_LEN, MOST = 8, WIDTH = 320 }; /* WIDTH: the least of which the kernel takes models */

static int32_t token[RUNNER_MAX_SEQ][MAX_TOKEN];

static void open_with(struct runner *r, const struct model *model, bool graphs)
{
    struct setting setting = {.mask = QR_FUSE_ALL, .n_thread = 2, .kv_type = QR_BF16};
    struct qr_cuda_options options = {.graphs = graphs, .few = MOST, .logits = true}; /* also where graphs are faster */
    gpu_open_as(r, model, setting, &options);
}

/* Prompts in chunks, then n_decode steps of one token of each. */
static void run_all(struct runner *r, const int *length, int n_seq, int n_decode)
{
    int take[RUNNER_MAX_SEQ] = {0};
    for (int s = 0; s < n_seq; s++)
        runner_add(r, token[s], length[s]);
    for (int s = 0; s < n_seq; s++) {
        memset(take, 0, sizeof take);
        while (r->sequence[s].done < length[s] - n_decode) {
            int left = length[s] - n_decode - r->sequence[s].done;
            take[s] = left < 200 ? left : 200;
            runner_step(r, take);
        }
    }
    for (int i = 0; i < n_decode; i++) {
        for (int s = 0; s < n_seq; s++)
            take[s] = 1;
        runner_step(r, take);
    }
}

static bool is_there(const struct runner *r)
{
    const char *why = qr_cuda_no_decode(r->exec);
    if (why)
        print_message("skipped: no kernel for a whole step: %s\n", why);
    return !why;
}

static void compare_as(const char *path, const char *quantization, const int *length, int n_seq, int n_decode)
{
    struct model model;
    struct runner *want = malloc(sizeof *want), *got = malloc(sizeof *got);
    assert_non_null(want);
    assert_non_null(got);
    model_open_as(&model, path, quantization);
    for (int s = 0; s < n_seq; s++)
        random_tokens(token[s], length[s], model.n_vocab, (uint32_t)s + 3);
    open_with(want, &model, true);
    open_with(got, &model, false);
    if (is_there(got)) {
        run_all(want, length, n_seq, n_decode);
        run_all(got, length, n_seq, n_decode);
        assert_true(qr_cuda_launches(got->exec) < qr_cuda_launches(want->exec)); /* it was one kernel a step */
        for (int s = 0; s < n_seq; s++) {
            size_t first = (size_t)(length[s] - n_decode) * model.n_vocab, n = (size_t)n_decode * model.n_vocab;
            norm_error(got->sequence[s].logits + first, want->sequence[s].logits + first, n); /* all are finite */
            if (memcmp(got->sequence[s].logits + first, want->sequence[s].logits + first, n * sizeof(float)) != 0)
                fail_msg("%s, sequence %d of %d: logits differ from those of graphs", path, s, n_seq);
        }
    }
    runner_close(want);
    runner_close(got);
    free(want);
    free(got);
    model_close(&model);
}

static void compare(const char *path, const int *length, int n_seq, int n_decode)
{
    compare_as(path, NULL, length, n_seq, n_decode);
}

/* One sequence over two borders of attention's cuts, and several of all sorts
 * of lengths. */
static void compare_shapes(void **state, const char *shape, int n_head, int n_kv_head, int head_dim)
{
    static const int alone[] = {530}, some[] = {300, 21, 257, 64, 513, 18, 130, 272};
    need_gpu();
    const char *path = tmp_path(state, "model.gguf");
    heads_write(shape, WIDTH, n_head, n_kv_head, head_dim, path);
    compare(path, alone, 1, 24);
    for (int n = 2; n <= MOST; n += n == 2 ? 1 : 2) /* 2, 3, 5, 7 */
        compare(path, some, n, 12);
    compare(path, some, MOST, 12);
}

static void heads_of_128(void **state)
{
    compare_shapes(state, "tiny-qwen3", 12, 2, 128);
}

static void heads_of_64(void **state)
{
    compare_shapes(state, "tiny-qwen2", 9, 3, 64);
}

static void eight_a_kv_head(void **state)
{
    compare_shapes(state, "tiny-qwen2", 8, 1, 128);
}

/* Weights of every type that can be written, as they lie on the device; pieces of one and of several quads, and widths whose last
 * piece is shorter. FP8 is made at load. */
static void quantised(void **state)
{
    static const struct {
        enum qr_dtype type;
        int width;
    } model[] = {{QR_FP8, 320}, {QR_FP8, 576}, {QR_Q8_0, 320}, {QR_Q4_0, 320}, {QR_Q4_0, 768}, {QR_Q4_1, 512}};
    static const int alone[] = {530}, some[] = {300, 21, 257};
    need_gpu();
    for (size_t i = 0; i < sizeof model / sizeof *model; i++) {
        const bool fp8 = model[i].type == QR_FP8;
        char name[32];
        snprintf(name, sizeof name, "model%zu.gguf", i);
        const char *path = tmp_path(state, name);
        heads_write_as(i % 2 ? "tiny-qwen2" : "tiny-qwen3", model[i].width, 12, 2, i % 3 == 2 ? 64 : 128,
                       fp8 ? QR_BF16 : model[i].type, path);
        compare_as(path, fp8 ? "fp8" : NULL, alone, 1, 24);
        compare_as(path, fp8 ? "fp8" : NULL, some, 3, 12);
    }
    compare_as("dummy:smollm2-135m", "fp8", some, 3, 6); /* chains of several pieces */
}

/* The same step after 0 to 3 others: no value depends on what the words between
 * blocks held before. */
static void after_others(void **state)
{
    struct model model;
    float *first = NULL;
    need_gpu();
    const char *path = tmp_path(state, "model.gguf");
    heads_write("tiny-qwen3", WIDTH, 12, 2, 128, path);
    model_open(&model, path);
    random_tokens(token[0], 100, model.n_vocab, 9);
    random_tokens(token[1], 40, model.n_vocab, 10);
    for (int others = 0; others <= 3; others++) {
        static const int length[] = {100, 40};
        struct runner *r = malloc(sizeof *r);
        int take[RUNNER_MAX_SEQ] = {0};
        assert_non_null(r);
        open_with(r, &model, false);
        if (is_there(r)) {
            for (int s = 0; s < 2; s++)
                runner_add(r, token[s], length[s]);
            take[0] = 99;
            runner_step(r, take);
            take[0] = 0;
            take[1] = 1;
            for (int i = 0; i < others; i++)
                runner_step(r, take);
            take[0] = 1;
            take[1] = 0;
            runner_step(r, take);
            float *row = r->sequence[0].logits + (size_t)99 * model.n_vocab;
            if (!first) {
                first = malloc(model.n_vocab * sizeof *first);
                assert_non_null(first);
                memcpy(first, row, model.n_vocab * sizeof *first);
            }
            assert_memory_equal(first, row, model.n_vocab * sizeof *first);
        }
        runner_close(r);
        free(r);
    }
    free(first);
    model_close(&model);
}

#ifdef QR_TEST_CUDA
/* ---------------------------------------------------------------- shares,
 * which need no GPU */

static struct qr_decode_args sizes_of(int n_embd, int qkv, int heads, int n_ff, int n_vocab, int n_sm)
{
    struct qr_decode_args a = {.n_embd = n_embd};
    const int rows[] = {qkv, n_embd, n_ff, n_embd, n_vocab}, k[] = {n_embd, heads, n_embd, n_ff, n_embd};
    for (int i = 0; i < QR_DECODE_STAGES; i++) {
        int cuts = qr_cu_cuts(i == QR_DECODE_UP ? 2 * rows[i] : (rows[i] + 15) / 16 * 16, k[i]);
        a.matrix[i] = (struct qr_decode_matrix){
            .strips = (rows[i] + 15) / 16, .k16 = k[i] / 16, .cuts = cuts, .chain = k[i] / 16 / cuts};
    }
    qr_decode_size(&a, n_sm);
    return a;
}

/* The same with weights of such a type. */
static struct qr_decode_args packed(struct qr_decode_args a, enum qr_cu_quant type)
{
    a.packed = true;
    for (int i = 0; i < QR_DECODE_STAGES; i++) {
        a.matrix[i].type = (int32_t)type;
        a.matrix[i].strip = (int32_t)qr_cu_strip_bytes(type, a.matrix[i].k16 * 16);
        a.matrix[i].quads = QR_DECODE_QUADS(type);
    }
    return a;
}

static double strip_bytes(const struct qr_decode_args *a, int stage)
{
    if (a->packed)
        return (double)a->matrix[stage].strip * (stage == QR_DECODE_UP ? 2 : 1);
    return 512.0 * a->matrix[stage].k16 * (stage == QR_DECODE_UP ? 2 : 1);
}

/* Every strip once, in order; every block has some of gate and up, and no more of anything than a block holds; where `even`, no
 * block reads much more of a layer than its share. */
static void check_shares(const struct qr_decode_args *a, int units, double cut, bool even)
{
    struct qr_decode_share *share = calloc((size_t)a->n_block, sizeof *share);
    assert_non_null(share);
    assert_true(qr_decode_share_out(a, units, cut, share));
    double total = 0, most = 0;
    for (int i = 0; i < a->n_block; i++) {
        double bytes = (share[i].attention[1] - share[i].attention[0]) * cut;
        for (int stage = 0; stage < QR_DECODE_STAGES; stage++) {
            const struct qr_decode_matrix *m = &a->matrix[stage];
            const int32_t *strip = share[i].strip[stage];
            const int n = strip[1] - strip[0];
            assert_int_equal(strip[0], i ? share[i - 1].strip[stage][1] : 0);
            assert_true(n >= 0);
            if (i + 1 == a->n_block)
                assert_int_equal(strip[1], m->strips);
            if (stage == QR_DECODE_O || stage == QR_DECODE_DOWN)
                assert_true(n <= a->max_strips && (n * m->cuts < 12 ? n * m->cuts : 12) * m->chain * 16 <= a->stage_k);
            if (stage < QR_DECODE_HEAD) {
                assert_true(n * (stage == QR_DECODE_UP ? 2 : m->cuts) <= a->max_units);
                bytes += n * strip_bytes(a, stage);
            }
        }
        assert_int_equal(share[i].attention[0], i ? share[i - 1].attention[1] : 0);
        assert_true(share[i].strip[QR_DECODE_UP][1] > share[i].strip[QR_DECODE_UP][0]);
        total += bytes;
        most = bytes > most ? bytes : most;
    }
    assert_int_equal(share[a->n_block - 1].attention[1], units);
    int next = 0; /* in turns, where contexts are long: each unit once, a block's second ones behind all first ones */
    for (int turn = 0; turn < QR_DECODE_CUT_UNITS; turn++)
        for (int i = 0; i < a->n_block; i++)
            if (turn < share[i].attention[1] - share[i].attention[0])
                assert_int_equal(share[i].unit[turn], next++);
    assert_int_equal(next, units);
    if (even)
        assert_true(most <= 1.15 * total / a->n_block);
    free(share);
}

static void shares(void **state)
{
    enum { CUT = 128 * 1024 }; /* bytes of 256 positions of a head of 128 */
    static const int sms[] = {108, 132, 148};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct qr_decode_args qwen = sizes_of(1536, 2048, 1536, 8960, 151936, sms[i]);
        struct qr_decode_args llama = sizes_of(2048, 3072, 2048, 8192, 128256, sms[i]);
        struct qr_decode_args smol = sizes_of(576, 960, 576, 1536, 49152, sms[i]);
        assert_int_equal(qwen.n_block, sms[i]);
        struct qr_decode_args slim =
            sizes_of(1536, 2048, 1536, 3200, 151936, sms[i]); /* a cut is far more than a block's share */
        check_shares(&qwen, 2, CUT, true);
        for (int type = QR_CU_NO_QUANT; type < QR_CU_N_QUANT; type++) {
            struct qr_decode_args of = packed(qwen, (enum qr_cu_quant)type);
            check_shares(&of, 2, CUT, true);
            check_shares(&of, 58, CUT, false);
        }
        check_shares(&slim, 2, 8 * CUT, false);
        for (int units = 8; units < 400; units += 57) {
            check_shares(&qwen, units, CUT, false);
            check_shares(&llama, units, CUT, false);
            check_shares(&smol, units, CUT, false);
        }
    }
    struct qr_decode_args tiny = sizes_of(64, 192, 64, 192, 320, 132);
    assert_true(tiny.n_block < 132);
    check_shares(&tiny, 3, CUT, false);
}

/* ---------------------------------------------------------------- the rule, which needs none either */

/* Is the kernel there for a shape? "": yes; else what is said. */
static void ask_rule(const char *name, const char *quantization, uint32_t mask, enum qr_dtype kv_type, char why[512])
{
    struct qr_model_options options = {.config_only = true, .quantization = quantization};
    struct qr_exec_limits limits = gpu_limits(kv_type);
    struct qr_cuda_sizes sizes;
    struct qr_decode_plan found;
    struct qr_model *model;
    struct qr_plan *plan;
    struct qr_err err;
    if (qr_model_open(name, &options, &model, &err) != QR_OK || qr_fuse(model->plan, mask, &plan, &err) != QR_OK ||
        qr_cuda_sizes(plan, &limits, false, &sizes, &err) != QR_OK)
        fail_msg("%s: %s", name, err.message);
    enum qr_status status = qr_decode_match(plan, &found, &err);
    snprintf(why, 512, "%s", status == QR_OK ? "" : err.message);
    uint64_t bytes = qr_cuda_decode_bytes(plan, &limits, &sizes);
    assert_int_equal(bytes > 0, status == QR_OK && kv_type == QR_BF16);
    assert_true(bytes < UINT64_C(64) << 20);
    if (status == QR_OK)
        assert_int_equal(plan->op[found.head].out[0], plan->logits);
    qr_cuda_sizes_free(&sizes);
    qr_plan_free(plan);
    qr_model_close(model);
}

/* A piece of the most quads fills a slot at most, with the super blocks that a run of them touches, wherever it begins. */
static void slots(void **state)
{
    (void)state;
    for (int type = QR_CU_NO_QUANT; type < QR_CU_N_QUANT; type++) {
        const int n = QR_DECODE_QUADS(type), units = QR_CU_SUPER_UNITS(type), super = QR_CU_SUPER_BYTES(type);
        const int supers = (n + units - 2) / units + 1, slot = QR_DECODE_PIECE * 512;
        const int quad = type ? QR_CU_CODE_BYTES(type) + QR_CU_SCALE_BYTES(type) : 2048;
        assert_true(n * quad + supers * super <= slot);
        assert_true((n + 1) * quad + (n + units - 1) / units * super > slot - super);
        for (int k = 64; k <= 4096; k += 64)
            assert_int_equal(qr_cu_strip_bytes((enum qr_cu_quant)type, k) % QR_DECODE_STEP, 0);
    }
}

static void rule(void **state)
{
    static const char *const taken[] = {"dummy:qwen2.5-0.5b", "dummy:qwen2.5-1.5b", "dummy:qwen3-0.6b",
                                        "dummy:qwen3-1.7b",   "dummy:llama-3.2-1b", "dummy:smollm2-135m"};
    static const struct {
        const char *name;
        uint32_t mask;
        const char *why;
    } refused[] = {
        {"dummy:qwen2.5-7b", QR_FUSE_ALL, "a width of 3584"},
        {"dummy:tiny-llama", QR_FUSE_ALL, "heads of 16"},
        {"dummy:qwen2.5-1.5b", 0, "op 1 is MEAN_SQUARE, not RMSNORM"},
        {"dummy:qwen2.5-1.5b", QR_FUSE_ALL & ~QR_FUSE_SILU_MUL, "not SILU_MUL"},
        {"dummy:qwen3-0.6b", QR_FUSE_ALL & ~QR_FUSE_QK_NORM, "not ROPE_STORE"},
        {"dummy:qwen2.5-1.5b", QR_FUSE_ALL & ~QR_FUSE_MERGE, "op 3 is LINEAR, not ROPE_STORE"},
    };
    char why[512];
    (void)state;
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        ask_rule(taken[i], NULL, QR_FUSE_ALL, QR_BF16, why);
        assert_string_equal(why, "");
        ask_rule(taken[i], "fp8", QR_FUSE_ALL, QR_BF16, why);
        assert_string_equal(why, "");
    }
    ask_rule(taken[1], NULL, QR_FUSE_ALL, QR_F16, why); /* the plan is one, the executor refuses */
    assert_string_equal(why, "");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ask_rule(refused[i].name, NULL, refused[i].mask, QR_BF16, why);
        if (!strstr(why, refused[i].why))
            fail_msg("%s, mask 0x%x: \"%s\", not \"%s\"", refused[i].name, refused[i].mask, why, refused[i].why);
    }
}

#else
static void skipped(void **state)
{
    (void)state;
    print_message("skipped: this build has no CUDA\n");
    skip();
}
#define rule   skipped
#define shares skipped
#define slots  skipped
#endif

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, tmp_setup, tmp_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rule),   cmocka_unit_test(slots),      cmocka_unit_test(shares),  WITH_FOLDER(heads_of_128),
        WITH_FOLDER(heads_of_64), WITH_FOLDER(eight_a_kv_head), WITH_FOLDER(after_others), WITH_FOLDER(quantised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
