// launch.cuh on a CPU - stands in front of src/cuda/launch.cuh: blocks run one after the other, each in as many threads as it has.
#pragma once
#include <thread>
#include <vector>
#include "cuda/ptx.cuh"
#include "cuda/launch.h"

extern int n_launch;

static inline void begin()
{
}

template <class... P, class... A>
static cudaError_t launch(const qr_cu_on *, void (*kernel)(P...), dim3 grid, int threads, size_t shared, A... args)
{
    if (shared > sizeof tokens)
        return cudaErrorInvalidConfiguration;
    n_launch++;
    gridDim = grid;
    blockDim = dim3(threads);
    for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) {
        std::vector<std::thread> all;
        memset(tokens, 0xff, sizeof tokens);
        pthread_barrier_init(&block_on_cpu, nullptr, threads);
        for (int w = 0; w < threads / 32; w++)
            pthread_barrier_init(&warps_on_cpu[w].meet, nullptr, 32);
        for (int t = 0; t < threads; t++)
            all.emplace_back([=] {
                threadIdx.x = t;
                kernel(P(args)...);
            });
        for (auto &t : all)
            t.join();
    }
    return cudaSuccess;
}

static inline int ceil_div(long a, long b)
{
    return (int)((a + b - 1) / b);
}
template <class... P> static inline cudaError_t cudaFuncSetAttribute(void (*)(P...), cudaFuncAttribute, int)
{
    return cudaSuccess;
}
