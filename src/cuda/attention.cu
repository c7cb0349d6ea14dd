// attention.cu - ATTENTION over pages for any step: mma.sync, any number of query heads a KV head, heads of 16 to 256.
//
// Here units of many: up to 64 (token, head) pairs of a sequence that share a KV head, so K and V are read once for all of them.
// The arithmetic of a row is that of attention.cuh: eight warps take 32 of a cut's 256 tokens each for the scores, meet for the
// maximum, leave p in shared memory as A operands, and take a piece of d each for the sums. Units of few: attention_few.cu, but for
// heads of 256, whose operands registers do not hold: those go through the kernel here, with one group of pairs.
//
// Bytes: 4 head_dim per token of context and KV head for K and V, once a unit.
#include "cuda/attention_hopper.cuh"
#include "cuda/attention_unit.cuh"

// M: groups of 16 pairs, the m of a product.
template <int HEAD_DIM, int M> struct many_shared {
    uint4 q[M][HEAD_DIM / 16][32]; // A operands
    uint4 p[M][STEPS][32];
    float high[WARPS][M * 16]; // largest score of each warp's tokens
    float mc[M * 16];
    unsigned before;
};

// How the sums over d are shared out: each warp has d_each tiles of 16 d, `across` tiles apart, for m_each groups of 16 pairs.
template <int HEAD_DIM, int M> struct share {
    static constexpr int tiles = HEAD_DIM / 16, d_each = tiles > WARPS ? tiles / WARPS : 1, across = tiles / d_each;
    static constexpr int m_each = across * M <= WARPS ? 1 : across * M <= 2 * WARPS ? 2 : M;
    static constexpr int busy = across * (M / m_each);
    static_assert(busy <= WARPS && M % m_each == 0 && tiles % d_each == 0, "each has a warp");
};

template <int HEAD_DIM, int KV, int M>
static __global__ void __launch_bounds__(WARPS * 32, 1) attention_many(const __grid_constant__ qr_cu_attention a)
{
    extern __shared__ __align__(16) char raw[];
    using type = kind<KV>;
    using mine = share<HEAD_DIM, M>;
    constexpr bool FEW = M * 16 == QR_CU_FEW;
    constexpr int BYTES = page_bytes(HEAD_DIM, KV), FACTORS = PAGE_TOKENS * HEAD_DIM; // fp8: behind the tiles
    auto &s = *(many_shared<HEAD_DIM, M> *)raw;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int kv_head = blockIdx.y, group = a.n_head / a.n_kv_head, q_stride = a.n_head * HEAD_DIM;
    const int d_tile = warp % mine::across, m_first = warp / mine::across * mine::m_each;
    begin();
    const int n_item = FEW ? a.max_few : a.count[1], table_stride = a.count[2];
    const float c_scale = exponent_scale(a);
    for (int u = blockIdx.x; u < n_item; u += gridDim.x) {
        const qr_cu_item item = FEW ? a.few[u] : a.many[u];
        if (FEW && item.n_pair == 0)
            break; // padding, and so is all that follows
        const int *table = a.table + (size_t)item.sequence * table_stride;
        auto page_of = [&](const char *pages, int token) {
            return pages + ((size_t)table[token / PAGE_TOKENS] * a.n_kv_head + kv_head) * BYTES;
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
        const int cut_first = FEW && item.cut >= 0 ? item.cut : low / CUT_TOKENS;
        const int cut_last = FEW && item.cut >= 0 ? item.cut : last / CUT_TOKENS;
        float o[mine::d_each][mine::m_each][2][4], l[mine::m_each][2], mc[mine::m_each][2];
#pragma unroll
        for (int m = 0; m < mine::m_each; m++) {
            mc[m][0] = mc[m][1] = -INFINITY;
            l[m][0] = l[m][1] = 0;
#pragma unroll
            for (int e = 0; e < 8 * mine::d_each; e++)
                o[e / 8][m][e / 4 % 2][e % 4] = 0;
        }
        __syncthreads();
        for (int cut = cut_first; cut <= cut_last; cut++) {
            const int base = cut * CUT_TOKENS;
            float x[M][4][4] = {}; // rows g, g + 8; tokens i * 8 + 2t, + 1 of the warp's 32
#pragma unroll
            for (int n = 0; n < 2; n++) {
                int token = base + (warp * 2 + n) * PAGE_TOKENS;
                if (token > last || token + PAGE_TOKENS <= low)
                    continue;
                const char *page = page_of(a.k_pages, token);
                const uint2 f = type::FP8 ? k_factors((const uint16_t *)(page + FACTORS), lane) : make_uint2(0, 0);
#pragma unroll
                for (int j = 0; j < HEAD_DIM / 16; j++) {
                    const uint4 b = type::k_tile(((const typename type::piece *)page)[j * 32 + lane], f);
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
            float sum[mine::d_each][mine::m_each][2][4] = {}, sum_l[mine::m_each][4] = {};
#pragma unroll 4
            for (int step = 0; step < STEPS; step++) {
                int token = base + step * 16;
                if (token > last)
                    break;
                if (token + PAGE_TOKENS <= low)
                    continue;
                const char *page = page_of(a.v_pages, token);
                const uint2 f = type::FP8 ? v_factors((const uint16_t *)(page + FACTORS), lane) : make_uint2(0, 0);
                uint4 b[mine::d_each];
#pragma unroll
                for (int d = 0; d < mine::d_each; d++)
                    b[d] = type::v_tile(((const typename type::piece *)page)[(d_tile + d * mine::across) * 32 + lane], f);
#pragma unroll
                for (int m = 0; m < mine::m_each; m++) {
                    uint4 p = s.p[m_first + m][step][lane];
#pragma unroll
                    for (int d = 0; d < mine::d_each; d++) {
                        type::mma(sum[d][m][0], p, b[d].x, b[d].z);
                        type::mma(sum[d][m][1], p, b[d].y, b[d].w);
                    }
                    type::mma(sum_l[m], p, type::ones, type::ones);
                }
            }
#pragma unroll
            for (int m = 0; m < mine::m_each; m++)
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    const float cut_mc = s.mc[(m_first + m) * 16 + g + r * 8], l_before = l[m][r], mc_before = mc[m][r];
#pragma unroll
                    for (int d = 0; d < mine::d_each; d++) {
                        l[m][r] = l_before, mc[m][r] = mc_before; // each tile is brought on by the same
                        add_cut(o[d][m], l[m][r], mc[m][r], r, sum[d][m], sum_l[m], cut_mc);
                    }
                }
        }
        if (warp < mine::busy)
#pragma unroll
            for (int i = 0; i < mine::m_each * mine::d_each * 2; i++) {
                const int m = i / 2 / mine::d_each, d = i / 2 % mine::d_each, r = i % 2;
                const int at = (m_first + m) * 16 + g + r * 8, tile = d_tile + d * mine::across;
                if (at >= item.n_pair)
                    continue;
                if (FEW && item.cut >= 0)
                    leave_part<HEAD_DIM>(a, item, at, kv_head, tile, o[d][m], l[m][r], mc[m][r], r);
                else
                    store_result(a, item, at, kv_head, tile, o[d][m], l[m][r], r);
            }
        if (FEW && item.cut >= 0)
            end_part<HEAD_DIM>(a, item, kv_head, &s.before);
    }
}

using kernel = void (*)(const qr_cu_attention);
template <int HEAD_DIM, int M> static kernel kernel_for(enum qr_cu_kv kv)
{
    return kv == QR_CU_F16   ? attention_many<HEAD_DIM, QR_CU_F16, M>
           : kv == QR_CU_FP8 ? attention_many<HEAD_DIM, QR_CU_FP8, M>
                             : attention_many<HEAD_DIM, QR_CU_BF16, M>;
}

template <int HEAD_DIM, int M> static cudaError_t run(const struct qr_cu_on *on, const struct qr_cu_attention *a, int most)
{
    int blocks = on->n_sm / a->n_kv_head > 0 ? on->n_sm / a->n_kv_head : 1; // those that are there at once
    blocks = most < blocks ? most : blocks;
    return launch(on, kernel_for<HEAD_DIM, M>(a->kv), dim3(blocks, a->n_kv_head), WARPS * 32,
                  sizeof(many_shared<HEAD_DIM, M>), *a);
}

template <int HEAD_DIM> static cudaError_t run(const struct qr_cu_on *on, const struct qr_cu_attention *a)
{
    return run<HEAD_DIM, QR_CU_MANY / 16>(on, a, a->max_many);
}

template <int HEAD_DIM> static cudaError_t prepare()
{
    constexpr int M = QR_CU_MANY / 16;
    for (enum qr_cu_kv kv : {QR_CU_BF16, QR_CU_F16, QR_CU_FP8}) {
        cudaError_t e = cudaFuncSetAttribute(kernel_for<HEAD_DIM, M>(kv), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             sizeof(many_shared<HEAD_DIM, M>));
        if (e)
            return e;
    }
    return cudaSuccess;
}

extern "C" cudaError_t qr_cu_prepare_attention(const struct qr_cu_on *on, int head_dim)
{
    cudaError_t e = on->arch == 90 ? qr_cu_prepare_attention_wide(head_dim) : cudaSuccess;
    if (!e && on->arch >= 90 && on->arch < 120)
        e = qr_cu_prepare_attention_stream(head_dim);
    if (e)
        return e;
    switch (head_dim) {
    case 64:
        return prepare<64>();
    case 96:
        return prepare<96>();
    case 128:
        return prepare<128>();
    case 256:
        return prepare<256>();
    }
    return cudaSuccess; // less than every kernel may have
}

extern "C" int qr_cu_attention_has(int head_dim)
{
    return head_dim == 16 || head_dim == 32 || head_dim == 64 || head_dim == 96 || head_dim == 128 || head_dim == 256;
}

extern "C" uint64_t qr_cu_page_bytes(int head_dim, enum qr_cu_kv kv)
{
    return (uint64_t)page_bytes(head_dim, kv);
}

extern "C" cudaError_t qr_cu_run_attention(const struct qr_cu_on *on, const struct qr_cu_attention *a)
{
    cudaError_t e = a->max_few ? qr_cu_attention_stream(on, *a) : cudaSuccess;
    if (e == cudaErrorInvalidConfiguration)
        e = a->head_dim == 256 ? run<256, QR_CU_FEW / 16>(on, a, a->max_few) : qr_cu_attention_few(on, *a);
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
    case 96:
        return run<96>(on, a);
    case 128:
        return run<128>(on, a);
    case 256:
        return run<256>(on, a);
    }
    return cudaErrorInvalidValue;
}
