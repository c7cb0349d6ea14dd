/* exec.h - the CPU executor's own struct, and what its files offer one another. */
#ifndef QR_CPU_EXEC_H
#define QR_CPU_EXEC_H
#include <stdatomic.h>
#include "cpu/cpu.h"
#include "cpu/kernel.h"
#include "plan/buffers.h"

#define QR_CPU_HUGE_PAGE (UINT64_C(2) << 20)

/* Rows of one segment of a LINEAR's weight. */
struct qr_span {
    enum qr_dtype type;
    uint32_t y_col; /* first output column */
    uint32_t n_row;
    int n_panel;
    uint64_t panel_bytes;
    const uint8_t *panel; /* NULL: headers only */
    const float *bias;    /* [n_row] or NULL */
};

/* Bytes of every region that the executor allocates; each a multiple of 64. */
struct qr_cpu_sizes {
    struct qr_buffers buffers;
    uint64_t code, meta, f32; /* the input of a LINEAR, packed */
    uint64_t scratch;         /* of one worker */
    uint64_t partial;         /* results of attention segments */
    uint64_t table;           /* cos; sin is as large */
    uint64_t table_local;     /* likewise, of local layers */
    uint64_t kv, block;       /* all pages; one block */
    uint64_t items;
    uint64_t spans;
    uint64_t ops; /* what is kept of each op */
    uint64_t phases;
    int n_span;
    int max_heads;   /* of an attention op */
    int max_partial; /* (token, segment) pairs that may be split */
};

/* A piece of attention: some tokens of a sequence, one segment or all. */
struct qr_attn_item {
    int sequence;
    int t0, n_token;
    int segment;   /* -1: all, result to y; else this one, result to the partial area */
    int partial;   /* pairs in front of this token's in the partial area */
    int n_partial; /* segments of the token */
};

/* Rows of a step. Behind the last ATTENTION rows no longer meet: only those from the first to the last that want logits
 * are gone through. */
struct qr_range {
    int first, n;
};

/* A stretch of the step: items that may be done in any order by anyone. The next phase begins when all are done. */
enum qr_phase_kind {
    QR_PHASE_ROWS,   /* ops one after the other, each item some rows of them; a LINEAR among them packs its input */
    QR_PHASE_DOT,    /* LINEAR: an item is some panels for a chunk of tokens */
    QR_PHASE_ATTEND, /* ATTENTION: an item is an attention item for the heads of a job */
    QR_PHASE_MERGE   /* ATTENTION: an item is an attention item; the last of a token merges its segments */
};

#define QR_CACHE_LINE 64
struct qr_phase {
    _Alignas(QR_CACHE_LINE) atomic_int next; /* the item that will be taken next */
    atomic_int done;                         /* items finished */
    enum qr_phase_kind kind;
    int op, n_op; /* n_op: more than 1 for ROWS only */
    int n_item;
};

struct qr_cpu_exec {
    struct qr_exec base;
    const struct qr_plan *plan;
    struct qr_exec_limits limits;
    struct qr_pool *pool;
    int n_thread;
    const struct qr_cpu_table *table;
    struct qr_cpu_sizes sizes;

    uint8_t *activation; /* roots of the plan's values */
    struct qr_act act;   /* the input of the LINEAR that runs */
    uint8_t *scratch;    /* [n_thread][sizes.scratch] */
    float *partial;
    float *cos, *sin;             /* [max_len, head_dim/2] */
    float *cos_local, *sin_local; /* of local layers */
    struct qr_kv kv;
    uint64_t kv_touched;  /* bytes of keys and values whose pages are there */
    struct qr_span *span; /* of all LINEARs */
    int last_attention;   /* ops behind it go through the wanted rows alone */
    int *op_span;         /* [n_op + 1]: op i has [op_span[i], op_span[i + 1]) */

    /* the step that runs */
    const struct qr_step *step;
    struct qr_attn_item *item; /* [n_item] */
    int n_item;
    bool split;             /* some items are segments */
    struct qr_range wanted; /* from the first row that wants logits to the last */
    int n_row;              /* of the last step, for collect */
    struct qr_phase *phase; /* [n_phase] */
    int n_phase;

    bool profile;
    double seconds[QR_N_OPCODE];
    uint64_t count[QR_N_OPCODE];
};

/* memory.c */
enum qr_status qr_cpu_sizes(const struct qr_plan *plan, const struct qr_exec_limits *limits, int n_thread,
                            struct qr_cpu_sizes *sizes, struct qr_err *err);
/* Aligned to 64 (2 MiB when large); NULL and err when out of memory. n may be 0. */
void *qr_cpu_alloc(uint64_t n, const char *what, struct qr_err *err);

void qr_cpu_plan_attention(struct qr_cpu_exec *exec);

/* phase.c */
void qr_cpu_plan_phases(struct qr_cpu_exec *exec);

/* rows.c: rows [r0, r1) of an op other than LINEAR and ATTENTION */
void qr_cpu_op_rows(const struct qr_cpu_exec *exec, const struct qr_op *op, int r0, int r1);
float *qr_cpu_value(const struct qr_cpu_exec *exec, int value, size_t *stride);
/* Rows that op i goes through: those of its input, or of its output for GATHER and EMBED. */
struct qr_range qr_cpu_range(const struct qr_cpu_exec *exec, int op);
int qr_cpu_last_attention(const struct qr_plan *plan); /* -1: none; n_op: rows meet behind it, too */

static inline void qr_cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* walk.c */
void qr_cpu_walk(void *exec, int worker, int n_worker); /* runs the step; a pool's function */

/* linear.c */
int qr_cpu_count_spans(const struct qr_weight *weight);
enum qr_status qr_cpu_make_spans(const struct qr_op *op, struct qr_span *span, struct qr_err *err);
bool qr_cpu_type_is_float(enum qr_dtype type);
void qr_cpu_pack_rows(const struct qr_cpu_exec *exec, int op, int r0, int r1);
int qr_cpu_count_dots(const struct qr_cpu_exec *exec, int op);
void qr_cpu_dot(const struct qr_cpu_exec *exec, int op, int item);

/* attend.c */
int qr_cpu_count_attention(const struct qr_cpu_exec *exec, const struct qr_op *op);
void qr_cpu_attend(const struct qr_cpu_exec *exec, const struct qr_op *op, int item, int worker);
void qr_cpu_merge(const struct qr_cpu_exec *exec, const struct qr_op *op, int item, int worker);
#endif
