// attention.cu - ATTENTION over pages for any step: mma.sync, any number of query heads a KV head, heads of 16 to 128.
//
// A unit (launch.h: qr_cu_item) is up to 16 M (token, head) pairs of a sequence that share a KV head, so K and V are read once for
// all of them. The arithmetic of a row is that of attention.cuh, whatever the unit: eight warps take 32 of a cut's 256 tokens
// each for the scores, meet for the maximum, leave p in shared memory as A operands, and take a piece of d each for the sums.
// A unit with one cut alone leaves its result among the parts; the one that ends last adds them from left to right.
//
// Bytes: 4 head_dim per token of context and KV head for K and V, once a unit.
#include <cuda_fp16.h>
#include "cuda/attention.cuh"
#include "cuda/launch.cuh"

constexpr int WARPS = 8, STEPS = CUT_TOKENS / 16; // steps of 16 tokens

// Keys and values in bf16 or f16; q and p are rounded to the same type.
template <bool F16> struct kind {
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
};

template <int HEAD_DIM, int M> struct unit_shared {
    uint4 q[M][HEAD_DIM / 16][32]; // A operands
    uint4 p[M][STEPS][32];
    float high[WARPS][M * 16]; // largest score of each warp's tokens
    float mc[M * 16], l[M * 16];
    unsigned before;
};

// How the sums over d are shared out: each warp has one tile of 16 d for M_EACH groups of 16 pairs.
template <int HEAD_DIM, int M> struct share {
    static constexpr int tiles = HEAD_DIM / 16, m_each = M * tiles / WARPS > 0 ? M * tiles / WARPS : 1;
    static constexpr int busy = tiles * (M / m_each);
    static_assert(busy <= WARPS, "a warp has one piece");
};

template <int HEAD_DIM>
static __device__ inline void add_parts(const qr_cu_attention &a, const qr_cu_item &item, int kv_head, int group)
{
    const float2 *ml = (const float2 *)(a.part + (size_t)a.n_part * a.n_kv_head * 16 * HEAD_DIM);
    for (int i = threadIdx.x; i < item.n_pair * HEAD_DIM / 4; i += blockDim.x) {
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

template <int HEAD_DIM, int M, bool F16>
static __global__ void __launch_bounds__(WARPS * 32, M == 1 ? 2 : 1)
    attention(const __grid_constant__ qr_cu_attention a, const qr_cu_item *items, int which_count)
{
    extern __shared__ __align__(16) char raw[];
    using type = kind<F16>;
    using mine = share<HEAD_DIM, M>;
    constexpr int BYTES = PAGE_TOKENS * HEAD_DIM * 2;
    auto &s = *(unit_shared<HEAD_DIM, M> *)raw;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int kv_head = blockIdx.y, group = a.n_head / a.n_kv_head;
    const int d_tile = warp % mine::tiles, m_first = warp / mine::tiles * mine::m_each;
    begin();
    const int n_item = a.count[which_count], table_stride = a.count[2];
    const float c_scale = (a.soft_cap > 0 ? 1.0f : a.scale) * 1.4426950408889634f;
    for (int u = blockIdx.x; u < n_item; u += gridDim.x) {
        const qr_cu_item item = items[u];
        const int *table = a.table + (size_t)item.sequence * table_stride;
        auto page_of = [&](const char *pages, int token) {
            return (const uint4 *)(pages + ((size_t)table[token / PAGE_TOKENS] * a.n_kv_head + kv_head) * BYTES);
        };
        __syncthreads(); // the unit before has read what it left
        for (int i = threadIdx.x; i < M * (HEAD_DIM / 16) * 32; i += WARPS * 32) {
            int m = i / (HEAD_DIM / 16 * 32), k = i / 32 % (HEAD_DIM / 16) * 16 + i % 4 * 2;
            uint32_t half[4] = {};
#pragma unroll
            for (int r = 0; r < 2; r++) {
                int pair = m * 16 + i % 32 / 4 + r * 8;
                if (pair >= item.n_pair)
                    continue;
                pair += item.pair;
                const float *q = a.q + (size_t)(item.row + pair / group) * a.q_stride +
                                 (size_t)(kv_head * group + pair % group) * HEAD_DIM + k;
                half[r] = type::pack(q[0], q[1]);
                half[r + 2] = type::pack(q[8], q[9]);
            }
            s.q[m][k / 16][i % 32] = make_uint4(half[0], half[1], half[2], half[3]);
        }
        int position[M][2];
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                int pair = m * 16 + g + r * 8;
                position[m][r] = pair < item.n_pair ? a.position[item.row + (item.pair + pair) / group] : -1;
            }
        const int first = a.position[item.row + item.pair / group],
                  last = a.position[item.row + (item.pair + item.n_pair - 1) / group];
        const int low = a.window > 0 ? max(0, first - a.window + 1) : 0;
        const int cut0 = item.cut < 0 ? low / CUT_TOKENS : item.cut;
        const int cut1 = item.cut < 0 ? last / CUT_TOKENS + 1 : item.cut + 1;
        float o[mine::m_each][2][4], l[mine::m_each][2], mc[mine::m_each][2];
#pragma unroll
        for (int m = 0; m < mine::m_each; m++) {
            mc[m][0] = mc[m][1] = -INFINITY;
            l[m][0] = l[m][1] = 0;
#pragma unroll
            for (int e = 0; e < 8; e++)
                o[m][e / 4][e % 4] = 0;
        }
        __syncthreads();
        for (int cut = cut0; cut < cut1; cut++) {
            const int base = cut * CUT_TOKENS;
            float x[M][4][4] = {}; // rows g, g + 8; tokens i * 8 + 2t, + 1 of the warp's 32
#pragma unroll
            for (int n = 0; n < 2; n++) {
                int token = base + (warp * 2 + n) * PAGE_TOKENS;
                if (token > last || token + PAGE_TOKENS <= low)
                    continue;
                const uint4 *k = page_of(a.k_pages, token) + lane;
#pragma unroll
                for (int j = 0; j < HEAD_DIM / 16; j++) {
                    uint4 b = k[j * 32];
#pragma unroll
                    for (int m = 0; m < M; m++) {
                        uint4 q = s.q[m][j][lane];
                        type::mma(x[m][n * 2], q, b.x, b.z);
                        type::mma(x[m][n * 2 + 1], q, b.y, b.w);
                    }
                }
            }
#pragma unroll
            for (int m = 0; m < M; m++) {
                float high[2] = {-INFINITY, -INFINITY};
#pragma unroll
                for (int i = 0; i < 4; i++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        int token = base + warp * 32 + i * 8 + 2 * t + e % 2, at = position[m][e / 2];
                        if (a.soft_cap > 0)
                            x[m][i][e] = a.soft_cap * tanhf(x[m][i][e] * a.scale / a.soft_cap);
                        if (token > at || (a.window > 0 && token <= at - a.window))
                            x[m][i][e] = -INFINITY;
                        high[e / 2] = fmaxf(high[e / 2], x[m][i][e]);
                    }
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    high[r] = fmaxf(high[r], __shfl_xor_sync(~0u, high[r], 1));
                    high[r] = fmaxf(high[r], __shfl_xor_sync(~0u, high[r], 2));
                    if (t == 0)
                        s.high[warp][m * 16 + g + r * 8] = high[r];
                }
            }
            __syncthreads();
#pragma unroll
            for (int m = 0; m < M; m++) {
                float cut_mc[2];
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    float high = -INFINITY;
#pragma unroll
                    for (int w = 0; w < WARPS; w++)
                        high = fmaxf(high, s.high[w][m * 16 + g + r * 8]);
                    cut_mc[r] = __fmul_rn(high, c_scale);
                    if (warp == 0 && t == 0)
                        s.mc[m * 16 + g + r * 8] = cut_mc[r];
                    if (high == -INFINITY)
                        cut_mc[r] = 0; // nothing to see: every p is 0
                }
#pragma unroll
                for (int n = 0; n < 2; n++) {
                    float(*y)[4] = x[m] + n * 2;
                    uint4 p;
                    p.x = type::pack(attention_weight(y[0][0], c_scale, cut_mc[0]), attention_weight(y[0][1], c_scale, cut_mc[0]));
                    p.y = type::pack(attention_weight(y[0][2], c_scale, cut_mc[1]), attention_weight(y[0][3], c_scale, cut_mc[1]));
                    p.z = type::pack(attention_weight(y[1][0], c_scale, cut_mc[0]), attention_weight(y[1][1], c_scale, cut_mc[0]));
                    p.w = type::pack(attention_weight(y[1][2], c_scale, cut_mc[1]), attention_weight(y[1][3], c_scale, cut_mc[1]));
                    s.p[m][warp * 2 + n][lane] = p;
                }
            }
            __syncthreads();
            if (warp >= mine::busy)
                continue;
            float sum[mine::m_each][2][4] = {}, sum_l[mine::m_each][4] = {};
#pragma unroll 4
            for (int step = 0; step < STEPS; step++) {
                int token = base + step * 16;
                if (token > last)
                    break;
                if (token + PAGE_TOKENS <= low)
                    continue;
                uint4 b = page_of(a.v_pages, token)[d_tile * 32 + lane];
#pragma unroll
                for (int m = 0; m < mine::m_each; m++) {
                    uint4 p = s.p[m_first + m][step][lane];
                    type::mma(sum[m][0], p, b.x, b.z);
                    type::mma(sum[m][1], p, b.y, b.w);
                    type::mma(sum_l[m], p, type::ones, type::ones);
                }
            }
#pragma unroll
            for (int m = 0; m < mine::m_each; m++)
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    float cut_mc = s.mc[(m_first + m) * 16 + g + r * 8];
                    if (cut_mc == -INFINITY)
                        continue;
                    bool none = mc[m][r] == -INFINITY;
                    merge_factors f = merge_cut(none ? cut_mc : mc[m][r], cut_mc);
#pragma unroll
                    for (int i = 0; i < 2; i++)
#pragma unroll
                        for (int e = r * 2; e < r * 2 + 2; e++)
                            o[m][i][e] = none ? sum[m][i][e] : merge_value(f, o[m][i][e], sum[m][i][e]);
                    l[m][r] = none ? sum_l[m][r * 2] : merge_value(f, l[m][r], sum_l[m][r * 2]);
                    mc[m][r] = f.mc;
                }
        }
        if (warp < mine::busy)
#pragma unroll
            for (int m = 0; m < mine::m_each; m++)
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    int at = (m_first + m) * 16 + g + r * 8, pair = item.pair + at;
                    if (at >= item.n_pair)
                        continue;
                    if (item.cut >= 0) {
                        size_t to = ((size_t)(item.part + item.cut) * a.n_kv_head + kv_head) * 16 + at;
#pragma unroll
                        for (int i = 0; i < 2; i++)
                            __stcg((float2 *)(a.part + to * HEAD_DIM + d_tile * 16 + i * 8 + 2 * t),
                                   make_float2(o[m][i][r * 2], o[m][i][r * 2 + 1]));
                        if (d_tile == 0 && t == 0)
                            __stcg((float2 *)(a.part + (size_t)a.n_part * a.n_kv_head * 16 * HEAD_DIM) + to,
                                   make_float2(mc[m][r], l[m][r]));
                        continue;
                    }
                    float inverse = __frcp_rn(l[m][r]);
                    size_t row = item.row + pair / group, col = (size_t)(kv_head * group + pair % group) * HEAD_DIM + d_tile * 16;
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        float lo = __fmul_rn(o[m][i][r * 2], inverse), hi = __fmul_rn(o[m][i][r * 2 + 1], inverse);
                        size_t d = col + i * 8 + 2 * t;
                        if (a.y) {
                            a.y[row * a.y_stride + d] = lo;
                            a.y[row * a.y_stride + d + 1] = hi;
                        }
                        if (a.y16)
                            *(uint32_t *)((__nv_bfloat16 *)a.y16 + row * a.y16_stride + d) = pack_bf16(lo, hi);
                    }
                }
        if (item.cut < 0)
            continue;
        __threadfence();
        __syncthreads();
        unsigned *counter = a.counter + (size_t)item.tile * a.n_kv_head + kv_head;
        if (threadIdx.x == 0)
            s.before = atomicAdd(counter, 1);
        __syncthreads();
        if (s.before != (unsigned)item.n_cut - 1)
            continue;
        __threadfence();
        add_parts<HEAD_DIM>(a, item, kv_head, group);
        if (threadIdx.x == 0)
            *counter = 0;
    }
}

template <int HEAD_DIM, bool F16> static cudaError_t run(const struct qr_cu_on *on, const struct qr_cu_attention *a)
{
    // Blocks that are there at once, at most; with more units each block takes several.
    int many_blocks = on->n_sm / a->n_kv_head > 0 ? on->n_sm * 2 / a->n_kv_head : 1, few_blocks = many_blocks * 2;
    if (a->max_many) {
        auto kernel = attention<HEAD_DIM, 4, F16>;
        int n = a->max_many < many_blocks ? a->max_many : many_blocks;
        cudaError_t e = launch(on, kernel, dim3(n, a->n_kv_head), WARPS * 32, sizeof(unit_shared<HEAD_DIM, 4>), *a, a->many, 1);
        if (e)
            return e;
    }
    if (!a->max_few)
        return cudaSuccess;
    int n = a->max_few < few_blocks ? a->max_few : few_blocks;
    return launch(on, attention<HEAD_DIM, 1, F16>, dim3(n, a->n_kv_head), WARPS * 32, sizeof(unit_shared<HEAD_DIM, 1>), *a,
                  a->few, 0);
}

template <int HEAD_DIM> static cudaError_t prepare()
{
    cudaError_t e = cudaFuncSetAttribute(attention<HEAD_DIM, 4, false>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         sizeof(unit_shared<HEAD_DIM, 4>));
    return e ? e
             : cudaFuncSetAttribute(attention<HEAD_DIM, 4, true>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    sizeof(unit_shared<HEAD_DIM, 4>));
}

extern "C" cudaError_t qr_cu_prepare_attention(int head_dim)
{
    return head_dim == 128 ? prepare<128>() : head_dim == 64 ? prepare<64>() : cudaSuccess;
}

extern "C" int qr_cu_attention_has(int head_dim)
{
    return head_dim == 16 || head_dim == 32 || head_dim == 64 || head_dim == 128;
}

extern "C" cudaError_t qr_cu_run_attention(const struct qr_cu_on *on, const struct qr_cu_attention *a)
{
    switch (a->head_dim) {
    case 16:
        return a->f16 ? run<16, true>(on, a) : run<16, false>(on, a);
    case 32:
        return a->f16 ? run<32, true>(on, a) : run<32, false>(on, a);
    case 64:
        return a->f16 ? run<64, true>(on, a) : run<64, false>(on, a);
    case 128:
        return a->f16 ? run<128, true>(on, a) : run<128, false>(on, a);
    }
    return cudaErrorInvalidValue;
}
