/* quant.c - fp32 to the types that synth writes: scale by the block's extreme values, as gguf-py's quants.py (which
 * follows ggml's reference) does, bit for bit for finite values. */
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
