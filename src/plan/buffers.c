/* buffers.c - greedy placement: the largest root first, each at the lowest offset where no root that lives at the same
 * time lies. (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020, call it greedy by
 * size.) */
#include "plan/buffers.h"
#include <stdlib.h>
#include <string.h>
#include "base/checked.h"

#define ALIGN 64

struct root {
    int value;
    int first, last; /* ops of the first write and the last read, both included; first -1: never written */
    uint64_t bytes, offset;
};

static void touch(const struct qr_plan *plan, struct root *root, int value, int at)
{
    struct root *r = &root[qr_value_root(plan, value)];
    if (r->first < 0)
        r->first = at;
    r->last = at;
}

static void find_lifetimes(const struct qr_plan *plan, struct root *root)
{
    for (int i = 0; i < plan->n_value; i++)
        root[i] = (struct root){.value = i, .first = -1, .last = -1};
    for (int i = 0; i < plan->n_op; i++) {
        const struct qr_op *op = &plan->op[i];
        for (int j = 0; j < op->n_in; j++)
            touch(plan, root, op->in[j], i);
        for (int j = 0; j < op->n_out; j++)
            touch(plan, root, op->out[j], i);
    }
    touch(plan, root, plan->logits, plan->n_op); /* read by the engine after the step */
}

static enum qr_status find_sizes(const struct qr_plan *plan, uint32_t max_t, uint32_t max_r, uint32_t elem_bytes,
                                 struct root *root, struct qr_err *err)
{
    for (int i = 0; i < plan->n_value; i++) {
        const struct qr_value *v = &plan->value[i];
        if (v->parent >= 0 || root[i].first < 0)
            continue;
        uint64_t rows = v->rows == QR_ROWS_T ? max_t : max_r;
        if (!qr_mul_u64(rows, v->cols, &root[i].bytes) || !qr_mul_u64(root[i].bytes, elem_bytes, &root[i].bytes) ||
            !qr_align_u64(root[i].bytes, ALIGN, &root[i].bytes))
            return qr_fail(err, QR_LIMIT,
                           "activation %s of %llu rows of %u does not fit 64-bit sizes: lower the "
                           "number of tokens of a step",
                           v->name, (unsigned long long)rows, v->cols);
    }
    return QR_OK;
}

/* Largest first; among equals the earlier value, so that the result does not depend on the sort. */
static int by_size(const void *a, const void *b)
{
    const struct root *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->value < y->value ? -1 : 1;
}

/* placed[0 .. n) are kept in the order of their offsets. */
static bool place(struct root *placed, int n, struct root root)
{
    uint64_t offset = 0;
    for (int i = 0; i < n; i++) {
        const struct root *p = &placed[i];
        bool apart = p->last < root.first || root.last < p->first;
        if (apart || p->offset + p->bytes <= offset)
            continue;
        if (p->offset >= offset && p->offset - offset >= root.bytes)
            break; /* the gap before p is wide enough, and what follows lies behind p */
        offset = p->offset + p->bytes;
    }
    uint64_t end;
    if (!qr_add_u64(offset, root.bytes, &end))
        return false;
    root.offset = offset;
    int at = n;
    for (; at > 0 && placed[at - 1].offset > offset; at--)
        placed[at] = placed[at - 1];
    placed[at] = root;
    return true;
}

enum qr_status qr_buffers_assign(const struct qr_plan *plan, uint32_t max_t, uint32_t max_r, uint32_t elem_bytes,
                                 struct qr_buffers *buffers, struct qr_err *err)
{
    memset(buffers, 0, sizeof *buffers);
    size_t n = (size_t)plan->n_value;
    struct root *root = calloc(n, sizeof *root), *placed = calloc(n, sizeof *placed);
    uint64_t *offset = calloc(n, sizeof *offset);
    enum qr_status status = QR_OK;
    int n_placed = 0;
    if (!root || !placed || !offset) {
        status = qr_fail(err, QR_NOMEM, "out of memory for placing %zu activations", n);
        goto done;
    }
    find_lifetimes(plan, root);
    status = find_sizes(plan, max_t, max_r, elem_bytes, root, err);
    if (status)
        goto done;
    qsort(root, n, sizeof *root, by_size);
    for (size_t i = 0; i < n; i++) {
        if (!root[i].bytes)
            continue;
        if (!qr_add_u64(buffers->unshared_bytes, root[i].bytes, &buffers->unshared_bytes) ||
            !place(placed, n_placed, root[i])) {
            status = qr_fail(err, QR_LIMIT, "the activations of %u tokens do not fit 64-bit sizes", max_t);
            goto done;
        }
        n_placed++;
    }
    for (int i = 0; i < n_placed; i++) {
        offset[placed[i].value] = placed[i].offset;
        if (placed[i].offset + placed[i].bytes > buffers->bytes)
            buffers->bytes = placed[i].offset + placed[i].bytes;
    }
    for (size_t i = 0; i < n; i++)
        if (plan->value[i].parent >= 0)
            offset[i] = offset[qr_value_root(plan, (int)i)] + (uint64_t)qr_value_column(plan, (int)i) * elem_bytes;
    buffers->n_value = plan->n_value;
    buffers->offset = offset;
    offset = NULL;
done:
    free(offset);
    free(placed);
    free(root);
    if (status)
        memset(buffers, 0, sizeof *buffers);
    return status;
}

void qr_buffers_free(struct qr_buffers *buffers)
{
    free(buffers->offset);
    memset(buffers, 0, sizeof *buffers);
}
