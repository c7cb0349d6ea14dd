// decode_norm.cuh - x as its strips' owners publish it, normed by every block for itself, with norm.cu's sums: columns 4 i .. 4 i + 3
// belong to thread i of 512, a warp's threads are added by butterfly, 16 warps from left to right. Here fewer warps stand for those 16.
#pragma once
#include "cuda/decode_block.cuh"
#include "cuda/quant_row.cuh"

#if __CUDA_ARCH__ >= 900
// Four columns of row r of a strip of `units` units, as embed_quant.cu has them.
template <qr_cu_quant TYPE>
static __device__ __noinline__ float4 quantised_columns(const uint8_t *strip, int units, int r, int c)
{
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] = __bfloat162float(__float2bfloat16_rn(weight_at<TYPE>(strip, units, r, c + i)));
    return make_float4(v[0], v[1], v[2], v[3]);
}
static __device__ inline float4 quantised_columns(const qr_decode_args &p, int row, int c)
{
    const uint8_t *strip =
        (const uint8_t *)p.tiles + (uint64_t)p.embed_tile * QR_DECODE_STEP + (uint64_t)(row / 16) * p.embed_strip;
    const int units = p.embed_k / QR_CU_UNIT, r = row % 16;
    switch (p.embed_type) {
    case QR_CU_Q8_0:
        return quantised_columns<QR_CU_Q8_0>(strip, units, r, c);
    case QR_CU_Q4_0:
        return quantised_columns<QR_CU_Q4_0>(strip, units, r, c);
    case QR_CU_Q4_1:
        return quantised_columns<QR_CU_Q4_1>(strip, units, r, c);
    case QR_CU_Q4_K:
        return quantised_columns<QR_CU_Q4_K>(strip, units, r, c);
    case QR_CU_Q6_K:
        return quantised_columns<QR_CU_Q6_K>(strip, units, r, c);
    default:
        return quantised_columns<QR_CU_E4M3>(strip, units, r, c);
    }
}

template <bool PACKED> static __device__ inline float4 embedded(const qr_decode_args &p, int token, int column)
{
    int id = p.token[token];
    if (id < 0)
        id = p.place[-1 - id];
    if (id < 0 || id >= p.embed_rows)
        id = 0; // as embed.cu
    if (PACKED && p.embed_type != QR_CU_NO_QUANT)
        return quantised_columns(p, p.embed_row + id, column);
    size_t tile = (size_t)((p.embed_row + id) / 16) * (p.embed_k / 16) + column / 16;
    int row = (p.embed_row + id) % 16, c = column % 16;
    const uint32_t *at =
        (const uint32_t *)(p.tiles + p.embed_tile * (size_t)(PACKED ? QR_DECODE_STEP : 512) + tile * 512) +
        (row / 2 * 4 + c % 8 / 2) * 4 + row % 2 + c / 8 * 2;
    uint32_t lo = at[0], hi = at[4];
    return make_float4(__uint_as_float(lo << 16), __uint_as_float(lo & 0xFFFF0000u), __uint_as_float(hi << 16),
                       __uint_as_float(hi & 0xFFFF0000u));
}

// Normed rows of x, as words of `from`, to d.x; x itself of strips [keep[0], keep[1]) to `kept`.
static __device__ __forceinline__ void stage_norm(const decode_block &d, float (*part)[16], const uint4 *from,
                                                  int layer, const float *scale, const int *keep, float *kept, int mark)
{
    constexpr int AT_ONCE = 2; // of (token, warp of norm.cu)
    const int n = d.p.n_embd, turns = n > MATH * 128 ? 2 : 1, total = d.n_token * turns;
    const int keep_first = keep[0], keep_end = keep[1];
    from += blockIdx.x % QR_DECODE_COPIES * d.x_copy();
    uint4 w[AT_ONCE * 2];
    float4 by[AT_ONCE]; // of the first round; the others' come out of L1
    auto column = [&](int of) {
        int warp = d.warp + (turns == 2 ? of % 2 * MATH : 0), c = (warp * 32 + d.lane) * 4;
        return of < total && warp < 16 && c < n ? c : -1;
    };
    auto token_of = [&](int of) { return turns == 2 ? of / 2 : of; };
    auto address = [&](int first, int i) {
        int of = first + i / 2;
        return from + token_of(of) * (n / 2) + column(of) / 2 + i % 2;
    };
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
        int c = column(i);
        by[i] = c >= 0 ? *(const float4 *)(scale + c) : make_float4(0, 0, 0, 0);
    }
    await_one(from + min(d.warp * 64 + (int)(blockIdx.x * 5 & 63), n / 2 - 1), d.tag(layer), d.r.s->until);
    for (int first = 0; first < total; first += AT_ONCE) {
        unsigned need = 0;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (column(first + i) >= 0)
                need |= 3u << 2 * i;
        await_words(w, need, d.tag(layer), d.r.s->until, [&](int i) { return address(first, i); });
        d.mark(layer, mark);
#pragma unroll
        for (int a = 0; a < AT_ONCE; a++) {
            if (first + a >= total)
                break;
            const int c = column(first + a), token = token_of(first + a);
            float sum = 0;
            if (c >= 0) {
                const float4 v = make_float4(__uint_as_float(w[a * 2].x), __uint_as_float(w[a * 2].y),
                                             __uint_as_float(w[a * 2 + 1].x), __uint_as_float(w[a * 2 + 1].y));
                sum = __fmaf_rn(v.w, v.w, __fmaf_rn(v.z, v.z, __fmaf_rn(v.y, v.y, __fmaf_rn(v.x, v.x, sum))));
                if (c / 16 >= keep_first && c / 16 < keep_end)
                    *(float4 *)(kept + ((c / 16 - keep_first) * d.n_token + token) * 16 + c % 16) = v;
            }
#pragma unroll
            for (int m = 16; m; m /= 2)
                sum += __shfl_xor_sync(~0u, sum, m);
            int warp = d.warp + (turns == 2 ? (first + a) % 2 * MATH : 0);
            if (d.lane == 0 && warp < 16)
                part[token][warp] = sum;
        }
    }
    meet_math();
    for (int first = 0; first < total; first += AT_ONCE) {
        if (total > AT_ONCE) // more than registers hold: read again
#pragma unroll
            for (int i = 0; i < AT_ONCE * 2; i++)
                if (column(first + i / 2) >= 0)
                    w[i] = get_word(address(first, i));
#pragma unroll
        for (int a = 0; a < AT_ONCE; a++) {
            const int token = token_of(first + a), c = column(first + a);
            if (first + a >= total)
                break;
            float sum = 0;
#pragma unroll
            for (int i = 0; i < 16; i++)
                sum += part[token][i];
            float v = 1.0f / sqrtf(sum / (float)n + d.p.eps);
            if (c < 0)
                continue;
            float4 s = first ? *(const float4 *)(scale + c) : by[a];
            uint32_t *to = d.x + (c / 16u * d.n_token + token) * 8 + quad_word(d.lane % 4);
            to[0] = pack_bf16(__uint_as_float(w[a * 2].x) * v * s.x, __uint_as_float(w[a * 2].y) * v * s.y);
            to[2] = pack_bf16(__uint_as_float(w[a * 2 + 1].x) * v * s.z, __uint_as_float(w[a * 2 + 1].y) * v * s.w);
        }
    }
    meet_math();
    d.mark(layer, mark + 1);
}
#endif
