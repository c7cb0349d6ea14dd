// decode_debug.cuh - what a build with -DQR_DECODE_DEBUG does otherwise: it ends behind any exchange of any layer (tests/cuda/decode), waits a
// minute, and hands on what lies in shared memory in ways that racecheck understands. Of other builds not an instruction is another.
#pragma once
#include "cuda/decode.h"
#include "cuda/ptx.cuh"

#ifdef QR_DECODE_DEBUG
constexpr bool DEBUGGED = true;
constexpr long long PATIENCE = 120000000000; // cycles of a wait, about a minute: a step takes seconds under the tools
#else
constexpr bool DEBUGGED = false;
constexpr long long PATIENCE = 2000000000; // about a second
#endif

// Does an exchange come behind the one at which the kernel is to end?
static __device__ __forceinline__ bool is_behind_last(const qr_decode_args &p, int layer, int exchange)
{
    return DEBUGGED && layer * QR_DECODE_EXCHANGES + exchange > p.last;
}

// A number in shared memory that one warp writes and others look at now and then, with no barrier between them.
template <class T> static __device__ __forceinline__ T peek(const volatile T &at)
{
#ifdef QR_DECODE_DEBUG
    return atomicAdd((T *)&at, 0);
#else
    return at;
#endif
}
template <class T> static __device__ __forceinline__ void poke(volatile T &at, T value)
{
#ifdef QR_DECODE_DEBUG
    atomicExch((T *)&at, value);
#else
    at = value;
#endif
}

#if __CUDA_ARCH__ >= 900
// The barrier of a slot that is given back has `arrivals` of them: one lane's for its warp; where DEBUGGED those of all threads that have
// read, as if all warps had.
constexpr int GIVE_BACK_EACH = QR_DECODE_MATH, GIVE_BACK_ARRIVALS = DEBUGGED ? 32 * GIVE_BACK_EACH : 1;

// By a warp that alone has read the slot.
static __device__ __forceinline__ void give_back_slot(uint64_t *empty, int lane)
{
#ifdef QR_DECODE_DEBUG
    for (int i = 0; i < GIVE_BACK_EACH; i++)
        barrier_arrive(empty);
#else
    __syncwarp();
    if (lane == 0)
        barrier_arrive(empty);
#endif
}
#endif
