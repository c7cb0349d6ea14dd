/* dequant.c - blocks of every type to fp32: the reference that kernels are checked against.
 * Layouts: ggml-common.h of llama.cpp. Order of the fp32 operations: gguf-py's quants.py, so that results are equal
 * bit for bit. Sources may lie at any address, hence the memcpy. */
#include "base/dtype.h"
#include <string.h>
#include "base/half.h"
#include "base/recode.h"

static float f16_at(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return qr_f16_to_f32(h);
}

static void dequant_f16(const uint8_t *src, float *dst, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        dst[i] = f16_at(src + 2 * i);
}

static void dequant_bf16(const uint8_t *src, float *dst, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, src + 2 * i, 2);
        dst[i] = qr_bf16_to_f32(h);
    }
}

/* d f16, q int8[32] */
static void block_q8_0(const uint8_t *b, float *dst)
{
    float d = f16_at(b);
    for (int i = 0; i < 32; i++)
        dst[i] = (float)(int8_t)b[2 + i] * d;
}

/* d f16, q[16]: low nibbles are elements 0..15, high ones 16..31; value q - 8 */
static void block_q4_0(const uint8_t *b, float *dst)
{
    float d = f16_at(b);
    for (int i = 0; i < 16; i++) {
        dst[i] = d * (float)((b[2 + i] & 15) - 8);
        dst[i + 16] = d * (float)((b[2 + i] >> 4) - 8);
    }
}

/* d f16, m f16, q[16] */
static void block_q4_1(const uint8_t *b, float *dst)
{
    float d = f16_at(b), m = f16_at(b + 2);
    for (int i = 0; i < 16; i++) {
        dst[i] = d * (float)(b[4 + i] & 15) + m;
        dst[i + 16] = d * (float)(b[4 + i] >> 4) + m;
    }
}

/* The 5-bit value of element i (0 .. 31): 4 low bits in nibbles, the fifth in a word of 32 bits. */
static int five_bits(const uint8_t *q, uint32_t high, int i)
{
    int low = i < 16 ? q[i] & 15 : q[i - 16] >> 4;
    return low | (int)(high >> i & 1) << 4;
}

/* d f16, fifth bits u32, q[16]; value q - 16 */
static void block_q5_0(const uint8_t *b, float *dst)
{
    float d = f16_at(b);
    uint32_t high;
    memcpy(&high, b + 2, 4);
    for (int i = 0; i < 32; i++)
        dst[i] = d * (float)(five_bits(b + 6, high, i) - 16);
}

/* d f16, m f16, fifth bits u32, q[16] */
static void block_q5_1(const uint8_t *b, float *dst)
{
    float d = f16_at(b), m = f16_at(b + 2);
    uint32_t high;
    memcpy(&high, b + 4, 4);
    for (int i = 0; i < 32; i++)
        dst[i] = d * (float)five_bits(b + 8, high, i) + m;
}

/* Scale and minimum (6 bits each) of sub-block j (0 .. 7) out of the 12 bytes of Q4_K and Q5_K: bytes 0-3 and 4-7 hold
 * those of 0-3 in their low 6 bits; those of 4-7 have their low 4 bits in bytes 8-11, their top 2 in what is left. */
static void k_scale_min(const uint8_t *s, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *min = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
}

/* d f16, dmin f16, scales[12], [qh[32]], q[128]: 8 sub-blocks of 32; two of them share 32 bytes of q. */
static void block_q45_k(const uint8_t *b, const uint8_t *high, const uint8_t *q, float *dst)
{
    float d = f16_at(b), dmin = f16_at(b + 2);
    for (int j = 0; j < 8; j++) {
        int scale, min;
        k_scale_min(b + 4, j, &scale, &min);
        float dl = d * (float)scale, ml = dmin * (float)min;
        for (int i = 0; i < 32; i++) {
            int v = q[32 * (j / 2) + i] >> 4 * (j & 1) & 15;
            if (high)
                v |= (high[i] >> j & 1) << 4;
            dst[32 * j + i] = dl * (float)v - ml;
        }
    }
}

static void block_q4_k(const uint8_t *b, float *dst)
{
    block_q45_k(b, NULL, b + 16, dst);
}

static void block_q5_k(const uint8_t *b, float *dst)
{
    block_q45_k(b, b + 16, b + 48, dst);
}

/* ql[128], qh[64], scales int8[16], d f16: two halves of 128; a scale per 16; value q - 32 */
static void block_q6_k(const uint8_t *b, float *dst)
{
    const uint8_t *scale = b + 192;
    float d = f16_at(b + 208);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, quarter = i % 128 / 32, at = i % 32;
        int low = b[64 * half + 32 * (quarter & 1) + at] >> 4 * (quarter >> 1) & 15;
        int high = b[128 + 32 * half + at] >> 2 * quarter & 3;
        dst[i] = d * (float)(int8_t)scale[i / 16] * (float)((low | high << 4) - 32);
    }
}

/* scales[16]: nibbles of scale and minimum for 16 columns each; q[64], d f16, dmin f16 */
static void block_q2_k(const uint8_t *b, float *dst)
{
    float d = f16_at(b + 80), dmin = f16_at(b + 82);
    for (int i = 0; i < 256; i++) {
        float dl = d * (float)(b[i / 16] & 15), ml = dmin * (float)(b[i / 16] >> 4);
        dst[i] = dl * (float)(b[16 + 32 * (i / 128) + i % 32] >> 2 * (i % 128 / 32) & 3) - ml;
    }
}

/* d f32, q int8[32] */
static void block_i8s(const uint8_t *b, float *dst)
{
    float d;
    memcpy(&d, b, 4);
    for (int i = 0; i < 32; i++)
        dst[i] = d * (float)(int8_t)b[4 + i];
}

/* d f32, E4M3[32] */
static void block_f8s(const uint8_t *b, float *dst)
{
    float d;
    memcpy(&d, b, 4);
    for (int i = 0; i < 32; i++)
        dst[i] = qr_f8_e4m3_to_f32(b[4 + i]) * d;
}

/* Types that another one stands for: the same numbers in the same order of operations. */
static void dequant_recoded(enum qr_dtype type, const uint8_t *src, float *dst, uint64_t n)
{
    const struct qr_dtype_info *info = qr_dtype_info(type);
    for (uint64_t i = 0; i < n / info->block; i++) {
        uint8_t block[QR_RECODE_BYTES];
        qr_recode(type, src + i * info->block_bytes, block);
        qr_dequant(qr_recode_type(type), block, dst + i * info->block, info->block);
    }
}

void qr_dequant(enum qr_dtype type, const void *src, float *dst, uint64_t n)
{
    static void (*const block[QR_N_DTYPE])(const uint8_t *, float *) = {
        [QR_Q8_0] = block_q8_0, [QR_Q4_0] = block_q4_0, [QR_Q4_1] = block_q4_1, [QR_Q5_0] = block_q5_0,
        [QR_Q5_1] = block_q5_1, [QR_Q4_K] = block_q4_k, [QR_Q5_K] = block_q5_k, [QR_Q6_K] = block_q6_k,
        [QR_Q2_K] = block_q2_k, [QR_I8S] = block_i8s,   [QR_F8S] = block_f8s,
    };
    const struct qr_dtype_info *info = qr_dtype_info(type);
    const uint8_t *p = src;
    if (n == 0)
        return;
    if (type == QR_F32)
        memcpy(dst, src, n * 4);
    else if (type == QR_F16)
        dequant_f16(p, dst, n);
    else if (type == QR_BF16)
        dequant_bf16(p, dst, n);
    else if (qr_recode_type(type) != type)
        dequant_recoded(type, p, dst, n);
    else
        for (uint64_t i = 0; i < n / info->block; i++)
            block[type](p + i * info->block_bytes, dst + i * info->block);
}
