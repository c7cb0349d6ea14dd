// rows.cu - what goes element by element: ADD, SILU, MUL, SILU_MUL, GELU, SCALE, SOFT_CAP, GATHER, and the bf16 copy that a LINEAR reads.
//
// Bytes: 4 an element for each input and output, 2 for a bf16 one. Four elements a thread where everything is aligned.
#include <cuda_fp16.h>
#include "cuda/launch.cuh"

// Hendrycks and Gimpel, Gaussian Error Linear Units, 2016: the formula with tanh.
static __device__ inline float gelu(float x)
{
    const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x); // sqrt(2 / pi)
    return 0.5f * x * (1.0f + tanhf(inner));
}

template <qr_cu_map WHAT> static __device__ inline float value_of(float x, float r, float factor)
{
    switch (WHAT) {
    case QR_CU_ADD:
        return x + r;
    case QR_CU_SILU:
        return silu(x);
    case QR_CU_MUL:
        return x * r;
    case QR_CU_SILU_MUL:
        return silu(x) * r;
    case QR_CU_GELU:
        return gelu(x);
    case QR_CU_SCALE:
        return x * factor;
    case QR_CU_SOFT_CAP:
        return factor * tanhf(x / factor);
    default:
        return x;
    }
}

template <qr_cu_map WHAT, int N> static __global__ void __launch_bounds__(256) map_rows(const __grid_constant__ qr_cu_rows a)
{
    begin();
    const size_t t = blockIdx.y, from = a.row ? a.row[t] : t;
    const int c = (blockIdx.x * 256 + threadIdx.x) * N;
    float x[N] = {}, r[N] = {};
    if (c >= (a.y16 ? a.y16_cols : a.cols))
        return;
    if (N == 4 && c < a.cols) {
        *(float4 *)x = *(const float4 *)(a.x + from * a.x_stride + c);
        if (a.r)
            *(float4 *)r = *(const float4 *)(a.r + t * a.r_stride + c);
    } else if (c < a.cols) {
        x[0] = a.x[from * a.x_stride + c];
        if (a.r)
            r[0] = a.r[t * a.r_stride + c];
    }
#pragma unroll
    for (int j = 0; j < N; j++)
        x[j] = value_of<WHAT>(x[j], r[j], a.factor);
    if (a.y && c < a.cols) {
        if (N == 4)
            *(float4 *)(a.y + t * a.y_stride + c) = *(const float4 *)x;
        else
            a.y[t * a.y_stride + c] = x[0];
    }
    if (!a.y16)
        return;
    uint16_t *y16 = (uint16_t *)a.y16 + t * a.y16_stride + c;
    if (a.f16)
        for (int j = 0; j < N; j++)
            y16[j] = __half_as_ushort(__float2half_rn(x[j]));
    else if (N == 4)
        *(uint2 *)y16 = make_uint2(pack_bf16(x[0], x[1]), pack_bf16(x[N / 2], x[N - 1]));
    else
        *y16 = __bfloat16_as_ushort(__float2bfloat16(x[0]));
}

template <qr_cu_map WHAT> static cudaError_t run(const struct qr_cu_on *on, const struct qr_cu_rows *a)
{
    int odd = (a->cols | a->x_stride | (a->r ? a->r_stride : 0) | (a->y ? a->y_stride : 0)) % 4;
    odd |= (int)(((uintptr_t)a->x | (uintptr_t)a->r | (uintptr_t)a->y) % 16);
    int cols = a->y16 ? a->y16_cols : a->cols;
    return launch(on, odd ? map_rows<WHAT, 1> : map_rows<WHAT, 4>, dim3(ceil_div(cols, odd ? 256 : 1024), a->n), 256, 0,
                  *a);
}

extern "C" cudaError_t qr_cu_run_map(const struct qr_cu_on *on, enum qr_cu_map what, const struct qr_cu_rows *a)
{
    if (a->n == 0)
        return cudaSuccess;
    switch (what) {
    case QR_CU_ADD:
        return run<QR_CU_ADD>(on, a);
    case QR_CU_SILU:
        return run<QR_CU_SILU>(on, a);
    case QR_CU_MUL:
        return run<QR_CU_MUL>(on, a);
    case QR_CU_SILU_MUL:
        return run<QR_CU_SILU_MUL>(on, a);
    case QR_CU_GELU:
        return run<QR_CU_GELU>(on, a);
    case QR_CU_SCALE:
        return run<QR_CU_SCALE>(on, a);
    case QR_CU_SOFT_CAP:
        return run<QR_CU_SOFT_CAP>(on, a);
    case QR_CU_COPY:
        return run<QR_CU_COPY>(on, a);
    }
    return cudaErrorInvalidValue;
}
