/* vec_avx512.h - vec.h with one 512-bit register a vector (AVX-512 F, BW, VL, DQ, VNNI). */
#ifndef QR_CPU_ISA_VEC_AVX512_H
#define QR_CPU_ISA_VEC_AVX512_H
#include <immintrin.h>

/* Rows of activations that LINEAR and ATTENTION handle together: enough independent chains for two FMA pipes of
 * latency 4, few enough for 32 registers. */
#define V_CHAINS      10 /* independent sums that fit in registers */
#define V_TILE_INT    8
#define V_TILE_F32    8
#define V_TILE_VALUE  4
#define V_SCORE_APART 0
#define V_TILE_ATTN   8
#define V_TILE_DIM    4

typedef __m512 vf;
typedef __m512i vi;

QR_INLINE vf v_set1(float x)
{
    return _mm512_set1_ps(x);
}

QR_INLINE vf v_zero(void)
{
    return _mm512_setzero_ps();
}

QR_INLINE vf v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

QR_INLINE void v_store(float *p, vf a)
{
    _mm512_storeu_ps(p, a);
}

QR_INLINE vf v_load_n(const float *p, int n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}

QR_INLINE void v_store_n(float *p, vf a, int n)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), a);
}

QR_INLINE vf v_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

QR_INLINE vf v_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

QR_INLINE vf v_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

QR_INLINE vf v_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

#define V_SCALE2
QR_INLINE vf v_round(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* p * 2^n, rounded once. */
QR_INLINE vf v_scale2(vf p, vf n)
{
    return _mm512_scalef_ps(p, n);
}

QR_INLINE vf v_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

QR_INLINE vf v_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

QR_INLINE vf v_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

QR_INLINE float v_sum(vf a)
{
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

QR_INLINE float v_hmax(vf a)
{
    return _mm512_reduce_max_ps(a);
}

QR_INLINE vf v_keep(vf a, int lo, int hi, vf b)
{
    lo = lo < 0 ? 0 : lo > 16 ? 16 : lo;
    hi = hi < 0 ? 0 : hi > 16 ? 16 : hi;
    return _mm512_mask_mov_ps(b, (__mmask16)(((1u << hi) - 1) & ~((1u << lo) - 1)), a);
}

QR_INLINE vf v_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

QR_INLINE vf v_load_bf16(const uint16_t *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}

QR_INLINE void v_store_f16(uint16_t *p, vf a)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* Round to nearest even by adding 0x7fff and the bit that stays lowest; NaN keeps its upper half, made quiet. */
QR_INLINE void v_store_bf16(uint16_t *p, vf a)
{
    __m512i u = _mm512_castps_si512(a);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i r = _mm512_add_epi32(_mm512_add_epi32(u, odd), _mm512_set1_epi32(0x7fff));
    __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
    r = _mm512_mask_or_epi32(r, nan, u, _mm512_set1_epi32(0x400000));
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}

QR_INLINE vi i_set1(int32_t x)
{
    return _mm512_set1_epi32(x);
}

QR_INLINE vi i_load(const void *p)
{
    return _mm512_loadu_si512(p);
}

QR_INLINE vi i_load_u8(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}

QR_INLINE vi i_load_i8(const uint8_t *p)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
}

QR_INLINE vi i_and(vi a, vi b)
{
    return _mm512_and_si512(a, b);
}

QR_INLINE vi i_or(vi a, vi b)
{
    return _mm512_or_si512(a, b);
}

QR_INLINE vi i_add(vi a, vi b)
{
    return _mm512_add_epi32(a, b);
}

QR_INLINE vi i_sub(vi a, vi b)
{
    return _mm512_sub_epi32(a, b);
}

QR_INLINE vi i_max(vi a, vi b)
{
    return _mm512_max_epi32(a, b);
}

#define i_srl16(a, n) _mm512_srli_epi16(a, n)
#define i_sll16(a, n) _mm512_slli_epi16(a, n)
#define i_sll32(a, n) _mm512_slli_epi32(a, n)
#define i_sra32(a, n) _mm512_srai_epi32(a, n)

QR_INLINE vi i_dot(vi acc, vi w, vi x)
{
    return _mm512_dpwssd_epi32(acc, w, x);
}

QR_INLINE vf i_to_f(vi a)
{
    return _mm512_cvtepi32_ps(a);
}

QR_INLINE vi v_bits(vf a)
{
    return _mm512_castps_si512(a);
}

QR_INLINE vf i_as_f(vi a)
{
    return _mm512_castsi512_ps(a);
}

QR_INLINE vi v_to_i(vf a)
{
    return _mm512_cvtps_epi32(a);
}

QR_INLINE int32_t i_sum(vi a)
{
    return _mm512_reduce_add_epi32(a);
}

QR_INLINE int32_t i_hmax(vi a)
{
    return _mm512_reduce_max_epi32(a);
}

#define V_BYTES
QR_INLINE void i_store_codes(int16_t *block, int half, vi a)
{
    int8_t *p = (int8_t *)block + 16 * half;
    __m512i upper = _mm512_srai_epi32(_mm512_add_epi32(a, _mm512_set1_epi32(128)), 8);
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(upper));
    _mm_storeu_si128((__m128i *)(p + 32), _mm512_cvtepi32_epi8(a));
}

/* acc + four unsigned bytes of w times the four signed ones at p, in every lane. gcc 12 would load and spread the
 * four by an instruction of its own. */
QR_INLINE vi i_dot_bytes(vi acc, vi w, const int8_t *p)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*(const int32_t *)(const void *)p));
    return acc;
}

QR_INLINE void v_prefetch(const void *p)
{
    _mm_prefetch((const char *)p, _MM_HINT_T0);
}
#endif
