/* memory.c - what the CPU executor takes, from the plan and the limits alone. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/checked.h"
#include "cpu/exec.h"

#define MAX_TOKENS (1 << 20)
#define MAX_PAIRS  256 /* (token, segment) pairs whose attention may be split over workers */

/* *out = a * b * c rounded up to 64; false: does not fit. */
static bool product(uint64_t a, uint64_t b, uint64_t c, uint64_t *out)
{
    return qr_mul_u64(a, b, out) && qr_mul_u64(*out, c, out) && qr_align_u64(*out, 64, out);
}

static enum qr_status check_limits(const struct qr_plan *plan, const struct qr_exec_limits *limits, int n_thread,
                                   struct qr_err *err)
{
    const struct {
        const char *name;
        int value, max;
    } all[] = {
        {"tokens of a step", limits->max_token, MAX_TOKENS}, {"sequences of a step", limits->max_seq, MAX_TOKENS},
        {"rows with logits", limits->max_row, MAX_TOKENS},   {"positions", limits->max_len, 1 << 26},
        {"KV blocks", limits->n_block, INT32_MAX / QR_PAGE}, {"threads", n_thread, 256},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].value < 1 || all[i].value > all[i].max)
            return qr_fail(err, QR_INVALID, "the number of %s is %d but must be 1 to %d", all[i].name, all[i].value,
                           all[i].max);
    if (limits->kv_type != QR_F32 && limits->kv_type != QR_F16 && limits->kv_type != QR_BF16)
        return qr_fail(err, QR_UNSUPPORTED, "keys and values cannot be kept as %s: use f32, f16 or bf16",
                       (unsigned)limits->kv_type < QR_N_DTYPE ? qr_dtype_info(limits->kv_type)->name : "?");
    if (plan->head_dim < 2 || plan->head_dim % 2 || plan->head_dim > QR_MAX_HEAD_DIM)
        return qr_fail(err, QR_UNSUPPORTED, "head_dim is %u but must be even and at most %d", plan->head_dim,
                       QR_MAX_HEAD_DIM);
    return QR_OK;
}

static uint64_t padded_head(const struct qr_plan *plan)
{
    return ((uint64_t)plan->head_dim + 15) & ~UINT64_C(15);
}

static uint64_t head_bytes(const struct qr_plan *plan, enum qr_dtype kv_type)
{
    return QR_PAGE * (plan->head_dim + padded_head(plan)) * (kv_type == QR_F32 ? 4 : 2);
}

uint64_t qr_cpu_block_bytes(const struct qr_plan *plan, enum qr_dtype kv_type)
{
    uint64_t bytes = 0;
    return product(head_bytes(plan, kv_type), plan->n_kv_head, plan->n_layer, &bytes) ? bytes : UINT64_MAX;
}

/* The largest packed input over all LINEARs, and the spans of their weights. */
static bool size_linears(const struct qr_plan *plan, const struct qr_exec_limits *limits, struct qr_cpu_sizes *sizes)
{
    for (int i = 0; i < plan->n_op; i++) {
        const struct qr_op *op = &plan->op[i];
        if (op->code == QR_OP_ATTENTION && (int)op->n_head > sizes->max_heads)
            sizes->max_heads = (int)op->n_head;
        if (op->code != QR_OP_LINEAR)
            continue;
        uint64_t n = (uint64_t)(plan->value[op->in[0]].rows == QR_ROWS_T ? limits->max_token : limits->max_row);
        uint64_t blocks = ((uint64_t)op->weight->n_col + QR_ACT_BLOCK - 1) / QR_ACT_BLOCK, code, meta, f32;
        if (!product(n > 1 ? n : 2, blocks, QR_ACT_BLOCK * 2, &code) ||
            !product(n, blocks, sizeof(struct qr_act_meta), &meta) || !product(n, blocks, QR_ACT_BLOCK * 4, &f32))
            return false;
        for (int s = 0; s < op->weight->storage->n_segment; s++) {
            if (qr_cpu_type_is_float(op->weight->storage->segment[s].type)) {
                sizes->f32 = f32 > sizes->f32 ? f32 : sizes->f32;
            } else {
                sizes->code = code > sizes->code ? code : sizes->code;
                sizes->meta = meta > sizes->meta ? meta : sizes->meta;
            }
        }
        sizes->n_span += qr_cpu_count_spans(op->weight);
    }
    return true;
}

static bool size_attention(const struct qr_plan *plan, const struct qr_exec_limits *limits, int n_thread,
                           struct qr_cpu_sizes *sizes)
{
    uint64_t pairs = ((uint64_t)limits->max_len + QR_SEGMENT - 1) / QR_SEGMENT, unit = padded_head(plan) + 2;
    pairs *= (uint64_t)limits->max_seq;
    sizes->max_partial = n_thread == 1 ? 0 : pairs < MAX_PAIRS ? (int)pairs : MAX_PAIRS;
    return product(qr_attn_scratch((uint32_t)padded_head(plan)), 4, 1, &sizes->scratch) &&
           product((uint64_t)sizes->max_partial * (uint64_t)sizes->max_heads, unit, 4, &sizes->partial) &&
           product((uint64_t)limits->max_token + (uint64_t)sizes->max_partial, sizeof(struct qr_attn_item), 1,
                   &sizes->items) &&
           product((uint64_t)limits->max_len, plan->head_dim / 2, 4, &sizes->table) &&
           product((uint64_t)limits->max_len, plan->inv_freq_local ? plan->head_dim / 2 : 0, 4, &sizes->table_local);
}

enum qr_status qr_cpu_sizes(const struct qr_plan *plan, const struct qr_exec_limits *limits, int n_thread,
                            struct qr_cpu_sizes *sizes, struct qr_err *err)
{
    memset(sizes, 0, sizeof *sizes);
    QR_TRY(check_limits(plan, limits, n_thread, err));
    sizes->block = qr_cpu_block_bytes(plan, limits->kv_type);
    if (!size_linears(plan, limits, sizes) || !size_attention(plan, limits, n_thread, sizes) ||
        !product((uint64_t)limits->n_block, sizes->block, 1, &sizes->kv) ||
        !product((uint64_t)sizes->n_span, sizeof(struct qr_span), 1, &sizes->spans) ||
        !product((uint64_t)plan->n_op + 1, sizeof(int), 1, &sizes->ops) ||
        !product((uint64_t)plan->n_op, 2 * sizeof(struct qr_phase), 1, &sizes->phases))
        return qr_fail(err, QR_LIMIT,
                       "a step of %d tokens with %d KV blocks does not fit 64-bit sizes: lower the limits",
                       limits->max_token, limits->n_block);
    return qr_buffers_assign(plan, (uint32_t)limits->max_token, (uint32_t)limits->max_row, 4, &sizes->buffers, err);
}

enum qr_status qr_cpu_memory(const struct qr_plan *plan, const struct qr_exec_limits *limits, int n_thread,
                             struct qr_cpu_memory *memory, struct qr_err *err)
{
    struct qr_cpu_sizes sizes;
    QR_TRY(qr_cpu_sizes(plan, limits, n_thread, &sizes, err));
    *memory = (struct qr_cpu_memory){
        .activations = sizes.buffers.bytes,
        .workspace = sizes.code + sizes.meta + sizes.f32 + sizes.partial + sizes.scratch * (uint64_t)n_thread,
        .kv = sizes.kv,
        .tables = 2 * (sizes.table + sizes.table_local),
        .step = sizes.items + sizes.spans + sizes.ops + sizes.phases + sizeof(struct qr_cpu_exec),
    };
    qr_buffers_free(&sizes.buffers);
    return QR_OK;
}

/* Large regions in huge pages where the system gives them: a step touches pages all over. */
void *qr_cpu_alloc(uint64_t n, const char *what, struct qr_err *err)
{
    uint64_t align = n >= QR_CPU_HUGE_PAGE ? QR_CPU_HUGE_PAGE : 64;
    void *p = NULL;
    if (n > SIZE_MAX - align || posix_memalign(&p, align, n ? (size_t)n : 64)) {
        qr_fail(err, QR_NOMEM, "out of memory for %llu bytes of %s", (unsigned long long)n, what);
        return NULL;
    }
    if (n >= QR_CPU_HUGE_PAGE)
        madvise(p, (size_t)n, MADV_HUGEPAGE);
    return p;
}
