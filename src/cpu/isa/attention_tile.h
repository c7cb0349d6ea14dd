/* attention_tile.h - the inner loops of attention.c: scores and weighted values of one segment for rows side by side.
 * Included there only. */
#ifndef QR_CPU_ISA_ATTENTION_TILE_H
#define QR_CPU_ISA_ATTENTION_TILE_H
#include <math.h>
#include "cpu/isa/kernels.h"
#include "cpu/isa/vec_math.h"

struct row {
    const float *q;
    int lo, hi; /* positions of this segment that the row sees: [lo, hi), counted from the segment's start */
    float m, l;
};

struct tile {
    const struct qr_attn_job *job;
    int n_row;
    struct row row[QR_ATTN_ROWS];
    float *score;             /* [n_row][256] */
    float *sums;              /* [n_row][v_stride] of this segment */
    float *total;             /* [n_row][v_stride] of all segments so far */
    float *total_m, *total_l; /* [n_row] */
    float *page;              /* [16 * v_stride] fp32 copy of a page of another type */
};

/* ------------------------------------------------------------------ pages */

/* 16 elements from element i on. */
QR_INLINE vf load_elements(enum qr_dtype type, const uint8_t *page, size_t i)
{
    if (type == QR_F32)
        return v_load((const float *)(const void *)page + i);
    const uint16_t *p = (const uint16_t *)(const void *)page + i;
    return type == QR_F16 ? v_load_f16(p) : v_load_bf16(p);
}

/* Pages of 2-byte elements are converted where more than one tile of rows will read them; *type is what the
 * result holds. */
static const uint8_t *converted(const struct tile *tile, const uint8_t *page, size_t n, enum qr_dtype *type)
{
    *type = tile->job->kv->type;
    if (*type == QR_F32 || tile->n_row <= V_TILE_ATTN)
        return page;
    if (*type == QR_F16)
        for (size_t i = 0; i < n; i += 16)
            v_store(tile->page + i, load_elements(QR_F16, page, i));
    else
        for (size_t i = 0; i < n; i += 16)
            v_store(tile->page + i, load_elements(QR_BF16, page, i));
    *type = QR_F32;
    return (const uint8_t *)tile->page;
}

static const uint8_t *page_at(const struct qr_attn_job *job, int page)
{
    return job->kv->data + (uint64_t)job->block_table[page] * job->kv->block_bytes + job->page_offset;
}

/* ----------------------------------------------------------------- scores */

QR_INLINE vf finish_score(const struct qr_attn_job *job, const struct row *row, int first, vf even, vf odd)
{
    vf s = v_mul(v_add(even, odd), v_set1(job->scale));
    if (job->soft_cap > 0)
        s = v_mul(v_tanh(v_div(s, v_set1(job->soft_cap))), v_set1(job->soft_cap));
    return v_keep(s, row->lo - first, row->hi - first, v_set1(-INFINITY));
}

/* Scores of n rows for the 16 positions from `first` on; type and n are constants. */
QR_INLINE void score_tile(struct tile *tile, enum qr_dtype type, const uint8_t *k, int first, int r0, int n)
{
    uint32_t head_dim = tile->job->kv->head_dim;
    const struct row *row = tile->row + r0;
    vf even[V_TILE_ATTN], odd[V_TILE_ATTN];
    for (int i = 0; i < n; i++)
        even[i] = odd[i] = v_zero();
    if (V_SCORE_APART && n > 2) { /* few registers: one sum of each row after the other */
        for (uint32_t d = 0; d < head_dim; d += 2) {
            vf k0 = load_elements(type, k, d * 16);
            for (int i = 0; i < n; i++)
                even[i] = v_fma(k0, v_set1(row[i].q[d]), even[i]);
        }
        for (uint32_t d = 1; d < head_dim; d += 2) {
            vf k1 = load_elements(type, k, d * 16);
            for (int i = 0; i < n; i++)
                odd[i] = v_fma(k1, v_set1(row[i].q[d]), odd[i]);
        }
    } else {
        for (uint32_t d = 0; d < head_dim; d += 2) {
            vf k0 = load_elements(type, k, d * 16), k1 = load_elements(type, k, d * 16 + 16);
            for (int i = 0; i < n; i++) {
                even[i] = v_fma(k0, v_set1(row[i].q[d]), even[i]);
                odd[i] = v_fma(k1, v_set1(row[i].q[d + 1]), odd[i]);
            }
        }
    }
    for (int i = 0; i < n; i++)
        v_store(tile->score + (r0 + i) * QR_SEGMENT + first, finish_score(tile->job, &row[i], first, even[i], odd[i]));
}

QR_INLINE void score_rows(struct tile *tile, enum qr_dtype type, const uint8_t *k, int first, int r0, int n)
{
#if V_TILE_ATTN > 4
    for (; n >= 8; n -= 8, r0 += 8)
        score_tile(tile, type, k, first, r0, 8);
#endif
#if V_TILE_ATTN > 2
    for (; n >= 4; n -= 4, r0 += 4)
        score_tile(tile, type, k, first, r0, 4);
    if (n == 3) {
        score_tile(tile, type, k, first, r0, 3);
        return;
    }
#endif
    for (; n >= 2; n -= 2, r0 += 2)
        score_tile(tile, type, k, first, r0, 2);
    if (n)
        score_tile(tile, type, k, first, r0, 1);
}

static int row_sees_page(const struct row *row, int first)
{
    return row->lo < first + 16 && row->hi > first;
}

/* Rows from r0 on, one after the other, that see the page. */
static int count_seeing(const struct tile *tile, int r0, int first)
{
    int n = 0;
    while (r0 + n < tile->n_row && row_sees_page(&tile->row[r0 + n], first))
        n++;
    return n;
}

/* All scores of a segment; pages of 16 positions, from the segment's start. */
static void score_segment(struct tile *tile, int segment, int page0, int page1)
{
    for (int p = page0; p < page1; p++) {
        enum qr_dtype type;
        const uint8_t *page = page_at(tile->job, segment * QR_SEGMENT_PAGES + p);
        const uint8_t *k = converted(tile, page, (size_t)tile->job->kv->head_dim * 16, &type);
        for (int r = 0, n; r < tile->n_row; r += n ? n : 1) {
            n = count_seeing(tile, r, p * 16);
            if (n == 0)
                continue;
            if (type == QR_F32)
                score_rows(tile, QR_F32, k, p * 16, r, n);
            else if (type == QR_F16)
                score_rows(tile, QR_F16, k, p * 16, r, n);
            else
                score_rows(tile, QR_BF16, k, p * 16, r, n);
        }
    }
}

/* ----------------------------------------------------------------- values */

/* Positions [lo, hi) of a page. */
struct range {
    int lo, hi;
};

static struct range seen_of_page(const struct row *row, int first)
{
    int lo = row->lo - first, hi = row->hi - first;
    return (struct range){lo < 0 ? 0 : lo, hi > 16 ? 16 : hi};
}

/* sums[r0 .. r0 + n) += p v over a range of a page, in some columns; type, n and dims (vectors of columns) are
 * constants. */
QR_INLINE void value_tile(struct tile *tile, enum qr_dtype type, const uint8_t *v, int first, struct range seen, int r0,
                          int n, uint32_t column, int dims)
{
    size_t stride = tile->job->kv->v_stride;
    const float *p = tile->score + r0 * QR_SEGMENT + first;
    float *sums = tile->sums + (size_t)r0 * stride + column;
    vf a[V_TILE_VALUE][V_TILE_DIM];
    for (int i = 0; i < n; i++)
        for (int c = 0; c < dims; c++)
            a[i][c] = v_load(sums + (size_t)i * stride + (size_t)c * 16);
    for (int j = seen.lo; j < seen.hi; j++)
        for (int c = 0; c < dims; c++) {
            vf x = load_elements(type, v, (size_t)j * stride + column + (size_t)c * 16);
            for (int i = 0; i < n; i++)
                a[i][c] = v_fma(v_set1(p[i * QR_SEGMENT + j]), x, a[i][c]);
        }
    for (int i = 0; i < n; i++)
        for (int c = 0; c < dims; c++)
            v_store(sums + (size_t)i * stride + (size_t)c * 16, a[i][c]);
}

QR_INLINE void value_columns(struct tile *tile, enum qr_dtype type, const uint8_t *v, int first, struct range seen,
                             int r0, int n)
{
    uint32_t stride = tile->job->kv->v_stride, c = 0;
    for (; c + 16 * V_TILE_DIM <= stride; c += 16 * V_TILE_DIM)
        value_tile(tile, type, v, first, seen, r0, n, c, V_TILE_DIM);
    for (; c < stride; c += 16)
        value_tile(tile, type, v, first, seen, r0, n, c, 1);
}

QR_INLINE void value_rows(struct tile *tile, enum qr_dtype type, const uint8_t *v, int first, struct range seen, int r0,
                          int n)
{
#if V_TILE_VALUE > 2
    if (n == 4)
        value_columns(tile, type, v, first, seen, r0, 4);
    else if (n == 3)
        value_columns(tile, type, v, first, seen, r0, 3);
    else
#endif
        if (n == 2)
        value_columns(tile, type, v, first, seen, r0, 2);
    else
        value_columns(tile, type, v, first, seen, r0, 1);
}

/* Rows from r0 on, at most a tile, that see the same part of the page. */
static int count_alike(const struct tile *tile, int r0, int first, struct range *seen)
{
    int n = 1;
    *seen = seen_of_page(&tile->row[r0], first);
    for (; n < V_TILE_VALUE && r0 + n < tile->n_row; n++) {
        struct range other = seen_of_page(&tile->row[r0 + n], first);
        if (other.lo != seen->lo || other.hi != seen->hi)
            break;
    }
    return n;
}

static void value_segment(struct tile *tile, int segment, int page0, int page1)
{
    const struct qr_kv *kv = tile->job->kv;
    for (int p = page0; p < page1; p++) {
        enum qr_dtype type;
        const uint8_t *page = page_at(tile->job, segment * QR_SEGMENT_PAGES + p) + kv->v_offset;
        const uint8_t *v = converted(tile, page, (size_t)kv->v_stride * 16, &type);
        for (int r = 0, n; r < tile->n_row; r += n) {
            struct range seen;
            n = count_alike(tile, r, p * 16, &seen);
            if (seen.lo >= seen.hi)
                continue;
            if (type == QR_F32)
                value_rows(tile, QR_F32, v, p * 16, seen, r, n);
            else if (type == QR_F16)
                value_rows(tile, QR_F16, v, p * 16, seen, r, n);
            else
                value_rows(tile, QR_BF16, v, p * 16, seen, r, n);
        }
    }
}
#endif
