/* upload.c - weights from the host's panels to the device's tiles of bf16, or quantised as they are, packed by all threads
 * into pinned memory, one half of which is filled while the other one travels. */
#include <stdlib.h>
#include <string.h>
#include "base/half.h"
#include "base/pack.h"
#include "cuda/exec.h"
#include "cuda/quant_pack.h"

#define HALF ((uint64_t)16 << 20)

/* Where element (row, k) of a strip of 16 rows lies: tiles of 16 x 16 (packed.cuh). */
static size_t place_of(uint32_t row, uint32_t k)
{
    uint32_t c = k % 16, lane = row / 2 * 4 + c % 8 / 2, half = row % 2 + c / 8 * 2;
    return (size_t)(k / 16) * 256 + lane * 8 + half * 2 + c % 2;
}

static void pack_bf16_panel(const uint16_t *panel, uint32_t n_col, uint16_t *to)
{
    for (uint32_t k = 0; k < n_col; k++, panel += 16) {
        uint16_t *at = to + place_of(0, k);
        for (int r = 0; r < 8; r++) {
            at[r * 32] = panel[r * 2];
            at[r * 32 + 2] = panel[r * 2 + 1];
        }
    }
}

/* A strip of 16 rows of a segment; those behind n_row are zero. row: scratch for n_col floats. */
static void pack_strip(const struct qr_segment *segment, uint32_t n_col, uint32_t strip, int k, float *row,
                       uint16_t *to)
{
    uint64_t panel_bytes = qr_panel_bytes(segment->type, n_col);
    const uint8_t *panel = (const uint8_t *)segment->data + strip * panel_bytes;
    uint32_t left = segment->n_row - strip * 16, rows = left < 16 ? left : 16;
    if ((uint32_t)k != n_col || rows < 16)
        memset(to, 0, (size_t)k * 32);
    if (segment->type == QR_BF16) { /* the panel's own padding is zero */
        pack_bf16_panel((const uint16_t *)(const void *)panel, n_col, to);
        return;
    }
    for (uint32_t r = 0; r < rows; r++) {
        qr_unpack_row(segment->type, n_col, panel, (int)r, row);
        for (uint32_t c = 0; c < n_col; c++)
            to[place_of(r, c)] = qr_f32_to_bf16(row[c]);
    }
}

struct packing {
    const struct qr_cuda_storage *storage;
    uint32_t first, n; /* strips */
    float *row;        /* [n_worker][max columns] */
    size_t row_stride;
    uint8_t *to;
};

static void pack_part(void *ctx, int worker, int n_worker)
{
    const struct packing *p = ctx;
    const struct qr_storage *of = p->storage->of;
    for (uint32_t i = p->n * (uint32_t)worker / (uint32_t)n_worker,
                  end = p->n * (uint32_t)(worker + 1) / (uint32_t)n_worker;
         i < end; i++) {
        uint32_t row = (p->first + i) * 16;
        const struct qr_segment *segment = of->segment;
        while (row >= segment->row + (segment->n_row + 15) / 16 * 16)
            segment++;
        uint32_t strip = (row - segment->row) / 16;
        uint8_t *to = p->to + i * p->storage->strip;
        if (p->storage->quant)
            qr_cuda_quant_strip(p->storage->quant,
                                (const uint8_t *)segment->data + strip * qr_panel_bytes(segment->type, of->n_col),
                                of->n_col, p->storage->k, to);
        else
            pack_strip(segment, of->n_col, strip, p->storage->k, p->row + p->row_stride * (size_t)worker,
                       (uint16_t *)(void *)to);
    }
}

struct stage {
    const struct qr_cuda_options *options; /* whom to tell */
    uint64_t done, total;                  /* bytes of weights */
    uint8_t *memory;                       /* two halves */
    uint64_t half;
    cudaEvent_t sent[2];
    int next;
};

static enum qr_status send_storage(struct qr_cuda_exec *exec, const struct qr_cuda_storage *s, struct qr_pool *pool,
                                   struct stage *stage, struct packing *p, struct qr_err *err)
{
    for (int i = 0; i < s->of->n_segment; i++)
        if (!s->of->segment[i].data || s->of->segment[i].packing != QR_PANEL16)
            return qr_fail(err, QR_INTERNAL, "%s is not loaded in panels", s->of->name);
    uint64_t strip_bytes = s->strip;
    uint32_t n_strip = (uint32_t)s->rows / 16, most = (uint32_t)(stage->half / strip_bytes);
    p->storage = s;
    for (p->first = 0; p->first < n_strip; p->first += p->n) {
        int half = stage->next++ % 2;
        p->n = n_strip - p->first < most ? n_strip - p->first : most;
        p->to = stage->memory + (uint64_t)half * stage->half;
        QR_CUDA(cudaEventSynchronize(stage->sent[half]), "sending weights", err);
        qr_pool_run(pool, pack_part, p);
        QR_CUDA(cudaMemcpyAsync(exec->tiles + s->offset + p->first * strip_bytes, p->to, p->n * strip_bytes,
                                cudaMemcpyHostToDevice, exec->on.stream),
                "sending weights", err);
        QR_CUDA(cudaEventRecord(stage->sent[half], exec->on.stream), "sending weights", err);
        stage->done += p->n * strip_bytes;
        if (stage->options->progress &&
            !stage->options->progress(stage->options->progress_ctx, stage->done, stage->total))
            return qr_fail(err, QR_CANCELLED, "sending weights was stopped after %llu of %llu bytes",
                           (unsigned long long)stage->done, (unsigned long long)stage->total);
    }
    return QR_OK;
}

static enum qr_status send_vectors(struct qr_cuda_exec *exec, struct qr_err *err)
{
    const struct qr_plan *plan = exec->plan;
    float *all = calloc(exec->sizes.n_float + 1, sizeof *all);
    if (!all)
        return qr_fail(err, QR_NOMEM, "out of memory for %llu floats", (unsigned long long)exec->sizes.n_float);
    for (int i = 0; i < plan->n_op; i++) {
        const struct qr_op *op = &plan->op[i];
        const struct qr_cuda_op *bound = &exec->sizes.op[i];
        for (int s = 0; s < 2; s++)
            if (op->scale[s])
                memcpy(all + bound->vector[s], op->scale[s]->data, op->scale[s]->n * sizeof *all);
        if (op->code == QR_OP_LINEAR && op->weight->bias)
            memcpy(all + bound->vector[0], op->weight->bias, op->weight->n_row * sizeof *all);
    }
    cudaError_t e = cudaMemcpy(exec->vectors, all, exec->sizes.n_float * sizeof *all, cudaMemcpyHostToDevice);
    free(all);
    return qr_cuda_status(e, "sending norms and biases", err);
}

static enum qr_status send_all(struct qr_cuda_exec *exec, struct qr_pool *pool, struct stage *stage, struct packing *p,
                               struct qr_err *err)
{
    for (int i = 0; i < 2; i++)
        QR_CUDA(cudaEventCreateWithFlags(&stage->sent[i], cudaEventDisableTiming), "making an event", err);
    QR_CUDA(cudaHostAlloc((void **)&stage->memory, 2 * stage->half, 0), "allocating pinned memory", err);
    for (int i = 0; i < exec->sizes.n_storage; i++)
        QR_TRY(send_storage(exec, &exec->sizes.storage[i], pool, stage, p, err));
    QR_TRY(send_vectors(exec, err));
    QR_CUDA(cudaStreamSynchronize(exec->on.stream), "sending weights", err);
    return QR_OK;
}

enum qr_status qr_cuda_upload(struct qr_cuda_exec *exec, const struct qr_cuda_options *options, struct qr_pool *pool,
                              struct qr_err *err)
{
    struct stage stage = {.options = options, .half = HALF};
    struct packing p = {0};
    for (int i = 0; i < exec->sizes.n_storage; i++) {
        uint64_t strip = exec->sizes.storage[i].strip;
        stage.total += (uint64_t)exec->sizes.storage[i].rows / 16 * strip;
        stage.half = strip > stage.half ? strip : stage.half;
        p.row_stride =
            (size_t)exec->sizes.storage[i].k > p.row_stride ? (size_t)exec->sizes.storage[i].k : p.row_stride;
    }
    p.row = calloc((size_t)qr_pool_size(pool), (p.row_stride + 1) * sizeof *p.row);
    enum qr_status status =
        p.row ? send_all(exec, pool, &stage, &p, err) : qr_fail(err, QR_NOMEM, "out of memory for a row of a matrix");
    if (status != QR_OK && exec->on.stream) /* what is under way reads the memory that goes */
        cudaStreamSynchronize(exec->on.stream);
    for (int i = 0; i < 2; i++)
        if (stage.sent[i])
            cudaEventDestroy(stage.sent[i]);
    cudaFreeHost(stage.memory);
    free(p.row);
    return status;
}
