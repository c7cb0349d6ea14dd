/* dot_float.c - LINEAR for F32, F16, BF16 and F8S weights: fp32 activations, fp32 multiply-adds.
 *
 * For a row and a token: total = 0; for each block of 32 columns in order: s = w x of the first column, then
 * s = fma(w, x, s) column by column; total += s, or for F8S, whose w is without its scale, fma(s, scale, total). */
#include "cpu/isa/kernels.h"

/* The record of F8S that holds a column: f32 d [16], bytes [32][16] (base/pack.c). */
QR_INLINE const uint8_t *record_of(const uint8_t *panel, size_t column)
{
    return panel + column / 32 * 576;
}

/* E4M3's bits at fp32's places; the product makes its bias good and subnormal numbers right. No NaN is left at load. */
QR_INLINE vf from_e4m3(vi code)
{
    vi bits = i_or(i_sll32(i_and(code, i_set1(0x80)), 24), i_sll32(i_and(code, i_set1(0x7f)), 20));
    return v_mul(i_as_f(bits), v_set1(0x1p120f));
}

QR_INLINE vf load_column(enum qr_dtype type, const uint8_t *panel, size_t column)
{
    if (type == QR_F8S)
        return from_e4m3(i_load_u8(record_of(panel, column) + 64 + column % 32 * 16));
    if (type == QR_F32)
        return v_load((const float *)(const void *)panel + column * 16);
    const uint16_t *p = (const uint16_t *)(const void *)panel + column * 16;
    return type == QR_F16 ? v_load_f16(p) : v_load_bf16(p);
}

/* A block's sum to the total. */
QR_INLINE vf add_sum(enum qr_dtype type, vf s, vf scale, vf acc)
{
    return type == QR_F8S ? v_fma(s, scale, acc) : v_add(acc, s);
}

QR_INLINE vf load_scale(enum qr_dtype type, const uint8_t *panel, size_t column)
{
    return type == QR_F8S ? v_load((const float *)(const void *)record_of(panel, column)) : v_zero();
}

/* acc[i] of nt tokens, blocks one after the other at x; n columns, 32 but in the last block. nt is a constant. */
QR_INLINE void dot_tokens(enum qr_dtype type, int nt, const vf *w, vf scale, const float *x, int n, vf *acc)
{
    vf s[V_TILE_F32];
    for (int i = 0; i < nt; i++)
        s[i] = v_mul(w[0], v_set1(x[i * QR_ACT_BLOCK]));
    for (int j = 1; j < n; j++)
        for (int i = 0; i < nt; i++)
            s[i] = v_fma(w[j], v_set1(x[i * QR_ACT_BLOCK + j]), s[i]);
    for (int i = 0; i < nt; i++)
        acc[i] = add_sum(type, s[i], scale, acc[i]);
}

QR_INLINE void store_rows(const struct qr_dot *job, int panel, int token, vf acc)
{
    float *y = job->y + (size_t)token * job->y_stride + panel * 16;
    int n = job->n_row - panel * 16;
    if (n >= 16) {
        v_store(y, job->bias ? v_add(acc, v_load(job->bias + panel * 16)) : acc);
        return;
    }
    v_store_n(y, job->bias ? v_add(acc, v_load_n(job->bias + panel * 16, n)) : acc, n);
}

/* Few tokens, n columns: each column is multiplied as it comes in. Loading the 32 columns first costs a third of the
 * rate of one token, and several blocks side by side, for more chains of multiply-adds, two thirds: the CPU fetches
 * ahead best along one stream. nt is a constant, at most a tile. */
QR_INLINE void dot_few(enum qr_dtype type, int nt, const uint8_t *panel, size_t column, int n, const float *x, vf *acc)
{
    vf s[V_TILE_F32], scale = load_scale(type, panel, column), w = load_column(type, panel, column);
    for (int i = 0; i < nt; i++)
        s[i] = v_mul(w, v_set1(x[i * QR_ACT_BLOCK]));
    for (int j = 1; j < n; j++) {
        w = load_column(type, panel, column + (size_t)j);
        for (int i = 0; i < nt; i++)
            s[i] = v_fma(w, v_set1(x[i * QR_ACT_BLOCK + j]), s[i]);
    }
    for (int i = 0; i < nt; i++)
        acc[i] = add_sum(type, s[i], scale, acc[i]);
}

/* A tile, or four, two or one token at a time. */
QR_INLINE void dot_up_to_8(enum qr_dtype type, const uint8_t *panel, size_t column, int n, const float *x, int nt,
                           vf *acc)
{
    int i = 0;
    if (nt == V_TILE_F32) {
        dot_few(type, V_TILE_F32, panel, column, n, x, acc);
        return;
    }
#if V_TILE_F32 >= 4
    for (; i + 4 <= nt; i += 4)
        dot_few(type, 4, panel, column, n, x + i * QR_ACT_BLOCK, acc + i);
#endif
    for (; i + 2 <= nt; i += 2)
        dot_few(type, 2, panel, column, n, x + i * QR_ACT_BLOCK, acc + i);
    if (i < nt)
        dot_few(type, 1, panel, column, n, x + i * QR_ACT_BLOCK, acc + i);
}

/* n columns of a block, converted once and multiplied for a tile of tokens after another. */
QR_INLINE void dot_block(enum qr_dtype type, const uint8_t *panel, size_t column, int n, const float *x, int nt,
                         vf *acc)
{
    vf w[QR_ACT_BLOCK], scale = load_scale(type, panel, column);
    int i = 0;
    if (nt <= 8) {
        dot_up_to_8(type, panel, column, n, x, nt, acc);
        return;
    }
    for (int j = 0; j < n; j++)
        w[j] = load_column(type, panel, column + (size_t)j);
    for (; i + V_TILE_F32 <= nt; i += V_TILE_F32)
        dot_tokens(type, V_TILE_F32, w, scale, x + i * QR_ACT_BLOCK, n, acc + i);
#if V_TILE_F32 > 4
    for (; i + 4 <= nt; i += 4)
        dot_tokens(type, 4, w, scale, x + i * QR_ACT_BLOCK, n, acc + i);
#endif
    for (; i + 2 <= nt; i += 2)
        dot_tokens(type, 2, w, scale, x + i * QR_ACT_BLOCK, n, acc + i);
    if (i < nt)
        dot_tokens(type, 1, w, scale, x + i * QR_ACT_BLOCK, n, acc + i);
}

QR_INLINE void dot_panels(enum qr_dtype type, const struct qr_dot *job)
{
    const struct qr_act *act = job->act;
    int nt = job->nt, whole = act->n_col / QR_ACT_BLOCK, rest = act->n_col % QR_ACT_BLOCK;
    vf acc[QR_MAX_CHUNK];
    for (int p = 0; p < job->n_panel; p++) {
        const uint8_t *panel = job->panel + (size_t)p * job->panel_bytes;
        const float *x = act->f32 + (size_t)job->t0 * (size_t)act->n_block * QR_ACT_BLOCK;
        for (int i = 0; i < nt; i++)
            acc[i] = v_zero();
        for (int b = 0; b < whole; b++, x += (size_t)nt * QR_ACT_BLOCK) {
            size_t column = (size_t)b * QR_ACT_BLOCK;
            if (nt == 1)
                dot_few(type, 1, panel, column, QR_ACT_BLOCK, x, acc);
            else
                dot_block(type, panel, column, QR_ACT_BLOCK, x, nt, acc);
        }
        if (rest)
            dot_block(type, panel, (size_t)whole * QR_ACT_BLOCK, rest, x, nt, acc);
        for (int i = 0; i < nt; i++)
            store_rows(job, p, i, acc[i]);
    }
}

#define KERNEL(name, type)                                                                                             \
    void QR_NAME(qr_k_dot_##name)(const struct qr_dot *job)                                                            \
    {                                                                                                                  \
        dot_panels(type, job);                                                                                         \
    }
KERNEL(f32, QR_F32)
KERNEL(f16, QR_F16)
KERNEL(bf16, QR_BF16)
KERNEL(f8s, QR_F8S)
