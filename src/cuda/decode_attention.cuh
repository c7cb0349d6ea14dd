// decode_attention.cuh - attention in the persistent kernel: a block takes a cut of 256 positions of one KV head of one sequence,
// and its pages come through the ring. Keys are the A operand, query heads the n of up to 8; arithmetic as in attention.cuh.
//
// A warp of 8 has two pages of keys for the scores and a tile of 16 d for the sums.
#pragma once
#include "cuda/decode_heads.cuh"
#include "cuda/decode_many.cuh"

#if __CUDA_ARCH__ >= 900
// Words of y: 4 neighbouring k of o. Lanes hold d g (o[0], o[1]) and g + 8 (o[2], o[3]) of a tile of 16 for heads 2t and 2t + 1.
static __device__ __forceinline__ void put_result(const decode_block &d, int layer, int token, int h, int tile,
                                                  int head_dim, const float (&o)[4], const float (&l)[2])
{
    const int group = d.p.group, odd = d.g % 2, second = d.g / 2 % 2;
    uint32_t out[2]; // even g: d g, g + 1; odd: g + 7, g + 8
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float inverse = __frcp_rn(l[i]), lo = __fmul_rn(o[i], inverse), hi = __fmul_rn(o[i + 2], inverse);
        float other = __shfl_xor_sync(~0u, odd ? lo : hi, 4);
        out[i] = odd ? pack_bf16(other, hi) : pack_bf16(lo, other);
    }
    const uint32_t other = __shfl_xor_sync(~0u, second ? out[0] : out[1], 8);
    const int j = 2 * d.t + second, row = d.p.matrix[QR_DECODE_O].k16 * 4;
    if (j < group)
        put_word(d.words(layer, d.p.at.y) + token * row + ((h * group + j) * head_dim + tile * 16) / 4 + d.g / 4 +
                     odd * 2,
                 second ? other : out[0], second ? out[1] : other, d.tag(layer));
}

// Sums of a tile of 16 d over the cut's tokens, and of the weights alone. Values' pieces are at `at` and behind.
template <int HEAD_DIM>
static __device__ __forceinline__ void sum_values(const decode_block &d, const attention_shared<HEAD_DIM> &a,
                                                  const cut_unit &c, ring_place at, float (&o)[4], float (&sum_l)[4])
{
    constexpr int AHEAD = 4;
    const uint4 ones = make_uint4(BF16_ONES, BF16_ONES, BF16_ONES, BF16_ONES);
    if (d.lane < (c.n_page + 1) / 2)
        await_piece(d.r, behind(d.r, at, d.lane)); // a lane a piece
    __syncwarp();
    for (int i = 0; DEBUGGED && i < (c.n_page + 1) / 2; i++) // racecheck wants each lane to
        await_piece(d.r, behind(d.r, at, i));
    for (int first = 0; first < c.n_page; first += AHEAD) {
        const ring_place next = behind(d.r, at, 1);
        const char *from[2] = {d.r.slot + at.slot * SLOT + d.warp * 512 + d.lane * 16,
                               d.r.slot + next.slot * SLOT + d.warp * 512 + d.lane * 16};
        uint4 v[AHEAD];
        uint2 p[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const bool is_there = first + i < c.n_page; // what lies behind the last page leaves the sums as they are
            v[i] = is_there ? *(const uint4 *)(from[i / 2] + i % 2 * (SLOT / 2)) : make_uint4(0, 0, 0, 0);
            p[i] = is_there ? a.p[first + i][d.lane] : make_uint2(0, 0);
        }
        at = behind(d.r, next, 1);
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            mma_bf16(o, v[i], p[i].x, p[i].y);
            mma_bf16(sum_l, ones, p[i].x, p[i].y);
        }
    }
}

// Scores of pages `warp` and `warp` + 8, and the largest of them: x[page]: tokens g, g + 8; heads 2t, 2t + 1.
template <int HEAD_DIM>
static __device__ __forceinline__ void score_pages(const decode_block &d, const attention_shared<HEAD_DIM> &a,
                                                   const cut_unit &c, ring_place k_at, float (&x)[2][4],
                                                   float (&high)[2])
{
    constexpr int TILES = HEAD_DIM / 16;
    if (d.warp >= 8 || d.warp >= c.n_page)
        return;
    const ring_place at[2] = {behind(d.r, k_at, d.warp / 2), behind(d.r, k_at, d.warp / 2 + 4)};
    await_piece(d.r, at[0]);
    if (d.warp + 8 < c.n_page)
        await_piece(d.r, at[1]);
    const char *from = d.r.slot + d.warp % 2 * (SLOT / 2) + d.lane * 16;
    for (int j = 0; j < TILES; j += 2) {
        uint4 k[2][2];
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                k[n][i] = *(const uint4 *)(from + at[n].slot * SLOT + (j + i) * 512);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint2 q = d.g < d.p.group ? *(const uint2 *)(&a.q[j + i][d.g][d.t * 2]) : make_uint2(0, 0);
            mma_bf16(x[0], k[0][i], q.x, q.y);
            mma_bf16(x[1], k[1][i], q.x, q.y);
        }
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

// A place of the ring whose pages no warp needs any more, for each of the unit's pieces from `at` on.
static __device__ inline void give_back(const decode_block &d, ring_place at, int pieces)
{
    for (int i = 0; DEBUGGED && i < pieces; i++)
        barrier_arrive(&d.r.s->empty[behind(d.r, at, i).slot]);
    if (!DEBUGGED && (int)threadIdx.x < pieces)
        barrier_arrive(&d.r.s->empty[behind(d.r, at, threadIdx.x).slot]);
}

// Weights of the scores, page by page, to a.p: with the largest score of all warps, mc of each head.
template <int HEAD_DIM>
static __device__ __forceinline__ void weigh_pages(const decode_block &d, attention_shared<HEAD_DIM> &a,
                                                   const cut_unit &c, const float (&x)[2][4], float (&high)[2],
                                                   float (&mc)[2])
{
    const float c_scale = d.p.scale * 1.4426950408889634f;
#pragma unroll
    for (int w = 0; w < 8; w++) {
        float2 v = *(const float2 *)&a.high[w][2 * d.t];
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
        a.p[page][d.lane] = make_uint2(transpose_8x8(pack_bf16(e[0], e[1])), transpose_8x8(pack_bf16(e[2], e[3])));
    }
}

// Unit u. By all warps that multiply.
template <int HEAD_DIM, bool MANY>
static __device__ __forceinline__ void attend(decode_block &d, const decode_shared<HEAD_DIM> &s, int layer, int u,
                                              bool first)
{
    constexpr int TILES = HEAD_DIM / 16;
    attention_shared<HEAD_DIM> &a = *(attention_shared<HEAD_DIM> *)d.staged;
    const cut_unit c = d.r.s->cut[u - d.r.s->share.attention[0]];
    const bool queries = first || c.cut == 0, keys = c.cut == c.n_cut - 1;
    const int pieces = (c.n_page + 1) / 2;
    const ring_place k_at = d.base, v_at = behind(d.r, k_at, pieces);
    d.base = behind(d.r, v_at, pieces);
    const bool own = keys && (d.warp == 8 || d.warp == 9);
    own_head<HEAD_DIM> head = {d.warp == 9};
    if (queries || keys) {
        if (queries && d.warp < d.p.group)
            place_query<HEAD_DIM>(d, a.head[d.warp], a.q, s.turn[c.b], layer, c);
        else if (own)
            head.put_here(d, a.head[d.warp], s.turn[c.b], layer, c, behind(d.r, head.is_v ? v_at : k_at, pieces - 1));
        meet_math();
    }
    d.mark(layer, QR_DECODE_AT_QUERY);
    if (own) {
        head.put_there(d, layer, c);
        head.end_here();
    }
    float x[2][4] = {}, high[2] = {-INFINITY, -INFINITY}, mc[2];
    score_pages<HEAD_DIM>(d, a, c, k_at, x, high);
    if (d.warp < 8) {
#pragma unroll
        for (int m = 4; m < 32; m *= 2) {
            high[0] = fmaxf(high[0], __shfl_xor_sync(~0u, high[0], m));
            high[1] = fmaxf(high[1], __shfl_xor_sync(~0u, high[1], m));
        }
        if (d.g == 0)
            *(float2 *)&a.high[d.warp][2 * d.t] = make_float2(high[0], high[1]);
    }
    meet_math();
    d.mark(layer, QR_DECODE_AT_SCORES);
    give_back(d, k_at, pieces);
    weigh_pages<HEAD_DIM>(d, a, c, x, high, mc);
    meet_math();
    d.mark(layer, QR_DECODE_AT_WEIGHTS);
    if (d.warp < TILES) {
        float o[4] = {0, 0, 0, 0}, sum_l[4] = {0, 0, 0, 0};
        sum_values<HEAD_DIM>(d, a, c, v_at, o, sum_l);
        d.mark(layer, QR_DECODE_AT_VALUES);
        float l[2] = {sum_l[0], sum_l[1]};
        if (c.n_cut == 1) {
            if constexpr (MANY)
                put_result_many(d, layer, c.b, c.h, d.warp, HEAD_DIM, o, l);
            else
                put_result(d, layer, c.b, c.h, d.warp, HEAD_DIM, o, l);
        } else {
            uint4 *to = d.words(layer, d.p.at.cut) + ((size_t)u * TILES + d.warp) * 64 + d.lane;
            put_word(to, o[0], o[1], d.tag(layer), mc[0]);
            put_word(to + 32, o[2], o[3], d.tag(layer), mc[1]);
            if (d.warp == 0 && d.g == 0)
                put_word(d.words(layer, d.p.at.cut_sum) + (size_t)u * 8 + d.t, l[0], l[1], d.tag(layer));
        }
    }
    meet_math();
    give_back(d, v_at, pieces);
}

// A tile of 16 d of a KV head of a sequence of n cuts, from unit u on: merged from left to right. By one warp. A cut is three words of a
// lane: values at d g and at g + 8 for heads 2t and 2t + 1, each word with the maximum of one of these heads, and sums of both.
template <int HEAD_DIM, bool MANY>
static __device__ __forceinline__ void merge_cuts(const decode_block &d, int layer, int token, int h, int tile, int u,
                                                  int n_cut)
{
    constexpr int TILES = HEAD_DIM / 16, AHEAD = 6, EACH = 3;
    const uint4 *value = d.words(layer, d.p.at.cut) + ((size_t)u * TILES + tile) * 64 + d.lane,
                *sum = d.words(layer, d.p.at.cut_sum) + (size_t)u * 8 + d.t;
    float o[4], l[2], mc[2];
    for (int first = 0; first < n_cut; first += AHEAD, value += AHEAD * TILES * 64, sum += AHEAD * 8) {
        uint4 w[AHEAD * EACH];
        const int n = min(AHEAD, n_cut - first);
        await_words(w, (1u << n * EACH) - 1, d.tag(layer), d.r.s->until, [&](int i) {
            return i % EACH < 2 ? value + i / EACH * (TILES * 64) + i % EACH * 32 : sum + i / EACH * 8;
        });
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            if (a >= n)
                break;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const float cut_mc = __uint_as_float(w[a * EACH + i].w),
                            cut_l = __uint_as_float(i ? w[a * EACH + 2].y : w[a * EACH + 2].x);
                float v[2];
#pragma unroll
                for (int r = 0; r < 2; r++)
                    v[r] = __uint_as_float(i ? w[a * EACH + r].y : w[a * EACH + r].x);
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
    if constexpr (MANY)
        put_result_many(d, layer, token, h, tile, HEAD_DIM, o, l);
    else
        put_result(d, layer, token, h, tile, HEAD_DIM, o, l);
}

// Those of the block's share: every tile of every KV head of every sequence of more than one cut, in turn by blocks.
template <int HEAD_DIM, bool MANY> static __device__ __forceinline__ void merge_all(const decode_block &d, int layer)
{
    constexpr int TILES = HEAD_DIM / 16;
    int each = d.p.n_kv_head * TILES;
    for (int i = blockIdx.x; i < d.n_token * each; i += gridDim.x) {
        int token = i / each, h = i % each / TILES, u = 0;
        for (int b = 0; b < token; b++)
            u += (d.p.position[b] / QR_CU_CUT + 1) * d.p.n_kv_head;
        int n_cut = d.p.position[token] / QR_CU_CUT + 1;
        if (n_cut > 1)
            merge_cuts<HEAD_DIM, MANY>(d, layer, token, h, i % TILES, u + h * n_cut, n_cut);
    }
}
#endif
