// attention.cu - ATTENTION over pages for any step: mma.sync, any number of query heads a KV head, heads of 16 to 128.
//
// Here units of many: up to 64 (token, head) pairs of a sequence that share a KV head, so K and V are read once for all of them.
// The arithmetic of a row is that of attention.cuh: eight warps take 32 of a cut's 256 tokens each for the scores, meet for the
// maximum, leave p in shared memory as A operands, and take a piece of d each for the sums. Units of few: attention_few.cu.
//
// Bytes: 4 head_dim per token of context and KV head for K and V, once a unit.
#include "cuda/attention_hopper.cuh"
#include "cuda/attention_unit.cuh"

constexpr int M = QR_CU_MANY / 16; // groups of 16 pairs, the m of a product

template <int HEAD_DIM> struct many_shared {
    uint4 q[M][HEAD_DIM / 16][32]; // A operands
    uint4 p[M][STEPS][32];
    float high[WARPS][M * 16]; // largest score of each warp's tokens
    float mc[M * 16];
};

// How the sums over d are shared out: each warp has one tile of 16 d for M_EACH groups of 16 pairs.
template <int HEAD_DIM> struct share {
    static constexpr int tiles = HEAD_DIM / 16, m_each = M * tiles / WARPS > 0 ? M * tiles / WARPS : 1;
    static constexpr int busy = tiles * (M / m_each);
    static_assert(busy <= WARPS, "a warp has one piece");
};

template <int HEAD_DIM, bool F16>
static __global__ void __launch_bounds__(WARPS * 32, 1) attention_many(const __grid_constant__ qr_cu_attention a)
{
    extern __shared__ __align__(16) char raw[];
    using type = kind<F16>;
    using mine = share<HEAD_DIM>;
    constexpr int BYTES = PAGE_TOKENS * HEAD_DIM * 2;
    auto &s = *(many_shared<HEAD_DIM> *)raw;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int kv_head = blockIdx.y, group = a.n_head / a.n_kv_head, q_stride = a.n_head * HEAD_DIM;
    const int d_tile = warp % mine::tiles, m_first = warp / mine::tiles * mine::m_each;
    begin();
    const int n_item = a.count[1], table_stride = a.count[2];
    const float c_scale = exponent_scale(a);
    for (int u = blockIdx.x; u < n_item; u += gridDim.x) {
        const qr_cu_item item = a.many[u];
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
                const uint16_t *q = (const uint16_t *)a.q + (size_t)(item.row + pair / group) * q_stride +
                                    (kv_head * group + pair % group) * HEAD_DIM + k;
                half[r] = *(const uint32_t *)q;
                half[r + 2] = *(const uint32_t *)(q + 8);
            }
            s.q[m][k / 16][i % 32] = make_uint4(half[0], half[1], half[2], half[3]);
        }
        int position[M][2];
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                int pair = m * 16 + g + r * 8;
                position[m][r] = pair < item.n_pair ? item.first + (item.pair + pair) / group : -1;
            }
        const int first = item.first + item.pair / group, last = item.first + (item.pair + item.n_pair - 1) / group;
        const int low = a.window > 0 ? max(0, first - a.window + 1) : 0;
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
        for (int cut = low / CUT_TOKENS; cut <= last / CUT_TOKENS; cut++) {
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
                        x[m][i][e] = masked_score(a, x[m][i][e], base + warp * 32 + i * 8 + 2 * t + e % 2, position[m][e / 2]);
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
                for (int n = 0; n < 2; n++)
                    s.p[m][warp * 2 + n][lane] = type::weights(x[m] + n * 2, c_scale, cut_mc);
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
                for (int r = 0; r < 2; r++)
                    add_cut(o[m], l[m][r], mc[m][r], r, sum[m], sum_l[m], s.mc[(m_first + m) * 16 + g + r * 8]);
        }
        if (warp >= mine::busy)
            continue;
#pragma unroll
        for (int m = 0; m < mine::m_each; m++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                int at = (m_first + m) * 16 + g + r * 8;
                if (at < item.n_pair)
                    store_result(a, item, at, kv_head, d_tile, o[m], l[m][r], r);
            }
    }
}

template <int HEAD_DIM> static cudaError_t run(const struct qr_cu_on *on, const struct qr_cu_attention *a)
{
    int blocks = on->n_sm / a->n_kv_head > 0 ? on->n_sm / a->n_kv_head : 1; // those that are there at once
    blocks = a->max_many < blocks ? a->max_many : blocks;
    return launch(on, a->f16 ? attention_many<HEAD_DIM, true> : attention_many<HEAD_DIM, false>, dim3(blocks, a->n_kv_head),
                  WARPS * 32, sizeof(many_shared<HEAD_DIM>), *a);
}

template <int HEAD_DIM> static cudaError_t prepare()
{
    const auto most = cudaFuncAttributeMaxDynamicSharedMemorySize;
    cudaError_t e = cudaFuncSetAttribute(attention_many<HEAD_DIM, false>, most, sizeof(many_shared<HEAD_DIM>));
    return e ? e : cudaFuncSetAttribute(attention_many<HEAD_DIM, true>, most, sizeof(many_shared<HEAD_DIM>));
}

extern "C" cudaError_t qr_cu_prepare_attention(const struct qr_cu_on *on, int head_dim)
{
    cudaError_t e = on->arch == 90 ? qr_cu_prepare_attention_wide(head_dim) : cudaSuccess;
    if (e)
        return e;
    return head_dim == 128 ? prepare<128>() : head_dim == 64 ? prepare<64>() : cudaSuccess;
}

extern "C" int qr_cu_attention_has(int head_dim)
{
    return head_dim == 16 || head_dim == 32 || head_dim == 64 || head_dim == 128;
}

extern "C" cudaError_t qr_cu_run_attention(const struct qr_cu_on *on, const struct qr_cu_attention *a)
{
    cudaError_t e = a->max_few ? qr_cu_attention_few(on, *a) : cudaSuccess;
    if (e || !a->max_many)
        return e;
    e = qr_cu_attention_wide(on, *a);
    if (e != cudaErrorInvalidConfiguration)
        return e;
    switch (a->head_dim) {
    case 16:
        return run<16>(on, a);
    case 32:
        return run<32>(on, a);
    case 64:
        return run<64>(on, a);
    case 128:
        return run<128>(on, a);
    }
    return cudaErrorInvalidValue;
}
