/* half.c - IEEE 754 binary16, bfloat16 and fp8 e4m3 to and from fp32, on the bits alone. */
#include "base/half.h"

#define F32_INF 0x7F800000u

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

/* x >> shift, rounded to nearest, ties to even; 1 <= shift <= 31. */
static uint32_t shift_round(uint32_t x, int shift)
{
    uint32_t half = 1u << (shift - 1);
    uint32_t odd = (x >> shift) & 1;

    return (x + (half - 1) + odd) >> shift;
}

uint16_t qr_f32_to_bf16(float f)
{
    uint32_t u = bits_of(f);

    if ((u & 0x7FFFFFFFu) > F32_INF) /* rounding could turn a NaN into infinity: set the quiet bit instead */
        return (uint16_t)((u >> 16) | 0x40);
    return (uint16_t)((u + 0x7FFFu + ((u >> 16) & 1)) >> 16);
}

float qr_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = (h >> 10) & 0x1F;
    uint32_t fraction = h & 0x3FF;

    if (exponent == 0x1F)
        return float_of(sign | F32_INF | (fraction << 13));
    if (exponent == 0) { /* subnormal: fraction * 2^-24, exact in fp32 */
        float value = (float)fraction * 0x1p-24f;

        return float_of(sign | bits_of(value));
    }
    return float_of(sign | ((exponent + 127 - 15) << 23) | (fraction << 13));
}

uint16_t qr_f32_to_f16(float f)
{
    uint32_t u = bits_of(f);
    uint32_t sign = (u >> 16) & 0x8000;
    uint32_t magnitude = u & 0x7FFFFFFFu;

    if (magnitude > F32_INF)
        return (uint16_t)(sign | 0x7E00 | ((magnitude >> 13) & 0x3FF));
    if (magnitude >= 0x477FF000u) /* 65520 and more round past 65504, the largest */
        return (uint16_t)(sign | 0x7C00);
    if (magnitude >= 0x38800000u) /* 2^-14, the smallest normal: rebias; a carry into the exponent is right */
        return (uint16_t)(sign | shift_round(magnitude - (112u << 23), 13));
    if (magnitude <= 0x33000000u) /* 2^-25 is a tie and goes to even, which is zero */
        return (uint16_t)sign;
    return (uint16_t)(sign | shift_round((magnitude & 0x7FFFFFu) | 0x800000u, 126 - (int)(magnitude >> 23)));
}

/* e4m3: bias 7, no infinities, S.1111.111 is NaN, so that the largest is S.1111.110 = 448. */
float qr_e4m3_to_f32(uint8_t e)
{
    uint32_t sign = (uint32_t)(e & 0x80) << 24;
    uint32_t exponent = (e >> 3) & 0xF;
    uint32_t fraction = e & 7;

    if ((e & 0x7F) == 0x7F)
        return float_of(sign | 0x7FC00000u);
    if (exponent == 0) {
        float value = (float)fraction * 0x1p-9f;

        return float_of(sign | bits_of(value));
    }
    return float_of(sign | ((exponent + 127 - 7) << 23) | (fraction << 20));
}

uint8_t qr_f32_to_e4m3(float f)
{
    uint32_t u = bits_of(f);
    uint8_t sign = (uint8_t)((u >> 24) & 0x80);
    uint32_t magnitude = u & 0x7FFFFFFFu;

    if (magnitude > F32_INF)
        return sign | 0x7F;
    if (magnitude >= 0x43E00000u) /* 448 */
        return sign | 0x7E;
    if (magnitude >= 0x3C800000u) /* 2^-6, the smallest normal */
        return (uint8_t)(sign | shift_round(magnitude - (120u << 23), 20));
    if (magnitude <= 0x3A800000u) /* 2^-10 is a tie with zero */
        return sign;
    return (uint8_t)(sign | shift_round((magnitude & 0x7FFFFFu) | 0x800000u, 141 - (int)(magnitude >> 23)));
}
