/* dot_lone.h - 32 columns of a panel times a token that is alone in its step (V_LONE: AVX2).
 *
 * Codes of up to 6 bits stay bytes: VPMADDUBSW multiplies two of them by two signed bytes of an activation and adds both
 * into int16, so an activation, 256 u + l, takes two such products of four columns where int16 takes two of two. Few such
 * sums fit int16 before they are widened. Every code is multiplied as it is taken out of its word: with all of a part
 * taken apart first, as many tokens want it, most of it passes through the stack. */
#ifndef QR_CPU_ISA_DOT_LONE_H
#define QR_CPU_ISA_DOT_LONE_H
#include "cpu/kernel.h"
#include "cpu/isa/dot_part.h"
#ifdef V_LONE

/* Bytes that may be added up in an int16: 2 * 128 * (largest code) a product of two. */
QR_INLINE int lone_run(enum qr_dtype type)
{
    return part_has_halves(type) ? 2 : part_is_5bit(type) ? 4 : 8;
}

/* Codes of columns 4j .. 4j + 3, p: behind the scales. */
QR_INLINE vi lone_bytes(enum qr_dtype type, const uint8_t *p, int j)
{
    vi w = i_set1(0);
    if (type != QR_Q2_K) {
        w = i_load(p + part_high_bytes(type) + j / 2 * 64);
        if (j % 2)
            w = i_srl16(w, 4);
        w = i_and(w, i_set1(0x0f0f0f0f));
    }
    if (part_is_5bit(type)) {
        vi x = i_load(p);
        x = j < 4 ? i_sll16(x, 4 - j) : i_srl16(x, j - 4);
        w = i_or(w, i_and(x, i_set1(0x10101010)));
    }
    if (part_has_halves(type)) {
        vi x = i_load(p + j / 4 * 64);
        int k = j % 4;
        x = k < 2 ? i_sll16(x, 4 - 2 * k) : i_srl16(x, 2 * k - 4);
        w = i_or(w, i_and(x, i_set1(0x30303030)));
    }
    return w;
}

/* Sum of products of columns [16 * h0, 16 * h1); x: the token's block as bytes. */
QR_INLINE vi lone_columns(enum qr_dtype type, int h0, int h1, const uint8_t *p, const int8_t *x)
{
    const int run = lone_run(type);
    vi s = i_set1(0), upper = s, lower = s;
    V_UNROLL(8)
    for (int j = 4 * h0; j < 4 * h1; j++) {
        vi w = lone_bytes(type, p, j);
        bool first = j % run == 0, last = j % run == run - 1;
        upper = first ? i_mul_bytes(w, x + 4 * j) : i_add_bytes(upper, w, x + 4 * j);
        lower = first ? i_mul_bytes(w, x + QR_ACT_BLOCK + 4 * j) : i_add_bytes(lower, w, x + QR_ACT_BLOCK + 4 * j);
        if (last)
            s = i_dot(i_dot(s, upper, i_set1(0x01000100)), lower, i_set1(0x00010001));
    }
    return s;
}

/* The same of all columns with codes of 8 bits, which leave no room in an int16; x: the block as int16. */
QR_INLINE vi lone_pairs(const uint8_t *p, const int16_t *x)
{
    vi s = i_set1(0), mask = i_set1(0x00ff00ff);
    V_UNROLL(8)
    for (int g = 0; g < 8; g++) {
        vi w = i_load(p + g * 64);
        s = i_dot_pair(s, i_and(w, mask), x + 4 * g);
        s = i_dot_pair(s, i_srl16(w, 8), x + 4 * g + 2);
    }
    return s;
}
#endif
#endif
