// decode_quads.cuh - quantised weights in the persistent kernel: what a piece of them is, and their units' products.
//
// A piece is a run of quads (quant.h's units: four tiles) of a strip: codes, then scales, then the super blocks that they touch, which
// lie apart in the strip and so are copied apart; in a slot scales and supers have places of their own for each type. Warps unpack
// them in registers, as the kernels of LINEAR do, and multiply in the same order: the bits are those of graphs.
#pragma once
#include "cuda/decode_math.cuh"
#include "cuda/quant.cuh"

#if __CUDA_ARCH__ >= 900
// A lane's part of a quad, until it is multiplied; and of a matrix that became bf16, whose tiles need nothing.
template <qr_cu_quant TYPE> struct quad_codes {
    quant_unit<TYPE> unit;
    super_words<TYPE> super;

    __device__ __forceinline__ void operands_of(uint4 (&a)[4]) const
    {
        quant_super<TYPE> of;
        uint32_t w[4][4];
        if (QR_CU_SUPER_BYTES(TYPE))
            of.set(super);
        operands<TYPE>(unit, of, w);
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[i] = make_uint4(w[i][0], w[i][1], w[i][2], w[i][3]);
    }
};
template <> struct quad_codes<QR_CU_NO_QUANT> {
    uint4 tile[4];

    __device__ __forceinline__ void operands_of(uint4 (&a)[4]) const
    {
#pragma unroll
        for (int i = 0; i < 4; i++)
            a[i] = tile[i];
    }
};

// One unit, as unit_math has it: `quads` quads in chains of `chain`, a chain in pieces of `most`. first: the unit's first quad in its
// strip.
//
// Unpacking takes most of a warp's turns, so nothing else may: a lane without a token of its own multiplies another's, whose sums
// nobody reads, and places within a piece are constants.
template <qr_cu_quant TYPE> struct quad_math {
    static constexpr int SUPER_UNITS = QR_CU_SUPER_UNITS(TYPE), CODE = TYPE ? QR_CU_CODE_BYTES(TYPE) : 2048,
                         SCALE = TYPE ? QR_CU_SCALE_BYTES(TYPE) : 0, MOST = QR_DECODE_QUADS(TYPE);
    const ring &r;
    int lane;
    const uint32_t *x;
    int n_token;

    // What is loaded: of the piece, and the tokens that belong to it.
    struct place {
        const char *code, *scale, *super;
        const uint32_t *token;
        int quad; // how far behind the beginning of the first super block
    };
    struct operand {
        quad_codes<TYPE> codes;
        uint2 b[4];
    };

    __device__ __forceinline__ void load(const place &p, int i, operand &to) const
    {
        const char *code = p.code + i * CODE;
        if constexpr (TYPE == QR_CU_NO_QUANT) {
#pragma unroll
            for (int t = 0; t < 4; t++)
                to.codes.tile[t] = *(const uint4 *)(code + t * 512);
        } else {
            to.codes.unit.read((const uint8_t *)code, (const uint8_t *)(p.scale + i * SCALE), 0);
            if (QR_CU_SUPER_BYTES(TYPE))
                to.codes.super = super_words<TYPE>::read(
                    (const uint8_t *)p.super + (p.quad + i) / SUPER_UNITS * QR_CU_SUPER_BYTES(TYPE), lane);
        }
#pragma unroll
        for (int t = 0; t < 4; t++)
            to.b[t] = *(const uint2 *)(p.token + (i * 4 + t) * n_token * 8);
    }
    static __device__ __forceinline__ void multiply(const operand &o, float (&acc)[4])
    {
        uint4 a[4];
        o.codes.operands_of(a);
#pragma unroll
        for (int t = 0; t < 4; t++)
            mma_bf16(acc, a[t], o.b[t].x, o.b[t].y);
    }
    __device__ __forceinline__ void give_back(ring_place at) const
    {
        give_back_slot(&r.s->empty[at.slot], lane);
    }
    // n quads of a piece, each loaded while the one before is multiplied.
    __device__ __forceinline__ void run_piece(ring_place at, place p, int n, float (&acc)[4]) const
    {
        operand a;
        load(p, 0, a);
#pragma unroll 1
        for (; n > 2; n -= 2) {
            operand b;
            load(p, 1, b);
            multiply(a, acc);
            load(p, 2, a);
            multiply(b, acc);
            p.code += 2 * CODE;
            p.scale += 2 * SCALE;
            p.quad += 2;
            p.token += 8 * n_token * 8;
        }
        if (n == 2) {
            operand b;
            load(p, 1, b);
            give_back(at);
            multiply(a, acc);
            multiply(b, acc);
        } else {
            give_back(at);
            multiply(a, acc);
        }
    }
    __device__ __forceinline__ void run(ring_place at, int step, int first, int quads, int most, int chain,
                                        float (&sum)[4]) const
    {
        const uint32_t *token = x + lane % 4 * 2 + min(lane / 4, n_token - 1) * 8;
        float acc[4] = {0, 0, 0, 0};
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[e] = -0.0f;
#pragma unroll 1
        for (int left = opaque(chain);;) {
            const int n = min(opaque(most), left);
            await_piece(r, at);
            const char *slot = r.slot + at.slot * SLOT;
            run_piece(at,
                      {slot + lane * 16, slot + MOST * CODE + lane / 4 * (SCALE / 8), slot + MOST * (CODE + SCALE),
                       token, first % SUPER_UNITS},
                      n, acc);
            token += n * 4 * n_token * 8;
            first += n;
            quads -= n;
            left -= n;
            if (left == 0) {
                left = chain;
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    sum[e] += acc[e];
                    acc[e] = 0;
                }
            }
            if (quads == 0)
                break;
            at = behind(r, at, step);
        }
    }
};

// By the type of the stage's matrix. All ways stand in the kernel; only those of the model's types run.
static __device__ __forceinline__ void run_quads(const ring &r, int lane, const uint32_t *x, int n_token,
                                                 const qr_decode_matrix &m, ring_place at, int step, int first,
                                                 int quads, float (&sum)[4])
{
    const int chain = m.chain / 4, most = m.quads;
#define RUN(TYPE)                                                                                                      \
    case TYPE:                                                                                                         \
        quad_math<TYPE>{r, lane, x, n_token}.run(at, step, first, quads, most, chain, sum);                            \
        break
    switch (m.type) {
        RUN(QR_CU_E4M3);
        RUN(QR_CU_Q8_0);
        RUN(QR_CU_Q4_0);
        RUN(QR_CU_Q4_1);
        RUN(QR_CU_Q4_K);
        RUN(QR_CU_Q6_K);
    default:
        quad_math<QR_CU_NO_QUANT>{r, lane, x, n_token}.run(at, step, first, quads, most, chain, sum);
    }
#undef RUN
}
#endif
