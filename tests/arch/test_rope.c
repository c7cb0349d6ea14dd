/* test_rope.c - rope frequencies against the formulas of their sources, in long double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>
#include "arch/record.h"

enum { HEAD_DIM = 64, HALF = HEAD_DIM / 2 };

static const struct qr_vector NONE = {0};

static struct qr_config config_of(struct qr_rope rope)
{
    struct qr_config c = {.head_dim = HEAD_DIM};
    c.rope = rope;
    return c;
}

static long double base(double theta, int i)
{
    return powl((long double)theta, -2.0L * i / HEAD_DIM);
}

static void frequencies(struct qr_rope rope, const struct qr_vector *factors, float out[HALF])
{
    struct qr_config c = config_of(rope);
    struct qr_err err;
    if (qr_rope_inv_freq(&c, factors, out, &err))
        fail_msg("%s", err.message);
}

static void by_default_theta_to_the_minus_2i_over_d(void **state)
{
    (void)state;
    float f[HALF];
    frequencies((struct qr_rope){QR_ROPE_DEFAULT, 1e6, 0, 0, 0, 0}, &NONE, f);
    for (int i = 0; i < HALF; i++)
        assert_true(f[i] == (float)base(1e6, i));
    assert_true(f[0] == 1);
}

static void linear_divides(void **state)
{
    (void)state;
    float f[HALF];
    frequencies((struct qr_rope){QR_ROPE_LINEAR, 1e4, 2.5, 0, 0, 0}, &NONE, f);
    for (int i = 0; i < HALF; i++)
        assert_true(fabsf(f[i] / (float)(base(1e4, i) / 2.5L) - 1) < 1e-6F);
}

/* Llama 3.1: Meta's apply_scaling, which compares wavelengths. All three ranges occur. */
static void llama3_stretches_long_wavelengths(void **state)
{
    (void)state;
    float f[HALF];
    int kept = 0, blended = 0, stretched = 0;
    frequencies((struct qr_rope){QR_ROPE_LLAMA3, 5e5, 32, 1, 4, 8192}, &NONE, f);
    for (int i = 0; i < HALF; i++) {
        long double freq = base(5e5, i), wavelength = 2 * acosl(-1) / freq, want;
        if (wavelength < 8192 / 4.0L) {
            want = freq;
            kept++;
        } else if (wavelength > 8192 / 1.0L) {
            want = freq / 32;
            stretched++;
        } else {
            long double smooth = (8192 / wavelength - 1) / (4 - 1);
            want = (1 - smooth) * freq / 32 + smooth * freq;
            blended++;
        }
        assert_true(fabsf(f[i] / (float)want - 1) < 1e-6F);
    }
    assert_true(kept > 5 && blended > 1 && stretched > 5);
}

static void the_files_factors_divide(void **state)
{
    (void)state;
    float f[HALF], factor[HALF];
    for (int i = 0; i < HALF; i++)
        factor[i] = 1 + (float)i;
    struct qr_vector vector = {"rope_freqs", HALF, factor};
    frequencies((struct qr_rope){QR_ROPE_DEFAULT, 1e4, 0, 0, 0, 0}, &vector, f);
    for (int i = 0; i < HALF; i++)
        assert_true(fabsf(f[i] * factor[i] / (float)base(1e4, i) - 1) < 1e-6F);
}

static void bad_factors_are_refused(void **state)
{
    (void)state;
    float f[HALF], zero[HALF] = {1};
    struct qr_config c = config_of((struct qr_rope){QR_ROPE_DEFAULT, 1e4, 0, 0, 0, 0});
    struct qr_err err;
    struct qr_vector short_one = {"rope_freqs", HALF - 1, zero}, zeros = {"rope_freqs", HALF, zero};
    assert_int_equal(qr_rope_inv_freq(&c, &short_one, f, &err), QR_FORMAT);
    assert_non_null(strstr(err.message, "31 factors"));
    assert_int_equal(qr_rope_inv_freq(&c, &zeros, f, &err), QR_FORMAT);
    assert_non_null(strstr(err.message, "frequency 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_default_theta_to_the_minus_2i_over_d),
        cmocka_unit_test(linear_divides),
        cmocka_unit_test(llama3_stretches_long_wavelengths),
        cmocka_unit_test(the_files_factors_divide),
        cmocka_unit_test(bad_factors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
