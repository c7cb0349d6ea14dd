// decode_cuts.cuh - attention in the persistent kernel where contexts are long: a block's cuts one behind another, some warps at the
// scores of the next one while others sum the values of the one before. Arithmetic as in attention.cuh.
//
// Four warps score, four pages each, and give keys back as they have read them; eight sum, a tile of 16 d each, and place queries.
// What they hand one another lies twice, in turn by cuts. All of them meet at the end alone.
#pragma once
#include "cuda/decode_attention.cuh"

#if __CUDA_ARCH__ >= 900
// Named barriers in turn by twos, of numbers that gate and up have at other times: queries are placed, weights are there, weights are read;
// then those of the warps that score, and of those that sum.
enum {
    BARRIER_QUERY = FIRST_PAIR,
    BARRIER_WEIGHTS = BARRIER_QUERY + 2,
    BARRIER_FREE = BARRIER_WEIGHTS + 2,
    BARRIER_SCORES = BARRIER_FREE + 2,
    BARRIER_SUMS
};

// The pages of a unit: pages 2i, 2i + 1 are piece i of the keys and of the values.
struct cut_pieces {
    ring_place k, v;
    int n;
};
static __device__ __forceinline__ cut_pieces take_pieces(decode_block &d, const cut_unit &c)
{
    cut_pieces at;
    at.n = (c.n_page + 1) / 2;
    at.k = d.base;
    at.v = behind(d.r, at.k, at.n);
    d.base = behind(d.r, at.v, at.n);
    return at;
}

// Does unit u of the block need other queries than the one before?
static __device__ __forceinline__ bool is_other_head(const decode_block &d, int u)
{
    const cut_unit *c = &d.r.s->cut[u];
    return u == 0 || c[0].h != c[-1].h || c[0].b != c[-1].b;
}

// Scores of the pages of two pieces: x[page]: tokens g, g + 8; heads 2t, 2t + 1.
template <int HEAD_DIM>
static __device__ __forceinline__ void score_pieces(const decode_block &d, const uint2 (&q)[HEAD_DIM / 16],
                                                    const char *first, const char *second, float (&x)[4][4])
{
    constexpr int TILES = HEAD_DIM / 16, PAGE = SLOT / 2;
    uint4 k[2][4];
    auto load = [&](int j) {
#pragma unroll
        for (int n = 0; n < 4; n++)
            k[j % 2][n] = *(const uint4 *)((n < 2 ? first : second) + n % 2 * PAGE + j * 512 + d.lane * 16);
    };
    load(0);
#pragma unroll
    for (int j = 0; j < TILES; j++) {
        if (j + 1 < TILES)
            load(j + 1);
#pragma unroll
        for (int n = 0; n < 4; n++)
            mma_bf16(x[n], k[j % 2][n], q[j].x, q[j].y);
    }
}

// Weights of the warp's pages, and what they were scaled by. `turn`: of what lies twice.
template <int HEAD_DIM>
static __device__ __forceinline__ void weigh_pieces(const decode_block &d, cuts_shared<HEAD_DIM> &a, const cut_unit &c,
                                                    int turn, const int (&page)[4], const float (&x)[4][4])
{
    const float c_scale = d.p.scale * 1.4426950408889634f;
    float high[2] = {-INFINITY, -INFINITY}, mc[2];
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            high[e % 2] = fmaxf(high[e % 2], x[n][e]);
#pragma unroll
    for (int m = 4; m < 32; m *= 2) {
        high[0] = fmaxf(high[0], __shfl_xor_sync(~0u, high[0], m));
        high[1] = fmaxf(high[1], __shfl_xor_sync(~0u, high[1], m));
    }
    if (d.g == 0)
        *(float2 *)&a.high[turn][d.warp - SUM_WARPS][2 * d.t] = make_float2(high[0], high[1]);
    meet(BARRIER_SCORES, SCORE_WARPS * 32);
#pragma unroll
    for (int w = 0; w < SCORE_WARPS; w++) {
        const float2 v = *(const float2 *)&a.high[turn][w][2 * d.t];
        high[0] = fmaxf(high[0], v.x);
        high[1] = fmaxf(high[1], v.y);
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
        mc[i] = __fmul_rn(high[i], c_scale);
    if (d.warp == SUM_WARPS && d.g == 0)
        *(float2 *)&a.mc[turn][2 * d.t] = make_float2(mc[0], mc[1]);
#pragma unroll
    for (int n = 0; n < 4; n++) {
        float e[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            e[i] = attention_weight(x[n][i], c_scale, mc[i % 2]);
        const uint2 p = make_uint2(transpose_8x8(pack_bf16(e[0], e[1])), transpose_8x8(pack_bf16(e[2], e[3])));
        if (page[n] < c.n_page)
            a.p[turn][page[n]][d.lane] = p;
    }
}

// Warps that score, of all the block's units: pieces i and i + 4 of each.
template <int HEAD_DIM>
static __device__ __forceinline__ void score_cuts(decode_block &d, const decode_shared<HEAD_DIM> &s,
                                                  cuts_shared<HEAD_DIM> &a, int layer, int n)
{
    constexpr int TILES = HEAD_DIM / 16;
    const int mine = d.warp - SUM_WARPS;
    int queries = 0;
    uint2 q[TILES];
#pragma unroll 1
    for (int u = 0; u < n; u++) {
        const cut_unit c = d.r.s->cut[u];
        const cut_pieces pieces = take_pieces(d, c);
        const ring_place first = behind(d.r, pieces.k, mine), second = behind(d.r, pieces.k, mine + SCORE_WARPS);
        const int page[4] = {2 * mine, 2 * mine + 1, 2 * mine + 2 * SCORE_WARPS, 2 * mine + 2 * SCORE_WARPS + 1};
        const bool has_first = page[0] < c.n_page, has_second = page[2] < c.n_page;
        const bool own = c.cut == c.n_cut - 1 && (pieces.n - 1) % SCORE_WARPS == mine;
        own_head<HEAD_DIM> head = {false};
        if (u >= 2) // before anything of the ring is asked for: no slot may be asked for two turns ahead
            meet(BARRIER_FREE + u % 2, MATH_THREADS);
        if (own) {
            head.put_here(d, a.head[SUM_WARPS], s.turn[c.b], layer, c, behind(d.r, pieces.k, pieces.n - 1));
            __syncwarp();
        }
        if (has_first)
            await_piece(d.r, first);
        if (has_second)
            await_piece(d.r, second);
        if (is_other_head(d, u)) {
            meet(BARRIER_QUERY + queries % 2, MATH_THREADS);
#pragma unroll
            for (int j = 0; j < TILES; j++)
                q[j] = d.g < d.p.group ? *(const uint2 *)(&a.q[queries % 2][j][d.g][d.t * 2]) : make_uint2(0, 0);
            queries++;
            d.mark(layer, QR_DECODE_AT_QUERY);
        }
        float x[4][4] = {};
        if (has_first)
            score_pieces<HEAD_DIM>(d, q, d.r.slot + first.slot * SLOT, d.r.slot + second.slot * SLOT, x);
        if (has_first && !own)
            give_back_slot(&d.r.s->empty[first.slot], d.lane);
        if (has_second && !own)
            give_back_slot(&d.r.s->empty[second.slot], d.lane);
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) // also what lies behind the last page
                if (c.cut * QR_CU_CUT + page[i] * PAGE_TOKENS + d.g + e / 2 * 8 > c.position)
                    x[i][e] = -INFINITY;
        d.mark(layer, QR_DECODE_AT_SCORES);
        weigh_pieces<HEAD_DIM>(d, a, c, u % 2, page, x);
        pass(BARRIER_WEIGHTS + u % 2, MATH_THREADS);
        d.mark(layer, QR_DECODE_AT_WEIGHTS);
        if (own) { // late, as all wait for the weights
            head.end_here();
            if (has_first)
                give_back_slot(&d.r.s->empty[first.slot], d.lane);
            if (has_second)
                give_back_slot(&d.r.s->empty[second.slot], d.lane);
            head.put_there(d, layer, c);
        }
    }
}

// The tile's part of the step's own v, to the unit's last page in the ring and to memory. A lane has two d, half a word each; a row of 8 lanes all.
template <int HEAD_DIM>
static __device__ __forceinline__ void put_own_v(const decode_block &d, int layer, const cut_unit &c, ring_place at)
{
    constexpr int NEXT_ROW = 4 * 8; // elements of a page from a d to the next one, if it is not the eighth
    const int token = c.position % PAGE_TOKENS, head = d.p.n_head + d.p.n_kv_head + c.h, slot = d.p.slot[c.b];
    const uint4 *from = d.words(layer, d.p.at.qkv) + c.b * d.p.matrix[QR_DECODE_QKV].strips * 8 +
                        head * (HEAD_DIM / 2) + d.warp * 8 + d.lane % 8;
    uint4 w[1];
    await_words(w, 1, d.tag(layer), d.r.s->until, [&](int) { return from; });
    await_piece(d.r, at);
    uint16_t *here = (uint16_t *)(d.r.slot + at.slot * SLOT + (c.n_page - 1) % 2 * (SLOT / 2));
    uint16_t *there = (uint16_t *)(d.p.kv + ((uint64_t)layer * 2 + 1) * d.p.pool) +
                      ((size_t)max(slot, 0) / PAGE_TOKENS * d.p.n_kv_head + c.h) * PAGE_TOKENS * HEAD_DIM;
    uint16_t v[2];
    const int place = v_page_index(token, d.warp * 16 + d.lane % 8 * 2);
#pragma unroll
    for (int i = 0; i < 2; i++) { // as rope.cu: stale places of V must be finite
        const float x = __uint_as_float(i ? w[0].y : w[0].x);
        v[i] = bf16_bits(x != x ? 0.0f : fminf(fmaxf(x, -3.3895314e38f), 3.3895314e38f));
        if (d.lane < 8)
            here[place + i * NEXT_ROW] = v[i];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (d.lane < 8 && slot >= 0) {
        there[place] = v[0];
        there[place + NEXT_ROW] = v[1];
    }
}

// The tile's sums over a cut's tokens. The first pages' values are loaded before the weights are there. sum_l: of the weights alone.
template <int HEAD_DIM>
static __device__ __forceinline__ void sum_cut(const decode_block &d, const uint2 (*weights)[32], int barrier,
                                               const cut_unit &c, ring_place at, float (&o)[4], float (&sum_l)[4])
{
    constexpr int EACH = 4, TURNS = QR_CU_CUT / QR_CU_PAGE / EACH;
    const uint4 ones = make_uint4(BF16_ONES, BF16_ONES, BF16_ONES, BF16_ONES);
    uint4 v[2][EACH];
    auto load =
        [&](int turn) { // pages [4 turn, + 4), of two pieces; what lies behind the last page leaves the sums as they are
            const char *from[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if (turn * EACH + i * 2 < c.n_page)
                    await_piece(d.r, at);
                from[i] = d.r.slot + at.slot * SLOT + d.warp * 512 + d.lane * 16;
                at = behind(d.r, at, 1);
            }
#pragma unroll
            for (int i = 0; i < EACH; i++)
                v[turn % 2][i] = turn * EACH + i < c.n_page ? *(const uint4 *)(from[i / 2] + i % 2 * (SLOT / 2))
                                                            : make_uint4(0, 0, 0, 0);
        };
    load(0);
    load(1);
    meet(barrier, MATH_THREADS);
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        uint2 p[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++)
            p[i] = turn * EACH + i < c.n_page ? weights[turn * EACH + i][d.lane] : make_uint2(0, 0);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            mma_bf16(o, v[turn % 2][i], p[i].x, p[i].y);
            mma_bf16(sum_l, ones, p[i].x, p[i].y);
        }
        if (turn + 2 < TURNS)
            load(turn + 2);
    }
}

// A unit's tile as words for decode_merge.cuh: two neighbouring d of a head each, so that four of them are neighbours. Those of 16 d of a
// head are 8; the even ones bring the cut's scaled maximum along, the others its sum of weights.
template <int HEAD_DIM>
static __device__ __forceinline__ void put_cut(const decode_block &d, int layer, int unit, const float (&mc)[8],
                                               const float (&o)[4], const float (&l)[2])
{
    const int odd = d.g % 2;
    uint4 *to = d.words(layer, d.p.at.cut) + ((size_t)unit * (HEAD_DIM / 16) + d.warp) * 64 + odd * 4 + d.g / 2;
#pragma unroll
    for (int i = 0; i < 2; i++) { // even g: d g, g + 1; odd: g + 7, g + 8
        const float other = __shfl_xor_sync(~0u, odd ? o[i] : o[i + 2], 4);
        if (2 * d.t + i < d.p.group)
            put_word(to + (2 * d.t + i) * 8, __float_as_uint(odd ? other : o[i]),
                     __float_as_uint(odd ? o[i + 2] : other), d.tag(layer),
                     __float_as_uint(d.g / 2 % 2 ? l[i] : mc[2 * d.t + i]));
    }
}

// Slots that all warps that sum have read.
static __device__ inline void give_back_values(const decode_block &d, ring_place at, int pieces)
{
    meet(BARRIER_SUMS, SUM_WARPS * 32);
    for (int i = 0; DEBUGGED && i < pieces; i++)
        for (int again = 0; again <= (d.warp < MATH - SUM_WARPS); again++) // as if all warps had
            barrier_arrive(&d.r.s->empty[behind(d.r, at, i).slot]);
    if (!DEBUGGED && (int)threadIdx.x < pieces)
        barrier_arrive(&d.r.s->empty[behind(d.r, at, threadIdx.x).slot]);
}

template <int HEAD_DIM, bool MANY>
static __device__ __forceinline__ void sum_cuts(decode_block &d, const decode_shared<HEAD_DIM> &s,
                                                cuts_shared<HEAD_DIM> &a, int layer, int n)
{
    constexpr int TILES = HEAD_DIM / 16;
    int queries = 0;
#pragma unroll 1
    for (int u = 0; u <= n; u++) { // queries of unit u, then sums of the one before it
        if (u < n && is_other_head(d, u)) {
            const cut_unit c = d.r.s->cut[u];
            if (d.warp < d.p.group)
                place_query<HEAD_DIM>(d, a.head[d.warp], a.q[queries % 2], s.turn[c.b], layer, c);
            pass(BARRIER_QUERY + queries % 2, MATH_THREADS);
            queries++;
        }
        if (u == 0)
            continue;
        const int turn = (u - 1) % 2, barrier = BARRIER_WEIGHTS + turn;
        const cut_unit c = d.r.s->cut[u - 1];
        const cut_pieces pieces = take_pieces(d, c);
        if (d.warp >= TILES) {
            meet(barrier, MATH_THREADS);
        } else {
            float o[4] = {0, 0, 0, 0}, l[4] = {0, 0, 0, 0};
            if (c.cut == c.n_cut - 1)
                put_own_v<HEAD_DIM>(d, layer, c, behind(d.r, pieces.v, pieces.n - 1));
            sum_cut<HEAD_DIM>(d, a.p[turn], barrier, c, pieces.v, o, l);
            d.mark(layer, QR_DECODE_AT_VALUES);
            const float sums[2] = {l[0], l[1]};
            if (c.n_cut > 1)
                put_cut<HEAD_DIM>(d, layer, d.r.s->share.unit[u - 1], a.mc[turn], o, sums);
            else if constexpr (MANY)
                put_result_many(d, layer, c.b, c.h, d.warp, HEAD_DIM, o, sums);
            else
                put_result(d, layer, c.b, c.h, d.warp, HEAD_DIM, o, sums);
        }
        if (u + 1 < n) // unit u + 1 takes the place of unit u - 1
            pass(BARRIER_FREE + turn, MATH_THREADS);
        give_back_values(d, pieces.v, pieces.n);
    }
}

// All of the block's units. By all warps that multiply.
template <int HEAD_DIM, bool MANY>
static __device__ __forceinline__ void attend_cuts(decode_block &d, const decode_shared<HEAD_DIM> &s, int layer)
{
    cuts_shared<HEAD_DIM> &a = *(cuts_shared<HEAD_DIM> *)d.staged;
    const int n = d.r.s->share.attention[1] - d.r.s->share.attention[0];
    if (n == 0)
        return;
    if (d.warp < SUM_WARPS)
        sum_cuts<HEAD_DIM, MANY>(d, s, a, layer, n);
    else
        score_cuts<HEAD_DIM>(d, s, a, layer, n);
    meet_math(); // what lies here is o's from now on
}
#endif
