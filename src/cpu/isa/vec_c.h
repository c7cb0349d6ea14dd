/* vec_c.h - vec.h in plain C: the reference, and what runs on a CPU without AVX2. The compiler makes
 * SSE2 of the loops. */
#ifndef QR_CPU_ISA_VEC_C_H
#define QR_CPU_ISA_VEC_C_H
#include "base/half.h"

/* Rows of activations that LINEAR and ATTENTION handle together. */
#define V_CHAINS      4 /* independent sums that fit in registers */
#define V_TILE_INT    2
#define V_TILE_F32    2
#define V_TILE_VALUE  2
#define V_SCORE_APART 0
#define V_TILE_ATTN   2
#define V_TILE_DIM    2

typedef struct {
    float v[16];
} vf;
typedef struct {
    uint32_t v[16]; /* two's complement: wraps without undefined behaviour */
} vi;

#define V_EACH for (int l_ = 0; l_ < 16; l_++)

QR_INLINE vf v_set1(float x)
{
    vf r;
    V_EACH r.v[l_] = x;
    return r;
}

QR_INLINE vf v_zero(void)
{
    return v_set1(0);
}

QR_INLINE vf v_load(const float *p)
{
    vf r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}

QR_INLINE void v_store(float *p, vf a)
{
    memcpy(p, a.v, sizeof a.v);
}

QR_INLINE vf v_load_n(const float *p, int n)
{
    vf r = v_zero();
    memcpy(r.v, p, (size_t)n * 4);
    return r;
}

QR_INLINE void v_store_n(float *p, vf a, int n)
{
    memcpy(p, a.v, (size_t)n * 4);
}

#define V_BINARY(name, expr)                                                                                           \
    QR_INLINE vf name(vf a, vf b)                                                                                      \
    {                                                                                                                  \
        V_EACH                                                                                                         \
        {                                                                                                              \
            float x = a.v[l_], y = b.v[l_];                                                                            \
            a.v[l_] = (expr);                                                                                          \
        }                                                                                                              \
        return a;                                                                                                      \
    }
V_BINARY(v_add, x + y)
V_BINARY(v_sub, x - y)
V_BINARY(v_mul, x *y)
V_BINARY(v_div, x / y)
V_BINARY(v_max, x > y ? x : y) /* y when either is NaN, as MAXPS */
V_BINARY(v_min, x < y ? x : y)
#undef V_BINARY

QR_INLINE vf v_fma(vf a, vf b, vf c) /* rounded twice here: without FMA hardware fmaf() costs too much */
{
    V_EACH a.v[l_] = a.v[l_] * b.v[l_] + c.v[l_];
    return a;
}

QR_INLINE float v_sum(vf a)
{
    for (int h = 8; h; h /= 2)
        for (int i = 0; i < h; i++)
            a.v[i] += a.v[i + h];
    return a.v[0];
}

QR_INLINE float v_hmax(vf a)
{
    for (int h = 8; h; h /= 2)
        for (int i = 0; i < h; i++)
            a.v[i] = a.v[i] > a.v[i + h] ? a.v[i] : a.v[i + h];
    return a.v[0];
}

/* Lanes lo <= lane < hi of a, the others of b. */
QR_INLINE vf v_keep(vf a, int lo, int hi, vf b)
{
    V_EACH a.v[l_] = l_ >= lo && l_ < hi ? a.v[l_] : b.v[l_];
    return a;
}

QR_INLINE vf v_load_f16(const uint16_t *p)
{
    vf r;
    V_EACH
    {
        /* The exponent is rebased by a multiplication, which also brings subnormals right; 31 is infinity or NaN. */
        uint32_t h = p[l_], u = (h & 0x7fff) << 13;
        float f;
        memcpy(&f, &u, 4);
        f *= 0x1p112f;
        memcpy(&u, &f, 4);
        u |= (h & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;
        u |= (h & 0x8000) << 16;
        memcpy(&r.v[l_], &u, 4);
    }
    return r;
}

QR_INLINE vf v_load_bf16(const uint16_t *p)
{
    vf r;
    V_EACH
    {
        uint32_t u = (uint32_t)p[l_] << 16;
        memcpy(&r.v[l_], &u, 4);
    }
    return r;
}

QR_INLINE void v_store_f16(uint16_t *p, vf a)
{
    V_EACH p[l_] = qr_f32_to_f16(a.v[l_]);
}

QR_INLINE void v_store_bf16(uint16_t *p, vf a)
{
    V_EACH p[l_] = qr_f32_to_bf16(a.v[l_]);
}

QR_INLINE vi i_set1(int32_t x)
{
    vi r;
    V_EACH r.v[l_] = (uint32_t)x;
    return r;
}

QR_INLINE vi i_load(const void *p)
{
    vi r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}

QR_INLINE vi i_load_u8(const uint8_t *p)
{
    vi r;
    V_EACH r.v[l_] = p[l_];
    return r;
}

QR_INLINE vi i_load_i8(const uint8_t *p)
{
    vi r;
    V_EACH r.v[l_] = (uint32_t)(int32_t)(int8_t)p[l_];
    return r;
}

#define I_BINARY(name, expr)                                                                                           \
    QR_INLINE vi name(vi a, vi b)                                                                                      \
    {                                                                                                                  \
        V_EACH                                                                                                         \
        {                                                                                                              \
            uint32_t x = a.v[l_], y = b.v[l_];                                                                         \
            a.v[l_] = (expr);                                                                                          \
        }                                                                                                              \
        return a;                                                                                                      \
    }
I_BINARY(i_and, x &y)
I_BINARY(i_or, x | y)
I_BINARY(i_add, x + y)
I_BINARY(i_sub, x - y)
I_BINARY(i_max, (int32_t)x > (int32_t)y ? x : y)
#undef I_BINARY

/* Shifts within each int16, and within each int32; n a constant. */
QR_INLINE vi i_srl16(vi a, int n)
{
    V_EACH a.v[l_] = a.v[l_] >> n & (0xffffu >> n) * 0x10001u;
    return a;
}

QR_INLINE vi i_sll16(vi a, int n)
{
    V_EACH a.v[l_] = a.v[l_] << n & (0xffffu << n & 0xffffu) * 0x10001u;
    return a;
}

QR_INLINE vi i_sll32(vi a, int n)
{
    V_EACH a.v[l_] <<= n;
    return a;
}

QR_INLINE vi i_sra32(vi a, int n)
{
    V_EACH a.v[l_] = (uint32_t)((int32_t)a.v[l_] >> n);
    return a;
}

/* acc + w.low * x.low + w.high * x.high, int16 factors. */
QR_INLINE vi i_dot(vi acc, vi w, vi x)
{
    V_EACH
    {
        int32_t low = (int16_t)(w.v[l_] & 0xffff) * (int16_t)(x.v[l_] & 0xffff);
        int32_t high = (int16_t)(w.v[l_] >> 16) * (int16_t)(x.v[l_] >> 16);
        acc.v[l_] += (uint32_t)low + (uint32_t)high;
    }
    return acc;
}

QR_INLINE vf i_to_f(vi a)
{
    vf r;
    V_EACH r.v[l_] = (float)(int32_t)a.v[l_];
    return r;
}

QR_INLINE vi v_bits(vf a)
{
    vi r;
    memcpy(r.v, a.v, sizeof r.v);
    return r;
}

QR_INLINE vf i_as_f(vi a)
{
    vf r;
    memcpy(r.v, a.v, sizeof r.v);
    return r;
}

/* Nearest integer, ties to even, for |a| < 2^22: adding 1.5 * 2^23 leaves it in the low mantissa bits. */
QR_INLINE vi v_to_i(vf a)
{
    return i_sub(v_bits(v_add(a, v_set1(12582912.0f))), v_bits(v_set1(12582912.0f)));
}

QR_INLINE int32_t i_sum(vi a)
{
    uint32_t s = 0;
    V_EACH s += a.v[l_];
    return (int32_t)s;
}

QR_INLINE int32_t i_hmax(vi a)
{
    int32_t m = (int32_t)a.v[0];
    V_EACH m = (int32_t)a.v[l_] > m ? (int32_t)a.v[l_] : m;
    return m;
}

QR_INLINE void i_store_codes(int16_t *block, int half, vi a)
{
    static const int place[4] = {0, 2, 1, 3};
    V_EACH block[16 * half + (l_ & ~3) + place[l_ & 3]] = (int16_t)(a.v[l_] & 0xffff);
}

QR_INLINE void v_prefetch(const void *p)
{
    __builtin_prefetch(p);
}
#endif
