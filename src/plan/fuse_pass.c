/* fuse_pass.c - the patterns. Each match is a pure function of the ops from i on; a pattern holds only where the values
 * that its fused op no longer writes are read by nobody else. */
#include "plan/fuse_pass.h"
#include <string.h>

/* The ops at i .. i + n - 1 have these opcodes. */
static bool codes_are(const struct qr_plan *plan, int i, int n, const enum qr_opcode *code)
{
    if (n > plan->n_op - i)
        return false;
    for (int j = 0; j < n; j++)
        if (plan->op[i + j].code != code[j])
            return false;
    return true;
}

/* Is what stands in value before op `from` read by an op from there on (or at the end, as the logits)? */
static bool read_later(const struct qr_plan *plan, int from, int value)
{
    for (int i = from; i < plan->n_op; i++) {
        const struct qr_op *op = &plan->op[i];
        for (int j = 0; j < op->n_in; j++)
            if (qr_values_overlap(plan, op->in[j], value))
                return true;
        for (int j = 0; j < op->n_out; j++)
            if (qr_value_covers(plan, op->out[j], value))
                return false;
    }
    return plan->logits >= 0 && qr_values_overlap(plan, plan->logits, value);
}

/* ---------------------------------------------------------------- merge */

/* Does the view b start where a ends: rows, columns of the output, and bias? */
static bool follows(const struct qr_plan *plan, const struct qr_op *a, const struct qr_op *b)
{
    if (b->code != QR_OP_LINEAR)
        return false;
    const struct qr_weight *wa = a->weight, *wb = b->weight;
    bool bias = wa->bias ? wb->bias == wa->bias + wa->n_row : !wb->bias;
    return b->in[0] == a->in[0] && b->layer == a->layer && wa->storage == wb->storage && wa->n_col == wb->n_col &&
           wb->row == wa->row + wa->n_row && bias && qr_value_root(plan, a->out[0]) == qr_value_root(plan, b->out[0]) &&
           qr_value_column(plan, b->out[0]) == qr_value_column(plan, a->out[0]) + plan->value[a->out[0]].cols;
}

/* The value that holds columns [col, col + cols) of root: root itself or a new view. */
static int wide_value(struct qr_plan *plan, int root, uint32_t col, uint32_t cols)
{
    if (cols == plan->value[root].cols)
        return root;
    struct qr_value view = {plan->value[root].name, plan->value[root].rows, cols, root, col};
    plan->value[plan->n_value] = view; /* qr_fuse left room for one value of two ops */
    return plan->n_value++;
}

static int match_merge(struct qr_plan *plan, int i, struct qr_op *fused)
{
    const struct qr_op *first = &plan->op[i];
    if (first->code != QR_OP_LINEAR)
        return 0;
    int n = 1;
    uint32_t n_row = first->weight->n_row, cols = plan->value[first->out[0]].cols;
    while (i + n < plan->n_op && follows(plan, &first[n - 1], &first[n])) {
        n_row += first[n].weight->n_row;
        cols += plan->value[first[n].out[0]].cols;
        n++;
    }
    if (n < 2)
        return 0;
    struct qr_weight *wide = qr_arena_alloc(plan->arena, sizeof *wide);
    if (!wide)
        return -1;
    *wide = *first->weight; /* row and bias are those of the first view */
    wide->n_row = n_row;
    if (wide->storage->name)
        wide->name = wide->storage->name;
    *fused = *first;
    fused->weight = wide;
    fused->out[0] = wide_value(plan, qr_value_root(plan, first->out[0]), qr_value_column(plan, first->out[0]), cols);
    return n;
}

/* ---------------------------------------------------------------- norms */

static int match_rmsnorm(struct qr_plan *plan, int i, struct qr_op *fused)
{
    static const enum qr_opcode CODE[] = {QR_OP_MEAN_SQUARE, QR_OP_RSQRT, QR_OP_SCALE_ROWS, QR_OP_SCALE_COLS};
    if (!codes_are(plan, i, 4, CODE))
        return 0;
    const struct qr_op *mean = &plan->op[i], *rsqrt = mean + 1, *rows = mean + 2, *cols = mean + 3;
    int x = mean->in[0], v = mean->out[0], y = rows->out[0];
    if (rsqrt->in[0] != v || rows->in[0] != x || rows->in[1] != v || cols->in[0] != y)
        return 0;
    if (mean->width != cols->width || read_later(plan, i + 4, v))
        return 0;
    *fused = *cols;
    fused->code = QR_OP_RMSNORM;
    fused->in[0] = x;
    fused->out[0] = y;
    fused->eps = rsqrt->eps;
    return 4;
}

static int match_add_rmsnorm(struct qr_plan *plan, int i, struct qr_op *fused)
{
    static const enum qr_opcode CODE[] = {QR_OP_ADD, QR_OP_RMSNORM};
    if (!codes_are(plan, i, 2, CODE))
        return 0;
    const struct qr_op *add = &plan->op[i], *norm = add + 1;
    int x = add->out[0], r = add->in[1], y = norm->out[0];
    if (norm->in[0] != x || norm->width != plan->value[x].cols)
        return 0;
    if (qr_values_overlap(plan, y, x) || qr_values_overlap(plan, y, r))
        return 0;
    *fused = *norm; /* it belongs to the layer whose norm it is */
    fused->code = QR_OP_ADD_RMSNORM;
    fused->n_in = fused->n_out = 2;
    fused->in[0] = fused->out[0] = x;
    fused->in[1] = r;
    fused->out[1] = y;
    return 2;
}

/* ---------------------------------------------------------------- attention's inputs */

static int match_rope_store(struct qr_plan *plan, int i, struct qr_op *fused)
{
    static const enum qr_opcode CODE[] = {QR_OP_ROPE, QR_OP_ROPE, QR_OP_KV_STORE};
    if (!codes_are(plan, i, 3, CODE))
        return 0;
    const struct qr_op *rope_q = &plan->op[i], *rope_k = rope_q + 1, *store = rope_q + 2;
    int q = rope_q->in[0], k = rope_k->in[0], v = store->in[1];
    if (store->in[0] != k || rope_k->n_head != store->n_kv_head || rope_q->head_dim != store->head_dim ||
        rope_k->head_dim != store->head_dim || rope_q->layer != store->layer || rope_q->local != rope_k->local)
        return 0;
    if (qr_values_overlap(plan, q, k) || qr_values_overlap(plan, q, v) || qr_values_overlap(plan, k, v))
        return 0;
    if (read_later(plan, i + 3, k)) /* the rotated k goes to the pages only */
        return 0;
    *fused = *store;
    fused->code = QR_OP_ROPE_STORE;
    fused->n_head = rope_q->n_head;
    fused->local = rope_q->local;
    fused->n_in = 3;
    fused->n_out = 1;
    fused->in[0] = fused->out[0] = q;
    fused->in[1] = k;
    fused->in[2] = v;
    return 3;
}

static int match_qk_norm(struct qr_plan *plan, int i, struct qr_op *fused)
{
    static const enum qr_opcode CODE[] = {QR_OP_RMSNORM, QR_OP_RMSNORM, QR_OP_ROPE_STORE};
    if (!codes_are(plan, i, 3, CODE))
        return 0;
    const struct qr_op *norm_q = &plan->op[i], *norm_k = norm_q + 1, *store = norm_q + 2;
    int q = store->in[0], k = store->in[1];
    if (norm_q->in[0] != q || norm_q->out[0] != q || norm_k->in[0] != k || norm_k->out[0] != k)
        return 0;
    if (norm_q->width != store->head_dim || norm_k->width != store->head_dim || norm_q->eps != norm_k->eps)
        return 0;
    if (store->scale[0] || store->scale[1] || read_later(plan, i + 3, k))
        return 0;
    *fused = *store;
    fused->scale[0] = norm_q->scale[0];
    fused->scale[1] = norm_k->scale[0];
    fused->width = norm_q->width;
    fused->eps = norm_q->eps;
    return 3;
}

/* ---------------------------------------------------------------- mlp */

static int match_silu_mul(struct qr_plan *plan, int i, struct qr_op *fused)
{
    static const enum qr_opcode CODE[] = {QR_OP_SILU, QR_OP_MUL};
    if (!codes_are(plan, i, 2, CODE))
        return 0;
    const struct qr_op *silu = &plan->op[i], *mul = silu + 1;
    if (mul->in[0] != silu->out[0] || qr_values_overlap(plan, mul->in[0], mul->in[1]))
        return 0;
    *fused = *mul;
    fused->code = QR_OP_SILU_MUL;
    return 2;
}

const struct qr_fuse_pass qr_fuse_passes[QR_N_FUSE] = {
    {"merge", match_merge},           {"rmsnorm", match_rmsnorm}, {"add-rmsnorm", match_add_rmsnorm},
    {"rope-store", match_rope_store}, {"qk-norm", match_qk_norm}, {"silu-mul", match_silu_mul},
};
