/* test_record.c - the recorded plan of every shape that quire knows: well formed, unfused, of the sizes of the config; and
 * what the passes make of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "arch/arch.h"
#include "common/fault.h"
#include "plan/buffers.h"
#include "plan/check.h"
#include "plan/fuse.h"

struct recorded {
    struct qr_source *source;
    struct qr_weights *weights;
    struct qr_plan *plan;
};

static void record(struct recorded *r, const char *path)
{
    struct qr_err err;
    if (qr_source_open(path, 1, &r->source, &err) ||
        qr_weights_load(r->source, true, NULL, NULL, NULL, &r->weights, &err) ||
        qr_arch_record(r->weights, &r->plan, &err))
        fail_msg("%s: %s", path, err.message);
}

static void forget(struct recorded *r)
{
    qr_plan_free(r->plan);
    qr_weights_free(r->weights);
    qr_source_close(r->source);
}

static const char *codes(const struct qr_plan *plan, int layer, char text[1024])
{
    text[0] = 0;
    for (int i = 0; i < plan->n_op; i++)
        if (plan->op[i].layer == layer) {
            strcat(text, text[0] ? " " : "");
            strcat(text, qr_opcode_name(plan->op[i].code));
        }
    return text;
}

static const char *const SHAPE[] = {"qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-7b",   "qwen3-0.6b", "qwen3-8b",
                                    "llama-3.2-1b", "llama-3.1-8b", "smollm2-135m", "mistral-7b", "tiny-llama",
                                    "tiny-llama3",  "tiny-mistral", "tiny-qwen2",   "tiny-qwen3"};
enum { N_SHAPE = sizeof SHAPE / sizeof SHAPE[0] };

#define NORM "MEAN_SQUARE RSQRT SCALE_ROWS SCALE_COLS"
#define TAIL "ATTENTION LINEAR ADD " NORM " LINEAR LINEAR SILU MUL LINEAR ADD"

static void every_family_is_recorded_unfused(void **state)
{
    (void)state;
    for (int i = 0; i < N_SHAPE; i++) {
        struct recorded r;
        char path[64], text[1024];
        snprintf(path, sizeof path, "dummy:%s", SHAPE[i]);
        record(&r, path);
        const struct qr_config *c = r.weights->config;
        bool qk_norm = c->arch == QR_ARCH_QWEN3;
        const char *want = qk_norm ? NORM " LINEAR LINEAR LINEAR " NORM " " NORM " ROPE ROPE KV_STORE " TAIL
                                   : NORM " LINEAR LINEAR LINEAR ROPE ROPE KV_STORE " TAIL;
        for (int layer = 0; layer < c->n_layer; layer++)
            assert_string_equal(codes(r.plan, layer, text), want);
        assert_string_equal(codes(r.plan, -1, text), "EMBED GATHER " NORM " LINEAR");
        assert_string_equal(r.plan->model, SHAPE[i]);
        assert_int_equal(r.plan->fuse_mask, 0);
        assert_int_equal(r.plan->n_layer, c->n_layer);
        assert_int_equal(r.plan->n_vocab, c->n_vocab);
        assert_int_equal(r.plan->value[r.plan->logits].rows, QR_ROWS_R);
        assert_int_equal(qr_plan_check(r.plan, NULL), QR_OK);
        forget(&r);
    }
}

/* 9 ops a layer, and embedding, gather, norm, head beside them; ADD_RMSNORM joins layers, the last ADD stays. */
static void all_passes_leave_nine_ops_a_layer(void **state)
{
    (void)state;
    for (int i = 0; i < N_SHAPE; i++) {
        struct recorded r;
        struct qr_plan *fused;
        struct qr_buffers b;
        char path[64];
        snprintf(path, sizeof path, "dummy:%s", SHAPE[i]);
        record(&r, path);
        assert_int_equal(qr_fuse(r.plan, QR_FUSE_ALL, &fused, NULL), QR_OK);
        assert_int_equal(qr_plan_check(fused, NULL), QR_OK);
        assert_int_equal(fused->n_op, 9 * r.weights->config->n_layer + 5);

        /* all layers take their turn in the memory of one: x, the widest pair of neighbours, little else */
        assert_int_equal(qr_buffers_assign(fused, 512, 0, 4, &b, NULL), QR_OK);
        const struct qr_config *c = r.weights->config;
        uint64_t q = (uint64_t)c->n_head * (uint64_t)c->head_dim, kv = (uint64_t)c->n_kv_head * (uint64_t)c->head_dim;
        uint64_t embd = (uint64_t)c->n_embd, mlp = 2 * (uint64_t)c->n_ff + embd, attention = 2 * (q + kv);
        assert_true(b.bytes <= 512 * 4 * (embd + (mlp > attention ? mlp : attention)) * 11 / 10);
        qr_buffers_free(&b);
        qr_plan_free(fused);
        forget(&r);
    }
}

static const struct qr_op *attention_of(const struct qr_plan *plan, int layer)
{
    for (int i = 0; i < plan->n_op; i++)
        if (plan->op[i].code == QR_OP_ATTENTION && plan->op[i].layer == layer)
            return &plan->op[i];
    fail_msg("no attention in layer %d", layer);
    return NULL;
}

static void the_window_begins_at_its_layer(void **state)
{
    (void)state;
    struct recorded r;
    record(&r, "dummy:tiny-mistral");
    for (int layer = 0; layer < 2; layer++)
        assert_int_equal(attention_of(r.plan, layer)->window, 24);
    struct qr_weights weights = *r.weights;
    struct qr_config config = *weights.config;
    struct qr_plan *plan;
    config.window_from = 1; /* Qwen2's max_window_layers */
    weights.config = &config;
    assert_int_equal(qr_arch_record(&weights, &plan, NULL), QR_OK);
    assert_int_equal(attention_of(plan, 0)->window, 0);
    assert_int_equal(attention_of(plan, 1)->window, 24);
    assert_float_equal(attention_of(plan, 0)->attn_scale, 0.17677669F, 1e-8F); /* 1/sqrt(32) */
    qr_plan_free(plan);
    forget(&r);
}

static void a_plan_that_does_not_fit_its_weights_is_refused(void **state)
{
    (void)state;
    struct recorded r;
    record(&r, "dummy:tiny-llama");
    struct qr_weights weights = *r.weights;
    struct qr_config config = *weights.config;
    struct qr_plan *plan;
    struct qr_err err = {0};
    weights.config = &config;
    config.head_dim = 8;
    assert_int_equal(qr_arch_record(&weights, &plan, &err), QR_INTERNAL);
    assert_null(plan);
    config = *r.weights->config;
    config.arch = (enum qr_arch)17;
    assert_int_equal(qr_arch_record(&weights, &plan, &err), QR_INTERNAL);
    assert_non_null(strstr(err.message, "17"));
    forget(&r);
}

static bool record_again(void *ctx)
{
    struct qr_plan *plan;
    bool ok = qr_arch_record(ctx, &plan, NULL) == QR_OK;
    assert_true(ok == (plan != NULL));
    qr_plan_free(plan);
    return ok;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    if (!fault_works())
        skip();
    static const char *const TINY[] = {"dummy:tiny-llama", "dummy:tiny-qwen2", "dummy:tiny-qwen3"};
    for (int i = 0; i < 3; i++) {
        struct recorded r;
        record(&r, TINY[i]);
        assert_true(fault_torture(record_again, r.weights, FAULT_ALLOC, 0) > 2);
        forget(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_is_recorded_unfused),
        cmocka_unit_test(all_passes_leave_nine_ops_a_layer),
        cmocka_unit_test(the_window_begins_at_its_layer),
        cmocka_unit_test(a_plan_that_does_not_fit_its_weights_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
