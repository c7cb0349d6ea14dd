// decode_many.cuh - what the persistent kernel does otherwise for several sequences with weights in bf16: words without a tag, of which
// there are half as many, and products of o and down with tokens that come straight from them.
//
// Where several sequences are decoded, words are what a step waits for: every block reads x of all of them twice a layer, those of down all
// activations. So no word carries a tag: each holds 16 bytes of values, and NOT_YET in any of its four places says that this place is
// still to come. No arithmetic gives NOT_YET: a NaN that comes out of an addition or a conversion is 0x7FFFFFFF or 0x7FFF.
//
// Four sets of words take turns by layer, on from one step to the next. When a block has x of a layer, everyone has read all of the layer
// before (x needs all strips of down, these all activations, and a block gives its own only when its warps have x between): then
// its words are made NOT_YET again, a part by each block. They are used again three layers later, or in a later launch.
#pragma once
#include "cuda/decode_norm.cuh"

#if __CUDA_ARCH__ >= 900
constexpr uint32_t NOT_YET = 0xFFFFFFFFu;

static __device__ __forceinline__ uint4 get_four(const uint4 *p)
{
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3},[%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}
static __device__ __forceinline__ void put_four(uint4 *p, uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    asm volatile("st.relaxed.gpu.global.v4.u32 [%0],{%1,%2,%3,%4};" ::"l"(p), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}
static __device__ __forceinline__ void put_four(uint4 *p, float4 v)
{
    put_four(p, __float_as_uint(v.x), __float_as_uint(v.y), __float_as_uint(v.z), __float_as_uint(v.w));
}
// Half a word: tokens of tile 0 or 1 of a pair.
static __device__ __forceinline__ void put_half(uint4 *p, int half, uint32_t x, uint32_t y)
{
    asm volatile("st.relaxed.gpu.global.v2.u32 [%0],{%1,%2};" ::"l"((uint2 *)p + half), "r"(x), "r"(y) : "memory");
}

static __device__ __forceinline__ bool is_there(const uint4 &w)
{
    return max(max(w.x, w.y), max(w.z, w.w)) != NOT_YET;
}
// Words address(i) with bit i of `need`. The others become something too: a register that is set on some ways only would be kept from layer
// to layer.
template <int N, class A> static __device__ __forceinline__ void ask_many(uint4 (&w)[N], unsigned need, A address)
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        w[i] = make_uint4(0, 0, 0, 0);
        if (need >> i & 1)
            w[i] = get_four(address(i));
    }
}
// The same that were asked for: until all are there. By whole warps.
template <int N, class A>
static __device__ __forceinline__ void await_many(uint4 (&w)[N], unsigned need, patience &until, A address)
{
    for (int n = 1;; n++) {
#pragma unroll
        for (int i = 0; i < N; i++)
            if ((need >> i & 1) && is_there(w[i]))
                need &= ~(1u << i);
        if (!__any_sync(~0u, need) || (n % 64 == 0 && __any_sync(~0u, until.is_over())))
            break;
#pragma unroll
        for (int i = 0; i < N; i++)
            if (need >> i & 1)
                w[i] = get_four(address(i));
    }
}
// All lanes ask for the same one, as await_one.
static __device__ __forceinline__ void await_first(const uint4 *p, patience &until)
{
    for (int n = 1; !is_there(get_four(p)); n++)
        if (n % 64 == 0 && until.is_over())
            break;
}

// Words of the layer before, all of which have been read. By all threads that multiply.
static __device__ __forceinline__ void clear_words(const decode_block &d, int layer)
{
    uint4 *set = d.many(layer - 1, 0);
    for (unsigned i = blockIdx.x * MATH_THREADS + threadIdx.x; i < d.p.many.set; i += gridDim.x * MATH_THREADS)
        put_four(set + i, NOT_YET, NOT_YET, NOT_YET, NOT_YET);
}

// ------------------------------------------------------------------------------------------------- tokens
// Of o and down as words, of the others in shared memory: [k / 32][token][4] of 16 bytes, two registers of the B operand for each of two
// tiles, so that lane 4 g + t has one of token g. Words have room for 8 tokens, shared memory for an even number; there place
// [T][g][t] holds token g ^ (T / 2 % 2) and t ^ (T % 2), which spreads what stage_many writes over the banks.

static __device__ __forceinline__ int even(int n)
{
    return n + n % 2;
}

// As stage_norm. A lane has four columns of each token; where x has more than MATH * 128, the first ones are read again.
static __device__ __forceinline__ void stage_many(const decode_block &d, float (*part)[16], const uint4 *from,
                                                  int layer, const float *scale, const int *keep, float *kept, int mark)
{
    constexpr int N = QR_DECODE_TOKENS;
    const int n = opaque(d.p.n_embd), tokens = opaque(d.n_token), turns = n > MATH * 128 ? 2 : 1, lane = opaque(d.lane),
              first = (d.warp * 32 + lane) * 4;
    const unsigned all = (1u << tokens) - 1;
    uint4 w[N];
    await_first(from + min(d.warp * 32 + (int)(blockIdx.x * 5 & 31), n / 4 - 1), d.r.s->until);
#pragma unroll 1
    for (int turn = 0; turn < turns; turn++) {
        const int c = first + turn * MATH * 128, warp = d.warp + turn * MATH;
        const unsigned need = c < n ? all : 0;
        const uint4 *at = from + c / 4;
        ask_many(w, need, [&](int i) { return at + i * (n / 4); });
        await_many(w, need, d.r.s->until, [&](int i) { return at + i * (n / 4); });
        d.mark(layer, mark);
        float *const own =
            c / 16 >= keep[0] && c / 16 < keep[1] && c < n ? kept + (c / 16 - keep[0]) * tokens * 16 + c % 16 : nullptr;
        float sum[N];
#pragma unroll
        for (int i = 0; i < N; i++) {
            const float4 v = make_float4(__uint_as_float(w[i].x), __uint_as_float(w[i].y), __uint_as_float(w[i].z),
                                         __uint_as_float(w[i].w)); // of no token: 0
            sum[i] = __fmaf_rn(v.w, v.w, __fmaf_rn(v.z, v.z, __fmaf_rn(v.y, v.y, __fmaf_rn(v.x, v.x, 0))));
            if (own && i < tokens)
                *(float4 *)(own + i * 16) = v;
        }
        // norm.cu's butterfly: both lanes of a pair get the same sum, so that each goes on with half of the tokens.
#pragma unroll
        for (int half = N / 2; half; half /= 2) {
            const bool high = lane & half * 4;
#pragma unroll
            for (int i = 0; i < half; i++) {
                const float other = __shfl_xor_sync(~0u, high ? sum[i] : sum[i + half], half * 4);
                sum[i] = (high ? sum[i + half] : sum[i]) + other;
            }
        }
        sum[0] += __shfl_xor_sync(~0u, sum[0], 2);
        sum[0] += __shfl_xor_sync(~0u, sum[0], 1);
        if (lane % 4 == 0 && lane / 4 < tokens && warp < 16)
            part[lane / 4][warp] = sum[0];
    }
    meet_math();
    float sum = 0, factor; // of token `lane`
#pragma unroll
    for (int i = 0; i < 16; i++)
        sum += part[min(lane, tokens - 1)][i];
    factor = 1.0f / sqrtf(sum / (float)n + d.p.eps);
    for (int turn = turns - 1; turn >= 0; turn--) {
        const int c = first + turn * MATH * 128, T = c / 32, quad = lane % 4, odd = T / 2 % 2;
        if (turn + 1 < turns)
            ask_many(w, all, [&](int i) { return from + c / 4 + i * (n / 4); });
        float4 by = make_float4(0, 0, 0, 0);
        if (c < n)
            by = *(const float4 *)(scale + c);
        const int t = quad % 2 * 2 ^ T % 2;
        uint32_t *const x = d.x + T * even(tokens) * 16 + t * 4 + c / 16 % 2 * 2 + quad / 2;
        uint32_t *const to[2] = {x + odd * 16, x - odd * 16}; // of even and odd tokens
        const int next = t % 2 ? -4 : 4;
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (i >= tokens)
                break;
            const float v = __shfl_sync(~0u, factor, i);
            if (c >= n)
                continue;
            to[i % 2][i * 16] = pack_bf16(__uint_as_float(w[i].x) * v * by.x, __uint_as_float(w[i].y) * v * by.y);
            to[i % 2][i * 16 + next] =
                pack_bf16(__uint_as_float(w[i].z) * v * by.z, __uint_as_float(w[i].w) * v * by.w);
        }
    }
    meet_math();
    d.mark(layer, mark + 1);
}

// ------------------------------------------------------------------------------------------------- products

// As unit_math, with tokens in pairs of tiles. A lane without a token multiplies another's, whose sums nobody reads.
struct pair_math {
    static constexpr int BATCH = 4, PER_PIECE = PIECE / BATCH;
    const ring &r;
    int lane;

    struct cursor {
        ring_place at;
        const char *from, *token;
        int off, batch, n, step, pair; // off: of the lane in a pair's tokens; pair: bytes of one
    };

    __device__ __forceinline__ void load(cursor &c, uint4 (&a)[BATCH], uint4 (&b)[BATCH / 2]) const
    {
        if (c.batch % PER_PIECE == 0) {
            if (c.batch)
                c.at = behind(r, c.at, c.step);
            await_piece(r, c.at);
            c.from = r.slot + c.at.slot * SLOT + lane * 16;
        }
#pragma unroll
        for (int i = 0; i < BATCH; i++)
            a[i] = *(const uint4 *)(c.from + i * 512);
        b[0] = *(const uint4 *)(c.token + c.off);
        b[1] = *(const uint4 *)(c.token + c.pair + (c.off ^ 16));
        c.off ^= 64;
        c.from += BATCH * 512;
        c.token += 2 * c.pair;
        c.batch++;
        if (c.batch % PER_PIECE == 0 || c.batch == c.n)
            give_back_slot(&r.s->empty[c.at.slot], lane);
    }
    static __device__ __forceinline__ void multiply(const uint4 (&a)[BATCH], const uint4 (&b)[BATCH / 2], int &left,
                                                    int chain, float (&acc)[4], float (&sum)[4])
    {
#pragma unroll
        for (int i = 0; i < BATCH; i += 2) {
            mma_bf16(acc, a[i], b[i / 2].x, b[i / 2].y);
            mma_bf16(acc, a[i + 1], b[i / 2].z, b[i / 2].w);
        }
        end_batch(left, chain, acc, sum);
    }
    // first: the unit's first tile, a multiple of 4.
    __device__ __forceinline__ void run(const uint32_t *x, int n_token, int first, ring_place at, int step, int tiles,
                                        int chain, float (&sum)[4]) const
    {
        uint4 a[2][BATCH], b[2][BATCH / 2];
        float acc[4] = {0, 0, 0, 0};
        const int lane = opaque(this->lane), pair = even(n_token) * 64,
                  g = min(lane / 4, n_token - 1) ^ (first / 4 % 2);
        cursor c = {
            at,   nullptr,     (const char *)x + first / 2 * pair, g * 64 + lane % 4 * 16, 0, opaque(tiles / BATCH),
            step, opaque(pair)};
        int left = chain /= BATCH;
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[e] = -0.0f;
        load(c, a[0], b[0]);
#pragma unroll 1
        for (int n = c.n;;) {
            if (n > 1)
                load(c, a[1], b[1]);
            multiply(a[0], b[0], left, chain, acc, sum);
            if (--n == 0)
                break;
            if (n > 1)
                load(c, a[0], b[0]);
            multiply(a[1], b[1], left, chain, acc, sum);
            if (--n == 0)
                break;
        }
    }
};

// A chain of o or down: tokens come straight from words, those of two pieces on their way at any time.
struct word_math {
    static constexpr int EACH = PIECE / 2,
                         NEXT = QR_DECODE_TOKENS * 4; // pairs of a piece; words from one pair to the next
    const decode_block &d;
    int layer, mark;

    static __device__ __forceinline__ unsigned need_of(int left)
    {
        return left >= EACH ? (1u << EACH) - 1 : left > 0 ? (1u << left) - 1 : 0;
    }
    // A piece; `left` pairs of the chain are left, from `from` on. What is used up makes room for the words of the piece after the next.
    __device__ __forceinline__ void one(const uint4 *from, int left, ring_place at, uint4 (&now)[EACH],
                                        float (&acc)[4]) const
    {
        await_many(now, need_of(left), d.r.s->until, [&](int i) { return from + i * NEXT; });
        d.mark(layer, mark);
        await_piece(d.r, at);
        const char *slot = d.r.slot + at.slot * SLOT + d.lane * 16;
#pragma unroll
        for (int i = 0; i < EACH; i += 2) {
            if (i >= left)
                break;
            uint4 a[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                a[j] = *(const uint4 *)(slot + (i * 2 + j) * 512);
#pragma unroll
            for (int j = 0; j < 4; j += 2) {
                mma_bf16(acc, a[j], now[i + j / 2].x, now[i + j / 2].y);
                mma_bf16(acc, a[j + 1], now[i + j / 2].z, now[i + j / 2].w);
            }
            if (i + 2 * EACH < left) {
                now[i] = get_four(from + (i + 2 * EACH) * NEXT);
                now[i + 1] = get_four(from + (i + 1 + 2 * EACH) * NEXT);
            }
        }
        give_back_slot(&d.r.s->empty[at.slot], d.lane);
    }
    __device__ __forceinline__ void run(const uint4 *from, int pairs, ring_place at, int step, float (&acc)[4]) const
    {
        uint4 b[2][EACH];
#pragma unroll
        for (int e = 0; e < 4; e++)
            acc[e] = 0;
        await_first(from + blockIdx.x % pairs * NEXT, d.r.s->until);
        const int lane = opaque(d.lane);
        from += min(lane / 4, d.n_token - 1) * 4 + lane % 4;
#pragma unroll
        for (int i = 0; i < 2; i++)
            ask_many(b[i], need_of(pairs - i * EACH), [&](int j) { return from + (i * EACH + j) * NEXT; });
#pragma unroll 1
        for (int left = pairs;;) {
            one(from, left, at, b[0], acc);
            if ((left -= EACH) <= 0)
                break;
            at = behind(d.r, at, step);
            from += EACH * NEXT;
            one(from, left, at, b[1], acc);
            if ((left -= EACH) <= 0)
                break;
            at = behind(d.r, at, step);
            from += EACH * NEXT;
        }
    }
};

// ------------------------------------------------------------------------------------------------- results

// Of a word of o's or down's tokens: that of pair T, token and t.
static __device__ __forceinline__ uint4 *token_word_of(uint4 *words, int tile, int token, int t)
{
    return words + (tile / 2 * QR_DECODE_TOKENS + token) * 4 + t;
}

// As put_gated.
static __device__ __forceinline__ void put_gated_many(const decode_block &d, int layer, int unit, const float (&sum)[4])
{
    const int high = d.g / 4, token = 2 * d.t + high, strip = d.r.s->share.strip[QR_DECODE_UP][0] + unit / 2;
    uint32_t pair[2];
    gated_pairs(d, unit, sum, pair);
    const uint32_t other = __shfl_xor_sync(~0u, high ? pair[0] : pair[1], 16);
    if (token < d.n_token)
        put_half(token_word_of(d.many(layer, d.p.many.act), strip, token, d.g % 4), strip % 2, high ? other : pair[0],
                 high ? pair[1] : other);
}

// As put_result.
static __device__ __forceinline__ void put_result_many(const decode_block &d, int layer, int token, int h, int tile,
                                                       int head_dim, const float (&o)[4], const float (&l)[2])
{
    const int odd = d.g % 2, j = 2 * d.t + odd, at = (h * d.p.group + j) * (head_dim / 16) + tile;
    float lo[2], hi[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float inverse = __frcp_rn(l[i]);
        lo[i] = __fmul_rn(o[i], inverse);
        hi[i] = __fmul_rn(o[i + 2], inverse);
    }
    const float other_lo = __shfl_xor_sync(~0u, odd ? lo[0] : lo[1], 4),
                other_hi = __shfl_xor_sync(~0u, odd ? hi[0] : hi[1], 4);
    if (j < d.p.group)
        put_half(token_word_of(d.many(layer, d.p.many.y), at, token, d.g / 2), at % 2,
                 odd ? pack_bf16(other_lo, lo[1]) : pack_bf16(lo[0], other_lo),
                 odd ? pack_bf16(other_hi, hi[1]) : pack_bf16(hi[0], other_hi));
}

// As put_embedded.
static __device__ __forceinline__ void put_embedded_many(const decode_block &d)
{
    const int *strip = d.r.s->share.strip[QR_DECODE_DOWN], items = (strip[1] - strip[0]) * d.n_token, q = d.lane % 4;
    for (int i = d.lane / 4; i < items; i += 8) {
        const int token = i % d.n_token, column = (strip[0] + i / d.n_token) * 16 + q * 4;
        put_four(d.many(0, d.p.many.x_next) + (token * d.p.n_embd + column) / 4, embedded<false>(d.p, token, column));
    }
}

// As add_strips, 4 lanes for a strip and token, four rows each.
static __device__ __forceinline__ void add_many(const decode_block &d, int layer, int stage, const float *bias,
                                                const float *kept)
{
    constexpr int AHEAD = 5;
    const qr_decode_matrix &m = d.p.matrix[stage];
    const int first = d.r.s->share.strip[stage][0], items = (d.r.s->share.strip[stage][1] - first) * d.n_token,
              q = d.lane % 4;
    const int mark = QR_DECODE_AT_ADD + (stage == QR_DECODE_QKV ? 0 : stage == QR_DECODE_O ? 2 : 4);
    const int next = d.n_token * 16;
    bool met = false;
    for (int i = d.lane / 4; i - d.lane / 4 < items; i += 8) {
        const int strip = i / d.n_token, token = i - strip * d.n_token, row = (first + strip) * 16 + 4 * q;
        const float *sum = d.sums_of(stage) + (strip * m.cuts * d.n_token + token) * 16 + 4 * q;
        const bool mine = i < items;
        float4 b = make_float4(-0.0f, -0.0f, -0.0f, -0.0f), v = b; // which leaves any number as it is
        if (bias && mine)
            b = *(const float4 *)(bias + row); // on its way while the products go on
        if (!met) {
            meet(BARRIER_ADD, 32 * (min(d.r.s->units[stage], MATH) + 1));
            d.mark(layer, mark);
        }
        met = true;
        if (!mine)
            continue;
        for (int c = 0; c < m.cuts; c += AHEAD) {
            float4 part[AHEAD];
#pragma unroll
            for (int a = 0; a < AHEAD; a++)
                part[a] =
                    c + a < m.cuts ? *(const float4 *)(sum + (c + a) * next) : make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
#pragma unroll
            for (int a = 0; a < AHEAD; a++)
                v = make_float4(v.x + part[a].x, v.y + part[a].y, v.z + part[a].z, v.w + part[a].w);
        }
        v = make_float4(v.x + b.x, v.y + b.y, v.z + b.z, v.w + b.w);
        if (kept) {
            const float4 x = *(const float4 *)(kept + (strip * d.n_token + token) * 16 + 4 * q);
            v = make_float4(x.x + v.x, x.y + v.y, x.z + v.z, x.w + v.w);
        }
        if (stage == QR_DECODE_QKV) {
            uint4 *to = d.words(layer, d.p.at.qkv) + token * m.strips * 8 + row / 2;
            put_word(to, v.x, v.y, d.tag(layer));
            put_word(to + 1, v.z, v.w, d.tag(layer));
        } else {
            const bool o = stage == QR_DECODE_O;
            put_four(d.many(o ? layer : layer + 1, o ? d.p.many.x_mid : d.p.many.x_next) +
                         (token * d.p.n_embd + row) / 4,
                     v);
        }
        d.mark(layer, mark + 1);
    }
}
#endif
