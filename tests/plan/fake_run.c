/* fake_run.c - a plan interpreter in plain fp32, one token after the other op by op: what the opcodes of plan/op.h say
 * and nothing else. It tells whether a fused or buffer-shared plan still computes the same. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "plan/buffers.h"
#include "plan/fake.h"

struct run {
    const struct qr_plan *plan;
    int n;            /* tokens; all rows are wanted, so R is T */
    const int *token; /* [n] */
    float **base;     /* [n_value], of roots */
    float *k, *v;     /* [n_layer, n, n_kv_head * head_dim] */
};

static float *at(const struct run *r, int value, int row)
{
    int root = qr_value_root(r->plan, value);
    return r->base[root] + (size_t)row * r->plan->value[root].cols + qr_value_column(r->plan, value);
}

static float *page(const struct run *r, float *pages, int layer, int row)
{
    return pages + ((size_t)layer * (size_t)r->n + (size_t)row) * r->plan->n_kv_head * r->plan->head_dim;
}

static void rmsnorm(const float *x, float *y, uint32_t cols, uint32_t width, const float *w, float eps)
{
    for (uint32_t g = 0; g < cols; g += width) {
        float sum = 0;
        for (uint32_t i = 0; i < width; i++)
            sum += x[g + i] * x[g + i];
        float v = 1 / sqrtf(sum / (float)width + eps);
        for (uint32_t i = 0; i < width; i++)
            y[g + i] = x[g + i] * v * w[i];
    }
}

static void rope(const struct run *r, float *x, uint32_t n_head, int position)
{
    uint32_t d = r->plan->head_dim, half = d / 2;
    for (uint32_t h = 0; h < n_head; h++)
        for (uint32_t i = 0; i < half; i++) {
            float *a = x + h * d + i, angle = (float)position * r->plan->inv_freq[i];
            float x0 = a[0], x1 = a[half];
            a[0] = x0 * cosf(angle) - x1 * sinf(angle);
            a[half] = x1 * cosf(angle) + x0 * sinf(angle);
        }
}

static void attention(const struct run *r, const struct qr_op *op, const float *q, float *y, int row)
{
    uint32_t d = op->head_dim;
    int first = op->window && row + 1 > op->window ? row + 1 - op->window : 0;
    for (uint32_t h = 0; h < op->n_head; h++) {
        uint32_t kv = h / (op->n_head / op->n_kv_head) * d;
        float sum = 0;
        memset(y + h * d, 0, d * sizeof *y);
        for (int t = first; t <= row; t++) {
            const float *k = page(r, r->k, op->layer, t) + kv, *v = page(r, r->v, op->layer, t) + kv;
            float s = 0;
            for (uint32_t i = 0; i < d; i++)
                s += q[h * d + i] * k[i];
            float e = expf(s * op->attn_scale); /* scores of these weights are small */
            sum += e;
            for (uint32_t i = 0; i < d; i++)
                y[h * d + i] += e * v[i];
        }
        for (uint32_t i = 0; i < d; i++)
            y[h * d + i] /= sum;
    }
}

static void linear(const struct qr_weight *w, const float *x, float *y)
{
    const float *rows = (const float *)w->storage->segment[0].data + (size_t)w->row * w->n_col;
    for (uint32_t j = 0; j < w->n_row; j++) {
        float sum = w->bias ? w->bias[j] : 0;
        for (uint32_t i = 0; i < w->n_col; i++)
            sum += x[i] * rows[(size_t)j * w->n_col + i];
        y[j] = sum;
    }
}

static void store(const struct run *r, int layer, int row, const float *k, const float *v)
{
    size_t bytes = (size_t)r->plan->n_kv_head * r->plan->head_dim * sizeof *k;
    memcpy(page(r, r->k, layer, row), k, bytes);
    memcpy(page(r, r->v, layer, row), v, bytes);
}

static void rope_store(const struct run *r, const struct qr_op *op, int row, float *q, float *k, const float *v)
{
    uint32_t d = op->head_dim;
    if (op->scale[0]) {
        rmsnorm(q, q, op->n_head * d, d, op->scale[0]->data, op->eps);
        rmsnorm(k, k, op->n_kv_head * d, d, op->scale[1]->data, op->eps);
    }
    rope(r, q, op->n_head, row);
    rope(r, k, op->n_kv_head, row);
    store(r, op->layer, row, k, v);
    memset(k, 0xff, (size_t)op->n_kv_head * d * sizeof *k); /* NaN: k may not be read after it */
}

static void run_row(const struct run *r, const struct qr_op *op, int row)
{
    float *a = op->n_in > 0 ? at(r, op->in[0], row) : NULL, *b = op->n_in > 1 ? at(r, op->in[1], row) : NULL;
    float *y = op->n_out > 0 ? at(r, op->out[0], row) : NULL;
    uint32_t n = r->plan->value[op->n_in ? op->in[0] : op->out[0]].cols;
    switch (op->code) {
    case QR_OP_EMBED:
        memcpy(y, (const float *)op->weight->storage->segment[0].data + (size_t)r->token[row] * n, n * sizeof *y);
        break;
    case QR_OP_MEAN_SQUARE:
        for (uint32_t i = 0; i < n; i += op->width) {
            float sum = 0;
            for (uint32_t j = 0; j < op->width; j++)
                sum += a[i + j] * a[i + j];
            y[i / op->width] = sum / (float)op->width;
        }
        break;
    case QR_OP_RSQRT:
        for (uint32_t i = 0; i < n; i++)
            y[i] = 1 / sqrtf(a[i] + op->eps);
        break;
    case QR_OP_SCALE_ROWS:
        for (uint32_t i = 0; i < n; i++)
            y[i] = a[i] * b[i / op->width];
        break;
    case QR_OP_SCALE_COLS:
        for (uint32_t i = 0; i < n; i++)
            y[i] = a[i] * op->scale[0]->data[i % op->width];
        break;
    case QR_OP_RMSNORM:
        rmsnorm(a, y, n, op->width, op->scale[0]->data, op->eps);
        break;
    case QR_OP_ADD:
    case QR_OP_ADD_RMSNORM:
        for (uint32_t i = 0; i < n; i++)
            y[i] = a[i] + b[i];
        if (op->code == QR_OP_ADD_RMSNORM)
            rmsnorm(y, at(r, op->out[1], row), n, op->width, op->scale[0]->data, op->eps);
        break;
    case QR_OP_LINEAR:
        linear(op->weight, a, y);
        break;
    case QR_OP_ROPE:
        rope(r, a, op->n_head, row);
        break;
    case QR_OP_KV_STORE:
        store(r, op->layer, row, a, b);
        break;
    case QR_OP_ROPE_STORE:
        rope_store(r, op, row, a, b, at(r, op->in[2], row));
        break;
    case QR_OP_ATTENTION:
        attention(r, op, a, y, row);
        break;
    case QR_OP_SCALE: /* of no model here */
    case QR_OP_GELU:
    case QR_OP_SOFT_CAP:
        break;
    case QR_OP_SILU:
        for (uint32_t i = 0; i < n; i++)
            y[i] = a[i] / (1 + expf(-a[i]));
        break;
    case QR_OP_MUL:
        for (uint32_t i = 0; i < n; i++)
            y[i] = a[i] * b[i];
        break;
    case QR_OP_SILU_MUL:
        for (uint32_t i = 0; i < n; i++)
            y[i] = a[i] / (1 + expf(-a[i])) * b[i];
        break;
    case QR_OP_GATHER:
        memcpy(y, a, n * sizeof *y);
        break;
    case QR_N_OPCODE:
        fail_msg("no such opcode");
    }
}

float *fake_run(const struct qr_plan *plan, const struct qr_buffers *buffers, const int *token, int n)
{
    size_t total = 0, kv = (size_t)plan->n_layer * (size_t)n * plan->n_kv_head * plan->head_dim;
    for (int i = 0; i < plan->n_value; i++)
        total += plan->value[i].parent < 0 ? plan->value[i].cols * (size_t)n : 0;
    if (buffers)
        total = buffers->bytes / sizeof(float);
    struct run r = {.plan = plan, .n = n, .token = token};
    float *memory = malloc(total * sizeof *memory);
    r.base = calloc((size_t)plan->n_value, sizeof *r.base);
    r.k = calloc(kv, sizeof *r.k);
    r.v = calloc(kv, sizeof *r.v);
    float *logits = malloc((size_t)n * plan->n_vocab * sizeof *logits);
    assert_true(memory && r.base && r.k && r.v && logits);
    memset(memory, 0xff, total * sizeof *memory); /* NaN */
    size_t used = 0;
    for (int i = 0; i < plan->n_value; i++)
        if (plan->value[i].parent < 0) {
            r.base[i] = memory + (buffers ? buffers->offset[i] / sizeof(float) : used);
            used += plan->value[i].cols * (size_t)n;
        }
    for (int i = 0; i < plan->n_op; i++)
        for (int row = 0; row < n; row++)
            run_row(&r, &plan->op[i], row);
    memcpy(logits, at(&r, plan->logits, 0), (size_t)n * plan->n_vocab * sizeof *logits);
    free(r.v);
    free(r.k);
    free(r.base);
    free(memory);
    return logits;
}
