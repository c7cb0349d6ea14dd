/* logits.h - loops over one row of logits: the largest, the sum of exponentials, ranks. Written in lanes of fixed
 * width, so that the compiler makes vectors of them while the order of every sum stays the same on every CPU. */
#ifndef QR_ENGINE_LOGITS_H
#define QR_ENGINE_LOGITS_H
#include "base/err.h"

#define QR_LOGIT_BLOCK 256 /* elements that share one entry of block_max */

struct qr_logit_scan {
    float max;
    int32_t argmax; /* the lowest id among equals */
    bool bad;       /* NaN or +inf stands in the row */
};

/* block_max: [ceil(n / QR_LOGIT_BLOCK)], filled with the largest of each block; n > 0. */
struct qr_logit_scan qr_logit_scan(const float *x, int n, float *block_max);

/* e^x for x <= 0, relative error under 2e-7; 0 below -87. */
float qr_exp_neg(float x);
/* w[i] = e^((x[i] - max) * scale); returns their sum, block_sum: of each block. w may be x. */
double qr_logit_weights(const float *x, int n, float max, float scale, float *w, double *block_sum);
/* Sum of e^(x[i] - max). */
double qr_logit_expsum(const float *x, int n, float max);
/* How many stand before id: larger, or equal with a lower id. */
int32_t qr_logit_rank(const float *x, int n, int32_t id);
/* The n_top best, best first, equals by id; returns how many there are. block_max as scanned. */
int qr_logit_top(const float *x, int n, const float *block_max, int n_top, struct qr_top *top);
#endif
