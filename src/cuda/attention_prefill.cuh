// attention_prefill.cuh - causal attention of all rows of a prompt over the same pages, by mma.sync.
//
// A block takes 128 rows of one query head, a warp 16 of them as the A operand. K tiles are B operands as they lie, and so are V
// tiles for p, which leaves the first product in the registers of an A operand: nothing is transposed. All 256 scores of a cut
// stand in registers before the first exponential, so the maximum is the cut's, as in attention_decode.cuh; the row's sums so
// far wait in shared memory. Two warpgroups compute, one warp copies 16 KB stages of 4 pages.
#pragma once
#include "cuda/attention.cuh"

constexpr int PREFILL_STAGES = 9, PREFILL_ROWS = 128, PREFILL_THREADS = 384;
struct prefill_shared {
    char ring[PREFILL_STAGES][STAGE_BYTES];
    float sum[64][256]; // o of the cuts so far, [value][thread]
    uint64_t full[PREFILL_STAGES], empty[PREFILL_STAGES];
};

static __global__ void __launch_bounds__(PREFILL_THREADS, 1) attention_prefill(const __grid_constant__ attention_args a)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(128) char raw[];
    prefill_shared &s = *(prefill_shared *)raw;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4,
              group = a.heads / a.kv_heads;
    const int tiles = (a.tokens + PREFILL_ROWS - 1) / PREFILL_ROWS;
    const int head = blockIdx.x % a.heads,
              first = (tiles - 1 - (int)blockIdx.x / a.heads) * PREFILL_ROWS; // the longest first
    const int last = min(first + PREFILL_ROWS, a.tokens) - 1, cuts = last / CUT_TOKENS + 1;
    if (threadIdx.x == 0) {
        for (int i = 0; i < PREFILL_STAGES; i++) {
            barrier_init(s.full + i, 1);
            barrier_init(s.empty + i, 256); // every thread that reads
        }
        barrier_init_done();
    }
    __syncthreads();
    wait_for_previous();
    int at = 0, turn = 0;
    auto advance = [&]() {
        if (++at == PREFILL_STAGES) {
            at = 0;
            turn++;
        }
    };
    auto stages_of = [&](int cut) { return min(4, (last - cut * CUT_TOKENS) / (STAGE_PAGES * PAGE_TOKENS) + 1); };
    if (warp < 4) {
        fewer_registers<24>();
        if (warp)
            return;
        for (int cut = 0; cut < cuts; cut++)
            for (int v = 0; v < 2; v++)
                for (int i = 0, n = stages_of(cut); i < n; i++) {
                    barrier_wait(s.empty + at, (turn & 1) ^ 1);
                    if (lane == 0)
                        barrier_expect(s.full + at, STAGE_BYTES);
                    __syncwarp();
                    if (lane < STAGE_PAGES) { // pages past the end stand in for themselves: their weights are zero
                        int block = a.table[min(cut * 16 + i * STAGE_PAGES + lane, last / PAGE_TOKENS)];
                        size_t page = (size_t)block * a.kv_heads + head / group;
                        copy_bulk(s.ring[at] + lane * PAGE_BYTES, (v ? a.v : a.k) + page * PAGE_BYTES, PAGE_BYTES,
                                  s.full + at);
                    }
                    advance();
                }
        return;
    }
    more_registers<240>();
    const int me = threadIdx.x - 128, row = first + (warp - 4) * 16 + g; // and row + 8
    uint4 q[8];
    {
        const uint32_t *lo = (const uint32_t *)(a.q + ((size_t)min(row, last) * a.heads + head) * HEAD) + t;
        const uint32_t *hi = (const uint32_t *)(a.q + ((size_t)min(row + 8, last) * a.heads + head) * HEAD) + t;
#pragma unroll
        for (int j = 0; j < 8; j++)
            q[j] = make_uint4(lo[j * 8], hi[j * 8], lo[j * 8 + 4], hi[j * 8 + 4]);
    }
    float mc[2], l[2];
    for (int cut = 0; cut < cuts; cut++) {
        const int n = stages_of(cut);
        float x[32][4]; // scores of rows g, g + 8 at tokens 8i + 2t, + 1
#pragma unroll
        for (int i = 0; i < 4; i++) {
#pragma unroll
            for (int k = 0; k < 8; k++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    x[i * 8 + k][e] = i < n ? 0 : -INFINITY;
            if (i >= n)
                continue;
            barrier_wait(s.full + at, turn & 1);
            const uint4 *k = (const uint4 *)s.ring[at] + lane;
#pragma unroll
            for (int j = 0; j < 8; j++)
#pragma unroll
                for (int page = 0; page < STAGE_PAGES; page++) {
                    uint4 b = k[page * 256 + j * 32];
                    mma_bf16(x[i * 8 + page * 2], q[j], b.x, b.z);
                    mma_bf16(x[i * 8 + page * 2 + 1], q[j], b.y, b.w);
                }
            barrier_arrive(s.empty + at);
            advance();
        }
        if (cut * CUT_TOKENS + CUT_TOKENS - 1 > first + (warp - 4) * 16) {
#pragma unroll
            for (int i = 0; i < 32; i++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (cut * CUT_TOKENS + i * 8 + 2 * t + e % 2 > row + e / 2 * 8)
                        x[i][e] = -INFINITY;
        }
        float high[2] = {-INFINITY, -INFINITY}, cut_mc[2];
#pragma unroll
        for (int i = 0; i < 32; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                high[e / 2] = fmaxf(high[e / 2], x[i][e]);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            high[r] = fmaxf(high[r], __shfl_xor_sync(~0u, high[r], 1));
            high[r] = fmaxf(high[r], __shfl_xor_sync(~0u, high[r], 2));
            cut_mc[r] = __fmul_rn(high[r], a.c);
        }
        uint4 p[16];
#pragma unroll
        for (int i = 0; i < 16; i++) {
            float(*y)[4] = x + i * 2;
            p[i].x = pack_bf16(attention_weight(y[0][0], a.c, cut_mc[0]), attention_weight(y[0][1], a.c, cut_mc[0]));
            p[i].y = pack_bf16(attention_weight(y[0][2], a.c, cut_mc[1]), attention_weight(y[0][3], a.c, cut_mc[1]));
            p[i].z = pack_bf16(attention_weight(y[1][0], a.c, cut_mc[0]), attention_weight(y[1][1], a.c, cut_mc[0]));
            p[i].w = pack_bf16(attention_weight(y[1][2], a.c, cut_mc[1]), attention_weight(y[1][3], a.c, cut_mc[1]));
        }
        float o[16][4] = {}, cut_l[4] = {};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i >= n)
                continue;
            barrier_wait(s.full + at, turn & 1);
            const uint4 *v = (const uint4 *)s.ring[at] + lane;
#pragma unroll
            for (int page = 0; page < STAGE_PAGES; page++) {
                uint4 w = p[i * STAGE_PAGES + page];
                mma_bf16(cut_l, w, BF16_ONES, BF16_ONES);
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    uint4 b = v[page * 256 + j * 32];
                    mma_bf16(o[j * 2], w, b.x, b.z);
                    mma_bf16(o[j * 2 + 1], w, b.y, b.w);
                }
            }
            barrier_arrive(s.empty + at);
            advance();
        }
        if (cut) {
            merge_factors f[2] = {merge_cut(mc[0], cut_mc[0]), merge_cut(mc[1], cut_mc[1])};
#pragma unroll
            for (int i = 0; i < 64; i++)
                o[i / 4][i % 4] = merge_value(f[i / 2 % 2], s.sum[i][me], o[i / 4][i % 4]);
#pragma unroll
            for (int r = 0; r < 2; r++) {
                l[r] = merge_value(f[r], l[r], cut_l[r * 2]);
                mc[r] = f[r].mc;
            }
        } else {
#pragma unroll
            for (int r = 0; r < 2; r++)
                l[r] = cut_l[r * 2], mc[r] = cut_mc[r];
        }
        if (cut < cuts - 1) {
#pragma unroll
            for (int i = 0; i < 64; i++)
                s.sum[i][me] = o[i / 4][i % 4];
            continue;
        }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float inverse = __frcp_rn(l[r]);
            if (row + r * 8 <= last)
#pragma unroll
                for (int i = 0; i < 16; i++)
                    *(float2 *)(a.out + ((size_t)(row + r * 8) * a.heads + head) * HEAD + i * 8 + 2 * t) =
                        make_float2(__fmul_rn(o[i][r * 2], inverse), __fmul_rn(o[i][r * 2 + 1], inverse));
        }
    }
#endif
}
