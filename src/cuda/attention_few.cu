// attention_few.cu - ATTENTION for units of up to 16 (token, head) pairs: decoding. Latency is all there is to it, so a cut's K and V
// go straight to registers, all loads under way before the first product, and those of the next cut behind the last use of
// these. Otherwise as attention.cu: a warp has 32 of a cut's tokens for the scores and a tile of 16 d for the sums.
//
// Bytes: 4 head_dim per token of context and KV head.
#include "cuda/attention_unit.cuh"

template <int HEAD_DIM> struct few_shared {
    uint4 p[STEPS][32];
    float high[WARPS][16], mc[16];
    unsigned before;
};

// One cut of one unit, and its operands.
template <int HEAD_DIM, int KV> struct few_cut {
    using piece = typename kind<KV>::piece;
    qr_cu_item item;
    int u, cut, cut_last, first, last, low; // positions of the unit's first and last token, and the first that they see
    piece k[2][HEAD_DIM / 16], v[STEPS];
    uint2 k_factor[2], v_factor[STEPS]; // of fp8
    uint4 q[HEAD_DIM / 16];
};

template <int HEAD_DIM, int KV>
static __global__ void __launch_bounds__(WARPS * 32, 1) attention_few(const __grid_constant__ qr_cu_attention a)
{
    using type = kind<KV>;
    using piece = typename type::piece;
    constexpr int TILES = HEAD_DIM / 16, BYTES = page_bytes(HEAD_DIM, KV), FACTORS = PAGE_TOKENS * HEAD_DIM;
    __shared__ few_shared<HEAD_DIM> s;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int kv_head = blockIdx.y, group = a.n_head / a.n_kv_head, q_stride = a.n_head * HEAD_DIM;
    begin();
    const int n_item = a.max_few, table_stride = a.count[2];
    const float c_scale = exponent_scale(a);
    few_cut<HEAD_DIM, KV> w;
    w.u = blockIdx.x;
    int page = 0; // lane i: the block of page i of the cut whose K or V is loaded

    auto open_unit = [&]() {
        if (w.u >= n_item)
            return;
        w.item = a.few[w.u];
        if (w.item.n_pair == 0) { // padding, and so is all that follows
            w.u = n_item;
            return;
        }
        w.first = w.item.first;
        w.last = w.first + (w.item.n_pair - 1) / group;
        w.low = a.window > 0 ? max(0, w.first - a.window + 1) : 0;
        w.cut = w.item.cut < 0 ? w.low / CUT_TOKENS : w.item.cut;
        w.cut_last = w.item.cut < 0 ? w.last / CUT_TOKENS : w.item.cut;
    };
    auto seen = [&](int token) { return token <= w.last && token + PAGE_TOKENS > w.low; };
    auto find_pages = [&]() {
        int token = w.cut * CUT_TOKENS + lane * PAGE_TOKENS;
        page = lane < STEPS && seen(token) ? a.table[(size_t)w.item.sequence * table_stride + token / PAGE_TOKENS] : 0;
    };
    auto load_k = [&]() {
#pragma unroll
        for (int n = 0; n < 2; n++) {
            size_t at = (size_t)__shfl_sync(~0u, page, warp * 2 + n) * a.n_kv_head + kv_head;
            if (!seen(w.cut * CUT_TOKENS + (warp * 2 + n) * PAGE_TOKENS))
                continue;
#pragma unroll
            for (int j = 0; j < TILES; j++)
                w.k[n][j] = ((const piece *)(a.k_pages + at * BYTES))[j * 32 + lane];
            if (type::FP8)
                w.k_factor[n] = k_factors((const uint16_t *)(a.k_pages + at * BYTES + FACTORS), lane);
        }
    };
    auto load_v = [&]() {
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            size_t at = (size_t)__shfl_sync(~0u, page, i) * a.n_kv_head + kv_head;
            if (warp >= TILES || !seen(w.cut * CUT_TOKENS + i * PAGE_TOKENS))
                continue;
            w.v[i] = ((const piece *)(a.v_pages + at * BYTES))[warp * 32 + lane];
            if (type::FP8)
                w.v_factor[i] = v_factors((const uint16_t *)(a.v_pages + at * BYTES + FACTORS), lane);
        }
    };
    auto load_q = [&]() {
        const uint16_t *q[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int pair = g + r * 8;
            q[r] = pair < w.item.n_pair ? (const uint16_t *)a.q + (size_t)(w.item.row + pair / group) * q_stride +
                                              (kv_head * group + pair % group) * HEAD_DIM + 2 * t
                                        : nullptr;
        }
#pragma unroll
        for (int j = 0; j < TILES; j++)
            w.q[j] = make_uint4(q[0] ? *(const uint32_t *)(q[0] + j * 16) : 0, q[1] ? *(const uint32_t *)(q[1] + j * 16) : 0,
                                q[0] ? *(const uint32_t *)(q[0] + j * 16 + 8) : 0,
                                q[1] ? *(const uint32_t *)(q[1] + j * 16 + 8) : 0);
    };

    open_unit();
    if (w.u < n_item) {
        find_pages();
        load_k();
        load_q();
        load_v();
    }
    float o[2][4] = {}, l[2] = {0, 0}, mc[2] = {-INFINITY, -INFINITY};
    while (w.u < n_item) {
        const qr_cu_item item = w.item;
        const int base = w.cut * CUT_TOKENS, last = w.last, low = w.low;
        const bool ends = w.cut == w.cut_last;
        float x[4][4] = {}; // rows g, g + 8; tokens i * 8 + 2t, + 1 of the warp's 32
#pragma unroll
        for (int n = 0; n < 2; n++)
            if (seen(base + (warp * 2 + n) * PAGE_TOKENS))
#pragma unroll
                for (int j = 0; j < TILES; j++) {
                    const uint4 k = type::k_tile(w.k[n][j], w.k_factor[n]);
                    type::mma(x[n * 2], w.q[j], k.x, k.z);
                    type::mma(x[n * 2 + 1], w.q[j], k.y, k.w);
                }
        int position[2];
#pragma unroll
        for (int r = 0; r < 2; r++)
            position[r] = g + r * 8 < item.n_pair ? w.first + (g + r * 8) / group : -1;
        if (ends) {
            w.u += gridDim.x;
            open_unit();
        } else {
            w.cut++;
        }
        const bool more = w.u < n_item;
        if (more) {
            find_pages();
            load_k();
            if (ends)
                load_q();
        }
        float high[2] = {-INFINITY, -INFINITY};
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                x[i][e] = masked_score(a, x[i][e], base + warp * 32 + i * 8 + 2 * t + e % 2, position[e / 2]);
                high[e / 2] = fmaxf(high[e / 2], x[i][e]);
            }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            high[r] = fmaxf(high[r], __shfl_xor_sync(~0u, high[r], 1));
            high[r] = fmaxf(high[r], __shfl_xor_sync(~0u, high[r], 2));
            if (t == 0)
                s.high[warp][g + r * 8] = high[r];
        }
        __syncthreads();
        float cut_mc[2], weight_mc[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float most = -INFINITY;
#pragma unroll
            for (int i = 0; i < WARPS; i++)
                most = fmaxf(most, s.high[i][g + r * 8]);
            cut_mc[r] = __fmul_rn(most, c_scale);
            weight_mc[r] = most == -INFINITY ? 0 : cut_mc[r]; // nothing to see: every p is 0
        }
#pragma unroll
        for (int n = 0; n < 2; n++)
            s.p[warp * 2 + n][lane] = type::weights(x + n * 2, c_scale, weight_mc);
        __syncthreads();
        float sum[2][4] = {}, sum_l[4] = {};
        if (warp < TILES)
#pragma unroll
            for (int i = 0; i < STEPS; i++) {
                int token = base + i * PAGE_TOKENS;
                if (token > last || token + PAGE_TOKENS <= low)
                    continue;
                const uint4 p = s.p[i][lane], v = type::v_tile(w.v[i], w.v_factor[i]);
                type::mma(sum[0], p, v.x, v.z);
                type::mma(sum[1], p, v.y, v.w);
                type::mma(sum_l, p, type::ones, type::ones);
            }
        if (more)
            load_v();
#pragma unroll
        for (int r = 0; r < 2; r++)
            add_cut(o, l[r], mc[r], r, sum, sum_l, cut_mc[r]);
        if (!ends)
            continue;
        if (warp < TILES)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                int at = g + r * 8;
                if (at >= item.n_pair)
                    continue;
                if (item.cut < 0) {
                    store_result(a, item, at, kv_head, warp, o, l[r], r);
                    continue;
                }
                leave_part<HEAD_DIM>(a, item, at, kv_head, warp, o, l[r], mc[r], r);
            }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            mc[r] = -INFINITY;
            l[r] = 0;
        }
        if (item.cut >= 0)
            end_part<HEAD_DIM>(a, item, kv_head, &s.before);
    }
}

template <int HEAD_DIM> static cudaError_t run(const qr_cu_on *on, const qr_cu_attention &a)
{
    int blocks = on->n_sm / a.n_kv_head > 0 ? on->n_sm / a.n_kv_head : 1; // those that are there at once
    blocks = a.max_few < blocks ? a.max_few : blocks;
    return launch(on,
                  a.kv == QR_CU_F16   ? attention_few<HEAD_DIM, QR_CU_F16>
                  : a.kv == QR_CU_FP8 ? attention_few<HEAD_DIM, QR_CU_FP8>
                                      : attention_few<HEAD_DIM, QR_CU_BF16>,
                  dim3(blocks, a.n_kv_head), WARPS * 32, 0, a);
}

cudaError_t qr_cu_attention_few(const qr_cu_on *on, const qr_cu_attention &a)
{
    switch (a.head_dim) {
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
    }
    return cudaErrorInvalidValue;
}
