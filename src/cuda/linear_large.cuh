// linear_large.cuh - y[T, rows] = x[T, K] W^T for many tokens: wgmma on the same packed weights.
//
// A block takes GROUPS x 64 rows x N tokens. Stages of 64 k: bulk copies of 2 KB bring the weights, already the A operand of each
// warp (LDS.128 to registers), one tensor copy brings N tokens with the 128-byte swizzle as B. Each warpgroup multiplies 64 rows,
// one warp copies. CUT: at the end of a chain the accumulators are added to a second set; without, K is one chain.
// SPLIT: a block takes one cut, and those of a tile share in adding them. Each form gives the bits of linear_small.cuh.
#pragma once
#include "cuda/linear_small.cuh"

enum linear_form { ONE_CHAIN, CUT, SPLIT };
constexpr int LARGE_K = 64;
// What a block of GROUPS warpgroups and N tokens takes of a multiprocessor; one group alone leaves room for others.
template <int GROUPS, int N, linear_form FORM> struct large_shape {
    static constexpr int rows = GROUPS * 64, threads = (GROUPS + 1) * 128;
    static constexpr int blocks = GROUPS > 1 ? 1 : FORM == ONE_CHAIN &&N <= 64 ? 3 : 2;
    static constexpr int a_bytes = rows * LARGE_K * 2, b_bytes = N * LARGE_K * 2;
    static constexpr int fit = (227 * 1024 / blocks - 3072) / (a_bytes + b_bytes), stages = fit > 8 ? 8 : fit;
    static constexpr int shared = stages * (a_bytes + b_bytes) + 1024 + stages * 16;
    static constexpr int registers = GROUPS == 3 ? 160 : 240;
};

// The tile (row, token) and the cut of a unit. Bands of rows run over all tokens, so that what runs together shares both operands.
struct large_unit {
    int row, token, cut;
    int narrow = -1; // quarter of the tokens, or all
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

template <int GROUPS, int N, linear_form FORM>
__global__ void __launch_bounds__((large_shape<GROUPS, N, FORM>::threads), (large_shape<GROUPS, N, FORM>::blocks))
    linear_large(const __grid_constant__ linear_args p, const __grid_constant__ CUtensorMap map,
                 const __grid_constant__ CUtensorMap narrow_map, int band)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(128) char raw[];
    using shape = large_shape<GROUPS, N, FORM>;
    constexpr int STAGES = shape::stages, STRIPS = GROUPS * 4;
    char *base = raw + (1024 - shared_u32(raw) % 1024) % 1024;
    uint64_t *full = (uint64_t *)(base + STAGES * (shape::a_bytes + shape::b_bytes)), *empty = full + STAGES;
    auto b_stage = [&](int s) { return base + s * shape::b_bytes; };
    auto a_stage = [&](int s) { return base + STAGES * shape::b_bytes + s * shape::a_bytes; };
    const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const int row_tiles = (p.w.rows + shape::rows - 1) / shape::rows, token_tiles = (p.tokens + N - 1) / N;
    const int tiles = row_tiles * token_tiles * (FORM == SPLIT ? p.w.cuts : 1);
    // What is left of the tiles when every block has had as many: by quarters, where that spares most of a round.
    constexpr bool NARROWS = FORM == ONE_CHAIN && N == 256;
    const int whole = NARROWS && tiles % gridDim.x * 4 <= gridDim.x * 2 ? tiles / gridDim.x * gridDim.x : tiles;
    const int units = whole + (tiles - whole) * 4;
    auto unit_of = [&](int u) {
        large_unit at =
            large_unit_of(NARROWS && u >= whole ? whole + (u - whole) / 4 : u, row_tiles, token_tiles, band);
        if (NARROWS && u >= whole)
            at.narrow = (u - whole) % 4;
        return at;
    };
    auto is_empty = [&](const large_unit &at) {
        return NARROWS && at.narrow >= 0 && at.token * N + at.narrow * 64 >= p.tokens;
    };
    const int chain = p.w.k / LARGE_K / p.w.cuts, stages = FORM == CUT ? chain * p.w.cuts : chain;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(full + i, 1);
            barrier_init(empty + i, GROUPS * 128); // every thread that reads
        }
        barrier_init_done();
    }
    __syncthreads();
    let_next_start();
    if (group == 0) {
        if (GROUPS > 1)
            fewer_registers<24>();
        if (warp != 0)
            return;
        int s = 0, turn = 0, first = min(STAGES, stages);
        for (int u = blockIdx.x; u < units; u += gridDim.x) {
            large_unit at = unit_of(u);
            if (is_empty(at))
                continue;
            const bool narrow = NARROWS && at.narrow >= 0;
            int strips = min(STRIPS, p.w.rows / 16 - at.row * STRIPS), k0 = FORM == SPLIT ? at.cut * chain : 0;
            const uint4 *from = p.w.tiles + ((size_t)(at.row * STRIPS + lane) * (p.w.k / 16) + k0 * 4) * 32;
            auto weights = [&](int i, int to) {
                if (lane == 0)
                    barrier_expect(full + to, (narrow ? shape::b_bytes / 4 : shape::b_bytes) + strips * 2048);
                __syncwarp();
                if (lane < strips)
                    copy_bulk(a_stage(to) + lane * 2048, from + i * 128, 2048, full + to);
            };
            if (first) { // weights do not depend on the kernel before: the ring fills with them while it ends
                for (int i = 0; i < first; i++)
                    weights(i, i);
                wait_for_previous();
            }
            for (int i = 0; i < stages; i++) {
                if (i >= first) {
                    barrier_wait(empty + s, turn & 1 ^ 1);
                    weights(i, s);
                }
                if (lane == 0)
                    copy_box(b_stage(s), narrow ? &narrow_map : &map, (k0 + i) * LARGE_K,
                             at.token * N + (narrow ? at.narrow * 64 : 0), full + s);
                if (++s == STAGES) {
                    s = 0;
                    turn++;
                }
            }
            first = 0;
        }
        return;
    }
    wait_for_previous();
    if (GROUPS > 1)
        more_registers<shape::registers>();
    const int g = lane / 4, t = lane % 4, strip = (group - 1) * 4 + warp;
    int s = 0, turn = 0;
    for (int u = blockIdx.x; u < units; u += gridDim.x) {
        large_unit at = unit_of(u);
        if (is_empty(at))
            continue;
        const bool narrow = NARROWS && at.narrow >= 0;
        auto step = [&](auto &d, bool add) {
            uint4 a[4];
            barrier_wait(full + s, turn & 1);
            const uint4 *from = (const uint4 *)a_stage(s) + strip * 128 + lane;
            for (int j = 0; j < 4; j++)
                a[j] = from[j * 32];
            uint64_t b = descriptor_swizzled(b_stage(s));
            wgmma_fence();
            for (int j = 0; j < 4; j++)
                wgmma_bf16(d, a[j], b + j * 2, add || j);
            wgmma_commit();
            wgmma_wait<0>(); // the other warpgroup multiplies meanwhile; registers may not change under a product
            barrier_arrive(empty + s);
            if (++s == STAGES) {
                s = 0;
                turn++;
            }
        };
        const int row = (at.row * STRIPS + strip) * 16;
        auto store = [&](const auto &d, int first) {
            constexpr int VALUES = sizeof(d) / sizeof(d[0]);
            const size_t rows = p.w.rows;
            float *to = FORM == SPLIT ? p.work + (size_t)at.cut * p.tokens * rows : p.y;
            if (row < p.w.rows)
                for (int i = 0; i < VALUES; i += i % 2 ? 3 : 1) {
                    int token = first + i / 4 * 8 + 2 * t + i % 2;
                    if (token >= p.tokens)
                        continue;
                    size_t place = token * rows + row + 2 * g;
                    float2 v = make_float2(d[i], d[i + 2]);
                    *(float2 *)(to + place) = FORM == SPLIT ? v : finish(p, place, row + 2 * g, v);
                }
        };
        if constexpr (NARROWS)
            if (narrow) {
                float acc[32];
                for (int i = 0; i < stages; i++)
                    step(acc, i > 0);
                store(acc, at.token * N + at.narrow * 64);
                continue;
            }
        float acc[N / 2], sum[FORM == CUT ? N / 2 : 1];
        if (FORM == CUT)
            for (int i = 0; i < N / 2; i++)
                sum[i] = -0.0f;
        for (int c = 0; c < stages / chain; c++) {
            for (int i = 0; i < chain; i++)
                step(acc, i > 0);
            if (FORM == CUT)
                for (int i = 0; i < N / 2; i++)
                    sum[i] += acc[i];
        }
        if constexpr (FORM == CUT)
            store(sum, at.token * N);
        else
            store(acc, at.token * N);
        if (FORM == SPLIT) {
            __threadfence();
            meet(1, GROUPS * 128);
            if (threadIdx.x == 128)
                atomicAdd(p.count + at.row * token_tiles + at.token, 1);
        }
    }
    // All cuts of this block are on their way; now it adds its share of each tile that it had a cut of, when the others' are there.
    // No block waits before it has done all of its products, so none waits for ever.
    for (int u = blockIdx.x; FORM == SPLIT && u < units; u += gridDim.x) {
        large_unit at = large_unit_of(u, row_tiles, token_tiles, band);
        unsigned *count = p.count + at.row * token_tiles + at.token;
        if (threadIdx.x == 128)
            while (load_acquire(count) < (unsigned)p.w.cuts) {
            }
        meet(1, GROUPS * 128);
        constexpr int FOURS = GROUPS * 16;
        const int many = min(N, p.tokens - at.token * N) * FOURS, share = (many + p.w.cuts - 1) / p.w.cuts;
        for (int i = at.cut * share + threadIdx.x - 128; i < min((at.cut + 1) * share, many); i += GROUPS * 128) {
            int row = at.row * shape::rows + i % FOURS * 4;
            if (row < p.w.rows)
                add_cuts<12>(p, (size_t)(at.token * N + i / FOURS) * p.w.rows + row, row);
        }
        meet(1, GROUPS * 128);
        if (threadIdx.x == 128 && atomicAdd(count, 1) == 2 * p.w.cuts - 1)
            *count = 0;
    }
#endif
}
