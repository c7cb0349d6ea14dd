/* op.c - the table of opcodes, recording a plan, and the helpers for walking one. */
#include "plan/op.h"
#include <stdlib.h>
#include <string.h>

static const struct qr_opcode_info INFO[QR_N_OPCODE] = {
    /*                    name           in out in_place may_alias */
    [QR_OP_EMBED] = {"EMBED", 0, 1, false, false},
    [QR_OP_MEAN_SQUARE] = {"MEAN_SQUARE", 1, 1, false, false},
    [QR_OP_RSQRT] = {"RSQRT", 1, 1, true, true},
    [QR_OP_SCALE_ROWS] = {"SCALE_ROWS", 2, 1, false, true},
    [QR_OP_SCALE_COLS] = {"SCALE_COLS", 1, 1, true, true},
    [QR_OP_RMSNORM] = {"RMSNORM", 1, 1, false, true},
    [QR_OP_ADD] = {"ADD", 2, 1, true, true},
    [QR_OP_ADD_RMSNORM] = {"ADD_RMSNORM", 2, 2, true, true},
    [QR_OP_LINEAR] = {"LINEAR", 1, 1, false, false},
    [QR_OP_ROPE] = {"ROPE", 1, 1, true, true},
    [QR_OP_KV_STORE] = {"KV_STORE", 2, 0, false, false},
    [QR_OP_ROPE_STORE] = {"ROPE_STORE", 3, 1, true, true},
    [QR_OP_ATTENTION] = {"ATTENTION", 1, 1, false, false},
    [QR_OP_SILU] = {"SILU", 1, 1, true, true},
    [QR_OP_MUL] = {"MUL", 2, 1, true, true},
    [QR_OP_SILU_MUL] = {"SILU_MUL", 2, 1, true, true},
    [QR_OP_GATHER] = {"GATHER", 1, 1, false, false},
    [QR_OP_SCALE] = {"SCALE", 1, 1, true, true},
    [QR_OP_GELU] = {"GELU", 1, 1, true, true},
    [QR_OP_SOFT_CAP] = {"SOFT_CAP", 1, 1, true, true},
};
_Static_assert(QR_N_OPCODE < 32, "opcodes stay under 32");

const struct qr_opcode_info *qr_opcode_info(enum qr_opcode code)
{
    return (unsigned)code < QR_N_OPCODE ? &INFO[code] : NULL;
}

const char *qr_opcode_name(enum qr_opcode code)
{
    const struct qr_opcode_info *info = qr_opcode_info(code);
    return info ? info->name : "?";
}

/* ---------------------------------------------------------------- recording */

struct qr_recorder {
    struct qr_plan *plan;
    int op_room, value_room;
    enum qr_status failed;   /* the first failure; QR_OK: none */
    struct qr_op scratch_op; /* what qr_rec_op hands out once recording has failed */
};

enum qr_status qr_plan_begin(const char *model, struct qr_recorder **rec, struct qr_err *err)
{
    *rec = calloc(1, sizeof **rec);
    struct qr_arena *arena = qr_arena_create(0);
    struct qr_plan *plan = arena ? qr_arena_alloc(arena, sizeof *plan) : NULL;
    if (plan)
        plan->model = qr_arena_strdup(arena, model);
    if (!*rec || !plan || !plan->model) {
        qr_arena_destroy(arena);
        free(*rec);
        *rec = NULL;
        return qr_fail(err, QR_NOMEM, "out of memory for the plan of %s", model);
    }
    plan->arena = arena;
    plan->logits = -1;
    plan->rope_scale = 1;
    (*rec)->plan = plan;
    return QR_OK;
}

/* Room for one more element; the old array stays in the arena, which costs at most as much again. */
static bool grow(struct qr_recorder *rec, void **array, int n, int *room, size_t size)
{
    if (n < *room)
        return true;
    int more = *room ? *room * 2 : 64;
    void *p = *room <= 1 << 24 ? qr_arena_array(rec->plan->arena, (size_t)more, size) : NULL;
    if (!p) {
        rec->failed = QR_NOMEM;
        return false;
    }
    if (n)
        memcpy(p, *array, (size_t)n * size);
    *array = p;
    *room = more;
    return true;
}

static int add_value(struct qr_recorder *rec, struct qr_value value)
{
    struct qr_plan *plan = rec->plan;
    if (rec->failed)
        return -1;
    void *array = plan->value;
    if (!grow(rec, &array, plan->n_value, &rec->value_room, sizeof *plan->value))
        return -1;
    plan->value = array;
    value.name = qr_arena_strdup(plan->arena, value.name);
    if (!value.name) {
        rec->failed = QR_NOMEM;
        return -1;
    }
    plan->value[plan->n_value] = value;
    return plan->n_value++;
}

int qr_rec_value(struct qr_recorder *rec, const char *name, enum qr_rows rows, uint32_t cols)
{
    return add_value(rec, (struct qr_value){.name = name, .rows = rows, .cols = cols, .parent = -1});
}

int qr_rec_view(struct qr_recorder *rec, const char *name, int parent, uint32_t col, uint32_t cols)
{
    if (!rec->failed && (parent < 0 || parent >= rec->plan->n_value))
        rec->failed = QR_INTERNAL;
    if (rec->failed)
        return -1;
    enum qr_rows rows = rec->plan->value[parent].rows;
    return add_value(rec, (struct qr_value){.name = name, .rows = rows, .cols = cols, .parent = parent, .col = col});
}

struct qr_op *qr_rec_op(struct qr_recorder *rec, enum qr_opcode code, int layer)
{
    struct qr_plan *plan = rec->plan;
    struct qr_op *op = &rec->scratch_op;
    void *array = plan->op;
    if (!rec->failed && grow(rec, &array, plan->n_op, &rec->op_room, sizeof *plan->op)) {
        plan->op = array;
        op = &plan->op[plan->n_op++];
    }
    const struct qr_opcode_info *info = qr_opcode_info(code);
    memset(op, 0, sizeof *op);
    op->code = code;
    op->layer = layer;
    op->n_in = info ? info->n_in : 0;
    op->n_out = info ? info->n_out : 0;
    for (int i = 0; i < QR_OP_MAX_IN; i++)
        op->in[i] = -1;
    for (int i = 0; i < QR_OP_MAX_OUT; i++)
        op->out[i] = -1;
    return op;
}

struct qr_plan *qr_rec_plan(struct qr_recorder *rec)
{
    return rec->plan;
}

enum qr_status qr_plan_finish(struct qr_recorder *rec, struct qr_plan **plan, struct qr_err *err)
{
    enum qr_status failed = rec->failed;
    *plan = rec->plan;
    free(rec);
    if (failed) {
        const char *why = failed == QR_NOMEM ? "out of memory" : "a view was recorded of a value that is not there";
        qr_fail(err, failed, "cannot record the plan of %s: %s", (*plan)->model, why);
        qr_plan_free(*plan);
        *plan = NULL;
    }
    return failed;
}

void qr_plan_free(struct qr_plan *plan)
{
    if (plan)
        qr_arena_destroy(plan->arena);
}

/* ---------------------------------------------------------------- walking */

int qr_value_root(const struct qr_plan *plan, int value)
{
    while (plan->value[value].parent >= 0)
        value = plan->value[value].parent;
    return value;
}

uint32_t qr_value_column(const struct qr_plan *plan, int value)
{
    uint32_t column = 0;
    for (; plan->value[value].parent >= 0; value = plan->value[value].parent)
        column += plan->value[value].col;
    return column;
}

bool qr_values_overlap(const struct qr_plan *plan, int a, int b)
{
    uint64_t a0 = qr_value_column(plan, a), b0 = qr_value_column(plan, b);
    return qr_value_root(plan, a) == qr_value_root(plan, b) && a0 < b0 + plan->value[b].cols &&
           b0 < a0 + plan->value[a].cols;
}

bool qr_value_covers(const struct qr_plan *plan, int a, int b)
{
    uint64_t a0 = qr_value_column(plan, a), b0 = qr_value_column(plan, b);
    return qr_value_root(plan, a) == qr_value_root(plan, b) && a0 <= b0 &&
           b0 + plan->value[b].cols <= a0 + plan->value[a].cols;
}
