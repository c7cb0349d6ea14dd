/* bench.h - the CPU kernels timed and checked one by one: what `quire bench kernels` prints. */
#ifndef QR_CPU_BENCH_H
#define QR_CPU_BENCH_H
#include "cpu/cpu.h"

/* What the machine gives all threads together, measured in the same run. */
struct qr_bench_peak {
    double read_gb_s;   /* reading a region that no cache holds */
    double f32_gflop_s; /* fp32 multiply-adds, two operations each */
    double i16_gflop_s; /* int16 products summed in int32, two operations each */
};

struct qr_bench_row {
    char kernel[16];  /* "LINEAR", "RMSNORM" */
    char variant[16]; /* weight or page type: "Q4_1"; "" */
    char shape[40];   /* "[49152, 576]" */
    int n_token;
    double seconds; /* of one call, the least of several */
    double gb_s;    /* weights, pages or activations read and written */
    double gflop_s; /* 0 where it says nothing */
    double share;   /* of the peak that binds: gb_s (where no cache can hold the data) or gflop_s; 0: neither */
    double error;   /* largest difference from plain C in double, over the largest result */
};

#define QR_BENCH_MAX 128

/* The peaks alone, about seconds for each; isa must run here. Takes some 300 MiB meanwhile. */
enum qr_status qr_cpu_bench_peaks(struct qr_pool *pool, enum qr_isa isa, double seconds, struct qr_bench_peak *peak,
                                  struct qr_err *err);

/* Runs every kernel on all threads of pool, about seconds for each row. Calls progress (may be NULL) before each; false
 * stops it (QR_CANCELLED). *n rows of at most QR_BENCH_MAX are filled. Takes some 300 MiB meanwhile. */
enum qr_status qr_cpu_bench_kernels(struct qr_pool *pool, enum qr_isa isa, double seconds,
                                    bool (*progress)(void *ctx, int done, int total), void *ctx,
                                    struct qr_bench_peak *peak, struct qr_bench_row row[QR_BENCH_MAX], int *n,
                                    struct qr_err *err);
#endif
