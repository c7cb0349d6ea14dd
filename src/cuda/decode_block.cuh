// decode_block.cuh - what a block of the persistent kernel holds, and where words of each exchange lie.
#pragma once
#include "cuda/decode_math.cuh"
#include "cuda/launch.cuh"

// Of attention. Lies where a chain's tokens lie in the stages before and behind it.
template <int HEAD_DIM> struct attention_shared {
    float head[10][HEAD_DIM];        // query heads of the KV head, its k, its v
    uint32_t q[HEAD_DIM / 16][8][8]; // as tokens lie
    uint2 p[QR_CU_CUT / 16][32];
    float high[8][8];
};

constexpr int SUM_WARPS = 8, SCORE_WARPS = MATH - SUM_WARPS;
// Of attention where contexts are long (decode_cuts.cuh): four warps score, eight sum.
template <int HEAD_DIM> struct cuts_shared {
    float head[9][HEAD_DIM];            // query heads of the KV head, its k
    uint32_t q[2][HEAD_DIM / 16][8][8]; // in turn by KV heads, what follows by cuts
    uint2 p[2][QR_CU_CUT / 16][32];
    float high[2][SCORE_WARPS][8], mc[2][8];
};

template <int HEAD_DIM> struct decode_shared {
    ring_shared ring;
    float part[QR_DECODE_TOKENS][16];            // sums of squares of 128 columns
    float2 turn[QR_DECODE_TOKENS][HEAD_DIM / 2]; // cosine and sine of each token's position
};

#if __CUDA_ARCH__ >= 900
struct decode_block {
    const qr_decode_args &p;
    const int n_token;
    ring r;
    uint32_t *x, *staged; // tokens: of the norm; of attention or the MLP, each warp's chain
    float *sums;          // [2][unit][token][16]: what the units of qkv or of gate and up gave, and of o or down
    float *kept;          // [2][strip][token][16]: x of the block's strips of o, x between of those of down
    int warp, lane, g, t;
    ring_place base; // of the first piece of what comes next

    __device__ inline uint4 *words(int layer, uint64_t at) const
    {
        return (uint4 *)p.words + (layer & 1) * p.at.set + at;
    }
    __device__ inline int x_copy() const // words from a copy of x to the next
    {
        return QR_DECODE_TOKENS * p.n_embd / 2;
    }
    // A word of x, to each copy.
    __device__ inline void put_x(uint4 *to, float x, float y, uint32_t tag) const
    {
#pragma unroll
        for (int i = 0; i < QR_DECODE_COPIES; i++)
            put_word(to + i * x_copy(), x, y, tag);
    }
    // Those of decode_many.cuh.
    __device__ inline uint4 *many(int layer, uint64_t at) const
    {
        return (uint4 *)p.many_words + (p.many.first + layer) % QR_DECODE_SETS * p.many.set + at;
    }
    __device__ inline uint32_t tag(int layer) const
    {
        return p.tag + layer;
    }
    __device__ inline const qr_decode_layer &layer(int l) const
    {
        return r.s->layer[l];
    }
    __device__ inline const float *vector(uint32_t at) const
    {
        return at == QR_DECODE_NONE ? nullptr : p.vectors + at;
    }
    __device__ inline float *sums_of(int stage) const
    {
        return stage == QR_DECODE_O || stage == QR_DECODE_DOWN ? sums + p.max_units * n_token * 16 : sums;
    }
    __device__ inline float *kept_of(int stage) const
    {
        return stage == QR_DECODE_O ? kept : kept + p.max_strips * n_token * 16;
    }
    __device__ inline void put_sum(float *to, int unit, const float (&sum)[4]) const
    {
        to += unit * n_token * 16 + 2 * g;
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (2 * t + i < n_token)
                *(float2 *)(to + (2 * t + i) * 16) = make_float2(sum[i], sum[i + 2]);
    }
    // When this warp was where, in one layer. Only in builds with -DQR_DECODE_PROFILE: a hundred tests a layer cost time.
    __device__ inline void mark(int l, int where) const
    {
#ifdef QR_DECODE_PROFILE
        if (p.profile && l == p.profile_layer && lane == 0)
            p.profile[(blockIdx.x * QR_DECODE_WARPS + warp) * QR_DECODE_MARKS + where] = clock_ns();
#endif
    }
};

// A strip of gate with its strip of up, which is the next unit: rows 2g and 2g + 1 of tokens 2t and 2t + 1.
static __device__ __forceinline__ void gated_pairs(const decode_block &d, int unit, const float (&sum)[4],
                                                   uint32_t (&pair)[2])
{
    const float *ups = d.sums_of(QR_DECODE_UP) + (unit + 1) * d.n_token * 16 + 2 * d.g;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float2 up = make_float2(0, 0);
        if (2 * d.t + i < d.n_token)
            up = *(const float2 *)(ups + (2 * d.t + i) * 16);
        pair[i] = pack_bf16(silu(sum[i]) * up.x, silu(sum[i + 2]) * up.y);
    }
}
#endif
