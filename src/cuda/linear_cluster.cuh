// linear_cluster.cuh - y[T, rows] = x[T, K] W^T for some tokens where K is cut: a cluster of blocks shares the cuts of a tile.
//
// Tiles and stages are linear_large.cuh's. In a round each of C blocks multiplies one cut of the same GROUPS x 64 rows x N tokens and
// leaves it in its shared memory; then each adds a share of the tokens, reading the others' from left to right. Nothing passes through
// global memory but operands and y. Blocks meet by two barriers that count blocks: `ready` (all cuts of a round are there),
// `read` (all have read this block's). Bits are those of linear_small.cuh.
#pragma once
#include "cuda/linear_large.cuh"

// A tile is handed over in PARTS of its tokens where it is too large beside the ring.
template <int GROUPS, int N, int C> struct cluster_shape {
    static constexpr int rows = GROUPS * 64, threads = (GROUPS + 1) * 128, blocks = GROUPS > 1 ? 1 : 2;
    static constexpr int parts = N > 128 ? 2 : 1, tokens = N / parts, stride = rows + 4; // floats: few conflicts
    static constexpr int share = (tokens + C - 1) / C; // tokens of a part that a block adds
    static constexpr int a_bytes = rows * LARGE_K * 2, b_bytes = N * LARGE_K * 2, sum_bytes = tokens * stride * 4;
    static constexpr int fit = (227 * 1024 / blocks - 2048 - sum_bytes) / (a_bytes + b_bytes),
                         stages = fit > 6 ? 6 : fit;
    static constexpr int shared = stages * (a_bytes + b_bytes) + sum_bytes + 1024 + stages * 16 + 16;
    static constexpr int fours = rows / 4 * share,
                         each = (fours + GROUPS * 128 - 1) / (GROUPS * 128); // a thread's pieces of 16 bytes
};

template <int GROUPS, int N, int C>
__global__ void __launch_bounds__((cluster_shape<GROUPS, N, C>::threads), (cluster_shape<GROUPS, N, C>::blocks))
    linear_cluster(const __grid_constant__ linear_args p, const __grid_constant__ CUtensorMap map,
                   const __grid_constant__ CUtensorMap weight_map)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(128) char raw[];
    using shape = cluster_shape<GROUPS, N, C>;
    constexpr int STAGES = shape::stages, STRIPS = GROUPS * 4, PARTS = shape::parts, THREADS = GROUPS * 128;
    char *base = raw + (1024 - shared_u32(raw) % 1024) % 1024;
    auto b_stage = [&](int s) { return base + s * shape::b_bytes; };
    auto a_stage = [&](int s) { return base + STAGES * shape::b_bytes + s * shape::a_bytes; };
    float *cuts = (float *)(base + STAGES * (shape::a_bytes + shape::b_bytes)); // [tokens of a part][stride]
    uint64_t *full = (uint64_t *)((char *)cuts + shape::sum_bytes), *empty = full + STAGES, *ready = empty + STAGES,
             *read = ready + 1;
    const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, rank = blockIdx.x % C;
    const int row_tiles = (p.w.rows + shape::rows - 1) / shape::rows, tile = blockIdx.x / C;
    const int row_tile = tile % row_tiles, token_tile = tile / row_tiles;
    const int chain = p.w.k / LARGE_K / p.w.cuts, rounds = p.w.cuts / C;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(full + i, 1);
            barrier_init(empty + i, THREADS); // every thread that reads
        }
        barrier_init(ready, C);
        barrier_init(read, C);
        barrier_init_done();
    }
    __syncwarp();
    meet_cluster();
    let_next_start();
    int s = 0, turn = 0;
    auto advance = [&]() {
        if (++s == STAGES) {
            s = 0;
            turn++;
        }
    };
    if (group == 0) {
        if (GROUPS > 1)
            fewer_registers<24>();
        if (warp != 0 || lane != 0)
            return;
        prefetch_map(&weight_map);
        prefetch_map(&map);
        auto stage_of = [&](int i) { return (i / chain * C + rank) * chain + i % chain; };
        auto weights = [&](int i, int at) {
            barrier_expect(full + at, shape::a_bytes + shape::b_bytes);
            copy_box(a_stage(at), &weight_map, stage_of(i) * 256, row_tile * STRIPS, full + at);
        };
        // Weights do not depend on the kernel before: the ring fills with them while it ends.
        const int early = min(STAGES, chain * rounds);
        for (int i = 0; i < early; i++)
            weights(i, i);
        wait_for_previous();
        for (int i = 0; i < chain * rounds; i++) {
            if (i >= STAGES) {
                barrier_wait(empty + s, turn & 1 ^ 1);
                weights(i, s);
            }
            copy_box(b_stage(s), &map, stage_of(i) * LARGE_K, token_tile * N, full + s);
            advance();
        }
        return;
    }
    if (GROUPS > 1)
        more_registers<240>();
    wait_for_previous();
    const int g = lane / 4, t = lane % 4, strip = (group - 1) * 4 + warp, me = threadIdx.x - 128;
    float4 sum[PARTS][shape::each];
    int met = 0, first = token_tile * N;
    for (int round = 0; round < rounds; round++) {
        float acc[N / 2];
        for (int i = 0; i < chain; i++) {
            uint4 a[4];
            barrier_wait(full + s, turn & 1);
            const uint4 *from = (const uint4 *)a_stage(s) + strip * 128 + lane;
            for (int j = 0; j < 4; j++)
                a[j] = from[j * 32];
            uint64_t b = descriptor_swizzled(b_stage(s));
            wgmma_fence();
            for (int j = 0; j < 4; j++)
                wgmma_bf16(acc, a[j], b + j * 2, i || j);
            wgmma_commit();
            wgmma_wait<0>();
            barrier_arrive(empty + s);
            advance();
        }
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            if (met > 0)
                barrier_wait_cluster(read, met & 1 ^ 1); // what lay here has been read by all
#pragma unroll
            for (int i = 0; i < N / 2 / PARTS; i += i % 2 ? 3 : 1) {
                int e = part * (N / 2 / PARTS) + i;
                *(float2 *)(cuts + (i / 4 * 8 + 2 * t + i % 2) * shape::stride + strip * 16 + 2 * g) =
                    make_float2(acc[e], acc[e + 2]);
            }
            meet(1, THREADS);
            if (me < C)
                barrier_arrive_at(shared_of(ready, me));
            barrier_wait_cluster(ready, met & 1);
            float4 v[shape::each][C];
#pragma unroll
            for (int i = 0; i < shape::each; i++)
#pragma unroll
                for (int c = 0; c < C; c++) {
                    int four = i * THREADS + me,
                        token = min(rank * shape::share + four / (shape::rows / 4), shape::tokens - 1);
                    const float *at = cuts + token * shape::stride + four % (shape::rows / 4) * 4;
                    v[i][c] = load_shared_of(shared_of(at, c));
                }
#pragma unroll
            for (int i = 0; i < shape::each; i++) {
                float4 to = round ? sum[part][i] : make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
#pragma unroll
                for (int c = 0; c < C; c++)
                    to = make_float4(to.x + v[i][c].x, to.y + v[i][c].y, to.z + v[i][c].z, to.w + v[i][c].w);
                sum[part][i] = to;
            }
            meet(1, THREADS);
            if (me < C)
                barrier_arrive_at(shared_of(read, me));
            met++;
        }
    }
#pragma unroll
    for (int part = 0; part < PARTS; part++)
#pragma unroll
        for (int i = 0; i < shape::each; i++) {
            int four = i * THREADS + me, in_part = rank * shape::share + four / (shape::rows / 4);
            int token = first + part * shape::tokens + in_part,
                row = row_tile * shape::rows + four % (shape::rows / 4) * 4;
            size_t place = (size_t)token * p.w.rows + row;
            if (four < shape::fours && in_part < shape::tokens && token < p.tokens && row < p.w.rows)
                *(float4 *)(p.y + place) = finish(p, place, row, sum[part][i]);
        }
    barrier_wait_cluster(read, met & 1 ^ 1); // nobody reads here any more: the block may end
#endif
}
