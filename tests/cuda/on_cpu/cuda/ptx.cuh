// ptx.cuh on a CPU - stands in front of src/cuda/ptx.cuh where kernels run without a GPU: a CUDA thread is a thread, warps and blocks
// meet at barriers, and the tensor core's product is a sum in double. So loops, places in memory and roundings of weights are tested
// (with AddressSanitizer), not the order of sums, and nothing of speed.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __launch_bounds__
#undef __grid_constant__
#undef __align__
#define __global__
#define __device__
#define __host__
#define __shared__
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(x)

struct warp_on_cpu {
    pthread_barrier_t meet;
    uint32_t a[32][4], b[32][2];
    unsigned passed[32];
};
extern thread_local uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim, gridDim;
extern warp_on_cpu warps_on_cpu[32];
extern pthread_barrier_t block_on_cpu;
alignas(128) extern uint32_t tokens[64 * 1024]; // shared memory, as the kernels call it

static inline warp_on_cpu &this_warp()
{
    return warps_on_cpu[threadIdx.x / 32];
}
static inline void __syncwarp()
{
    pthread_barrier_wait(&this_warp().meet);
}
static inline void __syncthreads()
{
    pthread_barrier_wait(&block_on_cpu);
}
static inline void __threadfence()
{
    __sync_synchronize();
}
static inline unsigned atomicAdd(unsigned *p, unsigned v)
{
    return __sync_fetch_and_add(p, v);
}
static inline unsigned __shfl_sync(unsigned, unsigned v, int from)
{
    this_warp().passed[threadIdx.x % 32] = v;
    __syncwarp();
    v = this_warp().passed[from];
    __syncwarp();
    return v;
}
static inline float __shfl_xor_sync(unsigned, float, int)
{
    abort(); // no kernel that runs here has it
}

// Loads and stores of a GPU want their own size as alignment.
template <class T> static inline const T *aligned(const T *p)
{
    if ((uintptr_t)p % sizeof(T))
        abort();
    return p;
}
template <class T> static inline T __ldg(const T *p)
{
    return *aligned(p);
}
template <class T> static inline T __ldcg(const T *p)
{
    return *aligned(p);
}
template <class T> static inline void __stcg(T *p, T v)
{
    *const_cast<T *>(aligned(p)) = v;
}
static inline uint4 load_stream(const void *p)
{
    return *aligned((const uint4 *)p);
}
static inline void copy_16(void *to, const void *from)
{
    memcpy(const_cast<uint4 *>(aligned((const uint4 *)to)), aligned((const uint4 *)from), 16);
}
static inline void copies_end()
{
}
template <int LEFT> static inline void copies_wait()
{
}
static inline void prefetch_l2(const void *)
{
}
static inline void wait_for_previous()
{
}
static inline void let_next_start()
{
}

static inline int min(int a, int b)
{
    return a < b ? a : b;
}
static inline float __uint_as_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
static inline float __fadd_rn(float a, float b)
{
    return a + b;
}
static inline float __fsub_rn(float a, float b)
{
    return a - b;
}
static inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t s)
{
    uint64_t v = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++)
        r |= (uint32_t)(v >> 8 * (s >> 4 * i & 7) & 255) << 8 * i;
    return r;
}
static inline uint32_t round_bf16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return (u + 0x7fff + (u >> 16 & 1)) >> 16;
}
static inline uint32_t pack_bf16(float lo, float hi)
{
    return round_bf16(lo) | round_bf16(hi) << 16;
}
static inline uint32_t mul_bf16(uint32_t a, uint32_t b)
{
    float lo = __uint_as_float(a << 16) * __uint_as_float(b << 16);
    return pack_bf16(lo, __uint_as_float(a & 0xFFFF0000u) * __uint_as_float(b & 0xFFFF0000u));
}
static inline float half_of(uint32_t two, int i)
{
    return __uint_as_float(i ? two & 0xFFFF0000u : two << 16);
}

// Lane 4g + t holds rows g, g + 8 of a and d, column g of b; k 2t, 2t + 1, then 2t + 8, 2t + 9.
static inline void mma_bf16(float (&d)[4], const uint4 &a, uint32_t b0, uint32_t b1)
{
    warp_on_cpu &w = this_warp();
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const uint32_t mine[4] = {a.x, a.y, a.z, a.w};
    memcpy(w.a[lane], mine, sizeof mine);
    w.b[lane][0] = b0;
    w.b[lane][1] = b1;
    __syncwarp();
    for (int i = 0; i < 4; i++) {
        const int column = 2 * t + i % 2;
        double sum = d[i];
        for (int k = 0; k < 16; k++)
            sum += (double)half_of(w.a[g * 4 + k % 8 / 2][i / 2 + k / 8 * 2], k % 2) *
                   half_of(w.b[column * 4 + k % 8 / 2][k / 8], k % 2);
        d[i] = (float)sum;
    }
    __syncwarp();
}
