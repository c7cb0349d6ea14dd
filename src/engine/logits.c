/* logits.c - see logits.h. */
#include "engine/logits.h"
#include <float.h>
#include <math.h>
#include <string.h>

#define LANES 16

struct qr_logit_scan qr_logit_scan(const float *x, int n, float *block_max)
{
    struct qr_logit_scan scan = {.max = -INFINITY};
    int best_block = 0;
    uint32_t bad[LANES] = {0}, any = 0;
    for (int b = 0; b * QR_LOGIT_BLOCK < n; b++) {
        const float *p = x + (size_t)b * QR_LOGIT_BLOCK;
        int m = n - b * QR_LOGIT_BLOCK < QR_LOGIT_BLOCK ? n - b * QR_LOGIT_BLOCK : QR_LOGIT_BLOCK;
        float top[LANES], max = -INFINITY;
        for (int j = 0; j < LANES; j++)
            top[j] = -INFINITY;
        int i = 0;
        for (; i + LANES <= m; i += LANES)
            for (int j = 0; j < LANES; j++) {
                float v = p[i + j];
                top[j] = v > top[j] ? v : top[j];
                bad[j] |= !(v <= FLT_MAX);
            }
        for (; i < m; i++) {
            top[0] = p[i] > top[0] ? p[i] : top[0];
            any |= !(p[i] <= FLT_MAX);
        }
        for (int j = 0; j < LANES; j++)
            max = top[j] > max ? top[j] : max;
        block_max[b] = max;
        if (max > scan.max) {
            scan.max = max;
            best_block = b;
        }
    }
    for (int j = 0; j < LANES; j++)
        any |= bad[j];
    scan.bad = any != 0;
    scan.argmax = best_block * QR_LOGIT_BLOCK;
    while (scan.argmax < n - 1 && x[scan.argmax] != scan.max)
        scan.argmax++;
    return scan;
}

/* Cody and Waite: x = n ln2 + r with |r| <= ln2/2, e^r by a polynomial (the coefficients of Cephes' expf), times 2^n
 * by adding to the exponent. Every step is an operation that exists as a vector instruction. */
static inline float exp_neg(float x)
{
    float in = x < -87.0f ? -87.0f : x;
    float n = (in * 1.44269504088896341f + 12582912.0f) - 12582912.0f; /* 1.5 * 2^23 rounds to an integer */
    float r = (in - n * 0.693359375f) + n * 2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * (r * r) + r + 1.0f;
    union {
        float f;
        int32_t i;
    } u = {.f = y};
    u.i += (int32_t)n * (1 << 23);
    return x < -87.0f ? 0.0f : u.f;
}

float qr_exp_neg(float x)
{
    return exp_neg(x);
}

static double lane_sum(const double sum[LANES])
{
    double total = 0;
    for (int j = 0; j < LANES; j++)
        total += sum[j];
    return total;
}

double qr_logit_weights(const float *x, int n, float max, float scale, float *w)
{
    double sum[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        float e[LANES];
        for (int j = 0; j < LANES; j++)
            e[j] = exp_neg((x[i + j] - max) * scale);
        for (int j = 0; j < LANES; j++)
            sum[j] += (double)e[j];
        memcpy(w + i, e, sizeof(e));
    }
    for (; i < n; i++) {
        w[i] = exp_neg((x[i] - max) * scale);
        sum[0] += (double)w[i];
    }
    return lane_sum(sum);
}

double qr_logit_expsum(const float *x, int n, float max)
{
    double sum[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        float e[LANES];
        for (int j = 0; j < LANES; j++)
            e[j] = exp_neg(x[i + j] - max);
        for (int j = 0; j < LANES; j++)
            sum[j] += (double)e[j];
    }
    for (; i < n; i++)
        sum[0] += (double)exp_neg(x[i] - max);
    return lane_sum(sum);
}

int32_t qr_logit_rank(const float *x, int n, int32_t id)
{
    float v = x[id];
    int32_t lane[LANES] = {0}, rank = 0;
    int i = 0;
    for (; i + LANES <= id; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += x[i + j] >= v;
    for (; i < id; i++)
        rank += x[i] >= v;
    for (i = id + 1; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            lane[j] += x[i + j] > v;
    for (; i < n; i++)
        rank += x[i] > v;
    for (int j = 0; j < LANES; j++)
        rank += lane[j];
    return rank;
}

int qr_logit_top(const float *x, int n, const float *block_max, int n_top, struct qr_top *top)
{
    int m = 0;
    if (n_top <= 0)
        return 0;
    for (int b = 0; b * QR_LOGIT_BLOCK < n; b++) {
        if (m == n_top && !(block_max[b] > top[m - 1].logprob))
            continue;
        int end = n - b * QR_LOGIT_BLOCK < QR_LOGIT_BLOCK ? n : (b + 1) * QR_LOGIT_BLOCK;
        for (int i = b * QR_LOGIT_BLOCK; i < end; i++) {
            if (m == n_top && !(x[i] > top[m - 1].logprob))
                continue;
            int at = m < n_top ? m++ : m - 1;
            for (; at > 0 && x[i] > top[at - 1].logprob; at--)
                top[at] = top[at - 1];
            top[at] = (struct qr_top){.id = i, .logprob = x[i]};
        }
    }
    return m;
}
