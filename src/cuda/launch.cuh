// launch.cuh - what every .cu file here begins with: a launch that may overlap the kernel before, and a few loads.
#pragma once
#include "cuda/launch.h"
#include "cuda/ptx.cuh"

// Each kernel calls begin() before it touches what another kernel wrote: the next one may be set up meanwhile, and waits itself.
static __device__ inline void begin()
{
    let_next_start();
    wait_for_previous();
}

template <class... P, class... A>
static cudaError_t launch(const qr_cu_on *on, void (*kernel)(P...), dim3 grid, int threads, size_t shared, A... args)
{
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute early = {};
    c.gridDim = grid;
    c.blockDim = threads;
    c.dynamicSmemBytes = shared;
    c.stream = on->stream;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    c.attrs = &early;
    c.numAttrs = on->early && on->arch >= 90 ? 1 : 0;
    return cudaLaunchKernelEx(&c, kernel, P(args)...);
}

static __host__ __device__ inline int ceil_div(long a, long b)
{
    return (int)((a + b - 1) / b);
}

static __device__ inline float warp_sum(float v)
{
#pragma unroll
    for (int m = 16; m; m /= 2)
        v += __shfl_xor_sync(~0u, v, m);
    return v;
}

// x / (1 + e^-x), to some 2^-21: an infinite e^-x gives 0
static __device__ inline float silu(float x)
{
    return __fdividef(x, 1.0f + exp2_fast(x * -1.4426950408889634f));
}
