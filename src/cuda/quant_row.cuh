// quant_row.cuh - one weight out of a quantised matrix (quant.h), as EMBED needs it: the number of base/dequant.c, operation by operation.
#pragma once
#include <cuda_fp16.h>
#include "cuda/quant.h"

static __device__ inline float half_at(const uint8_t *p)
{
    return __half2float(*(const __half *)p);
}

// An E4M3 number and the byte's place in a pair: quant.h.
static __device__ inline float e4m3_of(uint16_t both, int second)
{
    uint32_t bits = second ? (both << 4 & 0x80F0) | (both >> 4 & 0x0700) : both & 0x87F0;
    return __uint_as_float(bits << 16); // 2^-120 times
}

template <qr_cu_quant TYPE> static __device__ inline float weight_at(const uint8_t *strip, int units, int r, int c)
{
    const int unit = c / 64, block = c % 64 / 32, lane = r / 2 * 4 + c % 8 / 2, row = r % 2, part = c % 32 / 8;
    const uint8_t *code = strip + (size_t)unit * QR_CU_CODE_BYTES(TYPE) + lane * 16;
    const uint8_t *scales = strip + (size_t)units * QR_CU_CODE_BYTES(TYPE) + (size_t)unit * QR_CU_SCALE_BYTES(TYPE);
    const uint8_t *scale = scales + (r / 2 * 4 + block * 2 + row) * (QR_CU_SCALE_BYTES(TYPE) / 32);
    const uint8_t *supers = strip + (size_t)units * (QR_CU_CODE_BYTES(TYPE) + QR_CU_SCALE_BYTES(TYPE)) +
                            unit / QR_CU_SUPER_UNITS(TYPE) * QR_CU_SUPER_BYTES(TYPE);
    if (TYPE == QR_CU_E4M3) {
        uint16_t both = *(const uint16_t *)(code + block * 512 + (part / 2 * 2 + row) * 4 + c % 2 * 2);
        return __fmul_rn(e4m3_of(both, part % 2), __uint_as_float((uint32_t) * (const uint16_t *)scale << 16));
    }
    if (TYPE == QR_CU_Q8_0 || TYPE == QR_CU_Q6_K) {
        int q = code[block * 512 + (part / 2 * 2 + row) * 4 + part % 2 * 2 + c % 2];
        if (TYPE == QR_CU_Q8_0)
            return __fmul_rn((float)(q - 128), half_at(scale));
        float s = __fmul_rn(half_at(supers + r * 2), (float)((int)scale[part / 2] - 128));
        return __fmul_rn(s, (float)(q - 32));
    }
    int q = code[(block * 2 + row) * 4 + c % 2 * 2 + part / 2] >> part % 2 * 4 & 15;
    if (TYPE == QR_CU_Q4_0)
        return __fmul_rn(half_at(scale), (float)(q - 8));
    if (TYPE == QR_CU_Q4_1)
        return __fadd_rn(__fmul_rn(half_at(scale), (float)q), half_at(scale + 2));
    const uint8_t *of = supers + r * 4;
    float d = __fmul_rn(half_at(of), (float)scale[0]), m = __fmul_rn(half_at(of + 2), (float)scale[1]);
    return __fsub_rn(__fmul_rn(d, (float)q), m);
}
