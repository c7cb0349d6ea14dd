/* rows.c - norms, sums, products and SiLU, row by row. The norm in one and the norm in four ops do the same operations
 * in the same order, so both give the same bits. */
#include <math.h>
#include "cpu/isa/kernels.h"
#include "cpu/isa/vec_math.h"

/* Mean of squares: lanes summed over vectors in order, then over lanes. */
QR_INLINE float mean_square(const float *x, uint32_t n)
{
    vf even = v_zero(), odd = v_zero();
    uint32_t c = 0;
    for (; c + 32 <= n; c += 32) {
        vf a = v_load(x + c), b = v_load(x + c + 16);
        even = v_fma(a, a, even);
        odd = v_fma(b, b, odd);
    }
    for (; c < n; c += 16) {
        vf a = v_load_n(x + c, v_count((int)(n - c)));
        even = v_fma(a, a, even);
    }
    return v_sum(v_add(even, odd)) / (float)n;
}

QR_INLINE float inverse_root(float mean, float eps)
{
    return 1.0f / sqrtf(mean + eps);
}

/* y = (x * factor) * scale */
QR_INLINE void scale_group(const float *x, float factor, const float *scale, float *y, uint32_t n)
{
    vf f = v_set1(factor);
    uint32_t c = 0;
    for (; c + 16 <= n; c += 16)
        v_store(y + c, v_mul(v_mul(v_load(x + c), f), v_load(scale + c)));
    if (c < n) {
        int rest = (int)(n - c);
        v_store_n(y + c, v_mul(v_mul(v_load_n(x + c, rest), f), v_load_n(scale + c, rest)), rest);
    }
}

QR_INLINE void norm_row(const struct qr_rows_job *job, const float *x, float *y)
{
    for (uint32_t c = 0; c < job->cols; c += job->width)
        scale_group(x + c, inverse_root(mean_square(x + c, job->width), job->eps), job->scale, y + c, job->width);
}

QR_INLINE float *row_of(float *first, size_t stride, int t)
{
    return first + (size_t)t * stride;
}

void QR_NAME(qr_k_mean_square)(const struct qr_rows_job *job)
{
    for (int t = job->t0; t < job->t1; t++) {
        const float *x = row_of(job->x, job->x_stride, t);
        float *y = row_of(job->y, job->y_stride, t);
        for (uint32_t c = 0; c < job->cols; c += job->width)
            *y++ = mean_square(x + c, job->width);
    }
}

void QR_NAME(qr_k_rsqrt)(const struct qr_rows_job *job)
{
    for (int t = job->t0; t < job->t1; t++) {
        float *x = row_of(job->x, job->x_stride, t);
        for (uint32_t c = 0; c < job->cols; c++)
            x[c] = inverse_root(x[c], job->eps);
    }
}

void QR_NAME(qr_k_scale_rows)(const struct qr_rows_job *job)
{
    for (int t = job->t0; t < job->t1; t++) {
        const float *x = row_of(job->x, job->x_stride, t), *r = row_of(job->r, job->r_stride, t);
        float *y = row_of(job->y, job->y_stride, t);
        for (uint32_t c = 0; c < job->cols; c += 16) {
            int n = v_count((int)(job->cols - c));
            if (c / job->width == (c + (uint32_t)n - 1) / job->width)
                v_store_n(y + c, v_mul(v_load_n(x + c, n), v_set1(r[c / job->width])), n);
            else
                for (int i = 0; i < n; i++)
                    y[c + (uint32_t)i] = x[c + (uint32_t)i] * r[(c + (uint32_t)i) / job->width];
        }
    }
}

void QR_NAME(qr_k_scale_cols)(const struct qr_rows_job *job)
{
    for (int t = job->t0; t < job->t1; t++) {
        float *x = row_of(job->x, job->x_stride, t);
        for (uint32_t g = 0; g < job->cols; g += job->width)
            for (uint32_t c = 0; c < job->width; c += 16) {
                int n = v_count((int)(job->width - c));
                v_store_n(x + g + c, v_mul(v_load_n(x + g + c, n), v_load_n(job->scale + c, n)), n);
            }
    }
}

void QR_NAME(qr_k_rmsnorm)(const struct qr_rows_job *job)
{
    for (int t = job->t0; t < job->t1; t++)
        norm_row(job, row_of(job->x, job->x_stride, t), row_of(job->y, job->y_stride, t));
}

/* Two inputs, result into the first. */
#define PAIR(name, expr)                                                                                               \
    QR_INLINE void name##_row(float *x, const float *r, uint32_t n)                                                    \
    {                                                                                                                  \
        uint32_t c = 0;                                                                                                \
        for (; c + 16 <= n; c += 16) {                                                                                 \
            vf a = v_load(x + c), b = v_load(r + c);                                                                   \
            v_store(x + c, expr);                                                                                      \
        }                                                                                                              \
        if (c < n) {                                                                                                   \
            int rest = (int)(n - c);                                                                                   \
            vf a = v_load_n(x + c, rest), b = v_load_n(r + c, rest);                                                   \
            v_store_n(x + c, expr, rest);                                                                              \
        }                                                                                                              \
    }                                                                                                                  \
    void QR_NAME(qr_k_##name)(const struct qr_rows_job *job)                                                           \
    {                                                                                                                  \
        for (int t = job->t0; t < job->t1; t++)                                                                        \
            name##_row(row_of(job->x, job->x_stride, t), row_of(job->r, job->r_stride, t), job->cols);                 \
    }
PAIR(add, v_add(a, b))
PAIR(mul, v_mul(a, b))
PAIR(silu_mul, v_mul(v_silu(a), b))

void QR_NAME(qr_k_add_rmsnorm)(const struct qr_rows_job *job)
{
    for (int t = job->t0; t < job->t1; t++) {
        float *x = row_of(job->x, job->x_stride, t);
        add_row(x, row_of(job->r, job->r_stride, t), job->cols);
        norm_row(job, x, row_of(job->y, job->y_stride, t));
    }
}

/* One input, result into it; `eps` is the op's number where it has one. */
#define SINGLE(name, expr)                                                                                             \
    void QR_NAME(qr_k_##name)(const struct qr_rows_job *job)                                                           \
    {                                                                                                                  \
        vf number = v_set1(job->eps);                                                                                  \
        (void)number;                                                                                                  \
        for (int t = job->t0; t < job->t1; t++) {                                                                      \
            float *row = row_of(job->x, job->x_stride, t);                                                             \
            for (uint32_t c = 0; c < job->cols; c += 16) {                                                             \
                int n = v_count((int)(job->cols - c));                                                                 \
                vf x = v_load_n(row + c, n);                                                                           \
                v_store_n(row + c, expr, n);                                                                           \
            }                                                                                                          \
        }                                                                                                              \
    }
SINGLE(silu, v_silu(x))
SINGLE(gelu, v_gelu(x))
SINGLE(scale, v_mul(x, number))
SINGLE(soft_cap, v_mul(v_tanh(v_div(x, number)), number))
