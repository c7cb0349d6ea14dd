// decode_attention.cuh - attention in the persistent kernel: a block takes a cut of 256 positions of one KV head of one sequence,
// and its pages come through the ring. Keys are the A operand, query heads the n of up to 8; arithmetic as in attention.cuh.
//
// A warp of 8 has two pages of keys for the scores and a tile of 16 d for the sums. The step's own k and v, which the page in the ring
// lacks, are written into it there, and into the page in memory.
#pragma once
#include "cuda/attention.cuh"
#include "cuda/decode_block.cuh"
#include "cuda/rope.cuh"

#if __CUDA_ARCH__ >= 900
// A word of y: a pair of d of heads 2t and 2t + 1 of the KV head; even g: d g, g + 1; odd: g + 7, g + 8 of the tile.
static __device__ inline void put_result(const decode_block &d, int layer, int token, int h, int tile, int tiles,
                                         const float (&o)[4], const float (&l)[2])
{
    const int group = d.p.group;
    uint32_t out[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float inverse = __frcp_rn(l[i]), lo = __fmul_rn(o[i], inverse), hi = __fmul_rn(o[i + 2], inverse);
        float other = __shfl_xor_sync(~0u, d.g % 2 ? lo : hi, 4);
        out[i] = d.g % 2 ? pack_bf16(other, hi) : pack_bf16(lo, other);
    }
    if (2 * d.t < group)
        put_word(d.words(layer, d.p.at.y) + ((size_t)(token * d.p.n_kv_head + h) * tiles + tile) * 32 + d.lane, out[0], out[1],
                 d.tag(layer));
}

static __device__ inline uint16_t bf16_bits(float x)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

// What qkv gives for the unit's heads, cuts added and bias on: query heads where `queries`, k and v where `keys`.
template <int HEAD_DIM>
static __device__ inline void gather_heads(const decode_block &d, decode_shared<HEAD_DIM> &s, int layer, const cut_unit &c,
                                           bool queries, bool keys)
{
    const int group = d.p.n_head / d.p.n_kv_head, first = queries ? 0 : group * HEAD_DIM / 2;
    const int end = (group + (keys ? 2 : 0)) * HEAD_DIM / 2;
    const float *bias = d.vector(d.layer(layer).bias_qkv);
    for (int at = first; at < end; at += 2 * MATH_THREADS) {
        const uint4 *from[2];
        float2 sum[2], b[2];
        unsigned need = 0;
#pragma unroll
        for (int n = 0; n < 2; n++) {
            int i = at + n * MATH_THREADS + threadIdx.x, head = i * 2 / HEAD_DIM;
            int of = head < group ? c.h * group + head : d.p.n_head + (head - group) * d.p.n_kv_head + c.h;
            int row = of * HEAD_DIM + i * 2 % HEAD_DIM;
            need |= i < end ? 1u << n : 0;
            from[n] = d.partial(layer, QR_DECODE_QKV, row / 16, 0, c.b) + row % 16 / 2;
            b[n] = bias && i < end ? *(const float2 *)(bias + row) : make_float2(0, 0); // on its way while words are awaited
        }
        add_partials<2, 6>(d, layer, QR_DECODE_QKV, from, need, sum);
#pragma unroll
        for (int n = 0; n < 2; n++) {
            int i = at + n * MATH_THREADS + threadIdx.x, head = i * 2 / HEAD_DIM;
            if (i >= end)
                break;
            if (bias)
                sum[n] = make_float2(sum[n].x + b[n].x, sum[n].y + b[n].y);
            *(float2 *)(s.head[head < group ? head : 8 + head - group] + i * 2 % HEAD_DIM) = sum[n];
        }
    }
}

// rope.cu, for one head of s.head: lo and hi of each of a lane's pairs.
template <int HEAD_DIM>
static __device__ inline void turn_head(const decode_block &d, const float *head, const float *norm, int position, float *lo,
                                        float *hi)
{
    constexpr int HALF = HEAD_DIM / 2, PAIRS = HALF / 32;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        lo[i] = head[i * 32 + d.lane];
        hi[i] = head[HALF + i * 32 + d.lane];
        sum = add_squares(sum, lo[i], hi[i]);
    }
    if (norm) {
#pragma unroll
        for (int m = 16; m; m /= 2)
            sum += __shfl_xor_sync(~0u, sum, m);
        float v = 1.0f / sqrtf(sum / (float)HEAD_DIM + d.p.eps_head);
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            lo[i] = lo[i] * v * norm[i * 32 + d.lane];
            hi[i] = hi[i] * v * norm[HALF + i * 32 + d.lane];
        }
    }
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        size_t at = (size_t)position * HALF + i * 32 + d.lane;
        turn_pair(lo[i], hi[i], d.p.cos[at], d.p.sin[at]);
    }
}

// Query heads to s.q; the step's k and v to their page, here and in memory. A warp a head.
template <int HEAD_DIM>
static __device__ inline void place_heads(const decode_block &d, decode_shared<HEAD_DIM> &s, int layer, const cut_unit &c,
                                          bool queries, bool keys, ring_place k_at, ring_place v_at)
{
    constexpr int HALF = HEAD_DIM / 2, PAIRS = HALF / 32;
    const int group = d.p.group;
    const qr_decode_layer &w = d.layer(layer);
    float lo[PAIRS], hi[PAIRS];
    if (queries && d.warp < group) {
        turn_head<HEAD_DIM>(d, s.head[d.warp], d.vector(w.norm_q), c.position, lo, hi);
#pragma unroll
        for (int i = 0; i < PAIRS; i++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int dim = half * HALF + i * 32 + d.lane;
                ((uint16_t *)s.q)[token_word(dim, 8, d.warp) * 2 + dim % 2] = bf16_bits(half ? hi[i] : lo[i]);
            }
    }
    if (!keys || d.warp < 8 || d.warp > 9)
        return;
    const bool is_v = d.warp == 9;
    const ring_place at = behind(d.r, is_v ? v_at : k_at, c.n_page - 1);
    const int slot = d.p.slot[c.b], token = c.position % PAGE_TOKENS;
    uint16_t *here = (uint16_t *)(d.r.slot + at.slot * SLOT);
    uint16_t *page = (uint16_t *)(d.p.kv + ((uint64_t)layer * 2 + is_v) * d.p.pool) +
                     ((size_t)max(slot, 0) / PAGE_TOKENS * d.p.n_kv_head + c.h) * PAGE_TOKENS * HEAD_DIM;
    barrier_await(&d.r.s->full[at.slot], at.phase, d.r.s->until);
    if (!is_v)
        turn_head<HEAD_DIM>(d, s.head[8], d.vector(w.norm_k), c.position, lo, hi);
#pragma unroll
    for (int i = 0; i < PAIRS; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int dim = half * HALF + i * 32 + d.lane, to = is_v ? v_page_index(token, dim) : k_page_index(token, dim);
            float x = is_v ? s.head[9][dim] : half ? hi[i] : lo[i];
            if (is_v) // as rope.cu: stale places of V must be finite
                x = x != x ? 0.0f : fminf(fmaxf(x, -3.3895314e38f), 3.3895314e38f);
            here[to] = bf16_bits(x);
            if (slot >= 0)
                page[to] = bf16_bits(x);
        }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Sums of a tile of 16 d over the cut's tokens, and of the weights alone.
template <int HEAD_DIM>
static __device__ inline void sum_values(const decode_block &d, const decode_shared<HEAD_DIM> &s, const cut_unit &c, ring_place at,
                                         float (&o)[4], float (&sum_l)[4])
{
    constexpr int AHEAD = 4;
    const uint4 ones = make_uint4(BF16_ONES, BF16_ONES, BF16_ONES, BF16_ONES);
    for (int first = 0; first < c.n_page; first += AHEAD) {
        uint4 v[AHEAD];
        uint2 p[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            v[i] = make_uint4(0, 0, 0, 0); // what lies behind the last page leaves the sums as they are
            p[i] = make_uint2(0, 0);
            if (first + i >= c.n_page)
                continue;
            barrier_await(&d.r.s->full[at.slot], at.phase, d.r.s->until);
            v[i] = *(const uint4 *)(d.r.slot + at.slot * SLOT + d.warp * 512 + d.lane * 16);
            p[i] = s.p[first + i][d.lane];
            at = behind(d.r, at, 1);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            mma_bf16(o, v[i], p[i].x, p[i].y);
            mma_bf16(sum_l, ones, p[i].x, p[i].y);
        }
    }
}

// Scores of pages `warp` and `warp` + 8, and the largest of them: x[page]: tokens g, g + 8; heads 2t, 2t + 1.
template <int HEAD_DIM>
static __device__ __forceinline__ void score_pages(const decode_block &d, const decode_shared<HEAD_DIM> &s, const cut_unit &c,
                                                   ring_place k_at, float (&x)[2][4], float (&high)[2])
{
    constexpr int TILES = HEAD_DIM / 16;
    if (d.warp >= 8 || d.warp >= c.n_page)
        return;
    const ring_place at[2] = {behind(d.r, k_at, d.warp), behind(d.r, k_at, d.warp + 8)};
    const bool both = d.warp + 8 < c.n_page;
    barrier_await(&d.r.s->full[at[0].slot], at[0].phase, d.r.s->until);
    if (both)
        barrier_await(&d.r.s->full[at[1].slot], at[1].phase, d.r.s->until);
    for (int j = 0; j < TILES; j += 2) {
        uint4 k[2][2];
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                k[n][i] = *(const uint4 *)(d.r.slot + at[n].slot * SLOT + (j + i) * 512 + d.lane * 16);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint2 q = *(const uint2 *)(&s.q[j + i][d.g][d.t * 2]);
            mma_bf16(x[0], k[0][i], q.x, q.y);
            mma_bf16(x[1], k[1][i], q.x, q.y);
        }
    }
    __syncwarp();
    if (d.lane == 0) {
        barrier_arrive(&d.r.s->empty[at[0].slot]);
        if (both)
            barrier_arrive(&d.r.s->empty[at[1].slot]);
    }
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) { // also what lies behind the last page
            if (c.cut * QR_CU_CUT + (d.warp + n * 8) * PAGE_TOKENS + d.g + e / 2 * 8 > c.position)
                x[n][e] = -INFINITY;
            high[e % 2] = fmaxf(high[e % 2], x[n][e]);
        }
}

// Unit u. By all warps that multiply.
template <int HEAD_DIM>
static __device__ __forceinline__ void attend(decode_block &d, decode_shared<HEAD_DIM> &s, int layer, int u, bool first)
{
    constexpr int TILES = HEAD_DIM / 16;
    const float c_scale = d.p.scale * 1.4426950408889634f;
    const cut_unit c = d.r.s->cut[u - d.r.s->share.attention[0]];
    const bool queries = first || c.cut == 0, keys = c.cut == c.n_cut - 1;
    const ring_place k_at = d.base, v_at = behind(d.r, k_at, c.n_page);
    d.base = behind(d.r, v_at, c.n_page);
    if (queries || keys) {
        gather_heads<HEAD_DIM>(d, s, layer, c, queries, keys);
        meet_math();
        place_heads<HEAD_DIM>(d, s, layer, c, queries, keys, k_at, v_at);
        meet_math();
    }
    float x[2][4] = {}, high[2] = {-INFINITY, -INFINITY};
    score_pages<HEAD_DIM>(d, s, c, k_at, x, high);
    if (d.warp < 8) {
#pragma unroll
        for (int m = 4; m < 32; m *= 2) {
            high[0] = fmaxf(high[0], __shfl_xor_sync(~0u, high[0], m));
            high[1] = fmaxf(high[1], __shfl_xor_sync(~0u, high[1], m));
        }
        if (d.g == 0)
            *(float2 *)&s.high[d.warp][2 * d.t] = make_float2(high[0], high[1]);
    }
    meet_math();
    float mc[2];
#pragma unroll
    for (int w = 0; w < 8; w++) {
        float2 v = *(const float2 *)&s.high[w][2 * d.t];
        high[0] = fmaxf(high[0], v.x);
        high[1] = fmaxf(high[1], v.y);
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
        mc[i] = __fmul_rn(high[i], c_scale);
#pragma unroll
    for (int n = 0; n < 2; n++) {
        const int page = d.warp + n * 8;
        if (d.warp >= 8 || page >= c.n_page)
            break;
        float e[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            e[i] = attention_weight(x[n][i], c_scale, mc[i % 2]);
        s.p[page][d.lane] = make_uint2(transpose_8x8(pack_bf16(e[0], e[1])), transpose_8x8(pack_bf16(e[2], e[3])));
    }
    meet_math();
    if (d.warp < TILES) {
        float o[4] = {0, 0, 0, 0}, sum_l[4] = {0, 0, 0, 0};
        sum_values<HEAD_DIM>(d, s, c, v_at, o, sum_l);
        float l[2] = {sum_l[0], sum_l[1]};
        if (c.n_cut == 1) {
            put_result(d, layer, c.b, c.h, d.warp, TILES, o, l);
        } else {
            uint4 *to = d.words(layer, d.p.at.cut) + ((size_t)u * TILES + d.warp) * 64 + d.lane;
            put_word(to, o[0], o[1], d.tag(layer));
            put_word(to + 32, o[2], o[3], d.tag(layer));
            if (d.warp == 0 && d.g < 2)
                put_word(d.words(layer, d.p.at.cut_sum) + (size_t)u * 8 + 2 * d.t + d.g, d.g ? mc[1] : mc[0], d.g ? l[1] : l[0],
                         d.tag(layer));
        }
    }
    meet_math();
    if ((int)threadIdx.x < c.n_page)
        barrier_arrive(&d.r.s->empty[behind(d.r, v_at, threadIdx.x).slot]);
}

// A tile of 16 d of a KV head of a sequence of n cuts, from unit u on: merged from left to right. By one warp.
template <int HEAD_DIM>
static __device__ inline void merge_cuts(const decode_block &d, int layer, int token, int h, int tile, int u, int n_cut)
{
    constexpr int TILES = HEAD_DIM / 16, AHEAD = 2;
    float o[4], l[2], mc[2];
    for (int first = 0; first < n_cut; first += AHEAD) {
        uint4 w[AHEAD * 4];
        await_words(w, n_cut - first >= AHEAD ? (1u << AHEAD * 4) - 1 : (1u << (n_cut - first) * 4) - 1, d.tag(layer), d.r.s->until, [&](int i) {
            size_t unit = u + first + i / 4;
            return i % 4 < 2 ? d.words(layer, d.p.at.cut) + (unit * TILES + tile) * 64 + i % 4 * 32 + d.lane
                             : d.words(layer, d.p.at.cut_sum) + unit * 8 + 2 * d.t + i % 4 - 2;
        });
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (first + a >= n_cut)
                break;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float cut_mc = __uint_as_float(w[a * 4 + 2 + i].x), cut_l = __uint_as_float(w[a * 4 + 2 + i].y);
                float v[2];
#pragma unroll
                for (int r = 0; r < 2; r++)
                    v[r] = __uint_as_float(i ? w[a * 4 + r].y : w[a * 4 + r].x);
                if (first + a == 0) {
                    o[i] = v[0], o[i + 2] = v[1], l[i] = cut_l, mc[i] = cut_mc;
                    continue;
                }
                merge_factors f = merge_cut(mc[i], cut_mc);
                o[i] = merge_value(f, o[i], v[0]);
                o[i + 2] = merge_value(f, o[i + 2], v[1]);
                l[i] = merge_value(f, l[i], cut_l);
                mc[i] = f.mc;
            }
        }
    }
    put_result(d, layer, token, h, tile, TILES, o, l);
}

// Those of the block's share: every tile of every KV head of every sequence of more than one cut, in turn by blocks.
template <int HEAD_DIM> static __device__ __forceinline__ void merge_all(const decode_block &d, int layer)
{
    constexpr int TILES = HEAD_DIM / 16;
    int each = d.p.n_kv_head * TILES;
    for (int i = blockIdx.x; i < d.p.n_token * each; i += gridDim.x) {
        int token = i / each, h = i % each / TILES, u = 0;
        for (int b = 0; b < token; b++)
            u += (d.p.position[b] / QR_CU_CUT + 1) * d.p.n_kv_head;
        int n_cut = d.p.position[token] / QR_CU_CUT + 1;
        if (n_cut > 1)
            merge_cuts<HEAD_DIM>(d, layer, token, h, i % TILES, u + h * n_cut, n_cut);
    }
}
#endif
