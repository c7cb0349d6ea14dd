/* test_bench.c - the kernel benchmark gives sensible rows, right results, and stops when asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "cpu/bench.h"

static bool until(void *ctx, int done, int total)
{
    assert_in_range(total, 1, QR_BENCH_MAX);
    return done < *(int *)ctx;
}

static void bench(void **state)
{
    static struct qr_bench_row row[QR_BENCH_MAX];
    struct qr_bench_peak peak;
    struct qr_pool *pool;
    struct qr_err err;
    int n, limit = 4;
    (void)state;
    assert_int_equal(qr_pool_create(2, &pool, &err), QR_OK);
    assert_int_equal(qr_cpu_bench_kernels(pool, qr_isa_best(), 0, until, &limit, &peak, row, &n, &err), QR_CANCELLED);
    assert_int_equal(n, limit);
    assert_true(peak.read_gb_s > 0 && peak.f32_gflop_s > 0 && peak.i16_gflop_s > 0);
    for (int i = 0; i < n; i++) {
        assert_true(row[i].seconds > 0 && row[i].gb_s > 0 && row[i].gflop_s > 0 && row[i].share > 0 &&
                    row[i].share <= 1);
        assert_true(row[i].error >= 0 && row[i].error < 1e-5);
        assert_true(row[i].kernel[0] && row[i].variant[0] && row[i].shape[0]);
    }
    qr_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bench)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
