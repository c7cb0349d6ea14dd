// decode_add.cuh - the warp that ends a strip of qkv, o or down: its chains' sums added from left to right, the bias, and x; what comes
// out goes to all blocks. It also merges cuts of attention.
#pragma once
#include "cuda/decode_attention.cuh"
#include "cuda/decode_merge.cuh"
#include "cuda/decode_norm.cuh"

#if __CUDA_ARCH__ >= 900
// Those that meet at BARRIER_ADD when a stage's n units are done: each warp that had one, and the one that adds.
static __device__ inline int adding_threads(int n)
{
    return 32 * (min(n, MATH) + 1);
}

// The token's row in the first layer, to the words of x: strips of down, as behind every other layer.
template <bool PACKED> static __device__ inline void put_embedded(const decode_block &d)
{
    const int *strip = d.r.s->share.strip[QR_DECODE_DOWN], items = (strip[1] - strip[0]) * d.n_token, g = d.lane % 8;
    for (int i = d.lane / 8; i < items; i += 4) {
        const int token = i % d.n_token, row = strip[0] + i / d.n_token;
        const float4 e = embedded<PACKED>(d.p, token, row * 16 + g / 2 * 4);
        d.put_x(d.words(0, d.p.at.x_next) + (token * d.p.matrix[QR_DECODE_DOWN].strips + row) * 8 + g,
                g % 2 ? e.z : e.x, g % 2 ? e.w : e.y, d.tag(0));
    }
}

// Strips of a stage: 8 lanes for a strip and token, two rows each.
static __device__ __forceinline__ void add_strips(const decode_block &d, int layer, int stage, const float *bias,
                                                  const float *kept, uint4 *to, uint32_t tag)
{
    const qr_decode_matrix &m = d.p.matrix[stage];
    const int first = d.r.s->share.strip[stage][0], items = (d.r.s->share.strip[stage][1] - first) * d.n_token,
              g = d.lane % 8;
    constexpr int AHEAD = 6;
    const int mark = QR_DECODE_AT_ADD + (stage == QR_DECODE_QKV ? 0 : stage == QR_DECODE_O ? 2 : 4);
    const float *sums = d.sums_of(stage) + 2 * g;
    const int next = d.n_token * 16;
    bool met = false;
    for (int i = d.lane / 8; i - d.lane / 8 < items; i += 4) {
        const int strip = d.n_token == 1 ? i : i / d.n_token, token = i - strip * d.n_token;
        const float *sum = sums + (strip * m.cuts * d.n_token + token) * 16;
        const bool mine = i < items;
        float2 b = make_float2(-0.0f, -0.0f), v = b; // which leaves any number as it is
        uint4 *const at = to + (token * m.strips + first + strip) * 8 + g;
        if (bias && mine)
            b = *(const float2 *)(bias + (first + strip) * 16 + 2 * g); // on its way while the products go on
        if (!met) {
            meet(BARRIER_ADD, adding_threads(d.r.s->units[stage]));
            d.mark(layer, mark);
        }
        met = true;
        if (!mine)
            continue;
        for (int c = 0; c < m.cuts; c += AHEAD) {
            float2 part[AHEAD];
#pragma unroll
            for (int a = 0; a < AHEAD; a++)
                part[a] = c + a < m.cuts ? *(const float2 *)(sum + (c + a) * next) : make_float2(-0.0f, -0.0f);
#pragma unroll
            for (int a = 0; a < AHEAD; a++)
                v = make_float2(v.x + part[a].x, v.y + part[a].y);
        }
        v = make_float2(v.x + b.x, v.y + b.y);
        if (kept) {
            float2 x = *(const float2 *)(kept + (strip * d.n_token + token) * 16 + 2 * g);
            v = make_float2(x.x + v.x, x.y + v.y);
        }
        if (stage == QR_DECODE_QKV)
            put_word(at, v.x, v.y, tag);
        else
            d.put_x(at, v.x, v.y, tag);
        d.mark(layer, mark + 1);
    }
}

template <int HEAD_DIM, bool PACKED, bool LONG, bool MANY>
static __device__ __forceinline__ void run_add(const decode_block &d, decode_shared<HEAD_DIM> &s)
{
    if constexpr (MANY)
        put_embedded_many(d);
    else
        put_embedded<PACKED>(d);
    for (int turn = 0; turn < 3 * d.p.n_layer; turn++) {
        const int l = turn / 3, stage = turn % 3 == 0 ? QR_DECODE_QKV : turn % 3 == 1 ? QR_DECODE_O : QR_DECODE_DOWN;
        const bool qkv = stage == QR_DECODE_QKV, o = stage == QR_DECODE_O;
        const qr_decode_layer &w = d.layer(l);
        if (is_behind_last(d.p, l, qkv ? QR_DECODE_GIVES_QKV : o ? QR_DECODE_GIVES_Y : QR_DECODE_EXCHANGES))
            break;
        if (DEBUGGED && !qkv)
            meet_stage();
        if (o && LONG)
            merge_many<HEAD_DIM, MANY>(&d.p, &s, l, 1);
        else if (o)
            merge_all<HEAD_DIM, MANY>(d, l);
        if (o && is_behind_last(d.p, l, QR_DECODE_GIVES_X_MID))
            break;
        const float *bias = d.vector(qkv ? w.bias_qkv : o ? w.bias_o : w.bias_down);
        if (MANY && d.r.s->units[stage])
            add_many(d, l, stage, bias, qkv ? nullptr : d.kept_of(stage));
        else if (d.r.s->units[stage])
            add_strips(d, l, stage, bias, qkv ? nullptr : d.kept_of(stage),
                       o || qkv ? d.words(l, qkv ? d.p.at.qkv : d.p.at.x_mid) : d.words(l + 1, d.p.at.x_next),
                       d.tag(o || qkv ? l : l + 1));
    }
}
#endif
