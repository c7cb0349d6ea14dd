/* bind.c - which results go straight into the 16-bit input of the LINEAR or ATTENTION that reads them.
 *
 * There is one such input on the device. Walking the plan once tells what it holds at each op: an op that can write it
 * does so when the next LINEAR reads its result; a LINEAR whose input is not there has it rounded first. */
#include "cuda/exec.h"

/* The result that an op can give in bf16; -1: none. */
static int result16(const struct qr_op *op)
{
    switch (op->code) {
    case QR_OP_RMSNORM:
    case QR_OP_SILU_MUL:
    case QR_OP_MUL:
    case QR_OP_ATTENTION:
        return op->out[0];
    case QR_OP_ADD_RMSNORM:
        return op->out[1];
    default:
        return -1;
    }
}

static bool writes(const struct qr_plan *plan, const struct qr_op *op, int value)
{
    for (int i = 0; i < op->n_out; i++)
        if (qr_values_overlap(plan, op->out[i], value))
            return true;
    return false;
}

/* Is value what the next LINEAR behind op i reads, unchanged? */
static bool feeds_next_linear(const struct qr_plan *plan, int i, int value)
{
    for (int j = i + 1; j < plan->n_op; j++) {
        if (plan->op[j].code == QR_OP_LINEAR)
            return plan->op[j].in[0] == value;
        if (writes(plan, &plan->op[j], value))
            return false;
    }
    return false;
}

/* Does anyone read value behind op i, other than ops that find it in 16 bits? */
static bool is_read(const struct qr_plan *plan, const struct qr_cuda_op *bound, int i, int value)
{
    if (qr_values_overlap(plan, plan->logits, value))
        return true;
    for (int j = i + 1; j < plan->n_op; j++) {
        const struct qr_op *op = &plan->op[j];
        for (int k = 0; k < op->n_in; k++)
            if (qr_values_overlap(plan, op->in[k], value) &&
                ((op->code != QR_OP_LINEAR && op->code != QR_OP_ATTENTION) || bound[j].convert))
                return true;
        for (int k = 0; k < op->n_out; k++)
            if (qr_value_covers(plan, op->out[k], value))
                return false;
    }
    return false;
}

/* Does a SILU_MUL of both halves of op i's result stand behind it, that hands bf16 to one LINEAR and is all that reads them? */
static bool gates(const struct qr_plan *plan, const struct qr_cuda_op *bound, int i)
{
    const struct qr_op *op = &plan->op[i], *mul = op + 1;
    if (op->code != QR_OP_LINEAR || i + 1 == plan->n_op || mul->code != QR_OP_SILU_MUL || !bound[i + 1].y16 ||
        !bound[i + 1].y_unread)
        return false;
    int y = op->out[0], gate = mul->in[0], up = mul->in[1], n_reader = 0;
    uint32_t half = plan->value[gate].cols;
    if (plan->value[y].parent >= 0 || plan->value[y].cols != 2 * half || plan->value[up].cols != half ||
        qr_value_root(plan, gate) != y || qr_value_root(plan, up) != y || qr_value_column(plan, gate) != 0 ||
        qr_value_column(plan, up) != half)
        return false;
    for (int j = i + 2; j < plan->n_op; j++) {
        for (int k = 0; k < plan->op[j].n_in; k++)
            if (qr_values_overlap(plan, plan->op[j].in[k], y)) {
                if (plan->op[j].in[k] != gate)
                    return false;
                n_reader++;
            }
        for (int k = 0; k < plan->op[j].n_out; k++)
            if (qr_value_covers(plan, plan->op[j].out[k], y))
                return n_reader == 1;
    }
    return n_reader == 1;
}

/* The rotation that leaves q in 16 bits for the ATTENTION at op i; -1: none does. */
static int find_rotation(const struct qr_plan *plan, int i)
{
    int q = plan->op[i].in[0];
    for (int j = i - 1; j >= 0; j--) {
        const struct qr_op *op = &plan->op[j];
        if (writes(plan, op, q))
            return (op->code == QR_OP_ROPE || op->code == QR_OP_ROPE_STORE) && op->out[0] == q ? j : -1;
    }
    return -1;
}

void qr_cuda_bind(const struct qr_plan *plan, struct qr_cuda_sizes *sizes)
{
    struct qr_cuda_op *bound = sizes->op;
    int held = -1;
    for (int i = 0; i < plan->n_op; i++) {
        const struct qr_op *op = &plan->op[i];
        if (op->code == QR_OP_LINEAR) {
            bound[i].convert = op->in[0] != held;
            held = op->in[0];
        }
        if (held >= 0 && writes(plan, op, held))
            held = -1;
        int value = result16(op);
        if (value >= 0 && plan->value[value].cols % 64 == 0 && feeds_next_linear(plan, i, value)) {
            bound[i].y16 = true;
            held = value;
        }
    }
    for (int i = 0; i < plan->n_op; i++) {
        int rotation = plan->op[i].code == QR_OP_ATTENTION ? find_rotation(plan, i) : -1;
        bound[i].convert |= plan->op[i].code == QR_OP_ATTENTION && rotation < 0;
        if (rotation >= 0)
            bound[rotation].y16 = true;
    }
    for (int i = 0; i < plan->n_op; i++) {
        int value = result16(&plan->op[i]);
        if (bound[i].y16)
            bound[i].y_unread = !is_read(plan, bound, i, value >= 0 ? value : plan->op[i].out[0]);
    }
    for (int i = 0; i < plan->n_op; i++)
        bound[i].gates = gates(plan, bound, i);
}
