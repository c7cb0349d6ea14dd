/* test_attention.c - attention over pages of every instruction set that runs here, against softmax in double; the same
 * bits in any tile and when segments are split and merged; what lies behind the last token (NaN here) is not read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "cpu/data.h"
#include "cpu/kernel.h"

enum { N_BLOCK = 64, KV_HEADS = 2, MAX_LEN = 700 };

struct shape {
    enum qr_dtype type;
    uint32_t head_dim;
    int group; /* query heads of a kv head */
    int len;   /* tokens in the cache */
    int window;
    float soft_cap;
};

struct cache {
    struct qr_kv kv;
    int32_t table[N_BLOCK];
    float *k, *v; /* [len][KV_HEADS][head_dim], as the pages hold them, rounded */
};

static float load(enum qr_dtype type, const uint8_t *p)
{
    float x;
    qr_dequant(type, p, &x, 1);
    return x;
}

/* Pages in random order, filled with NaN, then stored token by token through the table's own kernel. */
static void cache_make(struct cache *c, const struct qr_cpu_table *table, const struct shape *s)
{
    uint32_t size = s->type == QR_F32 ? 4 : 2, v_stride = (s->head_dim + 15) & ~15u;
    c->kv = (struct qr_kv){.type = s->type, .head_dim = s->head_dim, .v_stride = v_stride};
    c->kv.v_offset = 16 * s->head_dim * size;
    c->kv.head_bytes = 16 * (s->head_dim + v_stride) * size;
    c->kv.layer_bytes = c->kv.head_bytes * KV_HEADS;
    c->kv.block_bytes = c->kv.layer_bytes;
    c->kv.data = aligned_alloc(64, c->kv.block_bytes * N_BLOCK);
    memset(c->kv.data, 0xff, c->kv.block_bytes * N_BLOCK); /* NaN in every type */
    for (int i = 0; i < N_BLOCK; i++)
        c->table[i] = (i * 37 + 11) % N_BLOCK;
    size_t row = KV_HEADS * (size_t)s->head_dim, n = (size_t)s->len * row;
    c->k = malloc(n * 4);
    c->v = malloc(n * 4);
    fill_normal(1, c->k, n);
    fill_normal(2, c->v, n);
    for (int t = 0; t < s->len; t++) {
        int32_t slot = c->table[t / 16] * 16 + t % 16;
        struct qr_rope_job job = {.t1 = 1,
                                  .k = c->k + (size_t)t * row,
                                  .v = c->v + (size_t)t * row,
                                  .n_kv_head = KV_HEADS,
                                  .head_dim = s->head_dim,
                                  .slot = &slot,
                                  .kv = &c->kv,
                                  .store = true};
        table->rope_store(&job);
    }
    for (int t = 0; t < s->len; t++) /* what was rounded on the way in */
        for (uint32_t h = 0; h < KV_HEADS; h++)
            for (uint32_t d = 0; d < s->head_dim; d++) {
                const uint8_t *page =
                    c->kv.data + (uint64_t)c->table[t / 16] * c->kv.block_bytes + h * c->kv.head_bytes;
                size_t i = (size_t)t * row + h * s->head_dim + d;
                c->k[i] = load(s->type, page + (d * 16 + (uint32_t)t % 16) * size);
                c->v[i] = load(s->type, page + c->kv.v_offset + ((uint32_t)t % 16 * v_stride + d) * size);
            }
}

static void cache_free(struct cache *c)
{
    free(c->kv.data);
    free(c->k);
    free(c->v);
}

/* y [head_dim] of one query in double. */
static void naive(const struct cache *c, const struct shape *s, const float *q, int position, uint32_t kv_head,
                  float scale, double *y)
{
    double score[MAX_LEN], most = -INFINITY, sum = 0;
    size_t row = KV_HEADS * (size_t)s->head_dim, head = (size_t)kv_head * s->head_dim;
    int first = s->window > 0 && position - s->window + 1 > 0 ? position - s->window + 1 : 0;
    for (int j = first; j <= position; j++) {
        double dot = 0;
        for (uint32_t d = 0; d < s->head_dim; d++)
            dot += (double)q[d] * (double)c->k[(size_t)j * row + head + d];
        score[j] = dot * (double)scale;
        if (s->soft_cap > 0)
            score[j] = (double)s->soft_cap * tanh(score[j] / (double)s->soft_cap);
        most = score[j] > most ? score[j] : most;
    }
    for (uint32_t d = 0; d < s->head_dim; d++)
        y[d] = 0;
    for (int j = first; j <= position; j++) {
        double p = exp(score[j] - most);
        sum += p;
        for (uint32_t d = 0; d < s->head_dim; d++)
            y[d] += p * (double)c->v[(size_t)j * row + head + d];
    }
    for (uint32_t d = 0; d < s->head_dim; d++)
        y[d] /= sum;
}

/* Queries at n consecutive positions from `position` on; q and y [n][KV_HEADS * group * head_dim]. */
static struct qr_attn_job job_of(const struct cache *c, const struct shape *s, const float *q, float *y,
                                 const int32_t *position, int n, uint32_t kv_head, float scale, float *scratch)
{
    size_t stride = (size_t)(KV_HEADS * s->group) * s->head_dim,
           first = (size_t)kv_head * (size_t)s->group * s->head_dim;
    return (struct qr_attn_job){.q = q + first,
                                .y = y + first,
                                .q_stride = stride,
                                .y_stride = stride,
                                .position = position,
                                .n_token = n,
                                .group = s->group,
                                .kv = &c->kv,
                                .page_offset = kv_head * c->kv.head_bytes,
                                .block_table = c->table,
                                .scale = scale,
                                .soft_cap = s->soft_cap,
                                .window = s->window,
                                .segment1 = INT32_MAX,
                                .scratch = scratch};
}

/* One token in single segments, merged: y of one kv head's group. */
static void split(const struct qr_cpu_table *table, const struct shape *s, struct qr_attn_job job, float *scratch)
{
    size_t unit = 2 + (size_t)job.kv->v_stride, segment = (size_t)s->group * unit;
    int n = job.position[0] / QR_SEGMENT + 1, first = qr_attn_first(job.position[0], s->window) / QR_SEGMENT;
    float *partial = malloc((size_t)n * segment * 4), *y = job.y;
    for (int i = n - 1; i >= 0; i--) {
        job.segment0 = i;
        job.segment1 = i + 1;
        job.partial = partial + (size_t)i * segment;
        table->attention(&job);
    }
    for (int h = 0; h < s->group; h++) {
        struct qr_attn_merge_job merge = {.partial = partial + (size_t)first * segment + (size_t)h * unit,
                                          .partial_stride = segment,
                                          .segment0 = first,
                                          .segment1 = n,
                                          .head_dim = s->head_dim,
                                          .v_stride = job.kv->v_stride,
                                          .y = y + (size_t)h * s->head_dim,
                                          .scratch = scratch};
        table->attention_merge(&merge);
    }
    free(partial);
}

static void check(const struct qr_cpu_table *table, const struct shape *s, int isa)
{
    struct cache c;
    int n = QR_ATTN_ROWS / s->group < s->len ? QR_ATTN_ROWS / s->group : s->len;
    size_t stride = (size_t)(KV_HEADS * s->group) * s->head_dim, bytes = (size_t)n * stride * 4;
    float *q = malloc(bytes), *y = malloc(bytes), *alone = malloc(bytes), scale = 1 / sqrtf((float)s->head_dim);
    int32_t position[QR_ATTN_ROWS];
    cache_make(&c, table, s);
    float *scratch = aligned_alloc(64, (qr_attn_scratch(c.kv.v_stride) * 4 + 63) / 64 * 64);
    double *want = malloc(s->head_dim * sizeof *want), worst = 0;
    fill_normal(3, q, (size_t)n * stride);
    for (int i = 0; i < n; i++)
        position[i] = s->len - n + i;
    memset(scratch, 0xff, qr_attn_scratch(c.kv.v_stride) * 4);
    for (uint32_t h = 0; h < KV_HEADS; h++) {
        struct qr_attn_job job = job_of(&c, s, q, y, position, n, h, scale, scratch);
        table->attention(&job);
    }
    for (int i = 0; i < n; i++)
        for (int h = 0; h < KV_HEADS * s->group; h++) {
            size_t at = (size_t)i * stride + (size_t)h * s->head_dim;
            naive(&c, s, q + at, position[i], (uint32_t)(h / s->group), scale, want);
            for (uint32_t d = 0; d < s->head_dim; d++) {
                double error = fabs((double)y[at + d] - want[d]);
                if (!(error < 5e-6))
                    fail_msg("%s %s head_dim %u group %d len %d window %d cap %g: token %d head %d [%u] is %g, not %g",
                             qr_isa_name(isa), qr_dtype_info(s->type)->name, s->head_dim, s->group, s->len, s->window,
                             (double)s->soft_cap, i, h, d, (double)y[at + d], want[d]);
                worst = error > worst ? error : worst;
            }
        }
    /* every token alone, whole and split; and two together */
    for (int way = 0; way < 3; way++) {
        memset(alone, 0, bytes);
        for (int i = 0; i < n; i += way == 2 ? 2 : 1)
            for (uint32_t h = 0; h < KV_HEADS; h++) {
                size_t at = (size_t)i * stride;
                int together = way == 2 && i + 1 < n ? 2 : 1;
                struct qr_attn_job job = job_of(&c, s, q + at, alone + at, position + i, together, h, scale, scratch);
                if (way == 1)
                    split(table, s, job, scratch);
                else
                    table->attention(&job);
            }
        assert_memory_equal(alone, y, bytes);
    }
    cache_free(&c);
    free(q);
    free(y);
    free(alone);
    free(scratch);
    free(want);
}

static void attention(void **state)
{
    static const struct shape shapes[] = {
        {QR_F32, 64, 3, 1, 0, 0},     {QR_F32, 64, 3, 17, 0, 0},   {QR_F32, 64, 3, 600, 0, 0},
        {QR_F16, 64, 3, 530, 0, 0},   {QR_BF16, 64, 3, 270, 0, 0}, {QR_F16, 128, 6, 300, 0, 0},
        {QR_BF16, 128, 1, 257, 0, 0}, {QR_F32, 16, 2, 70, 24, 0},  {QR_F32, 64, 4, 600, 300, 0},
        {QR_F16, 64, 4, 600, 100, 0}, {QR_F32, 80, 5, 256, 0, 30}, {QR_F16, 256, 8, 520, 256, 50},
        {QR_F32, 2, 7, 40, 1, 0},     {QR_BF16, 20, 32, 33, 0, 0}, {QR_F16, 512, 2, 20, 0, 0},
    };
    (void)state;
    for (int isa = 0; isa < QR_N_ISA; isa++)
        for (size_t i = 0; qr_isa_runs_here(isa) && i < sizeof shapes / sizeof *shapes; i++)
            check(qr_cpu_table(isa), &shapes[i], isa);
}

/* A NaN in the query shows, and in that row only. */
static void nan_query(void **state)
{
    (void)state;
    for (int isa = 0; isa < QR_N_ISA; isa++) {
        if (!qr_isa_runs_here(isa))
            continue;
        const struct qr_cpu_table *table = qr_cpu_table(isa);
        struct shape s = {QR_F32, 64, 3, 300, 0, 0};
        struct cache c;
        float q[2 * 384], y[2 * 384];
        const int32_t position[] = {298, 299};
        cache_make(&c, table, &s);
        float *scratch = aligned_alloc(64, (qr_attn_scratch(c.kv.v_stride) * 4 + 63) / 64 * 64);
        fill_normal(3, q, 2 * 384);
        q[64 + 9] = NAN; /* token 0, head 1 */
        struct qr_attn_job job = job_of(&c, &s, q, y, position, 2, 0, 0.125f, scratch);
        table->attention(&job);
        for (int t = 0; t < 2; t++)
            for (int h = 0; h < 3; h++)
                for (int d = 0; d < 64; d++)
                    assert_int_equal(isnan(y[t * 384 + h * 64 + d]) != 0, t == 0 && h == 1);
        free(scratch);
        cache_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(attention), cmocka_unit_test(nan_query)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
