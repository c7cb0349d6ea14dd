// quant.cuh - a quantised weight (quant.h) as operands of mma.m16n8k16, in registers.
//
// A weight's value is round_bf16(round_fp32(scale code + offset)), by one FFMA. Its code becomes fp32 without an integer conversion:
// - 4 bits, where they stand in a half of a word: the subnormal f16 number code 2^-24 (or 2^-20), which the conversion to fp32 takes as
//   it is; the scale is 2^24 (2^20) times as large.
// - a byte of Q8_0 under the exponent of 2^15: 2^15 + code + 128; the FFMA takes off (2^15 + 128) d, which fits in fp32: 257 d.
// - a byte of Q6_K, below 64, likewise: 128 + code, of which 160 scales are taken off.
// - FP8: where its bits lie they are a bf16 number, 2^-120 times its own, subnormal ones included, and so is the other of the 16 bits after two
//   shifts; one fma with d 2^120 in bf16 gives the product, which fp32 holds exactly, rounded once.
// All but the last rounding are exact, so the numbers are those of base/dequant.c (but for the sign of zero, which no sum shows).
#pragma once
#include <cuda_fp16.h>
#include "cuda/ptx.cuh"
#include "cuda/quant.h"

constexpr float CODE_SCALE = 0x1p24f; // of the lower 4 bits of a byte

static __device__ inline float half_lo(uint32_t two)
{
    return __half2float(__ushort_as_half((unsigned short)(two & 0xFFFF)));
}
static __device__ inline float half_hi(uint32_t two)
{
    return __half2float(__ushort_as_half((unsigned short)(two >> 16)));
}

// Units that are copied together: at most those of a super block. In shared memory: their codes, scales, the super block.
template <qr_cu_quant TYPE> struct quant_group {
    static constexpr int units = 2048 / QR_CU_CODE_BYTES(TYPE);
    static constexpr int codes = units * QR_CU_CODE_BYTES(TYPE), scales = units * QR_CU_SCALE_BYTES(TYPE);
    static constexpr int bytes = codes + scales + QR_CU_SUPER_BYTES(TYPE);
    static_assert(scales <= 512, "a warp copies 512 bytes at once");
    static_assert(units == QR_CU_SUPER_UNITS(TYPE) || QR_CU_SUPER_BYTES(TYPE) == 0, "with its super block");
};

// Where the next group of a strip lies, for a lane: its 16 bytes of codes and scales.
template <qr_cu_quant TYPE> struct quant_source {
    using group = quant_group<TYPE>;
    const uint8_t *code, *scale, *super;

    // The first group of a strip of `all` units; a strip is below 2^31 bytes.
    __device__ void set(const uint8_t *strip, int all, int lane)
    {
        code = strip + lane * 16;
        scale = code + all * QR_CU_CODE_BYTES(TYPE);
        super = scale + all * QR_CU_SCALE_BYTES(TYPE);
    }
    // Its first n units, and on to the next.
    __device__ void copy(uint8_t *to, int n, int lane)
    {
        const int at = lane * 16;
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (i * 512 < n * QR_CU_CODE_BYTES(TYPE))
                copy_16(to + i * 512 + at, code + i * 512);
        if (at < n * QR_CU_SCALE_BYTES(TYPE))
            copy_16(to + group::codes + at, scale);
        if (lane < QR_CU_SUPER_BYTES(TYPE) / 16)
            copy_16(to + group::codes + group::scales + at, super);
        code += group::codes;
        scale += group::scales;
        super += QR_CU_SUPER_BYTES(TYPE);
    }
};

// Q4_K: d, dmin of a lane's two rows over 256 columns; Q6_K: d of both in the first word, over 128.
template <qr_cu_quant TYPE> struct super_words {
    uint32_t word[2];

    static __device__ super_words read(const uint8_t *from, int lane)
    {
        super_words r;
        if (TYPE == QR_CU_Q6_K)
            r.word[0] = *(const uint32_t *)(from + lane / 4 * 4);
        else
            *(uint2 *)r.word = *(const uint2 *)(from + lane / 4 * 8);
        return r;
    }
};

// The same as they are wanted below, and what takes off again that times 128 (Q6_K: 2^15 + 128).
template <qr_cu_quant TYPE> struct quant_super {
    float d[2], d_base[2], m[2], m_base[2];

    __device__ void set(const super_words<TYPE> &from)
    {
#pragma unroll
        for (int row = 0; row < 2; row++) {
            if (TYPE == QR_CU_Q6_K) {
                d[row] = row ? half_hi(from.word[0]) : half_lo(from.word[0]);
                d_base[row] = d[row] * -(0x1p15f + 128);
            } else {
                d[row] = half_lo(from.word[row]) * CODE_SCALE;
                m[row] = -half_hi(from.word[row]);
                d_base[row] = -128 * d[row];
                m_base[row] = -128 * m[row];
            }
        }
    }
};

// A lane's part of a unit of 64 columns.
template <qr_cu_quant TYPE> struct quant_unit {
    static constexpr int words = QR_CU_CODE_BYTES(TYPE) / 512;
    static constexpr int scales = TYPE == QR_CU_Q4_1 ? 4 : 2;
    uint4 code[words];
    uint32_t scale[scales];

    // Unit base + i of a strip of `units`; i is a constant where base is the same for several.
    __device__ void load(const uint8_t *strip, int units, int base, int i, int lane)
    {
        const uint8_t *from = strip + base * QR_CU_CODE_BYTES(TYPE) + lane * 16;
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

    // codes, of: where the unit's begin, in memory of any kind.
    __device__ void read(const uint8_t *codes, const uint8_t *of, int lane)
    {
#pragma unroll
        for (int w = 0; w < words; w++)
            code[w] = *(const uint4 *)(codes + w * 512 + lane * 16);
        of += lane / 4 * (QR_CU_SCALE_BYTES(TYPE) / 8);
        if (scales == 4)
            *(uint4 *)scale = *(const uint4 *)of;
        else
            *(uint2 *)scale = *(const uint2 *)of;
    }
};

// Scale (times CODE_SCALE) and offset of a row's block of 4-bit codes. d (128 + s) - 128 d is d s: exact.
template <qr_cu_quant TYPE>
static __device__ inline void scale_of(const quant_unit<TYPE> &u, const quant_super<TYPE> &super, int block, int row,
                                       float &scale, float &offset)
{
    if (TYPE == QR_CU_Q4_K) {
        uint32_t two = u.scale[block];
        float s = __uint_as_float(__byte_perm(two, 0x43000000, row ? 0x7244 : 0x7044));
        float b = __uint_as_float(__byte_perm(two, 0x43000000, row ? 0x7344 : 0x7144));
        scale = __fmaf_rn(super.d[row], s, super.d_base[row]);
        offset = __fmaf_rn(super.m[row], b, super.m_base[row]);
    } else if (TYPE == QR_CU_Q4_1) {
        uint32_t two = u.scale[(block * 2 + row) % quant_unit<TYPE>::scales];
        scale = half_lo(two) * CODE_SCALE;
        offset = half_hi(two);
    } else {
        float d = row ? half_hi(u.scale[block]) : half_lo(u.scale[block]);
        scale = d * CODE_SCALE;
        offset = -8 * d;
    }
}

// The A operands of a unit's four tiles.
template <qr_cu_quant TYPE>
static __device__ inline void operands(const quant_unit<TYPE> &u, const quant_super<TYPE> &super, uint32_t (&a)[4][4])
{
#pragma unroll
    for (int block = 0; block < 2; block++)
#pragma unroll
        for (int row = 0; row < 2; row++) {
            if (TYPE == QR_CU_Q6_K) {
                const uint4 &v = u.code[block % quant_unit<TYPE>::words];
#pragma unroll
                for (int tile = 0; tile < 2; tile++) {
                    uint32_t w = tile ? (row ? v.w : v.z) : (row ? v.y : v.x);
                    float of = __uint_as_float(__byte_perm(u.scale[block], 0x47000000, 0x7404 | (row * 2 + tile) << 4));
                    float scale = __fmaf_rn(super.d[row], of, super.d_base[row]), c = scale * -160, f[4];
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        f[i] = __fmaf_rn(scale, __uint_as_float(__byte_perm(w, 0x43000000, 0x7044 | i << 8)), c);
                    a[block * 2 + tile][row] = pack_bf16(f[0], f[1]);
                    a[block * 2 + tile][row + 2] = pack_bf16(f[2], f[3]);
                }
            } else if (TYPE == QR_CU_E4M3) {
                const uint32_t d = __byte_perm(u.scale[block], 0, row ? 0x3232 : 0x1010);
                const uint4 &v = u.code[block % quant_unit<TYPE>::words];
#pragma unroll
                for (int tile = 0; tile < 2; tile++) {
                    const uint32_t w = tile ? (row ? v.w : v.z) : (row ? v.y : v.x);
                    a[block * 2 + tile][row] = mul_bf16(w & 0x87F087F0u, d);
                    a[block * 2 + tile][row + 2] = mul_bf16((w << 4 & 0x80F080F0u) | (w >> 4 & 0x07000700u), d);
                }
            } else if (TYPE == QR_CU_Q8_0) {
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
                uint32_t low = block ? (row ? v.w : v.z) : (row ? v.y : v.x);
                const float scales[2] = {scale, scale * 0.0625f};
                const uint32_t high = low >> 8;
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const uint32_t two = (i < 2 ? low : high) & 0x000F000Fu << 4 * (i % 2);
                    a[block * 2 + i / 2][row + i % 2 * 2] = pack_bf16(__fmaf_rn(scales[i % 2], half_lo(two), offset),
                                                                      __fmaf_rn(scales[i % 2], half_hi(two), offset));
                }
            }
        }
}
