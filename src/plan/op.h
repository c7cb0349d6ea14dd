/* op.h - the recorded forward pass: a flat array of ops over values.
 *
 * A value is a matrix of fp32 activations whose number of rows is a size of the step (T tokens, or R rows that want
 * logits). It is a root, which owns memory, or a view of some columns of another value. Ops may write in place: then the same value
 * stands among the inputs and the outputs. A plan is recorded once at load, rewritten by fuse.h, checked by check.h,
 * and from then on read only. */
#ifndef QR_PLAN_OP_H
#define QR_PLAN_OP_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/weight.h"

enum qr_opcode {
    QR_OP_EMBED,       /* x = weight[token]                                     out x [T, n_embd] */
    QR_OP_MEAN_SQUARE, /* v = mean over each group of `width` columns of x*x    in x; out v [T, cols/width] */
    QR_OP_RSQRT,       /* v = 1 / sqrt(v + eps), in place */
    QR_OP_SCALE_ROWS,  /* y = x * v, each group by its own number               in x, v; out y (may be x) */
    QR_OP_SCALE_COLS,  /* y = y * scale[0], repeated every `width` columns, in place */
    QR_OP_RMSNORM,     /* the four above in one                                 in x; out y (may be x) */
    QR_OP_ADD,         /* x += r, in place                                      in x, r; out x */
    QR_OP_ADD_RMSNORM, /* x += r; y = rmsnorm(x)                                in x, r; out x, y */
    QR_OP_LINEAR,      /* y = x weight^T + bias                                 in x; out y */
    QR_OP_ROPE,        /* rotate each head of x, first half with second half, in place */
    QR_OP_KV_STORE,    /* k, v into the pages by slot_mapping                   in k, v */
    QR_OP_ROPE_STORE,  /* ROPE(q), ROPE(k), KV_STORE(k, v); with scale[0], scale[1] the head norms of q and k first
                        *                                                       in q, k, v; out q */
    QR_OP_ATTENTION,   /* y = softmax(q k^T * attn_scale) v over the pages      in q; out y [T, n_head*head_dim] */
    QR_OP_SILU,        /* x = x / (1 + exp(-x)), in place */
    QR_OP_MUL,         /* x *= y, in place                                      in x, y; out x */
    QR_OP_SILU_MUL,    /* x = silu(x) * y, in place                             in x, y; out x */
    QR_OP_GATHER,      /* y = the rows of x that want logits                    in x [T, .]; out y [R, .] */
    QR_OP_SCALE,       /* x = x * factor, in place */
    QR_OP_GELU,        /* x = gelu(x) by its tanh formula, in place */
    QR_OP_SOFT_CAP,    /* x = soft_cap * tanh(x / soft_cap), in place */
    QR_N_OPCODE        /* stays under 32 */
};

enum qr_rows {
    QR_ROWS_T, /* tokens of the step */
    QR_ROWS_R  /* rows that want logits */
};

struct qr_value {
    const char *name; /* "x", "qkv", "q" */
    enum qr_rows rows;
    uint32_t cols;
    int parent;   /* the value that this is a view of; -1: a root */
    uint32_t col; /* first column in the parent */
};

#define QR_OP_MAX_IN  4
#define QR_OP_MAX_OUT 2

struct qr_op {
    enum qr_opcode code;
    int layer; /* -1: outside the layers */
    int n_in, n_out;
    int in[QR_OP_MAX_IN];
    int out[QR_OP_MAX_OUT];
    const struct qr_weight *weight;       /* EMBED, LINEAR */
    const struct qr_vector *scale[2];     /* norm weights */
    uint32_t width;                       /* norms: columns of a group; n_embd, or head_dim for q and k norms */
    float eps;                            /* norms */
    uint32_t n_head, n_kv_head, head_dim; /* ROPE (n_head: heads in x), KV_STORE, ROPE_STORE, ATTENTION */
    float attn_scale;                     /* ATTENTION: 1/sqrt(head_dim) */
    float soft_cap;                       /* ATTENTION, SOFT_CAP: cap*tanh(s/cap); ATTENTION: 0: none */
    float factor;                         /* SCALE */
    bool local;                           /* ROPE, ROPE_STORE: turn by inv_freq_local */
    int32_t window;                       /* ATTENTION: keys at most that far back, counting the token itself; 0: all */
};

struct qr_plan {
    struct qr_arena *arena; /* owns everything below, also weights made by merging */
    const char *model;      /* name, for printing */
    int n_op, n_value;
    struct qr_op *op;       /* [n_op] */
    struct qr_value *value; /* [n_value] */
    int logits;             /* value [R, n_vocab] */
    uint32_t n_layer, n_kv_head, head_dim, n_vocab, n_embd;
    const float *inv_freq;       /* [head_dim/2] angle of position p for pair i: p * inv_freq[i]; 0: it stands still */
    float rope_scale;            /* cos and sin of pairs that turn are multiplied by it (yarn, longrope); 1 else */
    const float *inv_freq_local; /* [head_dim/2] of ops with local set, not scaled; NULL: there are none */
    uint32_t fuse_mask;          /* the passes that ran */
};

struct qr_opcode_info {
    const char *name; /* "ROPE_STORE" */
    int n_in, n_out;
    bool in_place;  /* out[0] is in[0] */
    bool may_alias; /* out may be exactly in[0] */
};
const struct qr_opcode_info *qr_opcode_info(enum qr_opcode code); /* NULL: no such opcode */
const char *qr_opcode_name(enum qr_opcode code);                  /* "?" when there is none */

/* Recording. Functions return a value id, or -1 once anything failed (out of memory): recording goes on
 * harmlessly and qr_plan_finish reports it. */
struct qr_recorder;
enum qr_status qr_plan_begin(const char *model, struct qr_recorder **rec, struct qr_err *err);
int qr_rec_value(struct qr_recorder *rec, const char *name, enum qr_rows rows, uint32_t cols);
/* Columns [col, col + cols) of parent, which may itself be a view. */
int qr_rec_view(struct qr_recorder *rec, const char *name, int parent, uint32_t col, uint32_t cols);
/* Appends an op; never NULL. Fill it in before the next call: the array may move. */
struct qr_op *qr_rec_op(struct qr_recorder *rec, enum qr_opcode code, int layer);
struct qr_plan *qr_rec_plan(struct qr_recorder *rec); /* to set n_layer, inv_freq, logits ... */
/* Frees rec in any case. On success *plan is the caller's. */
enum qr_status qr_plan_finish(struct qr_recorder *rec, struct qr_plan **plan, struct qr_err *err);
void qr_plan_free(struct qr_plan *plan);

/* The page that `quire plan` shows: a head line, then per op its number, opcode, shape of its output, a formula, weight
 * with shape and type, bytes read for a token. Equal layers are printed once, as "layers 0..27, each:". colour: ANSI. When
 * out of memory out is marked failed. */
void qr_plan_print(const struct qr_plan *plan, bool all_layers, bool colour, struct qr_buf *out);

/* Helpers for everyone who walks a plan. */
int qr_value_root(const struct qr_plan *plan, int value);         /* root id */
uint32_t qr_value_column(const struct qr_plan *plan, int value);  /* first column in its root */
bool qr_values_overlap(const struct qr_plan *plan, int a, int b); /* do they share a column of one root? */
bool qr_value_covers(const struct qr_plan *plan, int a, int b);   /* does a hold every column of b? */
#endif
