// linear_quant.cu - LINEAR on quantised weights (quant.h): the kernel for few tokens, and which way is taken.
//
// Few tokens: as linear_small.cuh, with a unit of 64 columns of 16 rows unpacked in registers between its load and its four products.
// Bytes: the strips once, 4.5 to 8.6 bits a weight; T * K * 2 of tokens lie in shared memory. About 4 instructions a weight, so
// at 4.5 bits a multiprocessor's issue slots are as scarce as memory. Many tokens: rows become bf16 tiles in a buffer, part by part,
// and the kernels for those multiply.
#include "cuda/launch.cuh"
#include "cuda/linear_quant_ring.cuh"

constexpr int QUANT_TOKENS = 32;                  // up to here strips are read as they are; and up to here,
constexpr int MORE_TOKENS = 96;                   // where the other way has several parts, so many at a time
constexpr uint64_t EXPANDED = (uint64_t)64 << 20; // bytes of bf16 tiles at a time
constexpr int RING_STRIPS = 16;                   // of a multiprocessor, from which on a ring pays

// The chain that ends last adds those of its 16 rows, from left to right.
template <int N8> static __device__ inline void add_all(const quant_args &p, int strip, float (&acc)[N8][4], int cut)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, T = p.tokens, rows = p.w.rows, at = strip * 16;
#pragma unroll
    for (int n = 0; n < N8; n++)
#pragma unroll
        for (int i = 0; i < 2; i++)
            if (n * 8 + 2 * t + i < T)
                __stcg((float2 *)(p.work + ((size_t)cut * T + n * 8 + 2 * t + i) * rows + at) + g,
                       make_float2(acc[n][i], acc[n][i + 2]));
    __threadfence();
    unsigned before = 0;
    __syncwarp();
    if (lane == 0)
        before = atomicAdd(p.count + strip, 1);
    before = __shfl_sync(~0u, before, 0);
    if (before != (unsigned)p.w.cuts - 1)
        return;
    __threadfence();
    if (lane == 0)
        p.count[strip] = 0;
    const size_t stride = (size_t)T * rows;
    for (int i = lane; i < 4 * T; i += 32) {
        const float *from = p.work + (size_t)(i / 4) * rows + at + i % 4 * 4;
        float sum[4] = {-0.0f, -0.0f, -0.0f, -0.0f};
        for (int c = 0; c < p.w.cuts; c += 8) {
            float4 v[8];
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (c + j < p.w.cuts)
                    v[j] = __ldcg((const float4 *)(from + (c + j) * stride));
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (c + j < p.w.cuts) {
                    sum[0] += v[j].x;
                    sum[1] += v[j].y;
                    sum[2] += v[j].z;
                    sum[3] += v[j].w;
                }
        }
        store(p, i / 4, at + i % 4 * 4, sum);
    }
}

// WHOLE: K is one chain. A load takes the units of a group that lies in one super block.
template <qr_cu_quant TYPE, int N8, bool WHOLE>
static __global__ void __launch_bounds__(512) linear_quant(const __grid_constant__ quant_args p)
{
    constexpr int GROUP = quant_group<TYPE>::units;
    // Groups on their way. Where a warp has a chain of all K, few warps of a block have one; others need the registers.
    constexpr int AHEAD = N8 == 1 && WHOLE && TYPE == QR_CU_E4M3 ? 4 : 2;
    extern __shared__ __align__(16) uint32_t tokens[];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warps = blockDim.x / 32;
    const int strips = p.w.rows / 16, units = p.w.k / QR_CU_UNIT, chain = units / p.w.cuts;
    const chain_range r = chains_of<WHOLE>(p.w, blockIdx.x, gridDim.x);
    struct place {
        int left, strip, first, unit; // chains of the block from here on; the chain's first unit of K, and where in it
    };
    struct group {
        quant_unit<TYPE> unit[GROUP];
        super_words<TYPE> super;
    };
    auto advance = [&](place &at, int chains) { // chains lie cut by cut
        at.left -= chains;
        at.strip += chains;
        for (; !WHOLE && at.strip >= strips; at.first += chain)
            at.strip -= strips;
        at.unit = at.first;
    };
    auto step = [&](place &at) {
        at.unit = (at.unit & -GROUP) + GROUP;
        if (at.unit >= at.first + chain)
            advance(at, warps);
    };
    place next = {r.last - r.first, WHOLE ? r.first : r.first % strips, WHOLE ? 0 : r.first / strips * chain, 0};
    auto load = [&](group &to) {
        if (next.left <= 0)
            return;
        const uint8_t *strip = (const uint8_t *)p.w.tiles + (size_t)next.strip * p.strip_bytes;
        const int base = next.unit & -GROUP;
        if (QR_CU_SUPER_BYTES(TYPE))
            to.super = super_words<TYPE>::read(strip + units * (QR_CU_CODE_BYTES(TYPE) + QR_CU_SCALE_BYTES(TYPE)) +
                                                   base / GROUP * QR_CU_SUPER_BYTES(TYPE),
                                               lane);
        if (base + GROUP <= units) { // what is not the chain's own is its neighbour's, and not used
#pragma unroll
            for (int i = 0; i < GROUP; i++)
                to.unit[i].load(strip, units, base, i, lane);
        } else {
#pragma unroll
            for (int i = 0; i < GROUP; i++)
                if (base + i < units)
                    to.unit[i].load(strip, units, base, i, lane);
        }
        step(next);
    };
    float acc[N8][4] = {};
    auto multiply = [&](const group &from, const place &now) {
        const int base = now.unit & -GROUP, end = now.first + chain;
        quant_super<TYPE> super;
        if (QR_CU_SUPER_BYTES(TYPE))
            super.set(from.super);
#pragma unroll
        for (int i = 0; i < GROUP; i++) {
            if (base + i < now.unit || base + i >= end)
                continue;
            uint32_t a[4][4];
            operands<TYPE>(from.unit[i], super, a);
            const uint32_t *b = tokens + (((base + i) * 4 - r.k_first / 16) * N8 * 32 + lane) * 2;
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int n = 0; n < N8; n++) {
                    uint2 v = *(const uint2 *)(b + (j * N8 + n) * 64);
                    mma_bf16(acc[n], make_uint4(a[j][0], a[j][1], a[j][2], a[j][3]), v.x, v.y);
                }
        }
        if (base + GROUP < end)
            return;
        if (WHOLE) {
#pragma unroll
            for (int n = 0; n < N8; n++)
#pragma unroll
                for (int i = 0; i < 2; i++)
                    if (n * 8 + 2 * t + i < p.tokens) {
                        const float two[2] = {acc[n][i], acc[n][i + 2]};
                        store(p, n * 8 + 2 * t + i, now.strip * 16 + 2 * g, two);
                    }
        } else {
            add_all<N8>(p, now.strip, acc, now.first / chain);
        }
#pragma unroll
        for (int n = 0; n < N8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                acc[n][i] = 0;
    };
    // Weights do not depend on the kernel before.
    group ahead[AHEAD];
    let_next_start();
    advance(next, threadIdx.x / 32);
    place now = next;
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        load(ahead[i]);
    wait_for_previous();
    stage<N8>(tokens, p, r.k_first, r.k_last);
    __syncthreads();
    while (now.left > 0)
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (now.left <= 0)
                break;
            multiply(ahead[i], now);
            step(now);
            load(ahead[i]);
        }
}

// One warp a unit.
template <qr_cu_quant TYPE>
static __global__ void __launch_bounds__(256)
    expand(const uint8_t *strips, size_t strip_bytes, int units, int64_t n, uint4 *tiles)
{
    const int lane = threadIdx.x % 32;
    const int64_t at = blockIdx.x * 8ll + threadIdx.x / 32;
    quant_unit<TYPE> unit;
    quant_super<TYPE> super;
    begin();
    if (at >= n)
        return;
    const uint8_t *strip = strips + at / units * strip_bytes, *scale = strip + units * QR_CU_CODE_BYTES(TYPE);
    const int u = (int)(at % units);
    unit.read(strip + u * QR_CU_CODE_BYTES(TYPE), scale + u * QR_CU_SCALE_BYTES(TYPE), lane);
    if (QR_CU_SUPER_BYTES(TYPE))
        super.set(super_words<TYPE>::read(
            scale + units * QR_CU_SCALE_BYTES(TYPE) + u / QR_CU_SUPER_UNITS(TYPE) * QR_CU_SUPER_BYTES(TYPE), lane));
    uint32_t a[4][4];
    operands<TYPE>(unit, super, a);
#pragma unroll
    for (int j = 0; j < 4; j++)
        tiles[(at * 4 + j) * 32 + lane] = make_uint4(a[j][0], a[j][1], a[j][2], a[j][3]);
}

// ---------------------------------------------------------------- the choice

// Bytes of shared memory that a block may hold tokens in; and all that it may have.
static int token_shared(const struct qr_cu_on *on)
{
    return on->arch >= 90 && on->arch < 120 ? 200 * 1024 : 96 * 1024;
}

template <qr_cu_quant TYPE, int N8, bool WHOLE> static cudaError_t few(const struct qr_cu_on *on, const quant_args &a)
{
    const int strips = a.w.rows / 16, chains = WHOLE ? strips : strips * a.w.cuts;
    int span = 0, warps = WHOLE || N8 > 1 ? 16 : 8, blocks = on->n_sm * (16 / warps);
    blocks = blocks < chains ? blocks : chains;
    for (int b = 0; b < blocks; b++) {
        chain_range r = chains_of<WHOLE>(a.w, b, blocks);
        span = r.k_last - r.k_first > span ? r.k_last - r.k_first : span;
    }
    if ((int64_t)span * 16 * N8 > token_shared(on))
        return cudaErrorInvalidConfiguration;
    return launch(on, linear_quant<TYPE, N8, WHOLE>, blocks, warps * 32, (size_t)span * 16 * N8, a);
}

static int most_shared(const struct qr_cu_on *on)
{
    return (on->arch >= 90 && on->arch < 120 ? 227 : on->arch == 80 ? 163 : 99) * 1024;
}

// Many strips for each multiprocessor.
template <qr_cu_quant TYPE> static cudaError_t ring(const struct qr_cu_on *on, quant_args a)
{
    a.token_bytes = a.w.k * 16;
    for (int warps = RING_WARPS; warps >= RING_WARPS / 2; warps /= 2)
        for (a.depth = DEEP; a.depth >= 2; a.depth -= DEEP - 2) {
            const int64_t bytes = (int64_t)a.w.k * 16 + (int64_t)warps * a.depth * quant_group<TYPE>::bytes;
            if (bytes <= most_shared(on))
                return launch(on, linear_quant_ring<TYPE>, on->n_sm, warps * 32, (size_t)bytes, a);
        }
    return cudaErrorInvalidConfiguration;
}

template <qr_cu_quant TYPE> static cudaError_t few_of(const struct qr_cu_on *on, const quant_args &a)
{
    if (a.tokens <= 8 && a.w.cuts == 1 && a.w.rows / 16 >= RING_STRIPS * on->n_sm) {
        cudaError_t e = ring<TYPE>(on, a);
        if (e != cudaErrorInvalidConfiguration)
            return e;
    }
    if (a.tokens <= 8)
        return a.w.cuts == 1 ? few<TYPE, 1, true>(on, a) : few<TYPE, 1, false>(on, a);
    if (a.tokens <= 16)
        return a.w.cuts == 1 ? few<TYPE, 2, true>(on, a) : few<TYPE, 2, false>(on, a);
    return a.w.cuts == 1 ? few<TYPE, 4, true>(on, a) : few<TYPE, 4, false>(on, a);
}

static cudaError_t few_of(const struct qr_cu_on *on, const quant_args &a, enum qr_cu_quant type)
{
    switch (type) {
    case QR_CU_Q8_0:
        return few_of<QR_CU_Q8_0>(on, a);
    case QR_CU_Q4_0:
        return few_of<QR_CU_Q4_0>(on, a);
    case QR_CU_Q4_1:
        return few_of<QR_CU_Q4_1>(on, a);
    case QR_CU_Q4_K:
        return few_of<QR_CU_Q4_K>(on, a);
    case QR_CU_Q6_K:
        return few_of<QR_CU_Q6_K>(on, a);
    case QR_CU_E4M3:
        return few_of<QR_CU_E4M3>(on, a);
    default:
        return cudaErrorInvalidValue;
    }
}

extern "C" int qr_cu_quant_rows(int rows, int k)
{
    uint64_t most = EXPANDED / ((uint64_t)k * 32) * 16, all = ((uint64_t)rows + 15) / 16 * 16;
    most = most < 16 ? 16 : most;
    return (int)(all < most ? all : most);
}

extern "C" cudaError_t qr_cu_run_expand(const struct qr_cu_on *on, enum qr_cu_quant type, const void *strips, int rows,
                                        int k, void *tiles)
{
    const int units = k / QR_CU_UNIT;
    const int64_t n = (int64_t)ceil_div(rows, 16) * units;
    auto run = [&](auto kernel) {
        return launch(on, kernel, ceil_div(n, 8), 256, 0, (const uint8_t *)strips, (size_t)qr_cu_strip_bytes(type, k),
                      units, n, (uint4 *)tiles);
    };
    switch (type) {
    case QR_CU_Q8_0:
        return run(expand<QR_CU_Q8_0>);
    case QR_CU_Q4_0:
        return run(expand<QR_CU_Q4_0>);
    case QR_CU_Q4_1:
        return run(expand<QR_CU_Q4_1>);
    case QR_CU_Q4_K:
        return run(expand<QR_CU_Q4_K>);
    case QR_CU_Q6_K:
        return run(expand<QR_CU_Q6_K>);
    case QR_CU_E4M3:
        return run(expand<QR_CU_E4M3>);
    default:
        return cudaErrorInvalidValue;
    }
}

// Part by part through bf16 tiles. Kernels for those load weights before they wait for the kernel before, so they may not begin early.
static cudaError_t many(const struct qr_cu_on *on, const struct qr_cu_quant_linear *a)
{
    const uint64_t strip = qr_cu_strip_bytes(a->type, a->linear.k);
    const int each = qr_cu_quant_rows(a->linear.rows, a->linear.k);
    struct qr_cu_on late = *on;
    late.early = 0;
    for (int row = 0; row < a->linear.rows; row += each) {
        struct qr_cu_linear l = a->linear;
        l.rows = a->linear.rows - row < each ? a->linear.rows - row : each;
        l.tiles = a->expanded;
        l.bias = l.bias ? l.bias + row : NULL;
        l.y += row;
        bool part = l.rows < a->linear.rows;
        if (part) {
            l.y = a->y_part;
            l.y_stride = l.rows;
        }
        cudaError_t e = qr_cu_run_expand(on, a->type, (const uint8_t *)a->linear.tiles + (uint64_t)(row / 16) * strip,
                                         l.rows, l.k, a->expanded);
        if (!e)
            e = qr_cu_run_linear(&late, &l);
        if (!e && part) {
            struct qr_cu_rows copy = {};
            copy.x = l.y;
            copy.x_stride = l.rows;
            copy.y = a->linear.y + row;
            copy.y_stride = a->linear.y_stride;
            copy.cols = l.rows;
            copy.n = l.n;
            e = qr_cu_run_map(on, QR_CU_COPY, &copy);
        }
        if (e)
            return e;
    }
    return cudaSuccess;
}

extern "C" cudaError_t qr_cu_run_linear_quant(const struct qr_cu_on *on, const struct qr_cu_quant_linear *a)
{
    const struct qr_cu_linear &l = a->linear;
    cudaError_t e = cudaErrorInvalidConfiguration;
    if (l.n == 0)
        return cudaSuccess;
    // A matrix that would be expanded in parts is rather read again for each few tokens.
    const bool again = l.n <= MORE_TOKENS && qr_cu_quant_rows(l.rows, l.k) < l.rows;
    if (l.n <= QUANT_TOKENS || again)
        for (int first = 0; first < l.n; first += QUANT_TOKENS) {
            const int n = l.n - first < QUANT_TOKENS ? l.n - first : QUANT_TOKENS;
            const quant_args args = {{(const uint4 *)l.tiles, ceil_div(l.rows, 16) * 16, l.k, l.cuts},
                                     qr_cu_strip_bytes(a->type, l.k),
                                     (const __nv_bfloat16 *)l.x + (size_t)first * l.k,
                                     l.y + (size_t)first * l.y_stride,
                                     l.work,
                                     l.counter,
                                     l.bias,
                                     n,
                                     l.rows,
                                     l.y_stride,
                                     0,
                                     0};
            e = few_of(on, args, a->type);
            if (e)
                break;
        }
    return e == cudaErrorInvalidConfiguration ? many(on, a) : e;
}

template <qr_cu_quant TYPE> static cudaError_t prepare(const struct qr_cu_on *on)
{
    const auto most = cudaFuncAttributeMaxDynamicSharedMemorySize;
    cudaError_t all[] = {cudaFuncSetAttribute(linear_quant_ring<TYPE>, most, most_shared(on)),
                         cudaFuncSetAttribute(linear_quant<TYPE, 1, true>, most, token_shared(on)),
                         cudaFuncSetAttribute(linear_quant<TYPE, 1, false>, most, token_shared(on)),
                         cudaFuncSetAttribute(linear_quant<TYPE, 2, true>, most, token_shared(on)),
                         cudaFuncSetAttribute(linear_quant<TYPE, 2, false>, most, token_shared(on)),
                         cudaFuncSetAttribute(linear_quant<TYPE, 4, true>, most, token_shared(on)),
                         cudaFuncSetAttribute(linear_quant<TYPE, 4, false>, most, token_shared(on))};
    for (cudaError_t e : all)
        if (e)
            return e;
    return cudaSuccess;
}

extern "C" cudaError_t qr_cu_prepare_quant(const struct qr_cu_on *on)
{
    cudaError_t e = prepare<QR_CU_Q8_0>(on);
    if (!e)
        e = prepare<QR_CU_Q4_0>(on);
    if (!e)
        e = prepare<QR_CU_Q4_1>(on);
    if (!e)
        e = prepare<QR_CU_Q4_K>(on);
    if (!e)
        e = prepare<QR_CU_Q6_K>(on);
    return e ? e : prepare<QR_CU_E4M3>(on);
}
