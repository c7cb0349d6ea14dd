/* weights_finite.c - finds NaN and infinity in rows as they stand in a file. Of a block type only the scales can hold
 * them: a finite fp16 scale times a few small integers stays finite in fp32. */
#include <string.h>
#include "base/dtype.h"
#include "model/weights_build.h"

/* No exponent of all ones among n 16-bit floats; `exponent` is its mask. */
static bool finite16(const uint8_t *p, uint64_t n, uint16_t exponent)
{
    int bad = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, p + 2 * i, 2);
        bad |= (h & exponent) == exponent;
    }
    return !bad;
}

static bool finite32(const uint8_t *p, uint64_t n)
{
    int bad = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, p + 4 * i, 4);
        bad |= (u & 0x7F800000u) == 0x7F800000u;
    }
    return !bad;
}

/* MXFP4's largest value is 12 times half of 2^(e - 127): finite up to e = 252; real scales lie around 120. I8S and F8S have
 * an fp32 scale, F8S also a NaN in 0x7f and 0xff, as FP8. */
static bool finite_special(enum qr_dtype type, const uint8_t *p, uint64_t n_block)
{
    int bad = 0;
    for (uint64_t i = 0; i < n_block; i++, p += qr_dtype_info(type)->block_bytes) {
        if (type == QR_MXFP4) {
            bad |= p[0] > 252;
            continue;
        }
        bad |= type == QR_FP8 ? !finite16(p, 1, 0x7F80) : !finite32(p, 1);
        for (int k = type == QR_FP8 ? 2 : 4; type != QR_I8S && k < (int)qr_dtype_info(type)->block_bytes; k++)
            bad |= (p[k] & 0x7f) == 0x7f;
    }
    return !bad;
}

bool qr_weights_finite(enum qr_dtype type, const void *data, uint64_t n)
{
    /* where the fp16 scales of a block lie: ggml-common.h of llama.cpp */
    static const struct {
        int offset, n;
    } scale[QR_N_DTYPE] = {
        [QR_Q8_0] = {0, 1},  [QR_Q4_0] = {0, 1},   [QR_Q4_1] = {0, 2},   [QR_Q5_0] = {0, 1},
        [QR_Q5_1] = {0, 2},  [QR_Q4_K] = {0, 2},   [QR_Q5_K] = {0, 2},   [QR_Q6_K] = {208, 1},
        [QR_Q2_K] = {80, 2}, [QR_Q3_K] = {108, 1}, [QR_IQ4_NL] = {0, 1}, [QR_IQ4_XS] = {0, 1},
    };
    const struct qr_dtype_info *info = qr_dtype_info(type);
    const uint8_t *p = data;
    if (type == QR_F32)
        return finite32(p, n);
    if (type == QR_F16)
        return finite16(p, n, 0x7C00);
    if (type == QR_BF16)
        return finite16(p, n, 0x7F80);
    if (type == QR_MXFP4 || type == QR_I8S || type == QR_F8S || type == QR_FP8)
        return finite_special(type, p, n / info->block);
    for (uint64_t i = 0; i < n / info->block; i++)
        if (!finite16(p + i * info->block_bytes + scale[type].offset, (uint64_t)scale[type].n, 0x7C00))
            return false;
    return true;
}
