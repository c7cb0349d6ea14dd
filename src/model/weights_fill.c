/* weights_fill.c - memory for the weights, and every tensor read, checked, permuted and packed into it. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/checked.h"
#include "base/pack.h"
#include "model/weights_build.h"

#define HUGE_PAGE  ((uint64_t)2 << 20)
#define GROUP_SIZE ((uint64_t)128 << 10) /* bytes of panels that a worker takes at once */

uint64_t qr_weights_file_row(const struct qr_weights_build *build, const struct qr_weights_item *item, uint64_t row)
{
    uint64_t n_pair = item->n_pair;
    if (n_pair == 0)
        return row;
    uint64_t first = row - row % n_pair, half = n_pair / 2, pair = row % n_pair % half, side = row % n_pair / half;
    if (item->tensor->interleaved_rope)
        return first + 2 * pair + side;
    uint64_t turned = (uint64_t)qr_config_rope_dim(build->weights.config) / 2; /* pairs */
    if (pair < turned)
        return first + side * turned + pair;
    return first + 2 * turned + side * (half - turned) + pair - turned;
}

/* Large blocks start at a huge page: fewer TLB misses while a step streams all of them. */
static uint8_t *map_block(uint64_t n)
{
    uint8_t *p = mmap(NULL, n + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    uint64_t before = (HUGE_PAGE - ((uintptr_t)p & (HUGE_PAGE - 1))) & (HUGE_PAGE - 1);
    if (before > 0)
        munmap(p, before);
    if (HUGE_PAGE > before)
        munmap(p + before + n, HUGE_PAGE - before);
    madvise(p + before, n, MADV_HUGEPAGE); /* only a wish */
    return p + before;
}

enum qr_status qr_weights_alloc(struct qr_weights_build *b, bool headers_only, struct qr_err *err)
{
    b->vectors = calloc(b->n_float, sizeof(float));
    if (!headers_only && b->vectors) {
        uint64_t n = b->block_bytes;
        b->block_mapped = n >= 2 * HUGE_PAGE && qr_align_u64(n, 4096, &n);
        b->block = b->block_mapped ? map_block(n) : aligned_alloc(64, n);
        b->block_bytes = n;
    }
    if (!b->vectors || (!headers_only && !b->block)) {
        b->block_mapped = false;
        return qr_fail(err, QR_NOMEM,
                       "the weights take %llu MiB and the system refuses them: free memory or choose a smaller model",
                       (unsigned long long)(b->weights.bytes >> 20));
    }
    /* a plan of headers alone is recorded with its frequencies divided by factors: by 1, where they are not read */
    for (uint64_t i = 0; headers_only && i < b->n_float; i++)
        b->vectors[i] = 1;
    for (int i = 0; i < b->n_patch; i++) {
        const struct qr_weights_patch *patch = &b->patch[i];
        if (patch->vector)
            *patch->vector = b->vectors + patch->offset;
        else if (b->block)
            patch->segment->data = b->block + patch->offset;
    }
    return QR_OK;
}

/* To a cache line; columns are below 2^31: nothing wraps. */
static uint64_t line_up(uint64_t n)
{
    return (n + 63) & ~(uint64_t)63;
}

/* Of 16 rows as in the file; of a row of floats. */
static uint64_t file_bytes(const struct qr_source_tensor *tensor)
{
    return line_up(qr_row_bytes(tensor->type, tensor->n_col) * QR_PANEL_ROWS);
}

static uint64_t float_bytes(const struct qr_source_tensor *tensor)
{
    return line_up(tensor->n_col * sizeof(float));
}

/* Whom to tell how far loading is, and who may stop it. */
struct told {
    bool (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
    uint64_t done, total; /* bytes of tensors; done: of those before the item */
};

/* One matrix while all workers pack it. */
struct packing {
    const struct qr_weights_build *build;
    const struct qr_weights_item *item;
    struct told told;
    uint8_t *scratch; /* [n_worker, scratch_bytes]: 16 rows as in the file, and what quantise needs */
    uint64_t scratch_bytes;
    atomic_uint_fast64_t next; /* the next panel that nobody took */
    atomic_bool failed;
    struct qr_err error; /* of the worker that failed first */
};

/* Rows [row, row + n) of the storage's order, in the file's type. */
static enum qr_status read_rows(const struct packing *p, uint64_t row, uint64_t n, uint8_t *out, struct qr_err *err)
{
    const struct qr_weights_item *item = p->item;
    const struct qr_source_tensor *tensor = item->tensor;
    uint64_t row_bytes = qr_row_bytes(tensor->type, tensor->n_col);
    if (item->n_pair == 0) {
        QR_TRY(qr_source_rows(p->build->source, tensor, row, n, out, err));
    } else {
        for (uint64_t i = 0; i < n; i++)
            QR_TRY(qr_source_rows(p->build->source, tensor, qr_weights_file_row(p->build, item, row + i), 1,
                                  out + i * row_bytes, err));
    }
    if (!qr_weights_finite(tensor->type, out, n * tensor->n_col))
        return qr_fail(err, QR_FORMAT, "tensor '%s' holds NaN or infinity in rows %llu to %llu: the file is damaged",
                       tensor->name, (unsigned long long)row, (unsigned long long)(row + n - 1));
    return QR_OK;
}

/* n rows as in the file to FP8, which stands behind the two rows of floats in `room`. What a norm gives is numbers of one size times its
 * weights, so a column's errors count by their square: on the default model a third of the loss that they would cost else. */
static enum qr_status quantise(const struct qr_weights_item *item, const uint8_t *rows, uint64_t n, uint8_t *room,
                               struct qr_err *err)
{
    const struct qr_source_tensor *tensor = item->tensor;
    uint64_t from = qr_row_bytes(tensor->type, tensor->n_col), to = qr_row_bytes(QR_FP8, tensor->n_col);
    float *number = (float *)(void *)room, *importance = (float *)(void *)(room + float_bytes(tensor));
    room += 2 * float_bytes(tensor);
    for (uint64_t i = 0; item->norm && i < tensor->n_col; i++)
        importance[i] = item->norm->data[i] * item->norm->data[i];
    for (uint64_t i = 0; i < n; i++) {
        qr_dequant(tensor->type, rows + i * from, number, tensor->n_col);
        if (!qr_quant_fp8(number, item->norm ? importance : NULL, room + i * to, tensor->n_col))
            return qr_fail(err, QR_UNSUPPORTED,
                           "tensor '%s' holds a weight beyond %g, which %s cannot: leave quantization out",
                           tensor->name, 448.0 * (double)QR_FP8_MOST, qr_dtype_info(tensor->as)->name);
    }
    return QR_OK;
}

static enum qr_status pack_panel(const struct packing *p, uint64_t panel, uint8_t *scratch, struct qr_err *err)
{
    const struct qr_source_tensor *tensor = p->item->tensor;
    uint64_t row = panel * QR_PANEL_ROWS, n = tensor->n_row - row;
    n = n < QR_PANEL_ROWS ? n : QR_PANEL_ROWS;
    QR_TRY(read_rows(p, row, n, scratch, err));
    if (tensor->as != tensor->type) {
        uint8_t *room = scratch + file_bytes(tensor);
        QR_TRY(quantise(p->item, scratch, n, room, err));
        scratch = room + 2 * float_bytes(tensor);
    }
    qr_pack_panel(tensor->as, tensor->n_col, scratch, (int)n,
                  p->build->block + p->item->offset + panel * qr_panel_bytes(tensor->as, tensor->n_col));
    return QR_OK;
}

/* Only in the thread that loads. */
static enum qr_status tell(const struct told *told, uint64_t more, struct qr_err *err)
{
    uint64_t done = told->done + more;
    if (!told->progress || told->progress(told->ctx, done, told->total))
        return QR_OK;
    return qr_fail(err, QR_CANCELLED, "loading was stopped after %llu of %llu bytes", (unsigned long long)done,
                   (unsigned long long)told->total);
}

static void fail(struct packing *p, const struct qr_err *err)
{
    if (!atomic_exchange(&p->failed, true))
        p->error = *err;
}

/* Worker 0 is the thread that loads: it tells how far all are, before each of its groups. */
static void pack_worker(void *ctx, int worker, int n_worker)
{
    struct packing *p = ctx;
    const struct qr_source_tensor *tensor = p->item->tensor;
    uint64_t n_panel = (tensor->n_row + QR_PANEL_ROWS - 1) / QR_PANEL_ROWS;
    uint64_t group = 1 + GROUP_SIZE / qr_panel_bytes(tensor->as, tensor->n_col);
    uint8_t *scratch = p->scratch + (uint64_t)worker * p->scratch_bytes;
    (void)n_worker;
    for (;;) {
        struct qr_err err;
        uint64_t first = atomic_fetch_add(&p->next, group);
        if (worker == 0 && first > 0 && first < n_panel &&
            tell(&p->told, qr_row_bytes(tensor->type, tensor->n_col) * QR_PANEL_ROWS * first, &err) != QR_OK)
            fail(p, &err);
        for (uint64_t panel = first; panel < first + group; panel++) {
            if (panel >= n_panel || atomic_load(&p->failed))
                return;
            if (pack_panel(p, panel, scratch, &err) != QR_OK)
                fail(p, &err);
        }
    }
}

static enum qr_status fill_matrix(struct packing *p, struct qr_pool *pool, struct qr_err *err)
{
    atomic_store(&p->next, 0);
    qr_pool_run(pool, pack_worker, p);
    if (!atomic_load(&p->failed))
        return QR_OK;
    if (err)
        *err = p->error;
    return p->error.status;
}

/* A norm, bias or frequency vector: one row, to fp32. */
static enum qr_status fill_vector(const struct packing *p, struct qr_err *err)
{
    const struct qr_weights_item *item = p->item;
    const struct qr_source_tensor *tensor = item->tensor;
    float *out = p->build->vectors + item->offset;
    QR_TRY(qr_source_rows(p->build->source, tensor, 0, 1, p->scratch, err));
    if (!qr_weights_finite(tensor->type, p->scratch, tensor->n_col))
        return qr_fail(err, QR_FORMAT, "tensor '%s' holds NaN or infinity: the file is damaged", tensor->name);
    if (item->n_pair == 0) {
        bool less_one = p->build->weights.config->norm_plus_one && qr_source_dir(p->build->source) &&
                        strstr(tensor->name, "_norm.weight");
        qr_dequant(tensor->type, p->scratch, out, tensor->n_col);
        for (uint64_t i = 0; less_one && i < tensor->n_col; i++)
            out[i] += 1;
        return QR_OK;
    }
    float *in_file_order = malloc(tensor->n_col * sizeof(float));
    if (!in_file_order)
        return qr_fail(err, QR_NOMEM, "no memory to permute tensor '%s'", tensor->name);
    qr_dequant(tensor->type, p->scratch, in_file_order, tensor->n_col);
    for (uint64_t i = 0; i < tensor->n_col; i++)
        out[i] = in_file_order[qr_weights_file_row(p->build, item, i)];
    free(in_file_order);
    return QR_OK;
}

/* Bytes of the largest piece that any item reads at once. */
static uint64_t scratch_size(const struct qr_weights_build *b)
{
    uint64_t most = 64;
    for (int i = 0; i < b->n_item; i++) {
        const struct qr_source_tensor *tensor = b->item[i].tensor;
        uint64_t n = b->item[i].vector ? qr_row_bytes(tensor->type, tensor->n_col) : file_bytes(tensor);
        if (tensor->as != tensor->type)
            n += 2 * float_bytes(tensor) + qr_row_bytes(tensor->as, tensor->n_col) * QR_PANEL_ROWS;
        most = n > most ? n : most;
    }
    return line_up(most);
}

static enum qr_status fill_all(struct packing *p, struct qr_pool *pool, struct qr_err *err)
{
    const struct qr_weights_build *b = p->build;
    for (int i = 0; i < b->n_item; i++)
        p->told.total += b->item[i].tensor->bytes;
    for (int i = 0; i < 2 * b->n_item; i++) { /* vectors first: norms tell how to quantise */
        p->item = &b->item[i % b->n_item];
        if (p->item->vector != (i < b->n_item))
            continue;
        QR_TRY(p->item->vector ? fill_vector(p, err) : fill_matrix(p, pool, err));
        qr_source_forget(b->source, p->item->tensor);
        p->told.done += p->item->tensor->bytes;
        QR_TRY(tell(&p->told, 0, err));
    }
    /* the system maps pages around one that is touched, so a tensor's read brought in its neighbours' ends again */
    for (int i = 0; i < b->n_item; i++)
        qr_source_forget(b->source, b->item[i].tensor);
    return QR_OK;
}

enum qr_status qr_weights_fill(struct qr_weights_build *b, struct qr_pool *pool,
                               bool (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx,
                               struct qr_err *err)
{
    struct qr_pool *own = NULL;
    if (!pool) {
        QR_TRY(qr_pool_create(1, &own, err));
        pool = own;
    }
    struct packing p = {.build = b, .told = {.progress = progress, .ctx = ctx}, .scratch_bytes = scratch_size(b)};
    p.scratch = aligned_alloc(64, (uint64_t)qr_pool_size(pool) * p.scratch_bytes);
    enum qr_status status = p.scratch
                                ? fill_all(&p, pool, err)
                                : qr_fail(err, QR_NOMEM, "no memory for loading: %llu bytes for each of %d threads",
                                          (unsigned long long)p.scratch_bytes, qr_pool_size(pool));
    free(p.scratch);
    qr_pool_destroy(own);
    return status;
}
