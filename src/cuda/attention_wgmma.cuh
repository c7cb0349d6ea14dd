// attention_wgmma.cuh - ATTENTION of units of many (token, head) pairs by wgmma (launch.h: qr_cu_item); bits as attention_decode.cuh.
//
// A block takes two units of a sequence, a warpgroup the 64 pairs of one as n: they share a KV head, so every page is read once for
// 128 query rows. K tiles are A operands as they lie (a warp a page, 64 tokens a product), q is B in swizzled shared memory; the scores
// stand transposed, [tokens, pairs]. The weights p go to shared memory as B (stmatrix turns them), V tiles are A operands as they
// lie, and o is [d, pairs]. The last cut is done whole: what is masked adds zeros. The sums l are chains of mma.sync over p times 1.
// Keys and values in bf16 or fp8, heads of 64 or 128, no window and no soft cap.
#pragma once
#include <type_traits>
#include "cuda/attention.cuh"
#include "cuda/launch.h"

constexpr int WIDE_STAGES = 5, WIDE_THREADS = 384;
template <int HEAD_DIM> struct alignas(1024) wide_group {
    char p[4][8192];             // [64 tokens][64 pairs x 128 bytes], 128-byte swizzle
    char q[HEAD_DIM / 64][8192]; // [64 d][64 pairs x 128 bytes], likewise
    float sum[HEAD_DIM > 64 ? 32 : 1]
             [128]; // o of the cuts so far, d from 64 on, [value][thread]; the others stay in registers
    float high[4][64];
    float mc[64], cut_mc[64], old[64], add[64], inverse[64];
    int position[64];
};
template <int HEAD_DIM, int KV> struct wide_shared {
    static constexpr int page = page_bytes(HEAD_DIM, KV), stage = STAGE_PAGES * page;
    wide_group<HEAD_DIM> group[2];
    alignas(128) char ring[WIDE_STAGES][stage];
    uint64_t full[WIDE_STAGES], empty[WIDE_STAGES];
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Byte of 16-byte piece `c` of row `row` in a block of rows of 128 bytes with the 128-byte swizzle.
static __device__ inline int swizzled(int row, int c)
{
    return row * 128 + ((c ^ (row & 7)) << 4);
}
static __device__ inline void store_transposed(void *p, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0],{%1,%2,%3,%4};" ::"r"(shared_u32(p)), "r"(a),
                 "r"(b), "r"(c), "r"(d)
                 : "memory");
}
static __device__ inline uint4 load_matrices(const void *p)
{
    uint4 v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(shared_u32(p))
                 : "memory");
    return v;
}
#endif

template <int HEAD_DIM, int KV>
static __global__ void __launch_bounds__(WIDE_THREADS, 1) attention_wgmma(const __grid_constant__ qr_cu_attention a)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(128) char raw[];
    using shared = wide_shared<HEAD_DIM, KV>;
    using piece = std::conditional_t<KV == QR_CU_FP8, uint2, uint4>; // a lane's part of a tile in a page
    constexpr int TILES = HEAD_DIM / 16, HALVES = HEAD_DIM / 64;
    shared &s = *(shared *)(raw + (1024 - shared_u32(raw) % 1024) % 1024);
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4,
              group = (int)threadIdx.x / 128 - 1;
    const int share = a.n_head / a.n_kv_head, kv_head = blockIdx.y;
    if (threadIdx.x == 0) {
        for (int i = 0; i < WIDE_STAGES; i++) {
            barrier_init(s.full + i, 1);
            barrier_init(s.empty + i, 256); // every thread that reads
        }
        barrier_init_done();
    }
    __syncthreads();
    let_next_start();
    wait_for_previous();
    const int n_item = a.count[1], table_stride = a.count[2], u = blockIdx.x * 2;
    if (u >= n_item)
        return;
    const qr_cu_item items[2] = {a.many[u], a.many[min(u + 1, n_item - 1)]};
    // Units of two sequences: one after the other, by both warpgroups alike.
    const bool together = u + 1 < n_item && items[0].sequence == items[1].sequence;
    const int passes = together || u + 1 == n_item ? 1 : 2;
    auto last_of = [&](const qr_cu_item &i) { return a.position[i.row] + (i.pair + i.n_pair - 1) / share; };
    int at = 0, turn = 0;
    auto advance = [&]() {
        if (++at == WIDE_STAGES) {
            at = 0;
            turn++;
        }
    };
    if (group < 0) {
        fewer_registers<24>();
        if (warp)
            return;
        for (int pass = 0; pass < passes; pass++) {
            const int *table = a.table + (size_t)items[pass].sequence * table_stride;
            const int last = together ? max(last_of(items[0]), last_of(items[1])) : last_of(items[pass]);
            for (int cut = 0; cut <= last / CUT_TOKENS; cut++)
                for (int v = 0; v < 2; v++)
                    for (int i = 0; i < 4; i++) {
                        barrier_wait(s.empty + at, (turn & 1) ^ 1);
                        if (lane == 0)
                            barrier_expect(s.full + at, shared::stage);
                        __syncwarp();
                        if (lane < STAGE_PAGES) { // past the end the last page stands in: its weights are zero
                            int block = table[min(cut * 16 + i * STAGE_PAGES + lane, last / PAGE_TOKENS)];
                            size_t page = (size_t)block * a.n_kv_head + kv_head;
                            copy_bulk(s.ring[at] + lane * shared::page,
                                      (v ? a.v_pages : a.k_pages) + page * shared::page, shared::page, s.full + at);
                        }
                        advance();
                    }
        }
        return;
    }
    more_registers<240>();
    wide_group<HEAD_DIM> &w = s.group[group];
    const int me = threadIdx.x % 128;
    const float c = a.scale * 1.4426950408889634f;
    auto meet_group = [&]() { meet(1 + group, 128); };
    for (int pass = 0; pass < passes; pass++) {
        const qr_cu_item item = items[together ? group : pass];
        const int begin = a.position[item.row], lowest = begin + item.pair / share;
        const int cuts = (together ? max(last_of(items[0]), last_of(items[1])) : last_of(item)) / CUT_TOKENS + 1;
        // Row and column of pair n of the unit, in a matrix of [tokens, n_head * HEAD_DIM].
        auto token_of = [&](int n) { return item.row + (item.pair + n) / share; };
        auto column_of = [&](int n) { return (kv_head * share + (item.pair + n) % share) * HEAD_DIM; };
        for (int i = me; i < 64 * HEAD_DIM / 8; i += 128) {
            int n = i / (HEAD_DIM / 8), c8 = i % (HEAD_DIM / 8), from = min(n, item.n_pair - 1);
            *(uint4 *)(w.q[c8 / 8] + swizzled(n, c8 % 8)) =
                *((const uint4 *)((const uint16_t *)a.q + (size_t)token_of(from) * a.n_head * HEAD_DIM +
                                  column_of(from)) +
                  c8);
        }
        if (me < 64) {
            w.mc[me] = -INFINITY;
            w.position[me] = begin + (item.pair + min(me, item.n_pair - 1)) / share;
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        meet_group();
        float sum[32] = {},
              l[4] = {}; // o [d 64 m + 16 warp + g, + 8][pair 8n + 2t, + 1]; l of pairs 16 warp + 2t, + 1, + 8, + 9
        if (HALVES > 1)
#pragma unroll
            for (int e = 0; e < 32; e++)
                w.sum[e % (HEAD_DIM > 64 ? 32 : 1)][me] = 0;
        for (int cut = 0; cut < cuts; cut++) {
            const bool crosses = (cut + 1) * CUT_TOKENS > lowest;
            float x[4][32], high[16];
#pragma unroll
            for (int e = 0; e < 16; e++)
                high[e] = -INFINITY;
            auto raise = [&](int i) {
                int token = cut * CUT_TOKENS + i * 64 + warp * 16 + g;
#pragma unroll
                for (int e = 0; e < 32; e++) {
                    if (crosses && token + e / 2 % 2 * 8 > w.position[e / 4 * 8 + 2 * t + e % 2])
                        x[i][e] = -INFINITY; // later than its row
                    high[e / 4 * 2 + e % 2] = fmaxf(high[e / 4 * 2 + e % 2], x[i][e]);
                }
            };
#pragma unroll
            for (int i = 0; i < 4; i++) {
                barrier_wait(s.full + at, turn & 1);
                const char *k = s.ring[at] + warp * shared::page;
                uint4 b[TILES];
                if constexpr (KV == QR_CU_FP8) {
                    const uint2 f = k_factors((const uint16_t *)(k + PAGE_TOKENS * HEAD_DIM), lane);
#pragma unroll
                    for (int j = 0; j < TILES; j++)
                        b[j] = unpack_k(((const piece *)k)[j * 32 + lane], f);
                } else {
#pragma unroll
                    for (int j = 0; j < TILES; j++)
                        b[j] = ((const piece *)k)[j * 32 + lane];
                }
                uint64_t q = descriptor_swizzled(w.q[0]);
                wgmma_fence();
#pragma unroll
                for (int j = 0; j < TILES; j++) // 8 KB further: the second half of d
                    wgmma_bf16(x[i], b[j], q + (j / 4 * 512 + j % 4 * 2), j);
                wgmma_commit();
                if (i)
                    raise(i - 1); // while the products run
                wgmma_wait<0>();
                barrier_arrive(s.empty + at);
                advance();
            }
            raise(3);
#pragma unroll
            for (int e = 0; e < 16; e++)
#pragma unroll
                for (int m = 4; m < 32; m *= 2)
                    high[e] = fmaxf(high[e], __shfl_xor_sync(~0u, high[e], m));
#pragma unroll
            for (int e = 0; e < 8; e++)
                if (g == e)
                    *(float2 *)&w.high[warp][e * 8 + 2 * t] = make_float2(high[e * 2], high[e * 2 + 1]);
            meet_group();
            if (me < 64) {
                float top = fmaxf(fmaxf(w.high[0][me], w.high[1][me]), fmaxf(w.high[2][me], w.high[3][me]));
                float top_c = __fmul_rn(top, c);
                merge_factors f = merge_cut(w.mc[me], top_c);
                w.cut_mc[me] = top == -INFINITY ? 0 : top_c; // nothing to see in this cut: every p is 0
                w.mc[me] = f.mc, w.old[me] = f.old, w.add[me] = f.add;
            }
            meet_group();
#pragma unroll
            for (int e = 0; e < 8; e += 2) { // rows 8e .. 8e + 15
                float2 m0 = *(const float2 *)&w.cut_mc[e * 8 + 2 * t],
                       m1 = *(const float2 *)&w.cut_mc[e * 8 + 8 + 2 * t];
                int to = swizzled(e * 8 + lane / 16 * 8 + lane % 8, warp * 2 + lane / 8 % 2);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float *y = x[i] + e * 4;
                    store_transposed(w.p[i] + to,
                                     pack_bf16(attention_weight(y[0], c, m0.x), attention_weight(y[1], c, m0.y)),
                                     pack_bf16(attention_weight(y[2], c, m0.x), attention_weight(y[3], c, m0.y)),
                                     pack_bf16(attention_weight(y[4], c, m1.x), attention_weight(y[5], c, m1.y)),
                                     pack_bf16(attention_weight(y[6], c, m1.x), attention_weight(y[7], c, m1.y)));
                }
            }
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            meet_group();
            float o[HALVES][32], cut_l[2][4] = {};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                barrier_wait(s.full + at, turn & 1);
                {
                    uint4 b[HALVES][4];
#pragma unroll
                    for (int page = 0; page < 4; page++) {
                        const char *from = s.ring[at] + page * shared::page;
                        const piece *v = (const piece *)from + warp * 32 + lane;
                        if constexpr (KV == QR_CU_FP8) {
                            const uint2 f = v_factors((const uint16_t *)(from + PAGE_TOKENS * HEAD_DIM), lane);
#pragma unroll
                            for (int m = 0; m < HALVES; m++)
                                b[m][page] = unpack_v(v[m * 128], f);
                        } else {
#pragma unroll
                            for (int m = 0; m < HALVES; m++)
                                b[m][page] = v[m * 128];
                        }
                    }
                    uint64_t p = descriptor_swizzled(w.p[i]);
                    wgmma_fence();
#pragma unroll
                    for (int m = 0; m < HALVES; m++)
#pragma unroll
                        for (int page = 0; page < 4; page++)
                            wgmma_bf16(o[m], b[m][page], p + page * 2, i || page);
                    wgmma_commit();
#pragma unroll
                    for (int page = 0; page < 4; page++) { // while the products run
                        uint4 y = load_matrices(
                            w.p[i] + swizzled(warp * 16 + lane / 16 * 8 + lane % 8, page * 2 + lane / 8 % 2));
                        uint4 ones = make_uint4(BF16_ONES, BF16_ONES, BF16_ONES, BF16_ONES);
                        mma_bf16(cut_l[0], ones, y.x, y.y);
                        mma_bf16(cut_l[1], ones, y.z, y.w);
                    }
                    wgmma_wait<0>();
                }
                barrier_arrive(s.empty + at);
                advance();
            }
            auto merge = [&](float value, float cut_value, float old, float add) {
                return __fmaf_rn(cut_value, add, __fmul_rn(value, old));
            };
            {
#pragma unroll
                for (int e = 0; e < 8; e++) {
                    float2 old = *(const float2 *)&w.old[e * 8 + 2 * t], add = *(const float2 *)&w.add[e * 8 + 2 * t];
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        float f = k % 2 ? old.y : old.x, f_add = k % 2 ? add.y : add.x;
                        sum[e * 4 + k] = merge(sum[e * 4 + k], o[0][e * 4 + k], f, f_add);
                        if constexpr (HALVES > 1)
                            w.sum[e * 4 + k][me] = merge(w.sum[e * 4 + k][me], o[1][e * 4 + k], f, f_add);
                    }
                }
#pragma unroll
                for (int h = 0; h < 2; h++)
#pragma unroll
                    for (int k = 0; k < 2; k++) {
                        int r = warp * 16 + h * 8 + 2 * t + k;
                        l[h * 2 + k] = merge(l[h * 2 + k], cut_l[h][k], w.old[r], w.add[r]);
                    }
            }
        }
        if (g == 0)
#pragma unroll
            for (int k = 0; k < 4; k++)
                w.inverse[warp * 16 + k / 2 * 8 + 2 * t + k % 2] = __frcp_rn(l[k]);
        meet_group();
        auto store = [&](int n, int d, float v) {
            size_t row = token_of(n);
            int col = column_of(n) + d;
            if (a.y)
                a.y[row * a.y_stride + col] = v;
            if (a.y16)
                ((__nv_bfloat16 *)a.y16)[row * a.y16_stride + col] = __float2bfloat16(v);
        };
#pragma unroll
        for (int e = 0; e < 16; e++) {
            int n = e / 2 * 8 + 2 * t + e % 2;
            float inverse = w.inverse[n];
            if (n < item.n_pair && (together || group == 0))
#pragma unroll
                for (int k = 0; k < 2; k++) {
                    store(n, warp * 16 + g + k * 8, __fmul_rn(sum[e / 2 * 4 + k * 2 + e % 2], inverse));
                    if constexpr (HALVES > 1)
                        store(n, 64 + warp * 16 + g + k * 8, __fmul_rn(w.sum[e / 2 * 4 + k * 2 + e % 2][me], inverse));
                }
        }
        meet_group(); // the next unit's q may lie where this one's was
    }
#endif
}
