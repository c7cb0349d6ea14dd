// linear_quant.cuh - what the kernels of LINEAR on quantised weights share (linear_quant.cu chooses among them).
#pragma once
#include "cuda/linear_small.cuh"
#include "cuda/quant.cuh"

struct quant_args {
    packed_weight w; // tiles: the strips; rows a multiple of 16
    size_t strip_bytes;
    const __nv_bfloat16 *x; // [T, K]
    float *y;
    float *work;     // [cuts, T, w.rows]
    unsigned *count; // [w.rows / 16]
    const float *bias;
    int tokens, rows, y_stride; // rows of y
    int token_bytes, depth;     // linear_quant_ring: shared memory of the tokens, groups in a ring
};

// N neighbours of y, from row on, as many as there are.
template <int N> static __device__ inline void store(const quant_args &p, int token, int row, const float (&v)[N])
{
    float *y = p.y + (size_t)token * p.y_stride + row;
#pragma unroll
    for (int i = 0; i < N; i++)
        if (row + i < p.rows)
            y[i] = p.bias ? v[i] + p.bias[row + i] : v[i];
}

// x[0 .. T, k_first .. k_last] as B operands: [k16][N8][lane] of 8 bytes.
template <int N8> static __device__ inline void stage(uint32_t *to, const quant_args &p, int k_first, int k_last)
{
    int pieces = (k_last - k_first) / 8;
#pragma unroll 4
    for (int i = threadIdx.x; i < pieces * N8 * 8; i += blockDim.x) {
        int token = i / pieces, at = i % pieces;
        uint4 v = make_uint4(0, 0, 0, 0);
        if (token < p.tokens)
            v = *(const uint4 *)(p.x + (size_t)token * p.w.k + k_first + at * 8);
        uint32_t *d = to + ((at / 2 * N8 + token / 8) * 32 + token % 8 * 4) * 2 + at % 2;
        d[0] = v.x;
        d[2] = v.y;
        d[4] = v.z;
        d[6] = v.w;
    }
}
