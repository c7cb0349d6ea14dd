/* bench.c - peaks of the machine, timing, and the order of what is measured. */
#include "cpu/bench.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "cpu/bench_run.h"
#include "cpu/exec.h"

#define CACHE_BYTES (64.0 * (1 << 20)) /* less may stay in a cache from call to call */

/* As often as fits, once at least: plain C's longest calls take as much as the whole budget. */
double qr_bench_time(struct qr_bench *bench, void (*fn)(void *ctx, int worker, int n_worker), void *ctx)
{
    double begin = qr_now_s(), least = INFINITY;
    for (int i = 0; i == 0 || (i < 1000000 && qr_now_s() - begin < bench->seconds); i++) {
        double start = qr_now_s();
        qr_pool_run(bench->pool, fn, ctx);
        double t = qr_now_s() - start;
        least = t < least ? t : least;
    }
    return least;
}

void qr_bench_add(struct qr_bench *bench, struct qr_bench_row row, double bytes, double flops, bool integer)
{
    if (bench->n_row == QR_BENCH_MAX)
        return;
    bench->cost[bench->n_row] = (struct qr_bench_cost){bytes, flops, bytes >= CACHE_BYTES, integer};
    bench->row[bench->n_row++] = row;
}

static void fill_shares(struct qr_bench *bench)
{
    struct qr_bench_peak *peak = &bench->peak;
    struct qr_bench_ceiling ceiling = {peak->read_gb_s, {peak->f32_gflop_s, peak->i16_gflop_s}};
    qr_bench_shares(bench->row, bench->cost, bench->n_row, &ceiling);
    *peak = (struct qr_bench_peak){ceiling.gb_s, ceiling.gflop_s[0], ceiling.gflop_s[1]};
}

bool qr_bench_go_on(struct qr_bench *bench)
{
    return !bench->progress || bench->progress(bench->ctx, bench->n_row, bench->n_planned);
}

/* A linear congruential generator (Knuth, TAOCP 2, 3.3.4): quality does not matter here. */
void qr_bench_random(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) * 0x1p-23f - 1.0f;
    }
}

double qr_bench_error(const float *got, const double *want, size_t n)
{
    double worst = 0, largest = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - want[i]);
        worst = d > worst || isnan(d) ? d : worst;
        largest = fabs(want[i]) > largest ? fabs(want[i]) : largest;
    }
    return largest > 0 ? worst / largest : worst;
}

void *qr_bench_alloc(size_t n)
{
    return aligned_alloc(64, (n + 63) / 64 * 64);
}

/* ---------------------------------------------------------------- peaks */

struct peak {
    const struct qr_bench *bench;
    bool integer;
    int64_t rounds;
    double products[256]; /* of each worker */
    double sink[256];
};

static void read_part(void *ctx, int worker, int n_worker)
{
    struct peak *p = ctx;
    uint64_t each = QR_BENCH_MEMORY / (uint64_t)n_worker / 256 * 256;
    p->sink[worker] = p->bench->table->read_sum(p->bench->memory + each * (uint64_t)worker, each);
}

static void multiply(void *ctx, int worker, int n_worker)
{
    struct peak *p = ctx;
    (void)n_worker;
    p->sink[worker] = p->bench->table->fma_peak(p->rounds, p->integer, &p->products[worker]);
}

static double measure_products(struct qr_bench *bench, struct peak *peak, bool integer)
{
    double all = 0;
    peak->integer = integer;
    peak->rounds = 20000;
    double seconds = qr_bench_time(bench, multiply, peak);
    for (int i = 0; i < qr_pool_size(bench->pool); i++)
        all += peak->products[i];
    return 2 * all / seconds * 1e-9;
}

/* Again at the end, and the better counts: a machine shared with others shows its ceiling only at times. */
static enum qr_status measure_peaks(struct qr_bench *bench, struct qr_err *err)
{
    struct peak *peak = calloc(1, sizeof *peak);
    if (!peak)
        return qr_fail(err, QR_NOMEM, "out of memory for measuring peaks");
    peak->bench = bench;
    double f32 = measure_products(bench, peak, false), i16 = measure_products(bench, peak, true);
    bench->peak.f32_gflop_s = fmax(bench->peak.f32_gflop_s, f32);
    bench->peak.i16_gflop_s = fmax(bench->peak.i16_gflop_s, i16);
    uint64_t n_worker = (uint64_t)qr_pool_size(bench->pool);
    uint64_t bytes = QR_BENCH_MEMORY / n_worker / 256 * 256 * n_worker;
    double read = (double)bytes / qr_bench_time(bench, read_part, peak) * 1e-9;
    bench->peak.read_gb_s = fmax(bench->peak.read_gb_s, read);
    free(peak);
    return QR_OK;
}

/* ---------------------------------------------------------------- the whole */

static enum qr_status begin(struct qr_bench *bench, struct qr_err *err)
{
    bench->memory = qr_cpu_alloc(QR_BENCH_MEMORY, "weights to measure with", err);
    if (!bench->memory)
        return QR_NOMEM;
    memset(bench->memory, 1, QR_BENCH_MEMORY);
    return measure_peaks(bench, err);
}

enum qr_status qr_cpu_bench_peaks(struct qr_pool *pool, enum qr_isa isa, double seconds, struct qr_bench_peak *peak,
                                  struct qr_err *err)
{
    struct qr_bench bench = {.pool = pool, .table = qr_cpu_table(isa), .seconds = seconds};
    enum qr_status status = begin(&bench, err);
    free(bench.memory);
    *peak = bench.peak;
    return status;
}

enum qr_status qr_cpu_bench_kernels(struct qr_pool *pool, enum qr_isa isa, double seconds,
                                    bool (*progress)(void *ctx, int done, int total), void *ctx,
                                    struct qr_bench_peak *peak, struct qr_bench_row row[QR_BENCH_MAX], int *n,
                                    struct qr_err *err)
{
    *n = 0;
    if (!qr_isa_runs_here(isa))
        return qr_fail(err, QR_UNSUPPORTED, "this CPU does not run %s kernels", qr_isa_name(isa));
    struct qr_bench_cost cost[QR_BENCH_MAX];
    struct qr_bench bench = {.pool = pool,
                             .table = qr_cpu_table(isa),
                             .seconds = seconds,
                             .row = row,
                             .cost = cost,
                             .progress = progress,
                             .ctx = ctx,
                             .n_planned = qr_bench_linear_count() + qr_bench_rows_count() + qr_bench_attention_count()};
    enum qr_status status = begin(&bench, err);
    if (status == QR_OK)
        status = qr_bench_linear(&bench, err);
    if (status == QR_OK)
        status = qr_bench_rows(&bench, err);
    if (status == QR_OK)
        status = qr_bench_attention(&bench, err);
    if (status == QR_OK)
        status = measure_peaks(&bench, err);
    fill_shares(&bench);
    free(bench.memory);
    *peak = bench.peak;
    *n = bench.n_row;
    return status;
}
