/* record.c - see record.h. Everything is recorded in its canonical, unfused form; plan/fuse.h joins ops. */
#include "arch/record.h"
#include <math.h>

/* The operands of an op whose output is its first input. */
static void set_in_place(struct qr_op *op, int x)
{
    op->in[0] = op->out[0] = x;
}

/* Columns of a value; 0 once recording has failed. */
static uint32_t columns(const struct rec *r, int value)
{
    return value < 0 ? 0 : qr_rec_plan(r->recorder)->value[value].cols;
}

static enum qr_rows rows(const struct rec *r, int value)
{
    return value < 0 ? QR_ROWS_T : qr_rec_plan(r->recorder)->value[value].rows;
}

int qr_rec_embed(struct rec *r, const char *name, const struct qr_weight *weight)
{
    int x = qr_rec_value(r->recorder, name, QR_ROWS_T, weight->n_col);
    struct qr_op *op = qr_rec_op(r->recorder, QR_OP_EMBED, r->layer);
    op->weight = weight;
    op->out[0] = x;
    return x;
}

/* Four ops, so that what fusing them is worth can be measured; y may be x. */
static void norm_into(struct rec *r, int x, int y, const struct qr_vector *weight)
{
    static const enum qr_opcode CODE[] = {QR_OP_MEAN_SQUARE, QR_OP_RSQRT, QR_OP_SCALE_ROWS, QR_OP_SCALE_COLS};
    int ms = qr_rec_value(r->recorder, "ms", rows(r, x), columns(r, x) / weight->n);
    for (int i = 0; i < 4; i++) {
        struct qr_op *op = qr_rec_op(r->recorder, CODE[i], r->layer);
        op->width = weight->n;
        op->eps = r->config->norm_eps;
        if (op->code == QR_OP_RSQRT) {
            set_in_place(op, ms);
        } else if (op->code == QR_OP_SCALE_COLS) {
            set_in_place(op, y);
            op->scale[0] = weight;
        } else {
            op->in[0] = x;
            op->in[1] = op->code == QR_OP_SCALE_ROWS ? ms : -1;
            op->out[0] = op->code == QR_OP_SCALE_ROWS ? y : ms;
        }
    }
}

int qr_rec_norm(struct rec *r, const char *name, int x, const struct qr_vector *weight)
{
    int y = qr_rec_value(r->recorder, name, rows(r, x), columns(r, x));
    norm_into(r, x, y, weight);
    return y;
}

void qr_rec_head_norm(struct rec *r, int x, const struct qr_vector *weight)
{
    norm_into(r, x, x, weight);
}

static void linear_into(struct rec *r, int x, int y, const struct qr_weight *weight)
{
    struct qr_op *op = qr_rec_op(r->recorder, QR_OP_LINEAR, r->layer);
    op->weight = weight;
    op->in[0] = x;
    op->out[0] = y;
}

int qr_rec_linear(struct rec *r, const char *name, int x, const struct qr_weight *weight)
{
    int y = qr_rec_value(r->recorder, name, rows(r, x), weight->n_row);
    linear_into(r, x, y, weight);
    return y;
}

struct qr_rec_qkv qr_rec_qkv(struct rec *r, int x, const struct qr_layer_weights *w)
{
    uint32_t nq = w->q.n_row, nk = w->k.n_row, nv = w->v.n_row;
    int qkv = qr_rec_value(r->recorder, "qkv", rows(r, x), nq + nk + nv);
    struct qr_rec_qkv out;
    out.q = qr_rec_view(r->recorder, "q", qkv, 0, nq);
    out.k = qr_rec_view(r->recorder, "k", qkv, nq, nk);
    out.v = qr_rec_view(r->recorder, "v", qkv, nq + nk, nv);
    linear_into(r, x, out.q, &w->q);
    linear_into(r, x, out.k, &w->k);
    linear_into(r, x, out.v, &w->v);
    return out;
}

struct qr_rec_gate_up qr_rec_gate_up(struct rec *r, int x, const struct qr_layer_weights *w)
{
    int both = qr_rec_value(r->recorder, "gate_up", rows(r, x), w->gate.n_row + w->up.n_row);
    struct qr_rec_gate_up out;
    out.gate = qr_rec_view(r->recorder, "gate", both, 0, w->gate.n_row);
    out.up = qr_rec_view(r->recorder, "up", both, w->gate.n_row, w->up.n_row);
    linear_into(r, x, out.gate, &w->gate);
    linear_into(r, x, out.up, &w->up);
    return out;
}

void qr_rec_rope(struct rec *r, int x)
{
    struct qr_op *op = qr_rec_op(r->recorder, QR_OP_ROPE, r->layer);
    op->head_dim = (uint32_t)r->config->head_dim;
    op->n_head = columns(r, x) / op->head_dim;
    op->local = r->config->rope_local.theta != 0 && qr_config_has_window(r->config, r->layer);
    set_in_place(op, x);
}

void qr_rec_kv_store(struct rec *r, int k, int v)
{
    struct qr_op *op = qr_rec_op(r->recorder, QR_OP_KV_STORE, r->layer);
    op->n_kv_head = (uint32_t)r->config->n_kv_head;
    op->head_dim = (uint32_t)r->config->head_dim;
    op->in[0] = k;
    op->in[1] = v;
}

int qr_rec_attention(struct rec *r, int q)
{
    const struct qr_config *c = r->config;
    int y = qr_rec_value(r->recorder, "attn", rows(r, q), columns(r, q));
    struct qr_op *op = qr_rec_op(r->recorder, QR_OP_ATTENTION, r->layer);
    op->n_head = (uint32_t)c->n_head;
    op->n_kv_head = (uint32_t)c->n_kv_head;
    op->head_dim = (uint32_t)c->head_dim;
    op->attn_scale = c->attn_scale != 0 ? c->attn_scale : (float)(1 / sqrt((double)c->head_dim));
    op->soft_cap = c->attn_cap;
    op->window = qr_config_has_window(c, r->layer) ? c->window : 0;
    op->in[0] = q;
    op->out[0] = y;
    return y;
}

void qr_rec_add(struct rec *r, int x, int y)
{
    struct qr_op *op = qr_rec_op(r->recorder, QR_OP_ADD, r->layer);
    set_in_place(op, x);
    op->in[1] = y;
}

void qr_rec_silu_mul(struct rec *r, int x, int y)
{
    struct qr_op *op = qr_rec_op(r->recorder, QR_OP_SILU, r->layer);
    set_in_place(op, x);
    op = qr_rec_op(r->recorder, QR_OP_MUL, r->layer);
    set_in_place(op, x);
    op->in[1] = y;
}

void qr_rec_gelu_mul(struct rec *r, int x, int y)
{
    struct qr_op *op = qr_rec_op(r->recorder, QR_OP_GELU, r->layer);
    set_in_place(op, x);
    op = qr_rec_op(r->recorder, QR_OP_MUL, r->layer);
    set_in_place(op, x);
    op->in[1] = y;
}

void qr_rec_scale(struct rec *r, int x, float factor)
{
    if (factor == 0 || factor == 1)
        return;
    struct qr_op *op = qr_rec_op(r->recorder, QR_OP_SCALE, r->layer);
    set_in_place(op, x);
    op->factor = factor;
}

void qr_rec_soft_cap(struct rec *r, int x, float cap)
{
    if (cap == 0)
        return;
    struct qr_op *op = qr_rec_op(r->recorder, QR_OP_SOFT_CAP, r->layer);
    set_in_place(op, x);
    op->soft_cap = cap;
}

int qr_rec_gather(struct rec *r, const char *name, int x)
{
    int y = qr_rec_value(r->recorder, name, QR_ROWS_R, columns(r, x));
    struct qr_op *op = qr_rec_op(r->recorder, QR_OP_GATHER, r->layer);
    op->in[0] = x;
    op->out[0] = y;
    return y;
}
