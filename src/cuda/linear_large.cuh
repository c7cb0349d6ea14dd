// linear_large.cuh - y[T, rows] = x[T, K] W^T for many tokens: wgmma on the same packed weights.
//
// A block takes 128 rows x N tokens. Stages of 64 k: 8 bulk copies of 2 KB bring the weights, already the A operand of each warp
// (LDS.128 to registers), one tensor copy brings N tokens with the 128-byte swizzle as B. Two warpgroups of 64 rows multiply,
// one warp copies. CUT: at the end of a chain the accumulators are added to a second set; without, K is one chain.
// SPLIT: a block takes one cut, and the last of a tile adds them. Each form gives the bits of linear_small.cuh.
#pragma once
#include "linear_small.cuh"

constexpr int LARGE_ROWS = 128, LARGE_K = 64, LARGE_THREADS = 384;
template <int N> constexpr int large_stage_bytes = (LARGE_ROWS + N) * LARGE_K * 2;
template <int N> constexpr int large_stages = N <= 64 ? 8 : (227 * 1024 - 2048) / large_stage_bytes<N>;
template <int N> constexpr int large_shared = large_stages<N> *large_stage_bytes<N> + 1024 + large_stages<N> * 16;

enum linear_form { ONE_CHAIN, CUT, SPLIT };

// The tile (row, token) and the cut of a unit. Bands of rows run over all tokens, so that what runs together shares both operands.
struct large_unit {
    int row, token, cut;
};
static __device__ inline large_unit large_unit_of(int u, int row_tiles, int token_tiles, int band)
{
    large_unit r;
    int per_cut = row_tiles * token_tiles;
    r.cut = u / per_cut;
    u %= per_cut;
    int b = u / (band * token_tiles), width = min(band, row_tiles - b * band), i = u - b * band * token_tiles;
    r.row = b * band + i % width;
    r.token = i / width;
    return r;
}

template <int N, linear_form FORM>
__global__ void __launch_bounds__(LARGE_THREADS, 1)
    linear_large(const __grid_constant__ linear_args p, const __grid_constant__ CUtensorMap map, int band)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) char raw[];
    constexpr int STAGES = large_stages<N>, A_BYTES = LARGE_ROWS * LARGE_K * 2;
    char *base = raw + (1024 - shared_u32(raw) % 1024) % 1024;
    uint64_t *full = (uint64_t *)(base + STAGES * large_stage_bytes<N>), *empty = full + STAGES;
    auto b_stage = [&](int s) { return base + s * N * LARGE_K * 2; };
    auto a_stage = [&](int s) { return base + STAGES * N * LARGE_K * 2 + s * A_BYTES; };
    const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const int row_tiles = (p.w.rows + LARGE_ROWS - 1) / LARGE_ROWS, token_tiles = (p.tokens + N - 1) / N;
    const int units = row_tiles * token_tiles * (FORM == SPLIT ? p.w.cuts : 1);
    const int chain = p.w.k / LARGE_K / p.w.cuts, stages = FORM == CUT ? chain * p.w.cuts : chain;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(full + i, 1);
            barrier_init(empty + i, 8);
        }
        barrier_init_done();
    }
    __syncthreads();
    wait_for_previous();
    if (group == 0) {
        fewer_registers<24>();
        if (warp != 0)
            return;
        int s = 0, turn = 0;
        for (int u = blockIdx.x; u < units; u += gridDim.x) {
            large_unit at = large_unit_of(u, row_tiles, token_tiles, band);
            int strips = min(8, p.w.rows / 16 - at.row * 8), k0 = FORM == SPLIT ? at.cut * chain : 0;
            const uint4 *from = p.w.tiles + ((size_t)(at.row * 8 + lane) * (p.w.k / 16) + k0 * 4) * 32;
            for (int i = 0; i < stages; i++) {
                barrier_wait(empty + s, turn & 1 ^ 1);
                if (lane == 0) {
                    barrier_expect(full + s, N * LARGE_K * 2 + strips * 2048);
                    copy_box(b_stage(s), &map, (k0 + i) * LARGE_K, at.token * N, full + s);
                }
                __syncwarp();
                if (lane < strips)
                    copy_bulk(a_stage(s) + lane * 2048, from + i * 128, 2048, full + s);
                if (++s == STAGES) {
                    s = 0;
                    turn++;
                }
            }
        }
        return;
    }
    more_registers<240>();
    const int g = lane / 4, t = lane % 4, strip = (group - 1) * 4 + warp;
    int s = 0, turn = 0;
    for (int u = blockIdx.x; u < units; u += gridDim.x) {
        large_unit at = large_unit_of(u, row_tiles, token_tiles, band);
        float acc[N / 2], sum[FORM == CUT ? N / 2 : 1];
        if (FORM == CUT)
            for (int i = 0; i < N / 2; i++)
                sum[i] = -0.0f;
        auto step = [&](bool add) {
            uint4 a[4];
            barrier_wait(full + s, turn & 1);
            const uint4 *from = (const uint4 *)a_stage(s) + strip * 128 + lane;
            for (int j = 0; j < 4; j++)
                a[j] = from[j * 32];
            uint64_t b = descriptor_swizzled(b_stage(s));
            wgmma_fence();
            for (int j = 0; j < 4; j++)
                wgmma_bf16(acc, a[j], b + j * 2, add || j);
            wgmma_commit();
            wgmma_wait<0>(); // the other warpgroup multiplies meanwhile; registers may not change under a product
            if (lane == 0)
                barrier_arrive(empty + s);
            if (++s == STAGES) {
                s = 0;
                turn++;
            }
        };
        for (int c = 0; c < stages / chain; c++) {
            for (int i = 0; i < chain; i++)
                step(i > 0);
            if (FORM == CUT)
                for (int i = 0; i < N / 2; i++)
                    sum[i] += acc[i];
        }
        int row = (at.row * 8 + strip) * 16 + g;
        size_t rows = p.w.rows;
        float *to = FORM == SPLIT ? p.work + (size_t)at.cut * p.tokens * rows : p.y;
        if ((at.row * 8 + strip) * 16 < p.w.rows)
            for (int i = 0; i < N / 2; i++) {
                int token = at.token * N + i / 4 * 8 + 2 * t + i % 2;
                if (token < p.tokens)
                    to[token * rows + row + i / 2 % 2 * 8] = FORM == CUT ? sum[i] : acc[i];
            }
        if (FORM == SPLIT) {
            __shared__ unsigned before;
            unsigned *count = p.count + at.row * token_tiles + at.token;
            __threadfence();
            meet(1, 256);
            if (threadIdx.x == 128)
                before = atomicAdd(count, 1);
            meet(1, 256);
            if (before == (unsigned)p.w.cuts - 1) {
                __threadfence();
                if (threadIdx.x == 128)
                    *count = 0;
                int many = min(N, p.tokens - at.token * N), me = threadIdx.x - 128;
                for (int i = me / 32; i < many; i += 8) {
                    int r = at.row * LARGE_ROWS + lane * 4;
                    if (r >= p.w.rows)
                        continue;
                    size_t o = (size_t)(at.token * N + i) * rows + r;
                    float4 v = make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
                    for (int c = 0; c < p.w.cuts; c++) {
                        float4 w = __ldcg((const float4 *)(p.work + (size_t)c * p.tokens * rows + o));
                        v.x += w.x;
                        v.y += w.y;
                        v.z += w.z;
                        v.w += w.w;
                    }
                    *(float4 *)(p.y + o) = v;
                }
            }
            meet(1, 256);
        }
    }
#endif
}
