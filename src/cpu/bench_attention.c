/* bench_attention.c - attention over pages: one token after 4096, and 512 tokens after none; 8 kv heads of 128 with 4
 * query heads each. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cpu/bench_run.h"

enum { HEAD_DIM = 128, KV_HEADS = 8, GROUP = 4, MANY = 512, CONTEXT = 4096, BLOCKS = CONTEXT / QR_PAGE };
enum { STRIDE = KV_HEADS * GROUP * HEAD_DIM, TILE = QR_ATTN_ROWS / GROUP };

struct work {
    const struct qr_bench *bench;
    struct qr_kv kv;
    int n_token;
    float *q, *y, *scratch; /* q, y [MANY, STRIDE]; scratch of each worker */
    int32_t position[MANY], table[BLOCKS];
    atomic_int next;
};

int qr_bench_attention_count(void)
{
    return 6;
}

static void run_item(const struct work *w, const struct qr_cpu_table *table, int item, int worker)
{
    int head = item % KV_HEADS, t = item / KV_HEADS * TILE, left = w->n_token - t;
    size_t at = (size_t)t * STRIDE + (size_t)head * GROUP * HEAD_DIM;
    struct qr_attn_job job = {.q = w->q + at,
                              .y = w->y + at,
                              .q_stride = STRIDE,
                              .y_stride = STRIDE,
                              .position = w->position + t,
                              .n_token = left < TILE ? left : TILE,
                              .group = GROUP,
                              .kv = &w->kv,
                              .page_offset = (uint64_t)head * w->kv.head_bytes,
                              .block_table = w->table,
                              .scale = 0.088f,
                              .segment1 = INT32_MAX,
                              .scratch = w->scratch + (size_t)worker * ((qr_attn_scratch(HEAD_DIM) + 15) & ~15u)};
    table->attention(&job);
}

static void run(void *ctx, int worker, int n_worker)
{
    struct work *w = ctx;
    int n = (w->n_token + TILE - 1) / TILE * KV_HEADS, i;
    (void)n_worker;
    while ((i = atomic_fetch_add(&w->next, 1)) < n)
        run_item(w, w->bench->table, n - 1 - i, worker);
    qr_pool_barrier(w->bench->pool); /* the counter is used up */
    if (worker == 0)
        atomic_store(&w->next, 0);
}

/* The last token's first group of heads against the plain C kernel. */
static double error_of(struct work *w)
{
    int last = (w->n_token - 1) / TILE * KV_HEADS;
    size_t at = (size_t)((w->n_token - 1) * STRIDE);
    float got[GROUP * HEAD_DIM];
    double want[GROUP * HEAD_DIM];
    memcpy(got, w->y + at, sizeof got);
    run_item(w, qr_cpu_table(QR_ISA_C), last, 0);
    for (int i = 0; i < GROUP * HEAD_DIM; i++)
        want[i] = (double)w->y[at + (size_t)i];
    return qr_bench_error(got, want, GROUP * HEAD_DIM);
}

static void set_type(struct work *w, enum qr_dtype type)
{
    uint32_t size = type == QR_F32 ? 4 : 2;
    w->kv = (struct qr_kv){.data = w->bench->memory,
                           .type = type,
                           .head_dim = HEAD_DIM,
                           .v_stride = HEAD_DIM,
                           .v_offset = 16 * HEAD_DIM * size,
                           .head_bytes = 32 * HEAD_DIM * size,
                           .layer_bytes = KV_HEADS * 32 * HEAD_DIM * size,
                           .block_bytes = KV_HEADS * 32 * HEAD_DIM * size};
    float x[16];
    for (uint64_t i = 0; i < w->kv.block_bytes * BLOCKS; i += 16 * size) {
        qr_bench_random(x, 16, (uint32_t)i);
        qr_quant(type, x, w->bench->memory + i, 16);
    }
}

static void measure(struct qr_bench *bench, struct work *w, int n_token)
{
    struct qr_bench_row row = {.kernel = "ATTENTION", .n_token = n_token};
    double pairs = 0, bytes;
    w->n_token = n_token;
    w->next = 0;
    for (int t = 0; t < n_token; t++) {
        w->position[t] = n_token == 1 ? CONTEXT - 1 : t;
        pairs += w->position[t] + 1;
    }
    row.seconds = qr_bench_time(bench, run, w);
    row.error = error_of(w);
    snprintf(row.variant, sizeof row.variant, "%s", qr_dtype_info(w->kv.type)->name);
    snprintf(row.shape, sizeof row.shape, "[%d, %d/%d, %d]", n_token == 1 ? CONTEXT : MANY, KV_HEADS * GROUP, KV_HEADS,
             HEAD_DIM);
    bytes = (double)w->kv.block_bytes * (n_token == 1 ? CONTEXT : MANY) / QR_PAGE;
    qr_bench_add(bench, row, bytes, pairs * 4 * HEAD_DIM * KV_HEADS * GROUP, false);
}

enum qr_status qr_bench_attention(struct qr_bench *bench, struct qr_err *err)
{
    static const enum qr_dtype types[] = {QR_F32, QR_F16, QR_BF16};
    size_t scratch = (qr_attn_scratch(HEAD_DIM) + 15) & ~15u;
    struct work *w = calloc(1, sizeof *w);
    float *q = qr_bench_alloc((size_t)MANY * STRIDE * 4), *y = qr_bench_alloc((size_t)MANY * STRIDE * 4);
    float *s = qr_bench_alloc((size_t)qr_pool_size(bench->pool) * scratch * 4);
    enum qr_status status = QR_OK;
    if (!w || !q || !y || !s)
        status = qr_fail(err, QR_NOMEM, "out of memory for measuring attention");
    for (int i = 0; i < 6 && status == QR_OK; i++) {
        if (!qr_bench_go_on(bench)) {
            status = qr_fail(err, QR_CANCELLED, "stopped");
            break;
        }
        if (i == 0) {
            w->bench = bench;
            w->q = q;
            w->y = y;
            w->scratch = s;
            qr_bench_random(q, (size_t)MANY * STRIDE, 6);
            for (int b = 0; b < BLOCKS; b++)
                w->table[b] = b * 5 % BLOCKS;
        }
        if (i % 2 == 0)
            set_type(w, types[i / 2]);
        measure(bench, w, i % 2 == 0 ? 1 : MANY);
    }
    free(w);
    free(q);
    free(y);
    free(s);
    return status;
}
