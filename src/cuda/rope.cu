// rope.cu - ROPE, KV_STORE, and both in one (ROPE_STORE), with the head norms of q and k where a model has them.
//
// A warp takes one head of one token: q and k are read once, normed and rotated in registers (first half of a head with its second
// half), q is written back or left for attention, k and v go straight into their pages. Grouped queries need nothing here:
// k and v have their own, fewer heads. Bytes: q 4 in and 2 or 4 out, k and v 4 in and 2 or (fp8) 1 out an element, cos and sin from L2.
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include "cuda/attention.cuh"
#include "cuda/launch.cuh"
#include "cuda/rope.cuh"

constexpr int MAX_PAIRS = 4;        // pairs a lane: heads of up to 256
constexpr float FP8_MOST = 57344.0f; // 448 2^7, the largest that a page in fp8 holds

// A value that cannot be held is no reason to spoil other rows: a page's stale places are multiplied by zero.
static __device__ inline float v_held(float x, int kv)
{
    float most = kv == QR_CU_F16 ? 65504.0f : kv == QR_CU_FP8 ? FP8_MOST : 3.3895314e38f;
    return x != x ? 0.0f : fminf(fmaxf(x, -most), most);
}
static __device__ inline uint16_t bits_of(float x, int kv)
{
    return kv == QR_CU_F16 ? __half_as_ushort(__float2half_rn(x)) : __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

// The factor of a token's head in fp8 (attention.cuh) by its largest magnitude: 2^120 times the least power of two 2^e with which
// 448 2^e is no less, for e of -100 to 7; what is larger, or NaN among them, makes it NaN, and so all scores that see the token.
// inverse: 2^-e.
static __device__ inline uint16_t fp8_factor(uint32_t magnitude, float *inverse)
{
    int e = (int)(magnitude >> 23) - 127 - 8 + ((magnitude & 0x7FFFFF) > 0x600000); // 448 = 1.75 * 2^8
    e = e < -100 ? -100 : e;
    *inverse = __uint_as_float((uint32_t)(127 - e) << 23);
    return e > 7 ? 0x7FC0 : (uint16_t)((120 + e + 127) << 7);
}

// The head of a token, pairs (c, half + c) in lo and hi of the lanes, into its page. V's values are held before.
template <bool IS_K>
static __device__ inline void store_head(char *pages, int kv, int n_kv_head, int head_dim, int slot, int h,
                                         const float (&lo)[MAX_PAIRS], const float (&hi)[MAX_PAIRS])
{
    const int lane = threadIdx.x % 32, half = head_dim / 2, token = slot % PAGE_TOKENS;
    char *page = pages + ((size_t)(slot / PAGE_TOKENS) * n_kv_head + h) * page_bytes(head_dim, kv);
    float inverse = 1;
    if (kv == QR_CU_FP8) {
        uint32_t magnitude = 0; // order of the bits is that of the values, NaN above all
#pragma unroll
        for (int i = 0; i < MAX_PAIRS; i++)
            magnitude = max(magnitude, max(__float_as_uint(lo[i]) & 0x7FFFFFFF, __float_as_uint(hi[i]) & 0x7FFFFFFF));
#pragma unroll
        for (int m = 16; m; m /= 2)
            magnitude = max(magnitude, __shfl_xor_sync(~0u, magnitude, m));
        uint16_t factor = fp8_factor(magnitude, &inverse);
        if (lane == 0)
            ((uint16_t *)(page + PAGE_TOKENS * head_dim))[token] = factor;
    }
#pragma unroll
    for (int i = 0; i < MAX_PAIRS * 2; i++) {
        const int c = i / 2 * 32 + lane, d = i % 2 * half + c, row = IS_K ? token : d % 16, k = IS_K ? d % 16 : token;
        const float x = i % 2 ? hi[i / 2] : lo[i / 2];
        if (c >= half)
            continue;
        if (kv == QR_CU_FP8)
            page[fp8_index(d / 16, row, k)] = (char)__nv_cvt_float_to_fp8(x * inverse, __NV_SATFINITE, __NV_E4M3);
        else
            ((uint16_t *)page)[page_index(d / 16, row, k)] = bits_of(x, kv);
    }
}

static __global__ void __launch_bounds__(256) rope(const __grid_constant__ qr_cu_rope a, int q_heads, int k_heads, int v_heads)
{
    begin();
    const int heads = q_heads + k_heads + v_heads, lane = threadIdx.x % 32, half = a.head_dim / 2;
    const long unit = (long)blockIdx.x * 8 + threadIdx.x / 32;
    if (unit >= (long)a.n * heads)
        return;
    const size_t t = unit / heads;
    int h = (int)(unit % heads);
    const int slot = a.k_pages ? a.slot[t] : -1;
    if (h >= q_heads + k_heads) { // v
        h -= q_heads + k_heads;
        if (slot < 0)
            return;
        const float *v = a.v + t * a.v_stride + h * a.head_dim;
        float lo[MAX_PAIRS], hi[MAX_PAIRS];
#pragma unroll
        for (int i = 0; i < MAX_PAIRS; i++) {
            int c = i * 32 + lane;
            lo[i] = c < half ? v_held(v[c], a.kv) : 0;
            hi[i] = c < half ? v_held(v[half + c], a.kv) : 0;
        }
        store_head<false>(a.v_pages, a.kv, a.n_kv_head, a.head_dim, slot, h, lo, hi);
        return;
    }
    const bool is_k = h >= q_heads;
    if (is_k)
        h -= q_heads;
    float *x = is_k ? a.k + t * a.k_stride + h * a.head_dim : a.q + t * a.q_stride + h * a.head_dim;
    const float *norm = is_k ? a.k_norm : a.q_norm;
    float lo[MAX_PAIRS], hi[MAX_PAIRS], sum = 0;
#pragma unroll
    for (int i = 0; i < MAX_PAIRS; i++) {
        int c = i * 32 + lane;
        lo[i] = c < half ? x[c] : 0;
        hi[i] = c < half ? x[half + c] : 0;
        sum = add_squares(sum, lo[i], hi[i]);
    }
    if (norm) {
        float v = 1.0f / sqrtf(warp_sum(sum) / (float)a.head_dim + a.eps);
#pragma unroll
        for (int i = 0; i < MAX_PAIRS; i++) {
            int c = i * 32 + lane;
            if (c < half) {
                lo[i] = lo[i] * v * norm[c];
                hi[i] = hi[i] * v * norm[half + c];
            }
        }
    }
    if (!is_k || a.rotate_k) {
        const size_t at = (size_t)a.position[t] * half;
#pragma unroll
        for (int i = 0; i < MAX_PAIRS; i++) {
            int c = i * 32 + lane;
            if (c >= half)
                break;
            turn_pair(lo[i], hi[i], a.cos[at + c], a.sin[at + c]);
        }
    }
    if (is_k) {
        if (slot >= 0)
            store_head<true>(a.k_pages, a.kv, a.n_kv_head, a.head_dim, slot, h, lo, hi);
        return;
    }
    uint16_t *q16 = a.q16 ? (uint16_t *)a.q16 + (t * a.n_head + h) * a.head_dim : nullptr;
#pragma unroll
    for (int i = 0; i < MAX_PAIRS; i++) {
        int c = i * 32 + lane;
        if (c >= half)
            break;
        if (!q16 || a.q_read) {
            x[c] = lo[i];
            x[half + c] = hi[i];
        }
        if (q16) {
            q16[c] = bits_of(lo[i], a.kv);
            q16[half + c] = bits_of(hi[i], a.kv);
        }
    }
}

extern "C" cudaError_t qr_cu_run_rope(const struct qr_cu_on *on, const struct qr_cu_rope *a)
{
    int q = a->q ? a->n_head : 0, k = a->k ? a->n_kv_head : 0, v = a->v ? a->n_kv_head : 0;
    return a->n ? launch(on, rope, ceil_div((long)a->n * (q + k + v), 8), 256, 0, *a, q, k, v) : cudaSuccess;
}
