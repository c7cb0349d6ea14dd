// bench_run.cuh - timing a launch by a graph of many, and looking at its result on the host.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_bf16.h>
#include "cuda/bench_run.h"

#define TRY_CUDA(call)                                                                                                 \
    do {                                                                                                               \
        cudaError_t try_e_ = (call);                                                                                   \
        if (try_e_ != cudaSuccess)                                                                                     \
            return try_e_;                                                                                             \
    } while (0)

// Numbers on the host; no library of C++ is linked, so this stands for its vector.
template <class T> struct bench_array {
    T *at = nullptr;
    size_t n = 0, room = 0;

    bench_array() = default;
    bench_array(const bench_array &) = delete;
    ~bench_array()
    {
        free(at);
    }
    cudaError_t resize(size_t to)
    {
        if (to > room) {
            T *more = (T *)realloc((void *)at, to * sizeof(T));
            if (!more)
                return cudaErrorMemoryAllocation;
            at = more;
            room = to;
        }
        n = to;
        return cudaSuccess;
    }
    cudaError_t add(const T &value)
    {
        const size_t here = n;
        if (here == room)
            TRY_CUDA(resize(room ? 2 * room : 64));
        at[here] = value;
        n = here + 1;
        return cudaSuccess;
    }
    T &operator[](size_t i)
    {
        return at[i];
    }
};

// What a graph is made of, for as long as it takes.
struct bench_graph {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t run = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;

    cudaError_t make(cudaStream_t s)
    {
        TRY_CUDA(cudaStreamEndCapture(s, &graph));
        TRY_CUDA(cudaGraphInstantiate(&run, graph, 0));
        TRY_CUDA(cudaEventCreate(&begin));
        return cudaEventCreate(&end);
    }
    cudaError_t time(cudaStream_t s, float *ms)
    {
        TRY_CUDA(cudaEventRecord(begin, s));
        TRY_CUDA(cudaGraphLaunch(run, s));
        TRY_CUDA(cudaEventRecord(end, s));
        TRY_CUDA(cudaEventSynchronize(end));
        return cudaEventElapsedTime(ms, begin, end);
    }
    ~bench_graph()
    {
        if (begin)
            cudaEventDestroy(begin);
        if (end)
            cudaEventDestroy(end);
        if (run)
            cudaGraphExecDestroy(run);
        if (graph)
            cudaGraphDestroy(graph);
    }
};

// Seconds of a launch: `launch(i)` for i = 0 .. EACH - 1 in one graph, the median of its runs but for the first.
template <class F> static cudaError_t bench_time(const qr_cu_bench *b, double *seconds, F launch)
{
    constexpr int EACH = 20, LEAST = 3, MOST = 1000;
    bench_graph graph;
    float times[MOST];
    double total = 0;
    int n = 0;
    cudaError_t e = cudaSuccess, made;
    float ms;
    TRY_CUDA(cudaStreamBeginCapture(b->on.stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < EACH && !e; i++)
        e = launch(i);
    made = graph.make(b->on.stream); // ends the capture in any case
    TRY_CUDA(e);
    TRY_CUDA(made);
    TRY_CUDA(graph.time(b->on.stream, &ms));
    for (; n < LEAST || (n < MOST && total < b->seconds); n++) {
        TRY_CUDA(graph.time(b->on.stream, &ms));
        times[n] = ms;
        total += ms * 1e-3;
    }
    std::sort(times, times + n);
    *seconds = times[n / 2] * 1e-3 / EACH;
    return cudaSuccess;
}

template <class T> static cudaError_t bench_get(const qr_cu_bench *b, bench_array<T> &to, const void *from, size_t n)
{
    TRY_CUDA(to.resize(n));
    TRY_CUDA(cudaMemcpyAsync(to.at, from, n * sizeof(T), cudaMemcpyDeviceToHost, b->on.stream));
    return cudaStreamSynchronize(b->on.stream);
}
template <class T> static cudaError_t bench_put(const qr_cu_bench *b, void *to, const bench_array<T> &from)
{
    TRY_CUDA(cudaMemcpyAsync(to, from.at, from.n * sizeof(T), cudaMemcpyHostToDevice, b->on.stream));
    return cudaStreamSynchronize(b->on.stream);
}

static inline double real(uint16_t bf16)
{
    uint32_t bits = (uint32_t)bf16 << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

// The largest difference, over the largest result wanted.
struct bench_error {
    double worst = 0, largest = 0;

    void see(double got, double want)
    {
        double e = fabs(got - want);
        worst = e > worst || std::isnan(e) ? e : worst;
        largest = std::max(largest, fabs(want));
    }
    double relative() const
    {
        return largest > 0 ? worst / largest : worst;
    }
};

static inline void bench_name(qr_bench_row *row, const char *kernel, const char *variant, int n_token)
{
    snprintf(row->kernel, sizeof row->kernel, "%s", kernel);
    snprintf(row->variant, sizeof row->variant, "%s", variant);
    row->n_token = n_token;
}
