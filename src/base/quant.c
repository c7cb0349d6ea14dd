/* quant.c - fp32 to the types that synth writes: scale by the block's extreme values, as gguf-py's quants.py (which
 * follows ggml's reference) does, bit for bit for finite values. And to FP8, whose scale is searched. */
#include "base/dtype.h"
#include <math.h>
#include <string.h>
#include "base/half.h"

#define BLOCK 32

static void put_f16(uint8_t *p, float f)
{
    uint16_t h = qr_f32_to_f16(f);
    memcpy(p, &h, 2);
}

/* A float to an integer in [lo, hi]; NaN (0 * inf of a block with an infinity) gives lo. */
static int clip(float f, int lo, int hi)
{
    if (!(f > (float)lo))
        return lo;
    return f < (float)hi ? (int)f : hi;
}

static void quant_q8_0(const float *x, uint8_t *b)
{
    float most = 0;
    for (int i = 0; i < BLOCK; i++)
        most = fmaxf(most, fabsf(x[i]));
    float d = most / 127, inverse = d == 0 ? 0 : 1 / d;
    put_f16(b, d);
    for (int i = 0; i < BLOCK; i++)
        b[2 + i] = (uint8_t)clip(roundf(x[i] * inverse), -128, 127);
}

static void pack_nibbles(const uint8_t q[BLOCK], uint8_t *out)
{
    for (int i = 0; i < BLOCK / 2; i++)
        out[i] = (uint8_t)(q[i] | q[i + BLOCK / 2] << 4);
}

/* The value of largest magnitude (with its sign) becomes -8. */
static void quant_q4_0(const float *x, uint8_t *b)
{
    float extreme = x[0];
    uint8_t q[BLOCK];
    for (int i = 1; i < BLOCK; i++)
        if (fabsf(x[i]) > fabsf(extreme))
            extreme = x[i];
    float d = extreme / -8, inverse = d == 0 ? 0 : 1 / d;
    put_f16(b, d);
    for (int i = 0; i < BLOCK; i++)
        q[i] = (uint8_t)clip(x[i] * inverse + 8.5f, 0, 15);
    pack_nibbles(q, b + 2);
}

static void quant_q4_1(const float *x, uint8_t *b)
{
    float lo = x[0], hi = x[0];
    uint8_t q[BLOCK];
    for (int i = 1; i < BLOCK; i++) {
        lo = fminf(lo, x[i]);
        hi = fmaxf(hi, x[i]);
    }
    float d = (hi - lo) / 15, inverse = d == 0 ? 0 : 1 / d;
    put_f16(b, d);
    put_f16(b + 2, lo);
    for (int i = 0; i < BLOCK; i++)
        q[i] = (uint8_t)clip((x[i] - lo) * inverse + 0.5f, 0, 15);
    pack_nibbles(q, b + 4);
}

/* Loading waits for this: vectors that every x86-64 has. */
typedef float floats __attribute__((vector_size(16)));
typedef int32_t ints __attribute__((vector_size(16)));

/* Numbers up to 480 to the nearest that E4M3 has. */
static floats round_e4m3(floats x)
{
    const floats fine = (x + 0x1.8p14f) - 0x1.8p14f; /* below 2^-6: multiples of 2^-9 */
    ints u = (ints)x & INT32_MAX, sign = (ints)x & INT32_MIN;
    u = (u + 0x7FFFF + (u >> 20 & 1)) & ~0xFFFFF;              /* 4 bits, the leading one among them, ties to even */
    const ints above = u > 0x43E00000, below = u < 0x3C800000; /* 448, 2^-6 */
    u = ((above & 0x43E00000) | (~above & u)) | sign;
    return (floats)((below & (ints)fine) | (~below & u));
}

/* Squared error of the block with scale s, in units of s^2, each column's times its importance. */
static float fp8_error(const floats x[BLOCK / 4], const floats importance[BLOCK / 4], float inverse)
{
    floats sum = {0};
    for (int i = 0; i < BLOCK / 4; i++) {
        const floats y = x[i] * inverse, e = round_e4m3(y) - y;
        sum += e * e * importance[i];
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* 2^(i / 16) */
static const float octave[16] = {1,           1.04427373f, 1.09050775f, 1.13878858f, 1.18920708f, 1.24185777f,
                                 1.29683959f, 1.35425556f, 1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f,
                                 1.68179286f, 1.75625217f, 1.8340081f,  1.91520655f};

/* A step of E4M3 is an eighth of a number that begins an octave and a sixteenth of one that ends it. So the scale is not the one
 * that makes the largest number 448 but, of 16 over an octave, the one with the least squared error (docs/FIDELITY.md). */
static bool quant_fp8(const float *x, const float *importance, uint8_t *b)
{
    float most = 0, best_error = INFINITY;
    uint16_t best = 0;
    floats all[BLOCK / 4], weight[BLOCK / 4];
    memcpy(all, x, sizeof all);
    for (int i = 0; i < BLOCK / 4; i++)
        weight[i] = (floats){1, 1, 1, 1};
    if (importance)
        memcpy(weight, importance, sizeof weight);
    for (int i = 0; i < BLOCK; i++)
        most = fmaxf(most, fabsf(x[i]));
    if (!(most <= 448 * QR_FP8_MOST))
        return false;
    for (size_t i = 0; i < sizeof octave / sizeof *octave; i++) {
        float s = most / 448 * octave[i];
        uint16_t scale = qr_f32_to_bf16(fminf(fmaxf(s, QR_FP8_LEAST), QR_FP8_MOST));
        s = qr_bf16_to_f32(scale);
        float error = fp8_error(all, weight, 1 / s) * (s * s);
        if (i == 0 || error < best_error) {
            best_error = error;
            best = scale;
        }
    }
    float inverse = 1 / qr_bf16_to_f32(best);
    memcpy(b, &best, 2);
    for (int i = 0; i < BLOCK; i++)
        b[2 + i] = qr_f32_to_e4m3(x[i] * inverse);
    return !isnan(best_error);
}

bool qr_quant_fp8(const float *src, const float *importance, void *dst, uint64_t n)
{
    uint8_t *p = dst;
    for (uint64_t i = 0; i < n; i += BLOCK, p += 2 + BLOCK)
        if (!quant_fp8(src + i, importance ? importance + i : NULL, p))
            return false;
    return true;
}

bool qr_quant(enum qr_dtype type, const float *src, void *dst, uint64_t n)
{
    uint8_t *p = dst;
    void (*block)(const float *, uint8_t *);
    switch (type) {
    case QR_F32:
        memcpy(dst, src, n * 4);
        return true;
    case QR_F16:
    case QR_BF16:
        for (uint64_t i = 0; i < n; i++) {
            uint16_t h = type == QR_F16 ? qr_f32_to_f16(src[i]) : qr_f32_to_bf16(src[i]);
            memcpy(p + 2 * i, &h, 2);
        }
        return true;
    case QR_FP8:
        return qr_quant_fp8(src, NULL, dst, n);
    case QR_Q8_0:
        block = quant_q8_0;
        break;
    case QR_Q4_0:
        block = quant_q4_0;
        break;
    case QR_Q4_1:
        block = quant_q4_1;
        break;
    default:
        return false;
    }
    const struct qr_dtype_info *info = qr_dtype_info(type);
    for (uint64_t i = 0; i < n / info->block; i++)
        block(src + i * info->block, p + i * info->block_bytes);
    return true;
}
