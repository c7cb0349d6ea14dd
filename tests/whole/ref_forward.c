/* ref_forward.c - see ref_forward.h. Layer by layer over all tokens; every matrix is converted when it is needed and
 * freed at once, so that the default model fits in a few hundred megabytes. */
#include "whole/ref_forward.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct ref {
    const struct qr_source *source;
    const struct qr_config *c;
    int n;         /* tokens, at positions 0 .. n - 1 */
    double *angle; /* [head_dim / 2] radians a position */
    double *local; /* the same of layers with a window (Gemma 3); NULL: no other */
    bool fp8;      /* keys and values are kept in it */
};

static float *floats(size_t n)
{
    float *x = calloc(n, sizeof *x);
    if (!x)
        fail_msg("no memory for %zu floats", n);
    return x;
}

/* ---------------------------------------------------------------- tensors */

/* "blk.3.attn_q.weight" as fp32 [n_row, n_col]; layer -1: the name alone. NULL when absent and that is fine. */
static float *load(const struct ref *r, int layer, const char *what, size_t n_row, size_t n_col, bool may_be_absent,
                   bool *interleaved)
{
    char name[96];
    const struct qr_source_tensor *tensor;
    struct qr_err err;
    if (layer < 0)
        snprintf(name, sizeof name, "%s", what);
    else
        snprintf(name, sizeof name, "blk.%d.%s", layer, what);
    enum qr_status status = qr_source_find(r->source, name, n_row, n_col, &tensor, &err);
    if (status == QR_NOTFOUND && may_be_absent)
        return NULL;
    if (status)
        fail_msg("%s", err.message);
    float *out = floats(n_row * n_col);
    uint8_t *row = malloc(qr_row_bytes(tensor->type, n_col));
    assert_non_null(row);
    for (size_t i = 0; i < n_row; i++) {
        if (qr_source_rows(r->source, tensor, i, 1, row, &err))
            fail_msg("%s", err.message);
        qr_dequant(tensor->type, row, out + i * n_col, n_col);
    }
    free(row);
    if (interleaved)
        *interleaved = tensor->interleaved_rope;
    return out;
}

/* y [n, n_out] = x [n, n_in] W^T + b for the tensors what.weight and, if has_bias, what.bias */
static float *linear(const struct ref *r, int layer, const char *what, const float *x, size_t n_in, size_t n_out,
                     bool has_bias, bool *interleaved)
{
    char name[64];
    snprintf(name, sizeof name, "%s.weight", what);
    float *w = load(r, layer, name, n_out, n_in, false, interleaved), *b = NULL;
    snprintf(name, sizeof name, "%s.bias", what);
    if (has_bias)
        b = load(r, layer, name, 1, n_out, false, NULL);
    float *y = floats((size_t)r->n * n_out);
    for (size_t t = 0; t < (size_t)r->n; t++)
        for (size_t j = 0; j < n_out; j++) {
            double sum = b ? (double)b[j] : 0;
            for (size_t i = 0; i < n_in; i++)
                sum += (double)x[t * n_in + i] * (double)w[j * n_in + i];
            y[t * n_out + j] = (float)sum;
        }
    free(b);
    free(w);
    return y;
}

/* y = x / sqrt(mean(x^2) + eps) * w, for n_group groups of width numbers that lie one behind the other */
static void rmsnorm(const struct ref *r, int layer, const char *what, const float *x, float *y, size_t n_group,
                    size_t width)
{
    float *w = load(r, layer, what, 1, width, false, NULL);
    bool less_one = r->c->norm_plus_one && qr_source_dir(r->source); /* Gemma's directories hold w of 1 + w */
    for (size_t i = 0; less_one && i < width; i++)
        w[i] += 1;
    for (size_t g = 0; g < n_group; g++) {
        double sum = 0;
        for (size_t i = 0; i < width; i++)
            sum += (double)x[g * width + i] * (double)x[g * width + i];
        double scale = 1 / sqrt(sum / (double)width + (double)r->c->norm_eps);
        for (size_t i = 0; i < width; i++)
            y[g * width + i] = (float)((double)x[g * width + i] * scale * (double)w[i]);
    }
    free(w);
}

/* ---------------------------------------------------------------- rotary positions */

/* Numbers of a head that turn: Phi-4-mini leaves the last quarter as it is. */
static int turning(const struct ref *r)
{
    return r->c->rope_dim ? r->c->rope_dim : r->c->head_dim;
}

static double *make_angles(const struct ref *r, const struct qr_rope *rope)
{
    const double two_pi = 8 * atan(1);
    int half = turning(r) / 2;
    double *angle = calloc((size_t)half, sizeof *angle);
    assert_non_null(angle);
    float *divisor = load(r, -1, "rope_freqs.weight", 1, (size_t)half, true, NULL);
    for (int i = 0; i < half; i++) {
        double a = 1 / pow(rope->theta, 2.0 * i / turning(r));
        if (rope->kind == QR_ROPE_LINEAR)
            a = a / rope->factor;
        if (rope->kind == QR_ROPE_LLAMA3) { /* Llama 3.1's apply_scaling, by wavelength */
            double length = two_pi / a, context = rope->original_max_len;
            double low = context / rope->low_freq_factor, high = context / rope->high_freq_factor;
            double s = (context / length - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
            if (length > low)
                a = a / rope->factor;
            else if (length >= high)
                a = (1 - s) * a / rope->factor + s * a;
        }
        angle[i] = divisor ? a / (double)divisor[i] : a;
    }
    free(divisor);
    return angle;
}

/* Rotates pair i of every head of x [n, n_head * head_dim]. Where the file has pairs side by side they are rotated
 * so: q and k are then in the same other order, which their products do not see. */
static void rotate(const struct ref *r, const double *angle, float *x, int n_head, bool interleaved)
{
    int d = r->c->head_dim, half = turning(r) / 2;
    for (int t = 0; t < r->n; t++)
        for (int h = 0; h < n_head; h++)
            for (int i = 0; i < half; i++) {
                float *head = x + ((size_t)t * (size_t)n_head + (size_t)h) * (size_t)d;
                float *a = interleaved ? head + 2 * i : head + i, *b = interleaved ? a + 1 : a + half;
                double c = cos(t * angle[i]), s = sin(t * angle[i]), a0 = (double)*a, b0 = (double)*b;
                *a = (float)(a0 * c - b0 * s);
                *b = (float)(a0 * s + b0 * c);
            }
}

/* ---------------------------------------------------------------- a layer */

/* out [d] = softmax(q . k_t scale) v_t over t in [first, last], heads of d; stride: floats from token to token. Scores go
 * through cap tanh(s / cap) where there is a cap. */
static void attend(const struct qr_config *c, const float *q, const float *k, const float *v, size_t stride, size_t d,
                   int first, int last, float *out)
{
    int count = last - first + 1;
    double *p = calloc((size_t)count, sizeof *p), max = -INFINITY, sum = 0;
    assert_non_null(p);
    for (int t = 0; t < count; t++) {
        for (size_t i = 0; i < d; i++)
            p[t] += (double)q[i] * (double)k[(size_t)(first + t) * stride + i];
        p[t] *= c->attn_scale != 0 ? (double)c->attn_scale : 1 / sqrt((double)d);
        if (c->attn_cap != 0)
            p[t] = (double)c->attn_cap * tanh(p[t] / (double)c->attn_cap);
        max = p[t] > max ? p[t] : max;
    }
    for (int t = 0; t < count; t++)
        sum += p[t] = exp(p[t] - max);
    for (size_t i = 0; i < d; i++) {
        double y = 0;
        for (int t = 0; t < count; t++)
            y += p[t] * (double)v[(size_t)(first + t) * stride + i];
        out[i] = (float)(y / sum);
    }
    free(p);
}

/* Each row of width columns as E4M3 (1 sign, 4 exponent, 3 mantissa bits; OCP 8-bit Floating Point Specification) holds it,
 * multiplied by the least power of two with which its largest magnitude is at most 448. */
static void keep_in_fp8(float *x, size_t n_row, size_t width)
{
    for (size_t row = 0; row < n_row; row++, x += width) {
        double most = 0;
        int e = -100, exponent;
        for (size_t i = 0; i < width; i++)
            most = fmax(most, fabs((double)x[i]));
        while (ldexp(448, e) < most)
            e++;
        for (size_t i = 0; i < width; i++) {
            double y = ldexp((double)x[i], -e);
            frexp(y, &exponent); /* |y| = 0.5 .. 1 times 2^exponent; below 2^-6 the steps get no finer */
            double step = ldexp(1, (exponent - 1 < -6 ? -6 : exponent - 1) - 3);
            x[i] = (float)ldexp(nearbyint(y / step) * step, e);
        }
    }
}

/* x += Wo attention(norm(x)) */
static void attention(const struct ref *r, int layer, float *x)
{
    const struct qr_config *c = r->c;
    size_t n = (size_t)r->n, e = (size_t)c->n_embd, d = (size_t)c->head_dim;
    size_t nq = (size_t)c->n_head * d, nkv = (size_t)c->n_kv_head * d;
    bool q_order, k_order;
    float *h = floats(n * e), *y = floats(n * nq);
    rmsnorm(r, layer, "attn_norm.weight", x, h, n, e);
    float *q = linear(r, layer, "attn_q", h, e, nq, c->qkv_bias, &q_order);
    float *k = linear(r, layer, "attn_k", h, e, nkv, c->qkv_bias, &k_order);
    float *v = linear(r, layer, "attn_v", h, e, nkv, c->qkv_bias, NULL);
    assert_int_equal(q_order, k_order);
    if (c->qk_norm) {
        rmsnorm(r, layer, "attn_q_norm.weight", q, q, n * (size_t)c->n_head, d);
        rmsnorm(r, layer, "attn_k_norm.weight", k, k, n * (size_t)c->n_kv_head, d);
    }
    /* written out here, not asked of the config: Gemma's full layers are the last of each two or six */
    bool windowed = c->window && layer >= c->window_from && !(c->arch == QR_ARCH_GEMMA2 && layer % 2 == 1) &&
                    !(c->arch == QR_ARCH_GEMMA3 && layer % 6 == 5);
    const double *angle = windowed && r->local ? r->local : r->angle;
    rotate(r, angle, q, c->n_head, q_order);
    rotate(r, angle, k, c->n_kv_head, k_order);
    if (r->fp8) {
        keep_in_fp8(k, n * (size_t)c->n_kv_head, d);
        keep_in_fp8(v, n * (size_t)c->n_kv_head, d);
    }
    int window = windowed ? c->window : r->n;
    for (int t = 0; t < r->n; t++)
        for (int i = 0; i < c->n_head; i++) {
            size_t head = (size_t)(i * c->n_kv_head / c->n_head) * d, at = (size_t)t * nq + (size_t)i * d;
            attend(c, q + at, k + head, v + head, nkv, d, t >= window ? t - window + 1 : 0, t, y + at);
        }
    float *o = linear(r, layer, "attn_output", y, nq, e, c->o_bias, NULL);
    if (c->post_norms)
        rmsnorm(r, layer, "post_attention_norm.weight", o, o, n, e);
    for (size_t i = 0; i < n * e; i++)
        x[i] += o[i];
    free(o);
    free(v);
    free(k);
    free(q);
    free(y);
    free(h);
}

/* x += Wdown (silu(Wgate h) * Wup h), h = norm(x) */
static void mlp(const struct ref *r, int layer, float *x)
{
    size_t n = (size_t)r->n, e = (size_t)r->c->n_embd, f = (size_t)r->c->n_ff;
    float *h = floats(n * e);
    rmsnorm(r, layer, "ffn_norm.weight", x, h, n, e);
    float *gate = linear(r, layer, "ffn_gate", h, e, f, r->c->mlp_bias, NULL);
    float *up = linear(r, layer, "ffn_up", h, e, f, r->c->mlp_bias, NULL);
    for (size_t i = 0; i < n * f && r->c->gelu; i++) { /* the tanh formula */
        double g = (double)gate[i], u = sqrt(2 / (4 * atan(1))) * (g + 0.044715 * g * g * g);
        gate[i] = (float)(0.5 * g * (1 + tanh(u)) * (double)up[i]);
    }
    for (size_t i = 0; i < n * f && !r->c->gelu; i++)
        gate[i] = (float)((double)gate[i] / (1 + exp(-(double)gate[i])) * (double)up[i]);
    float *down = linear(r, layer, "ffn_down", gate, f, e, r->c->mlp_bias, NULL);
    if (r->c->post_norms)
        rmsnorm(r, layer, "post_ffw_norm.weight", down, down, n, e);
    for (size_t i = 0; i < n * e; i++)
        x[i] += down[i];
    free(down);
    free(up);
    free(gate);
    free(h);
}

/* ---------------------------------------------------------------- the whole */

static float *forward(const struct qr_source *source, const int32_t *token, int n, bool fp8)
{
    struct ref r = {.source = source, .c = qr_source_config(source), .n = n, .fp8 = fp8};
    size_t e = (size_t)r.c->n_embd, n_vocab = (size_t)r.c->n_vocab;
    r.angle = make_angles(&r, &r.c->rope);
    r.local = r.c->rope_local.theta != 0 ? make_angles(&r, &r.c->rope_local) : NULL;
    float *x = floats((size_t)n * e), *h = floats((size_t)n * e);

    float *embd = load(&r, -1, "token_embd.weight", n_vocab, e, false, NULL);
    for (int t = 0; t < n; t++)
        memcpy(x + (size_t)t * e, embd + (size_t)token[t] * e, e * sizeof *x);
    free(embd);
    for (size_t i = 0; i < (size_t)n * e && r.c->gelu; i++) /* Gemma's embeddings */
        x[i] = (float)((double)x[i] * sqrt((double)e));
    for (int layer = 0; layer < r.c->n_layer; layer++) {
        attention(&r, layer, x);
        mlp(&r, layer, x);
    }
    rmsnorm(&r, -1, "output_norm.weight", x, h, (size_t)n, e);

    const struct qr_source_tensor *tensor; /* a GGUF file says "tied" by leaving the head out */
    bool tied = r.c->tie_embd || qr_source_find(source, "output.weight", n_vocab, e, &tensor, NULL) == QR_NOTFOUND;
    float *logits = linear(&r, -1, tied ? "token_embd" : "output", h, e, n_vocab, false, NULL);
    for (size_t i = 0; i < (size_t)n * n_vocab && r.c->final_cap != 0; i++)
        logits[i] = (float)((double)r.c->final_cap * tanh((double)logits[i] / (double)r.c->final_cap));
    free(r.local);
    free(h);
    free(x);
    free(r.angle);
    return logits;
}

float *ref_forward(const struct qr_source *source, const int32_t *token, int n)
{
    return forward(source, token, n, false);
}

float *ref_forward_fp8(const struct qr_source *source, const int32_t *token, int n)
{
    return forward(source, token, n, true);
}
