/* vec_avx2.h - vec.h with two 256-bit registers a vector (AVX2, FMA, F16C). */
#ifndef QR_CPU_ISA_VEC_AVX2_H
#define QR_CPU_ISA_VEC_AVX2_H
#include <immintrin.h>

/* Rows of activations that LINEAR and ATTENTION handle together: 8 accumulators of the 16 registers. */
#define V_CHAINS      5 /* independent sums that fit in registers */
#define V_TILE_INT    4
#define V_TILE_F32    6
#define V_TILE_VALUE  2
#define V_SCORE_APART 1 /* scores of three and four rows: even and odd dimensions one after the other */
#define V_TILE_ATTN   4
#define V_TILE_DIM    2
#define V_CENTRE      16 /* from so many tokens on codes have their offset taken off: dot_part.h */
#define V_LONE        1  /* a token that is alone has its codes as bytes, too: dot_lone.h */

typedef struct {
    __m256 a, b; /* lanes 0..7, 8..15 */
} vf;
typedef struct {
    __m256i a, b;
} vi;

QR_INLINE vf v_set1(float x)
{
    __m256 v = _mm256_set1_ps(x);
    return (vf){v, v};
}

QR_INLINE vf v_zero(void)
{
    return v_set1(0);
}

QR_INLINE vf v_load(const float *p)
{
    return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

QR_INLINE void v_store(float *p, vf x)
{
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}

/* Lanes below n as all ones. */
QR_INLINE vi v_below(int n)
{
    __m256i count = _mm256_set1_epi32(n);
    return (vi){_mm256_cmpgt_epi32(count, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
                _mm256_cmpgt_epi32(count, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15))};
}

QR_INLINE vf v_load_n(const float *p, int n)
{
    vi m = v_below(n);
    return (vf){_mm256_maskload_ps(p, m.a), _mm256_maskload_ps(p + 8, m.b)};
}

QR_INLINE void v_store_n(float *p, vf x, int n)
{
    vi m = v_below(n);
    _mm256_maskstore_ps(p, m.a, x.a);
    _mm256_maskstore_ps(p + 8, m.b, x.b);
}

#define V_BINARY(name, type, op)                                                                                       \
    QR_INLINE type name(type x, type y)                                                                                \
    {                                                                                                                  \
        return (type){op(x.a, y.a), op(x.b, y.b)};                                                                     \
    }
V_BINARY(v_add, vf, _mm256_add_ps)
V_BINARY(v_sub, vf, _mm256_sub_ps)
V_BINARY(v_mul, vf, _mm256_mul_ps)
V_BINARY(v_div, vf, _mm256_div_ps)
V_BINARY(v_max, vf, _mm256_max_ps)
V_BINARY(v_min, vf, _mm256_min_ps)
V_BINARY(i_and, vi, _mm256_and_si256)
V_BINARY(i_or, vi, _mm256_or_si256)
V_BINARY(i_add, vi, _mm256_add_epi32)
V_BINARY(i_sub, vi, _mm256_sub_epi32)
V_BINARY(i_sub16, vi, _mm256_sub_epi16)
V_BINARY(i_max, vi, _mm256_max_epi32)
#undef V_BINARY

QR_INLINE vf v_fma(vf x, vf y, vf z)
{
    return (vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}

QR_INLINE float v_sum(vf x)
{
    __m256 s = _mm256_add_ps(x.a, x.b);
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

QR_INLINE float v_hmax(vf x)
{
    __m256 s = _mm256_max_ps(x.a, x.b);
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

QR_INLINE vf v_keep(vf x, int lo, int hi, vf y)
{
    vi below = v_below(hi), first = v_below(lo);
    __m256 a = _mm256_castsi256_ps(_mm256_andnot_si256(first.a, below.a));
    __m256 b = _mm256_castsi256_ps(_mm256_andnot_si256(first.b, below.b));
    return (vf){_mm256_blendv_ps(y.a, x.a, a), _mm256_blendv_ps(y.b, x.b, b)};
}

QR_INLINE vf v_load_f16(const uint16_t *p)
{
    return (vf){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
}

QR_INLINE vf v_load_bf16(const uint16_t *p)
{
    __m256i a = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    __m256i b = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p + 8)));
    return (vf){_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(b, 16))};
}

QR_INLINE void v_store_f16(uint16_t *p, vf x)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}

/* The lower 16 bits of each lane, in lane order. */
QR_INLINE __m256i v_narrow(__m256i a, __m256i b)
{
    __m256i low = _mm256_set1_epi32(0xffff);
    __m256i p = _mm256_packus_epi32(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
    return _mm256_permute4x64_epi64(p, 0xd8);
}

/* Round to nearest even by adding 0x7fff and the bit that stays lowest; NaN keeps its upper half, made quiet. */
QR_INLINE __m256i v_bf16_half(__m256 x)
{
    __m256i u = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i r = _mm256_add_epi32(_mm256_add_epi32(u, odd), _mm256_set1_epi32(0x7fff));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    r = _mm256_blendv_epi8(r, _mm256_or_si256(u, _mm256_set1_epi32(0x400000)), nan);
    return _mm256_srli_epi32(r, 16);
}

QR_INLINE void v_store_bf16(uint16_t *p, vf x)
{
    _mm256_storeu_si256((__m256i *)p, v_narrow(v_bf16_half(x.a), v_bf16_half(x.b)));
}

QR_INLINE vi i_set1(int32_t x)
{
    __m256i v = _mm256_set1_epi32(x);
    return (vi){v, v};
}

QR_INLINE vi i_load(const void *p)
{
    const __m256i *q = p;
    return (vi){_mm256_loadu_si256(q), _mm256_loadu_si256(q + 1)};
}

QR_INLINE vi i_load_u8(const uint8_t *p)
{
    return (vi){_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)),
                _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p + 8)))};
}

QR_INLINE vi i_load_i8(const uint8_t *p)
{
    return (vi){_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)),
                _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(p + 8)))};
}

#define i_srl16(x, n) ((vi){_mm256_srli_epi16((x).a, n), _mm256_srli_epi16((x).b, n)})
#define i_sll16(x, n) ((vi){_mm256_slli_epi16((x).a, n), _mm256_slli_epi16((x).b, n)})
#define i_sll32(x, n) ((vi){_mm256_slli_epi32((x).a, n), _mm256_slli_epi32((x).b, n)})
#define i_sra32(x, n) ((vi){_mm256_srai_epi32((x).a, n), _mm256_srai_epi32((x).b, n)})

/* The empty assembly keeps each sum where it is made: gcc 12 else forms all products of an unrolled block first, and
 * spills them (73 against 42 thousand million products a second on one core). */
QR_INLINE vi i_dot(vi acc, vi w, vi x)
{
    acc.a = _mm256_add_epi32(acc.a, _mm256_madd_epi16(w.a, x.a));
    acc.b = _mm256_add_epi32(acc.b, _mm256_madd_epi16(w.b, x.b));
    __asm__("" : "+x"(acc.a), "+x"(acc.b));
    return acc;
}

QR_INLINE vf i_to_f(vi x)
{
    return (vf){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
}

QR_INLINE vi v_bits(vf x)
{
    return (vi){_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)};
}

QR_INLINE vf i_as_f(vi x)
{
    return (vf){_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
}

QR_INLINE vi v_to_i(vf x)
{
    return (vi){_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
}

QR_INLINE int32_t i_sum(vi x)
{
    __m256i s = _mm256_add_epi32(x.a, x.b);
    __m128i c = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    c = _mm_add_epi32(c, _mm_shuffle_epi32(c, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(c, _mm_shuffle_epi32(c, 0xb1)));
}

QR_INLINE int32_t i_hmax(vi x)
{
    __m256i s = _mm256_max_epi32(x.a, x.b);
    __m128i c = _mm_max_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    c = _mm_max_epi32(c, _mm_shuffle_epi32(c, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(c, _mm_shuffle_epi32(c, 0xb1)));
}

QR_INLINE void i_store_codes(int16_t *block, int half, vi x)
{
    __m256i a = _mm256_shuffle_epi32(x.a, 0xd8), b = _mm256_shuffle_epi32(x.b, 0xd8);
    _mm256_storeu_si256((__m256i *)(block + 16 * half), v_narrow(a, b));
}

/* The same codes as bytes, 256 u + l: u at p + 16 * half, l 32 bytes behind it. */
QR_INLINE void i_store_bytes(int8_t *p, int half, vi x)
{
    __m256i code = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
    __m256i upper = _mm256_srai_epi16(_mm256_add_epi16(code, _mm256_set1_epi16(128)), 8);
    __m256i lower = _mm256_sub_epi16(code, _mm256_slli_epi16(upper, 8));
    __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi16(upper, lower), 0xd8);
    _mm_storeu_si128((__m128i *)(p + 16 * half), _mm256_castsi256_si128(both));
    _mm_storeu_si128((__m128i *)(p + 32 + 16 * half), _mm256_extracti128_si256(both, 1));
}

/* int16: two unsigned bytes of w times two of the four signed ones at p, in every half of a lane. */
QR_INLINE vi i_mul_bytes(vi w, const int8_t *p)
{
    int32_t x;
    memcpy(&x, p, 4);
    __m256i v = _mm256_set1_epi32(x);
    return (vi){_mm256_maddubs_epi16(w.a, v), _mm256_maddubs_epi16(w.b, v)};
}

QR_INLINE vi i_add_bytes(vi acc, vi w, const int8_t *p)
{
    vi product = i_mul_bytes(w, p);
    acc.a = _mm256_add_epi16(acc.a, product.a);
    acc.b = _mm256_add_epi16(acc.b, product.b);
    __asm__("" : "+x"(acc.a), "+x"(acc.b));
    return acc;
}

QR_INLINE void v_prefetch(const void *p)
{
    _mm_prefetch((const char *)p, _MM_HINT_T0);
}
#endif
