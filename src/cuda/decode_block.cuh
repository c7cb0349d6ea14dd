// decode_block.cuh - what a block of the persistent kernel holds, and where words of each exchange lie.
#pragma once
#include "cuda/decode_math.cuh"

template <int HEAD_DIM> struct decode_shared {
    ring_shared ring;
    float part[QR_DECODE_TOKENS][16]; // sums of squares of 128 columns
    // attention
    float head[10][HEAD_DIM];          // query heads of the KV head, its k, its v
    uint32_t q[HEAD_DIM / 16][8][8];   // as tokens lie
    uint2 p[QR_CU_CUT / 16][32];
    float high[8][8];
};

#if __CUDA_ARCH__ >= 900
struct decode_block {
    const qr_decode_args &p;
    ring r;
    uint32_t *x, *staged; // tokens: of the norm; of attention or the MLP
    int warp, lane, g, t;
    ring_place base; // of the first piece of what comes next
    uint32_t then;

    __device__ inline uint4 *words(int layer, uint64_t at) const
    {
        return (uint4 *)p.words + (layer & 1) * p.at.set + at;
    }
    __device__ inline uint32_t tag(int layer) const
    {
        return p.tag + layer;
    }
    __device__ inline uint4 *partial(int layer, int stage, int strip, int cut, int token) const
    {
        const qr_decode_matrix &m = p.matrix[stage];
        return words(layer, p.at.part[stage]) + ((size_t)(strip * m.cuts + cut) * p.n_token + token) * 8;
    }
    __device__ inline const qr_decode_layer &layer(int l) const
    {
        return r.s->layer[l];
    }
    __device__ inline const float *vector(uint32_t at) const
    {
        return at == QR_DECODE_NONE ? nullptr : p.vectors + at;
    }
    __device__ inline void tick(int what)
    {
        if (!p.profile || threadIdx.x != 0)
            return;
        uint32_t now = clock();
        if (what >= 0)
            p.profile[blockIdx.x * QR_DECODE_TICKS + what] += now - then;
        then = now;
    }
};

// Rows of a chain's strip, to whoever adds its cuts.
static __device__ inline void put_partial(const decode_block &d, int layer, int stage, uint32_t at, const float (&sum)[4])
{
    uint4 *to = d.words(layer, d.p.at.part[stage]) + at + d.t * 16 + d.g;
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (2 * d.t + i < d.p.n_token)
            put_word(to + i * 8, sum[i], sum[i + 2], d.tag(layer));
}

// Rows 2g, 2g + 1 of N strips from all cuts, from left to right; `need`: those that the lane has. By whole warps.
template <int N, int AHEAD>
static __device__ inline void add_partials(const decode_block &d, int layer, int stage, const uint4 *const (&from)[N], unsigned need,
                                           float2 (&sum)[N])
{
    const int cuts = d.p.matrix[stage].cuts, next = d.p.n_token * 8;
#pragma unroll
    for (int n = 0; n < N; n++)
        sum[n] = make_float2(-0.0f, -0.0f);
    for (int c = 0; c < cuts; c += AHEAD) {
        uint4 w[N * AHEAD];
        unsigned all = (1u << min(AHEAD, cuts - c)) - 1, missing = 0;
#pragma unroll
        for (int n = 0; n < N; n++)
            missing |= need >> n & 1 ? all << n * AHEAD : 0;
        await_words(w, missing, d.tag(layer), d.r.s->until, [&](int i) { return from[i / AHEAD] + (c + i % AHEAD) * next; });
#pragma unroll
        for (int i = 0; i < N * AHEAD; i++)
            if (c + i % AHEAD < cuts) {
                sum[i / AHEAD].x += __uint_as_float(w[i].x);
                sum[i / AHEAD].y += __uint_as_float(w[i].y);
            }
    }
}
#endif
