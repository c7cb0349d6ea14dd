/* test_dot.c - LINEAR's kernels of every instruction set that runs here: against sums in double of the unpacked
 * weights, for all types and awkward shapes; and the same bits for a token whatever else the step holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/pack.h"
#include "cpu/data.h"
#include "cpu/kernel.h"

#define GUARD 12345.0f

struct input {
    struct qr_act act;
    float *x; /* [n_token, n_col] */
    int n_col;
};

/* chunk 0: as many tokens as there are. */
static void input_make(struct input *in, const float *x, int n_token, int n_col, int chunk)
{
    int n_block = (n_col + 31) / 32;
    size_t n = (size_t)n_token * (size_t)n_block;
    in->act = (struct qr_act){.n_token = n_token,
                              .n_col = n_col,
                              .n_block = n_block,
                              .chunk = chunk ? chunk : n_token,
                              .code = aligned_alloc(64, (n_token == 1 ? 2 : 1) * n * 64),
                              .meta = aligned_alloc(64, (n * sizeof(struct qr_act_meta) + 63) / 64 * 64),
                              .f32 = aligned_alloc(64, n * 128)};
    in->n_col = n_col;
    in->x = malloc((size_t)n_token * (size_t)n_col * 4);
    memcpy(in->x, x, (size_t)n_token * (size_t)n_col * 4);
}

static void input_free(struct input *in)
{
    free(in->act.code);
    free(in->act.meta);
    free(in->act.f32);
    free(in->x);
}

/* y [n_token, stride] of all panels. */
static void run(const struct qr_cpu_table *table, const struct test_weight *w, struct input *in, const float *bias,
                float *y, size_t stride)
{
    const struct qr_act *act = &in->act;
    int half = act->n_token / 2; /* packed in two goes, as two workers would */
    uint64_t panel = w->segment.bytes / ((w->segment.n_row + 15) / 16);
    table->act_i16(act, in->x, (size_t)in->n_col, 0, half);
    table->act_i16(act, in->x + (size_t)half * (size_t)in->n_col, (size_t)in->n_col, half, act->n_token);
    table->act_f32(act, in->x, (size_t)in->n_col, 0, act->n_token);
    for (int t = 0; t < act->n_token; t += act->chunk) {
        int left = act->n_token - t;
        struct qr_dot job = {.panel = w->segment.data,
                             .panel_bytes = panel,
                             .n_panel = (int)(w->segment.n_row + 15) / 16,
                             .act = act,
                             .t0 = t,
                             .nt = left < act->chunk ? left : act->chunk,
                             .y = y + (size_t)t * stride,
                             .y_stride = stride,
                             .n_row = (int)w->segment.n_row,
                             .bias = bias};
        table->dot[w->segment.type](&job);
    }
}

static float largest(const float *x, int n)
{
    float m = 0;
    for (int i = 0; i < n; i++)
        m = fabsf(x[i]) > m ? fabsf(x[i]) : m;
    return m;
}

/* Rounding of an activation to 15 bits is at most 1/65534 of its block's largest; the rest is fp32. */
static void check(const struct qr_cpu_table *table, enum qr_dtype type, int n_token, int n_row, int n_col)
{
    struct test_weight w;
    struct input in;
    size_t stride = (size_t)n_row + 3, n_x = (size_t)n_token * (size_t)n_col;
    float *x = malloc(n_x * 4 + 64), *bias = malloc((size_t)n_row * 4 + 64);
    float *y = malloc((size_t)n_token * stride * 4);
    test_weight_make(&w, type, 100 + (uint64_t)type, n_row, n_col);
    fill_normal(1, x, n_x);
    fill_normal(2, bias, (size_t)n_row);
    input_make(&in, x, n_token, n_col, n_token > 8 ? 8 : 0);
    for (size_t i = 0; i < (size_t)n_token * stride; i++)
        y[i] = GUARD;
    run(table, &w, &in, bias, y, stride);
    for (int t = 0; t < n_token; t++) {
        for (int r = 0; r < n_row; r++) {
            const float *a = w.dense + (size_t)r * (size_t)n_col, *b = x + (size_t)t * (size_t)n_col;
            double want = (double)bias[r], limit = 1e-6 * fabs(want) + 1e-6;
            for (int c = 0; c < n_col; c++) {
                want += (double)a[c] * (double)b[c];
                limit += 2e-6 * fabs((double)a[c] * (double)b[c]);
                if (qr_dtype_info(type)->block > 1)
                    limit += fabs((double)a[c]) * (double)largest(b + c / 32 * 32, 32) / 65534;
            }
            double got = (double)y[(size_t)t * stride + (size_t)r];
            if (!(fabs(got - want) <= limit))
                fail_msg("%s [%d, %d], %d tokens: row %d of token %d is %g, not %g", qr_dtype_info(type)->name, n_row,
                         n_col, n_token, r, t, got, want);
        }
        for (size_t r = (size_t)n_row; r < stride; r++)
            assert_true(y[(size_t)t * stride + r] == GUARD);
    }
    test_weight_free(&w);
    input_free(&in);
    free(x);
    free(bias);
    free(y);
}

static void right(void **state)
{
    static const int tokens[] = {1, 2, 3, 5, 8, 17};
    (void)state;
    for (int isa = 0; isa < QR_N_ISA; isa++) {
        if (!qr_isa_runs_here(isa))
            continue;
        for (int type = 0; type < QR_N_DTYPE; type++) {
            int block = (int)qr_dtype_info(type)->block;
            for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
                check(qr_cpu_table(isa), type, tokens[i], 32, block > 1 ? block : 32);
                check(qr_cpu_table(isa), type, tokens[i], 21, block > 1 ? block * 3 : 576);
                if (block == 1)
                    check(qr_cpu_table(isa), type, tokens[i], 5, 37);
            }
            check(qr_cpu_table(isa), type, 3, 16, 1536);
        }
    }
}

/* A token alone and among n others, in chunks of any size: equal bits. */
static void same_bits(void **state)
{
    enum { N = 19, ROW = 40 };
    (void)state;
    for (int isa = 0; isa < QR_N_ISA; isa++) {
        if (!qr_isa_runs_here(isa))
            continue;
        const struct qr_cpu_table *table = qr_cpu_table(isa);
        for (int type = 0; type < QR_N_DTYPE; type++) {
            int n_col = qr_dtype_info(type)->block == 1 ? 300 : 512;
            struct test_weight w;
            float *x = malloc((size_t)N * (size_t)n_col * 4), one[ROW], all[N * ROW];
            test_weight_make(&w, type, 5, ROW, n_col);
            fill_normal(3, x, (size_t)N * (size_t)n_col);
            for (int chunk = 1; chunk <= N; chunk += chunk < 9 ? 1 : 5) {
                struct input in;
                input_make(&in, x, N, n_col, chunk);
                run(table, &w, &in, NULL, all, ROW);
                input_free(&in);
                for (int t = 0; t < N; t++) {
                    input_make(&in, x + (size_t)t * (size_t)n_col, 1, n_col, 0);
                    run(table, &w, &in, NULL, one, ROW);
                    input_free(&in);
                    assert_memory_equal(one, all + t * ROW, sizeof one);
                }
            }
            free(x);
            test_weight_free(&w);
        }
    }
}

/* A NaN or an infinity among the activations shows in every result of that token and in no other token's. */
static void not_finite(void **state)
{
    enum { N = 5, COL = 256, ROW = 16 };
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    (void)state;
    for (int isa = 0; isa < QR_N_ISA; isa++) {
        if (!qr_isa_runs_here(isa))
            continue;
        for (int type = 0; type < QR_N_DTYPE; type++) {
            for (int b = 0; b < 3; b++) {
                struct test_weight w;
                struct input in;
                float x[N * COL], y[N * ROW];
                test_weight_make(&w, type, 6, ROW, COL);
                fill_normal(4, x, N * COL);
                x[2 * COL + 77] = bad[b];
                input_make(&in, x, N, COL, 0);
                run(qr_cpu_table(isa), &w, &in, NULL, y, ROW);
                for (int i = 0; i < N * ROW; i++)
                    assert_int_equal(isfinite(y[i]) != 0, i / ROW != 2);
                input_free(&in);
                test_weight_free(&w);
            }
        }
    }
}

/* Large and tiny activations keep their relative precision; zeros give zeros. */
static void extreme_scales(void **state)
{
    enum { COL = 256, ROW = 16 };
    (void)state;
    for (int isa = 0; isa < QR_N_ISA; isa++) {
        if (!qr_isa_runs_here(isa))
            continue;
        for (int type = 0; type < QR_N_DTYPE; type++) {
            static const float scales[] = {0, 1e-20f, 1e20f};
            struct test_weight w;
            float x[COL], unit[ROW], y[ROW];
            test_weight_make(&w, type, 6, ROW, COL);
            fill_normal(4, x, COL);
            struct input in;
            input_make(&in, x, 1, COL, 0);
            run(qr_cpu_table(isa), &w, &in, NULL, unit, ROW);
            input_free(&in);
            for (int s = 0; s < 3; s++) {
                float scaled[COL];
                for (int c = 0; c < COL; c++)
                    scaled[c] = x[c] * scales[s];
                input_make(&in, scaled, 1, COL, 0);
                run(qr_cpu_table(isa), &w, &in, NULL, y, ROW);
                input_free(&in);
                for (int r = 0; r < ROW; r++) {
                    double terms = 0; /* what may cancel in the sum */
                    for (int c = 0; c < COL; c++)
                        terms += fabs((double)w.dense[r * COL + c] * (double)x[c]);
                    assert_true(fabs((double)y[r] - (double)unit[r] * (double)scales[s]) <=
                                1e-5 * terms * (double)scales[s]);
                }
            }
            test_weight_free(&w);
        }
    }
}

/* The largest codes against activations that make the largest sums of bytes, of either sign: no partial sum runs over. */
static void largest_codes(void **state)
{
    enum { COL = 512, ROW = 16 };
    static const struct {
        enum qr_dtype type;
        int first, n; /* code bytes of a block of the file */
    } types[] = {{QR_Q8_0, 2, 32},   {QR_Q4_0, 2, 16},   {QR_Q4_1, 4, 16},  {QR_Q5_0, 2, 20}, {QR_Q5_1, 4, 20},
                 {QR_Q4_K, 16, 128}, {QR_Q5_K, 16, 160}, {QR_Q6_K, 0, 192}, {QR_Q2_K, 16, 64}};
    static const float values[] = {QR_ACT_MOST, -QR_ACT_MOST, QR_ACT_MOST - 128, 128 - QR_ACT_MOST, QR_ACT_MOST - 129};
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const struct qr_dtype_info *info = qr_dtype_info(types[i].type);
        uint8_t *rows = random_rows(types[i].type, 8, ROW, COL);
        for (size_t b = 0; b < (size_t)ROW * COL / info->block; b++)
            memset(rows + b * info->block_bytes + types[i].first, types[i].type == QR_Q8_0 ? 0x7f : 0xff,
                   (size_t)types[i].n);
        float *dense = malloc((size_t)ROW * COL * 4), x[COL], y[ROW];
        qr_dequant(types[i].type, rows, dense, (uint64_t)ROW * COL);
        struct test_weight w = {.segment = {.type = types[i].type, .n_row = ROW}};
        uint8_t *panel = pack_rows(types[i].type, rows, ROW, COL);
        w.segment.data = panel;
        w.segment.bytes = qr_panel_bytes(types[i].type, COL);
        for (int v = 0; v < 5 * QR_N_ISA; v++) {
            if (!qr_isa_runs_here(v / 5))
                continue;
            for (int c = 0; c < COL; c++) /* a block's first sets its scale */
                x[c] = c % 32 ? values[v % 5] : QR_ACT_MOST;
            struct input in;
            input_make(&in, x, 1, COL, 0);
            run(qr_cpu_table(v / 5), &w, &in, NULL, y, ROW);
            input_free(&in);
            for (int r = 0; r < ROW; r++) {
                double want = 0, terms = 0;
                for (int c = 0; c < COL; c++) {
                    double term = (double)dense[r * COL + c] * (double)x[c];
                    want += term;
                    terms += fabs(term);
                }
                assert_true(fabs((double)y[r] - want) <= 2e-6 * terms);
            }
        }
        free(panel);
        free(dense);
        free(rows);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right),          cmocka_unit_test(same_bits),     cmocka_unit_test(not_finite),
        cmocka_unit_test(extreme_scales), cmocka_unit_test(largest_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
