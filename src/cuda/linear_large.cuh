// linear_large.cuh - y[T, rows] = x[T, K] W^T for many tokens: wgmma on the same packed weights.
//
// A block takes GROUPS x 64 rows x N tokens. Stages of 64 k: one tensor copy brings the weights, 2 KB of each strip of 16 rows and
// already the A operand of its warp (LDS.128 to registers), one brings N tokens with the 128-byte swizzle as B. Each warpgroup
// multiplies 64 rows, one thread copies: with an instruction a strip it would take longer than the products of small tiles do.
// CUT: at the end of a chain the accumulators are added to a second set; without, K is one chain.
// SPLIT: a block takes one cut, and those of a tile share in adding them. Each form gives the bits of linear_small.cuh.
// GATED: half of a tile's rows are of the gate, half of up (linear_gate.cuh).
#pragma once
#include "cuda/linear_gate.cuh"
#include "cuda/linear_small.cuh"

enum linear_form { ONE_CHAIN, CUT, SPLIT };
constexpr int LARGE_K = 64;
// What a block of GROUPS warpgroups and N tokens takes of a multiprocessor; one group alone leaves room for others.
template <int GROUPS, int N, linear_form FORM, bool GATED = false> struct large_shape {
    static constexpr int rows = GROUPS * 64, threads = (GROUPS + 1) * 128;
    static constexpr int blocks = GROUPS > 1 ? 1 : FORM == ONE_CHAIN &&N <= 64 ? 3 : 2;
    static constexpr int a_bytes = rows * LARGE_K * 2, b_bytes = N * LARGE_K * 2;
    static constexpr int boxes = N > 64 ? 2 : 1, box_bytes = GATED ? GROUPS * 4 * boxes * GATE_BOX : 0;
    static constexpr int fit = (227 * 1024 / blocks - 3072 - box_bytes) / (a_bytes + b_bytes),
                         stages = fit > 12 ? 12 : fit;
    static constexpr int shared = stages * (a_bytes + b_bytes) + box_bytes + 1024 + stages * 16;
    static constexpr int copying = GATED && GROUPS < 3 ? 40 : 24, registers = GROUPS == 3 ? 160 : GATED ? 232 : 240;
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

template <int GROUPS, int N, linear_form FORM, bool GATED = false>
__global__ void __launch_bounds__((large_shape<GROUPS, N, FORM>::threads), (large_shape<GROUPS, N, FORM>::blocks))
    linear_large(const __grid_constant__ linear_args p, const __grid_constant__ CUtensorMap map,
                 const __grid_constant__ CUtensorMap narrow_map, const __grid_constant__ CUtensorMap weight_map,
                 int band)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(128) char raw[];
    using shape = large_shape<GROUPS, N, FORM, GATED>;
    constexpr int STAGES = shape::stages, STRIPS = GROUPS * 4, PER_TILE = GATED ? STRIPS / 2 : STRIPS;
    char *base = raw + (1024 - shared_u32(raw) % 1024) % 1024;
    char *boxes = base + STAGES * (shape::a_bytes + shape::b_bytes);
    uint64_t *full = (uint64_t *)(boxes + shape::box_bytes), *empty = full + STAGES;
    auto b_stage = [&](int s) { return base + s * shape::b_bytes; };
    auto a_stage = [&](int s) { return base + STAGES * shape::b_bytes + s * shape::a_bytes; };
    const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const int all = p.w.rows / (GATED ? 32 : 16); // strips, of the gate alone where there is one
    const int row_tiles = (all + PER_TILE - 1) / PER_TILE, token_tiles = (p.tokens + N - 1) / N;
    const int tiles = row_tiles * token_tiles * (FORM == SPLIT ? p.w.cuts : 1);
    // What is left of the tiles when every block has had as many: by quarters, where that spares most of a round. A stage of those
    // is 128 k, with weights where tokens lie otherwise and tokens in place of weights: half as many waits.
    constexpr bool NARROWS = FORM == ONE_CHAIN && N == 256;
    const int chain = p.w.k / LARGE_K / p.w.cuts, stages = FORM == CUT ? chain * p.w.cuts : chain;
    const bool narrows = NARROWS && stages % 2 == 0 && tiles % gridDim.x * 4 <= gridDim.x * 2;
    const int whole = narrows ? tiles / gridDim.x * gridDim.x : tiles;
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
            fewer_registers<shape::copying>();
        if (NARROWS && warp == 1 &&
            whole <= 2 * gridDim.x) { // what comes last would wait for memory with few blocks at work
            const int lines = p.w.k / 4, of_tile = STRIPS * lines; // of 128 bytes
            for (int i = blockIdx.x * 32 + lane; i < (tiles - whole) * of_tile; i += gridDim.x * 32) {
                large_unit at = large_unit_of(whole + i / of_tile, row_tiles, token_tiles, band);
                int strip = at.row * PER_TILE + i % of_tile / lines % PER_TILE;
                if (strip < all)
                    prefetch_l2((const char *)p.w.tiles +
                                ((size_t)(strip + i % of_tile / lines / PER_TILE * all) * lines + i % lines) * 128);
            }
        }
        if (warp != 0 || lane != 0)
            return;
        prefetch_map(&weight_map);
        prefetch_map(&map);
        if (NARROWS)
            prefetch_map(&narrow_map);
        int s = 0, turn = 0, first = min(STAGES, stages);
        for (int u = blockIdx.x; u < units; u += gridDim.x) {
            large_unit at = unit_of(u);
            if (is_empty(at))
                continue;
            const bool narrow = NARROWS && at.narrow >= 0;
            const int k0 = FORM == SPLIT ? at.cut * chain : 0, n_stage = narrow ? stages / 2 : stages;
            const int bytes = narrow ? shape::a_bytes * 2 + 64 * 2 * LARGE_K * 2 : shape::a_bytes + shape::b_bytes;
            auto strips = [&](char *to, int stage, uint64_t *b) { // behind the last: zeros
                copy_box(to, &weight_map, stage * 256, at.row * PER_TILE, b);
                if (GATED)
                    copy_box(to + PER_TILE * 2048, &weight_map, stage * 256, all + at.row * PER_TILE, b);
            };
            auto weights = [&](int i, int to) {
                barrier_expect(full + to, bytes);
                if (narrow) {
                    strips(b_stage(to), i * 2, full + to);
                    strips(b_stage(to) + shape::a_bytes, i * 2 + 1, full + to);
                } else {
                    strips(a_stage(to), k0 + i, full + to);
                }
            };
            auto tokens = [&](int i, int to) {
                if (narrow)
                    for (int half = 0; half < 2; half++)
                        copy_box(a_stage(to) + half * 8192, &narrow_map, (i * 2 + half) * LARGE_K,
                                 at.token * N + at.narrow * 64, full + to);
                else
                    copy_box(b_stage(to), &map, (k0 + i) * LARGE_K, at.token * N, full + to);
            };
            if (first) { // weights do not depend on the kernel before: the ring fills with them while it ends
                for (int i = 0; i < first; i++)
                    weights(i, i);
                wait_for_previous();
            }
            for (int i = 0; i < n_stage; i++) {
                if (i >= first) {
                    barrier_wait(empty + s, turn & 1 ^ 1);
                    weights(i, s);
                }
                tokens(i, s);
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
    const int g = lane / 4, t = lane % 4, strip = (group - 1) * 4 + warp,
              slot = GATED ? (warp / 2 * GROUPS + group - 1) * 2 + warp % 2 : strip; // in a stage
    int s = 0, turn = 0, box = 0;
    for (int u = blockIdx.x; u < units; u += gridDim.x) {
        large_unit at = unit_of(u);
        if (is_empty(at))
            continue;
        const bool narrow = NARROWS && at.narrow >= 0;
        auto release = [&]() {
            barrier_arrive(empty + s);
            if (++s == STAGES) {
                s = 0;
                turn++;
            }
        };
        auto step = [&](auto &d, bool add) {
            uint4 a[4];
            barrier_wait(full + s, turn & 1);
            const uint4 *from = (const uint4 *)a_stage(s) + slot * 128 + lane;
            for (int j = 0; j < 4; j++)
                a[j] = from[j * 32];
            uint64_t b = descriptor_swizzled(b_stage(s));
            wgmma_fence();
            for (int j = 0; j < 4; j++)
                wgmma_bf16(d, a[j], b + j * 2, add || j);
            wgmma_commit();
            wgmma_wait<0>(); // the other warpgroup multiplies meanwhile; registers may not change under a product
            release();
        };
        const int row = (at.row * PER_TILE + (GATED ? (group - 1) * 2 + warp % 2 : strip)) * 16;
        auto store = [&](const auto &d, int first) {
            if (GATED)
                return store_gated<shape::boxes>(p, d, first, row, boxes, box);
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
                for (int i = 0; i < stages / 2; i++) {
                    uint4 a[8];
                    barrier_wait(full + s, turn & 1);
                    const uint4 *from = (const uint4 *)b_stage(s) + slot * 128 + lane;
                    for (int j = 0; j < 8; j++)
                        a[j] = from[j / 4 * (shape::a_bytes / 16) + j % 4 * 32];
                    uint64_t b = descriptor_swizzled(a_stage(s)); // 8 KB further: the second 64 k
                    wgmma_fence();
                    for (int j = 0; j < 8; j++)
                        wgmma_bf16(acc, a[j], b + (j / 4 * 512 + j % 4 * 2), i || j);
                    wgmma_commit();
                    wgmma_wait<0>();
                    release();
                }
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
        large_unit at = unit_of(u);
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
                add_cuts<12>(p, at.token * N + i / FOURS, row);
        }
        meet(1, GROUPS * 128);
        if (threadIdx.x == 128 && atomicAdd(count, 1) == 2 * p.w.cuts - 1)
            *count = 0;
    }
#endif
}
