/* exec.c - the CUDA executor made and ended; a step submitted and collected. */
#include "cuda/decode_host.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIB    (1024.0 * 1024.0)
#define N_SLOT (QR_MAX_AHEAD + 1)

static struct qr_cuda_exec *self_of(struct qr_exec *exec)
{
    return (struct qr_cuda_exec *)exec;
}

/* ---------------------------------------------------------------- a step */

static enum qr_status read_marks(struct qr_cuda_exec *self, struct qr_err *err)
{
    const struct qr_plan *plan = self->plan;
    for (int i = 0; i < plan->n_op; i++) {
        float ms = 0;
        QR_CUDA(cudaEventElapsedTime(&ms, self->mark[i], self->mark[i + 1]), "timing", err);
        self->seconds[plan->op[i].code] += (double)ms * 1e-3;
        self->count[plan->op[i].code]++;
    }
    return QR_OK;
}

/* The place of the step that was submitted last. */
static struct qr_cuda_slot *last_slot(struct qr_cuda_exec *self)
{
    return &self->slot[(self->first + self->n_slot - 1) % N_SLOT];
}

static enum qr_status launch(struct qr_cuda_exec *self, const struct qr_step *step, struct qr_cuda_slot *slot,
                             struct qr_err *err)
{
    struct qr_cuda_shape shape;
    const bool whole = !self->stream && qr_cuda_decode_takes(self, step);
    bool graph = !self->stream && qr_cuda_fill_step(self, step, true, slot->words, &shape);
    if (!graph)
        qr_cuda_fill_step(self, step, false, slot->words, &shape);
    QR_CUDA(cudaSetDevice(self->device_id), "choosing a GPU", err);
    QR_CUDA(cudaMemcpyAsync(self->step, slot->words, shape.end * 4, cudaMemcpyHostToDevice, self->on.stream),
            "sending a step", err);
    QR_TRY(qr_cuda_copy_blocks(self, &shape, err));
    slot->n_beat = 0;
    self->beating = !graph && shape.n_token > QR_CUDA_BEAT_TOKENS ? slot : NULL;
    QR_TRY(whole   ? qr_cuda_decode_launch(self, &shape, step, (int)(slot - self->slot), err)
           : graph ? qr_cuda_launch_graph(self, &shape, err)
                   : qr_cuda_walk(self, &shape, err));
    if (step->n_row > 0 && !self->samples)
        QR_CUDA(cudaMemcpyAsync(self->logits, self->activation + self->sizes.buffers.offset[self->plan->logits],
                                (size_t)step->n_row * self->plan->n_vocab * sizeof(float), cudaMemcpyDeviceToHost,
                                self->on.stream),
                "fetching logits", err);
    if (self->profile) { /* the next step sets the marks again */
        QR_CUDA(cudaStreamSynchronize(self->on.stream), "running a step", err);
        QR_TRY(read_marks(self, err));
    }
    return qr_cuda_status(cudaEventRecord(slot->done, self->on.stream), "marking a step's end", err);
}

static enum qr_status submit(struct qr_exec *exec, const struct qr_step *step, struct qr_err *err)
{
    struct qr_cuda_exec *self = self_of(exec);
    QR_TRY(qr_cuda_check_step(self, step, err));
    if (self->n_slot == N_SLOT)
        return qr_fail(err, QR_INTERNAL, "%d steps are in flight: one must be collected first", self->n_slot);
    self->n_slot++;
    struct qr_cuda_slot *slot = last_slot(self);
    slot->n_row = step->n_row;
    slot->place = step->place;
    enum qr_status status = launch(self, step, slot, err);
    if (status != QR_OK)
        self->n_slot--;
    return status;
}

static enum qr_status sample(struct qr_exec *exec, const struct qr_pick *pick, struct qr_err *err)
{
    struct qr_cuda_exec *self = self_of(exec);
    if (self->n_slot == 0)
        return qr_fail(err, QR_INTERNAL, "no step is in flight");
    struct qr_cuda_slot *slot = last_slot(self);
    enum qr_status status = qr_cuda_sample(self, slot, pick, err);
    if (status == QR_OK)
        status = qr_cuda_status(cudaEventRecord(slot->done, self->on.stream), "marking a step's end", err);
    if (status != QR_OK)
        self->n_slot--;
    return status;
}

static enum qr_status collect(struct qr_exec *exec, struct qr_result *result, struct qr_picked *picked,
                              struct qr_err *err)
{
    struct qr_cuda_exec *self = self_of(exec);
    if (self->n_slot == 0)
        return qr_fail(err, QR_INTERNAL, "no step is in flight");
    struct qr_cuda_slot *slot = &self->slot[self->first];
    self->first = (self->first + 1) % N_SLOT;
    self->n_slot--;
    for (int i = 0; i < slot->n_beat; i++) {
        QR_CUDA(cudaEventSynchronize(slot->beat[i]), "running a step", err);
        qr_exec_went_on(exec);
    }
    QR_CUDA(cudaEventSynchronize(slot->done), "running a step", err);
    QR_TRY(qr_cuda_decode_status(self, (int)(slot - self->slot), err));
    if (self->samples)
        qr_sample_unpack(slot->picked, slot->n_row, picked);
    *result = (struct qr_result){.n_row = slot->n_row, .logits = self->logits};
    return QR_OK;
}

static void free_marks(struct qr_cuda_exec *self)
{
    for (int i = 0; self->mark && i <= self->plan->n_op; i++)
        if (self->mark[i])
            cudaEventDestroy(self->mark[i]);
    free(self->mark);
    self->mark = NULL;
}

static void destroy(struct qr_exec *exec)
{
    struct qr_cuda_exec *self = self_of(exec);
    if (self->on.stream)
        cudaStreamSynchronize(self->on.stream);
    for (int i = 0; i < N_SLOT; i++) {
        cudaFreeHost(self->slot[i].words);
        cudaFreeHost(self->slot[i].pick);
        cudaFreeHost(self->slot[i].picked);
        if (self->slot[i].done)
            cudaEventDestroy(self->slot[i].done);
        for (int b = 0; b < QR_CUDA_BEATS; b++)
            if (self->slot[i].beat[b])
                cudaEventDestroy(self->slot[i].beat[b]);
    }
    free_marks(self);
    qr_cuda_graphs_free(self);
    qr_cuda_decode_free(self);
    cudaFreeHost(self->logits);
    cudaFree(self->memory);
    cudaFree(self->tiles);
    cudaFree(self->kv);
    if (self->on.stream)
        cudaStreamDestroy(self->on.stream);
    cudaGetLastError(); /* after a failure each of these may have failed */
    qr_cuda_sizes_free(&self->sizes);
    free(self);
}

static const struct qr_exec_ops picking = {
    .name = "cuda", .submit = submit, .sample = sample, .collect = collect, .destroy = destroy};
static const struct qr_exec_ops giving_logits = {
    .name = "cuda", .submit = submit, .collect = collect, .destroy = destroy};

/* ---------------------------------------------------------------- creation */

static enum qr_status device_alloc(void *p, uint64_t bytes, const char *what, struct qr_err *err)
{
    cudaError_t e = cudaMalloc((void **)p, bytes ? bytes : 256);
    if (e == cudaSuccess)
        return QR_OK;
    cudaGetLastError();
    return qr_fail(err, QR_NOMEM, "the GPU has no room for %.0f MiB of %s: %s", (double)bytes / MIB, what,
                   cudaGetErrorString(e));
}

static enum qr_status check_room(const struct qr_cuda_exec *self, struct qr_err *err)
{
    const struct qr_cuda_sizes *s = &self->sizes;
    uint64_t other = s->buffers.bytes + s->x16 + s->q16 + s->work + s->expanded + s->y_part + s->counter + s->part +
                     s->tile_counter + 2 * (s->table + s->table_local) + s->step + s->place + s->pick + s->sample_work;
    uint64_t weights = s->tiles + s->n_float * 4, total = weights + s->kv + other; /* each below 2^62 */
    if (total <= self->device.available)
        return QR_OK;
    return qr_fail(err, QR_LIMIT,
                   "%s has %.0f MiB available but %.0f are needed: weights %.0f, KV cache %.0f, the rest %.0f; lower "
                   "max_model_len, kv_cache_tokens or max_num_batched_tokens",
                   self->device.name, (double)self->device.available / MIB, (double)total / MIB, (double)weights / MIB,
                   (double)s->kv / MIB, (double)other / MIB);
}

/* One allocation, cut into regions; counters are zero before the first step, and so are keys and values: stale places
 * of a page meet a weight of zero and must be finite. */
static enum qr_status allocate(struct qr_cuda_exec *self, struct qr_err *err)
{
    const struct qr_cuda_sizes *s = &self->sizes;
    const struct {
        void *p;
        uint64_t bytes;
    } all[] = {
        {&self->vectors, s->n_float * 4},
        {&self->activation, s->buffers.bytes},
        {&self->x16, s->x16},
        {&self->q16, s->q16},
        {&self->work, s->work},
        {&self->expanded, s->expanded},
        {&self->y_part, s->y_part},
        {&self->counter, s->counter},
        {&self->part, s->part},
        {&self->tile_counter, s->tile_counter},
        {&self->cos, s->table},
        {&self->sin, s->table},
        {&self->cos_local, s->table_local},
        {&self->sin_local, s->table_local},
        {&self->step, s->step},
        {&self->place, s->place},
        {&self->pick, s->pick},
        {&self->sample_work, s->sample_work},
    };
    uint64_t total = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        total += (all[i].bytes + 255) / 256 * 256;
    QR_TRY(device_alloc(&self->memory, total, "activations and workspace", err));
    uint8_t *at = self->memory;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        memcpy(all[i].p, &at, sizeof at);
        at += (all[i].bytes + 255) / 256 * 256;
    }
    QR_TRY(device_alloc(&self->tiles, s->tiles, "weights", err));
    QR_TRY(device_alloc(&self->kv, s->kv, "keys and values", err));
    QR_CUDA(cudaMemsetAsync(self->memory, 0, total, self->on.stream), "clearing memory", err);
    QR_CUDA(cudaMemsetAsync(self->kv, 0, s->kv, self->on.stream), "clearing memory", err);
    for (int i = 0; i < N_SLOT; i++) {
        QR_CUDA(cudaHostAlloc((void **)&self->slot[i].words, s->step, 0), "allocating pinned memory", err);
        QR_CUDA(cudaEventCreateWithFlags(&self->slot[i].done, cudaEventDisableTiming), "making an event", err);
        for (int b = 0; b < QR_CUDA_BEATS; b++)
            QR_CUDA(cudaEventCreateWithFlags(&self->slot[i].beat[b], cudaEventDisableTiming), "making an event", err);
        if (!self->samples)
            continue;
        QR_CUDA(cudaHostAlloc((void **)&self->slot[i].pick, s->pick, 0), "allocating pinned memory", err);
        QR_CUDA(cudaHostAlloc((void **)&self->slot[i].picked, s->picked ? s->picked : 256, 0),
                "allocating pinned memory", err);
    }
    if (self->samples)
        return QR_OK;
    return qr_cuda_status(cudaHostAlloc((void **)&self->logits, s->logits_host ? s->logits_host : 256, 0),
                          "allocating pinned memory", err);
}

struct tables {
    const float *inv_freq;
    double scale;
    int64_t n, half; /* positions; angles */
    float *cosines, *sines;
};

static void fill_tables(void *ctx, int worker, int n_worker)
{
    const struct tables *t = ctx;
    int64_t half = t->half;
    for (int64_t p = t->n * worker / n_worker; p < t->n * (worker + 1) / n_worker; p++)
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)p * (double)t->inv_freq[i];
            double times = t->inv_freq[i] != 0 ? t->scale : 1; /* what stands still is not scaled either */
            t->cosines[p * half + i] = (float)(cos(angle) * times);
            t->sines[p * half + i] = (float)(sin(angle) * times);
        }
}

static enum qr_status send_table(struct qr_cuda_exec *self, const float *inv_freq, double scale, float *cosines,
                                 float *sines, struct qr_pool *pool, struct qr_err *err)
{
    struct tables t = {
        .inv_freq = inv_freq, .scale = scale, .n = self->limits.max_len, .half = self->plan->head_dim / 2};
    if (!inv_freq)
        return QR_OK;
    t.cosines = malloc(2 * self->sizes.table);
    if (!t.cosines)
        return qr_fail(err, QR_NOMEM, "out of memory for cosines of %lld positions", (long long)t.n);
    t.sines = t.cosines + self->sizes.table / 4;
    qr_pool_run(pool, fill_tables, &t);
    size_t bytes = (size_t)t.n * (size_t)t.half * sizeof(float);
    cudaError_t e = cudaMemcpy(cosines, t.cosines, bytes, cudaMemcpyHostToDevice);
    if (e == cudaSuccess)
        e = cudaMemcpy(sines, t.sines, bytes, cudaMemcpyHostToDevice);
    free(t.cosines);
    return qr_cuda_status(e, "sending cosines", err);
}

static enum qr_status send_tables(struct qr_cuda_exec *self, struct qr_pool *pool, struct qr_err *err)
{
    const struct qr_plan *p = self->plan;
    QR_TRY(send_table(self, p->inv_freq, (double)p->rope_scale, self->cos, self->sin, pool, err));
    return send_table(self, p->inv_freq_local, 1, self->cos_local, self->sin_local, pool, err);
}

static enum qr_status create(struct qr_cuda_exec *self, const struct qr_cuda_options *options, struct qr_pool *pool,
                             struct qr_err *err)
{
    QR_TRY(qr_cuda_device_get(self->device_id, true, &self->device, err));
    if (self->plain) {
        self->device.major = 8;
        self->device.minor = 0;
    }
    self->on.arch = self->device.major * 10 + self->device.minor;
    self->on.n_sm = self->device.n_sm;
    QR_TRY(qr_cuda_sizes(self->plan, &self->limits, self->convert, &self->sizes, err));
    self->sizes.sample_work = qr_sample_work_bytes(self->limits.max_row, (int)self->plan->n_vocab, self->device.major);
    QR_TRY(check_room(self, err));
    QR_CUDA(cudaStreamCreateWithFlags(&self->on.stream, cudaStreamNonBlocking), "making a stream", err);
    QR_CUDA(qr_cu_prepare(&self->on, (int)self->plan->head_dim),
            "preparing kernels (is the GPU one of those that this "
            "build was made for?)",
            err);
    QR_CUDA(qr_cu_prepare_quant(&self->on), "preparing kernels", err);
    QR_TRY(allocate(self, err));
    QR_TRY(send_tables(self, pool, err));
    QR_TRY(qr_cuda_upload(self, options, pool, err));
    if (!self->stream && !self->plain && !self->graphs)
        QR_TRY(qr_cuda_decode_create(self, err));
    return qr_cuda_status(cudaStreamSynchronize(self->on.stream), "clearing memory", err);
}

enum qr_status qr_cuda_exec_create(const struct qr_plan *plan, const struct qr_exec_limits *limits,
                                   const struct qr_cuda_options *options, struct qr_pool *pool, struct qr_exec **exec,
                                   struct qr_err *err)
{
    *exec = NULL;
    struct qr_cuda_exec *self = calloc(1, sizeof *self);
    if (!self)
        return qr_fail(err, QR_NOMEM, "out of memory for an executor");
    static const struct qr_cuda_options defaults;
    const struct qr_cuda_options *o = options ? options : &defaults;
    self->base.ops = o->logits ? &giving_logits : &picking;
    self->samples = !o->logits;
    self->stream = o->stream;
    self->plain = o->plain;
    self->graphs = o->graphs;
    self->few = o->few;
    self->convert = o->convert;
    self->on.early = !o->serial;
    self->plan = plan;
    self->limits = *limits;
    self->device_id = o->device;
    enum qr_status status = create(self, o, pool, err);
    if (status != QR_OK) {
        destroy(&self->base);
        return status;
    }
    *exec = &self->base;
    return QR_OK;
}

/* ---------------------------------------------------------------- timing */

enum qr_status qr_cuda_profile(struct qr_exec *exec, bool on, struct qr_err *err)
{
    struct qr_cuda_exec *self = self_of(exec);
    memset(self->seconds, 0, sizeof self->seconds);
    memset(self->count, 0, sizeof self->count);
    self->profile = false;
    QR_CUDA(cudaStreamSynchronize(self->on.stream), "timing", err);
    qr_cuda_graphs_free(self); /* they have marks, or have none */
    if (!on)
        return QR_OK;
    if (!self->mark) {
        self->mark = calloc((size_t)self->plan->n_op + 1, sizeof *self->mark);
        if (!self->mark)
            return qr_fail(err, QR_NOMEM, "out of memory for %d events", self->plan->n_op + 1);
        for (int i = 0; i <= self->plan->n_op; i++)
            QR_CUDA(cudaEventCreate(&self->mark[i]), "making an event", err);
    }
    self->profile = true;
    return QR_OK;
}

void qr_cuda_profile_read(struct qr_exec *exec, double seconds[QR_N_OPCODE], uint64_t count[QR_N_OPCODE])
{
    const struct qr_cuda_exec *self = self_of(exec);
    memcpy(seconds, self->seconds, sizeof self->seconds);
    memcpy(count, self->count, sizeof self->count);
}

const char *qr_cuda_no_decode(const struct qr_exec *exec)
{
    const struct qr_cuda_exec *self = (const struct qr_cuda_exec *)exec;
    if (self->decode)
        return NULL;
    return self->stream || self->graphs || self->plain ? "not asked for" : self->no_decode.message;
}

uint64_t qr_cuda_launches(const struct qr_exec *exec)
{
    return ((const struct qr_cuda_exec *)exec)->n_launch;
}
