/* bench.h - a line of `quire bench kernels`: one kernel at one shape, on whatever device. */
#ifndef QR_BASE_BENCH_H
#define QR_BASE_BENCH_H
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct qr_bench_row {
    char kernel[16];  /* "LINEAR", "RMSNORM" */
    char variant[16]; /* weight or page type: "Q4_1"; "" */
    char shape[40];   /* "[49152, 576]" */
    int n_token;
    double seconds; /* of one call */
    double gb_s;    /* weights, pages or activations read and written */
    double gflop_s; /* 0 where it says nothing */
    double share;   /* of the peak that binds: gb_s (where no cache can hold the data) or gflop_s; 0: neither */
    double error;   /* largest difference from plain C in double, over the largest result */
    double peer;    /* seconds of another library's kernel for the same; 0: there is none */
};

#define QR_BENCH_MAX 128 /* rows */

/* What one call of a row's kernel moves and computes. */
struct qr_bench_cost {
    double bytes, flops;
    bool from_memory; /* the bytes: no cache holds them */
    int unit;         /* index into the ceiling's gflop_s of what computes them */
};

/* What a device gives at most. */
struct qr_bench_ceiling {
    double gb_s;       /* reading memory */
    double gflop_s[2]; /* products of each unit: fp32 and int16 of a CPU, or one alone */
};

/* Fills rates from seconds and cost, and shares: of the ceiling that is nearer. A row, or its peer, that beat what was
 * measured as ceiling is the better measurement of it. */
void qr_bench_shares(struct qr_bench_row *row, const struct qr_bench_cost *cost, int n,
                     struct qr_bench_ceiling *ceiling);

#ifdef __cplusplus
}
#endif

#endif
