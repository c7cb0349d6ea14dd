// attention_decode.cuh - attention of one query row a sequence over its pages: the cut of 256 positions is the unit of work.
//
// Bytes: 128 KB of K and V a unit, read once for all query heads of the KV head (up to 8, the n of one mma). A warp copies pages into
// a ring of 16 KB stages, ahead across units; eight warps take two K pages each, then one of the 8 d tiles of every V page, so
// that o and l are one chain a cut. The unit that ends last of a sequence and head merges its cuts from left to right.
#pragma once
#include "cuda/attention.cuh"

#ifndef DECODE_STAGES
#define DECODE_STAGES 6
#endif
constexpr int DECODE_THREADS = 288, DECODE_BLOCKS = 13 / DECODE_STAGES; // blocks a multiprocessor
struct decode_shared {
    char ring[DECODE_STAGES][STAGE_BYTES];
    uint2 p[16][32];
    float high[8][8];
    uint64_t full[DECODE_STAGES], empty[DECODE_STAGES];
    unsigned before;
};

static __device__ inline void merge_cuts(const attention_args &a, int4 item, int cuts, int group)
{
    int head = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (head >= group)
        return;
    const float *ml = a.part + (size_t)a.n_items * 8 * HEAD;
    float mc = 0, l = 0;
    float4 o = make_float4(0, 0, 0, 0);
    for (int i = 0; i < cuts; i++) {
        size_t at = (size_t)(item.w + i) * 8 + head;
        float4 v = __ldcg((const float4 *)(a.part + at * HEAD) + lane);
        float2 w = __ldcg((const float2 *)ml + at);
        if (i == 0) {
            o = v, mc = w.x, l = w.y;
            continue;
        }
        merge_factors f = merge_cut(mc, w.x);
        o = make_float4(merge_value(f, o.x, v.x), merge_value(f, o.y, v.y), merge_value(f, o.z, v.z),
                        merge_value(f, o.w, v.w));
        l = merge_value(f, l, w.y);
        mc = f.mc;
    }
    float r = __frcp_rn(l);
    float4 *to = (float4 *)(a.out + ((size_t)item.x * a.heads + item.y * group + head) * HEAD) + lane;
    *to = make_float4(__fmul_rn(o.x, r), __fmul_rn(o.y, r), __fmul_rn(o.z, r), __fmul_rn(o.w, r));
}

static __global__ void __launch_bounds__(DECODE_THREADS, DECODE_BLOCKS)
    attention_decode(const __grid_constant__ attention_args a)
{
#if __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) char raw[];
    decode_shared &s = *(decode_shared *)raw;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4,
              group = a.heads / a.kv_heads;
    if (threadIdx.x == 0) {
        for (int i = 0; i < DECODE_STAGES; i++) {
            barrier_init(s.full + i, 1);
            barrier_init(s.empty + i, 256); // every thread that reads
        }
        barrier_init_done();
    }
    __syncthreads();
    wait_for_previous();
    int at = 0, turn = 0;
    auto advance = [&](int n) {
        at += n;
        if (at >= DECODE_STAGES) {
            at -= DECODE_STAGES;
            turn++;
        }
    };
    if (warp == 8) {
        for (int u = blockIdx.x; u < a.n_items; u += gridDim.x) {
            int4 item = a.items[u];
            int pages = (min(CUT_TOKENS, a.length[item.x] - item.z * CUT_TOKENS) + PAGE_TOKENS - 1) / PAGE_TOKENS;
            const int *blocks = a.table + (size_t)item.x * a.table_width + item.z * 16;
            for (int i = 0; i < 8; i++) {
                int first = i % 4 * STAGE_PAGES, here = max(0, min(STAGE_PAGES, pages - first));
                barrier_wait(s.empty + at, (turn & 1) ^ 1);
                if (lane == 0)
                    barrier_expect(s.full + at, here * PAGE_BYTES);
                __syncwarp();
                if (lane < here) {
                    size_t page = (size_t)blocks[first + lane] * a.kv_heads + item.y;
                    copy_bulk(s.ring[at] + lane * PAGE_BYTES, (i < 4 ? a.k : a.v) + page * PAGE_BYTES, PAGE_BYTES,
                              s.full + at);
                }
                advance(1);
            }
        }
        return;
    }
    for (int u = blockIdx.x; u < a.n_items; u += gridDim.x) {
        int4 item = a.items[u];
        int length = a.length[item.x], left = min(CUT_TOKENS, length - item.z * CUT_TOKENS);
        const uint32_t *q = (const uint32_t *)(a.q + ((size_t)item.x * a.heads + item.y * group + g) * HEAD);
        uint32_t b[16];
#pragma unroll
        for (int j = 0; j < 16; j++) // k 2t, 2t+1 and 2t+8, 2t+9 of each 16
            b[j] = g < group ? q[j * 4 + t] : 0;
        float x[2][4] = {};
        for (int i = 0; i < 4; i++) {
            if (i == warp / 2) {
                barrier_wait(s.full + at, turn & 1);
                const uint4 *k = (const uint4 *)(s.ring[at] + warp % 2 * 2 * PAGE_BYTES) + lane;
#pragma unroll
                for (int j = 0; j < 8; j++)
#pragma unroll
                    for (int n = 0; n < 2; n++)
                        if ((warp * 2 + n) * PAGE_TOKENS < left)
                            mma_bf16(x[n], k[n * 256 + j * 32], b[2 * j], b[2 * j + 1]);
                __syncwarp();
            }
            barrier_arrive(s.empty + at);
            advance(1);
        }
        float high[2] = {-INFINITY, -INFINITY};
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if ((warp * 2 + n) * PAGE_TOKENS + g + i / 2 * 8 >= left)
                    x[n][i] = -INFINITY;
                high[i % 2] = fmaxf(high[i % 2], x[n][i]);
            }
#pragma unroll
        for (int m = 4; m < 32; m *= 2) {
            high[0] = fmaxf(high[0], __shfl_xor_sync(~0u, high[0], m));
            high[1] = fmaxf(high[1], __shfl_xor_sync(~0u, high[1], m));
        }
        if (g == 0)
            *(float2 *)&s.high[warp][2 * t] = make_float2(high[0], high[1]);
        meet(1, 256);
#pragma unroll
        for (int w = 0; w < 8; w++) {
            float2 h = *(const float2 *)&s.high[w][2 * t];
            high[0] = fmaxf(high[0], h.x);
            high[1] = fmaxf(high[1], h.y);
        }
        float mc0 = __fmul_rn(high[0], a.c), mc1 = __fmul_rn(high[1], a.c);
#pragma unroll
        for (int n = 0; n < 2; n++) {
            uint32_t lo = pack_bf16(attention_weight(x[n][0], a.c, mc0), attention_weight(x[n][1], a.c, mc1));
            uint32_t hi = pack_bf16(attention_weight(x[n][2], a.c, mc0), attention_weight(x[n][3], a.c, mc1));
            s.p[warp * 2 + n][lane] = make_uint2(transpose_8x8(lo), transpose_8x8(hi));
        }
        meet(1, 256);
        float o[4] = {}, l[4] = {};
        for (int i = 0; i < 4; i++) {
            barrier_wait(s.full + at, turn & 1);
            const uint4 *v = (const uint4 *)(s.ring[at] + warp * 512) + lane;
#pragma unroll
            for (int n = 0; n < STAGE_PAGES; n++)
                if ((i * STAGE_PAGES + n) * PAGE_TOKENS < left) {
                    uint2 p = s.p[i * STAGE_PAGES + n][lane];
                    mma_bf16(o, v[n * 256], p.x, p.y);
                    mma_bf16(l, make_uint4(BF16_ONES, BF16_ONES, BF16_ONES, BF16_ONES), p.x, p.y);
                }
            barrier_arrive(s.empty + at);
            advance(1);
        }
        float *part = a.part + (size_t)u * 8 * HEAD, *ml = a.part + (size_t)a.n_items * 8 * HEAD + (size_t)u * 16;
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (2 * t + i % 2 < group)
                __stcg(part + (2 * t + i % 2) * HEAD + warp * 16 + g + i / 2 * 8, o[i]);
        if (warp == 0 && g == 0) {
            __stcg((float2 *)ml + 2 * t, make_float2(mc0, l[0]));
            __stcg((float2 *)ml + 2 * t + 1, make_float2(mc1, l[1]));
        }
        int cuts = (length + CUT_TOKENS - 1) / CUT_TOKENS;
        __threadfence();
        meet(1, 256);
        if (threadIdx.x == 0)
            s.before = atomicAdd(a.count + item.x * a.kv_heads + item.y, 1);
        meet(1, 256);
        if (s.before == (unsigned)cuts - 1) {
            __threadfence();
            merge_cuts(a, item, cuts, group);
            if (threadIdx.x == 0)
                a.count[item.x * a.kv_heads + item.y] = 0;
        }
    }
#endif
}
