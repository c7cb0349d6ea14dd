/* bench.h - a line of `quire bench kernels`: one kernel at one shape, on whatever device. */
#ifndef QR_BASE_BENCH_H
#define QR_BASE_BENCH_H

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

#endif
