// norm.cu - RMSNORM, ADD_RMSNORM, and the norm in its parts: y = x / sqrt(mean(x^2) + eps) * scale over groups of columns.
//
// Bytes of a row: 4 in and 4 or 2 out an element, 8 more in and out for the addition. A block takes a group of more than 256
// columns and keeps it in registers between the sum and the result; a warp takes a narrower one (heads). How a sum is made
// depends on the width alone. (Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.)
#include "cuda/launch.cuh"

constexpr int WIDE_THREADS = 512, WIDE_KEPT = 8; // float4 a thread: up to 16,384 columns, or 4,096 that are no multiple of 4

template <int N> struct floats {
    float v[N];
};

template <int N> static __device__ inline floats<N> load(const float *p)
{
    floats<N> r;
    if (N == 4)
        *(float4 *)r.v = *(const float4 *)p;
    else
        r.v[0] = *p;
    return r;
}
template <int N> static __device__ inline void store(float *p, const floats<N> &x)
{
    if (N == 4)
        *(float4 *)p = *(const float4 *)x.v;
    else
        *p = x.v[0];
}
template <int N> static __device__ inline void store16(__nv_bfloat16 *p, const floats<N> &x)
{
    if (N == 4)
        *(uint2 *)p = make_uint2(pack_bf16(x.v[0], x.v[1]), pack_bf16(x.v[2], x.v[3]));
    else
        *p = __float2bfloat16(x.v[0]);
}

static __device__ inline float inverse_root(float mean, float eps)
{
    return 1.0f / sqrtf(mean + eps);
}

template <int N> static __global__ void __launch_bounds__(WIDE_THREADS) norm_wide(const __grid_constant__ qr_cu_norm a)
{
    __shared__ float part[WIDE_THREADS / 32];
    begin();
    const int groups = a.cols / a.width, first = blockIdx.x % groups * a.width;
    const size_t t = blockIdx.x / groups;
    float *x = a.x + t * a.x_stride + first;
    const float *r = a.r ? a.r + t * a.r_stride + first : nullptr;
    floats<N> kept[WIDE_KEPT];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < WIDE_KEPT; i++) {
        int c = (i * WIDE_THREADS + (int)threadIdx.x) * N;
        if (c >= a.width)
            break;
        kept[i] = load<N>(x + c);
        if (r) {
            floats<N> add = load<N>(r + c);
#pragma unroll
            for (int j = 0; j < N; j++)
                kept[i].v[j] += add.v[j];
            store<N>(x + c, kept[i]);
        }
#pragma unroll
        for (int j = 0; j < N; j++)
            sum += kept[i].v[j] * kept[i].v[j];
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
#pragma unroll
    for (int w = 0; w < WIDE_THREADS / 32; w++)
        sum += part[w];
    float v = inverse_root(sum / (float)a.width, a.eps);
#pragma unroll
    for (int i = 0; i < WIDE_KEPT; i++) {
        int c = (i * WIDE_THREADS + (int)threadIdx.x) * N;
        if (c >= a.width)
            break;
        floats<N> scale = load<N>(a.scale + c), y;
#pragma unroll
        for (int j = 0; j < N; j++)
            y.v[j] = kept[i].v[j] * v * scale.v[j];
        if (a.y)
            store<N>(a.y + t * a.y_stride + first + c, y);
        if (a.y16)
            store16<N>((__nv_bfloat16 *)a.y16 + t * a.y16_stride + first + c, y);
    }
}

// Many rows: a warp takes one alone, with all of it under way at once and nothing to wait for; it adds as norm_wide's warps would, of
// which each has 128 columns.
constexpr int MANY_ROWS = 2048, ROW_WARPS = 4;
template <int PIECES>
static __global__ void __launch_bounds__(ROW_WARPS * 32) norm_rows(const __grid_constant__ qr_cu_norm a)
{
    begin();
    const int lane = threadIdx.x % 32, pieces = a.width / 128;
    const size_t t = (size_t)blockIdx.x * ROW_WARPS + threadIdx.x / 32;
    if (t >= (size_t)a.n)
        return;
    float *x = a.x + t * a.x_stride + lane * 4;
    floats<4> kept[PIECES], add[PIECES];
#pragma unroll
    for (int i = 0; i < PIECES; i++)
        if (i < pieces)
            kept[i] = load<4>(x + i * 128);
    if (a.r) {
        const float *r = a.r + t * a.r_stride + lane * 4;
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            if (i < pieces)
                add[i] = load<4>(r + i * 128);
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            if (i < pieces) {
#pragma unroll
                for (int j = 0; j < 4; j++)
                    kept[i].v[j] += add[i].v[j];
                store<4>(x + i * 128, kept[i]);
            }
    }
    float total = 0;
#pragma unroll
    for (int i = 0; i < PIECES; i++)
        if (i < pieces) {
            float sum = 0;
#pragma unroll
            for (int j = 0; j < 4; j++)
                sum += kept[i].v[j] * kept[i].v[j];
            total += warp_sum(sum);
        }
    const float v = inverse_root(total / (float)a.width, a.eps);
#pragma unroll
    for (int i = 0; i < PIECES; i++)
        if (i < pieces) {
            floats<4> scale = load<4>(a.scale + lane * 4 + i * 128), y;
#pragma unroll
            for (int j = 0; j < 4; j++)
                y.v[j] = kept[i].v[j] * v * scale.v[j];
            if (a.y)
                store<4>(a.y + t * a.y_stride + lane * 4 + i * 128, y);
            if (a.y16)
                store16<4>((__nv_bfloat16 *)a.y16 + t * a.y16_stride + lane * 4 + i * 128, y);
        }
}

// Up to 256 columns a warp.
static __global__ void __launch_bounds__(256) norm_narrow(const __grid_constant__ qr_cu_norm a)
{
    begin();
    const int groups = a.cols / a.width, lane = threadIdx.x % 32;
    const long unit = (long)blockIdx.x * 8 + threadIdx.x / 32;
    if (unit >= (long)a.n * groups)
        return;
    const size_t t = unit / groups;
    const int first = (int)(unit % groups) * a.width;
    float *x = a.x + t * a.x_stride + first, sum = 0;
    for (int c = lane; c < a.width; c += 32) {
        if (a.r)
            x[c] += a.r[t * a.r_stride + first + c];
        sum += x[c] * x[c];
    }
    float v = inverse_root(warp_sum(sum) / (float)a.width, a.eps);
    for (int c = lane; c < a.width; c += 32) {
        float y = x[c] * v * a.scale[c];
        if (a.y)
            a.y[t * a.y_stride + first + c] = y;
        if (a.y16)
            ((__nv_bfloat16 *)a.y16)[t * a.y16_stride + first + c] = __float2bfloat16(y);
    }
}

extern "C" cudaError_t qr_cu_run_rmsnorm(const struct qr_cu_on *on, const struct qr_cu_norm *a)
{
    int groups = a->cols / a->width;
    if (a->n == 0)
        return cudaSuccess;
    if (a->width <= 256)
        return launch(on, norm_narrow, ceil_div((long)a->n * groups, 8), 256, 0, *a);
    int odd = (a->width | a->x_stride | (a->r ? a->r_stride : 0) | (a->y ? a->y_stride : 0)) % 4;
    odd |= (int)(((uintptr_t)a->x | (uintptr_t)a->r | (uintptr_t)a->y) % 16);
    if (a->width > WIDE_THREADS * WIDE_KEPT * (odd ? 1 : 4))
        return cudaErrorInvalidValue;
    if (!odd && a->n >= MANY_ROWS && groups == 1 && a->width % 128 == 0 && a->width <= 2048)
        return launch(on,
                      a->width > 1536   ? norm_rows<16>
                      : a->width > 1024 ? norm_rows<12>
                                        : norm_rows<8>,
                      ceil_div(a->n, ROW_WARPS), ROW_WARPS * 32, 0, *a);
    return launch(on, odd ? norm_wide<1> : norm_wide<4>, a->n * groups, WIDE_THREADS, 0, *a);
}

// ---------------------------------------------------------------- the parts, as they are recorded

static __global__ void __launch_bounds__(256) mean_square(const __grid_constant__ qr_cu_norm a)
{
    begin();
    const int groups = a.cols / a.width, lane = threadIdx.x % 32;
    const long unit = (long)blockIdx.x * 8 + threadIdx.x / 32;
    if (unit >= (long)a.n * groups)
        return;
    const size_t t = unit / groups;
    const float *x = a.x + t * a.x_stride + unit % groups * a.width;
    float sum = 0;
    for (int c = lane; c < a.width; c += 32)
        sum += x[c] * x[c];
    sum = warp_sum(sum);
    if (lane == 0)
        a.y[t * a.y_stride + unit % groups] = sum / (float)a.width;
}

enum part { RSQRT, SCALE_ROWS, SCALE_COLS };
template <part WHAT> static __global__ void __launch_bounds__(256) norm_part(const __grid_constant__ qr_cu_norm a)
{
    begin();
    const size_t t = blockIdx.y;
    const int c = blockIdx.x * 256 + threadIdx.x;
    if (c >= a.cols)
        return;
    float *x = a.x + t * a.x_stride + c;
    if (WHAT == RSQRT)
        *x = inverse_root(*x, a.eps);
    else if (WHAT == SCALE_ROWS)
        a.y[t * a.y_stride + c] = *x * a.r[t * a.r_stride + c / a.width];
    else
        *x *= a.scale[c % a.width];
}

extern "C" cudaError_t qr_cu_run_mean_square(const struct qr_cu_on *on, const struct qr_cu_norm *a)
{
    return a->n ? launch(on, mean_square, ceil_div((long)a->n * (a->cols / a->width), 8), 256, 0, *a) : cudaSuccess;
}
extern "C" cudaError_t qr_cu_run_rsqrt(const struct qr_cu_on *on, const struct qr_cu_norm *a)
{
    return a->n ? launch(on, norm_part<RSQRT>, dim3(ceil_div(a->cols, 256), a->n), 256, 0, *a) : cudaSuccess;
}
extern "C" cudaError_t qr_cu_run_scale_rows(const struct qr_cu_on *on, const struct qr_cu_norm *a)
{
    return a->n ? launch(on, norm_part<SCALE_ROWS>, dim3(ceil_div(a->cols, 256), a->n), 256, 0, *a) : cudaSuccess;
}
extern "C" cudaError_t qr_cu_run_scale_cols(const struct qr_cu_on *on, const struct qr_cu_norm *a)
{
    return a->n ? launch(on, norm_part<SCALE_COLS>, dim3(ceil_div(a->cols, 256), a->n), 256, 0, *a) : cudaSuccess;
}
