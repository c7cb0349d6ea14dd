// linear_small.cuh - y[T, rows] = x[T, K] W^T for a few tokens: mma.sync, weights from memory straight to registers.
//
// Bytes: rows * K * 2 of weights, each read once with 16-byte loads that are their own A operand (packed.cuh), so nothing is
// shuffled or staged; the T * K * 2 bytes of x lie in shared memory as B operands. One warp runs one chain (16 rows x one cut).
// WHOLE: a warp runs all chains of its 16 rows and adds them. Otherwise chains spread over all warps, and the one that ends last
// adds them, again from left to right. Both give the bits of linear_large.cuh.
#pragma once
#include "cuda/packed.cuh"

struct linear_args {
    packed_weight w;
    const __nv_bfloat16 *x; // [T, K]
    float *y;               // [T, rows]; for linear_small.cuh rows may lie y_stride apart
    float *work;            // [cuts, T, rows], unless WHOLE
    unsigned *count;        // [rows / 16] (large: by tile), zero before and after
    int tokens;
    const float *bias = nullptr;    // [rows], and
    const float *add = nullptr;     // [T, rows]: y = (x W^T + bias) + add, each where there is one; y may be add
    __nv_bfloat16 *gated = nullptr; // [T, rows / 2]: silu(first half of the rows) * second half, in place of y
    int y_stride = 0;               // floats from token to token of y and add; 0: rows

    __device__ size_t y_at(int token, int row) const
    {
        return (size_t)token * (y_stride ? y_stride : w.rows) + row;
    }
};

// What becomes of finished sums at y + at, rows row, row + 1 (+ 2, + 3).
static __device__ inline float2 finish(const linear_args &p, size_t at, int row, float2 v)
{
    if (p.bias) {
        float2 b = *(const float2 *)(p.bias + row);
        v = make_float2(v.x + b.x, v.y + b.y);
    }
    if (p.add) {
        float2 r = *(const float2 *)(p.add + at);
        v = make_float2(v.x + r.x, v.y + r.y);
    }
    return v;
}
static __device__ inline float4 finish(const linear_args &p, size_t at, int row, float4 v)
{
    float2 a = finish(p, at, row, make_float2(v.x, v.y)), b = finish(p, at + 2, row + 2, make_float2(v.z, v.w));
    return make_float4(a.x, a.y, b.x, b.y);
}

constexpr int SMALL_AHEAD = 8;            // tiles of 512 bytes a warp's load takes; two loads are in flight
constexpr int SMALL_L2_AHEAD = 12 * 1024; // bytes a warp asks for before it waits for the kernel before

// Chains of a block: WHOLE by rows, else cut by cut, so that a block needs few cuts of x.
struct chain_range {
    int first, last, k_first, k_last;
};

template <bool WHOLE>
static __host__ __device__ inline chain_range chains_of(const packed_weight &w, int block, int blocks)
{
    int strips = w.rows / 16, total = WHOLE ? strips : strips * w.cuts, per_cut = w.k / w.cuts;
    chain_range r;
    r.first = (int)((long)total * block / blocks);
    r.last = (int)((long)total * (block + 1) / blocks);
    r.k_first = WHOLE ? 0 : r.first / strips * per_cut;
    r.k_last = WHOLE ? w.k : ((r.last - 1) / strips + 1) * per_cut;
    return r;
}

// Four neighbours of a token's y from all cuts in `work`, from left to right; AHEAD loads go ahead of the sums.
template <int AHEAD> static __device__ inline void add_cuts(const linear_args &p, int token, int row)
{
    const size_t stride = (size_t)p.tokens * p.w.rows, from = (size_t)token * p.w.rows + row, at = p.y_at(token, row);
    float4 sum = make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
    for (int c = 0; c < p.w.cuts; c += AHEAD) {
        float4 v[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (c + i < p.w.cuts)
                v[i] = __ldcg((const float4 *)(p.work + (c + i) * stride + from));
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            if (c + i < p.w.cuts)
                sum = make_float4(sum.x + v[i].x, sum.y + v[i].y, sum.z + v[i].z, sum.w + v[i].w);
    }
    *(float4 *)(p.y + at) = finish(p, at, row, sum);
}

// x[0 .. T, k_first .. k_last] as B operands: [k16][N8][lane] of 8 bytes (k 2t, 2t+1 and 2t+8, 2t+9 of token g).
template <int N8>
static __device__ inline void stage_tokens(uint32_t *to, const linear_args &p, int k_first, int k_last)
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

// The chain that ends last adds those of its 16 rows.
template <int N8>
static __device__ inline void add_chains(const linear_args &p, int strip, float (&acc)[N8][4], int cut)
{
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, T = p.tokens;
    size_t rows = p.w.rows, at = (size_t)strip * 16;
#pragma unroll
    for (int n = 0; n < N8; n++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (n * 8 + 2 * t + i < T)
                __stcg((float2 *)(p.work + ((size_t)cut * T + n * 8 + 2 * t + i) * rows + at) + g,
                       make_float2(acc[n][i], acc[n][i + 2]));
    __threadfence();
    unsigned before = 0;
    __syncwarp();
    if (lane == 0)
        before = atomicAdd(p.count + strip, 1);
    before = __shfl_sync(~0u, before, 0);
    if (before != (unsigned)p.w.cuts - 1)
        return;
    __threadfence();
    if (lane == 0)
        p.count[strip] = 0;
    for (int i = lane; i < 4 * T; i += 32)
        add_cuts<8>(p, i / 4, (int)at + i % 4 * 4);
}

template <int N8, bool WHOLE> __global__ void __launch_bounds__(512) linear_small(const __grid_constant__ linear_args p)
{
    extern __shared__ __align__(16) uint32_t tokens[];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warps = blockDim.x / 32;
    const int strips = p.w.rows / 16, tiles = p.w.k / 16, chain = tiles / p.w.cuts;
    const chain_range r = chains_of<WHOLE>(p.w, blockIdx.x, gridDim.x);
    struct place {
        int unit, cut, tile;
    } next = {r.first + (int)threadIdx.x / 32, 0, 0}, now;

    auto strip_of = [&](const place &at) { return WHOLE ? at.unit : at.unit % strips; };
    auto cut_of = [&](const place &at) { return WHOLE ? at.cut : at.unit / strips; };
    auto load = [&](uint4(&a)[SMALL_AHEAD]) {
        if (next.unit >= r.last)
            return;
        const uint4 *from = p.w.tiles + ((size_t)strip_of(next) * tiles + cut_of(next) * chain + next.tile) * 32 + lane;
#pragma unroll
        for (int i = 0; i < SMALL_AHEAD; i++) // past the end: zeros, which leave the sum as it is
            a[i] = next.tile + i < chain ? load_stream(from + i * 32) : make_uint4(0, 0, 0, 0);
        next.tile += SMALL_AHEAD;
        if (next.tile < chain)
            return;
        next.tile = 0;
        if (!WHOLE || ++next.cut == p.w.cuts) {
            next.cut = 0;
            next.unit += warps;
        }
    };
    float acc[N8][4] = {}, sum[N8][4];
    auto multiply = [&](const uint4(&a)[SMALL_AHEAD]) {
        int step = (cut_of(now) * chain + now.tile) - r.k_first / 16, left = chain - now.tile;
#pragma unroll
        for (int i = 0; i < SMALL_AHEAD; i++)
#pragma unroll
            for (int n = 0; n < N8; n++) {
                uint2 b = make_uint2(0, 0);
                if (i < left && n * 8 + g < p.tokens)
                    b = *(const uint2 *)(tokens + (((step + i) * N8 + n) * 32 + lane) * 2);
                mma_bf16(acc[n], a[i], b.x, b.y);
            }
        if (left > SMALL_AHEAD)
            return;
        if (WHOLE) {
#pragma unroll
            for (int n = 0; n < N8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    sum[n][i] = (now.cut ? sum[n][i] : -0.0f) + acc[n][i];
            if (now.cut == p.w.cuts - 1)
#pragma unroll
                for (int n = 0; n < N8; n++)
#pragma unroll
                    for (int i = 0; i < 2; i++)
                        if (n * 8 + 2 * t + i < p.tokens) {
                            int row = now.unit * 16 + 2 * g;
                            size_t at = p.y_at(n * 8 + 2 * t + i, row);
                            *(float2 *)(p.y + at) = finish(p, at, row, make_float2(sum[n][i], sum[n][i + 2]));
                        }
        } else {
            add_chains<N8>(p, strip_of(now), acc, cut_of(now));
        }
#pragma unroll
        for (int n = 0; n < N8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                acc[n][i] = 0;
    };
    // Weights do not depend on the kernel before: registers, and L2 for what comes next, fill while it ends.
    uint4 a0[SMALL_AHEAD], a1[SMALL_AHEAD];
    let_next_start();
    now = next;
    load(a0);
    place then = next;
    load(a1);
    if (next.unit < r.last) {
        const char *from =
            (const char *)(p.w.tiles + ((size_t)strip_of(next) * tiles + cut_of(next) * chain + next.tile) * 32);
        for (int i = lane * 128; i < min(SMALL_L2_AHEAD, (chain - next.tile) * 512); i += 32 * 128)
            prefetch_l2(from + i);
    }
    wait_for_previous();
    stage_tokens<N8>(tokens, p, r.k_first, r.k_last);
    __syncthreads();
    while (now.unit < r.last) {
        multiply(a0);
        now = then;
        then = next;
        load(a0);
        if (now.unit >= r.last)
            break;
        multiply(a1);
        now = then;
        then = next;
        load(a1);
    }
}
