// rope.cuh - what rope.cu and the decode kernel compute alike, bit for bit: no multiply-add here is left to the compiler's choice.
#pragma once
#include <cuda_runtime.h>

// A pair's part of a head's sum of squares.
static __device__ inline float add_squares(float sum, float lo, float hi)
{
    return __fmaf_rn(hi, hi, __fmaf_rn(lo, lo, sum));
}

// A pair turned by its position's angle (Su et al., RoFormer, 2021).
static __device__ inline void turn_pair(float &lo, float &hi, float cos, float sin)
{
    float l = lo, u = hi;
    lo = __fsub_rn(__fmul_rn(l, cos), __fmul_rn(u, sin));
    hi = __fadd_rn(__fmul_rn(u, cos), __fmul_rn(l, sin));
}
