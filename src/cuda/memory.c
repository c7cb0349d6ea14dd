/* memory.c - every size that the executor needs, from the plan and the limits. The ledger and creation both ask here. */
#include <stdlib.h>
#include <string.h>
#include "base/checked.h"
#include "cuda/decode_host.h"
#include "cuda/quant_pack.h"

#define ALIGN      256
#define MODULES    (UINT64_C(8) << 20) /* code of the kernels as it is loaded, events: 3 MiB seen on an H200 */
#define GRAPH_NODE UINT64_C(2048)      /* bytes of a kernel in a graph: 1.5 to 2 KB seen there */
#define PIECE      (UINT64_C(2) << 20) /* what the driver hands out */
#define PARTS      2048 /* partial results of attention over all KV heads, at most, unless one sequence needs more */

static bool product(uint64_t a, uint64_t b, uint64_t c, uint64_t *out)
{
    uint64_t r;
    return qr_mul_u64(a, b, &r) && qr_mul_u64(r, c, &r) && qr_align_u64(r, ALIGN, out);
}

uint64_t qr_cuda_block_bytes(const struct qr_plan *plan, enum qr_dtype kv_type)
{
    uint64_t bytes = 0;
    uint64_t page = qr_cu_page_bytes((int)plan->head_dim, qr_cuda_kv(kv_type));
    return qr_mul_u64(page * 2, (uint64_t)plan->n_kv_head * plan->n_layer, &bytes) ? bytes : UINT64_MAX;
}

/* ---------------------------------------------------------------- weights */

static enum qr_status add_storage(struct qr_cuda_sizes *sizes, const struct qr_storage *of, bool convert, int *index,
                                  struct qr_err *err)
{
    for (int i = 0; i < sizes->n_storage; i++)
        if (sizes->storage[i].of == of) {
            *index = i;
            return QR_OK;
        }
    const struct qr_segment *last = &of->segment[of->n_segment - 1];
    uint64_t rows = ((uint64_t)last->row + last->n_row + 15) / 16 * 16, k = ((uint64_t)of->n_col + 63) / 64 * 64, bytes;
    enum qr_cu_quant quant = convert ? QR_CU_NO_QUANT : qr_cuda_quant_type(of);
    uint64_t strip = k > INT32_MAX ? 0 : qr_cu_strip_bytes(quant, (int)k);
    if (rows > INT32_MAX || k > INT32_MAX || strip > INT32_MAX || !product(rows / 16, strip, 1, &bytes))
        return qr_fail(err, QR_LIMIT, "%s of %u x %u is too large for the GPU", of->name, of->n_row, of->n_col);
    *index = sizes->n_storage;
    sizes->storage[sizes->n_storage++] = (struct qr_cuda_storage){.of = of,
                                                                  .offset = sizes->tiles,
                                                                  .rows = (int)rows,
                                                                  .k = (int)k,
                                                                  .cuts = qr_cu_cuts((int)rows, (int)k),
                                                                  .quant = quant,
                                                                  .strip = strip};
    if (!qr_add_u64(sizes->tiles, bytes, &sizes->tiles))
        return qr_fail(err, QR_LIMIT, "the weights take more than 2^64 bytes");
    return QR_OK;
}

static uint64_t add_vector(struct qr_cuda_sizes *sizes, uint64_t n)
{
    uint64_t at = sizes->n_float;
    sizes->n_float += (n + 15) / 16 * 16; /* a cache line; counts of matrices' rows, each below 2^31 */
    return at;
}

/* Room for the parts of a quantised matrix that are bf16 for a while. */
static bool size_expanded(const struct qr_weight *weight, const struct qr_cuda_storage *s, int n,
                          struct qr_cuda_sizes *sizes)
{
    int rows = qr_cu_quant_rows((int)weight->n_row, s->k);
    uint64_t expanded, y_part = 0;
    if (s->quant == QR_CU_NO_QUANT)
        return true;
    if (!product((uint64_t)rows, (uint64_t)s->k, 2, &expanded) ||
        ((uint32_t)rows < weight->n_row && !product((uint64_t)rows, (uint64_t)n, 4, &y_part)))
        return false;
    sizes->expanded = expanded > sizes->expanded ? expanded : sizes->expanded;
    sizes->y_part = y_part > sizes->y_part ? y_part : sizes->y_part;
    return true;
}

static enum qr_status size_op(const struct qr_plan *plan, const struct qr_exec_limits *l, bool convert, int i,
                              struct qr_cuda_sizes *sizes, struct qr_err *err)
{
    const struct qr_op *op = &plan->op[i];
    struct qr_cuda_op *bound = &sizes->op[i];
    if (op->code == QR_OP_EMBED || op->code == QR_OP_LINEAR)
        QR_TRY(add_storage(sizes, op->weight->storage, convert, &bound->storage, err));
    for (int s = 0; s < 2; s++)
        if (op->scale[s])
            bound->vector[s] = add_vector(sizes, op->scale[s]->n);
    if (op->code == QR_OP_ATTENTION) {
        if (sizes->n_head && sizes->n_head != (int)op->n_head)
            return qr_fail(err, QR_UNSUPPORTED, "the layers have %d and %u query heads: the GPU needs equal ones",
                           sizes->n_head, op->n_head);
        sizes->n_head = (int)op->n_head;
        sizes->group = (int)(op->n_head / op->n_kv_head);
    }
    if (op->code != QR_OP_LINEAR)
        return QR_OK;
    if (op->weight->bias)
        bound->vector[0] = add_vector(sizes, op->weight->n_row);
    const struct qr_cuda_storage s = sizes->storage[bound->storage];
    int n = plan->value[op->in[0]].rows == QR_ROWS_T ? l->max_token : l->max_row;
    uint64_t x16, work = qr_cu_linear_work((int)op->weight->n_row, s.cuts, n);
    if (!product((uint64_t)n, (uint64_t)s.k, 2, &x16) || !size_expanded(op->weight, &s, n, sizes))
        return qr_fail(err, QR_LIMIT, "a step of %d tokens is too large: lower the limit", n);
    sizes->x16 = x16 > sizes->x16 ? x16 : sizes->x16;
    sizes->work = work > sizes->work ? work : sizes->work;
    return QR_OK;
}

/* ---------------------------------------------------------------- the rest */

static enum qr_status check(const struct qr_plan *plan, const struct qr_exec_limits *l, struct qr_err *err)
{
    if (!qr_cu_attention_has((int)plan->head_dim))
        return qr_fail(err, QR_UNSUPPORTED,
                       "the model has heads of %u: the GPU kernels know 16, 32, 64, 96, 128 and 256, use device cpu",
                       plan->head_dim);
    if (plan->n_embd > 16384 || (plan->n_embd % 4 && plan->n_embd > 4096))
        return qr_fail(err, QR_UNSUPPORTED, "the model is %u wide: the GPU kernels take up to 16384, use device cpu",
                       plan->n_embd);
    if (l->kv_type != QR_BF16 && l->kv_type != QR_F16 && l->kv_type != QR_F8S)
        return qr_fail(
            err, QR_UNSUPPORTED,
            "the GPU keeps keys and values in bf16, f16 or fp8, not in %s: choose one of them, or device cpu",
            qr_dtype_info(l->kv_type)->name);
    if (l->max_token < 1 || l->max_seq < 1 || l->max_row < 0 || l->max_len < 1 || l->n_block < 1 || l->n_place < 0)
        return qr_fail(err, QR_INVALID, "a step of %d tokens, %d sequences and %d rows over %d blocks is none",
                       l->max_token, l->max_seq, l->max_row, l->n_block);
    return QR_OK;
}

static bool size_attention(const struct qr_plan *plan, const struct qr_exec_limits *l, struct qr_cuda_sizes *sizes)
{
    uint64_t cuts = ((uint64_t)l->max_len + QR_CU_CUT - 1) / QR_CU_CUT, most = PARTS / plan->n_kv_head;
    uint64_t parts = cuts * (uint64_t)l->max_seq, pairs = (uint64_t)l->max_token * (uint64_t)sizes->group;
    most = most > cuts ? most : cuts;
    parts = parts < most ? parts : most;
    sizes->n_part = (int)parts;
    sizes->max_few = l->max_seq + (int)parts;
    sizes->max_many = (int)(pairs / QR_CU_MANY) + l->max_seq;
    uint64_t angles = plan->head_dim / 2;
    return product(parts * plan->n_kv_head, 16 * ((uint64_t)plan->head_dim + 2), 4, &sizes->part) &&
           product((uint64_t)l->max_token, (uint64_t)sizes->n_head * plan->head_dim, 2, &sizes->q16) &&
           product((uint64_t)l->max_seq, plan->n_kv_head, 4, &sizes->tile_counter) &&
           product((uint64_t)l->max_len, angles, 4, &sizes->table) &&
           product(plan->inv_freq_local ? (uint64_t)l->max_len : 0, angles, 4, &sizes->table_local);
}

static bool size_step(const struct qr_exec_limits *l, struct qr_cuda_sizes *sizes)
{
    uint64_t pages = ((uint64_t)l->max_len + QR_PAGE - 1) / QR_PAGE;
    sizes->step_words = 8 + 3 * ((uint64_t)l->max_token + 4) + ((uint64_t)l->max_row + 4) +
                        2 * ((uint64_t)l->n_block + 4) +
                        sizeof(struct qr_cu_item) / 4 * (2 * (uint64_t)sizes->max_few + (uint64_t)sizes->max_many) +
                        pages * (uint64_t)l->max_seq + 4;
    return product(sizes->step_words, 4, 1, &sizes->step) && product((uint64_t)l->n_place + 1, 4, 1, &sizes->place);
}

enum qr_status qr_cuda_sizes(const struct qr_plan *plan, const struct qr_exec_limits *limits, bool convert,
                             struct qr_cuda_sizes *sizes, struct qr_err *err)
{
    memset(sizes, 0, sizeof *sizes);
    QR_TRY(check(plan, limits, err));
    sizes->storage = calloc((size_t)plan->n_op, sizeof *sizes->storage);
    sizes->op = calloc((size_t)plan->n_op, sizeof *sizes->op);
    enum qr_status status = sizes->storage && sizes->op ? QR_OK : qr_fail(err, QR_NOMEM, "out of memory for the plan");
    for (int i = 0; i < plan->n_op && status == QR_OK; i++)
        status = size_op(plan, limits, convert, i, sizes, err);
    if (status == QR_OK) {
        sizes->page = qr_cu_page_bytes((int)plan->head_dim, qr_cuda_kv(limits->kv_type));
        sizes->block = qr_cuda_block_bytes(plan, limits->kv_type);
        sizes->pool = sizes->page * plan->n_kv_head * (uint64_t)limits->n_block; /* below kv, which is checked */
        sizes->counter = QR_CU_COUNTERS * sizeof(unsigned);
        if (!size_attention(plan, limits, sizes) || !size_step(limits, sizes) ||
            !product((uint64_t)limits->n_block, sizes->block, 1, &sizes->kv) ||
            !product((uint64_t)limits->max_row, plan->n_vocab, 4, &sizes->logits_host))
            status = qr_fail(err, QR_LIMIT,
                             "a step of %d tokens with %d KV blocks does not fit 64-bit sizes: lower the limits",
                             limits->max_token, limits->n_block);
    }
    if (status == QR_OK)
        status =
            qr_buffers_assign(plan, (uint32_t)limits->max_token, (uint32_t)limits->max_row, 4, &sizes->buffers, err);
    if (status != QR_OK) {
        qr_cuda_sizes_free(sizes);
        return status;
    }
    qr_cuda_size_sampling(plan, limits, sizes);
    qr_cuda_bind(plan, sizes);
    return QR_OK;
}

void qr_cuda_sizes_free(struct qr_cuda_sizes *sizes)
{
    qr_buffers_free(&sizes->buffers);
    free(sizes->storage);
    free(sizes->op);
    memset(sizes, 0, sizeof *sizes);
}

static uint64_t pieces(uint64_t bytes)
{
    return (bytes + PIECE - 1) / PIECE * PIECE;
}

enum qr_status qr_cuda_memory(const struct qr_plan *plan, const struct qr_exec_limits *limits, int major,
                              struct qr_cuda_memory *memory, struct qr_err *err)
{
    struct qr_cuda_sizes s;
    memset(memory, 0, sizeof *memory);
    QR_TRY(qr_cuda_sizes(plan, limits, false, &s, err));
    s.sample_work = qr_sample_work_bytes(limits->max_row, (int)plan->n_vocab, major);
    *memory = (struct qr_cuda_memory){
        .weights = pieces(s.tiles) + s.n_float * 4,
        .kv = pieces(s.kv),
        .activations = s.buffers.bytes + s.x16 + s.q16,
        .workspace = s.work + s.expanded + s.y_part + s.counter + s.part + s.tile_counter + s.sample_work +
                     qr_cuda_decode_bytes(plan, limits, &s),
        .tables = 2 * (s.table + s.table_local),
        .step = s.step + s.place + s.pick,
        .graphs = (uint64_t)QR_CUDA_GRAPHS * (uint64_t)plan->n_op * GRAPH_NODE,
        .modules = MODULES,
        .host = (QR_MAX_AHEAD + 1) * (s.step + s.pick + s.picked),
    };
    memory->total = memory->weights + memory->kv + memory->activations + memory->workspace + memory->tables +
                    memory->step + memory->graphs + memory->modules; /* each below 2^60 */
    qr_cuda_sizes_free(&s);
    return QR_OK;
}
