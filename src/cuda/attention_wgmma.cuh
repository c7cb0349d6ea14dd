// attention_wgmma.cuh - causal attention of all rows of a prompt over the same pages, by wgmma; bits as attention_decode.cuh.
//
// A block takes 128 rows of one query head, a warpgroup 64 of them as n. K tiles are A operands as they lie (a warp a page, 64 tokens a
// product), q is B in swizzled shared memory; the scores stand transposed, [tokens, rows]. The weights p go to shared memory as
// B (stmatrix turns them), V tiles are A operands as they lie, and o is [d, rows]. The last cut is done whole: what is masked adds zeros.
// The sums l are chains of mma.sync over p times 1.
#pragma once
#include "cuda/attention.cuh"

constexpr int WIDE_STAGES = 5, WIDE_ROWS = 128, WIDE_THREADS = 384;
struct alignas(1024) wide_group {
    char p[4][8192];    // [64 tokens][64 rows x 128 bytes], 128-byte swizzle
    char q[2][8192];    // [64 d][64 rows x 128 bytes], likewise
    float sum[32][128]; // o of the cuts so far, d from 64 on, [value][thread]; the others stay in registers
    float high[4][64];
    float mc[64], cut_mc[64], old[64], add[64], inverse[64];
};
struct wide_shared {
    wide_group group[2];
    char ring[WIDE_STAGES][STAGE_BYTES];
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

static __global__ void __launch_bounds__(WIDE_THREADS, 1) attention_wgmma(const __grid_constant__ attention_args a)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(128) char raw[];
    wide_shared &s = *(wide_shared *)(raw + (1024 - shared_u32(raw) % 1024) % 1024);
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4,
              group = (int)threadIdx.x / 128 - 1;
    const int share = a.heads / a.kv_heads, tiles = (a.tokens + WIDE_ROWS - 1) / WIDE_ROWS;
    const int head = blockIdx.x % a.heads,
              first = (tiles - 1 - (int)blockIdx.x / a.heads) * WIDE_ROWS; // the longest first
    const int last = min(first + WIDE_ROWS, a.tokens) - 1;
    if (threadIdx.x == 0) {
        for (int i = 0; i < WIDE_STAGES; i++) {
            barrier_init(s.full + i, 1);
            barrier_init(s.empty + i, 256); // every thread that reads
        }
        barrier_init_done();
    }
    __syncthreads();
    wait_for_previous();
    int at = 0, turn = 0;
    auto advance = [&]() {
        if (++at == WIDE_STAGES) {
            at = 0;
            turn++;
        }
    };
    const int cuts = last / CUT_TOKENS + 1;
    if (group < 0) {
        fewer_registers<24>();
        if (warp)
            return;
        for (int cut = 0; cut < cuts; cut++)
            for (int v = 0; v < 2; v++)
                for (int i = 0; i < 4; i++) {
                    barrier_wait(s.empty + at, (turn & 1) ^ 1);
                    if (lane == 0)
                        barrier_expect(s.full + at, STAGE_BYTES);
                    __syncwarp();
                    if (lane < STAGE_PAGES) { // past the end the last page stands in: its weights are zero
                        int block = a.table[min(cut * 16 + i * STAGE_PAGES + lane, last / PAGE_TOKENS)];
                        size_t page = (size_t)block * a.kv_heads + head / share;
                        copy_bulk(s.ring[at] + lane * PAGE_BYTES, (v ? a.v : a.k) + page * PAGE_BYTES, PAGE_BYTES,
                                  s.full + at);
                    }
                    advance();
                }
        return;
    }
    more_registers<240>();
    wide_group &w = s.group[group];
    const int me = threadIdx.x % 128, row = first + group * 64;
    auto meet_group = [&]() { meet(1 + group, 128); };
    for (int i = me; i < 64 * 16; i += 128) {
        int r = i / 16, c = i % 16;
        const uint4 *from = (const uint4 *)(a.q + ((size_t)min(row + r, last) * a.heads + head) * HEAD) + c;
        *(uint4 *)(w.q[c / 8] + swizzled(r, c % 8)) = *from;
    }
    if (me < 64)
        w.mc[me] = -INFINITY;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    meet_group();
    float sum[32] = {},
          l[4] = {}; // o [d 64 m + 16 warp + g, + 8][row 8n + 2t, + 1]; l of rows 16 warp + 2t, + 1, + 8, + 9
#pragma unroll
    for (int e = 0; e < 32; e++)
        w.sum[e][me] = 0;
    for (int cut = 0; cut < cuts; cut++) {
        const bool crosses = (cut + 1) * CUT_TOKENS > row;
        float x[4][32], high[16];
#pragma unroll
        for (int e = 0; e < 16; e++)
            high[e] = -INFINITY;
        auto raise = [&](int i) {
            int token = cut * CUT_TOKENS + i * 64 + warp * 16 + g;
#pragma unroll
            for (int e = 0; e < 32; e++) {
                if (crosses && token + e / 2 % 2 * 8 > row + e / 4 * 8 + 2 * t + e % 2)
                    x[i][e] = -INFINITY; // later than its row
                high[e / 4 * 2 + e % 2] = fmaxf(high[e / 4 * 2 + e % 2], x[i][e]);
            }
        };
#pragma unroll
        for (int i = 0; i < 4; i++) {
            barrier_wait(s.full + at, turn & 1);
            const uint4 *k = (const uint4 *)(s.ring[at] + warp * PAGE_BYTES) + lane;
            uint4 b[8];
#pragma unroll
            for (int j = 0; j < 8; j++)
                b[j] = k[j * 32];
            uint64_t q = descriptor_swizzled(w.q[0]);
            wgmma_fence();
#pragma unroll
            for (int j = 0; j < 8; j++) // 8 KB further: the second half of d
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
            w.cut_mc[me] = __fmul_rn(top, a.c);
            merge_factors f = merge_cut(w.mc[me], w.cut_mc[me]);
            w.mc[me] = f.mc, w.old[me] = f.old, w.add[me] = f.add;
        }
        meet_group();
#pragma unroll
        for (int e = 0; e < 8; e += 2) { // rows 8e .. 8e + 15
            float2 m0 = *(const float2 *)&w.cut_mc[e * 8 + 2 * t], m1 = *(const float2 *)&w.cut_mc[e * 8 + 8 + 2 * t];
            int to = swizzled(e * 8 + lane / 16 * 8 + lane % 8, warp * 2 + lane / 8 % 2);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *y = x[i] + e * 4;
                store_transposed(w.p[i] + to,
                                 pack_bf16(attention_weight(y[0], a.c, m0.x), attention_weight(y[1], a.c, m0.y)),
                                 pack_bf16(attention_weight(y[2], a.c, m0.x), attention_weight(y[3], a.c, m0.y)),
                                 pack_bf16(attention_weight(y[4], a.c, m1.x), attention_weight(y[5], a.c, m1.y)),
                                 pack_bf16(attention_weight(y[6], a.c, m1.x), attention_weight(y[7], a.c, m1.y)));
            }
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        meet_group();
        float o[2][32], cut_l[2][4] = {};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            barrier_wait(s.full + at, turn & 1);
            {
                const uint4 *v = (const uint4 *)(s.ring[at] + warp * 512) + lane;
                uint4 b[2][4];
#pragma unroll
                for (int page = 0; page < 4; page++)
#pragma unroll
                    for (int m = 0; m < 2; m++)
                        b[m][page] = v[page * 256 + m * 128];
                uint64_t p = descriptor_swizzled(w.p[i]);
                wgmma_fence();
#pragma unroll
                for (int m = 0; m < 2; m++)
#pragma unroll
                    for (int page = 0; page < 4; page++)
                        wgmma_bf16(o[m], b[m][page], p + page * 2, i || page);
                wgmma_commit();
#pragma unroll
                for (int page = 0; page < 4; page++) { // while the products run
                    uint4 y =
                        load_matrices(w.p[i] + swizzled(warp * 16 + lane / 16 * 8 + lane % 8, page * 2 + lane / 8 % 2));
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
                    float *high_sum = &w.sum[e * 4 + k][me];
                    float f = k % 2 ? old.y : old.x, f_add = k % 2 ? add.y : add.x;
                    sum[e * 4 + k] = merge(sum[e * 4 + k], o[0][e * 4 + k], f, f_add);
                    *high_sum = merge(*high_sum, o[1][e * 4 + k], f, f_add);
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
#pragma unroll
    for (int e = 0; e < 16; e++) {
        int r = e / 2 * 8 + 2 * t + e % 2;
        float inverse = w.inverse[r];
        float *to = a.out + ((size_t)(row + r) * a.heads + head) * HEAD + warp * 16 + g;
        if (row + r <= last)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                to[k * 8] = __fmul_rn(sum[e / 2 * 4 + k * 2 + e % 2], inverse);
                to[64 + k * 8] = __fmul_rn(w.sum[e / 2 * 4 + k * 2 + e % 2][me], inverse);
            }
    }
#endif
}
