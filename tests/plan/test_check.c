/* test_check.c - a sound plan passes, fused or not, and each way to break one is refused with a sentence that names the
 * op and what is wrong. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "common/fault.h"
#include "plan/check.h"
#include "plan/fake.h"
#include "plan/fuse.h"

/* The n-th op of that opcode. */
static struct qr_op *find(struct qr_plan *plan, enum qr_opcode code, int n)
{
    for (int i = 0; i < plan->n_op; i++)
        if (plan->op[i].code == code && n-- == 0)
            return &plan->op[i];
    fail_msg("no %s", qr_opcode_name(code));
    return NULL;
}

static int value_named(const struct qr_plan *plan, const char *name)
{
    for (int i = 0; i < plan->n_value; i++)
        if (!strcmp(plan->value[i].name, name))
            return i;
    fail_msg("no value %s", name);
    return -1;
}

static void drop(struct qr_plan *plan, struct qr_op *op)
{
    memmove(op, op + 1, (size_t)(plan->op + plan->n_op - op - 1) * sizeof *op);
    plan->n_op--;
}

static void swap(struct qr_op *a, struct qr_op *b)
{
    struct qr_op c = *a;
    *a = *b;
    *b = c;
}

/* ---------------------------------------------------------------- ways to break a plan */

static void view_outside(struct qr_plan *p)
{
    p->value[value_named(p, "v")].col++;
}

static void view_wraps(struct qr_plan *p)
{
    p->value[value_named(p, "v")].col = UINT32_MAX;
}

static void view_of_itself(struct qr_plan *p)
{
    int v = value_named(p, "v");
    p->value[v].parent = v;
}

static void view_of_nothing(struct qr_plan *p)
{
    p->value[value_named(p, "v")].parent = -2;
}

static void view_of_other_rows(struct qr_plan *p)
{
    p->value[value_named(p, "v")].rows = QR_ROWS_R;
}

static void value_without_columns(struct qr_plan *p)
{
    p->value[value_named(p, "x")].cols = 0;
}

static void logits_are_tokens(struct qr_plan *p)
{
    p->logits = value_named(p, "x");
}

static void logits_nowhere(struct qr_plan *p)
{
    p->logits = p->n_value;
}

static void logits_never_written(struct qr_plan *p)
{
    p->n_op--;
}

static void frequency_is_nan(struct qr_plan *p)
{
    static const float BAD[FAKE_HEAD_DIM / 2] = {1, NAN};
    p->inv_freq = BAD;
}

static void no_frequencies(struct qr_plan *p)
{
    p->inv_freq = NULL;
}

static void unknown_opcode(struct qr_plan *p)
{
    p->op[3].code = QR_N_OPCODE;
}

static void too_many_inputs(struct qr_plan *p)
{
    p->op[3].n_in = 4;
}

static void operand_outside(struct qr_plan *p)
{
    find(p, QR_OP_LINEAR, 0)->in[0] = p->n_value;
}

static void operand_negative(struct qr_plan *p)
{
    find(p, QR_OP_LINEAR, 0)->out[0] = -1;
}

static void layer_outside(struct qr_plan *p)
{
    find(p, QR_OP_SILU, 0)->layer = FAKE_LAYERS;
}

static void not_in_place(struct qr_plan *p)
{
    find(p, QR_OP_SILU, 0)->out[0] = value_named(p, "up");
}

static void linear_onto_its_input(struct qr_plan *p)
{
    struct qr_op *op = find(p, QR_OP_LINEAR, 3); /* o */
    op->in[0] = op->out[0];
}

static void inputs_overlap(struct qr_plan *p)
{
    struct qr_op *op = find(p, QR_OP_KV_STORE, 0);
    op->in[1] = op->in[0];
}

static void norm_partly_over_its_input(struct qr_plan *p)
{
    find(p, QR_OP_RMSNORM, 1)->out[0] = value_named(p, "qkv"); /* the norm of q, written over all of q, k, v */
}

static void head_before_gather(struct qr_plan *p)
{
    find(p, QR_OP_LINEAR, 7 * FAKE_LAYERS)->in[0] = value_named(p, "h");
}

static void gather_of_tokens(struct qr_plan *p)
{
    find(p, QR_OP_GATHER, 0)->out[0] = value_named(p, "h");
}

static void attention_over_wanted_rows(struct qr_plan *p)
{
    struct qr_op *op = find(p, QR_OP_ROPE, 0);
    op->in[0] = op->out[0] = p->logits;
}

static void add_of_unequal_widths(struct qr_plan *p)
{
    find(p, QR_OP_ADD, 0)->in[1] = value_named(p, "attn");
}

static struct qr_weight bent; /* a copy that a test may bend: the fake's own are shared */

static struct qr_weight *bend(struct qr_op *op)
{
    bent = *op->weight;
    op->weight = &bent;
    return &bent;
}

static void weight_is_absent(struct qr_plan *p)
{
    find(p, QR_OP_LINEAR, 0)->weight = NULL;
}

static void weight_of_another_shape(struct qr_plan *p)
{
    bend(find(p, QR_OP_LINEAR, 0))->n_row -= 16;
}

static void weight_outside_its_storage(struct qr_plan *p)
{
    bend(find(p, QR_OP_LINEAR, 2))->row += 16; /* v, the last of the three */
}

static void weight_row_unaligned(struct qr_plan *p)
{
    bend(find(p, QR_OP_LINEAR, 0))->row = 8;
}

static void embedding_of_another_vocabulary(struct qr_plan *p)
{
    p->n_vocab--;
    p->value[p->logits].cols--;
}

static struct qr_storage bent_storage;
static struct qr_segment bent_segment[2];

/* q's storage of FAKE rows 128 in two segments that begin at 0 and `second`, the first one `n_first` rows long. */
static void bend_segments(struct qr_plan *p, uint32_t n_first, uint32_t second)
{
    struct qr_weight *w = bend(find(p, QR_OP_LINEAR, 0));
    bent_storage = *w->storage;
    bent_segment[0] = bent_segment[1] = w->storage->segment[0];
    bent_segment[0].n_row = n_first;
    bent_segment[1].row = second;
    bent_segment[1].n_row = w->storage->n_row - second;
    bent_storage.segment = bent_segment;
    bent_storage.n_segment = 2;
    w->storage = &bent_storage;
}

static void segments_leave_a_hole(struct qr_plan *p)
{
    bend_segments(p, 32, 64);
}

static void segments_overlap(struct qr_plan *p)
{
    bend_segments(p, 64, 48);
}

static void segment_unaligned(struct qr_plan *p)
{
    bend_segments(p, 60, 60);
}

static void segments_end_early(struct qr_plan *p)
{
    bend_segments(p, 64, 64);
    bent_segment[1].n_row -= 16;
}

static void segment_of_unknown_type(struct qr_plan *p)
{
    bend_segments(p, 64, 64);
    bent_segment[0].type = QR_N_DTYPE;
}

static void segment_block_does_not_divide(struct qr_plan *p)
{
    bend_segments(p, 64, 64);
    bent_segment[1].type = QR_Q4_K; /* blocks of 256, rows of 32 */
}

static void scale_is_absent(struct qr_plan *p)
{
    find(p, QR_OP_RMSNORM, 0)->scale[0] = NULL;
}

static void scale_of_another_width(struct qr_plan *p)
{
    find(p, QR_OP_RMSNORM, 0)->scale[0] = find(p, QR_OP_RMSNORM, 1)->scale[0];
}

static void width_does_not_divide(struct qr_plan *p)
{
    find(p, QR_OP_RMSNORM, 0)->width = 12;
}

static void width_zero(struct qr_plan *p)
{
    find(p, QR_OP_RMSNORM, 0)->width = 0;
}

static void eps_is_nan(struct qr_plan *p)
{
    find(p, QR_OP_RMSNORM, 0)->eps = NAN;
}

static void head_dim_odd(struct qr_plan *p)
{
    find(p, QR_OP_ROPE, 0)->head_dim = 15;
}

static void rope_of_other_heads(struct qr_plan *p)
{
    find(p, QR_OP_ROPE, 0)->n_head--;
}

static void kv_heads_not_the_plans(struct qr_plan *p)
{
    find(p, QR_OP_KV_STORE, 0)->n_kv_head = 1;
}

static void heads_indivisible(struct qr_plan *p)
{
    find(p, QR_OP_ATTENTION, 0)->n_head = 3;
}

static void kv_outside_the_layers(struct qr_plan *p)
{
    find(p, QR_OP_KV_STORE, 0)->layer = -1;
}

static void attention_scale_zero(struct qr_plan *p)
{
    find(p, QR_OP_ATTENTION, 0)->attn_scale = 0;
}

static void window_negative(struct qr_plan *p)
{
    find(p, QR_OP_ATTENTION, 0)->window = -1;
}

static void soft_cap_infinite(struct qr_plan *p)
{
    find(p, QR_OP_ATTENTION, 0)->soft_cap = INFINITY;
}

static void read_before_written(struct qr_plan *p)
{
    drop(p, find(p, QR_OP_LINEAR, 1)); /* k */
}

static void embedding_dropped(struct qr_plan *p)
{
    drop(p, &p->op[0]);
}

static void wrong_order(struct qr_plan *p)
{
    swap(find(p, QR_OP_LINEAR, 3), find(p, QR_OP_ATTENTION, 0));
}

static void attention_before_store(struct qr_plan *p)
{
    swap(find(p, QR_OP_KV_STORE, 0), find(p, QR_OP_ATTENTION, 0));
}

static void store_of_another_layer(struct qr_plan *p)
{
    find(p, QR_OP_KV_STORE, 0)->layer = 1;
}

static void stored_twice(struct qr_plan *p)
{
    find(p, QR_OP_KV_STORE, 1)->layer = 0;
}

/* In plans with ROPE_STORE and head norms. */
static void k_after_rope_store(struct qr_plan *p)
{
    struct qr_op *o = find(p, QR_OP_ATTENTION, 0);
    o->code = QR_OP_ROPE; /* of k, which ROPE_STORE leaves undefined */
    o->n_head = FAKE_KV_HEADS;
    o->in[0] = o->out[0] = value_named(p, "k");
}

static void one_head_norm_only(struct qr_plan *p)
{
    find(p, QR_OP_ROPE_STORE, 0)->scale[1] = NULL;
}

static void head_norm_eps_negative(struct qr_plan *p)
{
    find(p, QR_OP_ROPE_STORE, 0)->eps = -1;
}

static void rope_store_of_other_heads(struct qr_plan *p)
{
    find(p, QR_OP_ROPE_STORE, 0)->n_head = 2;
}

static const struct {
    void (*bend)(struct qr_plan *plan);
    uint32_t mask; /* of the plan that is bent */
    const char *says;
} BROKEN[] = {
    {view_outside, 0, "lies outside"},
    {view_wraps, 0, "lies outside"},
    {view_of_itself, 0, "does not come before"},
    {view_of_nothing, 0, "does not come before"},
    {view_of_other_rows, 0, "lies outside"},
    {value_without_columns, 0, "no columns"},
    {logits_are_tokens, 0, "logits"},
    {logits_nowhere, 0, "logits"},
    {logits_never_written, 0, "without having written its logits"},
    {frequency_is_nan, 0, "frequency 1"},
    {no_frequencies, 0, "no rope frequencies"},
    {unknown_opcode, 0, "no such opcode"},
    {too_many_inputs, 0, "another number of inputs"},
    {operand_outside, 0, "no value of the plan"},
    {operand_negative, 0, "no value of the plan"},
    {layer_outside, 0, "outside the model"},
    {not_in_place, 0, "in place"},
    {linear_onto_its_input, 0, "overlaps an input"},
    {inputs_overlap, 0, "two inputs overlap"},
    {norm_partly_over_its_input, QR_FUSE_RMSNORM, "overlaps an input"},
    {head_before_gather, 0, "numbers of rows"},
    {gather_of_tokens, 0, "from T rows to R rows"},
    {attention_over_wanted_rows, 0, "all tokens"},
    {add_of_unequal_widths, 0, "equally wide"},
    {weight_is_absent, 0, "no weight"},
    {weight_of_another_shape, 0, "the weight's shape"},
    {weight_outside_its_storage, 0, "outside its storage"},
    {weight_row_unaligned, 0, "multiple of 16"},
    {embedding_of_another_vocabulary, 0, "the weight's shape"},
    {segments_leave_a_hole, 0, "leave a hole"},
    {segments_overlap, 0, "overlap"},
    {segment_unaligned, 0, "hole"},
    {segments_end_early, 0, "not the whole storage"},
    {segment_of_unknown_type, 0, "no known type"},
    {segment_block_does_not_divide, 0, "multiple of its block"},
    {scale_is_absent, QR_FUSE_RMSNORM, "weight is absent"},
    {scale_of_another_width, QR_FUSE_RMSNORM, "another width"},
    {width_does_not_divide, QR_FUSE_RMSNORM, "multiple of the norm's width"},
    {width_zero, QR_FUSE_RMSNORM, "multiple of the norm's width"},
    {eps_is_nan, QR_FUSE_RMSNORM, "eps"},
    {head_dim_odd, 0, "head_dim"},
    {rope_of_other_heads, 0, "as wide as its heads"},
    {kv_heads_not_the_plans, 0, "n_kv_head is not the plan's"},
    {heads_indivisible, 0, "multiple of n_kv_head"},
    {kv_outside_the_layers, 0, "belong to a layer"},
    {attention_scale_zero, 0, "scale, soft cap or window"},
    {window_negative, 0, "scale, soft cap or window"},
    {soft_cap_infinite, 0, "scale, soft cap or window"},
    {read_before_written, 0, "before it is written"},
    {embedding_dropped, 0, "before it is written"},
    {wrong_order, 0, "before it is written"},
    {attention_before_store, 0, "before the layer's keys and values are stored"},
    {store_of_another_layer, 0, "before the layer's keys and values are stored"},
    {stored_twice, 0, "stored twice"},
    {k_after_rope_store, QR_FUSE_ALL, "before it is written"},
    {one_head_norm_only, QR_FUSE_ALL, "not both head_dim wide"},
    {head_norm_eps_negative, QR_FUSE_ALL, "eps"},
    {rope_store_of_other_heads, QR_FUSE_ALL, "q is not n_head * head_dim wide"},
};

static void each_kind_of_broken_plan_is_refused(void **state)
{
    (void)state;
    struct fake fake;
    fake_create(&fake, true, true);
    for (size_t i = 0; i < sizeof BROKEN / sizeof BROKEN[0]; i++) {
        struct qr_plan *plan = fake_plan(&fake), *bad;
        struct qr_err err = {0};
        assert_int_equal(qr_fuse(plan, BROKEN[i].mask, &bad, NULL), QR_OK); /* a copy that owns its arrays */
        assert_int_equal(qr_plan_check(bad, NULL), QR_OK);
        BROKEN[i].bend(bad);
        enum qr_status status = qr_plan_check(bad, &err);
        if (status != QR_INTERNAL || !strstr(err.message, BROKEN[i].says))
            fail_msg("case %zu: status %d, '%s', which does not say '%s'", i, status, err.message, BROKEN[i].says);
        qr_plan_free(bad);
        qr_plan_free(plan);
    }
    fake_destroy(&fake);
}

static void an_error_shows_the_op_and_its_operands(void **state)
{
    (void)state;
    struct fake fake;
    struct qr_err err = {0};
    fake_create(&fake, false, false);
    struct qr_plan *plan = fake_plan(&fake);
    weight_of_another_shape(plan);
    qr_plan_check(plan, &err);
    assert_string_equal(err.message,
                        "plan op 5 (LINEAR of layer 0): the weight's shape is not [columns of the output, "
                        "columns of the input]: in h [T, 32]; out q [T, 64]; weight blk.0.attn_q [48, 32]");
    qr_plan_free(plan);
    fake_destroy(&fake);
}

/* The padding behind a segment whose rows are no multiple of 16 belongs to no segment. */
static void a_segment_may_be_followed_by_its_padding(void **state)
{
    (void)state;
    struct fake fake;
    fake_create(&fake, false, false);
    struct qr_plan *plan = fake_plan(&fake);
    bend_segments(plan, 57, 64);
    assert_int_equal(qr_plan_check(plan, NULL), QR_OK);
    qr_plan_free(plan);
    fake_destroy(&fake);
}

static bool check(void *ctx)
{
    struct qr_err err;
    return qr_plan_check(ctx, &err) == QR_OK;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    if (!fault_works())
        skip();
    struct fake fake;
    fake_create(&fake, false, false);
    struct qr_plan *plan = fake_plan(&fake);
    assert_true(fault_torture(check, plan, FAULT_ALLOC, 0) > 0);
    qr_plan_free(plan);
    fake_destroy(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_broken_plan_is_refused),
        cmocka_unit_test(an_error_shows_the_op_and_its_operands),
        cmocka_unit_test(a_segment_may_be_followed_by_its_padding),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
