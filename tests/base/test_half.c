/* test_half.c - every 16- and 8-bit value, and fp32 values at and around every rounding border, against the
 * compiler's _Float16 and against search among all values (nearest, ties to even). */
#include "base/half.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static uint32_t bits_of(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    return u;
}

static float float_of(uint32_t u)
{
    float f;

    memcpy(&f, &u, 4);
    return f;
}

/* Value of a small float with a sign, n_exponent and n_fraction bits, by the formula of IEEE 754. */
static double value_of(unsigned bits, int n_exponent, int n_fraction)
{
    int bias = (1 << (n_exponent - 1)) - 1;
    int exponent = (int)(bits >> n_fraction) & ((1 << n_exponent) - 1);
    int fraction = (int)bits & ((1 << n_fraction) - 1);
    double m = exponent ? 1 + ldexp(fraction, -n_fraction) : ldexp(fraction, -n_fraction);
    double v = ldexp(m, (exponent ? exponent : 1) - bias);

    return bits >> (n_exponent + n_fraction) & 1 ? -v : v;
}

static void f16_to_f32_all(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        float f = qr_f16_to_f32((uint16_t)h);

        if ((h & 0x7FFF) > 0x7C00)
            assert_true(isnan(f));
        else if ((h & 0x7FFF) == 0x7C00)
            assert_true(isinf(f) && !signbit(f) == !(h >> 15));
        else
            assert_true((double)f == value_of(h, 5, 10) && !signbit(f) == !(h >> 15));
        if (!isnan(f))
            assert_int_equal(qr_f32_to_f16(f), h);
    }
}

static void bf16_to_f32_all(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 65536; h++) {
        float f = qr_bf16_to_f32((uint16_t)h);

        assert_int_equal(bits_of(f), h << 16);
        if (!isnan(f))
            assert_int_equal(qr_f32_to_bf16(f), h);
        else
            assert_true(isnan(qr_bf16_to_f32(qr_f32_to_bf16(f))));
    }
}

static void e4m3_to_f32_all(void **state)
{
    (void)state;
    for (unsigned e = 0; e < 256; e++) {
        float f = qr_e4m3_to_f32((uint8_t)e);

        if ((e & 0x7F) == 0x7F) {
            assert_true(isnan(f));
            assert_int_equal(qr_f32_to_e4m3(f) & 0x7F, 0x7F);
        } else {
            assert_true((double)f == value_of(e, 4, 3));
            assert_int_equal(qr_f32_to_e4m3(f), e);
        }
    }
}

/* Between two neighbours a < b of a format, with bits and bits + 1: below the middle a, above it b, on it the
 * even one. */
static void check_borders(unsigned bits, double a, double b, unsigned (*convert)(float))
{
    float middle = (float)((a + b) / 2); /* exact: fp32 has bits enough */

    assert_int_equal(convert(middle), bits & 1 ? bits + 1 : bits);
    assert_int_equal(convert(nextafterf(middle, INFINITY)), bits + 1);
    assert_int_equal(convert(nextafterf(middle, 0)), bits);
}

static unsigned to_f16(float f)
{
    unsigned h = qr_f32_to_f16(f);

    assert_int_equal(qr_f32_to_f16(-f), h | 0x8000);
    return h;
}

static unsigned to_bf16(float f)
{
    unsigned h = qr_f32_to_bf16(f);

    assert_int_equal(qr_f32_to_bf16(-f), h | 0x8000);
    return h;
}

static unsigned to_e4m3(float f)
{
    unsigned e = qr_f32_to_e4m3(f);

    assert_int_equal(qr_f32_to_e4m3(-f), e | 0x80);
    return e;
}

static void rounding_borders(void **state)
{
    (void)state;
    for (unsigned h = 0; h < 0x7BFF; h++)
        check_borders(h, value_of(h, 5, 10), value_of(h + 1, 5, 10), to_f16);
    for (unsigned e = 0; e < 0x7E; e++)
        check_borders(e, value_of(e, 4, 3), value_of(e + 1, 4, 3), to_e4m3);
    for (unsigned h = 0; h < 0x7F7F; h++) {
        uint32_t middle = h << 16 | 0x8000; /* halfway in the bits is halfway in value */

        assert_int_equal(to_bf16(float_of(middle)), h & 1 ? h + 1 : h);
        assert_int_equal(to_bf16(float_of(middle + 1)), h + 1);
        assert_int_equal(to_bf16(float_of(middle - 1)), h);
    }
}

static void overflow(void **state)
{
    (void)state;
    assert_int_equal(to_f16(65519.996f), 0x7BFF);
    assert_int_equal(to_f16(65520.0f), 0x7C00);
    assert_int_equal(to_f16(1e30f), 0x7C00);
    assert_int_equal(to_f16(INFINITY), 0x7C00);
    assert_int_equal(to_bf16(3.4e38f), 0x7F80);
    assert_int_equal(to_bf16(INFINITY), 0x7F80);
    assert_int_equal(to_e4m3(449.0f), 0x7E);
    assert_int_equal(to_e4m3(465.0f), 0x7E); /* nearer to 480, whose bits mean NaN */
    assert_int_equal(to_e4m3(1e30f), 0x7E);
    assert_int_equal(to_e4m3(INFINITY), 0x7E);
    assert_true(isnan(qr_f16_to_f32(qr_f32_to_f16(NAN))));
    assert_true(isnan(qr_f16_to_f32(qr_f32_to_f16(float_of(0x7F800001))))); /* a NaN whose high bits are zero */
    assert_true(isnan(qr_bf16_to_f32(qr_f32_to_bf16(float_of(0x7F800001)))));
    assert_true(isnan(qr_bf16_to_f32(qr_f32_to_bf16(float_of(0xFFFFFFFF)))));
}

#ifdef __FLT16_MAX__
/* All fp32 bit patterns in steps of an odd number: every exponent, many fractions. */
static void f16_like_the_compiler(void **state)
{
    (void)state;
    for (uint64_t u = 0; u < (1ull << 32); u += 1021) {
        float f = float_of((uint32_t)u);
        _Float16 wanted = (_Float16)f;
        uint16_t h = qr_f32_to_f16(f), w;

        memcpy(&w, &wanted, 2);
        if (isnan(f))
            assert_true((h & 0x7FFF) > 0x7C00);
        else
            assert_int_equal(h, w);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_to_f32_all),        cmocka_unit_test(bf16_to_f32_all), cmocka_unit_test(e4m3_to_f32_all),
        cmocka_unit_test(rounding_borders),      cmocka_unit_test(overflow),
#ifdef __FLT16_MAX__
        cmocka_unit_test(f16_like_the_compiler),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
