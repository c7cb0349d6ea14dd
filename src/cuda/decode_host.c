/* decode_host.c - the persistent kernel made ready for a model, and launched for a step. */
#include "cuda/decode_host.h"
#include <stdlib.h>
#include <string.h>

#define ROOM                 (227 * 1024) /* shared memory of a block on compute capability 9.0 */
#define SLOT                 (QR_DECODE_PIECE * 512)
#define MAX_UNITS            1024 /* of attention in a step */
#define MIN_SLOTS            16
#define MAX_SLOTS            32
#define FEW                  8 /* sequences up to which it is faster than graphs, with weights in bf16: docs/KERNELS.md */
#define FEW_PACKED           3 /* with quantised ones */
#define MANY_CUTS            6 /* of a sequence, if there is one: from here on merging all at once is faster, docs/KERNELS.md */
#define MANY_CUTS_OF_SEVERAL 12
#define N_SHARE              (QR_MAX_AHEAD + 2)
#define MAX_SM               1024

/* Some matrix is quantised: the kernel then counts places in smaller steps than tiles. */
static bool is_packed(const struct qr_cuda_sizes *sizes)
{
    for (int i = 0; i < sizes->n_storage; i++)
        if (sizes->storage[i].quant != QR_CU_NO_QUANT)
            return true;
    return false;
}

static uint32_t place_of(const struct qr_cuda_exec *exec, int op)
{
    const struct qr_cuda_storage *s = &exec->sizes.storage[exec->sizes.op[op].storage];
    return (uint32_t)((s->offset + exec->plan->op[op].weight->row / 16 * s->strip) /
                      (is_packed(&exec->sizes) ? QR_DECODE_STEP : 512));
}

static struct qr_decode_matrix matrix_of(const struct qr_cuda_exec *exec, int op)
{
    const struct qr_cuda_storage *s = &exec->sizes.storage[exec->sizes.op[op].storage];
    int rows = (int)exec->plan->op[op].weight->n_row;
    struct qr_decode_matrix m = {
        .strips = (rows + 15) / 16, .k16 = s->k / 16, .cuts = s->cuts, .chain = s->k / 16 / s->cuts};
    if (is_packed(&exec->sizes)) {
        int quads = m.chain / 4, most = QR_DECODE_QUADS(s->quant), pieces = (quads + most - 1) / most;
        m.type = (int32_t)s->quant;
        m.strip = (int32_t)s->strip;
        m.quads = (quads + pieces - 1) / pieces;
    }
    return m;
}

static uint32_t vector_of(const struct qr_cuda_exec *exec, int op, int which)
{
    const struct qr_op *o = &exec->plan->op[op];
    bool is_there = o->code == QR_OP_LINEAR ? o->weight->bias != NULL : o->scale[which] != NULL;
    return is_there ? (uint32_t)exec->sizes.op[op].vector[which] : QR_DECODE_NONE;
}

static void fill_layers(const struct qr_cuda_exec *exec, const struct qr_decode_plan *p, struct qr_decode_layer *layer)
{
    for (int l = 0; l < p->n_layer; l++) {
        int i = p->first + l * QR_DECODE_OPS, before = l ? i - 1 : 1;
        layer[l] = (struct qr_decode_layer){
            .tile = {place_of(exec, i), place_of(exec, i + QR_DECODE_OP_O), place_of(exec, i + QR_DECODE_OP_UP),
                     place_of(exec, i + QR_DECODE_OP_DOWN)},
            .bias_qkv = vector_of(exec, i, 0),
            .bias_o = vector_of(exec, i + QR_DECODE_OP_O, 0),
            .bias_down = vector_of(exec, i + QR_DECODE_OP_DOWN, 0),
            .norm_attention = vector_of(exec, before, 0),
            .norm_mlp = vector_of(exec, i + QR_DECODE_OP_NORM, 0),
            .norm_q = vector_of(exec, i + QR_DECODE_OP_ROPE, 0),
            .norm_k = vector_of(exec, i + QR_DECODE_OP_ROPE, 1),
        };
    }
}

static bool same_cuts(const struct qr_cuda_exec *exec, const struct qr_decode_plan *p)
{
    const int ops[] = {QR_DECODE_OP_QKV, QR_DECODE_OP_O, QR_DECODE_OP_UP, QR_DECODE_OP_DOWN};
    for (int l = 1; l < p->n_layer; l++)
        for (int k = 0; k < 4; k++) {
            struct qr_decode_matrix a = matrix_of(exec, p->first + ops[k]);
            struct qr_decode_matrix b = matrix_of(exec, p->first + l * QR_DECODE_OPS + ops[k]);
            if (memcmp(&a, &b, sizeof a) != 0)
                return false;
        }
    return true;
}

static uint64_t put(uint64_t *at, uint64_t n)
{
    uint64_t here = *at;
    *at += (n + 7) / 8 * 8;
    return here;
}

/* Words of each exchange; counts are products of sizes checked in memory.c, each below 2^40. */
static void lay_out_words(struct qr_decode_args *a, int head_dim, int max_units)
{
    const uint64_t n = QR_DECODE_TOKENS, tiles = (uint64_t)head_dim / 16;
    uint64_t at = 0;
    a->at.qkv = put(&at, n * (uint64_t)a->matrix[QR_DECODE_QKV].strips * 8);
    a->at.x_mid = put(&at, QR_DECODE_COPIES * n * (uint64_t)a->n_embd / 2);
    a->at.x_next = put(&at, QR_DECODE_COPIES * n * (uint64_t)a->n_embd / 2);
    a->at.y = put(&at, n * (uint64_t)a->matrix[QR_DECODE_O].k16 * 4);
    a->at.act = put(&at, n * (uint64_t)a->matrix[QR_DECODE_DOWN].k16 * 4);
    a->at.cut = put(&at, (uint64_t)max_units * tiles * 64);
    a->at.cut_sum = put(&at, (uint64_t)max_units * 8);
    a->at.set = at;
}

/* The same of decode_many.cuh. */
static void lay_out_many(struct qr_decode_args *a)
{
    const uint64_t n = QR_DECODE_TOKENS;
    uint64_t at = 0;
    if (a->packed)
        return;
    a->many.x_mid = put(&at, n * (uint64_t)a->n_embd / 4);
    a->many.x_next = put(&at, n * (uint64_t)a->n_embd / 4);
    a->many.y = put(&at, n * (uint64_t)a->matrix[QR_DECODE_O].k16 * 2);
    a->many.act = put(&at, n * (uint64_t)a->matrix[QR_DECODE_DOWN].k16 * 2);
    a->many.set = at;
}

static uint64_t word_bytes(const struct qr_decode_args *a)
{
    return a->at.set * 2 * 16;
}

static uint64_t many_bytes(const struct qr_decode_args *a)
{
    return a->many.set * QR_DECODE_SETS * 16;
}

/* What the sizes of words and shares need. */
static void fill_sizes(const struct qr_cuda_exec *exec, const struct qr_decode_plan *p, struct qr_decode_args *a)
{
    const int stages[] = {QR_DECODE_OP_QKV, QR_DECODE_OP_O, QR_DECODE_OP_UP, QR_DECODE_OP_DOWN};
    a->n_embd = (int32_t)exec->plan->n_embd;
    a->n_kv_head = (int32_t)exec->plan->n_kv_head;
    a->packed = is_packed(&exec->sizes);
    for (int s = 0; s < 4; s++)
        a->matrix[s] = matrix_of(exec, p->first + stages[s]);
    a->matrix[QR_DECODE_UP].strips /= 2;
    a->matrix[QR_DECODE_HEAD] = matrix_of(exec, p->head);
}

static void fill_args(const struct qr_cuda_exec *exec, const struct qr_decode_plan *p, struct qr_decode_args *a)
{
    const struct qr_plan *plan = exec->plan;
    const struct qr_op *layer = &plan->op[p->first];
    const struct qr_cuda_storage *embed = &exec->sizes.storage[exec->sizes.op[p->embed].storage];
    *a = (struct qr_decode_args){
        .tiles = (const char *)exec->tiles,
        .kv = (char *)exec->kv,
        .pool = exec->sizes.pool,
        .head_tile = place_of(exec, p->head),
        .embed_type = (int32_t)embed->quant,
        .embed_strip = (int32_t)embed->strip,
        .embed_tile = (uint32_t)(embed->offset / (is_packed(&exec->sizes) ? QR_DECODE_STEP : 512)),
        .embed_row = (int32_t)plan->op[p->embed].weight->row,
        .embed_rows = (int32_t)plan->op[p->embed].weight->n_row,
        .embed_k = embed->k,
        .n_layer = p->n_layer,
        .n_head = (int32_t)layer[QR_DECODE_OP_ATTENTION].n_head,
        .n_vocab = (int32_t)plan->n_vocab,
        .group = (int32_t)(layer[QR_DECODE_OP_ATTENTION].n_head / layer[QR_DECODE_OP_ATTENTION].n_kv_head),
        .eps = plan->op[1].eps,
        .eps_head = layer[QR_DECODE_OP_ROPE].eps,
        .scale = layer[QR_DECODE_OP_ATTENTION].attn_scale,
        .vectors = exec->vectors,
        .norm_out = exec->vectors + exec->sizes.op[p->norm_out].vector[0],
        .cos = exec->cos,
        .sin = exec->sin,
        .place = exec->place,
        .logits = (float *)(void *)(exec->activation + exec->sizes.buffers.offset[plan->logits]),
        .ahead = 40,
        .last = INT32_MAX,
    };
    fill_sizes(exec, p, a);
}

static int units_at_most(const struct qr_cuda_exec *exec)
{
    int64_t cuts = (exec->limits.max_len + QR_CU_CUT - 1) / QR_CU_CUT;
    int64_t units = cuts * QR_DECODE_TOKENS * (int64_t)exec->plan->n_kv_head;
    return units < MAX_UNITS ? (int)units : MAX_UNITS;
}

static enum qr_status allocate(struct qr_cuda_exec *exec, struct qr_cuda_decode *d, const struct qr_decode_plan *p,
                               struct qr_err *err)
{
    struct qr_decode_args *a = &d->args;
    size_t layers = (size_t)p->n_layer * sizeof(struct qr_decode_layer),
           shares = (size_t)a->n_block * sizeof *d->share[0];
    size_t words = (size_t)word_bytes(a), at_share = (words + 255) / 256 * 256;
    size_t at_layer = at_share + (shares + 255) / 256 * 256, at_many = (at_layer + layers + 255) / 256 * 256;
    size_t total = at_many + (size_t)many_bytes(a);
    struct qr_decode_layer *layer = calloc((size_t)p->n_layer, sizeof *layer);
    if (!layer)
        return qr_fail(err, QR_NOMEM, "out of memory for %d layers", p->n_layer);
    fill_layers(exec, p, layer);
    cudaError_t e = cudaMalloc((void **)&d->memory, total);
    if (e == cudaSuccess)
        e = cudaMemset(d->memory, 0, at_share); /* tags begin at 1 */
    if (e == cudaSuccess)
        e = cudaMemset(d->memory + at_many, 0xFF, (size_t)many_bytes(a)); /* nothing is there yet */
    if (e == cudaSuccess)
        e = cudaMemcpy(d->memory + at_layer, layer, layers, cudaMemcpyHostToDevice);
    for (int i = 0; i < N_SHARE && e == cudaSuccess; i++)
        e = cudaHostAlloc((void **)&d->share[i], shares, 0);
    if (e == cudaSuccess)
        e = cudaHostAlloc((void **)&d->status, 64, 0);
    free(layer);
    QR_TRY(qr_cuda_status(e, "making room for the decode kernel", err));
    memset(d->status, 0, 64);
    d->share_device = (struct qr_decode_share *)(void *)(d->memory + at_share);
    a->words = d->memory;
    a->many_words = d->memory + at_many;
    a->share = d->share_device;
    a->layer = (const struct qr_decode_layer *)(const void *)(d->memory + at_layer);
    return QR_OK;
}

/* Does a step of args.n_token sequences leave room for a ring? */
static bool leaves_slots(const struct qr_cuda_decode *d)
{
    struct qr_decode_args a = d->args;
    a.is_long = 1; /* which never takes less */
    return qr_cu_decode_shared(&a, d->head_dim) <= ROOM - MIN_SLOTS * SLOT;
}

static enum qr_status prepare(struct qr_cuda_exec *exec, struct qr_cuda_decode *d, struct qr_err *err)
{
    struct qr_decode_plan p;
    int blocks = 0;
    if (exec->on.arch != 90 || exec->plain)
        return qr_fail(err, QR_UNSUPPORTED, "compute capability %d.%d: it is for 9.0", exec->on.arch / 10,
                       exec->on.arch % 10);
    if (exec->limits.kv_type != QR_BF16)
        return qr_fail(err, QR_UNSUPPORTED, "keys and values in %s: it is for bf16",
                       qr_dtype_info(exec->limits.kv_type)->name);
    QR_TRY(qr_decode_match(exec->plan, &p, err));
    if (!same_cuts(exec, &p))
        return qr_fail(err, QR_UNSUPPORTED, "layers of different sizes, or whose weights are of different types");
    if (exec->sizes.tiles / QR_DECODE_STEP > UINT32_MAX)
        return qr_fail(err, QR_UNSUPPORTED, "%llu bytes of weights: it is for up to 2^37",
                       (unsigned long long)exec->sizes.tiles);
    fill_args(exec, &p, &d->args);
    d->head_dim = (int)exec->plan->head_dim;
    d->max_units = units_at_most(exec);
    qr_decode_size(&d->args, exec->on.n_sm);
    lay_out_words(&d->args, d->head_dim, d->max_units);
    lay_out_many(&d->args);
    for (d->args.n_token = d->few; !leaves_slots(d); d->args.n_token = --d->few)
        if (d->few == 1)
            return qr_fail(err, QR_UNSUPPORTED, "activations that leave no room for weights in shared memory");
    QR_CUDA(qr_cu_prepare_decode(d->head_dim, d->args.packed, ROOM, &blocks), "preparing the decode kernel", err);
    if (blocks < 1)
        return qr_fail(err, QR_UNSUPPORTED, "a block does not fit a multiprocessor");
    return allocate(exec, d, &p, err);
}

uint64_t qr_cuda_decode_bytes(const struct qr_plan *plan, const struct qr_exec_limits *limits,
                              const struct qr_cuda_sizes *sizes)
{
    struct qr_cuda_exec exec = {.plan = plan, .limits = *limits, .sizes = *sizes}; /* for its sizes alone */
    struct qr_decode_plan p;
    struct qr_decode_args a = {0};
    if (limits->kv_type != QR_BF16 || qr_decode_match(plan, &p, NULL) != QR_OK || !same_cuts(&exec, &p))
        return 0;
    fill_sizes(&exec, &p, &a);
    lay_out_words(&a, (int)plan->head_dim, units_at_most(&exec));
    lay_out_many(&a);
    return word_bytes(&a) + many_bytes(&a) + MAX_SM * sizeof(struct qr_decode_share) +
           (uint64_t)p.n_layer * sizeof(struct qr_decode_layer) + 4096;
}

enum qr_status qr_cuda_decode_create(struct qr_cuda_exec *exec, struct qr_err *err)
{
    exec->decode = calloc(1, sizeof *exec->decode);
    if (!exec->decode)
        return qr_fail(err, QR_NOMEM, "out of memory for the decode kernel");
    exec->decode->tag = 1;
    int few = is_packed(&exec->sizes) ? FEW_PACKED : FEW;
    exec->decode->few = exec->few <= 0 ? few : exec->few < QR_DECODE_TOKENS ? exec->few : QR_DECODE_TOKENS;
    enum qr_status status = prepare(exec, exec->decode, &exec->no_decode);
    if (status == QR_OK)
        return QR_OK;
    cudaGetLastError();
    qr_cuda_decode_free(exec); /* graphs do it all */
    return QR_OK;
}

void qr_cuda_decode_free(struct qr_cuda_exec *exec)
{
    struct qr_cuda_decode *d = exec->decode;
    if (!d)
        return;
    cudaFree(d->memory);
    for (int i = 0; i < N_SHARE; i++)
        cudaFreeHost(d->share[i]);
    cudaFreeHost(d->status);
    free(d);
    exec->decode = NULL;
}

enum qr_status qr_cuda_decode_status(struct qr_cuda_exec *exec, int slot, struct qr_err *err)
{
    struct qr_cuda_decode *d = exec->decode;
    if (!d || !__atomic_exchange_n(&d->status[slot], 0, __ATOMIC_ACQUIRE))
        return QR_OK;
    d->failed = true;
    return qr_fail(
        err, QR_INTERNAL,
        "the kernel for decode steps waited a second for another part of itself (is something else running on "
        "the GPU?): from now on steps are graphs");
}

static int units_of(const struct qr_cuda_exec *exec, const struct qr_step *step)
{
    int units = 0;
    for (int s = 0; s < step->n_seq; s++)
        units += (step->position[s] / QR_CU_CUT + 1) * (int)exec->plan->n_kv_head;
    return units;
}

/* Shares for a step with so many units of attention; those of the last step where they are the same. */
static bool share_out(struct qr_cuda_decode *d, int units)
{
    const double cut_bytes = 2.0 * QR_CU_CUT * d->head_dim * 2;
    if (d->units == units)
        return d->fits;
    d->units = units;
    d->sent = false;
    d->now = d->share[d->turn++ % N_SHARE];
    d->fits = qr_decode_share_out(&d->args, units, cut_bytes, d->now);
    return d->fits;
}

bool qr_cuda_decode_takes(const struct qr_cuda_exec *exec, const struct qr_step *step)
{
    struct qr_cuda_decode *d = exec->decode;
    if (!d || d->failed || exec->profile || step->n_token < 1 || step->n_token > d->few ||
        step->n_seq != step->n_token || step->n_row != step->n_token)
        return false;
    for (int s = 0; s < step->n_seq; s++)
        if (step->seq_begin[s] != s || step->row[s] != s)
            return false;
    int units = units_of(exec, step);
    return units <= d->max_units && share_out(d, units);
}

static enum qr_status send_shares(struct qr_cuda_exec *exec, struct qr_err *err)
{
    struct qr_cuda_decode *d = exec->decode;
    if (d->sent)
        return QR_OK;
    d->sent = true;
    return qr_cuda_status(cudaMemcpyAsync(d->share_device, d->now, (size_t)d->args.n_block * sizeof *d->now,
                                          cudaMemcpyHostToDevice, exec->on.stream),
                          "sending a decode step's shares", err);
}

/* Bounds on pieces in flight. What blocks exchange queues behind copies, and several sequences exchange more: docs/KERNELS.md has the
 * figures. */
static void set_bounds(struct qr_decode_args *a)
{
    enum { PACKED, ONE, UP_TO_FOUR, MORE };
    static const struct {
        int32_t cap[QR_DECODE_CAPS], quiet; /* cap: in the order of enum qr_decode_cap */
    } bounds[] = {
        [PACKED] = {{4, 14, 8, 32}, 2},
        [ONE] = {{5, 14, 8, 32}, 4},
        [UP_TO_FOUR] = {{3, 14, 6, 32}, 2},
        [MORE] = {{4, 16, 8, 32}, 2},
    };
    const int kind = a->packed ? PACKED : a->n_token == 1 ? ONE : a->n_token <= 4 ? UP_TO_FOUR : MORE;
    memcpy(a->cap, bounds[kind].cap, sizeof a->cap);
    a->quiet = bounds[kind].quiet;
}

enum qr_status qr_cuda_decode_launch(struct qr_cuda_exec *exec, const struct qr_cuda_shape *shape,
                                     const struct qr_step *step, int slot, struct qr_err *err)
{
    struct qr_cuda_decode *d = exec->decode;
    QR_TRY(send_shares(exec, err));
    struct qr_decode_args a = d->args;
    a.n_token = step->n_token;
    for (int s = 0; s < step->n_seq; s++)
        a.is_long |= step->position[s] / QR_CU_CUT >= (step->n_seq > 1 ? MANY_CUTS_OF_SEVERAL : MANY_CUTS);
    set_bounds(&a);
    a.token = exec->step + shape->token;
    a.position = exec->step + shape->position;
    a.slot = exec->step + shape->slot;
    a.table = exec->step + shape->table;
    a.count = exec->step;
    a.status = d->status + slot;
    a.tag = d->tag;
    d->tag += (uint32_t)a.n_layer + 1;
    if (a.n_token > 1 && !a.packed)
        d->args.many.first = (d->args.many.first + (uint32_t)a.n_layer + 1) % QR_DECODE_SETS;
    int beside = qr_cu_decode_shared(&a, d->head_dim);
    a.n_slot = (ROOM - beside) / SLOT < MAX_SLOTS ? (ROOM - beside) / SLOT : MAX_SLOTS;
    exec->n_launch++;
    cudaError_t e = qr_cu_run_decode(&exec->on, d->head_dim, a.n_slot * SLOT + beside, &a);
    d->failed = e != cudaSuccess; /* the next step is a graph */
    return qr_cuda_status(e, "launching the decode kernel", err);
}
