/* recode.c - see recode.h. Layouts of blocks: ggml-common.h of llama.cpp. */
#include "base/recode.h"
#include <string.h>
#include "base/half.h"

/* kvalues_iq4nl of ggml-common.h: the levels of a 4-bit code, closer to each other around zero. */
static const int8_t nonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/* E2M1 of the OCP Microscaling Formats, doubled. */
static const int8_t e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

enum qr_dtype qr_recode_type(enum qr_dtype type)
{
    switch (type) {
    case QR_Q3_K:
        return QR_Q6_K;
    case QR_IQ4_NL:
        return QR_Q8_0;
    case QR_IQ4_XS:
    case QR_MXFP4:
        return QR_I8S;
    case QR_FP8:
        return QR_F8S;
    default:
        return type;
    }
}

/* Scale k (0 .. 15) of a Q3_K block: 6 bits, 32 taken off. The low 4 of scales 0-7 and 8-15 are the nibbles of bytes 0-7,
 * the high 2 stand in bytes 8-11, four scales a byte. */
static int q3_k_scale(const uint8_t s[12], int k)
{
    int low = s[k % 8] >> 4 * (k / 8) & 15, high = s[8 + k % 4] >> 2 * (k / 4) & 3;
    return (low | high << 4) - 32;
}

/* hmask[32], q[64], scales[12], d f16 -> ql[128], qh[64], scales int8[16], d f16. Code i: two bits of q, and 4 taken off
 * where its bit in hmask is not set; Q6_K takes 32 off. */
static void recode_q3_k(const uint8_t *b, uint8_t *out)
{
    memset(out, 0, 192);
    for (int k = 0; k < 16; k++)
        out[192 + k] = (uint8_t)q3_k_scale(b + 96, k);
    memcpy(out + 208, b + 108, 2);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, quarter = i % 128 / 32, at = i % 32;
        int code = b[32 + 32 * half + at] >> 2 * quarter & 3;
        code += (b[at] >> i / 32 & 1 ? 0 : -4) + 32;
        out[64 * half + 32 * (quarter & 1) + at] |= (uint8_t)((code & 15) << 4 * (quarter >> 1));
        out[128 + 32 * half + at] |= (uint8_t)(code >> 4 << 2 * quarter);
    }
}

/* q[16]: low nibbles are elements 0..15, high ones 16..31 */
static void look_up(const int8_t level[16], const uint8_t *q, uint8_t *out)
{
    for (int i = 0; i < 16; i++) {
        out[i] = (uint8_t)level[q[i] & 15];
        out[i + 16] = (uint8_t)level[q[i] >> 4];
    }
}

/* d f16, q[16] */
static void recode_iq4_nl(const uint8_t *b, uint8_t *out)
{
    memcpy(out, b, 2);
    look_up(nonlinear, b + 2, out + 2);
}

/* d f16, high bits of 8 scales u16, low nibbles of 8 scales [4], q[128]: 8 parts of 32 */
static void recode_iq4_xs(const uint8_t *b, uint8_t *out)
{
    uint16_t d, high;
    memcpy(&d, b, 2);
    memcpy(&high, b + 2, 2);
    for (int j = 0; j < 8; j++, out += 36) {
        int scale = ((b[4 + j / 2] >> 4 * (j & 1) & 15) | (high >> 2 * j & 3) << 4) - 32;
        float part = qr_f16_to_f32(d) * (float)scale;
        memcpy(out, &part, 4);
        look_up(nonlinear, b + 8 + 16 * j, out + 4);
    }
}

/* e u8, q[16]: half of 2^(e - 127), which for e of 0 and 1 is no normal fp32 number */
static void recode_mxfp4(const uint8_t *b, uint8_t *out)
{
    uint32_t bits = b[0] < 2 ? (uint32_t)0x00200000 << b[0] : (uint32_t)(b[0] - 1) << 23;
    memcpy(out, &bits, 4);
    look_up(e2m1, b + 1, out + 4);
}

/* d bf16, E4M3[32] */
static void recode_fp8(const uint8_t *b, uint8_t *out)
{
    memset(out, 0, 2);
    memcpy(out + 2, b, 2);
    memcpy(out + 4, b + 2, 32);
}

void qr_recode(enum qr_dtype type, const uint8_t *block, uint8_t *out)
{
    if (type == QR_Q3_K)
        recode_q3_k(block, out);
    else if (type == QR_IQ4_NL)
        recode_iq4_nl(block, out);
    else if (type == QR_IQ4_XS)
        recode_iq4_xs(block, out);
    else if (type == QR_FP8)
        recode_fp8(block, out);
    else
        recode_mxfp4(block, out);
}

/* 4 bits of exponent with bias 7, 3 of fraction: moved to fp32's places, the bias is made good by a product, which also
 * brings subnormal numbers to their value. */
float qr_f8_e4m3_to_f32(uint8_t code)
{
    uint32_t bits = (uint32_t)(code & 0x7f) << 20;
    float f;
    memcpy(&f, &bits, 4);
    f *= 0x1p120f;
    if ((code & 0x7f) == 0x7f)
        f = __builtin_nanf("");
    return code & 0x80 ? -f : f;
}
