/* test_rows.c - exp, norms, sums, products, SiLU and rope of every instruction set that runs here, against libm in
 * double; the fused norms against the four ops, bit for bit. */
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

#define EACH_ISA(table)                                                                                                \
    for (int isa_ = 0; isa_ < QR_N_ISA; isa_++)                                                                        \
        for (const struct qr_cpu_table *table = qr_isa_runs_here(isa_) ? qr_cpu_table(isa_) : NULL; table; table = NULL)

static float ulp(float x)
{
    return nextafterf(fabsf(x), INFINITY) - fabsf(x);
}

static void exponential(void **state)
{
    (void)state;
    EACH_ISA(table)
    {
        double worst = 0;
        for (double x = -87; x < 88.7; x += 0.00137) {
            float v[3] = {(float)x, (float)-x, 0};
            double want = exp((double)v[0]);
            table->exp(v, 1);
            double error = fabs((double)v[0] - want) / (double)ulp((float)want);
            worst = error > worst ? error : worst;
        }
        print_message("%s: exp within %.2f ulp\n", qr_isa_name(isa_), worst);
        assert_true(worst < 2);
        float v[8] = {0, -INFINITY, INFINITY, NAN, 200, -200, -100, 89};
        table->exp(v, 8);
        assert_true(v[0] == 1 && v[1] == 0 && isinf(v[2]) && isnan(v[3]) && isinf(v[4]) && v[5] == 0);
        assert_true(fabs((double)v[6] - exp(-100.0)) < 2e-45 && isinf(v[7]));
    }
}

static void hyperbolic_tangent(void **state)
{
    (void)state;
    EACH_ISA(table)
    {
        for (double x = -20; x < 20; x += 0.01) {
            float v = (float)x;
            double want = tanh((double)v);
            table->tanh(&v, 1);
            assert_true(fabs((double)v - want) < 3e-7);
        }
        float v[3] = {INFINITY, -INFINITY, NAN};
        table->tanh(v, 3);
        assert_true(v[0] == 1 && v[1] == -1 && isnan(v[2]));
    }
}

/* Rows of `cols` in a matrix whose rows are wider; what lies around must stay. */
struct matrix {
    float *data;
    size_t stride;
    int rows;
    uint32_t cols;
};

static struct matrix matrix_make(uint64_t stream, int rows, uint32_t cols)
{
    struct matrix m = {.stride = cols + 5, .rows = rows, .cols = cols};
    m.data = malloc((size_t)rows * m.stride * 4);
    fill_normal(stream, m.data, (size_t)rows * m.stride);
    return m;
}

static struct matrix matrix_copy(const struct matrix *m)
{
    struct matrix c = *m;
    size_t bytes = (size_t)m->rows * m->stride * 4;
    c.data = malloc(bytes);
    memcpy(c.data, m->data, bytes);
    return c;
}

static double at(const struct matrix *m, int t, uint32_t c)
{
    return (double)m->data[(size_t)t * m->stride + c];
}

static void check_around(const struct matrix *got, const struct matrix *before)
{
    for (int t = 0; t < got->rows; t++)
        for (size_t c = got->cols; c < got->stride; c++)
            assert_true(got->data[(size_t)t * got->stride + c] == before->data[(size_t)t * got->stride + c]);
}

static double mean_of_squares(const struct matrix *x, int t, uint32_t first, uint32_t width)
{
    double sum = 0;
    for (uint32_t c = first; c < first + width; c++)
        sum += at(x, t, c) * at(x, t, c);
    return sum / width;
}

static void check_norm(const struct qr_cpu_table *table, int rows, uint32_t width, uint32_t groups)
{
    uint32_t cols = width * groups;
    struct matrix x = matrix_make(1, rows, cols), r = matrix_make(2, rows, cols), y = matrix_make(3, rows, cols);
    struct matrix sum = matrix_copy(&x), parts = matrix_copy(&x), mean = matrix_make(4, rows, groups);
    float *scale = malloc(width * 4 + 64);
    const float eps = 1e-5f;
    fill_normal(5, scale, width);
    struct qr_rows_job job = {.t1 = rows,
                              .x = x.data,
                              .y = y.data,
                              .x_stride = x.stride,
                              .y_stride = y.stride,
                              .cols = cols,
                              .width = width,
                              .scale = scale,
                              .eps = eps};
    struct matrix before = matrix_copy(&y);
    table->rmsnorm(&job);
    check_around(&y, &before);
    for (int t = 0; t < rows; t++)
        for (uint32_t c = 0; c < cols; c++) {
            double v = 1 / sqrt(mean_of_squares(&x, t, c / width * width, width) + (double)eps);
            double want = at(&x, t, c) * v * (double)scale[c % width];
            assert_true(fabs(at(&y, t, c) - want) <= 2e-6 * fabs(want) + 1e-9);
        }
    /* the same in four ops */
    struct qr_rows_job four = job;
    four.y = mean.data;
    four.y_stride = mean.stride;
    table->mean_square(&four);
    four = (struct qr_rows_job){.t1 = rows, .x = mean.data, .x_stride = mean.stride, .cols = groups, .eps = eps};
    table->rsqrt(&four);
    four = (struct qr_rows_job){.t1 = rows,
                                .x = x.data,
                                .r = mean.data,
                                .y = parts.data,
                                .x_stride = x.stride,
                                .r_stride = mean.stride,
                                .y_stride = parts.stride,
                                .cols = cols,
                                .width = width};
    table->scale_rows(&four);
    four = (struct qr_rows_job){
        .t1 = rows, .x = parts.data, .x_stride = parts.stride, .cols = cols, .width = width, .scale = scale};
    table->scale_cols(&four);
    for (int t = 0; t < rows; t++)
        assert_memory_equal(y.data + (size_t)t * y.stride, parts.data + (size_t)t * parts.stride, cols * 4);
    check_around(&parts, &x);
    /* with a sum in front: as ADD, then RMSNORM */
    struct qr_rows_job add = {
        .t1 = rows, .x = sum.data, .r = r.data, .x_stride = sum.stride, .r_stride = r.stride, .cols = cols};
    struct matrix fused = matrix_copy(&x);
    table->add(&add);
    check_around(&sum, &x);
    job.x = sum.data;
    table->rmsnorm(&job);
    struct matrix out = matrix_copy(&y);
    struct qr_rows_job both = job;
    both.x = fused.data;
    both.r = r.data;
    both.r_stride = r.stride;
    both.y = out.data;
    table->add_rmsnorm(&both);
    for (int t = 0; t < rows; t++) {
        for (uint32_t c = 0; c < cols; c++)
            assert_true(sum.data[(size_t)t * sum.stride + c] ==
                        x.data[(size_t)t * x.stride + c] + r.data[(size_t)t * r.stride + c]);
        assert_memory_equal(fused.data + (size_t)t * fused.stride, sum.data + (size_t)t * sum.stride, cols * 4);
        assert_memory_equal(out.data + (size_t)t * out.stride, y.data + (size_t)t * y.stride, cols * 4);
    }
    struct matrix *all[] = {&x, &r, &y, &sum, &parts, &mean, &before, &fused, &out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->data);
    free(scale);
}

static void norms(void **state)
{
    (void)state;
    EACH_ISA(table)
    {
        check_norm(table, 3, 576, 1);
        check_norm(table, 1, 1536, 1);
        check_norm(table, 2, 64, 3);
        check_norm(table, 2, 16, 5);
        check_norm(table, 5, 7, 9);
        check_norm(table, 2, 37, 1);
        check_norm(table, 2, 1, 20);
    }
}

static void products(void **state)
{
    (void)state;
    EACH_ISA(table)
    {
        for (uint32_t cols = 1; cols < 70; cols += 3) {
            struct matrix x = matrix_make(1, 3, cols), y = matrix_make(2, 3, cols);
            struct matrix silu = matrix_copy(&x), mul = matrix_copy(&x), both = matrix_copy(&x);
            x.data[0] = silu.data[0] = both.data[0] = mul.data[0] = -95; /* exp(95) is infinite */
            struct qr_rows_job job = {
                .t1 = 3, .x = silu.data, .r = y.data, .x_stride = x.stride, .r_stride = y.stride, .cols = cols};
            table->silu(&job);
            job.x = mul.data;
            table->mul(&job);
            job.x = both.data;
            table->silu_mul(&job);
            check_around(&silu, &x);
            check_around(&mul, &x);
            check_around(&both, &x);
            for (int t = 0; t < 3; t++)
                for (uint32_t c = 0; c < cols; c++) {
                    double want = at(&x, t, c) / (1 + exp(-at(&x, t, c)));
                    assert_true(fabs(at(&silu, t, c) - want) <= 5e-7 * fabs(want) + 1e-37);
                    assert_true(fabs(at(&mul, t, c) - at(&x, t, c) * at(&y, t, c)) <= 1e-7 * fabs(at(&mul, t, c)));
                    assert_true((float)at(&both, t, c) == (float)at(&silu, t, c) * (float)at(&y, t, c));
                }
            struct matrix *all[] = {&x, &y, &silu, &mul, &both};
            for (size_t i = 0; i < sizeof all / sizeof *all; i++)
                free(all[i]->data);
        }
    }
}

/* GELU by the tanh formula, a factor, and a soft cap, also far from zero. */
static void gemma_ops(void **state)
{
    (void)state;
    EACH_ISA(table)
    {
        for (uint32_t cols = 1; cols < 70; cols += 3) {
            struct matrix x = matrix_make(4, 3, cols);
            x.data[0] = -95;
            x.data[x.stride] = 300;
            x.data[2 * x.stride] = -3e5f;
            struct matrix gelu = matrix_copy(&x), scale = matrix_copy(&x), cap = matrix_copy(&x);
            struct qr_rows_job job = {.t1 = 3, .x = gelu.data, .x_stride = x.stride, .cols = cols};
            table->gelu(&job);
            job.x = scale.data;
            job.eps = 8.5f;
            table->scale(&job);
            job.x = cap.data;
            job.eps = 30;
            table->soft_cap(&job);
            check_around(&gelu, &x);
            check_around(&scale, &x);
            check_around(&cap, &x);
            for (int t = 0; t < 3; t++)
                for (uint32_t c = 0; c < cols; c++) {
                    double v = at(&x, t, c), u = sqrt(2 / acos(-1)) * (v + 0.044715 * v * v * v);
                    assert_true(fabs(at(&gelu, t, c) - 0.5 * v * (1 + tanh(u))) <= 1e-6 * fmax(1, fabs(v)));
                    assert_true((float)at(&scale, t, c) == (float)v * 8.5f);
                    assert_true(fabs(at(&cap, t, c) - 30 * tanh(v / 30)) <= 1e-5);
                }
            struct matrix *all[] = {&x, &gelu, &scale, &cap};
            for (size_t i = 0; i < sizeof all / sizeof *all; i++)
                free(all[i]->data);
        }
    }
}

/* q, k, v of 3 tokens; pages of 2 layers. Checked against rotation in double, and that nothing else in the pages
 * changes. */
static void check_rope_store(const struct qr_cpu_table *table, enum qr_dtype type, uint32_t head_dim, bool norm)
{
    enum { T = 3, HEADS = 4, KV = 2, BLOCKS = 3, LAYERS = 2 };
    uint32_t size = type == QR_F32 ? 4 : 2, v_stride = (head_dim + 15) & ~15u, half = head_dim / 2;
    struct qr_kv kv = {.type = type, .head_dim = head_dim, .v_stride = v_stride, .v_offset = 16 * head_dim * size};
    kv.head_bytes = 16 * (head_dim + v_stride) * size;
    kv.layer_bytes = kv.head_bytes * KV;
    kv.block_bytes = kv.layer_bytes * LAYERS;
    size_t bytes = kv.block_bytes * BLOCKS;
    kv.data = aligned_alloc(64, bytes);
    uint8_t *wanted = aligned_alloc(64, bytes);
    memset(kv.data, 0x5a, bytes);
    memset(wanted, 0x5a, bytes);
    static const int32_t position[T] = {0, 7, 33}, slot[T] = {5, -1, 47};
    float *cos_table = malloc(64 * half * 4), *sin_table = malloc(64 * half * 4), *scale = malloc(head_dim * 4 + 64);
    for (int p = 0; p < 64; p++)
        for (uint32_t i = 0; i < half; i++) {
            double angle = p * pow(10000, -2.0 * i / head_dim);
            cos_table[(uint32_t)p * half + i] = (float)cos(angle);
            sin_table[(uint32_t)p * half + i] = (float)sin(angle);
        }
    fill_normal(9, scale, head_dim);
    struct matrix q = matrix_make(1, T, HEADS * head_dim), k = matrix_make(2, T, KV * head_dim);
    struct matrix v = matrix_make(3, T, KV * head_dim), q0 = matrix_copy(&q), k0 = matrix_copy(&k);
    struct qr_rope_job job = {.t1 = T,
                              .q = q.data,
                              .k = k.data,
                              .v = v.data,
                              .q_stride = q.stride,
                              .k_stride = k.stride,
                              .v_stride = v.stride,
                              .n_head = HEADS,
                              .n_kv_head = KV,
                              .head_dim = head_dim,
                              .eps = 1e-6f,
                              .cos = cos_table,
                              .sin = sin_table,
                              .position = position,
                              .slot = slot,
                              .kv = &kv,
                              .layer_offset = kv.layer_bytes,
                              .rotate = true,
                              .store = true};
    if (norm)
        job.q_norm = job.k_norm = scale;
    table->rope_store(&job);
    check_around(&q, &q0);
    for (int t = 0; t < T; t++)
        for (uint32_t h = 0; h < HEADS + KV; h++) {
            const struct matrix *in = h < HEADS ? &q0 : &k0, *out = h < HEADS ? &q : &k;
            uint32_t first = (h < HEADS ? h : h - HEADS) * head_dim;
            double f = norm ? 1 / sqrt(mean_of_squares(in, t, first, head_dim) + 1e-6) : 1;
            for (uint32_t i = 0; i < half; i++) {
                double angle = position[t] * pow(10000, -2.0 * i / head_dim);
                double a = at(in, t, first + i) * (norm ? f * (double)scale[i] : 1);
                double b = at(in, t, first + half + i) * (norm ? f * (double)scale[half + i] : 1);
                assert_true(fabs(at(out, t, first + i) - (a * cos(angle) - b * sin(angle))) < 5e-6);
                assert_true(fabs(at(out, t, first + half + i) - (b * cos(angle) + a * sin(angle))) < 5e-6);
            }
        }
    for (int t = 0; t < T; t++)
        for (uint32_t h = 0; h < KV && slot[t] >= 0; h++) {
            uint8_t *page = wanted + (uint32_t)slot[t] / 16 * kv.block_bytes + kv.layer_bytes + h * kv.head_bytes;
            uint32_t place = (uint32_t)slot[t] % 16;
            for (uint32_t d = 0; d < head_dim; d++) {
                qr_quant(type, k.data + (size_t)t * k.stride + h * head_dim + d, page + (d * 16 + place) * size, 1);
                qr_quant(type, v.data + (size_t)t * v.stride + h * head_dim + d,
                         page + kv.v_offset + (place * v_stride + d) * size, 1);
            }
        }
    assert_memory_equal(kv.data, wanted, bytes);
    void *all[] = {kv.data, wanted, cos_table, sin_table, scale, q.data, k.data, v.data, q0.data, k0.data};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void rope_store(void **state)
{
    static const uint32_t dims[] = {2, 16, 20, 64, 80, 128};
    static const enum qr_dtype types[] = {QR_F32, QR_F16, QR_BF16};
    (void)state;
    EACH_ISA(table)
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
        for (size_t i = 0; i < 3; i++)
            for (int norm = 0; norm < 2; norm++)
                check_rope_store(table, types[i], dims[d], norm);
}

/* Rounding to half precision: ties, subnormals, overflow, NaN, as base/half.h has it. */
static void halves(void **state)
{
    (void)state;
    EACH_ISA(table)
    {
        for (int type = QR_F16; type <= QR_BF16; type++) {
            struct qr_kv kv = {.type = type, .head_dim = 16, .v_stride = 16, .v_offset = 512, .head_bytes = 1024};
            uint16_t page[512];
            float k[16], v[16];
            const int32_t slot = 3;
            kv.data = (uint8_t *)page;
            for (uint32_t i = 0; i < 200000; i++) {
                uint32_t bits = i * 21474u + i % 7; /* all exponents, both signs */
                memcpy(&k[i % 16], &bits, 4);
                bits ^= 0x1000;
                memcpy(&v[i % 16], &bits, 4);
                if (i % 16 != 15)
                    continue;
                struct qr_rope_job job = {
                    .t1 = 1, .k = k, .v = v, .n_kv_head = 1, .head_dim = 16, .slot = &slot, .kv = &kv, .store = true};
                table->rope_store(&job);
                for (int d = 0; d < 16; d++) {
                    uint16_t want[2];
                    qr_quant(type, &k[d], &want[0], 1);
                    qr_quant(type, &v[d], &want[1], 1);
                    if (!isnan(k[d]))
                        assert_int_equal(page[d * 16 + 3], want[0]);
                    if (!isnan(v[d]))
                        assert_int_equal(page[256 + 3 * 16 + d], want[1]);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponential), cmocka_unit_test(hyperbolic_tangent), cmocka_unit_test(norms),
        cmocka_unit_test(products),    cmocka_unit_test(gemma_ops),          cmocka_unit_test(rope_store),
        cmocka_unit_test(halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
