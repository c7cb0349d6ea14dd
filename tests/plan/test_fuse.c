/* test_fuse.c - what each pass makes of a layer, what it must leave alone, and that no mask changes what is computed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/rand.h"
#include "common/fault.h"
#include "plan/check.h"
#include "plan/fake.h"
#include "plan/fuse.h"

static const int TOKEN[] = {3, 17, 39, 0, 8, 8, 21};
enum { N_TOKEN = sizeof TOKEN / sizeof TOKEN[0] };

/* Layer 1 under a mask. */
static void assert_layer(bool bias, bool qk_norm, uint32_t mask, const char *want)
{
    struct fake fake;
    char text[1024];
    struct qr_err err;
    fake_create(&fake, bias, qk_norm);
    struct qr_plan *plan = fake_plan(&fake), *fused;
    assert_non_null(plan);
    if (qr_fuse(plan, mask, &fused, &err) || qr_plan_check(fused, &err))
        fail_msg("%s", err.message);
    assert_string_equal(fake_codes(fused, 1, text), want);
    assert_int_equal(fused->fuse_mask, mask);
    qr_plan_free(fused);
    qr_plan_free(plan);
    fake_destroy(&fake);
}

#define NORM "MEAN_SQUARE RSQRT SCALE_ROWS SCALE_COLS"
#define QKV  "LINEAR LINEAR LINEAR"

static void each_bit_rewrites_its_pattern_only(void **state)
{
    (void)state;
    assert_layer(false, false, 0,
                 NORM " " QKV " ROPE ROPE KV_STORE ATTENTION LINEAR ADD " NORM " LINEAR LINEAR SILU MUL LINEAR ADD");
    assert_layer(true, false, QR_FUSE_MERGE,
                 NORM " LINEAR ROPE ROPE KV_STORE ATTENTION LINEAR ADD " NORM " LINEAR SILU MUL LINEAR ADD");
    assert_layer(false, false, QR_FUSE_RMSNORM,
                 "RMSNORM " QKV " ROPE ROPE KV_STORE ATTENTION LINEAR ADD RMSNORM LINEAR LINEAR SILU MUL LINEAR ADD");
    assert_layer(false, false, QR_FUSE_ROPE_STORE,
                 NORM " " QKV " ROPE_STORE ATTENTION LINEAR ADD " NORM " LINEAR LINEAR SILU MUL LINEAR ADD");
    assert_layer(false, false, QR_FUSE_SILU_MUL,
                 NORM " " QKV " ROPE ROPE KV_STORE ATTENTION LINEAR ADD " NORM " LINEAR LINEAR SILU_MUL LINEAR ADD");
    /* these two build on others */
    assert_layer(false, false, QR_FUSE_ADD_RMSNORM,
                 NORM " " QKV " ROPE ROPE KV_STORE ATTENTION LINEAR ADD " NORM " LINEAR LINEAR SILU MUL LINEAR ADD");
    assert_layer(false, true, QR_FUSE_QK_NORM | QR_FUSE_RMSNORM,
                 "RMSNORM " QKV " RMSNORM RMSNORM ROPE ROPE KV_STORE ATTENTION LINEAR ADD RMSNORM LINEAR LINEAR SILU "
                 "MUL LINEAR ADD");
    assert_layer(false, false, QR_FUSE_ADD_RMSNORM | QR_FUSE_RMSNORM,
                 "ADD_RMSNORM " QKV " ROPE ROPE KV_STORE ATTENTION LINEAR ADD_RMSNORM LINEAR LINEAR SILU MUL LINEAR");
    assert_layer(false, false, QR_FUSE_ALL,
                 "ADD_RMSNORM LINEAR ROPE_STORE ATTENTION LINEAR ADD_RMSNORM LINEAR SILU_MUL LINEAR");
    assert_layer(true, true, QR_FUSE_ALL,
                 "ADD_RMSNORM LINEAR ROPE_STORE ATTENTION LINEAR ADD_RMSNORM LINEAR SILU_MUL LINEAR");
}

static void a_merged_weight_is_the_wider_view(void **state)
{
    (void)state;
    struct fake fake;
    fake_create(&fake, true, false);
    struct qr_plan *plan = fake_plan(&fake), *fused;
    assert_int_equal(qr_fuse(plan, QR_FUSE_MERGE, &fused, NULL), QR_OK);
    qr_plan_free(plan); /* the fused plan owns all that it needs */
    int n_merged = 0;
    for (int i = 0; i < fused->n_op; i++) {
        const struct qr_op *op = &fused->op[i];
        if (op->code != QR_OP_LINEAR || strcmp(op->weight->name, "blk.2.attn_qkv") != 0)
            continue;
        n_merged++;
        assert_ptr_equal(op->weight->storage, fake.q[2].storage);
        assert_int_equal(op->weight->row, 0);
        assert_int_equal(op->weight->n_row, fake.q[2].storage->n_row);
        assert_ptr_equal(op->weight->bias, fake.q[2].bias);
        assert_int_equal(fused->value[op->out[0]].parent, -1);
        assert_string_equal(fused->value[op->out[0]].name, "qkv");
    }
    assert_int_equal(n_merged, 1);
    qr_plan_free(fused);
    fake_destroy(&fake);
}

/* k and v are adjacent, q lies elsewhere: the pair becomes a view of its own. */
static void part_of_a_value_merges_into_a_new_view(void **state)
{
    (void)state;
    struct fake fake;
    fake_create(&fake, false, false);
    fake.q[0].storage = fake.o[0].storage; /* o has other columns, but q is not run here */
    struct qr_plan *plan = fake_plan(&fake), *fused;
    int values = plan->n_value;
    assert_int_equal(qr_fuse(plan, QR_FUSE_MERGE, &fused, NULL), QR_OK);
    assert_int_equal(fused->n_value, values + 1);
    assert_int_equal(plan->n_value, values);
    const struct qr_value *pair = &fused->value[values];
    assert_int_equal(pair->col, FAKE_HEADS * FAKE_HEAD_DIM);
    assert_int_equal(pair->cols, 2 * FAKE_KV_HEADS * FAKE_HEAD_DIM);
    assert_string_equal(fused->value[pair->parent].name, "qkv");
    qr_plan_free(fused);
    qr_plan_free(plan);
    fake_destroy(&fake);
}

static void weights_that_are_not_adjacent_stay_apart(void **state)
{
    (void)state;
    struct fake fake;
    char text[1024];
    fake_create(&fake, true, false);
    static const float OTHER_BIAS[FAKE_KV_HEADS * FAKE_HEAD_DIM];
    fake.v[1].bias = OTHER_BIAS; /* q and k still merge */
    fake.up[1].row = 0;          /* the same rows twice */
    fake.k[2].bias = NULL;       /* neither neighbour merges with it */
    struct qr_plan *plan = fake_plan(&fake), *fused;
    assert_int_equal(qr_fuse(plan, QR_FUSE_MERGE, &fused, NULL), QR_OK);
    assert_string_equal(fake_codes(fused, 1, text), NORM " LINEAR LINEAR ROPE ROPE KV_STORE ATTENTION LINEAR ADD " NORM
                                                         " LINEAR LINEAR SILU MUL LINEAR ADD");
    assert_string_equal(fake_codes(fused, 2, text),
                        NORM " " QKV " ROPE ROPE KV_STORE ATTENTION LINEAR ADD " NORM " LINEAR SILU MUL LINEAR ADD");
    qr_plan_free(fused);
    qr_plan_free(plan);
    fake_destroy(&fake);
}

/* ---------------------------------------------------------------- another reader */

/* The n-th op of that opcode (n from 0). */
static int find_op(const struct qr_plan *plan, enum qr_opcode code, int n)
{
    for (int i = 0; i < plan->n_op; i++)
        if (plan->op[i].code == code && n-- == 0)
            return i;
    fail_msg("no %s", qr_opcode_name(code));
    return -1;
}

/* A copy of plan with one more op at the end: y += value, where y is any earlier value of equal width. */
static struct qr_plan *with_reader(const struct qr_plan *plan, int at, int y, int value)
{
    struct qr_plan *copy;
    assert_int_equal(qr_fuse(plan, 0, &copy, NULL), QR_OK);
    struct qr_op *op = qr_arena_array(copy->arena, (size_t)copy->n_op + 1, sizeof *op);
    memcpy(op, copy->op, (size_t)at * sizeof *op);
    op[at] = (struct qr_op){.code = QR_OP_ADD, .layer = -1, .n_in = 2, .n_out = 1, .in = {y, value}, .out = {y}};
    memcpy(op + at + 1, copy->op + at, (size_t)(copy->n_op - at) * sizeof *op);
    copy->op = op;
    copy->n_op++;
    return copy;
}

static int count(const struct qr_plan *plan, enum qr_opcode code)
{
    int n = 0;
    for (int i = 0; i < plan->n_op; i++)
        n += plan->op[i].code == code;
    return n;
}

/* How many ops of `code` the mask makes out of plan with a reader of value put before op `at`. */
static int fused_count(const struct qr_plan *plan, int at, int y, int value, uint32_t mask, enum qr_opcode code)
{
    struct qr_plan *more = with_reader(plan, at, y, value), *fused;
    assert_int_equal(qr_fuse(more, mask, &fused, NULL), QR_OK);
    int n = count(fused, code);
    qr_plan_free(fused);
    qr_plan_free(more);
    return n;
}

static void what_another_op_reads_is_not_fused_away(void **state)
{
    (void)state;
    struct fake fake;
    fake_create(&fake, false, true);
    struct qr_plan *plan = fake_plan(&fake);
    int end = plan->n_op;
    const int n_norm = 4 * FAKE_LAYERS + 1; /* with those of q and k */

    /* the mean squares of two norms, both read at the end */
    int ms = plan->op[find_op(plan, QR_OP_RSQRT, 0)].in[0], other = plan->op[find_op(plan, QR_OP_RSQRT, 3)].in[0];
    assert_int_equal(fused_count(plan, end, other, ms, QR_FUSE_RMSNORM, QR_OP_RMSNORM), n_norm - 2);

    /* k after the store: rotated in the unfused plan, so ROPE_STORE would change what the reader sees */
    const struct qr_op *store = &plan->op[find_op(plan, QR_OP_KV_STORE, 0)];
    int k = store->in[0], v = store->in[1];
    assert_int_equal(fused_count(plan, end, v, k, QR_FUSE_ROPE_STORE, QR_OP_ROPE_STORE), FAKE_LAYERS - 1);
    /* v is left as it is: reading it does no harm */
    int k1 = plan->op[find_op(plan, QR_OP_KV_STORE, 1)].in[0];
    assert_int_equal(fused_count(plan, end, k1, v, QR_FUSE_ROPE_STORE, QR_OP_ROPE_STORE), FAKE_LAYERS - 1);

    /* between the ops of a pattern: not adjacent */
    int up = plan->op[find_op(plan, QR_OP_MUL, 0)].in[1], gate = plan->op[find_op(plan, QR_OP_MUL, 0)].in[0];
    assert_int_equal(fused_count(plan, find_op(plan, QR_OP_MUL, 0), up, gate, QR_FUSE_SILU_MUL, QR_OP_SILU_MUL),
                     FAKE_LAYERS - 1);
    assert_int_equal(fused_count(plan, end, up, gate, QR_FUSE_SILU_MUL, QR_OP_SILU_MUL), FAKE_LAYERS);

    /* the logits are read when the step is over */
    struct qr_plan *fused;
    plan->logits = ms;
    assert_int_equal(qr_fuse(plan, QR_FUSE_RMSNORM, &fused, NULL), QR_OK);
    assert_int_equal(count(fused, QR_OP_RMSNORM), n_norm - 1);
    qr_plan_free(fused);
    qr_plan_free(plan);
    fake_destroy(&fake);
}

static void a_value_written_anew_is_not_read_later(void **state)
{
    (void)state;
    struct fake fake;
    fake_create(&fake, false, false);
    struct qr_plan *plan = fake_plan(&fake), *fused;
    /* all norms share one mean square, as a recorder that reuses values would have it */
    int first = plan->op[find_op(plan, QR_OP_RSQRT, 0)].in[0];
    for (int i = 0; i < plan->n_op; i++) {
        struct qr_op *op = &plan->op[i];
        if (plan->value[op->code == QR_OP_RSQRT ? op->in[0] : first].rows == QR_ROWS_R || op->layer < 0)
            continue;
        if (op->code == QR_OP_MEAN_SQUARE)
            op->out[0] = first;
        else if (op->code == QR_OP_RSQRT)
            op->in[0] = op->out[0] = first;
        else if (op->code == QR_OP_SCALE_ROWS)
            op->in[1] = first;
    }
    assert_int_equal(qr_plan_check(plan, NULL), QR_OK);
    assert_int_equal(qr_fuse(plan, QR_FUSE_RMSNORM, &fused, NULL), QR_OK);
    assert_int_equal(count(fused, QR_OP_RMSNORM), 2 * FAKE_LAYERS + 1);
    qr_plan_free(fused);
    qr_plan_free(plan);
    fake_destroy(&fake);
}

static void a_pass_needs_its_parameters_to_agree(void **state)
{
    (void)state;
    struct fake fake;
    fake_create(&fake, false, true);
    struct qr_plan *plan = fake_plan(&fake), *fused;
    plan->op[find_op(plan, QR_OP_ROPE, 1)].n_head = 1;       /* layer 0: not all of k is rotated */
    plan->op[find_op(plan, QR_OP_RSQRT, 5)].eps = 0.5F;      /* layer 1: the norm of q has another eps than k's */
    plan->op[find_op(plan, QR_OP_SCALE_COLS, 0)].width = 16; /* layer 0: half a row scaled like the other half */
    assert_int_equal(qr_fuse(plan, QR_FUSE_ALL, &fused, NULL), QR_OK);
    assert_int_equal(count(fused, QR_OP_ROPE_STORE), FAKE_LAYERS - 1);
    assert_int_equal(count(fused, QR_OP_MEAN_SQUARE), 1);
    int with_norm = 0;
    for (int i = 0; i < fused->n_op; i++)
        with_norm += fused->op[i].code == QR_OP_ROPE_STORE && fused->op[i].scale[0];
    assert_int_equal(with_norm, FAKE_LAYERS - 2);
    qr_plan_free(fused);
    qr_plan_free(plan);
    fake_destroy(&fake);
}

/* ---------------------------------------------------------------- the same numbers */

static void every_mask_computes_the_same(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        struct fake fake;
        struct qr_err err;
        fake_create(&fake, kind & 1, kind & 2);
        struct qr_plan *plan = fake_plan(&fake), *fused;
        struct qr_op *before = malloc((size_t)plan->n_op * sizeof *before);
        memcpy(before, plan->op, (size_t)plan->n_op * sizeof *before);
        int n_op = plan->n_op;
        float *want = fake_run(plan, NULL, TOKEN, N_TOKEN);
        for (uint32_t mask = 0; mask <= QR_FUSE_ALL; mask++) {
            if (qr_fuse(plan, mask, &fused, &err) || qr_plan_check(fused, &err))
                fail_msg("mask 0x%x: %s", mask, err.message);
            float *got = fake_run(fused, NULL, TOKEN, N_TOKEN);
            for (int i = 0; i < N_TOKEN * FAKE_VOCAB; i++)
                if (!(fabsf(got[i] - want[i]) <= 1e-5F))
                    fail_msg("mask 0x%x, logit %d: %g, unfused %g", mask, i, (double)got[i], (double)want[i]);
            free(got);
            qr_plan_free(fused);
        }
        assert_int_equal(plan->n_op, n_op); /* the passes left the plan alone */
        assert_memory_equal(plan->op, before, (size_t)n_op * sizeof *before);
        free(want);
        free(before);
        qr_plan_free(plan);
        fake_destroy(&fake);
    }
}

/* Two passes one after the other give what both give at once, as long as the order is that of the bits. */
static void passes_compose(void **state)
{
    (void)state;
    struct fake fake;
    char a[1024], b[1024];
    fake_create(&fake, true, true);
    struct qr_plan *plan = fake_plan(&fake), *all, *next;
    assert_int_equal(qr_fuse(plan, QR_FUSE_ALL, &all, NULL), QR_OK);
    for (int i = 0; i < QR_N_FUSE; i++) {
        assert_int_equal(qr_fuse(plan, UINT32_C(1) << i, &next, NULL), QR_OK);
        qr_plan_free(plan);
        plan = next;
    }
    for (int layer = -1; layer < FAKE_LAYERS; layer++)
        assert_string_equal(fake_codes(plan, layer, a), fake_codes(all, layer, b));
    assert_int_equal(plan->fuse_mask, QR_FUSE_ALL);
    qr_plan_free(all);
    qr_plan_free(plan);
    fake_destroy(&fake);
}

/* ---------------------------------------------------------------- masks as text */

static void masks_are_read_from_text(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t mask;
    } GOOD[] = {
        {"none", 0},
        {"all", QR_FUSE_ALL},
        {"0", 0},
        {"0x1f", 0x1f},
        {"63", 63},
        {"merge", QR_FUSE_MERGE},
        {"rmsnorm,add-rmsnorm", QR_FUSE_RMSNORM | QR_FUSE_ADD_RMSNORM},
        {"-rope-store", QR_FUSE_ALL & ~QR_FUSE_ROPE_STORE},
        {"-merge,-silu-mul", QR_FUSE_ALL & ~QR_FUSE_MERGE & ~QR_FUSE_SILU_MUL},
        {"all,-qk-norm", QR_FUSE_ALL & ~QR_FUSE_QK_NORM},
        {"none,silu-mul", QR_FUSE_SILU_MUL},
    };
    for (size_t i = 0; i < sizeof GOOD / sizeof GOOD[0]; i++) {
        uint32_t mask = 12345;
        assert_int_equal(qr_fuse_parse(GOOD[i].text, &mask, NULL), QR_OK);
        assert_int_equal(mask, GOOD[i].mask);
    }
    uint32_t mask;
    assert_int_equal(qr_fuse_parse("default", &mask, NULL), QR_OK);
    assert_int_equal(mask & ~(uint32_t)QR_FUSE_ALL, 0);

    static const char *const BAD[] = {
        "",   "rope",          "rmsnorm,", ",merge",  "64",   "0x", "99999999999999999999",
        "1x", "merge rmsnorm", "-",        "--merge", "MERGE"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        struct qr_err err = {0};
        mask = 12345;
        if (qr_fuse_parse(BAD[i], &mask, &err) != QR_INVALID)
            fail_msg("'%s' was taken", BAD[i]);
        assert_int_equal(mask, 12345);
        assert_true(err.message[0]);
    }
    struct qr_err err;
    qr_fuse_parse("rope", &mask, &err);
    for (int i = 0; i < QR_N_FUSE; i++)
        assert_non_null(strstr(err.message, qr_fuse_name(i)));
    assert_null(qr_fuse_name(QR_N_FUSE));
    assert_null(qr_fuse_name(-1));

    struct fake fake;
    fake_create(&fake, false, false);
    struct qr_plan *plan = fake_plan(&fake), *fused;
    assert_int_equal(qr_fuse(plan, QR_FUSE_ALL + 1, &fused, NULL), QR_INVALID);
    assert_null(fused);
    qr_plan_free(plan);
    fake_destroy(&fake);
}

static bool record_and_fuse(void *ctx)
{
    struct qr_plan *plan = fake_plan(ctx), *fused = NULL;
    bool ok = plan && qr_fuse(plan, QR_FUSE_ALL, &fused, NULL) == QR_OK && qr_plan_check(fused, NULL) == QR_OK;
    qr_plan_free(fused);
    qr_plan_free(plan);
    return ok;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    if (!fault_works())
        skip();
    struct fake fake;
    fake_create(&fake, true, true);
    assert_true(fault_torture(record_and_fuse, &fake, FAULT_ALLOC, 0) > 3);
    fake_destroy(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_bit_rewrites_its_pattern_only),
        cmocka_unit_test(a_merged_weight_is_the_wider_view),
        cmocka_unit_test(part_of_a_value_merges_into_a_new_view),
        cmocka_unit_test(weights_that_are_not_adjacent_stay_apart),
        cmocka_unit_test(what_another_op_reads_is_not_fused_away),
        cmocka_unit_test(a_value_written_anew_is_not_read_later),
        cmocka_unit_test(a_pass_needs_its_parameters_to_agree),
        cmocka_unit_test(every_mask_computes_the_same),
        cmocka_unit_test(passes_compose),
        cmocka_unit_test(masks_are_read_from_text),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
