// quant.cuh - a quantised weight (quant.h) as operands of mma.m16n8k16, in registers.
//
// A weight's value is round_bf16(round_fp32(scale code + offset)). Codes become fp32 without a conversion: a nibble that stands
// at bits 4i .. 4i + 3 of a word of zeros is the subnormal number code 2^(4i - 149), which FFMA takes at full speed, so one FFMA with
// a scale that is 2^(104 - 4i) times too large gives the value times 2^-45. Powers of two leave roundings alone (values are multiples
// of 2^-24, far from the ends of the range). The tokens are multiplied by 2^45 instead, which is exact below 2^82; so a product,
// and a sum, is what the converted weight gives. Q8_0: a byte under the exponent of 2^15 is 2^15 + code, and the FFMA takes the 2^15 off
// again: 257 d fits in fp32.
#pragma once
#include <cuda_fp16.h>
#include "cuda/ptx.cuh"
#include "cuda/quant.h"

// What operands() leaves out of the values, and the same for what they are multiplied with: bf16x2 of 2^45.
constexpr float QUANT_SCALE = 0x1p104f, QUANT_OFFSET = 0x1p-45f;
template <qr_cu_quant TYPE> static __device__ inline uint32_t make_up(uint32_t two)
{
    if (TYPE == QR_CU_Q8_0)
        return two;
    const uint32_t factor = 0x56005600;
    __nv_bfloat162 r = __hmul2(*(const __nv_bfloat162 *)&two, *(const __nv_bfloat162 *)&factor);
    return *(const uint32_t *)&r;
}

static __device__ inline float half_lo(uint32_t two)
{
    return __half2float(__ushort_as_half((unsigned short)(two & 0xFFFF)));
}
static __device__ inline float half_hi(uint32_t two)
{
    return __half2float(__ushort_as_half((unsigned short)(two >> 16)));
}

// A lane's part of a unit of 64 columns, as it lies in memory.
template <qr_cu_quant TYPE> struct quant_unit {
    static constexpr int words = TYPE == QR_CU_Q8_0 ? 2 : 1;
    static constexpr int scales = TYPE == QR_CU_Q4_1 ? 4 : 2;
    uint4 code[words];
    uint32_t scale[scales];

    // Unit base + i; i is a constant where base is the same for several.
    __device__ void load(const uint8_t *strip, int units, int base, int i, int lane)
    {
        const uint8_t *from = strip + base * QR_CU_CODE_BYTES(TYPE) + lane * 16; // a strip is below 2^31 bytes
        const uint8_t *of = strip + units * QR_CU_CODE_BYTES(TYPE) + base * QR_CU_SCALE_BYTES(TYPE) +
                            lane / 4 * (QR_CU_SCALE_BYTES(TYPE) / 8);
#pragma unroll
        for (int w = 0; w < words; w++)
            code[w] = load_stream(from + i * QR_CU_CODE_BYTES(TYPE) + w * 512);
        of += i * QR_CU_SCALE_BYTES(TYPE);
        if (scales == 4)
            *(uint4 *)scale = __ldg((const uint4 *)of);
        else
            *(uint2 *)scale = __ldg((const uint2 *)of);
    }
};

// Q4_K: d and dmin of a lane's two rows over 256 columns.
struct quant_super {
    uint32_t of[2];

    __device__ void load(const uint8_t *strip, int units, int unit, int lane)
    {
        const uint8_t *from = strip + units * (QR_CU_CODE_BYTES(QR_CU_Q4_K) + QR_CU_SCALE_BYTES(QR_CU_Q4_K));
        *(uint2 *)of = __ldg((const uint2 *)(from + unit / 4 * 64) + lane / 4);
    }
};

// Scale (times QUANT_SCALE) and offset (times QUANT_OFFSET) of a row's block of 4-bit codes. d (128 + s) - 128 d is d s: exact.
template <qr_cu_quant TYPE>
static __device__ inline void scale_of(const quant_unit<TYPE> &u, const quant_super &super, int block, int row,
                                       float &scale, float &offset)
{
    if (TYPE == QR_CU_Q4_K) {
        uint32_t two = u.scale[block];
        float d = half_lo(super.of[row]) * QUANT_SCALE, m = half_hi(super.of[row]) * -QUANT_OFFSET;
        float s = __uint_as_float(__byte_perm(two, 0x43000000, row ? 0x7244 : 0x7044));
        float b = __uint_as_float(__byte_perm(two, 0x43000000, row ? 0x7344 : 0x7144));
        scale = __fmaf_rn(d, s, -128 * d);
        offset = __fmaf_rn(m, b, -128 * m);
    } else if (TYPE == QR_CU_Q4_1) {
        uint32_t two = u.scale[(block * 2 + row) % quant_unit<TYPE>::scales];
        scale = half_lo(two) * QUANT_SCALE;
        offset = half_hi(two) * QUANT_OFFSET;
    } else {
        float d = row ? half_hi(u.scale[block]) : half_lo(u.scale[block]);
        scale = d * QUANT_SCALE;
        offset = d * (-8 * QUANT_OFFSET);
    }
}

// The A operands of a unit's four tiles, short of make_up.
template <qr_cu_quant TYPE>
static __device__ inline void operands(const quant_unit<TYPE> &u, const quant_super &super, uint32_t (&a)[4][4])
{
#pragma unroll
    for (int block = 0; block < 2; block++)
#pragma unroll
        for (int row = 0; row < 2; row++) {
            if (TYPE == QR_CU_Q8_0) {
                float d = row ? half_hi(u.scale[block]) : half_lo(u.scale[block]), c = d * -(0x1p15f + 128);
                const uint4 &v = u.code[block % quant_unit<TYPE>::words];
#pragma unroll
                for (int tile = 0; tile < 2; tile++) {
                    uint32_t w = tile ? (row ? v.w : v.z) : (row ? v.y : v.x);
                    float f[4];
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        f[i] = __fmaf_rn(d, __uint_as_float(__byte_perm(w, 0x47000000, 0x7404 | i << 4)), c);
                    a[block * 2 + tile][row] = pack_bf16(f[0], f[1]);
                    a[block * 2 + tile][row + 2] = pack_bf16(f[2], f[3]);
                }
            } else {
                float scale, offset;
                scale_of<TYPE>(u, super, block, row, scale, offset);
                const uint4 &v = u.code[0];
                uint32_t even = block ? (row ? v.w : v.z) : (row ? v.y : v.x), odd = even >> 16;
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    float lo = __fmaf_rn(scale, __uint_as_float(even & 0xFu << 4 * i), offset);
                    float hi = __fmaf_rn(scale, __uint_as_float(odd & 0xFu << 4 * i), offset);
                    a[block * 2 + i / 2][row + i % 2 * 2] = pack_bf16(lo, hi);
                    scale *= 0.0625f;
                }
            }
        }
}
