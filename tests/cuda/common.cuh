// common.cuh - what the CUDA programs here share: checked calls, random numbers, timing by graphs, comparing bits.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t e_ = (call);                                                                                       \
        if (e_ != cudaSuccess) {                                                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e_));                                \
            exit(2);                                                                                                   \
        }                                                                                                              \
    } while (0)

static int failures;

// Small sizes and no timing, as under a checking tool.
static inline bool quick()
{
    return getenv("QUICK") != nullptr;
}

template <class T> static T *device_array(size_t n)
{
    T *p;
    CHECK(cudaMalloc(&p, n * sizeof(T)));
    return p;
}

static __device__ inline uint32_t hash_u32(uint64_t i, uint32_t seed)
{
    uint64_t x = (i + 1) * 0x9E3779B97F4A7C15ull + (uint64_t)seed * 0xD1B54A32D192ED03ull;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return (uint32_t)(x >> 32);
}

// Near normal (three uniforms), times scale.
static __global__ void fill_random(__nv_bfloat16 *p, size_t n, uint32_t seed, float scale)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        float v = 0;
        for (int k = 0; k < 3; k++)
            v += (float)hash_u32(i * 3 + k, seed) * 0x1p-31f - 1.0f;
        p[i] = __float2bfloat16(v * scale);
    }
}

static __global__ void count_unequal(const uint32_t *a, const uint32_t *b, size_t n, unsigned long long *out)
{
    unsigned long long differ = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        differ += a[i] != b[i];
    if (differ)
        atomicAdd(out, differ);
}

static unsigned long long unequal(const void *a, const void *b, size_t words)
{
    unsigned long long *d = device_array<unsigned long long>(1), n;
    CHECK(cudaMemset(d, 0, 8));
    count_unequal<<<1024, 256>>>((const uint32_t *)a, (const uint32_t *)b, words, d);
    CHECK(cudaMemcpy(&n, d, 8, cudaMemcpyDeviceToHost));
    cudaFree(d);
    return n;
}

// Microseconds of one launch: `launch(i, stream)` for i = 0 .. n - 1 in one graph, median of 5 runs of the graph.
static double graph_us(int n, const std::function<void(int, cudaStream_t)> &launch)
{
    if (quick())
        return 1;
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t run;
    cudaEvent_t a, b;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < n; i++)
        launch(i, s);
    CHECK(cudaStreamEndCapture(s, &graph));
    CHECK(cudaGraphInstantiate(&run, graph, 0));
    std::vector<float> times;
    for (int r = 0; r < 7; r++) {
        float ms;
        CHECK(cudaEventRecord(a, s));
        CHECK(cudaGraphLaunch(run, s));
        CHECK(cudaEventRecord(b, s));
        CHECK(cudaEventSynchronize(b));
        CHECK(cudaEventElapsedTime(&ms, a, b));
        if (r >= 2)
            times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    cudaGraphExecDestroy(run);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(s);
    return times[times.size() / 2] * 1e3 / n;
}

// Launch that may begin while the kernel before it ends.
template <class... P, class... A>
static void launch_early(void (*kernel)(P...), int grid, int block, size_t shared, cudaStream_t s, A... args)
{
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
    cudaLaunchConfig_t c = {};
    c.gridDim = grid;
    c.blockDim = block;
    c.dynamicSmemBytes = shared;
    c.stream = s;
    cudaLaunchAttribute at;
    at.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    at.val.programmaticStreamSerializationAllowed = 1;
    c.attrs = &at;
    c.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&c, kernel, args...));
}
