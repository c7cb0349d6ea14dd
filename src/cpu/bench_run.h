/* bench_run.h - shared by bench.c and its parts: timing a piece of work on all threads. */
#ifndef QR_CPU_BENCH_RUN_H
#define QR_CPU_BENCH_RUN_H
#include "base/arena.h"
#include "cpu/bench.h"
#include "cpu/kernel.h"

struct qr_bench {
    struct qr_pool *pool;
    const struct qr_cpu_table *table;
    double seconds; /* of each row */
    struct qr_bench_peak peak;
    struct qr_bench_row *row;
    struct qr_bench_cost *cost; /* [QR_BENCH_MAX] of each row */
    int n_row, n_planned;
    bool (*progress)(void *ctx, int done, int total);
    void *ctx;
    uint8_t *memory; /* [QR_BENCH_MEMORY], 2 MiB aligned: weights or pages */
};

#define QR_BENCH_MEMORY (UINT64_C(128) << 20)

/* The least time of fn on all threads. */
double qr_bench_time(struct qr_bench *bench, void (*fn)(void *ctx, int worker, int n_worker), void *ctx);
/* A new row, its rates and share left for the end; bytes and flops are of one call over all threads. integer: which peak flops go against. */
void qr_bench_add(struct qr_bench *bench, struct qr_bench_row row, double bytes, double flops, bool integer);
bool qr_bench_go_on(struct qr_bench *bench);
void qr_bench_random(float *x, size_t n, uint32_t seed); /* in [-1, 1) */
double qr_bench_error(const float *got, const double *want, size_t n);
void *qr_bench_alloc(size_t n); /* aligned to 64; NULL when out of memory */

enum qr_status qr_bench_linear(struct qr_bench *bench, struct qr_err *err);
enum qr_status qr_bench_rows(struct qr_bench *bench, struct qr_err *err);
enum qr_status qr_bench_attention(struct qr_bench *bench, struct qr_err *err);
int qr_bench_linear_count(void);
int qr_bench_rows_count(void);
int qr_bench_attention_count(void);
#endif
