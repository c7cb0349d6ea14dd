/* logits.c - see logits.h. */
#include "engine/logits.h"
#include <float.h>
#include <math.h>
#include <string.h>

#define LANES 16
typedef float v4 __attribute__((vector_size(16))); /* what every x86-64 has */
typedef int32_t i4 __attribute__((vector_size(16)));

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
 * by adding to the exponent. Every step is an operation that exists for vectors; the scalar form is one lane of it. */
static inline v4 exp_neg(v4 x)
{
    const v4 one = {1, 1, 1, 1}, least = -87.0f * one, magic = 12582912.0f * one; /* 1.5 * 2^23 rounds to an integer */
    i4 under = x < least;
    v4 in = (v4)(((i4)least & under) | ((i4)x & ~under));
    v4 n = (in * 1.44269504088896341f + magic) - magic;
    v4 r = (in - n * 0.693359375f) + n * 2.12194440e-4f;
    v4 y = r * 1.9875691500e-4f + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * (r * r) + r + 1.0f;
    return (v4)(((i4)y + (__builtin_convertvector(n, i4) << 23)) & ~under);
}

float qr_exp_neg(float x)
{
    v4 y = exp_neg((v4){x, x, x, x});
    return y[0];
}

static inline v4 load(const float *p)
{
    v4 v;
    memcpy(&v, p, sizeof(v));
    return v;
}

/* The exponentials of one block, to w unless it is NULL; their sum. 16 numbers are added in float to each of 16 lanes,
 * the lanes in double. */
static double block_weights(const float *x, int n, float max, float scale, float *w)
{
    v4 sum[4] = {{0}};
    double total = 0;
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < 4; j++) {
            v4 e = exp_neg((load(x + i + 4 * j) - max) * scale);
            sum[j] += e;
            if (w)
                memcpy(w + i + 4 * j, &e, sizeof(e));
        }
    for (int j = 0; j < 4; j++)
        total += ((double)sum[j][0] + (double)sum[j][1]) + ((double)sum[j][2] + (double)sum[j][3]);
    for (; i < n; i++) {
        float e = qr_exp_neg((x[i] - max) * scale);
        total += (double)e;
        if (w)
            w[i] = e;
    }
    return total;
}

static int block_length(int n, int block)
{
    int left = n - block * QR_LOGIT_BLOCK;
    return left < QR_LOGIT_BLOCK ? left : QR_LOGIT_BLOCK;
}

double qr_logit_weights(const float *x, int n, float max, float scale, float *w, double *block_sum)
{
    double total = 0;
    for (int b = 0; b * QR_LOGIT_BLOCK < n; b++) {
        size_t at = (size_t)b * QR_LOGIT_BLOCK;
        block_sum[b] = block_weights(x + at, block_length(n, b), max, scale, w + at);
        total += block_sum[b];
    }
    return total;
}

double qr_logit_expsum(const float *x, int n, float max)
{
    double total = 0;
    for (int b = 0; b * QR_LOGIT_BLOCK < n; b++)
        total += block_weights(x + (size_t)b * QR_LOGIT_BLOCK, block_length(n, b), max, 1, NULL);
    return total;
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
