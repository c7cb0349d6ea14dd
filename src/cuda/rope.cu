// rope.cu - ROPE, KV_STORE, and both in one (ROPE_STORE), with the head norms of q and k where a model has them.
//
// A warp takes one head of one token: q and k are read once, normed and rotated in registers (first half of a head with its second
// half: Su et al., RoFormer, 2021), q is written back or left for attention, k and v go straight into their pages. Grouped queries need nothing here:
// k and v have their own, fewer heads. Bytes: q 4 in and 2 or 4 out, k and v 4 in and 2 out an element, cos and sin from L2.
#include <cuda_fp16.h>
#include "cuda/attention.cuh"
#include "cuda/launch.cuh"

constexpr int MAX_PAIRS = 4; // pairs a lane: heads of up to 256

// A value that cannot be held is no reason to spoil other rows: a page's stale places are multiplied by zero.
static __device__ inline uint16_t v_bits(float x, int f16)
{
    float most = f16 ? 65504.0f : 3.3895314e38f;
    x = x != x ? 0.0f : fminf(fmaxf(x, -most), most);
    return f16 ? __half_as_ushort(__float2half_rn(x)) : __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
static __device__ inline uint16_t k_bits(float x, int f16)
{
    return f16 ? __half_as_ushort(__float2half_rn(x)) : __bfloat16_as_ushort(__float2bfloat16_rn(x));
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
        uint16_t *page = (uint16_t *)a.v_pages + ((size_t)(slot / PAGE_TOKENS) * a.n_kv_head + h) * PAGE_TOKENS * a.head_dim;
        for (int d = lane; d < a.head_dim; d += 32)
            page[v_page_index(slot % PAGE_TOKENS, d)] = v_bits(v[d], a.f16);
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
        sum += lo[i] * lo[i] + hi[i] * hi[i];
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
            float cos = a.cos[at + c], sin = a.sin[at + c], l = lo[i], u = hi[i];
            lo[i] = __fsub_rn(__fmul_rn(l, cos), __fmul_rn(u, sin));
            hi[i] = __fadd_rn(__fmul_rn(u, cos), __fmul_rn(l, sin));
        }
    }
    if (is_k && slot < 0)
        return;
    uint16_t *page = is_k ? (uint16_t *)a.k_pages + ((size_t)(slot / PAGE_TOKENS) * a.n_kv_head + h) * PAGE_TOKENS * a.head_dim
                          : nullptr;
    uint16_t *q16 = a.q16 ? (uint16_t *)a.q16 + (t * a.n_head + h) * a.head_dim : nullptr;
#pragma unroll
    for (int i = 0; i < MAX_PAIRS; i++) {
        int c = i * 32 + lane;
        if (c >= half)
            break;
        if (is_k) {
            page[k_page_index(slot % PAGE_TOKENS, c)] = k_bits(lo[i], a.f16);
            page[k_page_index(slot % PAGE_TOKENS, half + c)] = k_bits(hi[i], a.f16);
            continue;
        }
        if (!q16 || a.q_read) {
            x[c] = lo[i];
            x[half + c] = hi[i];
        }
        if (q16) {
            q16[c] = k_bits(lo[i], a.f16);
            q16[half + c] = k_bits(hi[i], a.f16);
        }
    }
}

extern "C" cudaError_t qr_cu_run_rope(const struct qr_cu_on *on, const struct qr_cu_rope *a)
{
    int q = a->q ? a->n_head : 0, k = a->k ? a->n_kv_head : 0, v = a->v ? a->n_kv_head : 0;
    return a->n ? launch(on, rope, ceil_div((long)a->n * (q + k + v), 8), 256, 0, *a, q, k, v) : cudaSuccess;
}
