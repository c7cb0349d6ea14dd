/* bench.h - the CPU kernels timed and checked one by one: what `quire bench kernels` prints. */
#ifndef QR_CPU_BENCH_H
#define QR_CPU_BENCH_H
#include "base/bench.h"
#include "cpu/cpu.h"

/* What the machine gives all threads together, measured in the same run. */
struct qr_bench_peak {
    double read_gb_s;   /* reading a region that no cache holds */
    double f32_gflop_s; /* fp32 multiply-adds, two operations each */
    double i16_gflop_s; /* int16 products summed in int32, two operations each */
};

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
