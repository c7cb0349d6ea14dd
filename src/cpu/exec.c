/* exec.c - the CPU executor made and ended; a step is run in submit. */
#include "cpu/exec.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct qr_cpu_exec *self_of(struct qr_exec *exec)
{
    return (struct qr_cpu_exec *)exec;
}

static enum qr_status submit(struct qr_exec *exec, const struct qr_step *step, struct qr_err *err)
{
    struct qr_cpu_exec *self = self_of(exec);
    self->n_row = 0;
    QR_TRY(qr_step_check(self->plan, &self->limits, step, err));
    for (int i = 0; i < step->n_copy; i++)
        memmove((uint8_t *)self->kv.data + (uint64_t)step->copy_to[i] * self->kv.block_bytes,
                (uint8_t *)self->kv.data + (uint64_t)step->copy_from[i] * self->kv.block_bytes, self->kv.block_bytes);
    self->step = step;
    int n = step->n_row;
    self->wanted = n ? (struct qr_range){step->row[0], step->row[n - 1] - step->row[0] + 1} : (struct qr_range){0, 0};
    qr_cpu_plan_attention(self);
    qr_cpu_plan_phases(self);
    qr_pool_run(self->pool, qr_cpu_walk, self);
    self->n_row = step->n_row;
    self->step = NULL;
    return QR_OK;
}

static enum qr_status collect(struct qr_exec *exec, struct qr_result *result, struct qr_picked *picked,
                              struct qr_err *err)
{
    struct qr_cpu_exec *self = self_of(exec);
    size_t stride;
    (void)picked;
    (void)err;
    *result = (struct qr_result){.n_row = self->n_row, .logits = qr_cpu_value(self, self->plan->logits, &stride)};
    return QR_OK;
}

static void destroy(struct qr_exec *exec)
{
    struct qr_cpu_exec *self = self_of(exec);
    free(self->activation);
    free(self->act.code);
    free(self->act.meta);
    free(self->act.f32);
    free(self->scratch);
    free(self->partial);
    free(self->cos);
    free(self->sin);
    free(self->cos_local);
    free(self->sin_local);
    free(self->kv.data);
    free(self->span);
    free(self->op_span);
    free(self->item);
    free(self->phase);
    qr_buffers_free(&self->sizes.buffers);
    free(self);
}

/* The system clears a page when it is first written, which can take longer than all else before the first token: pages
 * of keys and values are touched while nothing waits, or by the step that stores there. What they hold stays. */
static bool prepare(struct qr_exec *exec)
{
    struct qr_cpu_exec *self = self_of(exec);
    uint64_t end =
        self->kv_touched + QR_CPU_HUGE_PAGE < self->sizes.kv ? self->kv_touched + QR_CPU_HUGE_PAGE : self->sizes.kv;
    for (; self->kv_touched < end; self->kv_touched += 4096) /* a write to every page that there can be */
        __atomic_fetch_add(self->kv.data + self->kv_touched, 0, __ATOMIC_RELAXED);
    return self->kv_touched < self->sizes.kv;
}

static const struct qr_exec_ops cpu_ops = {
    .name = "cpu", .submit = submit, .collect = collect, .prepare = prepare, .destroy = destroy};

/* ---------------------------------------------------------------- creation */

static enum qr_status allocate(struct qr_cpu_exec *self, struct qr_err *err)
{
    const struct qr_cpu_sizes *sizes = &self->sizes;
    const struct {
        void **p;
        uint64_t bytes;
        const char *what;
    } all[] = {
        {(void **)&self->activation, sizes->buffers.bytes, "activations"},
        {(void **)&self->act.code, sizes->code, "packed activations"},
        {(void **)&self->act.meta, sizes->meta, "scales of activations"},
        {(void **)&self->act.f32, sizes->f32, "packed activations"},
        {(void **)&self->scratch, sizes->scratch * (uint64_t)self->n_thread, "attention scratch"},
        {(void **)&self->partial, sizes->partial, "attention results"},
        {(void **)&self->cos, sizes->table, "cosines"},
        {(void **)&self->sin, sizes->table, "sines"},
        {(void **)&self->cos_local, sizes->table_local, "cosines"},
        {(void **)&self->sin_local, sizes->table_local, "sines"},
        {(void **)&self->kv.data, sizes->kv, "keys and values: lower --max-model-len or --kv-cache-tokens"},
        {(void **)&self->span, sizes->spans, "weight spans"},
        {(void **)&self->op_span, sizes->ops, "weight spans"},
        {(void **)&self->item, sizes->items, "attention items"},
        {(void **)&self->phase, sizes->phases, "phases"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i].p = qr_cpu_alloc(all[i].bytes, all[i].what, err);
        if (!*all[i].p)
            return QR_NOMEM;
    }
    return QR_OK;
}

static enum qr_status bind_weights(struct qr_cpu_exec *self, struct qr_err *err)
{
    const struct qr_plan *plan = self->plan;
    int at = 0;
    for (int i = 0; i < plan->n_op; i++) {
        const struct qr_op *op = &plan->op[i];
        self->op_span[i] = at;
        if (op->code != QR_OP_LINEAR && op->code != QR_OP_EMBED)
            continue;
        const struct qr_storage *storage = op->weight->storage;
        for (int s = 0; s < storage->n_segment; s++)
            if (!storage->segment[s].data || storage->segment[s].packing != QR_PANEL16)
                return qr_fail(err, QR_INTERNAL, "%s is not loaded in the CPU's order", op->weight->name);
        if (op->code == QR_OP_LINEAR) {
            QR_TRY(qr_cpu_make_spans(op, self->span + at, err));
            at += qr_cpu_count_spans(op->weight);
        }
    }
    self->op_span[plan->n_op] = at;
    return QR_OK;
}

/* Positions [p0, p1) of a table. What stands still (frequency 0, Phi-4-mini's second part of a head) is not scaled either. */
static void fill_table(const float *inv_freq, int64_t half, double scale, int64_t p0, int64_t p1, float *cosine,
                       float *sine)
{
    for (int64_t p = p0; inv_freq && p < p1; p++)
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)p * (double)inv_freq[i], times = inv_freq[i] != 0 ? scale : 1;
            cosine[p * half + i] = (float)(cos(angle) * times);
            sine[p * half + i] = (float)(sin(angle) * times);
        }
}

/* Every page of what each step uses is touched once. Workers take equal parts. */
static void fill(void *ctx, int worker, int n_worker)
{
    struct qr_cpu_exec *self = ctx;
    const struct qr_plan *plan = self->plan;
    struct {
        void *p;
        uint64_t bytes;
    } all[] = {
        {self->activation, self->sizes.buffers.bytes},
        {self->act.code, self->sizes.code},
        {self->act.meta, self->sizes.meta},
        {self->act.f32, self->sizes.f32},
        {self->partial, self->sizes.partial},
        {self->item, self->sizes.items},
        {self->scratch, self->sizes.scratch * (uint64_t)self->n_thread},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        uint64_t each = all[i].bytes / (uint64_t)n_worker, begin = each * (uint64_t)worker;
        memset((uint8_t *)all[i].p + begin, 0, worker == n_worker - 1 ? all[i].bytes - begin : each);
    }
    int64_t half = plan->head_dim / 2, n = self->limits.max_len;
    int64_t p0 = n * worker / n_worker, p1 = n * (worker + 1) / n_worker;
    fill_table(plan->inv_freq, half, (double)plan->rope_scale, p0, p1, self->cos, self->sin);
    fill_table(plan->inv_freq_local, half, 1, p0, p1, self->cos_local, self->sin_local);
}

enum qr_status qr_cpu_exec_create(const struct qr_plan *plan, const struct qr_exec_limits *limits, enum qr_isa isa,
                                  struct qr_pool *pool, struct qr_exec **exec, struct qr_err *err)
{
    *exec = NULL;
    if (!qr_isa_runs_here(isa))
        return qr_fail(err, QR_UNSUPPORTED, "this CPU does not run %s kernels", qr_isa_name(isa));
    struct qr_cpu_exec *self = calloc(1, sizeof *self);
    if (!self)
        return qr_fail(err, QR_NOMEM, "out of memory for an executor");
    self->base.ops = &cpu_ops;
    self->plan = plan;
    self->limits = *limits;
    self->pool = pool;
    self->n_thread = qr_pool_size(pool);
    self->table = qr_cpu_table(isa);
    self->last_attention = qr_cpu_last_attention(plan);
    enum qr_status status = qr_cpu_sizes(plan, limits, self->n_thread, &self->sizes, err);
    if (status == QR_OK)
        status = allocate(self, err);
    if (status == QR_OK)
        status = bind_weights(self, err);
    if (status != QR_OK) {
        destroy(&self->base);
        return status;
    }
    uint32_t v_stride = (plan->head_dim + 15) & ~15u, element = limits->kv_type == QR_F32 ? 4 : 2;
    self->kv.head_bytes = (uint64_t)QR_PAGE * (plan->head_dim + v_stride) * element;
    self->kv.layer_bytes = self->kv.head_bytes * plan->n_kv_head;
    self->kv.block_bytes = self->sizes.block;
    self->kv.v_offset = (uint64_t)QR_PAGE * plan->head_dim * element;
    self->kv.type = limits->kv_type;
    self->kv.head_dim = plan->head_dim;
    self->kv.v_stride = v_stride;
    qr_pool_run(pool, fill, self);
    *exec = &self->base;
    return QR_OK;
}

void qr_cpu_profile(struct qr_exec *exec, bool on)
{
    struct qr_cpu_exec *self = self_of(exec);
    self->profile = on;
    memset(self->seconds, 0, sizeof self->seconds);
    memset(self->count, 0, sizeof self->count);
}

void qr_cpu_profile_read(struct qr_exec *exec, double seconds[QR_N_OPCODE], uint64_t count[QR_N_OPCODE])
{
    const struct qr_cpu_exec *self = self_of(exec);
    memcpy(seconds, self->seconds, sizeof self->seconds);
    memcpy(count, self->count, sizeof self->count);
}
