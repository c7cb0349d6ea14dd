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

static long double base(double theta, int i)
{
    return powl((long double)theta, -2.0L * i / HEAD_DIM);
}

static void frequencies(struct qr_rope rope, const struct qr_vector *factors, float out[HALF])
{
    struct qr_err err;
    if (qr_rope_inv_freq(&rope, HEAD_DIM, 4096, factors, out, &err))
        fail_msg("%s", err.message);
}

static void by_default_theta_to_the_minus_2i_over_d(void **state)
{
    (void)state;
    float f[HALF];
    frequencies((struct qr_rope){.theta = 1e6}, &NONE, f);
    for (int i = 0; i < HALF; i++)
        assert_true(f[i] == (float)base(1e6, i));
    assert_true(f[0] == 1);
}

static void linear_divides(void **state)
{
    (void)state;
    float f[HALF];
    frequencies((struct qr_rope){.kind = QR_ROPE_LINEAR, .theta = 1e4, .factor = 2.5}, &NONE, f);
    for (int i = 0; i < HALF; i++)
        assert_true(fabsf(f[i] / (float)(base(1e4, i) / 2.5L) - 1) < 1e-6F);
}

/* Llama 3.1: Meta's apply_scaling, which compares wavelengths. All three ranges occur. */
static void llama3_stretches_long_wavelengths(void **state)
{
    (void)state;
    float f[HALF];
    int kept = 0, blended = 0, stretched = 0;
    frequencies((struct qr_rope){.kind = QR_ROPE_LLAMA3,
                                 .theta = 5e5,
                                 .factor = 32,
                                 .low_freq_factor = 1,
                                 .high_freq_factor = 4,
                                 .original_max_len = 8192},
                &NONE, f);
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

/* YaRN: gamma of the paper's equation 18 over turns, which with whole ends of the ramp is transformers' ramp over pairs. */
static void yarn_keeps_fast_pairs_and_stretches_slow_ones(void **state)
{
    (void)state;
    float f[HALF];
    int kept = 0, blended = 0, stretched = 0;
    struct qr_rope rope = {
        .kind = QR_ROPE_YARN, .theta = 1e6, .factor = 4, .original_max_len = 32768, .beta_fast = 32, .beta_slow = 1};
    frequencies(rope, &NONE, f);
    long double low = floorl(HEAD_DIM * logl(32768 / (32 * 2 * acosl(-1))) / (2 * logl(1e6L)));
    long double high = ceill(HEAD_DIM * logl(32768 / (2 * acosl(-1))) / (2 * logl(1e6L)));
    for (int i = 0; i < HALF; i++) {
        long double ramp = (i - low) / (high - low), want = base(1e6, i);
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        kept += ramp == 0;
        stretched += ramp == 1;
        blended += ramp > 0 && ramp < 1;
        want = want / 4 * ramp + want * (1 - ramp);
        assert_true(fabsf(f[i] / (float)want - 1) < 1e-6F);
    }
    assert_true(kept > 5 && blended > 3 && stretched > 3);
    assert_true(fabsf(qr_rope_scale(&rope, 131072) - (0.1F * logf(4) + 1)) < 1e-6F);
    rope.mscale = 0.707;
    rope.mscale_all_dim = 1;
    assert_true(fabs((double)qr_rope_scale(&rope, 0) - (0.0707 * log(4) + 1) / (0.1 * log(4) + 1)) < 1e-6);
    rope.attention_factor = 1.5;
    assert_true(qr_rope_scale(&rope, 0) == 1.5F);
}

/* LongRoPE: short factors up to the original context, long ones beyond; cos and sin by sqrt(1 + ln s / ln original). */
static void longrope_has_two_sets_of_factors(void **state)
{
    (void)state;
    float f[HALF];
    struct qr_err err;
    struct qr_rope rope = {.kind = QR_ROPE_LONGROPE, .theta = 1e4, .original_max_len = 4096, .n_factor = HALF};
    for (int i = 0; i < HALF; i++) {
        rope.short_factor[i] = 1 + (float)i / 64;
        rope.long_factor[i] = 2 + (float)i;
    }
    for (int context = 4095; context <= 4097; context++) {
        assert_int_equal(qr_rope_inv_freq(&rope, HEAD_DIM, context, NULL, f, &err), QR_OK);
        for (int i = 0; i < HALF; i++) {
            float factor = context > 4096 ? 2 + (float)i : 1 + (float)i / 64;
            assert_true(fabsf(f[i] * factor / (float)base(1e4, i) - 1) < 1e-6F);
        }
    }
    assert_true(fabs((double)qr_rope_scale(&rope, 131072) - sqrt(1 + log(32) / log(4096))) < 1e-6);
    assert_true(qr_rope_scale(&rope, 4096) == 1);
}

static void the_files_factors_divide(void **state)
{
    (void)state;
    float f[HALF], factor[HALF];
    for (int i = 0; i < HALF; i++)
        factor[i] = 1 + (float)i;
    struct qr_vector vector = {"rope_freqs", HALF, factor};
    frequencies((struct qr_rope){.theta = 1e4}, &vector, f);
    for (int i = 0; i < HALF; i++)
        assert_true(fabsf(f[i] * factor[i] / (float)base(1e4, i) - 1) < 1e-6F);
}

static void bad_factors_are_refused(void **state)
{
    (void)state;
    float f[HALF], zero[HALF] = {1};
    struct qr_rope rope = {.theta = 1e4};
    struct qr_err err;
    struct qr_vector short_one = {"rope_freqs", HALF - 1, zero}, zeros = {"rope_freqs", HALF, zero};
    assert_int_equal(qr_rope_inv_freq(&rope, HEAD_DIM, 4096, &short_one, f, &err), QR_FORMAT);
    assert_non_null(strstr(err.message, "31 factors"));
    assert_int_equal(qr_rope_inv_freq(&rope, HEAD_DIM, 4096, &zeros, f, &err), QR_FORMAT);
    assert_non_null(strstr(err.message, "frequency 1"));
    rope = (struct qr_rope){
        .kind = QR_ROPE_LINEAR, .theta = 1e4, .factor = 1e-100}; /* a double holds what a float cannot */
    assert_int_equal(qr_rope_inv_freq(&rope, HEAD_DIM, 4096, &NONE, f, &err), QR_FORMAT);
    assert_non_null(strstr(err.message, "frequency 0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_default_theta_to_the_minus_2i_over_d),
        cmocka_unit_test(linear_divides),
        cmocka_unit_test(llama3_stretches_long_wavelengths),
        cmocka_unit_test(yarn_keeps_fast_pairs_and_stretches_slow_ones),
        cmocka_unit_test(longrope_has_two_sets_of_factors),
        cmocka_unit_test(the_files_factors_divide),
        cmocka_unit_test(bad_factors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
