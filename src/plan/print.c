/* print.c - the page that `quire plan` shows: a formula an op, layers that are alike folded into one. */
#include "plan/fuse.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Widths of a line's columns; colours stand around the first one, outside its width. */
#define COLUMNS "%s%-*s%s%-*s%-*s%-*s%s\n"
enum { W_OP = 13, W_SHAPE = 13, W_MEANING = 42, W_WEIGHT = 40 };

/* ---------------------------------------------------------------- numbers */

/* 3.087 GB: decimal units, four digits. */
static const char *human(double bytes, char text[32])
{
    static const char *const UNIT[] = {"B", "KB", "MB", "GB", "TB"};
    int unit = 0;
    for (; bytes >= 1000 && unit < 4; unit++)
        bytes /= 1000;
    snprintf(text, 32, "%.4g %s", bytes, UNIT[unit]);
    return text;
}

/* Bytes of the rows of a view, as stored: a segment's padding counts in proportion. */
static double weight_bytes(const struct qr_weight *weight)
{
    const struct qr_storage *storage = weight->storage;
    double bytes = 0;
    for (int i = 0; i < storage->n_segment; i++) {
        const struct qr_segment *s = &storage->segment[i];
        uint32_t from = s->row > weight->row ? s->row : weight->row;
        uint32_t end = s->row + s->n_row, to = weight->row + weight->n_row;
        to = to < end ? to : end;
        if (from < to)
            bytes += (double)s->bytes * (to - from) / s->n_row;
    }
    return bytes;
}

/* What an op reads of the model for one token: EMBED looks up one row. */
static double op_bytes(const struct qr_op *op)
{
    double bytes = 0;
    if (op->weight) {
        bytes = weight_bytes(op->weight) + (op->weight->bias ? 4.0 * op->weight->n_row : 0);
        if (op->code == QR_OP_EMBED)
            bytes /= op->weight->n_row;
    }
    for (int i = 0; i < 2; i++)
        if (op->scale[i])
            bytes += 4.0 * op->scale[i]->n;
    return bytes;
}

/* ---------------------------------------------------------------- one op */

/* The op as the paper would write it; ' is the transpose, K and V are the pages. */
static void formula(const struct qr_plan *plan, const struct qr_op *op, char *text, size_t room)
{
    const char *in[QR_OP_MAX_IN] = {"", "", "", ""}, *out[QR_OP_MAX_OUT] = {"", ""};
    for (int i = 0; i < op->n_in; i++)
        in[i] = plan->value[op->in[i]].name;
    for (int i = 0; i < op->n_out; i++)
        out[i] = plan->value[op->out[i]].name;
    const char *bias = op->weight && op->weight->bias ? " + b" : "";
    const char *norm = op->scale[0] ? "norm " : "";
    switch (op->code) {
    case QR_OP_EMBED:
        snprintf(text, room, "%s = W[token]", out[0]);
        break;
    case QR_OP_MEAN_SQUARE:
        snprintf(text, room, "%s = mean(%s^2) of each %u", out[0], in[0], op->width);
        break;
    case QR_OP_RSQRT:
        snprintf(text, room, "%s = 1 / sqrt(%s + %g)", out[0], in[0], (double)op->eps);
        break;
    case QR_OP_SCALE_ROWS:
        snprintf(text, room, "%s = %s * %s", out[0], in[0], in[1]);
        break;
    case QR_OP_SCALE_COLS:
        snprintf(text, room, "%s *= w", out[0]);
        break;
    case QR_OP_RMSNORM:
        snprintf(text, room, "%s = rmsnorm(%s) * w", out[0], in[0]);
        break;
    case QR_OP_ADD:
        snprintf(text, room, "%s += %s", out[0], in[1]);
        break;
    case QR_OP_ADD_RMSNORM:
        snprintf(text, room, "%s += %s; %s = rmsnorm(%s) * w", out[0], in[1], out[1], out[0]);
        break;
    case QR_OP_LINEAR:
        snprintf(text, room, "%s = %s W'%s", out[0], in[0], bias);
        break;
    case QR_OP_ROPE:
        snprintf(text, room, "%s = rope(%s)", out[0], in[0]);
        break;
    case QR_OP_KV_STORE:
        snprintf(text, room, "K, V <- %s, %s", in[0], in[1]);
        break;
    case QR_OP_ROPE_STORE:
        snprintf(text, room, "%s = rope(%s%s); K, V <- rope(%s%s), %s", out[0], norm, in[0], norm, in[1], in[2]);
        break;
    case QR_OP_ATTENTION:
        snprintf(text, room, "%s = softmax(%.4g %s K') V", out[0], (double)op->attn_scale, in[0]);
        break;
    case QR_OP_SILU:
        snprintf(text, room, "%s = silu(%s)", out[0], in[0]);
        break;
    case QR_OP_MUL:
        snprintf(text, room, "%s *= %s", out[0], in[1]);
        break;
    case QR_OP_SILU_MUL:
        snprintf(text, room, "%s = silu(%s) * %s", out[0], in[0], in[1]);
        break;
    case QR_OP_GATHER:
        snprintf(text, room, "%s = the R rows of %s", out[0], in[0]);
        break;
    case QR_OP_SCALE:
        snprintf(text, room, "%s *= %.6g", out[0], (double)op->factor);
        break;
    case QR_OP_GELU:
        snprintf(text, room, "%s = gelu(%s)", out[0], in[0]);
        break;
    case QR_OP_SOFT_CAP:
        snprintf(text, room, "%s = %g tanh(%s / %g)", out[0], (double)op->soft_cap, in[0], (double)op->soft_cap);
        break;
    case QR_N_OPCODE:
        text[0] = 0;
        break;
    }
}

/* The name with the layer's number as N, so that equal layers print alike; layer -1: as it is. */
static void put_name(struct qr_buf *out, const char *name, int layer)
{
    char prefix[24];
    size_t n = (size_t)snprintf(prefix, sizeof prefix, "blk.%d.", layer);
    if (layer >= 0 && !strncmp(name, prefix, n))
        qr_buf_printf(out, "blk.N.%s", name + n);
    else
        qr_buf_puts(out, name);
}

static void put_weight(struct qr_buf *out, const struct qr_weight *weight, int layer)
{
    const struct qr_storage *storage = weight->storage;
    put_name(out, weight->name ? weight->name : "?", layer);
    bool whole = weight->row == 0 && weight->n_row == storage->n_row;
    if (whole && weight->name && storage->name && strcmp(weight->name, storage->name) != 0)
        qr_buf_printf(out, " = %s", storage->name); /* a head that is the embedding */
    qr_buf_printf(out, " [%u, %u]", weight->n_row, weight->n_col);
    enum qr_dtype last = QR_N_DTYPE;
    for (int i = 0; i < storage->n_segment; i++) {
        const struct qr_segment *s = &storage->segment[i];
        bool inside = s->row < weight->row + weight->n_row && s->row + s->n_row > weight->row;
        if (inside && s->type != last) {
            qr_buf_printf(out, "%c%s", last == QR_N_DTYPE ? ' ' : '+', qr_dtype_info(s->type)->name);
            last = s->type;
        }
    }
}

/* How many of a head's numbers turn: pairs at its end whose frequency is 0 stand still. */
static uint32_t turning(const struct qr_plan *plan, const struct qr_op *op)
{
    const float *inv_freq = op->local ? plan->inv_freq_local : plan->inv_freq;
    uint32_t n = op->head_dim / 2;
    while (inv_freq && n > 0 && inv_freq[n - 1] == 0)
        n--;
    return 2 * n;
}

/* The column behind the formula: what the op knows beside its values. */
static void put_parameters(struct qr_buf *out, const struct qr_plan *plan, const struct qr_op *op, int layer)
{
    const bool ropes = op->code == QR_OP_ROPE || op->code == QR_OP_ROPE_STORE;
    if (op->weight)
        put_weight(out, op->weight, layer);
    if (op->scale[0]) {
        put_name(out, op->scale[0]->name ? op->scale[0]->name : "?", layer);
        if (op->scale[1] && op->scale[1]->name) { /* of the same layer: its last part will do */
            const char *last = strrchr(op->scale[1]->name, '.');
            qr_buf_printf(out, ", %s", last ? last + 1 : op->scale[1]->name);
        }
        qr_buf_printf(out, " [%u]", op->scale[0]->n);
    }
    if (op->code == QR_OP_ROPE)
        qr_buf_printf(out, "%u heads of %u", op->n_head, op->head_dim);
    if (op->code == QR_OP_KV_STORE)
        qr_buf_printf(out, "%u heads of %u", op->n_kv_head, op->head_dim);
    if (op->code == QR_OP_ROPE_STORE && !op->scale[0])
        qr_buf_printf(out, "%u + %u heads of %u", op->n_head, op->n_kv_head, op->head_dim);
    if (ropes && turning(plan, op) < op->head_dim)
        qr_buf_printf(out, ", %u numbers turn", turning(plan, op));
    if (op->local)
        qr_buf_puts(out, ", local frequencies");
    if (op->code != QR_OP_ATTENTION)
        return;
    qr_buf_printf(out, "%u heads on %u of %u", op->n_head, op->n_kv_head, op->head_dim);
    if (op->window)
        qr_buf_printf(out, ", last %d keys", op->window);
    if (op->soft_cap > 0)
        qr_buf_printf(out, ", cap %g", (double)op->soft_cap);
}

/* Everything behind the op's number. */
static void put_op(struct qr_buf *out, const struct qr_plan *plan, const struct qr_op *op, bool fold, bool colour)
{
    char shape[32] = "", text[128], bytes[32] = "";
    struct qr_buf parameters;
    qr_buf_init(&parameters, 4096);
    if (op->n_in + op->n_out > 0) {
        const struct qr_value *v = &plan->value[op->n_out ? op->out[0] : op->in[0]];
        snprintf(shape, sizeof shape, "[%s, %u]", v->rows == QR_ROWS_T ? "T" : "R", v->cols);
    }
    formula(plan, op, text, sizeof text);
    put_parameters(&parameters, plan, op, fold ? op->layer : -1);
    if (parameters.failed)
        out->failed = true;
    if (op_bytes(op) > 0)
        human(op_bytes(op), bytes);
    qr_buf_printf(out, COLUMNS, colour ? "\033[36m" : "", W_OP, qr_opcode_name(op->code), colour ? "\033[0m" : "",
                  W_SHAPE, shape, parameters.len ? W_MEANING : 0, text, bytes[0] ? W_WEIGHT : 0,
                  parameters.len ? parameters.data : "", bytes);
    qr_buf_free(&parameters);
}

/* ---------------------------------------------------------------- sections: runs of ops of one layer */

struct section {
    int layer, begin, end; /* ops [begin, end) */
    struct qr_buf text;    /* its ops without numbers, layer numbers as N */
    bool printed;
};

static int count_sections(const struct qr_plan *plan)
{
    int n = 0;
    for (int i = 0; i < plan->n_op; i++)
        n += i == 0 || plan->op[i].layer != plan->op[i - 1].layer;
    return n;
}

static void fill_sections(const struct qr_plan *plan, struct section *section)
{
    int n = -1;
    for (int i = 0; i < plan->n_op; i++) {
        if (i == 0 || plan->op[i].layer != plan->op[i - 1].layer) {
            section[++n] = (struct section){.layer = plan->op[i].layer, .begin = i};
            qr_buf_init(&section[n].text, 0);
        }
        put_op(&section[n].text, plan, &plan->op[i], true, false);
        section[n].end = i + 1;
    }
}

static bool alike(const struct section *a, const struct section *b)
{
    return a->layer >= 0 && b->layer >= 0 && a->text.len == b->text.len && !a->text.failed && !b->text.failed &&
           !memcmp(a->text.data, b->text.data, a->text.len);
}

/* "layers 0..3, 6, each:" for the sections from i on that are like section i, which are marked printed. */
static void put_heading(struct qr_buf *out, struct section *section, int n, int i, bool colour)
{
    int count = 0;
    for (int j = i; j < n; j++)
        count += alike(&section[i], &section[j]);
    qr_buf_printf(out, "%s%s ", colour ? "\033[1m" : "", count > 1 ? "layers" : "layer");
    const char *comma = "";
    for (int j = i; j < n; j++) {
        if (section[j].printed || !alike(&section[i], &section[j]))
            continue;
        int last = j;
        while (last + 1 < n && alike(&section[i], &section[last + 1]))
            section[last++].printed = true;
        section[last].printed = true;
        qr_buf_printf(out, last > j ? "%s%d..%d" : "%s%d", comma, section[j].layer, section[last].layer);
        comma = ", ";
    }
    qr_buf_printf(out, "%s%s\n", count > 1 ? ", each:" : ":", colour ? "\033[0m" : "");
}

static void put_sections(struct qr_buf *out, const struct qr_plan *plan, struct section *section, int n,
                         bool all_layers, bool colour)
{
    for (int i = 0; i < n; i++) {
        if (section[i].printed)
            continue;
        if (section[i].layer >= 0 && all_layers)
            qr_buf_printf(out, "%slayer %d:%s\n", colour ? "\033[1m" : "", section[i].layer, colour ? "\033[0m" : "");
        else if (section[i].layer >= 0)
            put_heading(out, section, n, i, colour);
        for (int j = section[i].begin; j < section[i].end; j++) {
            qr_buf_printf(out, "%5d  ", j);
            put_op(out, plan, &plan->op[j], !all_layers, colour);
        }
    }
}

/* ---------------------------------------------------------------- the page */

static void put_head(struct qr_buf *out, const struct qr_plan *plan, bool colour)
{
    uint32_t n_head = 0;
    for (int i = 0; i < plan->n_op && !n_head; i++)
        if (plan->op[i].code == QR_OP_ATTENTION)
            n_head = plan->op[i].n_head;
    qr_buf_printf(out, "%s%s%s: %u layers, n_embd %u, %u heads on %u KV heads of %u, vocabulary %u\n",
                  colour ? "\033[1m" : "", plan->model, colour ? "\033[0m" : "", plan->n_layer, plan->n_embd, n_head,
                  plan->n_kv_head, plan->head_dim, plan->n_vocab);
    qr_buf_puts(out, "T: tokens of a step, R: its rows that want logits, W: the weight on the right, K and V: the "
                     "layer's pages\nfused: ");
    bool any = false;
    for (int i = 0; i < QR_N_FUSE; i++)
        if (plan->fuse_mask >> i & 1) {
            qr_buf_printf(out, "%s%s", any ? ", " : "", qr_fuse_name(i));
            any = true;
        }
    qr_buf_puts(out, any ? "\n\n" : "nothing\n\n");
    qr_buf_printf(out, "    #  " COLUMNS, "", W_OP, "op", "", W_SHAPE, "shape", W_MEANING, "meaning", W_WEIGHT,
                  "weight", "bytes read");
}

static void put_totals(struct qr_buf *out, const struct qr_plan *plan)
{
    double layers = 0, rest = 0;
    for (int i = 0; i < plan->n_op; i++)
        *(plan->op[i].layer >= 0 ? &layers : &rest) += op_bytes(&plan->op[i]);
    char total[32], a[32], b[32];
    qr_buf_printf(out, "\n%d ops a step; weights read for one token: %s (layers %s, embedding and head %s)\n",
                  plan->n_op, human(layers + rest, total), human(layers, a), human(rest, b));
    double numbers = 2.0 * plan->n_layer * plan->n_kv_head * plan->head_dim;
    qr_buf_printf(out, "keys and values of one token: 2 * %u * %u * %u = %.0f numbers, %s in f16 or bf16, %s in f32\n",
                  plan->n_layer, plan->n_kv_head, plan->head_dim, numbers, human(2 * numbers, a),
                  human(4 * numbers, b));
}

void qr_plan_print(const struct qr_plan *plan, bool all_layers, bool colour, struct qr_buf *out)
{
    int n = count_sections(plan);
    struct section *section = calloc((size_t)n + 1, sizeof *section);
    if (!section) {
        out->failed = true;
        return;
    }
    fill_sections(plan, section);
    put_head(out, plan, colour);
    put_sections(out, plan, section, n, all_layers, colour);
    put_totals(out, plan);
    for (int i = 0; i < n; i++)
        qr_buf_free(&section[i].text);
    free(section);
}
