/* check.c - proves a plan well formed before anything trusts it: see check.h. A plan comes from arch/ and the passes, so
 * a fault is a bug of quire; the message names the op and shows its operands. */
#include "plan/check.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------- operands */

static const char *fault_of_operands(const struct qr_plan *plan, const struct qr_op *op)
{
    const struct qr_opcode_info *info = qr_opcode_info(op->code);
    if (!info)
        return "there is no such opcode";
    if (op->n_in != info->n_in || op->n_out != info->n_out)
        return "the opcode has another number of inputs or outputs";
    if (op->layer < -1 || op->layer >= (int)plan->n_layer)
        return "the layer is outside the model";
    for (int i = 0; i < op->n_in + op->n_out; i++) {
        int v = i < op->n_in ? op->in[i] : op->out[i - op->n_in];
        if (v < 0 || v >= plan->n_value)
            return "an operand is no value of the plan";
    }
    if (info->in_place && op->out[0] != op->in[0])
        return "the opcode works in place, but the output is not the first input";
    for (int o = 0; o < op->n_out; o++)
        for (int i = 0; i < op->n_in; i++)
            if (!(o == 0 && i == 0 && info->may_alias && op->out[0] == op->in[0]) &&
                qr_values_overlap(plan, op->out[o], op->in[i]))
                return "an output overlaps an input";
    for (int i = 0; i < op->n_in; i++)
        for (int j = 0; j < i; j++)
            if (qr_values_overlap(plan, op->in[i], op->in[j]))
                return "two inputs overlap";
    if (op->n_out == 2 && qr_values_overlap(plan, op->out[0], op->out[1]))
        return "two outputs overlap";
    return NULL;
}

/* All operands have a row per token, or all have a row per wanted logit; only GATHER goes from one to the other. */
static const char *fault_of_rows(const struct qr_plan *plan, const struct qr_op *op)
{
    const struct qr_value *value = plan->value;
    if (op->code == QR_OP_GATHER)
        return value[op->in[0]].rows == QR_ROWS_T && value[op->out[0]].rows == QR_ROWS_R
                   ? NULL
                   : "GATHER goes from T rows to R rows";
    enum qr_rows rows = op->n_in ? value[op->in[0]].rows : value[op->out[0]].rows;
    for (int i = 0; i < op->n_in; i++)
        if (value[op->in[i]].rows != rows)
            return "operands have different numbers of rows";
    for (int i = 0; i < op->n_out; i++)
        if (value[op->out[i]].rows != rows)
            return "operands have different numbers of rows";
    bool all_tokens = op->code == QR_OP_EMBED || op->code == QR_OP_ROPE || op->code == QR_OP_KV_STORE ||
                      op->code == QR_OP_ROPE_STORE || op->code == QR_OP_ATTENTION;
    return all_tokens && rows != QR_ROWS_T ? "the opcode works on all tokens of the step" : NULL;
}

/* ---------------------------------------------------------------- weights */

static const char *fault_of_weight(const struct qr_weight *weight)
{
    const struct qr_storage *storage = weight ? weight->storage : NULL;
    if (!storage)
        return "there is no weight";
    if (weight->row % 16)
        return "the weight starts at a row that is no multiple of 16";
    if (!weight->n_row || (uint64_t)weight->row + weight->n_row > storage->n_row || weight->n_col != storage->n_col)
        return "the weight lies outside its storage";
    uint64_t end = 0;
    for (int i = 0; i < storage->n_segment; i++) {
        const struct qr_segment *segment = &storage->segment[i];
        /* the rows that fill a segment up to a multiple of 16 belong to none */
        if (segment->row % 16 || segment->row < end || segment->row - end >= 16)
            return "the segments of the storage overlap or leave a hole";
        end = (uint64_t)segment->row + segment->n_row;
        const struct qr_dtype_info *info = (unsigned)segment->type < QR_N_DTYPE ? qr_dtype_info(segment->type) : NULL;
        if (!info || storage->n_col % info->block)
            return "a segment has no known type, or rows that are no multiple of its block";
    }
    return end + 16 <= storage->n_row || end > storage->n_row ? "the segments are not the whole storage" : NULL;
}

static const char *fault_of_linear(const struct qr_op *op, uint32_t in_cols, uint32_t out_cols)
{
    const char *fault = fault_of_weight(op->weight);
    if (fault)
        return fault;
    return op->weight->n_col == in_cols && op->weight->n_row == out_cols
               ? NULL
               : "the weight's shape is not [columns of the output, columns of the input]";
}

/* ---------------------------------------------------------------- shapes */

static const char *fault_of_norm(const struct qr_op *op, uint32_t cols)
{
    if (!op->width || cols % op->width)
        return "the columns are no multiple of the norm's width";
    if (op->code == QR_OP_MEAN_SQUARE || op->code == QR_OP_SCALE_ROWS)
        return NULL;
    if (!op->scale[0] || op->scale[0]->n != op->width)
        return "the norm's weight is absent or has another width";
    if (op->code != QR_OP_SCALE_COLS && !(op->eps > 0 && isfinite(op->eps)))
        return "eps is not a small positive number";
    return NULL;
}

static const char *fault_of_heads(const struct qr_plan *plan, const struct qr_op *op)
{
    if (!op->head_dim || op->head_dim % 2 || op->head_dim != plan->head_dim)
        return "head_dim is odd or not the plan's";
    if (op->code != QR_OP_ROPE && (!op->n_kv_head || op->n_kv_head != plan->n_kv_head))
        return "n_kv_head is not the plan's";
    if (op->code != QR_OP_KV_STORE && !op->n_head)
        return "there are no heads";
    if ((op->code == QR_OP_ATTENTION || op->code == QR_OP_ROPE_STORE) && op->n_head % op->n_kv_head)
        return "n_head is no multiple of n_kv_head";
    if ((op->code == QR_OP_ROPE || op->code == QR_OP_ROPE_STORE) && !plan->inv_freq)
        return "the plan has no rope frequencies";
    if ((op->code == QR_OP_ROPE || op->code == QR_OP_ROPE_STORE) && op->local && !plan->inv_freq_local)
        return "the plan has no rope frequencies for local layers";
    if (op->code != QR_OP_ROPE && op->layer < 0)
        return "keys and values belong to a layer";
    return NULL;
}

static const char *fault_of_attention(const struct qr_op *op, uint32_t in_cols, uint32_t out_cols)
{
    uint64_t cols = (uint64_t)op->n_head * op->head_dim;
    if (in_cols != cols || out_cols != cols)
        return "q or the output is not n_head * head_dim wide";
    if (!(op->attn_scale > 0 && isfinite(op->attn_scale)) || !(op->soft_cap >= 0 && isfinite(op->soft_cap)) ||
        op->window < 0)
        return "scale, soft cap or window is out of range";
    return NULL;
}

static const char *fault_of_kv(const struct qr_op *op, uint32_t k_cols, uint32_t v_cols)
{
    uint64_t cols = (uint64_t)op->n_kv_head * op->head_dim;
    return k_cols == cols && v_cols == cols ? NULL : "k or v is not n_kv_head * head_dim wide";
}

static const char *fault_of_rope_store(const struct qr_op *op, uint32_t q_cols)
{
    if (q_cols != (uint64_t)op->n_head * op->head_dim)
        return "q is not n_head * head_dim wide";
    if (!op->scale[0] && !op->scale[1])
        return NULL;
    if (!op->scale[0] || !op->scale[1] || op->scale[0]->n != op->head_dim || op->scale[1]->n != op->head_dim)
        return "the head norms of q and k are not both head_dim wide";
    return op->width == op->head_dim && op->eps > 0 && isfinite(op->eps) ? NULL
                                                                         : "the head norms' width or eps is wrong";
}

static const char *fault_of_shape(const struct qr_plan *plan, const struct qr_op *op)
{
    uint32_t in[QR_OP_MAX_IN] = {0}, out[QR_OP_MAX_OUT] = {0};
    for (int i = 0; i < op->n_in; i++)
        in[i] = plan->value[op->in[i]].cols;
    for (int i = 0; i < op->n_out; i++)
        out[i] = plan->value[op->out[i]].cols;
    const char *fault = NULL;
    switch (op->code) {
    case QR_OP_EMBED:
        return fault_of_linear(op, out[0], plan->n_vocab);
    case QR_OP_LINEAR:
        return fault_of_linear(op, in[0], out[0]);
    case QR_OP_MEAN_SQUARE:
        fault = fault_of_norm(op, in[0]);
        return fault ? fault : out[0] == in[0] / op->width ? NULL : "there is not one mean a group";
    case QR_OP_SCALE_ROWS:
        fault = fault_of_norm(op, in[0]);
        return fault ? fault : in[1] == in[0] / op->width && out[0] == in[0] ? NULL : "there is not one factor a group";
    case QR_OP_RSQRT:
        return op->eps > 0 && isfinite(op->eps) ? NULL : "eps is not a small positive number";
    case QR_OP_SCALE_COLS:
    case QR_OP_RMSNORM:
        fault = fault_of_norm(op, in[0]);
        return fault ? fault : out[0] == in[0] ? NULL : "the output is not as wide as the input";
    case QR_OP_ADD_RMSNORM:
        fault = fault_of_norm(op, in[0]);
        return fault ? fault : in[1] == in[0] && out[1] == in[0] ? NULL : "x, r and y are not equally wide";
    case QR_OP_ADD:
    case QR_OP_MUL:
    case QR_OP_SILU_MUL:
        return in[0] == in[1] ? NULL : "the inputs are not equally wide";
    case QR_OP_GATHER:
        return in[0] == out[0] ? NULL : "the output is not as wide as the input";
    case QR_OP_ROPE:
        fault = fault_of_heads(plan, op);
        return fault ? fault : in[0] == (uint64_t)op->n_head * op->head_dim ? NULL : "x is not as wide as its heads";
    case QR_OP_KV_STORE:
        fault = fault_of_heads(plan, op);
        return fault ? fault : fault_of_kv(op, in[0], in[1]);
    case QR_OP_ROPE_STORE:
        fault = fault_of_heads(plan, op);
        if (!fault)
            fault = fault_of_kv(op, in[1], in[2]);
        return fault ? fault : fault_of_rope_store(op, in[0]);
    case QR_OP_ATTENTION:
        fault = fault_of_heads(plan, op);
        return fault ? fault : fault_of_attention(op, in[0], out[0]);
    case QR_OP_SCALE:
        return isfinite(op->factor) ? NULL : "the factor is not finite";
    case QR_OP_SOFT_CAP:
        return op->soft_cap > 0 && isfinite(op->soft_cap) ? NULL : "the soft cap is not a positive number";
    case QR_OP_SILU:
    case QR_OP_GELU:
    case QR_N_OPCODE:
        break;
    }
    return NULL;
}

/* ---------------------------------------------------------------- order */

struct progress {
    uint8_t **written; /* [n_value], of roots: a byte a column, 1 once it holds a result */
    uint8_t *stored;   /* [n_layer] keys and values of the layer are in the pages */
};

static uint8_t *columns(const struct qr_plan *plan, const struct progress *progress, int value)
{
    return progress->written[qr_value_root(plan, value)] + qr_value_column(plan, value);
}

static bool is_written(const struct qr_plan *plan, const struct progress *progress, int value)
{
    return !memchr(columns(plan, progress, value), 0, plan->value[value].cols);
}

static const char *fault_of_order(const struct qr_plan *plan, const struct qr_op *op, struct progress *progress)
{
    for (int i = 0; i < op->n_in; i++)
        if (!is_written(plan, progress, op->in[i]))
            return "an input is read before it is written";
    if (op->code == QR_OP_ROPE_STORE) /* leaves k as it likes: the rotated one is in the pages */
        memset(columns(plan, progress, op->in[1]), 0, plan->value[op->in[1]].cols);
    for (int i = 0; i < op->n_out; i++)
        memset(columns(plan, progress, op->out[i]), 1, plan->value[op->out[i]].cols);
    if (op->code == QR_OP_KV_STORE || op->code == QR_OP_ROPE_STORE) {
        if (progress->stored[op->layer])
            return "the layer's keys and values are stored twice";
        progress->stored[op->layer] = 1;
    }
    if (op->code == QR_OP_ATTENTION && !progress->stored[op->layer])
        return "attention comes before the layer's keys and values are stored";
    return NULL;
}

/* ---------------------------------------------------------------- the whole */

static enum qr_status check_values(const struct qr_plan *plan, struct qr_err *err)
{
    for (int i = 0; i < plan->n_value; i++) {
        const struct qr_value *v = &plan->value[i];
        if (!v->name || !v->cols || (v->rows != QR_ROWS_T && v->rows != QR_ROWS_R))
            return qr_fail(err, QR_INTERNAL, "plan value %d (%s) has no name, no columns or no kind of rows", i,
                           v->name ? v->name : "?");
        if (v->parent == -1)
            continue;
        if (v->parent < 0 || v->parent >= i)
            return qr_fail(err, QR_INTERNAL, "plan value %d (%s) is a view of value %d, which does not come before it",
                           i, v->name, v->parent);
        const struct qr_value *parent = &plan->value[v->parent];
        if ((uint64_t)v->col + v->cols > parent->cols || v->rows != parent->rows)
            return qr_fail(err, QR_INTERNAL, "plan value %d (%s), columns %u + %u, lies outside %s, which has %u", i,
                           v->name, v->col, v->cols, parent->name, parent->cols);
    }
    int logits = plan->logits;
    if (logits < 0 || logits >= plan->n_value || plan->value[logits].rows != QR_ROWS_R ||
        plan->value[logits].cols != plan->n_vocab)
        return qr_fail(err, QR_INTERNAL, "the plan's logits (value %d) are not [R, %u]", logits, plan->n_vocab);
    for (uint32_t i = 0; plan->inv_freq && i < plan->head_dim / 2; i++)
        if (!isfinite(plan->inv_freq[i]))
            return qr_fail(err, QR_INTERNAL, "rope frequency %u of the plan is %g", i, (double)plan->inv_freq[i]);
    return QR_OK;
}

/* "LINEAR(h [T, 576]) -> q [T, 576]", with the weight's shape behind. */
static void describe(const struct qr_plan *plan, const struct qr_op *op, char *text, size_t room)
{
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < op->n_in + op->n_out && n < room; i++) {
        bool is_in = i < op->n_in;
        int v =
            is_in ? (i < QR_OP_MAX_IN ? op->in[i] : -1) : (i - op->n_in < QR_OP_MAX_OUT ? op->out[i - op->n_in] : -1);
        if (v < 0 || v >= plan->n_value)
            n += (size_t)snprintf(text + n, room - n, " %s value %d;", is_in ? "in" : "out", v);
        else
            n += (size_t)snprintf(text + n, room - n, " %s %s [%s, %u];", is_in ? "in" : "out", plan->value[v].name,
                                  plan->value[v].rows == QR_ROWS_T ? "T" : "R", plan->value[v].cols);
    }
    if (op->weight && n < room)
        snprintf(text + n, room - n, " weight %s [%u, %u]", op->weight->name ? op->weight->name : "?",
                 op->weight->n_row, op->weight->n_col);
}

static enum qr_status check_ops(const struct qr_plan *plan, struct progress *progress, struct qr_err *err)
{
    for (int i = 0; i < plan->n_op; i++) {
        const struct qr_op *op = &plan->op[i];
        const char *fault = fault_of_operands(plan, op);
        if (!fault)
            fault = fault_of_rows(plan, op);
        if (!fault)
            fault = fault_of_shape(plan, op);
        if (!fault)
            fault = fault_of_order(plan, op, progress);
        if (fault) {
            char text[256];
            describe(plan, op, text, sizeof text);
            return qr_fail(err, QR_INTERNAL, "plan op %d (%s of layer %d): %s:%s", i, qr_opcode_name(op->code),
                           op->layer, fault, text);
        }
    }
    if (!is_written(plan, progress, plan->logits))
        return qr_fail(err, QR_INTERNAL, "the plan ends without having written its logits");
    return QR_OK;
}

enum qr_status qr_plan_check(const struct qr_plan *plan, struct qr_err *err)
{
    QR_TRY(check_values(plan, err));
    struct qr_arena *arena = qr_arena_create(0);
    struct progress progress = {0};
    bool ok = arena;
    if (ok) {
        progress.written = qr_arena_array(arena, (size_t)plan->n_value, sizeof *progress.written);
        progress.stored = qr_arena_alloc(arena, (size_t)plan->n_layer + 1);
        ok = progress.written && progress.stored;
    }
    for (int i = 0; ok && i < plan->n_value; i++)
        if (plan->value[i].parent < 0)
            ok = (progress.written[i] = qr_arena_alloc(arena, plan->value[i].cols)) != NULL;
    enum qr_status status =
        ok ? check_ops(plan, &progress, err) : qr_fail(err, QR_NOMEM, "out of memory for checking the plan");
    qr_arena_destroy(arena);
    return status;
}
