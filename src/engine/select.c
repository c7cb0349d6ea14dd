/* select.c - radix descent: a histogram of the leading bits tells in which bin the limit lies, the next bits are
 * looked at in that bin only. Three passes of 11, 11 and 10 bits over a 32-bit key in the order of the floats. */
#include "engine/select.h"
#include <string.h>

#define N_PASS 3
static const int shift_of[N_PASS] = {21, 10, 0};
static const uint32_t bins_of[N_PASS] = {2048, 2048, 1024};

static inline uint32_t key_of(float x)
{
    union {
        float f;
        uint32_t u;
    } v = {.f = x + 0.0f}; /* -0 becomes +0 */
    return v.u ^ ((v.u >> 31) ? 0xFFFFFFFFu : 0x80000000u);
}

static inline float float_of(uint32_t key)
{
    union {
        uint32_t u;
        float f;
    } v = {.u = key ^ ((key >> 31) ? 0x80000000u : 0xFFFFFFFFu)};
    return v.f;
}

/* Do the bits that earlier passes settled agree? */
static inline bool same_prefix(uint32_t a, uint32_t b, int pass)
{
    return pass == 0 || (a >> shift_of[pass - 1]) == (b >> shift_of[pass - 1]);
}

float qr_select_threshold(const float *x, int n, int k, int *n_equal, struct qr_select_scratch *scratch)
{
    uint32_t key = 0;
    uint32_t left = (uint32_t)(k < n ? k : n);
    for (int pass = 0; pass < N_PASS; pass++) {
        int shift = shift_of[pass];
        uint32_t bins = bins_of[pass];
        memset(scratch->count, 0, bins * sizeof(scratch->count[0]));
        for (int i = 0; i < n; i++) {
            uint32_t ki = key_of(x[i]);
            if (same_prefix(ki, key, pass))
                scratch->count[(ki >> shift) & (bins - 1)]++;
        }
        uint32_t bin = bins - 1;
        while (bin > 0 && scratch->count[bin] < left)
            left -= scratch->count[bin--];
        key |= bin << shift;
    }
    *n_equal = (int)left;
    return float_of(key);
}

int qr_select_mass(struct qr_candidate *list, int n, double mass, struct qr_select_scratch *scratch)
{
    uint32_t key = 0;
    double left = mass;
    for (int pass = 0; pass < N_PASS; pass++) {
        int shift = shift_of[pass];
        uint32_t bins = bins_of[pass], lowest = 0;
        memset(scratch->count, 0, bins * sizeof(scratch->count[0]));
        memset(scratch->mass, 0, bins * sizeof(scratch->mass[0]));
        for (int i = 0; i < n; i++) {
            uint32_t ki = key_of(list[i].weight);
            if (!same_prefix(ki, key, pass))
                continue;
            uint32_t bin = (ki >> shift) & (bins - 1);
            scratch->count[bin]++;
            scratch->mass[bin] += (double)list[i].weight;
        }
        /* Down to the bin where the sum reaches its goal. Rounding may leave a crumb of the goal behind, so never
         * below the lowest bin that holds something. */
        while (lowest + 1 < bins && scratch->count[lowest] == 0)
            lowest++;
        uint32_t bin = bins - 1;
        while (bin > lowest && (scratch->count[bin] == 0 || scratch->mass[bin] < left))
            left -= scratch->mass[bin--];
        key |= bin << shift;
    }
    float threshold = float_of(key);
    int n_equal = 1, m = 0;
    while (n_equal < n && (double)n_equal * (double)threshold < left)
        n_equal++;
    for (int i = 0; i < n; i++)
        if (list[i].weight > threshold || (list[i].weight == threshold && n_equal-- > 0))
            list[m++] = list[i];
    return m;
}
