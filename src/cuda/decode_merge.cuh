// decode_merge.cuh - cuts of attention merged from left to right in the persistent kernel, 4 or 8 neighbouring d of a head of a sequence at a
// time: up to 160 or 80 cuts are asked for at once.
//
// What is known after each cut is a chain, but its maxima and with them all factors are not: they are one scan. Two or four lanes hold 10
// cuts, two d each; the chain goes on from them to the next ones. Where a maximum stays, 2^0 = 1 leaves the old value as it is.
#pragma once
#include "cuda/attention.cuh"
#include "cuda/decode_many.cuh"

#if __CUDA_ARCH__ >= 900
constexpr int MERGE_EACH = 10; // cuts of a lane
// LANES hold the same cuts: cuts of a warp at once, and words of y that it makes.
template <int LANES> constexpr int merge_round = MERGE_EACH *(32 / LANES);
template <int LANES> constexpr int merge_words_of = LANES / 2;

// A lane's cuts, and how they come in.
template <int LANES> struct merge_lane {
    float v[MERGE_EACH][2], l[MERGE_EACH], old[MERGE_EACH], add[MERGE_EACH];

    // Words [0, count) of cuts from `value` on, `step` words apart: even lanes' bring maxima, odd ones' sums.
    __device__ __forceinline__ void get(const uint4 *value, size_t step, int count, uint32_t tag, patience &until)
    {
        uint4 w[MERGE_EACH];
        await_words(w, (1u << count) - 1, tag, until, [&](int i) { return value + i * step; });
        const bool odd = threadIdx.x % 2;
#pragma unroll
        for (int i = 0; i < MERGE_EACH; i++) { // what is not there leaves any number as it is
            const bool is_there = i < count;
            const float own = __uint_as_float(w[i].w), other = __shfl_xor_sync(~0u, own, 1);
            v[i][0] = is_there ? __uint_as_float(w[i].x) : -0.0f;
            v[i][1] = is_there ? __uint_as_float(w[i].y) : -0.0f;
            old[i] = is_there ? odd ? other : own : -INFINITY; // mc, until `weigh`
            l[i] = is_there ? odd ? own : other : -0.0f;
        }
    }
    // Factors, as merge_cut's. mc: of all before; then of these too. Returns which lanes' cuts all leave the maximum as it was.
    __device__ __forceinline__ unsigned weigh(int lane, int count, bool begins, float &mc)
    {
        float high = old[0];
#pragma unroll
        for (int i = 1; i < MERGE_EACH; i++)
            high = fmaxf(high, old[i]);
#pragma unroll
        for (int m = LANES; m < 32; m *= 2) {
            const float other = __shfl_up_sync(~0u, high, m);
            high = lane >= m ? fmaxf(high, other) : high;
        }
        const float before = __shfl_up_sync(~0u, high, LANES);
        float now = lane < LANES ? mc : fmaxf(mc, before);
        bool stays = true;
        mc = fmaxf(mc, __shfl_sync(~0u, high, 31));
#pragma unroll
        for (int i = 0; i < MERGE_EACH; i++) {
            const merge_factors f = merge_cut(now, old[i]);
            now = f.mc;
            old[i] = i < count ? f.old : 1.0f;
            add[i] = i < count ? f.add : 0.0f;
            if (begins && i == 0) // nothing is before it, so it is taken as it is
                old[i] = 0, add[i] = 1;
            stays = stays && old[i] == 1.0f;
        }
        return __ballot_sync(~0u, stays);
    }
    template <bool STAYS> __device__ __forceinline__ void run(float (&o)[2], float &sum) const
    {
#pragma unroll
        for (int i = 0; i < MERGE_EACH; i++) {
#pragma unroll
            for (int e = 0; e < 2; e++)
                o[e] = __fmaf_rn(v[i][e], add[i], STAYS ? o[e] : __fmul_rn(o[e], old[i]));
            sum = __fmaf_rn(l[i], add[i], STAYS ? sum : __fmul_rn(sum, old[i]));
        }
    }
};

// Words [merge_words_of item, + merge_words_of) of a token's y. By one warp.
template <int HEAD_DIM, int LANES, bool MANY>
static __device__ __forceinline__ void merge_words(const decode_block &d, int layer, int token, int n_cut, int before,
                                                   int item)
{
    constexpr int WORDS = merge_words_of<LANES>, TILES = HEAD_DIM / 16, ITEMS = HEAD_DIM / 4 / WORDS,
                  LINE = 8 / LANES; // items of a head; of 16 d
    const int head = item / ITEMS, h = head / d.p.group, j = head - h * d.p.group, part = item % ITEMS;
    const size_t unit = before + h * n_cut, step = TILES * 64;
    const uint4 *value =
        d.words(layer, d.p.at.cut) + unit * step + (part / LINE * 8 + j) * 8 + part % LINE * LANES + d.lane % LANES;
    float o[2] = {-0.0f, -0.0f}, l = -0.0f, mc = -INFINITY;
    await_one(value - d.lane % LANES + item * 37 % n_cut * step, d.tag(layer), d.r.s->until);
    for (int first = 0; first < n_cut; first += merge_round<LANES>) {
        merge_lane<LANES> cuts;
        const int mine = first + d.lane / LANES * MERGE_EACH, count = max(0, min(MERGE_EACH, n_cut - mine));
        cuts.get(value + mine * step, step, count, d.tag(layer), d.r.s->until);
        d.mark(layer, QR_DECODE_AT_CUTS);
        const unsigned stay = cuts.weigh(d.lane, count, mine == 0, mc);
        const int turns = (min(merge_round<LANES>, n_cut - first) + MERGE_EACH - 1) / MERGE_EACH;
#pragma unroll 1
        for (int turn = 0; turn < turns;
             turn++) { // all lanes go on from what is known; those whose turn it is are right
            if (stay >> LANES * turn & 1)
                cuts.template run<true>(o, l);
            else
                cuts.template run<false>(o, l);
            const int from = LANES * turn + d.lane % LANES;
            o[0] = __shfl_sync(~0u, o[0], from);
            o[1] = __shfl_sync(~0u, o[1], from);
            l = __shfl_sync(~0u, l, from);
        }
    }
    const float inverse = __frcp_rn(l);
    const uint32_t pair = pack_bf16(__fmul_rn(o[0], inverse), __fmul_rn(o[1], inverse)),
                   next = __shfl_down_sync(~0u, pair, 1);
    if constexpr (MANY) { // a register of the B operand
        const int k = (item * LANES + d.lane) * 2;
        if (d.lane < LANES)
            ((volatile uint32_t *)token_word_of(d.many(layer, d.p.many.y), k / 16, token,
                                                k % 8 / 2))[k / 16 % 2 * 2 + k / 8 % 2] = pair;
    } else if (d.lane < LANES && d.lane % 2 == 0)
        put_word(d.words(layer, d.p.at.y) + token * d.p.matrix[QR_DECODE_O].k16 * 4 + item * WORDS + d.lane / 2, pair,
                 next, d.tag(layer));
    d.mark(layer, QR_DECODE_AT_MERGED);
}

// The block's part of them, of each sequence of more than one cut. By two warps, of which this one is the `which`-th.
//
// Called, not inlined: what it has in common with the rest would be kept in registers for all of the kernel, and the rest has none left.
template <int HEAD_DIM, bool MANY>
static __device__ __noinline__ void merge_many(const qr_decode_args *p, decode_shared<HEAD_DIM> *s, int layer,
                                               int which)
{
    const int lane = threadIdx.x % 32;
    const decode_block d{*p,       p->n_token, {nullptr, &s->ring, 0}, nullptr, nullptr,
                         nullptr,  nullptr,    (int)threadIdx.x / 32,  lane,    lane / 4,
                         lane % 4, {0, 0}};
    int at = blockIdx.x + gridDim.x * which, before = 0;
    for (int token = 0; token < d.n_token; token++) {
        const int n_cut = d.p.position[token] / QR_CU_CUT + 1;
        const bool many = n_cut > merge_round<4>; // so many that fewer d of them are asked for at once
        const int items = d.p.matrix[QR_DECODE_O].k16 * 4 / (many ? merge_words_of<2> : merge_words_of<4>);
        for (; at < items; at += gridDim.x * 2)
            if (many)
                merge_words<HEAD_DIM, 2, MANY>(d, layer, token, n_cut, before, at);
            else if (n_cut > 1)
                merge_words<HEAD_DIM, 4, MANY>(d, layer, token, n_cut, before, at);
        at -= items;
        before += n_cut * d.p.n_kv_head;
    }
}

// What the warp does that does nothing else.
template <int HEAD_DIM, bool MANY>
static __device__ __forceinline__ void run_merge(const qr_decode_args &p, decode_shared<HEAD_DIM> &s)
{
    for (int layer = 0; layer < p.n_layer && !is_behind_last(p, layer, QR_DECODE_GIVES_Y); layer++)
        merge_many<HEAD_DIM, MANY>(&p, &s, layer, 0);
}
#endif
