/* vec.h - sixteen lanes: what the kernels are written in, once for all instruction sets.
 *
 * vf holds 16 fp32, vi 16 int32; a vi is also read as 32 int16, two neighbours to a lane. Each back end (plain C,
 * AVX2, AVX-512) supplies the same static inline functions. Lane order is the order in memory. Sums over
 * lanes have one fixed order per back end; back ends may differ from one another in the last bit. */
#ifndef QR_CPU_ISA_VEC_H
#define QR_CPU_ISA_VEC_H
#include <stdint.h>
#include <string.h>

#define QR_CAT_(a, b) a##_##b
#define QR_CAT(a, b)  QR_CAT_(a, b)
/* External name of a kernel in this instruction set: QR_NAME(qr_k_add) is qr_k_add_avx2. */
#define QR_NAME(name) QR_CAT(name, QR_ISA)

/* QR_INLINE: a kernel is compiled for constants that its caller passes; shifts of the AVX back ends need them.
 * V_UNROLL unrolls the loop that follows. Where every access is checked both would take minutes to compile. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define V_UNROLL(n)
#else
#define V_CONSTANTS
#define V_PRAGMA_(text) _Pragma(#text)
#define V_UNROLL(n)     V_PRAGMA_(GCC unroll n)
#endif

#if defined(V_CONSTANTS) || defined(QR_AVX2) || defined(QR_AVX512)
#define QR_INLINE static inline __attribute__((always_inline))
#else
#define QR_INLINE static inline __attribute__((unused))
#endif

#if defined(QR_AVX512)
#include "cpu/isa/vec_avx512.h"
#elif defined(QR_AVX2)
#include "cpu/isa/vec_avx2.h"
#else
#include "cpu/isa/vec_c.h"
#endif

/* The 32 activations of a block meet weights as V_FACTORS vectors, and i_store_codes writes half (0, 1) of a block so:
 *   int16 pairs   (16 factors) four columns stand as 0, 2, 1, 3, so that a word has two columns that a shift and a mask
 *                 leave beside one another in a packed weight (base/pack.c)
 *   V_BYTES       (8 factors) the codes' upper bytes [32], then what is left of them [32], -128 .. 127, columns in order: two
 *                 products of bytes with one weight give the same integers as one of int16
 * V_LONE: of a token that is alone in its step the blocks stand there as pairs, and behind those as bytes. */
#ifdef V_BYTES
#define V_FACTORS 8
#else
#define V_FACTORS 16
/* acc + two weights times two codes in every lane. */
QR_INLINE vi i_dot_pair(vi acc, vi w, const int16_t *code)
{
    int32_t x;
    memcpy(&x, code, 4);
    return i_dot(acc, w, i_set1(x));
}
#endif

/* 32 columns of a row at most 16 at a time: how many of the n that are left belong to this vector. */
QR_INLINE int v_count(int left)
{
    return left < 16 ? left : 16;
}
#endif
