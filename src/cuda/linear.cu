// linear.cu - LINEAR: which kernel multiplies, by the number of tokens and the device, and the plain one for all else.
//
// Every kernel here gives the same bits for a row (docs/LAYOUT.md), so the choice is one of speed alone.
#include "cuda/launch.cuh"
#include "cuda/linear.cuh"

// Bytes of tokens that a block may hold: 12,800 or 6,144 k.
static int small_shared(const struct qr_cu_on *on)
{
    return on->arch >= 90 && on->arch < 120 ? 200 * 1024 : 96 * 1024;
}

// Plain: sm_80 and later, any stride, bias, rows that are no multiple of 16. A warp takes 16 rows x 8 N8 tokens; the tokens' x
// passes through shared memory, 64 k at a time, loaded while the stage before is multiplied.
template <int N8> static __global__ void __launch_bounds__(128) linear_plain(const __grid_constant__ qr_cu_linear p)
{
    constexpr int PIECES = N8 * 64, EACH = (PIECES + 127) / 128; // of 8 k of a token
    __shared__ uint32_t xs[2][4][N8][32][2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int strips = (p.rows + 15) / 16, strip = min((int)blockIdx.x * 4 + warp, strips - 1), first = blockIdx.y * N8 * 8;
    const int stages = p.k / 64, chain = stages / p.cuts;
    const uint4 *tiles = (const uint4 *)p.tiles + (size_t)strip * (p.k / 16) * 32 + lane;
    const __nv_bfloat16 *x = (const __nv_bfloat16 *)p.x;
    uint4 a[4], next[EACH];
#pragma unroll
    for (int j = 0; j < 4; j++)
        a[j] = load_stream(tiles + j * 32);
    begin();
    auto fetch = [&](int stage) {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            int i = e * 128 + threadIdx.x, token = first + i / 8;
            next[e] = make_uint4(0, 0, 0, 0);
            if (i < PIECES && token < p.n)
                next[e] = *(const uint4 *)(x + (size_t)token * p.k + stage * 64 + i % 8 * 8);
        }
    };
    auto put = [&](int into) {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            int i = e * 128 + threadIdx.x, token = i / 8, at = i % 8;
            if (i >= PIECES)
                continue;
            uint32_t *d = &xs[into][at / 2][token / 8][token % 8 * 4][at % 2];
            d[0] = next[e].x;
            d[2] = next[e].y;
            d[4] = next[e].z;
            d[6] = next[e].w;
        }
    };
    float acc[N8][4], sum[N8][4];
    fetch(0);
    put(0);
    for (int stage = 0; stage < stages; stage++) {
        __syncthreads();
        uint4 b[4];
        if (stage + 1 < stages) {
            fetch(stage + 1);
#pragma unroll
            for (int j = 0; j < 4; j++)
                b[j] = load_stream(tiles + ((stage + 1) * 4 + j) * 32);
        }
        if (stage % chain == 0)
#pragma unroll
            for (int n = 0; n < N8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    acc[n][i] = 0;
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int n = 0; n < N8; n++) {
                uint2 v = *(const uint2 *)xs[stage % 2][j][n][lane];
                mma_bf16(acc[n], a[j], v.x, v.y);
            }
        if (stage % chain == chain - 1)
#pragma unroll
            for (int n = 0; n < N8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    sum[n][i] = (stage >= chain ? sum[n][i] : -0.0f) + acc[n][i];
        if (stage + 1 < stages) {
            put((stage + 1) % 2);
#pragma unroll
            for (int j = 0; j < 4; j++)
                a[j] = b[j];
        }
    }
    if ((int)blockIdx.x * 4 + warp >= strips)
        return;
#pragma unroll
    for (int n = 0; n < N8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int token = first + n * 8 + 2 * t + i % 2, row = strip * 16 + 2 * g + i / 2;
            if (token < p.n && row < p.rows)
                p.y[(size_t)token * p.y_stride + row] = p.bias ? sum[n][i] + p.bias[row] : sum[n][i];
        }
}

// ---------------------------------------------------------------- the choice

// Tokens to 8: weights straight to registers.
template <bool WHOLE> static cudaError_t small(const struct qr_cu_on *on, const linear_args &a, int warps)
{
    int strips = a.w.rows / 16, chains = WHOLE ? strips : strips * a.w.cuts, blocks = on->n_sm * (16 / warps);
    blocks = blocks < chains ? blocks : chains;
    int span = 0;
    for (int b = 0; b < blocks; b++) {
        chain_range r = chains_of<WHOLE>(a.w, b, blocks);
        span = r.k_last - r.k_first > span ? r.k_last - r.k_first : span;
    }
    if (span * 16 > small_shared(on))
        return cudaErrorInvalidConfiguration;
    return launch(on, linear_small<1, WHOLE>, blocks, warps * 32, (size_t)span * 16, a);
}

static cudaError_t plain(const struct qr_cu_on *on, const struct qr_cu_linear *a)
{
    int blocks = ceil_div(a->rows, 64);
    if (a->n <= 8)
        return launch(on, linear_plain<1>, blocks, 128, 0, *a);
    return launch(on, linear_plain<8>, dim3(blocks, ceil_div(a->n, 64)), 128, 0, *a);
}

static linear_args args_of(const struct qr_cu_linear *a)
{
    return {{(const uint4 *)a->tiles, a->rows, a->k, a->cuts},
            (const __nv_bfloat16 *)a->x,
            a->y,
            a->work,
            a->counter,
            a->n,
            a->bias,
            nullptr,
            (__nv_bfloat16 *)a->gated,
            a->y_stride};
}

static bool is_dense(const struct qr_cu_linear *a)
{
    return a->y_stride == a->rows && a->rows % 16 == 0;
}

extern "C" int qr_cu_linear_gates(const struct qr_cu_on *on, const struct qr_cu_linear *a)
{
    return is_dense(a) && on->arch == 90 && qr_cu_linear_hopper_gates(args_of(a));
}

extern "C" cudaError_t qr_cu_run_linear(const struct qr_cu_on *on, const struct qr_cu_linear *a)
{
    cudaError_t e = cudaErrorInvalidConfiguration;
    if (a->n == 0)
        return cudaSuccess;
    const linear_args args = args_of(a);
    if (a->rows % 16 == 0 && a->y_stride % 4 == 0 && a->n <= 8)
        e = a->cuts == 1 ? small<true>(on, args, 16) : small<false>(on, args, 8);
    else if (is_dense(a) && on->arch == 90)
        e = qr_cu_linear_hopper(on, args);
    return e == cudaErrorInvalidConfiguration ? plain(on, a) : e;
}

extern "C" int qr_cu_cuts(int rows, int k)
{
    return cuts_of(rows, k);
}

extern "C" uint64_t qr_cu_linear_work(int rows, int cuts, int max_n)
{
    int n = max_n < LINEAR_SPLIT_TOKENS ? max_n : LINEAR_SPLIT_TOKENS;
    return cuts == 1 ? 0 : (uint64_t)cuts * (uint64_t)n * (uint64_t)((rows + 15) / 16 * 16) * sizeof(float);
}

extern "C" cudaError_t qr_cu_prepare_attention(const struct qr_cu_on *on, int head_dim);
extern "C" cudaError_t qr_cu_prepare(const struct qr_cu_on *on, int head_dim)
{
    const auto most = cudaFuncAttributeMaxDynamicSharedMemorySize;
    cudaError_t e = cudaFuncSetAttribute(linear_small<1, true>, most, small_shared(on));
    if (!e)
        e = cudaFuncSetAttribute(linear_small<1, false>, most, small_shared(on));
    if (!e && on->arch == 90)
        e = qr_cu_prepare_linear_hopper();
    return e ? e : qr_cu_prepare_attention(on, head_dim);
}
