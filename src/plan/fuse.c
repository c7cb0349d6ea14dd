/* fuse.c - runs the passes that a mask asks for over a copy of a plan, and reads masks from text. */
#include "plan/fuse_pass.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The passes that a run takes when nobody says otherwise. A pass that is measured to lose is taken out here, with its
 * figure. */
#define DEFAULT_MASK ((uint32_t)QR_FUSE_ALL)

const char *qr_fuse_name(int bit_index)
{
    return bit_index >= 0 && bit_index < QR_N_FUSE ? qr_fuse_passes[bit_index].name : NULL;
}

/* ---------------------------------------------------------------- masks as text */

static enum qr_status parse_number(const char *text, uint32_t *mask, struct qr_err *err)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 0);
    if (*end)
        return qr_fail(err, QR_INVALID, "fusion mask '%s' is not a number", text);
    if (errno || value > QR_FUSE_ALL)
        return qr_fail(err, QR_INVALID, "fusion mask %s has bits that no pass has; the largest is 0x%x", text,
                       (unsigned)QR_FUSE_ALL);
    *mask = (uint32_t)value;
    return QR_OK;
}

static enum qr_status parse_name(const char *name, size_t n, uint32_t *bits, struct qr_err *err)
{
    static const struct {
        const char *name;
        uint32_t bits;
    } SET[] = {{"none", 0}, {"all", QR_FUSE_ALL}, {"default", DEFAULT_MASK}};
    for (size_t i = 0; i < sizeof SET / sizeof SET[0]; i++)
        if (strlen(SET[i].name) == n && !memcmp(SET[i].name, name, n)) {
            *bits = SET[i].bits;
            return QR_OK;
        }
    char known[128] = "";
    for (int i = 0; i < QR_N_FUSE; i++) {
        const char *pass = qr_fuse_passes[i].name;
        if (strlen(pass) == n && !memcmp(pass, name, n)) {
            *bits = UINT32_C(1) << i;
            return QR_OK;
        }
        strcat(known, ", ");
        strcat(known, pass); /* six names of at most 12 bytes */
    }
    return qr_fail(err, QR_INVALID, "no fusion pass is named '%.*s'; there are none, all, default%s", (int)(n & 63),
                   name, known);
}

enum qr_status qr_fuse_parse(const char *text, uint32_t *mask, struct qr_err *err)
{
    if (*text >= '0' && *text <= '9')
        return parse_number(text, mask, err);
    uint32_t result = *text == '-' ? QR_FUSE_ALL : 0;
    for (const char *p = text;;) {
        size_t n = strcspn(p, ",");
        bool minus = *p == '-';
        uint32_t bits = 0;
        QR_TRY(parse_name(p + minus, n - minus, &bits, err));
        result = minus ? result & ~bits : result | bits;
        if (!p[n])
            break;
        p += n + 1;
    }
    *mask = result;
    return QR_OK;
}

/* ---------------------------------------------------------------- running */

/* Copies what the plan owns, so that the copy outlives it: merged weights too, which cannot be told from others. */
static bool copy_op(struct qr_arena *arena, struct qr_op *op)
{
    if (!op->weight)
        return true;
    struct qr_weight *weight = qr_arena_alloc(arena, sizeof *weight);
    if (!weight)
        return false;
    *weight = *op->weight;
    if (weight->name && !(weight->name = qr_arena_strdup(arena, weight->name)))
        return false;
    op->weight = weight;
    return true;
}

static struct qr_plan *copy_plan(const struct qr_plan *plan)
{
    struct qr_arena *arena = qr_arena_create(0);
    struct qr_plan *copy = arena ? qr_arena_alloc(arena, sizeof *copy) : NULL;
    if (!copy)
        goto fail;
    *copy = *plan;
    copy->arena = arena;
    copy->model = qr_arena_strdup(arena, plan->model);
    /* a merge makes at most one value of two ops */
    copy->value = qr_arena_array(arena, (size_t)plan->n_value + (size_t)plan->n_op / 2 + 1, sizeof *copy->value);
    copy->op = qr_arena_array(arena, (size_t)plan->n_op + 1, sizeof *copy->op);
    float *inv_freq = qr_arena_array(arena, plan->head_dim / 2 + 1, sizeof *inv_freq);
    float *local = qr_arena_array(arena, plan->head_dim / 2 + 1, sizeof *local);
    if (!copy->model || !copy->value || !copy->op || !inv_freq || !local)
        goto fail;
    for (int i = 0; i < plan->n_value; i++) {
        copy->value[i] = plan->value[i];
        copy->value[i].name = qr_arena_strdup(arena, plan->value[i].name);
        if (!copy->value[i].name)
            goto fail;
    }
    for (int i = 0; i < plan->n_op; i++) {
        copy->op[i] = plan->op[i];
        if (!copy_op(arena, &copy->op[i]))
            goto fail;
    }
    if (plan->inv_freq)
        memcpy(inv_freq, plan->inv_freq, plan->head_dim / 2 * sizeof *inv_freq);
    copy->inv_freq = plan->inv_freq ? inv_freq : NULL;
    if (plan->inv_freq_local)
        memcpy(local, plan->inv_freq_local, plan->head_dim / 2 * sizeof *local);
    copy->inv_freq_local = plan->inv_freq_local ? local : NULL;
    return copy;
fail:
    qr_arena_destroy(arena);
    return NULL;
}

/* The array is compacted in place: what is written lies before what is still to be matched. */
static bool run_pass(struct qr_plan *plan, qr_fuse_match match)
{
    int n = 0;
    for (int i = 0; i < plan->n_op;) {
        struct qr_op fused;
        int replaced = match(plan, i, &fused);
        if (replaced < 0)
            return false;
        plan->op[n++] = replaced ? fused : plan->op[i];
        i += replaced ? replaced : 1;
    }
    plan->n_op = n;
    return true;
}

enum qr_status qr_fuse(const struct qr_plan *plan, uint32_t mask, struct qr_plan **fused, struct qr_err *err)
{
    *fused = NULL;
    if (mask & ~(uint32_t)QR_FUSE_ALL)
        return qr_fail(err, QR_INVALID, "fusion mask 0x%x has bits that no pass has; the largest is 0x%x", mask,
                       (unsigned)QR_FUSE_ALL);
    struct qr_plan *copy = copy_plan(plan);
    bool ok = copy;
    for (int i = 0; ok && i < QR_N_FUSE; i++)
        if (mask >> i & 1)
            ok = run_pass(copy, qr_fuse_passes[i].match);
    if (!ok) {
        qr_plan_free(copy);
        return qr_fail(err, QR_NOMEM, "out of memory for the fused plan of %s", plan->model);
    }
    copy->fuse_mask = plan->fuse_mask | mask;
    *fused = copy;
    return QR_OK;
}
