/* test_buffers.c - values that live at the same time never share memory, under any mask; and running a plan in shared
 * memory gives the very same bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/rand.h"
#include "common/fault.h"
#include "plan/buffers.h"
#include "plan/fake.h"
#include "plan/fuse.h"

enum { MAX_T = 7, MAX_R = 3 };

/* Is a root's content needed between op `at` and the next one: written by then, and read later before... ever? */
static bool lives(const struct qr_plan *plan, int root, int at)
{
    bool written = false, read = plan->logits == root;
    for (int i = 0; i < plan->n_op; i++) {
        const struct qr_op *op = &plan->op[i];
        for (int j = 0; j < op->n_out && i <= at; j++)
            written |= qr_value_root(plan, op->out[j]) == root;
        for (int j = 0; j < op->n_in && i >= at; j++)
            read |= qr_value_root(plan, op->in[j]) == root;
        for (int j = 0; j < op->n_out && i == at; j++) /* being written counts as well */
            read |= qr_value_root(plan, op->out[j]) == root;
    }
    return written && read;
}

static uint64_t bytes_of(const struct qr_plan *plan, int root)
{
    return (plan->value[root].rows == QR_ROWS_T ? MAX_T : MAX_R) * (uint64_t)plan->value[root].cols * 4;
}

static void assert_apart(const struct qr_plan *plan, const struct qr_buffers *b)
{
    for (int at = 0; at < plan->n_op; at++) {
        uint64_t sum = 0;
        for (int i = 0; i < plan->n_value; i++) {
            if (plan->value[i].parent >= 0 || !lives(plan, i, at))
                continue;
            uint64_t end = b->offset[i] + bytes_of(plan, i);
            assert_true(b->offset[i] % 64 == 0 && end <= b->bytes);
            sum += bytes_of(plan, i);
            for (int j = 0; j < i; j++)
                if (plan->value[j].parent < 0 && lives(plan, j, at) && b->offset[j] < end &&
                    b->offset[i] < b->offset[j] + bytes_of(plan, j))
                    fail_msg("op %d: %s and %s overlap", at, plan->value[i].name, plan->value[j].name);
        }
        assert_true(sum <= b->bytes);
    }
}

static void values_alive_together_lie_apart(void **state)
{
    (void)state;
    for (uint32_t mask = 0; mask <= QR_FUSE_ALL; mask += 7) {
        struct fake fake;
        struct qr_buffers b;
        fake_create(&fake, false, mask & 1);
        struct qr_plan *plan = fake_plan(&fake), *fused;
        assert_int_equal(qr_fuse(plan, mask, &fused, NULL), QR_OK);
        assert_int_equal(qr_buffers_assign(fused, MAX_T, MAX_R, 4, &b, NULL), QR_OK);
        assert_int_equal(b.n_value, fused->n_value);
        assert_apart(fused, &b);
        assert_true(b.bytes < b.unshared_bytes / 2); /* three layers whose values die with the layer */
        for (int i = 0; i < fused->n_value; i++)
            if (fused->value[i].parent >= 0)
                assert_int_equal(b.offset[i], b.offset[qr_value_root(fused, i)] + 4ULL * qr_value_column(fused, i));
        qr_buffers_free(&b);
        qr_plan_free(fused);
        qr_plan_free(plan);
        fake_destroy(&fake);
    }
}

/* Chains that a model has not: values of random widths, read at random later ops. */
static void random_plans_lie_apart(void **state)
{
    (void)state;
    enum { N = 40 };
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct qr_recorder *r;
        struct qr_buffers b;
        uint32_t draw = 0;
        assert_int_equal(qr_plan_begin("random", &r, NULL), QR_OK);
        for (int i = 0; i < N; i++) {
            bool tokens = qr_rand_uniform(seed, 1, draw++) < 0.5F;
            uint32_t cols = 1 + (uint32_t)(qr_rand_uniform(seed, 1, draw++) * 200);
            qr_rec_value(r, "v", tokens ? QR_ROWS_T : QR_ROWS_R, cols);
        }
        for (int i = 1; i < N; i++) { /* not a plan that would pass the check: only lifetimes matter */
            struct qr_op *op = qr_rec_op(r, QR_OP_LINEAR, -1);
            op->in[0] = (int)(qr_rand_uniform(seed, 1, draw++) * (float)i);
            op->out[0] = i;
        }
        struct qr_plan *plan = qr_rec_plan(r);
        plan->logits = 1 + (int)(seed % (N - 1)); /* lives to the end wherever it is written */
        assert_int_equal(qr_plan_finish(r, &plan, NULL), QR_OK);
        assert_int_equal(qr_buffers_assign(plan, MAX_T, MAX_R, 4, &b, NULL), QR_OK);
        assert_apart(plan, &b);
        assert_true(b.bytes <= b.unshared_bytes);
        qr_buffers_free(&b);
        qr_plan_free(plan);
    }
}

static void shared_memory_gives_the_same_bits(void **state)
{
    (void)state;
    static const int TOKEN[MAX_T] = {5, 0, 39, 12, 12, 30, 1};
    for (int i = 0; i < 20; i++) {
        uint32_t mask = (uint32_t)(qr_rand_uniform(11, 0, (uint32_t)i) * (QR_FUSE_ALL + 1));
        struct fake fake;
        struct qr_buffers b;
        fake_create(&fake, true, i & 1);
        struct qr_plan *plan = fake_plan(&fake), *fused;
        assert_int_equal(qr_fuse(plan, mask, &fused, NULL), QR_OK);
        assert_int_equal(qr_buffers_assign(fused, MAX_T, MAX_T, 4, &b, NULL), QR_OK);
        float *apart = fake_run(fused, NULL, TOKEN, MAX_T), *shared = fake_run(fused, &b, TOKEN, MAX_T);
        assert_memory_equal(apart, shared, MAX_T * FAKE_VOCAB * sizeof *apart);
        free(shared);
        free(apart);
        qr_buffers_free(&b);
        qr_plan_free(fused);
        qr_plan_free(plan);
        fake_destroy(&fake);
    }
}

static void sizes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct qr_recorder *r;
    struct qr_buffers b;
    struct qr_err err = {0};
    assert_int_equal(qr_plan_begin("huge", &r, NULL), QR_OK);
    for (int i = 0; i < 3; i++) {
        qr_rec_value(r, "v", QR_ROWS_T, UINT32_MAX);
        qr_rec_op(r, QR_OP_EMBED, -1)->out[0] = i;
    }
    struct qr_op *op = qr_rec_op(r, QR_OP_ADD, -1); /* two that live together */
    op->in[0] = op->out[0] = 0;
    op->in[1] = 1;
    qr_rec_plan(r)->logits = 2;
    struct qr_plan *plan;
    assert_int_equal(qr_plan_finish(r, &plan, NULL), QR_OK);
    assert_int_equal(qr_buffers_assign(plan, UINT32_MAX, 1, 4, &b, &err), QR_LIMIT); /* one value */
    assert_non_null(strstr(err.message, "4294967295"));
    assert_null(b.offset);
    assert_int_equal(qr_buffers_assign(plan, UINT32_MAX / 4, 1, 1, &b, &err), QR_OK);
    qr_buffers_free(&b);
    assert_int_equal(qr_buffers_assign(plan, UINT32_MAX / 4, 1, 2, &b, &err), QR_LIMIT); /* their sum */
    qr_plan_free(plan);
}

static bool assign(void *ctx)
{
    struct qr_buffers b;
    bool ok = qr_buffers_assign(ctx, 8, 8, 4, &b, NULL) == QR_OK;
    qr_buffers_free(&b);
    return ok;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    if (!fault_works())
        skip();
    struct fake fake;
    fake_create(&fake, false, false);
    struct qr_plan *plan = fake_plan(&fake);
    assert_true(fault_torture(assign, plan, FAULT_ALLOC, 0) >= 3); /* qsort makes one of its own */
    qr_plan_free(plan);
    fake_destroy(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_alive_together_lie_apart),   cmocka_unit_test(random_plans_lie_apart),
        cmocka_unit_test(shared_memory_gives_the_same_bits), cmocka_unit_test(sizes_that_do_not_fit_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
