/* vec_math.h - exp and tanh on 16 lanes, from vec.h's operations. */
#ifndef QR_CPU_ISA_VEC_MATH_H
#define QR_CPU_ISA_VEC_MATH_H
#include "cpu/isa/vec.h"

#ifndef V_SCALE2
/* 2^n for integers in [-126, 127]. */
QR_INLINE vf v_exp2_int(vi n)
{
    return i_as_f(i_sll32(i_add(n, i_set1(127)), 23));
}

QR_INLINE vf v_round(vf x)
{
    return i_to_f(v_to_i(x));
}

/* p * 2^n, n whole, |n| < 250, |p| in (0.5, 2): in two halves, of which the first is exact, so that results go through
 * subnormals to 0 and overflow to infinity. */
QR_INLINE vf v_scale2(vf p, vf n)
{
    vi whole = v_to_i(n), half = i_sra32(whole, 1);
    return v_mul(v_mul(p, v_exp2_int(half)), v_exp2_int(i_sub(whole, half)));
}
#endif

/* About 1 ulp. exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln(2)/2 by Cody and Waite's subtraction in two parts;
 * exp(r) = 1 + r + r^2 P(r), P of degree 4 fitted for the least largest relative error (3.6e-9). NaN stays NaN: v_min
 * and v_max return their second operand then. */
QR_INLINE vf v_exp(vf x)
{
    x = v_max(v_set1(-110.0f), v_min(v_set1(90.0f), x));
    vf n = v_round(v_mul(x, v_set1(0x1.715476p+0f)));
    vf r = v_fma(n, v_set1(-0x1.62e4p-1f), x); /* 15 bits of ln 2: exact product */
    r = v_fma(n, v_set1(-0x1.7f7d1cp-20f), r);
    vf p = v_set1(0x1.6a1080p-10f);
    p = v_fma(p, r, v_set1(0x1.1245c8p-7f));
    p = v_fma(p, r, v_set1(0x1.55593cp-5f));
    p = v_fma(p, r, v_set1(0x1.555482p-3f));
    p = v_fma(p, r, v_set1(0x1.fffffcp-2f));
    p = v_add(v_fma(v_mul(r, r), p, r), v_set1(1.0f));
    return v_scale2(p, n);
}

/* 1 - 2 / (exp(2x) + 1): absolute error 1e-7, enough for a soft cap. */
QR_INLINE vf v_tanh(vf x)
{
    vf one = v_set1(1.0f), e = v_exp(v_add(x, x));
    return v_sub(one, v_div(v_set1(2.0f), v_add(e, one)));
}

/* Hendrycks and Gimpel's tanh formula, 0.5 x (1 + tanh(u)) with u = sqrt(2/pi) (x + 0.044715 x^3), as x / (1 + exp(-2u)). */
QR_INLINE vf v_gelu(vf x)
{
    vf u = v_mul(x, v_fma(v_mul(x, x), v_set1(-2 * 0.7978845608f * 0.044715f), v_set1(-2 * 0.7978845608f)));
    return v_div(x, v_add(v_set1(1.0f), v_exp(u)));
}

QR_INLINE vf v_silu(vf x)
{
    return v_div(x, v_add(v_set1(1.0f), v_exp(v_sub(v_zero(), x))));
}
#endif
