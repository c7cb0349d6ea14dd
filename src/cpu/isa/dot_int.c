/* dot_int.c - LINEAR for block types: 16-bit activations times integer codes, summed exactly in int32 over 32
 * columns, then one fp32 multiply-add a block.
 *
 * For a row and a token: total = 0; for each block of 32 columns in order:
 *     s = sum of code_w * code_x - offset * sum of code_x            exact: below 255 * 32512 * 32 < 2^28
 *     total = fma(float(s), d_w * scale_x, total)
 *     total = fma(m_w, scale_x * sum of code_x, total)               types with a minimum
 * (Q2_K: s, d_w and m_w per 16 columns.) Q6_K, with d_w = d * c_w, d for 256 columns and c_w, an integer, for 16:
 *     record = fma(fma(float(s_high), c_high, float(s_low) * c_low), scale_x, record)
 *     total = fma(record, d, total)                                  after 256 columns
 * Integers may be summed in any order, so every tile shape gives these bits. */
#include "cpu/isa/dot_lone.h"
#include "cpu/isa/dot_part.h"
#include "cpu/isa/kernels.h"

/* s[i] = products of columns [16 * h0, 16 * h1) for nt tokens, whose blocks stand one after the other at code; all three
 * constants. */
QR_INLINE void dot_columns(int h0, int h1, int nt, const struct part *part, const int16_t *code, vi *s)
{
#ifdef V_BYTES
    const int8_t *x = (const int8_t *)code;
    vi upper[V_TILE_INT];
    for (int i = 0; i < nt; i++)
        s[i] = upper[i] = i_set1(0);
    V_UNROLL(8)
    for (int v = 4 * h0; v < 4 * h1; v++) {
        V_UNROLL(8)
        for (int i = 0; i < nt; i++)
            upper[i] = i_dot_bytes(upper[i], part->w[v], x + i * 2 * QR_ACT_BLOCK + 4 * v);
        V_UNROLL(8)
        for (int i = 0; i < nt; i++)
            s[i] = i_dot_bytes(s[i], part->w[v], x + i * 2 * QR_ACT_BLOCK + QR_ACT_BLOCK + 4 * v);
    }
    for (int i = 0; i < nt; i++)
        s[i] = i_add(s[i], i_sll32(upper[i], 8));
#else
    for (int i = 0; i < nt; i++)
        s[i] = i_set1(0);
    V_UNROLL(16)
    for (int j = 8 * h0; j < 8 * h1; j++) {
        V_UNROLL(4)
        for (int i = 0; i < nt; i++)
            s[i] = i_dot_pair(s[i], part->w[j], code + i * QR_ACT_BLOCK + 2 * j);
    }
#endif
}

/* Q6_K: the sum s of a part's first 16 columns without the codes' offset, times their scale. */
QR_INLINE vf low_half(bool centred, const struct part *part, const struct qr_act_meta *meta, vi s)
{
    if (!centred)
        s = i_sub(s, i_sll32(i_sub(i_set1(meta->sum), i_set1(meta->sum_high)), 5));
    return v_mul(i_to_f(s), part->d[0]);
}

/* acc + low_half and the other 16 columns. */
QR_INLINE vf add_high_half(bool centred, const struct part *part, const struct qr_act_meta *meta, vf low, vi s, vf acc)
{
    if (!centred)
        s = i_sub(s, i_sll32(i_set1(meta->sum_high), 5));
    return v_fma(v_fma(i_to_f(s), part->d[1], low), v_set1(meta->scale), acc);
}

/* Q2_K: acc + the sums of both halves of a part and their minima. */
QR_INLINE vf add_halves(const struct part *part, const struct qr_act_meta *meta, vi s0, vi s1, vf acc)
{
    acc = v_fma(i_to_f(s0), v_mul(part->d[0], v_set1(meta->scale)), acc);
    acc = v_fma(i_to_f(s1), v_mul(part->d[1], v_set1(meta->scale)), acc);
    acc = v_fma(part->m[0], v_set1(meta->scale * (float)(meta->sum - meta->sum_high)), acc);
    return v_fma(part->m[1], v_set1(meta->scale * (float)meta->sum_high), acc);
}

/* acc + the sum s of a part with one scale, and its minimum. */
QR_INLINE vf add_part(enum qr_dtype type, bool centred, const struct part *part, const struct qr_act_meta *meta, vi s,
                      vf acc)
{
    if (part_offset_log2(type) && !centred)
        s = i_sub(s, i_sll32(i_set1(meta->sum), part_offset_log2(type)));
    acc = v_fma(i_to_f(s), v_mul(part->d[0], v_set1(meta->scale)), acc);
    return part_has_min(type) ? v_fma(part->m[0], v_set1(meta->scale_sum), acc) : acc;
}

/* acc[i] of nt tokens whose blocks stand one after the other at code and meta. nt is a constant. */
QR_INLINE void dot_tokens(enum qr_dtype type, bool centred, int nt, const struct part *part, const int16_t *code,
                          const struct qr_act_meta *meta, vf *acc)
{
    vi s[V_TILE_INT], s1[V_TILE_INT];
    if (type == QR_Q6_K) {
        vf low[V_TILE_INT];
        dot_columns(0, 1, nt, part, code, s);
        for (int i = 0; i < nt; i++)
            low[i] = low_half(centred, part, &meta[i], s[i]);
        dot_columns(1, 2, nt, part, code, s);
        for (int i = 0; i < nt; i++)
            acc[i] = add_high_half(centred, part, &meta[i], low[i], s[i], acc[i]);
        return;
    }
    if (type == QR_Q2_K) {
        dot_columns(0, 1, nt, part, code, s);
        dot_columns(1, 2, nt, part, code, s1);
        for (int i = 0; i < nt; i++)
            acc[i] = add_halves(part, &meta[i], s[i], s1[i], acc[i]);
        return;
    }
    dot_columns(0, 2, nt, part, code, s);
    for (int i = 0; i < nt; i++)
        acc[i] = add_part(type, centred, part, &meta[i], s[i], acc[i]);
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

/* acc + block b of a token that is alone; src: its part. */
QR_INLINE vf dot_part(enum qr_dtype type, const struct qr_act *act, int b, const uint8_t *src, struct part *part,
                      vf acc)
{
    const int16_t *code = act->code + (size_t)b * QR_ACT_BLOCK;
    const struct qr_act_meta *meta = act->meta + b;
#ifdef V_LONE
    const int8_t *x = (const int8_t *)(act->code + (size_t)(act->n_block + b) * QR_ACT_BLOCK);
    const uint8_t *codes = src + part_scale_bytes(type);
    if (part_has_halves(type)) {
        vi s0 = lone_columns(type, 0, 1, codes, x), s1 = lone_columns(type, 1, 2, codes, x);
        load_scales(type, src, part);
        if (type == QR_Q2_K)
            return add_halves(part, meta, s0, s1, acc);
        return add_high_half(false, part, meta, low_half(false, part, meta, s0), s1, acc);
    }
    bool pairs = type == QR_Q8_0 || type == QR_I8S;
    vi s = pairs ? lone_pairs(codes, code) : lone_columns(type, 0, 2, codes, x);
    load_scales(type, src, part);
    return add_part(type, false, part, meta, s, acc);
#else
    load_part(type, src, part);
    dot_tokens(type, false, 1, part, code, meta, &acc);
    return acc;
#endif
}

/* One token: a part goes from memory through registers once. */
QR_INLINE void dot_one(enum qr_dtype type, const struct qr_dot *job)
{
    const struct qr_act *act = job->act;
    for (int p = 0; p < job->n_panel; p++) {
        const uint8_t *src = job->panel + (size_t)p * job->panel_bytes;
        struct part part;
        vf acc = v_zero(), total = acc; /* of a record, of all before: Q6_K */
        load_head(type, src, &part);
        src += part_head_bytes(type);
        for (int b = 0; b < act->n_block; b++) {
            acc = dot_part(type, act, b, src, &part, acc);
            src += part_bytes(type);
            if (type == QR_Q6_K && b % 8 == 7) {
                total = v_fma(acc, part.head_d, total);
                acc = v_zero();
            }
            if (part_is_k(type) && b % 8 == 7 && b + 1 < act->n_block) {
                load_head(type, src, &part);
                src += part_head_bytes(type);
            }
        }
        store_rows(job, p, 0, type == QR_Q6_K ? total : acc);
    }
}

/* Many tokens: a part is taken apart once and meets them a tile at a time; their totals wait in the first cache. */
QR_INLINE void dot_many(enum qr_dtype type, bool centred, const struct qr_dot *job)
{
    const struct qr_act *act = job->act;
    const int nt = job->nt;
    vf acc[QR_MAX_CHUNK], total[QR_MAX_CHUNK]; /* of a record, of all before: Q6_K */
    for (int p = 0; p < job->n_panel; p++) {
        const uint8_t *src = job->panel + (size_t)p * job->panel_bytes;
        struct part part;
        size_t at = (size_t)job->t0 * (size_t)act->n_block;
        for (int i = 0; i < nt; i++)
            total[i] = acc[i] = v_zero();
        load_head(type, src, &part);
        src += part_head_bytes(type);
        for (int b = 0; b < act->n_block; b++, at += (size_t)nt) {
            const int16_t *code = act->code + at * QR_ACT_BLOCK;
            const struct qr_act_meta *meta = act->meta + at;
            int i = 0;
            load_part(type, src, &part);
            if (centred)
                centre_part(type, &part);
            for (; i + V_TILE_INT <= nt; i += V_TILE_INT)
                dot_tokens(type, centred, V_TILE_INT, &part, code + i * QR_ACT_BLOCK, meta + i, acc + i);
#if V_TILE_INT > 4
            if (i + 4 <= nt) {
                dot_tokens(type, centred, 4, &part, code + i * QR_ACT_BLOCK, meta + i, acc + i);
                i += 4;
            }
#endif
            for (; i + 2 <= nt; i += 2)
                dot_tokens(type, centred, 2, &part, code + i * QR_ACT_BLOCK, meta + i, acc + i);
            if (i < nt)
                dot_tokens(type, centred, 1, &part, code + i * QR_ACT_BLOCK, meta + i, acc + i);
            src += part_bytes(type);
            for (i = 0; i < nt && type == QR_Q6_K && b % 8 == 7; i++) {
                total[i] = v_fma(acc[i], part.head_d, total[i]);
                acc[i] = v_zero();
            }
            if (part_is_k(type) && b % 8 == 7 && b + 1 < act->n_block) {
                load_head(type, src, &part);
                src += part_head_bytes(type);
            }
        }
        for (int i = 0; i < nt; i++)
            store_rows(job, p, i, type == QR_Q6_K ? total[i] : acc[i]);
    }
}

#define KERNEL(name, type)                                                                                             \
    void QR_NAME(qr_k_dot_##name)(const struct qr_dot *job)                                                            \
    {                                                                                                                  \
        if (job->act->n_token == 1)                                                                                    \
            dot_one(type, job);                                                                                        \
        else if (centres(type, job->nt))                                                                               \
            dot_many(type, true, job);                                                                                 \
        else                                                                                                           \
            dot_many(type, false, job);                                                                                \
    }
KERNEL(q8_0, QR_Q8_0)
KERNEL(q4_0, QR_Q4_0)
KERNEL(q4_1, QR_Q4_1)
KERNEL(q5_0, QR_Q5_0)
KERNEL(q5_1, QR_Q5_1)
KERNEL(q4_k, QR_Q4_K)
KERNEL(q5_k, QR_Q5_K)
KERNEL(q6_k, QR_Q6_K)
KERNEL(q2_k, QR_Q2_K)
KERNEL(i8s, QR_I8S)
