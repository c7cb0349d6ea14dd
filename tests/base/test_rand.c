/* test_rand.c - Philox against the known answers of Random123 (its file kat_vectors), and the draws from it
 * against their formula and their moments. */
#include "base/rand.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void philox_known_answers(void **state)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t out[4];

        qr_philox(known[i].counter, known[i].key, out);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

static void uniform_is_what_the_header_says(void **state)
{
    uint32_t counter[4] = {77, 3, 0, 0}, key[2] = {0x89abcdef, 0x01234567}, out[4];
    double sum = 0;

    (void)state;
    qr_philox(counter, key, out);
    assert_true(qr_rand_uniform(0x0123456789abcdef, 3, 77) == (float)(out[0] >> 8) / 16777216.0f);
    for (uint32_t i = 0; i < 100000; i++) {
        float u = qr_rand_uniform(5, 0, i);

        assert_true(u >= 0 && u < 1);
        sum += u;
    }
    /* deviation of the mean: sqrt(1/12 / 1e5) = 0.0009 */
    assert_true(fabs(sum / 100000 - 0.5) < 0.005);
}

static void normal_moments(void **state)
{
    enum { N = 200000 };
    float *x = malloc(N * sizeof *x);
    double mean = 0, square = 0, fourth = 0;

    (void)state;
    assert_non_null(x);
    qr_rand_normal(42, 7, 2.0f, x, N);
    for (int i = 0; i < N; i++) {
        double z = x[i] / 2;

        mean += z / N;
        square += z * z / N;
        fourth += z * z * z * z / N;
    }
    /* 5 deviations: mean 1/sqrt(N), variance sqrt(2/N), fourth moment sqrt(96/N) */
    assert_true(fabs(mean) < 5 * 0.0023);
    assert_true(fabs(square - 1) < 5 * 0.0032);
    assert_true(fabs(fourth - 3) < 5 * 0.022);
    free(x);
}

static void normal_depends_on_seed_stream_and_index_alone(void **state)
{
    float a[10], b[10], c[3];

    (void)state;
    qr_rand_normal(1, 2, 1.0f, a, 10);
    qr_rand_normal(1, 2, 1.0f, b, 10);
    assert_memory_equal(a, b, sizeof a);
    qr_rand_normal(1, 2, 1.0f, c, 3);
    assert_memory_equal(a, c, sizeof c);
    qr_rand_normal(1, 3, 1.0f, b, 10);
    assert_memory_not_equal(a, b, sizeof a);
    qr_rand_normal(2, 2, 1.0f, b, 10);
    assert_memory_not_equal(a, b, sizeof a);
    qr_rand_normal(1, 2, 1.0f, c, 0);
}

static void fresh_seeds_differ(void **state)
{
    (void)state;
    assert_true(qr_rand_fresh_seed() != qr_rand_fresh_seed());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers), cmocka_unit_test(uniform_is_what_the_header_says),
        cmocka_unit_test(normal_moments),       cmocka_unit_test(normal_depends_on_seed_stream_and_index_alone),
        cmocka_unit_test(fresh_seeds_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
