// linear_gate.cuh - the epilogue of gate and up: y16 = silu(gate) * up in bf16, in place of two fp32 results.
//
// Of the 64 rows of a warpgroup the first two warps have 32 of the gate, the other two the same 32 of up. Warps w and w + 2 give
// each other half of their tokens through shared memory, 16 values a lane at a time, so that each ends with both of a row for
// the half that it keeps. What a result was in fp32 it is here too; rounding is SILU_MUL's (rows.cu).
#pragma once
#include "cuda/launch.cuh"
#include "cuda/linear_small.cuh"

constexpr int GATE_BOX = 16 * 32 * 4; // bytes of a warp's box; with two a warp one barrier a piece is enough

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// One piece: `own` of this warp's rows at the tokens that it keeps, `in` the other's.
template <bool UP>
static __device__ inline void store_gated_piece(const linear_args &p, const float (&own)[16], const float (&in)[16],
                                                int token, int row)
{
    const int rows = p.w.rows / 2;
#pragma unroll
    for (int i = 0; i < 16; i += i % 2 ? 3 : 1) {
        float a = UP ? in[i] : own[i], b = UP ? in[i + 2] : own[i + 2];
        float u = UP ? own[i] : in[i], v = UP ? own[i + 2] : in[i + 2];
        int at = token + i / 4 * 8 + i % 2;
        if (at < p.tokens && row < rows)
            *(uint32_t *)(p.gated + (size_t)at * rows + row) = pack_bf16(silu(a) * u, silu(b) * v);
    }
}

template <int BOXES, bool UP, int VALUES>
static __device__ inline void store_gated_half(const linear_args &p, const float (&d)[VALUES], int first, int row,
                                               char *boxes, int &turn)
{
    constexpr int HALF = VALUES / 2, KEPT = UP ? HALF : 0, GIVEN = HALF - KEPT;
    const int warp = threadIdx.x / 32 - 4, lane = threadIdx.x % 32, pair = 2 + warp / 4 * 2 + warp % 2;
    float bias[2] = {-0.0f, -0.0f}; // leaves any sum as it is
    if (p.bias && row < p.w.rows / 2) {
        const float *from = p.bias + (UP ? p.w.rows / 2 : 0) + row + lane / 4 * 2;
        bias[0] = from[0], bias[1] = from[1];
    }
#pragma unroll
    for (int piece = 0; piece < HALF; piece += 16) {
        float own[16], in[16];
        float4 *mine = (float4 *)(boxes + (warp * BOXES + turn) * GATE_BOX) + lane,
               *theirs = (float4 *)(boxes + ((warp ^ 2) * BOXES + turn) * GATE_BOX) + lane;
#pragma unroll
        for (int i = 0; i < 16; i++) { // i / 2 % 2: of rows 2g, 2g + 1
            own[i] = d[KEPT + piece + i] + bias[i / 2 % 2];
            in[i] = d[GIVEN + piece + i] + bias[i / 2 % 2];
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            theirs[i * 32] = make_float4(in[i * 4], in[i * 4 + 1], in[i * 4 + 2], in[i * 4 + 3]);
        meet(pair, 64);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float4 v = mine[i * 32];
            in[i * 4] = v.x, in[i * 4 + 1] = v.y, in[i * 4 + 2] = v.z, in[i * 4 + 3] = v.w;
        }
        if (BOXES == 1)
            meet(pair, 64);
        else
            turn ^= 1;
        store_gated_piece<UP>(p, own, in, first + (KEPT + piece) * 2 + lane % 4 * 2, row + lane / 4 * 2);
    }
}

// d: as wgmma leaves 64 rows x 2 VALUES tokens, from token `first` on; row: the warp's first, of the gate.
template <int BOXES, int VALUES>
static __device__ inline void store_gated(const linear_args &p, const float (&d)[VALUES], int first, int row,
                                          char *boxes, int &turn)
{
    if (threadIdx.x / 32 % 4 >= 2)
        store_gated_half<BOXES, true>(p, d, first, row, boxes, turn);
    else
        store_gated_half<BOXES, false>(p, d, first, row, boxes, turn);
}
#endif
