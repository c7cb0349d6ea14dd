/* dot_part.h - 32 columns of a panel as factors of integer products, for each block type. The layout is base/pack.c's; the
 * offsets here are constants so that a kernel is compiled for one type. */
#ifndef QR_CPU_ISA_DOT_PART_H
#define QR_CPU_ISA_DOT_PART_H
#include "base/pack.h"
#include "cpu/isa/vec.h"

struct part {
    vi w[V_FACTORS]; /* codes of the 16 rows, offset not taken off; columns in the order of vec.h's factors */
    vf d[2]; /* what a code is worth (Q6_K: in head_d); [1]: in columns 16..31, types with a scale for 16 columns */
    vf m[2]; /* added to every value, likewise; types with a minimum */
    vf head_d, head_m; /* of the record: K types */
};

/* Bytes of the parts of a record: base/pack.c, checked by tests/cpu/test_linear.c through every result. */
QR_INLINE int part_has_min(enum qr_dtype type)
{
    return type == QR_Q4_1 || type == QR_Q5_1 || type == QR_Q4_K || type == QR_Q5_K || type == QR_Q2_K;
}

QR_INLINE int part_is_k(enum qr_dtype type)
{
    return type == QR_Q4_K || type == QR_Q5_K || type == QR_Q6_K || type == QR_Q2_K;
}

/* Does each half of the part, 16 columns, have a scale of its own? */
QR_INLINE int part_has_halves(enum qr_dtype type)
{
    return type == QR_Q6_K || type == QR_Q2_K;
}

QR_INLINE int part_is_5bit(enum qr_dtype type)
{
    return type == QR_Q5_0 || type == QR_Q5_1 || type == QR_Q5_K;
}

/* log2 of the number that is taken off every code; 0: none. */
QR_INLINE int part_offset_log2(enum qr_dtype type)
{
    return type == QR_Q8_0 || type == QR_I8S ? 7 : type == QR_Q4_0 ? 3 : type == QR_Q5_0 ? 4 : type == QR_Q6_K ? 5 : 0;
}

QR_INLINE int part_scale_bytes(enum qr_dtype type)
{
    return type == QR_Q4_1 || type == QR_Q5_1 || type == QR_Q2_K || type == QR_I8S ? 64 : 32;
}

QR_INLINE int part_high_bytes(enum qr_dtype type)
{
    return part_is_5bit(type) ? 64 : part_has_halves(type) ? 128 : 0;
}

QR_INLINE size_t part_bytes(enum qr_dtype type)
{
    int low = type == QR_Q8_0 || type == QR_I8S ? 512 : type == QR_Q2_K ? 0 : 256;
    return (size_t)(part_scale_bytes(type) + part_high_bytes(type) + low);
}

QR_INLINE size_t part_head_bytes(enum qr_dtype type)
{
    return type == QR_Q6_K ? 32 : part_is_k(type) ? 64 : 0;
}

QR_INLINE vf load_f16(const uint8_t *p)
{
    return v_load_f16((const uint16_t *)(const void *)p);
}

#ifdef V_BYTES
QR_INLINE void load_low(const uint8_t *p, vi *w)
{
    vi mask = i_set1(0x0f0f0f0f);
    for (int g = 0; g < 4; g++) {
        vi x = i_load(p + g * 64);
        w[2 * g] = i_and(x, mask);
        w[2 * g + 1] = i_and(i_srl16(x, 4), mask);
    }
}

QR_INLINE void load_bytes(const uint8_t *p, vi *w)
{
    for (int g = 0; g < 8; g++)
        w[g] = i_load(p + g * 64);
}

/* Bit j of each byte to bit 4 of w[j]. */
QR_INLINE void add_high1(const uint8_t *p, vi *w)
{
    vi x = i_load(p), mask = i_set1(0x10101010);
    w[0] = i_or(w[0], i_and(i_sll16(x, 4), mask));
    w[1] = i_or(w[1], i_and(i_sll16(x, 3), mask));
    w[2] = i_or(w[2], i_and(i_sll16(x, 2), mask));
    w[3] = i_or(w[3], i_and(i_sll16(x, 1), mask));
    w[4] = i_or(w[4], i_and(x, mask));
    w[5] = i_or(w[5], i_and(i_srl16(x, 1), mask));
    w[6] = i_or(w[6], i_and(i_srl16(x, 2), mask));
    w[7] = i_or(w[7], i_and(i_srl16(x, 3), mask));
}

/* Field j of 2 bits of each byte to bits 4 and 5 of w[j]; two words of 4 fields. */
QR_INLINE void add_high2(const uint8_t *p, vi *w)
{
    vi mask = i_set1(0x30303030);
    for (int h = 0; h < 2; h++) {
        vi x = i_load(p + h * 64);
        vi *u = w + 4 * h;
        u[0] = i_or(u[0], i_and(i_sll16(x, 4), mask));
        u[1] = i_or(u[1], i_and(i_sll16(x, 2), mask));
        u[2] = i_or(u[2], i_and(x, mask));
        u[3] = i_or(u[3], i_and(i_srl16(x, 2), mask));
    }
}
#else
QR_INLINE void load_low(const uint8_t *p, vi *w)
{
    vi mask = i_set1(0x000f000f);
    for (int g = 0; g < 4; g++) {
        vi x = i_load(p + g * 64);
        w[4 * g] = i_and(x, mask);
        w[4 * g + 1] = i_and(i_srl16(x, 8), mask);
        w[4 * g + 2] = i_and(i_srl16(x, 4), mask);
        w[4 * g + 3] = i_srl16(x, 12);
    }
}

QR_INLINE void load_bytes(const uint8_t *p, vi *w)
{
    vi mask = i_set1(0x00ff00ff);
    for (int g = 0; g < 8; g++) {
        vi x = i_load(p + g * 64);
        w[2 * g] = i_and(x, mask);
        w[2 * g + 1] = i_srl16(x, 8);
    }
}

/* Bits j and 8 + j of each int16 to bit 4 of w[2j] and w[2j + 1]. */
QR_INLINE void add_high1(const uint8_t *p, vi *w)
{
    vi x = i_load(p), mask = i_set1(0x00100010);
    w[0] = i_or(w[0], i_and(i_sll16(x, 4), mask));
    w[2] = i_or(w[2], i_and(i_sll16(x, 3), mask));
    w[4] = i_or(w[4], i_and(i_sll16(x, 2), mask));
    w[6] = i_or(w[6], i_and(i_sll16(x, 1), mask));
    w[8] = i_or(w[8], i_and(x, mask));
    w[10] = i_or(w[10], i_and(i_srl16(x, 1), mask));
    w[12] = i_or(w[12], i_and(i_srl16(x, 2), mask));
    w[14] = i_or(w[14], i_and(i_srl16(x, 3), mask));
    w[1] = i_or(w[1], i_and(i_srl16(x, 4), mask));
    w[3] = i_or(w[3], i_and(i_srl16(x, 5), mask));
    w[5] = i_or(w[5], i_and(i_srl16(x, 6), mask));
    w[7] = i_or(w[7], i_and(i_srl16(x, 7), mask));
    w[9] = i_or(w[9], i_and(i_srl16(x, 8), mask));
    w[11] = i_or(w[11], i_and(i_srl16(x, 9), mask));
    w[13] = i_or(w[13], i_and(i_srl16(x, 10), mask));
    w[15] = i_or(w[15], i_and(i_srl16(x, 11), mask));
}

/* Fields j and 4 + j of 2 bits of each int16 to bits 4 and 5 of w[2j] and w[2j + 1]; two words of 8 fields. */
QR_INLINE void add_high2(const uint8_t *p, vi *w)
{
    vi mask = i_set1(0x00300030);
    for (int h = 0; h < 2; h++) {
        vi x = i_load(p + h * 64);
        vi *u = w + 8 * h;
        u[0] = i_or(u[0], i_and(i_sll16(x, 4), mask));
        u[2] = i_or(u[2], i_and(i_sll16(x, 2), mask));
        u[4] = i_or(u[4], i_and(x, mask));
        u[6] = i_or(u[6], i_and(i_srl16(x, 2), mask));
        u[1] = i_or(u[1], i_and(i_srl16(x, 4), mask));
        u[3] = i_or(u[3], i_and(i_srl16(x, 6), mask));
        u[5] = i_or(u[5], i_and(i_srl16(x, 8), mask));
        u[7] = i_or(u[7], i_and(i_srl16(x, 10), mask));
    }
}
#endif

/* What all parts of a record have in common: K types. Codes of Q2_K count sixteen times (pack.c). */
QR_INLINE void load_head(enum qr_dtype type, const uint8_t *head, struct part *part)
{
    if (!part_is_k(type))
        return;
    part->head_d = load_f16(head);
    if (type == QR_Q2_K)
        part->head_d = v_mul(part->head_d, v_set1(0.0625f));
    if (part_has_min(type))
        part->head_m = v_sub(v_zero(), load_f16(head + 32));
}

QR_INLINE void load_scales(enum qr_dtype type, const uint8_t *p, struct part *part)
{
    if (type == QR_Q2_K) {
        for (int h = 0; h < 2; h++) {
            part->d[h] = v_mul(part->head_d, i_to_f(i_load_u8(p + 16 * h)));
            part->m[h] = v_mul(part->head_m, i_to_f(i_load_u8(p + 32 + 16 * h)));
        }
    } else if (type == QR_I8S) {
        part->d[0] = v_load((const float *)(const void *)p);
    } else if (type == QR_Q6_K) {
        part->d[0] = i_to_f(i_load_i8(p));
        part->d[1] = i_to_f(i_load_i8(p + 16));
    } else if (part_is_k(type)) {
        part->d[0] = v_mul(part->head_d, i_to_f(i_load_u8(p)));
        part->m[0] = v_mul(part->head_m, i_to_f(i_load_u8(p + 16)));
    } else {
        part->d[0] = load_f16(p);
        if (part_has_min(type))
            part->m[0] = load_f16(p + 32);
    }
}

QR_INLINE void load_part(enum qr_dtype type, const uint8_t *p, struct part *part)
{
    load_scales(type, p, part);
    const uint8_t *high = p + part_scale_bytes(type), *low = high + part_high_bytes(type);
    if (type == QR_Q8_0 || type == QR_I8S)
        load_bytes(low, part->w);
    else if (type == QR_Q2_K)
        for (int j = 0; j < V_FACTORS; j++)
            part->w[j] = i_set1(0);
    else
        load_low(low, part->w);
    if (part_is_5bit(type))
        add_high1(high, part->w);
    if (part_has_halves(type))
        add_high2(high, part->w);
}

/* Do so many tokens have the offset taken off the codes, and not off each token's sum? The integers are the same. */
QR_INLINE bool centres(enum qr_dtype type, int n_token)
{
#ifdef V_CENTRE
    return part_offset_log2(type) && n_token >= V_CENTRE;
#else
    (void)type;
    (void)n_token;
    return false;
#endif
}

QR_INLINE void centre_part(enum qr_dtype type, struct part *part)
{
#ifdef V_CENTRE
    for (int j = 0; j < V_FACTORS; j++)
        part->w[j] = i_sub16(part->w[j], i_set1(0x00010001 << part_offset_log2(type)));
#else
    (void)type;
    (void)part;
#endif
}
#endif
