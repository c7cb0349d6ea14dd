// attention_unit.cuh - what the kernels for units of few and of many pairs share (launch.h: qr_cu_item).
//
// A unit with one cut alone leaves its result among the parts; the one that ends last adds them from left to right.
#pragma once
#include <type_traits>
#include <cuda_fp16.h>
#include "cuda/attention.cuh"
#include "cuda/launch.cuh"

constexpr int WARPS = 8, STEPS = CUT_TOKENS / 16; // steps of 16 tokens

// Keys and values in bf16, f16 or fp8; q and p are rounded to f16 with the second, else to bf16.
template <int KV> struct kind {
    static constexpr bool F16 = KV == QR_CU_F16, FP8 = KV == QR_CU_FP8;
    using piece = std::conditional_t<FP8, uint2, uint4>; // a lane's part of a tile as it lies in a page
    static __device__ inline uint4 k_tile(uint2 v, uint2 f) { return unpack_k(v, f); }
    static __device__ inline uint4 v_tile(uint2 v, uint2 f) { return unpack_v(v, f); }
    static __device__ inline uint4 k_tile(uint4 v, uint2) { return v; }
    static __device__ inline uint4 v_tile(uint4 v, uint2) { return v; }
    static constexpr uint32_t ones = F16 ? 0x3C003C00 : BF16_ONES;
    static __device__ inline uint32_t pack(float lo, float hi)
    {
        if (!F16)
            return pack_bf16(lo, hi);
        uint32_t r;
        asm("cvt.rn.f16x2.f32 %0,%1,%2;" : "=r"(r) : "f"(hi), "f"(lo));
        return r;
    }
    static __device__ inline void mma(float (&d)[4], const uint4 &a, uint32_t b0, uint32_t b1)
    {
        if (!F16)
            return mma_bf16(d, a, b0, b1);
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
    }
    // p of rows g, g + 8 at 16 tokens, from two products of 8 tokens: an A operand.
    static __device__ inline uint4 weights(const float (*x)[4], float c, const float (&mc)[2])
    {
        uint4 p;
        p.x = pack(attention_weight(x[0][0], c, mc[0]), attention_weight(x[0][1], c, mc[0]));
        p.y = pack(attention_weight(x[0][2], c, mc[1]), attention_weight(x[0][3], c, mc[1]));
        p.z = pack(attention_weight(x[1][0], c, mc[0]), attention_weight(x[1][1], c, mc[0]));
        p.w = pack(attention_weight(x[1][2], c, mc[1]), attention_weight(x[1][3], c, mc[1]));
        return p;
    }
};

// Row r (0: g, 1: g + 8) of a tile of 16 d: the next cut joins those before it.
static __device__ inline void add_cut(float (&o)[2][4], float &l, float &mc, int r, const float (&cut)[2][4],
                                      const float (&cut_l)[4], float cut_mc)
{
    if (cut_mc == -INFINITY)
        return; // all of it lies before the window
    bool none = mc == -INFINITY;
    merge_factors f = merge_cut(none ? cut_mc : mc, cut_mc);
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int e = 0; e < 2; e++)
            o[i][r * 2 + e] = none ? cut[i][r * 2 + e] : merge_value(f, o[i][r * 2 + e], cut[i][r * 2 + e]);
    l = none ? cut_l[r * 2] : merge_value(f, l, cut_l[r * 2]);
    mc = f.mc;
}

// The finished tile of 16 d of pair `at` of a unit.
static __device__ inline void store_result(const qr_cu_attention &a, const qr_cu_item &item, int at, int kv_head, int d_tile,
                                           const float (&o)[2][4], float l, int r)
{
    const int group = a.n_head / a.n_kv_head, pair = item.pair + at, t = threadIdx.x % 4;
    const float inverse = __frcp_rn(l);
    size_t row = item.row + pair / group, col = (size_t)(kv_head * group + pair % group) * a.head_dim + d_tile * 16 + 2 * t;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float lo = __fmul_rn(o[i][r * 2], inverse), hi = __fmul_rn(o[i][r * 2 + 1], inverse);
        if (a.y) {
            a.y[row * a.y_stride + col + i * 8] = lo;
            a.y[row * a.y_stride + col + i * 8 + 1] = hi;
        }
        if (a.y16)
            *(uint32_t *)((__nv_bfloat16 *)a.y16 + row * a.y16_stride + col + i * 8) = pack_bf16(lo, hi);
    }
}

// What a cut's scores are multiplied by before 2^.
static __device__ inline float exponent_scale(const qr_cu_attention &a)
{
    return (a.soft_cap > 0 ? 1.0f : a.scale) * 1.4426950408889634f;
}

// A score as the mask and the cap leave it.
static __device__ inline float masked_score(const qr_cu_attention &a, float x, int token, int position)
{
    if (a.soft_cap > 0)
        x = a.soft_cap * tanhf(x * a.scale / a.soft_cap);
    return token > position || (a.window > 0 && token <= position - a.window) ? -INFINITY : x;
}

template <int HEAD_DIM>
static __device__ inline void add_parts(const qr_cu_attention &a, const qr_cu_item &item, int kv_head, int group,
                                        int threads)
{
    const float2 *ml = (const float2 *)(a.part + (size_t)a.n_part * a.n_kv_head * 16 * HEAD_DIM);
    for (int i = threadIdx.x; i < item.n_pair * HEAD_DIM / 4; i += threads) {
        int pair = i / (HEAD_DIM / 4), d = i % (HEAD_DIM / 4) * 4;
        float mc = -INFINITY, l = 0;
        float4 o = make_float4(0, 0, 0, 0);
        for (int c = 0; c < item.n_cut; c++) {
            size_t at = ((size_t)(item.part + c) * a.n_kv_head + kv_head) * 16 + pair;
            float4 v = __ldcg((const float4 *)(a.part + at * HEAD_DIM + d));
            float2 w = __ldcg(ml + at);
            if (w.x == -INFINITY)
                continue; // all of it lies before the window
            if (mc == -INFINITY) {
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
        o = make_float4(__fmul_rn(o.x, r), __fmul_rn(o.y, r), __fmul_rn(o.z, r), __fmul_rn(o.w, r));
        int which = item.pair + pair;
        size_t row = item.row + which / group, col = (size_t)(kv_head * group + which % group) * HEAD_DIM + d;
        if (a.y) {
            float *y = a.y + row * a.y_stride + col;
            y[0] = o.x, y[1] = o.y, y[2] = o.z, y[3] = o.w;
        }
        if (a.y16)
            *(uint2 *)((__nv_bfloat16 *)a.y16 + row * a.y16_stride + col) =
                make_uint2(pack_bf16(o.x, o.y), pack_bf16(o.z, o.w));
    }
}

// Leaves the finished tile of 16 d of pair `at`, of a unit with one cut alone, among the parts.
template <int HEAD_DIM>
static __device__ inline void leave_part(const qr_cu_attention &a, const qr_cu_item &item, int at, int kv_head, int d_tile,
                                         const float (&o)[2][4], float l, float mc, int r)
{
    const int t = threadIdx.x % 4;
    size_t to = ((size_t)(item.part + item.cut) * a.n_kv_head + kv_head) * 16 + at;
#pragma unroll
    for (int i = 0; i < 2; i++)
        __stcg((float2 *)(a.part + to * HEAD_DIM + d_tile * 16 + i * 8 + 2 * t), make_float2(o[i][r * 2], o[i][r * 2 + 1]));
    if (d_tile == 0 && t == 0)
        __stcg((float2 *)(a.part + (size_t)a.n_part * a.n_kv_head * 16 * HEAD_DIM) + to, make_float2(mc, l));
}

// By the whole block, behind its parts: the one that ends last adds those of all cuts. before: a word of shared memory.
template <int HEAD_DIM>
static __device__ inline void end_part(const qr_cu_attention &a, const qr_cu_item &item, int kv_head, unsigned *before)
{
    __threadfence();
    __syncthreads();
    unsigned *counter = a.counter + (size_t)item.tile * a.n_kv_head + kv_head;
    if (threadIdx.x == 0)
        *before = atomicAdd(counter, 1);
    __syncthreads();
    if (*before != (unsigned)item.n_cut - 1)
        return;
    __threadfence();
    add_parts<HEAD_DIM>(a, item, kv_head, a.n_head / a.n_kv_head, (int)blockDim.x);
    if (threadIdx.x == 0)
        *counter = 0;
}

cudaError_t qr_cu_attention_few(const qr_cu_on *on, const qr_cu_attention &a);
// The same for many units on sm_90 (attention_stream.cu); cudaErrorInvalidConfiguration: not for these.
cudaError_t qr_cu_attention_stream(const qr_cu_on *on, const qr_cu_attention &a);
cudaError_t qr_cu_prepare_attention_stream(int head_dim);
