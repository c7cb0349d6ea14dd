/* test_bench.c - shares of a device's ceilings, by hand. */
#include "base/bench.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-12 * fabs(b);
}

static void of_the_nearer_ceiling(void **state)
{
    struct qr_bench_ceiling ceiling = {100, {1000, 2000}};
    struct qr_bench_row row[] = {{.seconds = 2}, {.seconds = 1}, {.seconds = 4}};
    const struct qr_bench_cost cost[] = {{100e9, 100e9, true, 0}, {400e9, 500e9, false, 1}, {1e9, 1000e9, false, 0}};
    (void)state;
    qr_bench_shares(row, cost, 3, &ceiling);
    assert_true(near(row[0].gb_s, 50) && near(row[0].gflop_s, 50) && near(row[0].share, 0.5));
    assert_true(near(row[1].gb_s, 400) && near(row[1].share, 0.25)); /* from a cache: only its products count */
    assert_true(near(row[2].gflop_s, 250) && near(row[2].share, 0.25));
    assert_true(ceiling.gb_s == 100 && ceiling.gflop_s[0] == 1000 && ceiling.gflop_s[1] == 2000);
}

static void a_better_row_is_the_ceiling(void **state)
{
    struct qr_bench_ceiling ceiling = {100, {1000, 2000}};
    struct qr_bench_row row[] = {{.seconds = 1}, {.seconds = 1}, {.seconds = 2, .peer = 0.5}};
    const struct qr_bench_cost cost[] = {{80e9, 0, true, 0}, {160e9, 0, true, 0}, {0, 2000e9, false, 1}};
    (void)state;
    qr_bench_shares(row, cost, 3, &ceiling);
    assert_true(near(ceiling.gb_s, 160) && near(ceiling.gflop_s[1], 4000) && ceiling.gflop_s[0] == 1000);
    assert_true(near(row[0].share, 0.5) && near(row[1].share, 1) && near(row[2].share, 0.25));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_the_nearer_ceiling),
                                       cmocka_unit_test(a_better_row_is_the_ceiling)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
