/* attention.c - softmax(q k^T) v over pages (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018;
 * Dao et al., FlashAttention, 2022), cut at absolute multiples of 256 positions.
 *
 * For a query row (token, head) and a segment: scores = (sum over even d + sum over odd d of q[d] k[d]) * scale, d
 * ascending in each sum, capped where the model caps; m = the largest; p = exp(score - m); l = sum of p, lane by lane
 * over pages, then over lanes; a[d] = sum of p v[d], positions ascending. Segments are merged left to right. Rows are
 * only put side by side, so a row gets the same bits in any tile. Lanes and rows of a page that the token may not see
 * are never read into a result: they may hold anything. */
#include <math.h>
#include "cpu/isa/attention_tile.h"

/* ---------------------------------------------------------------- softmax */

static void softmax_row(struct row *row, float *score)
{
    int begin = row->lo & ~15, end = row->hi;
    vf most = v_set1(-INFINITY), sum = v_zero();
    for (int i = begin; i < end; i += 16)
        most = v_max(most, v_load(score + i));
    row->m = v_hmax(most);
    vf m = v_set1(row->m);
    for (int i = begin; i < end; i += 16) {
        vf p = v_exp(v_sub(v_load(score + i), m));
        v_store(score + i, p);
        sum = v_add(sum, p);
    }
    row->l = v_sum(sum);
}

/* ------------------------------------------------------------------ merge */

/* total (m, l, a) and one more segment's; *l == 0 and m == -INFINITY: nothing yet. */
static void merge(float *m, float *l, float *a, float m2, float l2, const float *a2, uint32_t n)
{
    if (*l == 0 && *m == -INFINITY) {
        *m = m2;
        *l = l2;
        memcpy(a, a2, (size_t)n * 4);
        return;
    }
    float most = *m > m2 ? *m : m2, factor[16] = {0};
    factor[0] = *m - most;
    factor[1] = m2 - most;
    v_store(factor, v_exp(v_load(factor)));
    vf f = v_set1(factor[0]), f2 = v_set1(factor[1]);
    for (uint32_t c = 0; c < n; c += 16)
        v_store(a + c, v_fma(v_load(a2 + c), f2, v_mul(v_load(a + c), f)));
    *m = most;
    *l = *l * factor[0] + l2 * factor[1];
}

static void write_row(float *y, const float *a, float l, uint32_t n)
{
    vf inverse = v_set1(1.0f / l);
    for (uint32_t c = 0; c < n; c += 16)
        v_store_n(y + c, v_mul(v_load(a + c), inverse), v_count((int)(n - c)));
}

/* --------------------------------------------------------------- the whole */

/* Sets lo and hi of every row for the segment; returns the pages that any of them sees. */
static void see_segment(struct tile *tile, int segment, int *page0, int *page1)
{
    const struct qr_attn_job *job = tile->job;
    int start = segment * QR_SEGMENT, lo = QR_SEGMENT, hi = 0;
    for (int r = 0; r < tile->n_row; r++) {
        struct row *row = &tile->row[r];
        int position = job->position[r / job->group];
        int first = qr_attn_first(position, job->window) - start, last = position + 1 - start;
        row->lo = first < 0 ? 0 : first > QR_SEGMENT ? QR_SEGMENT : first;
        row->hi = last < 0 ? 0 : last > QR_SEGMENT ? QR_SEGMENT : last;
        if (row->lo >= row->hi) {
            row->lo = row->hi = 0;
            continue;
        }
        lo = row->lo < lo ? row->lo : lo;
        hi = row->hi > hi ? row->hi : hi;
    }
    *page0 = lo / 16;
    *page1 = (hi + 15) / 16;
}

static void run_segment(struct tile *tile, int segment)
{
    size_t stride = tile->job->kv->v_stride;
    int page0, page1;
    see_segment(tile, segment, &page0, &page1);
    if (page0 >= page1)
        return;
    score_segment(tile, segment, page0, page1);
    for (int r = 0; r < tile->n_row; r++)
        if (tile->row[r].hi)
            softmax_row(&tile->row[r], tile->score + r * QR_SEGMENT);
    memset(tile->sums, 0, (size_t)tile->n_row * stride * 4);
    value_segment(tile, segment, page0, page1);
}

static void run_tile(struct tile *tile)
{
    const struct qr_attn_job *job = tile->job;
    size_t stride = job->kv->v_stride;
    int begin = INT32_MAX, end = 0;
    for (int i = 0; i < job->n_token; i++) {
        int first = qr_attn_first(job->position[i], job->window) / QR_SEGMENT;
        int last = job->position[i] / QR_SEGMENT + 1;
        begin = first < begin ? first : begin;
        end = last > end ? last : end;
    }
    begin = begin > job->segment0 ? begin : job->segment0;
    end = end < job->segment1 ? end : job->segment1;
    for (int r = 0; r < tile->n_row; r++) {
        tile->total_m[r] = -INFINITY;
        tile->total_l[r] = 0;
    }
    for (int s = begin; s < end; s++) {
        run_segment(tile, s);
        for (int r = 0; r < tile->n_row; r++) {
            const struct row *row = &tile->row[r];
            if (!row->hi)
                continue;
            const float *sums = tile->sums + (size_t)r * stride;
            if (job->partial) {
                float *out =
                    job->partial + ((size_t)(s - job->segment0) * (size_t)tile->n_row + (size_t)r) * (stride + 2);
                out[0] = row->m;
                out[1] = row->l;
                memcpy(out + 2, sums, stride * 4);
            } else {
                merge(&tile->total_m[r], &tile->total_l[r], tile->total + (size_t)r * stride, row->m, row->l, sums,
                      (uint32_t)stride);
            }
        }
    }
}

/* Up to QR_ATTN_ROWS rows at a time; the scratch is cut up in the order of qr_attn_scratch. */
void QR_NAME(qr_k_attention)(const struct qr_attn_job *job)
{
    struct tile tile = {.job = job, .n_row = job->n_token * job->group};
    size_t stride = job->kv->v_stride, n = QR_ATTN_ROWS;
    uint32_t head_dim = job->kv->head_dim;
    tile.score = job->scratch;
    tile.sums = tile.score + n * QR_SEGMENT;
    tile.total = tile.sums + n * stride;
    tile.page = tile.total + n * stride;
    tile.total_m = tile.page + 16 * stride;
    tile.total_l = tile.total_m + n;
    for (int r = 0; r < tile.n_row; r++)
        tile.row[r].q = job->q + (size_t)(r / job->group) * job->q_stride + (size_t)(r % job->group) * head_dim;
    run_tile(&tile);
    for (int r = 0; r < tile.n_row && !job->partial; r++)
        write_row(job->y + (size_t)(r / job->group) * job->y_stride + (size_t)(r % job->group) * head_dim,
                  tile.total + (size_t)r * stride, tile.total_l[r], head_dim);
}

void QR_NAME(qr_k_attention_merge)(const struct qr_attn_merge_job *job)
{
    float m = -INFINITY, l = 0, *a = job->scratch;
    for (int s = job->segment0; s < job->segment1; s++) {
        const float *part = job->partial + (size_t)(s - job->segment0) * job->partial_stride;
        merge(&m, &l, a, part[0], part[1], part + 2, job->v_stride);
    }
    write_row(job->y, a, l, job->head_dim);
}
