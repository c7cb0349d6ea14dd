/* bench_rows.c - the kernels that go row by row: 1 and 512 tokens of 4096 columns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cpu/bench_run.h"

enum { COLS = 4096, HEAD_DIM = 128, MANY = 512, N_T = 2, N_KERNEL = 5 };
static const int tokens[N_T] = {1, MANY};
static const char *const names[N_KERNEL] = {"RMSNORM", "ADD_RMSNORM", "ADD", "SILU_MUL", "ROPE_STORE"};
static const int passes[N_KERNEL] = {2, 5, 3, 3, 3}; /* matrices read or written */
/* An element's, as the formulas have them; exp and division count as one each: x*x and its sum, x*r*scale; the same and
 * an addition; x / (1 + exp(-x)) * y; a pair of q or k is four products and two sums, v is none. */
static const double operations[N_KERNEL] = {4, 5, 1, 5, 3};

struct rows {
    const struct qr_cpu_table *table;
    int kernel, n_token;
    float *x, *r, *y, *scale, *cos, *sin;
    int32_t *position, *slot;
    struct qr_kv kv;
};

int qr_bench_rows_count(void)
{
    return N_KERNEL * N_T;
}

static void run_range(const struct rows *w, int t0, int t1)
{
    struct qr_rows_job job = {.t0 = t0,
                              .t1 = t1,
                              .x = w->x,
                              .r = w->r,
                              .y = w->y,
                              .x_stride = COLS,
                              .r_stride = COLS,
                              .y_stride = COLS,
                              .cols = COLS,
                              .width = COLS,
                              .scale = w->scale,
                              .eps = 1e-6f};
    /* q and k in x (24 and 8 heads), v in r */
    struct qr_rope_job rope = {.t0 = t0,
                               .t1 = t1,
                               .q = w->x,
                               .k = w->x + 24 * HEAD_DIM,
                               .v = w->r,
                               .q_stride = COLS,
                               .k_stride = COLS,
                               .v_stride = COLS,
                               .n_head = 24,
                               .n_kv_head = 8,
                               .head_dim = HEAD_DIM,
                               .cos = w->cos,
                               .sin = w->sin,
                               .position = w->position,
                               .slot = w->slot,
                               .kv = &w->kv,
                               .rotate = true,
                               .store = true};
    switch (w->kernel) {
    case 0:
        w->table->rmsnorm(&job);
        break;
    case 1:
        w->table->add_rmsnorm(&job);
        break;
    case 2:
        w->table->add(&job);
        break;
    case 3:
        w->table->silu_mul(&job);
        break;
    default:
        w->table->rope_store(&rope);
        break;
    }
}

static void run(void *ctx, int worker, int n_worker)
{
    const struct rows *w = ctx;
    run_range(w, w->n_token * worker / n_worker, w->n_token * (worker + 1) / n_worker);
}

static void reset(struct rows *w)
{
    size_t n = (size_t)w->n_token * COLS;
    qr_bench_random(w->x, n, 1);
    qr_bench_random(w->r, n, 2);
    memset(w->y, 0, n * sizeof *w->y);
}

/* All of x and y against the plain C kernels. */
static double error_of(struct rows *w, const struct qr_cpu_table *table, float *got, double *want)
{
    size_t n = (size_t)w->n_token * COLS;
    double error = 0;
    for (int part = 0; part < 2; part++) {
        const float *result = part == 0 ? w->x : w->y;
        w->table = table;
        reset(w);
        run_range(w, 0, w->n_token);
        memcpy(got, result, n * sizeof *got);
        w->table = qr_cpu_table(QR_ISA_C);
        reset(w);
        run_range(w, 0, w->n_token);
        for (size_t i = 0; i < n; i++)
            want[i] = (double)result[i];
        double e = qr_bench_error(got, want, n);
        error = e > error ? e : error;
    }
    w->table = table;
    return error;
}

static enum qr_status measure(struct qr_bench *bench, struct rows *w, float *got, double *want, struct qr_err *err)
{
    for (int i = 0; i < N_KERNEL * N_T; i++) {
        if (!qr_bench_go_on(bench))
            return qr_fail(err, QR_CANCELLED, "stopped");
        struct qr_bench_row row = {.n_token = tokens[i % N_T]};
        w->kernel = i / N_T;
        w->n_token = row.n_token;
        snprintf(row.kernel, sizeof row.kernel, "%s", names[w->kernel]);
        snprintf(row.shape, sizeof row.shape, "[%d, %d]", row.n_token, COLS);
        row.error = error_of(w, bench->table, got, want);
        reset(w);
        row.seconds = qr_bench_time(bench, run, w);
        double elements = (double)row.n_token * COLS;
        qr_bench_add(bench, row, 4.0 * passes[w->kernel] * elements, operations[w->kernel] * elements, false);
    }
    return QR_OK;
}

static void fill_tables(struct rows *w)
{
    qr_bench_random(w->scale, COLS, 3);
    qr_bench_random(w->cos, (size_t)MANY * HEAD_DIM / 2, 4);
    qr_bench_random(w->sin, (size_t)MANY * HEAD_DIM / 2, 5);
    for (int i = 0; i < MANY; i++)
        w->position[i] = w->slot[i] = i;
}

enum qr_status qr_bench_rows(struct qr_bench *bench, struct qr_err *err)
{
    size_t n = (size_t)MANY * COLS * 4, table = (size_t)MANY * HEAD_DIM / 2 * 4;
    struct rows w = {.table = bench->table,
                     .x = qr_bench_alloc(n),
                     .r = qr_bench_alloc(n),
                     .y = qr_bench_alloc(n),
                     .scale = qr_bench_alloc(COLS * 4),
                     .cos = qr_bench_alloc(table),
                     .sin = qr_bench_alloc(table),
                     .position = qr_bench_alloc(MANY * 4),
                     .slot = qr_bench_alloc(MANY * 4)};
    w.kv = (struct qr_kv){.data = bench->memory,
                          .type = QR_F16,
                          .head_dim = HEAD_DIM,
                          .v_stride = HEAD_DIM,
                          .v_offset = 32 * HEAD_DIM,
                          .head_bytes = 64 * HEAD_DIM,
                          .layer_bytes = 512 * HEAD_DIM,
                          .block_bytes = 512 * HEAD_DIM};
    float *got = qr_bench_alloc(n);
    double *want = qr_bench_alloc(n * 2);
    enum qr_status status;
    if (w.x && w.r && w.y && w.scale && w.cos && w.sin && w.position && w.slot && got && want) {
        fill_tables(&w);
        status = measure(bench, &w, got, want, err);
    } else {
        status = qr_fail(err, QR_NOMEM, "out of memory for measuring norms");
    }
    void *all[] = {w.x, w.r, w.y, w.scale, w.cos, w.sin, w.position, w.slot, got, want};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    return status;
}
