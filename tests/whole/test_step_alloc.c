/* test_step_alloc.c - a step allocates nothing: prefill, decode and a mix, in every mask that matters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "common/fault.h"
#include "plan/fuse.h"
#include "whole/runner.h"

enum { N_TOKEN = 120 };

static void steps_allocate_nothing(const char *shape, uint32_t mask, enum qr_isa isa)
{
    struct model model;
    int32_t a[N_TOKEN], b[N_TOKEN];
    struct runner *r = malloc(sizeof *r);
    assert_non_null(r);
    model_open(&model, shape);
    runner_open(r, &model, (struct setting){.mask = mask, .isa = isa, .n_thread = 3, .kv_type = QR_F16});
    random_tokens(a, N_TOKEN, model.n_vocab, 1);
    random_tokens(b, N_TOKEN, model.n_vocab, 2);
    runner_add(r, a, N_TOKEN);
    runner_add(r, b, N_TOKEN);
    static const int TAKE[][RUNNER_MAX_SEQ] = {{40, 0}, {1, 30}, {1, 1}, {1, 0}, {17, 60}, {60, 29}};
    for (size_t i = 0; i < sizeof TAKE / sizeof TAKE[0]; i++) {
        long before = fault_allocations();
        runner_step(r, TAKE[i]); /* copies logits, allocates nothing itself */
        assert_int_equal(fault_allocations(), before);
    }
    assert_int_equal(r->sequence[0].done, N_TOKEN);
    assert_int_equal(r->sequence[1].done, N_TOKEN);
    runner_close(r);
    model_close(&model);
    free(r);
}

static void no_allocation_in_a_step(void **state)
{
    (void)state;
    if (!fault_works())
        skip();
    for (int isa = 0; isa < QR_N_ISA; isa++)
        if (qr_isa_runs_here(isa)) {
            steps_allocate_nothing("dummy:tiny-llama", QR_FUSE_ALL, isa);
            steps_allocate_nothing("dummy:tiny-qwen2", 0, isa);
            steps_allocate_nothing("dummy:tiny-qwen3", QR_FUSE_ALL, isa);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_allocation_in_a_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
