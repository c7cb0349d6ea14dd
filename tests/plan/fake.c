/* fake.c - see fake.h. */
#include "plan/fake.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/rand.h"

static const char *label(struct fake *f, int layer, const char *name)
{
    char text[64];
    if (layer >= 0)
        snprintf(text, sizeof text, "blk.%d.%s", layer, name);
    else
        snprintf(text, sizeof text, "%s", name);
    return qr_arena_strdup(f->arena, text);
}

static float *numbers(struct fake *f, uint64_t n, float deviation, float mean)
{
    static uint64_t stream;
    float *x = qr_arena_array(f->arena, n, sizeof *x);
    assert_non_null(x);
    qr_rand_normal(7, stream++, deviation, x, n);
    for (uint64_t i = 0; i < n; i++)
        x[i] += mean;
    return x;
}

static struct qr_vector vector(struct fake *f, int layer, const char *name, uint32_t n)
{
    return (struct qr_vector){label(f, layer, name), n, numbers(f, n, 0.1F, 1)};
}

static struct qr_storage *storage(struct fake *f, int layer, const char *name, uint32_t n_row, uint32_t n_col)
{
    struct qr_storage *s = qr_arena_alloc(f->arena, sizeof *s);
    struct qr_segment *segment = qr_arena_alloc(f->arena, sizeof *segment);
    assert_true(s && segment);
    *segment = (struct qr_segment){QR_F32, QR_ROWS, 0, n_row, NULL, 4ULL * n_row * n_col};
    segment->data = numbers(f, (uint64_t)n_row * n_col, 1 / sqrtf((float)n_col), 0);
    *s = (struct qr_storage){label(f, layer, name), n_row, n_col, 1, segment};
    return s;
}

static struct qr_weight view(struct fake *f, int layer, const char *name, const struct qr_storage *s, uint32_t row,
                             uint32_t n_row, const float *bias)
{
    return (struct qr_weight){label(f, layer, name), s, row, n_row, s->n_col, bias ? bias + row : NULL};
}

void fake_create(struct fake *f, bool bias, bool qk_norm)
{
    const uint32_t nq = FAKE_HEADS * FAKE_HEAD_DIM, nk = FAKE_KV_HEADS * FAKE_HEAD_DIM;
    memset(f, 0, sizeof *f);
    f->arena = qr_arena_create(0);
    assert_non_null(f->arena);
    f->bias = bias;
    f->qk_norm = qk_norm;
    f->embd = view(f, -1, "token_embd", storage(f, -1, "token_embd", FAKE_VOCAB, FAKE_EMBD), 0, FAKE_VOCAB, NULL);
    for (int i = 0; i < FAKE_LAYERS; i++) {
        const struct qr_storage *qkv = storage(f, i, "attn_qkv", nq + 2 * nk, FAKE_EMBD);
        const struct qr_storage *gate_up = storage(f, i, "ffn_gate_up", 2 * FAKE_FF, FAKE_EMBD);
        const float *b = bias ? numbers(f, nq + 2 * nk, 0.5F, 0) : NULL;
        f->norm[2 * i] = vector(f, i, "attn_norm", FAKE_EMBD);
        f->norm[2 * i + 1] = vector(f, i, "ffn_norm", FAKE_EMBD);
        f->q_norm[i] = vector(f, i, "attn_q_norm", FAKE_HEAD_DIM);
        f->k_norm[i] = vector(f, i, "attn_k_norm", FAKE_HEAD_DIM);
        f->q[i] = view(f, i, "attn_q", qkv, 0, nq, b);
        f->k[i] = view(f, i, "attn_k", qkv, nq, nk, b);
        f->v[i] = view(f, i, "attn_v", qkv, nq + nk, nk, b);
        f->o[i] = view(f, i, "attn_output", storage(f, i, "attn_output", FAKE_EMBD, nq), 0, FAKE_EMBD, NULL);
        f->gate[i] = view(f, i, "ffn_gate", gate_up, 0, FAKE_FF, NULL);
        f->up[i] = view(f, i, "ffn_up", gate_up, FAKE_FF, FAKE_FF, NULL);
        f->down[i] = view(f, i, "ffn_down", storage(f, i, "ffn_down", FAKE_EMBD, FAKE_FF), 0, FAKE_EMBD, NULL);
    }
    f->norm[2 * FAKE_LAYERS] = vector(f, -1, "output_norm", FAKE_EMBD);
}

void fake_destroy(struct fake *f)
{
    qr_arena_destroy(f->arena);
}

/* ---------------------------------------------------------------- recording */

static struct qr_op *op(struct qr_recorder *r, enum qr_opcode code, int layer, int in0, int in1, int out)
{
    struct qr_op *o = qr_rec_op(r, code, layer);
    o->in[0] = in0;
    o->in[1] = in1;
    o->out[0] = out;
    o->n_head = FAKE_HEADS;
    o->n_kv_head = FAKE_KV_HEADS;
    o->head_dim = FAKE_HEAD_DIM;
    o->attn_scale = 0.25F;
    return o;
}

static void norm(struct qr_recorder *r, int layer, int x, int y, const struct qr_vector *w, enum qr_rows rows,
                 uint32_t cols)
{
    int ms = qr_rec_value(r, "ms", rows, cols / w->n);
    struct qr_op *o = op(r, QR_OP_MEAN_SQUARE, layer, x, -1, ms);
    o->width = w->n;
    o = op(r, QR_OP_RSQRT, layer, ms, -1, ms);
    o->eps = 1e-5F;
    o = op(r, QR_OP_SCALE_ROWS, layer, x, ms, y);
    o->width = w->n;
    o = op(r, QR_OP_SCALE_COLS, layer, y, -1, y);
    o->width = w->n;
    o->scale[0] = w;
}

static void linear(struct qr_recorder *r, int layer, int x, int y, const struct qr_weight *w)
{
    op(r, QR_OP_LINEAR, layer, x, -1, y)->weight = w;
}

static int attention(struct qr_recorder *r, const struct fake *f, int i, int h)
{
    const uint32_t nq = FAKE_HEADS * FAKE_HEAD_DIM, nk = FAKE_KV_HEADS * FAKE_HEAD_DIM;
    int qkv = qr_rec_value(r, "qkv", QR_ROWS_T, nq + 2 * nk);
    int q = qr_rec_view(r, "q", qkv, 0, nq), k = qr_rec_view(r, "k", qkv, nq, nk);
    int v = qr_rec_view(r, "v", qkv, nq + nk, nk);
    linear(r, i, h, q, &f->q[i]);
    linear(r, i, h, k, &f->k[i]);
    linear(r, i, h, v, &f->v[i]);
    if (f->qk_norm) {
        norm(r, i, q, q, &f->q_norm[i], QR_ROWS_T, nq);
        norm(r, i, k, k, &f->k_norm[i], QR_ROWS_T, nk);
    }
    op(r, QR_OP_ROPE, i, q, -1, q);
    op(r, QR_OP_ROPE, i, k, -1, k)->n_head = FAKE_KV_HEADS;
    op(r, QR_OP_KV_STORE, i, k, v, -1);
    int attn = qr_rec_value(r, "attn", QR_ROWS_T, nq), o = qr_rec_value(r, "o", QR_ROWS_T, FAKE_EMBD);
    op(r, QR_OP_ATTENTION, i, q, -1, attn)->window = i == 1 ? 3 : 0;
    linear(r, i, attn, o, &f->o[i]);
    return o;
}

static int mlp(struct qr_recorder *r, const struct fake *f, int i, int h)
{
    int both = qr_rec_value(r, "gate_up", QR_ROWS_T, 2 * FAKE_FF);
    int gate = qr_rec_view(r, "gate", both, 0, FAKE_FF), up = qr_rec_view(r, "up", both, FAKE_FF, FAKE_FF);
    linear(r, i, h, gate, &f->gate[i]);
    linear(r, i, h, up, &f->up[i]);
    op(r, QR_OP_SILU, i, gate, -1, gate);
    op(r, QR_OP_MUL, i, gate, up, gate);
    int down = qr_rec_value(r, "down", QR_ROWS_T, FAKE_EMBD);
    linear(r, i, gate, down, &f->down[i]);
    return down;
}

struct qr_plan *fake_plan(const struct fake *f)
{
    struct qr_recorder *r;
    if (qr_plan_begin("fake", &r, NULL))
        return NULL;
    int x = qr_rec_value(r, "x", QR_ROWS_T, FAKE_EMBD);
    op(r, QR_OP_EMBED, -1, -1, -1, x)->weight = &f->embd;
    for (int i = 0; i < FAKE_LAYERS; i++) {
        int h = qr_rec_value(r, "h", QR_ROWS_T, FAKE_EMBD);
        norm(r, i, x, h, &f->norm[2 * i], QR_ROWS_T, FAKE_EMBD);
        op(r, QR_OP_ADD, i, x, attention(r, f, i, h), x);
        h = qr_rec_value(r, "h", QR_ROWS_T, FAKE_EMBD);
        norm(r, i, x, h, &f->norm[2 * i + 1], QR_ROWS_T, FAKE_EMBD);
        op(r, QR_OP_ADD, i, x, mlp(r, f, i, h), x);
    }
    int last = qr_rec_value(r, "last", QR_ROWS_R, FAKE_EMBD), h = qr_rec_value(r, "h", QR_ROWS_R, FAKE_EMBD);
    op(r, QR_OP_GATHER, -1, x, -1, last);
    norm(r, -1, last, h, &f->norm[2 * FAKE_LAYERS], QR_ROWS_R, FAKE_EMBD);
    int logits = qr_rec_value(r, "logits", QR_ROWS_R, FAKE_VOCAB);
    linear(r, -1, h, logits, &f->embd);

    struct qr_plan *plan = qr_rec_plan(r);
    plan->logits = logits;
    plan->n_layer = FAKE_LAYERS;
    plan->n_kv_head = FAKE_KV_HEADS;
    plan->head_dim = FAKE_HEAD_DIM;
    plan->n_vocab = FAKE_VOCAB;
    plan->n_embd = FAKE_EMBD;
    static const float INV_FREQ[FAKE_HEAD_DIM / 2] = {1, 0.5F, 0.25F, 0.125F, 0.06F, 0.03F, 0.01F, 0.005F};
    plan->inv_freq = INV_FREQ;
    return qr_plan_finish(r, &plan, NULL) ? NULL : plan;
}

const char *fake_codes(const struct qr_plan *plan, int layer, char text[1024])
{
    text[0] = 0;
    for (int i = 0; i < plan->n_op; i++)
        if (plan->op[i].layer == layer) {
            strcat(text, text[0] ? " " : "");
            strcat(text, qr_opcode_name(plan->op[i].code));
        }
    return text;
}
