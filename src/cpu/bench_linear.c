/* bench_linear.c - LINEAR's kernels: one token against weights that no cache holds, 8 and 192 tokens against a smaller
 * matrix. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/half.h"
#include "base/pack.h"
#include "cpu/bench_run.h"
#include "cpu/exec.h"

enum { COLS = 4096, N_T = 3 };
enum { MANY = 192 }; /* whole chunks of any type, few enough for plain C: a call is some 0.2 s there */
static const int tokens[N_T] = {1, 8, MANY};

struct linear {
    const struct qr_bench *bench;
    enum qr_dtype type;
    struct qr_act act;
    float *x, *y; /* x [MANY, COLS]; y [tokens, rows] */
    int n_panel;
    uint64_t panel_bytes;
    atomic_int next; /* group of panels */
};

int qr_bench_linear_count(void)
{
    return QR_N_DTYPE * N_T;
}

/* 16 rows of random codes with scales that keep values near 1. */
static void fill_panel(enum qr_dtype type, uint8_t *rows, uint8_t *panel)
{
    const struct qr_dtype_info *info = qr_dtype_info(type);
    uint64_t row_bytes = qr_row_bytes(type, COLS);
    uint32_t seed = 7;
    for (uint64_t i = 0; i < row_bytes * 16; i++) {
        seed = seed * 1664525u + 1013904223u;
        rows[i] = (uint8_t)(seed >> 24);
    }
    const uint16_t scale = qr_f32_to_f16(0.01f);
    for (uint64_t b = 0; b < row_bytes * 16; b += info->block_bytes) {
        uint8_t *block = rows + b;
        if (info->block == 1) { /* an exponent near 1 */
            float v = (float)(block[0]) / 128 - 1;
            qr_quant(type, &v, block, 1);
        } else if (type == QR_I8S || type == QR_F8S || type == QR_FP8) {
            const float unit = 0x1p-7f;
            const uint16_t half = qr_f32_to_bf16(unit);
            memcpy(block, &unit, 4);
            if (type == QR_FP8)
                memcpy(block, &half, 2);
            for (uint32_t i = type == QR_FP8 ? 2 : 4; i < info->block_bytes; i++)
                block[i] &= 0x37; /* no NaN of E4M3 */
        } else if (type == QR_MXFP4) {
            block[0] = 120; /* 2^-8 */
        } else if (type == QR_Q6_K || type == QR_Q3_K || type == QR_Q2_K) {
            memcpy(block + info->block_bytes - 2, &scale, 2);
            if (type == QR_Q2_K)
                memcpy(block + 80, &scale, 2);
        } else {
            memcpy(block, &scale, 2);
            if (type == QR_Q4_1 || type == QR_Q5_1 || type == QR_Q4_K || type == QR_Q5_K)
                memcpy(block + 2, &scale, 2);
        }
    }
    qr_pack_panel(type, COLS, rows, 16, panel);
}

static void run(void *ctx, int worker, int n_worker)
{
    struct linear *l = ctx;
    int group = l->n_panel / (n_worker * 8) + 1;
    (void)worker;
    for (;;) {
        int first = atomic_fetch_add(&l->next, 1) * group;
        if (first >= l->n_panel)
            break;
        for (int t = 0; t < l->act.n_token; t += l->act.chunk) {
            int left = l->act.n_token - t;
            struct qr_dot job = {.panel = l->bench->memory + (uint64_t)first * l->panel_bytes,
                                 .panel_bytes = l->panel_bytes,
                                 .n_panel = l->n_panel - first < group ? l->n_panel - first : group,
                                 .act = &l->act,
                                 .t0 = t,
                                 .nt = left < l->act.chunk ? left : l->act.chunk,
                                 .y = l->y + (size_t)t * (size_t)l->n_panel * 16 + (size_t)first * 16,
                                 .y_stride = (size_t)l->n_panel * 16};
            job.n_row = job.n_panel * 16;
            l->bench->table->dot[l->type](&job);
        }
    }
}

static void run_all(void *ctx, int worker, int n_worker)
{
    struct linear *l = ctx;
    run(ctx, worker, n_worker);
    qr_pool_barrier(l->bench->pool); /* the counter is used up */
    if (worker == 0)
        atomic_store(&l->next, 0);
}

/* The first panel's rows for the last token. */
static double error_of(const struct linear *l)
{
    float *w = malloc(COLS * sizeof *w);
    double want[16];
    const float *x = l->x + (size_t)(l->act.n_token - 1) * COLS;
    if (!w)
        return -1;
    for (int r = 0; r < 16; r++) {
        qr_unpack_row(l->type, COLS, l->bench->memory, r, w);
        want[r] = 0;
        for (int c = 0; c < COLS; c++)
            want[r] += (double)w[c] * (double)x[c];
    }
    free(w);
    return qr_bench_error(l->y + (size_t)(l->act.n_token - 1) * (size_t)l->n_panel * 16, want, 16);
}

static void measure(struct qr_bench *bench, struct linear *l, int n_token)
{
    struct qr_bench_row row = {.kernel = "LINEAR", .n_token = n_token};
    bool is_float = qr_cpu_type_is_float(l->type);
    l->n_panel = n_token == 1 ? (int)(QR_BENCH_MEMORY / l->panel_bytes) : 64;
    l->act.n_token = n_token;
    l->act.chunk = is_float ? 24 : 48;
    l->next = 0;
    bench->table->act_i16(&l->act, l->x, COLS, 0, n_token);
    bench->table->act_f32(&l->act, l->x, COLS, 0, n_token);
    row.seconds = qr_bench_time(bench, run_all, l);
    row.error = error_of(l);
    snprintf(row.variant, sizeof row.variant, "%s", qr_dtype_info(l->type)->name);
    snprintf(row.shape, sizeof row.shape, "[%d, %d]", l->n_panel * 16, COLS);
    qr_bench_add(bench, row, (double)l->n_panel * (double)l->panel_bytes, 2.0 * n_token * l->n_panel * 16 * COLS,
                 !is_float);
}

enum qr_status qr_bench_linear(struct qr_bench *bench, struct qr_err *err)
{
    size_t blocks = (size_t)MANY * COLS / QR_ACT_BLOCK, most_rows = QR_BENCH_MEMORY / (COLS / 2);
    struct linear l = {.bench = bench, .act = {.n_col = COLS, .n_block = COLS / QR_ACT_BLOCK}};
    l.act.code = qr_bench_alloc(blocks * QR_ACT_BLOCK * 2);
    l.act.meta = qr_bench_alloc(blocks * sizeof *l.act.meta);
    l.act.f32 = qr_bench_alloc(blocks * QR_ACT_BLOCK * 4);
    l.x = qr_bench_alloc((size_t)MANY * COLS * 4);
    l.y = qr_bench_alloc((most_rows > (size_t)MANY * 1024 ? most_rows : (size_t)MANY * 1024) * 4);
    uint8_t *rows = malloc(qr_row_bytes(QR_F32, COLS) * 16);
    enum qr_status status = QR_OK;
    if (!l.act.code || !l.act.meta || !l.act.f32 || !l.x || !l.y || !rows)
        status = qr_fail(err, QR_NOMEM, "out of memory for measuring LINEAR");
    else
        qr_bench_random(l.x, (size_t)MANY * COLS, 1);
    for (int type = 0; type < QR_N_DTYPE && status == QR_OK; type++) {
        l.type = type;
        l.panel_bytes = qr_panel_bytes(type, COLS);
        fill_panel(type, rows, bench->memory);
        for (uint64_t at = l.panel_bytes; at + l.panel_bytes <= QR_BENCH_MEMORY; at += l.panel_bytes)
            memcpy(bench->memory + at, bench->memory, l.panel_bytes);
        for (int i = 0; i < N_T && status == QR_OK; i++) {
            if (!qr_bench_go_on(bench))
                status = qr_fail(err, QR_CANCELLED, "stopped");
            else
                measure(bench, &l, tokens[i]);
        }
    }
    free(l.act.code);
    free(l.act.meta);
    free(l.act.f32);
    free(l.x);
    free(l.y);
    free(rows);
    return status;
}
