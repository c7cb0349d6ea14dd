/* select.h - the best part of a list in linear time, without sorting: by number (top-k) or by mass (top-p). What is
 * kept stays in the order of its ids; among equals the lower id is better. */
#ifndef QR_ENGINE_SELECT_H
#define QR_ENGINE_SELECT_H
#include <stdbool.h>
#include <stdint.h>

struct qr_candidate {
    int32_t id;
    float weight; /* >= 0, not normalised */
};

#define QR_SELECT_BINS 2048
struct qr_select_scratch {
    uint32_t count[QR_SELECT_BINS];
    double mass[QR_SELECT_BINS];
};

/* The k-th largest of n numbers (1 <= k), of any sign; *n_equal: how many of those equal to it are among the k. */
float qr_select_threshold(const float *x, int n, int k, int *n_equal, struct qr_select_scratch *scratch);
/* Keeps the fewest best whose weights add up to at least mass, at least one; returns how many. */
int qr_select_mass(struct qr_candidate *list, int n, double mass, struct qr_select_scratch *scratch);
#endif
