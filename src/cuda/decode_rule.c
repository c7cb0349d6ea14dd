/* decode_rule.c - which plans the persistent kernel runs: dense layers as the fusions leave them, in sizes that it has. */
#include "cuda/decode_host.h"

/* The op codes of a layer, from its qkv on. */
static const enum qr_opcode layer_ops[QR_DECODE_OPS] = {
    QR_OP_LINEAR, QR_OP_ROPE_STORE, QR_OP_ATTENTION, QR_OP_LINEAR,      QR_OP_ADD_RMSNORM,
    QR_OP_LINEAR, QR_OP_SILU_MUL,   QR_OP_LINEAR,    QR_OP_ADD_RMSNORM,
};

struct match {
    const struct qr_plan *plan;
    struct qr_err *err;
    int x, h; /* values: the residual, and what the last norm gave */
};

static enum qr_status refuse(const struct match *m, int i, const char *what)
{
    return qr_fail(m->err, QR_UNSUPPORTED, "op %d, %s: %s", i,
                   i < m->plan->n_op ? qr_opcode_name(m->plan->op[i].code) : "none", what);
}

static enum qr_status want(const struct match *m, int i, enum qr_opcode code)
{
    if (i >= m->plan->n_op || m->plan->op[i].code != code)
        return qr_fail(m->err, QR_UNSUPPORTED, "op %d is %s, not %s", i,
                       i < m->plan->n_op ? qr_opcode_name(m->plan->op[i].code) : "none", qr_opcode_name(code));
    return QR_OK;
}

static bool is_view(const struct match *m, int value, int root, uint32_t column, uint32_t cols)
{
    return qr_value_root(m->plan, value) == qr_value_root(m->plan, root) && qr_value_column(m->plan, value) == column &&
           m->plan->value[value].cols == cols;
}

static enum qr_status check_linear(const struct match *m, int i, int in, uint32_t rows, uint32_t cols)
{
    const struct qr_op *op = &m->plan->op[i];
    if (op->in[0] != in)
        return refuse(m, i, "reads something else than the op before gives");
    if (op->weight->n_row != rows || op->weight->n_col != cols || cols % 64 || op->weight->row % 16)
        return refuse(m, i, "its matrix has another shape, or columns that are no multiple of 64");
    return QR_OK;
}

static enum qr_status check_layer(struct match *m, int i, uint32_t n_embd, const struct qr_op *like)
{
    const struct qr_op *op = m->plan->op + i;
    const struct qr_op *rope = op + QR_DECODE_OP_ROPE, *attention = op + QR_DECODE_OP_ATTENTION;
    const uint32_t dim = m->plan->head_dim, n_q = attention->n_head * dim, n_kv = attention->n_kv_head * dim;
    for (int k = 0; k < QR_DECODE_OP_NEXT; k++)
        QR_TRY(want(m, i + k, layer_ops[k]));
    QR_TRY(check_linear(m, i, m->h, n_q + 2 * n_kv, n_embd));
    int qkv = op->out[0];
    if (rope->local || !is_view(m, rope->in[0], qkv, 0, n_q) || !is_view(m, rope->in[1], qkv, n_q, n_kv) ||
        !is_view(m, rope->in[2], qkv, n_q + n_kv, n_kv) || !rope->scale[0] != !rope->scale[1])
        return refuse(m, i + QR_DECODE_OP_ROPE, "not over one matrix of q, k and v, or with frequencies of its own");
    if (attention->in[0] != rope->out[0] || attention->window || attention->soft_cap > 0)
        return refuse(m, i + QR_DECODE_OP_ATTENTION, "with a window or a soft cap");
    if (attention->n_head != like->n_head || attention->n_kv_head != like->n_kv_head ||
        attention->n_head > 8 * attention->n_kv_head || attention->attn_scale != like->attn_scale)
        return refuse(m, i + QR_DECODE_OP_ATTENTION, "more than 8 query heads a KV head, or layers that differ");
    QR_TRY(check_linear(m, i + QR_DECODE_OP_O, attention->out[0], n_embd, n_q));
    const struct qr_op *norm = op + QR_DECODE_OP_NORM, *up = op + QR_DECODE_OP_UP, *silu = op + QR_DECODE_OP_SILU;
    const struct qr_op *down = op + QR_DECODE_OP_DOWN;
    if (norm->in[0] != m->x || norm->in[1] != op[QR_DECODE_OP_O].out[0] || norm->width != n_embd)
        return refuse(m, i + QR_DECODE_OP_NORM, "adds something else");
    uint32_t n_ff = down->weight->n_col;
    QR_TRY(check_linear(m, i + QR_DECODE_OP_UP, norm->out[1], 2 * n_ff, n_embd));
    if (up->weight->bias || !is_view(m, silu->in[0], up->out[0], 0, n_ff) ||
        !is_view(m, silu->in[1], up->out[0], n_ff, n_ff))
        return refuse(m, i + QR_DECODE_OP_UP, "has a bias, or gate and up are not one matrix");
    return check_linear(m, i + QR_DECODE_OP_DOWN, silu->out[0], n_embd, n_ff);
}

static enum qr_status check_sizes(const struct match *m)
{
    const struct qr_plan *plan = m->plan;
    if (!qr_cu_decode_has((int)plan->head_dim))
        return qr_fail(m->err, QR_UNSUPPORTED, "heads of %u: it has 64 and 128", plan->head_dim);
    if (plan->n_embd > 2048 || plan->n_embd <= 256 ||
        plan->n_embd % 64) /* norm.cu sums up to 256 columns in another order */
        return qr_fail(m->err, QR_UNSUPPORTED, "a width of %u: it has multiples of 64 from 320 to 2048", plan->n_embd);
    if (plan->n_layer > QR_DECODE_LAYERS || plan->n_layer == 0)
        return qr_fail(m->err, QR_UNSUPPORTED, "%u layers: it has up to %d", plan->n_layer, QR_DECODE_LAYERS);
    return QR_OK;
}

enum qr_status qr_decode_match(const struct qr_plan *plan, struct qr_decode_plan *out, struct qr_err *err)
{
    struct match m = {.plan = plan, .err = err};
    QR_TRY(check_sizes(&m));
    QR_TRY(want(&m, 0, QR_OP_EMBED));
    QR_TRY(want(&m, 1, QR_OP_RMSNORM));
    m.x = plan->op[0].out[0];
    m.h = plan->op[1].out[0];
    if (plan->op[1].in[0] != m.x || plan->op[1].width != plan->n_embd)
        return refuse(&m, 1, "norms something else");
    int i = 2, n_layer = (int)plan->n_layer;
    *out = (struct qr_decode_plan){.n_layer = n_layer, .first = i};
    for (int l = 0; l < n_layer; l++, i += QR_DECODE_OPS) {
        if (i + QR_DECODE_OPS > plan->n_op)
            return refuse(&m, plan->n_op, "the plan ends within a layer");
        QR_TRY(check_layer(&m, i, plan->n_embd, &plan->op[2 + QR_DECODE_OP_ATTENTION]));
        const struct qr_op *next = &plan->op[i + QR_DECODE_OP_NEXT];
        int down = plan->op[i + QR_DECODE_OP_DOWN].out[0];
        QR_TRY(want(&m, i + QR_DECODE_OP_NEXT, l + 1 < n_layer ? QR_OP_ADD_RMSNORM : QR_OP_ADD));
        if (next->in[0] != m.x || next->in[1] != down)
            return refuse(&m, i + QR_DECODE_OP_NEXT, "adds something else");
        if (l + 1 < n_layer)
            m.h = next->out[1];
    }
    QR_TRY(want(&m, i, QR_OP_GATHER));
    QR_TRY(want(&m, i + 1, QR_OP_RMSNORM));
    QR_TRY(want(&m, i + 2, QR_OP_LINEAR));
    out->norm_out = i + 1;
    out->head = i + 2;
    if (plan->op[i].in[0] != m.x || plan->op[i + 1].in[0] != plan->op[i].out[0] || i + 3 != plan->n_op ||
        plan->op[i + 2].out[0] != plan->logits || plan->op[i + 2].weight->bias)
        return refuse(&m, i, "the end is not gather, norm, head");
    return check_linear(&m, i + 2, plan->op[i + 1].out[0], plan->n_vocab, plan->n_embd);
}
