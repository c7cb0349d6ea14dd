// decode_heads.cuh - what qkv gave, as attention in the persistent kernel takes it: query heads turned and in bf16 in shared memory, the
// step's own k and v written into their pages, in the ring and then in memory. A warp a head.
#pragma once
#include "cuda/attention.cuh"
#include "cuda/decode_block.cuh"
#include "cuda/rope.cuh"

#if __CUDA_ARCH__ >= 900
static __device__ inline uint16_t bf16_bits(float x)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

// A head of qkv's rows, counted over q, k and v, to `to`. By one warp.
template <int HEAD_DIM>
static __device__ __forceinline__ void gather_head(const decode_block &d, int layer, int token, int head, float *to)
{
    constexpr int N = HEAD_DIM / 64;
    const uint4 *from =
        d.words(layer, d.p.at.qkv) + token * d.p.matrix[QR_DECODE_QKV].strips * 8 + head * (HEAD_DIM / 2) + d.lane;
    uint4 w[N];
    await_words(w, (1u << N) - 1, d.tag(layer), d.r.s->until, [&](int i) { return from + i * 32; });
    d.mark(layer, QR_DECODE_AT_HEADS);
#pragma unroll
    for (int i = 0; i < N; i++)
        *(float2 *)(to + (i * 32 + d.lane) * 2) = make_float2(__uint_as_float(w[i].x), __uint_as_float(w[i].y));
    __syncwarp();
}

// rope.cu, for one head: lo and hi of each of a lane's pairs.
template <int HEAD_DIM>
static __device__ __forceinline__ void turn_head(const decode_block &d, const float *head, const float *norm,
                                                 const float2 *turn, float *lo, float *hi)
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
    for (int i = 0; i < PAIRS; i++)
        turn_pair(lo[i], hi[i], turn[i * 32 + d.lane].x, turn[i * 32 + d.lane].y);
}

// Dimensions of a lane: lane + 32 m; from one m to the next, places in q and in pages are as far apart as two tiles.
constexpr int NEXT_PAGE_PLACE = 2 * 256, NEXT_QUERY_PLACE = 2 * 8 * 16; // elements

// Query head `warp` of the unit's KV head to q.
template <int HEAD_DIM>
static __device__ __forceinline__ void place_query(const decode_block &d, float *head, uint32_t (*q)[8][8],
                                                   const float2 *turn, int layer, const cut_unit &c)
{
    constexpr int PAIRS = HEAD_DIM / 64;
    float lo[PAIRS], hi[PAIRS];
    uint16_t *to = (uint16_t *)q + token_word(d.lane, 8, d.warp) * 2 + d.lane % 2;
    gather_head<HEAD_DIM>(d, layer, c.b, c.h * d.p.group + d.warp, head);
    turn_head<HEAD_DIM>(d, head, d.vector(d.layer(layer).norm_q), turn, lo, hi);
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        to[i * NEXT_QUERY_PLACE] = bf16_bits(lo[i]);
        to[(i + PAIRS) * NEXT_QUERY_PLACE] = bf16_bits(hi[i]);
    }
}

// The step's own k or v: x, as it goes to pages.
template <int HEAD_DIM> struct own_head {
    static constexpr int N = HEAD_DIM / 32;
    bool is_v;
    int place; // of the lane's first dimension in a page
    uint16_t x[N];

    // To the unit's last page in the ring, whose piece is at `at`.
    __device__ __forceinline__ void put_here(const decode_block &d, float *head, const float2 *turn, int layer,
                                             const cut_unit &c, ring_place at)
    {
        const int token = c.position % PAGE_TOKENS;
        float v[N];
        uint16_t *here = (uint16_t *)(d.r.slot + at.slot * SLOT + (c.n_page - 1) % 2 * (SLOT / 2));
        place = is_v ? v_page_index(token, d.lane) : k_page_index(token, d.lane);
        gather_head<HEAD_DIM>(d, layer, c.b, d.p.n_head + (is_v ? d.p.n_kv_head : 0) + c.h, head);
        if (is_v) {
#pragma unroll
            for (int i = 0; i < N; i++) { // as rope.cu: stale places of V must be finite
                v[i] = head[i * 32 + d.lane];
                v[i] = v[i] != v[i] ? 0.0f : fminf(fmaxf(v[i], -3.3895314e38f), 3.3895314e38f);
            }
        } else {
            turn_head<HEAD_DIM>(d, head, d.vector(d.layer(layer).norm_k), turn, v, v + N / 2);
        }
        await_piece(d.r, at);
#pragma unroll
        for (int i = 0; i < N; i++) {
            x[i] = bf16_bits(v[i]);
            here[place + i * NEXT_PAGE_PLACE] = x[i];
        }
    }
    // To the page in memory.
    __device__ __forceinline__ void put_there(const decode_block &d, int layer, const cut_unit &c) const
    {
        const int slot = d.p.slot[c.b];
        uint16_t *page = (uint16_t *)(d.p.kv + ((uint64_t)layer * 2 + is_v) * d.p.pool) +
                         ((size_t)max(slot, 0) / PAGE_TOKENS * d.p.n_kv_head + c.h) * PAGE_TOKENS * HEAD_DIM;
        if (slot >= 0)
#pragma unroll
            for (int i = 0; i < N; i++)
                page[place + i * NEXT_PAGE_PLACE] = x[i];
    }
    // Afterwards the page in the ring may be overwritten. By all that wrote, then by a barrier.
    __device__ __forceinline__ void end_here() const
    {
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
};
#endif
