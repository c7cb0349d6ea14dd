/* setup.c - see setup.h. */
#include "engine/setup.h"
#include <string.h>
#include "engine/advice.h"
#include "engine/batch.h"
#include "engine/blocks.h"
#include "engine/memory.h"
#include "plan/check.h"
#include "plan/fuse.h"

#define DEFAULT_SEQS   16
#define DEFAULT_TOKENS 512
#define CUDA_SEQS      64
#define CUDA_AHEAD     1 /* the host's work on a step takes less than the next step */
#define CUDA_TOKENS    2048
#define MIN_ROWS       64 /* rows that want logits in a step; more when more sequences run */
#define MAX_SEQS       4096
#define MAX_TOKENS     65536
#define MAX_BLOCKS     (INT32_MAX / QR_PAGE) /* slots are 32-bit */
#define CUDA_SHARE     0.9                   /* of the GPU's memory, unless said otherwise */
#define CUDA_BLOCKS    (1 << 20)             /* that a pool takes by itself: 16 million tokens */
#define MIB            (1024.0 * 1024.0)

/* auto is the GPU where this build and this machine have one that can run the model. */
static enum qr_status choose_device(const char *device, const struct qr_plan *plan, struct qr_setup *setup,
                                    struct qr_err *err)
{
    bool any = !device || strcmp(device, "auto") == 0;
    if (device && strcmp(device, "cpu") == 0)
        return QR_OK;
    if (!any && strcmp(device, "cuda") != 0)
        return qr_fail(err, QR_INVALID, "device is \"%.40s\": it must be cpu, cuda or auto", device);
    enum qr_status status = qr_cuda_device_get(0, true, &setup->gpu, any ? NULL : err);
    if (status == QR_OK) {
        struct qr_exec_limits least = {.max_token = 1, .max_seq = 1, .max_len = 1, .n_block = 1, .kv_type = QR_BF16};
        status = qr_cuda_memory(plan, &least, setup->gpu.major, &setup->cuda_memory, any ? NULL : err);
    }
    setup->cuda = status == QR_OK;
    return any ? QR_OK : status;
}

/* auto is bf16 on a GPU, whose other operands are bf16. On a CPU it is f16: on the default model's log-probabilities it
 * costs at most 0.012, where f32 costs 0.002 and bf16 0.044 (tests/engine/test_expected.c prints them), and it reads half
 * of f32's bytes. */
static enum qr_status choose_kv_type(const char *name, bool cuda, enum qr_dtype *type, struct qr_err *err)
{
    *type = cuda ? QR_BF16 : QR_F16;
    if (!name || strcmp(name, "auto") == 0)
        return QR_OK;
    if (cuda && (strcmp(name, "fp8") == 0 || strcmp(name, "fp8_e4m3") == 0)) {
        *type = QR_F8S;
        return QR_OK;
    }
    if (qr_dtype_from_name(name, type) && (*type == (cuda ? QR_BF16 : QR_F32) || *type == QR_F16 || *type == QR_BF16))
        return QR_OK;
    return qr_fail(err, QR_INVALID, "kv_cache_dtype is \"%.40s\": it must be auto, %s", name,
                   cuda ? "bf16, f16 or fp8 on a GPU" : "f32, f16 or bf16 on a CPU; fp8 needs a GPU");
}

/* 0 stands for the default. */
static enum qr_status choose(const char *name, int value, int max, int fallback, int *out, struct qr_err *err)
{
    if (value < 0 || value > max)
        return qr_fail(err, QR_INVALID, "%s is %d: it must lie within 1 and %d, or be 0 for the default", name, value,
                       max);
    *out = value > 0 ? value : fallback;
    return QR_OK;
}

static enum qr_status choose_step(const struct qr_engine_options *o, bool cuda, struct qr_exec_limits *l,
                                  struct qr_err *err)
{
    QR_TRY(choose("max_num_batched_tokens", o->max_num_batched_tokens, MAX_TOKENS, cuda ? CUDA_TOKENS : DEFAULT_TOKENS,
                  &l->max_token, err));
    int seqs = cuda ? CUDA_SEQS : DEFAULT_SEQS;
    seqs = l->max_token < seqs ? l->max_token : seqs;
    QR_TRY(choose("max_num_seqs", o->max_num_seqs, MAX_SEQS, seqs, &l->max_seq, err));
    if (l->max_seq > l->max_token)
        return qr_fail(
            err, QR_INVALID,
            "max_num_seqs is %d but a step holds %d tokens (max_num_batched_tokens): each sequence needs one",
            l->max_seq, l->max_token);
    l->max_row = l->max_seq > MIN_ROWS ? l->max_seq : MIN_ROWS;
    l->max_row = l->max_row < l->max_token ? l->max_row : l->max_token;
    return QR_OK;
}

/* Bytes that the engine may take of the GPU, and of them keys and values: what everything else leaves, by the account. */
static enum qr_status find_gpu_room(const struct qr_weights *weights, const struct qr_engine_options *o,
                                    struct qr_setup *setup, uint64_t *room, struct qr_err *err)
{
    struct qr_exec_limits l = setup->limits;
    struct qr_cuda_memory m;
    const struct qr_cuda_device *gpu = &setup->gpu;
    double share = o->gpu_memory_utilization;
    if (!(share >= 0 && share <= 1))
        return qr_fail(err, QR_INVALID, "gpu_memory_utilization is %g: it must lie above 0 and at most at 1", share);
    setup->budget = (uint64_t)((share > 0 ? share : CUDA_SHARE) * (double)gpu->memory);
    uint64_t available = gpu->available > QR_GPU_SPARE ? gpu->available - QR_GPU_SPARE : 0;
    setup->budget = setup->budget < available ? setup->budget : available;
    l.n_block = 1;
    QR_TRY(qr_cuda_memory(setup->plan, &l, gpu->major, &m, err));
    uint64_t used = m.total; /* one block for what rounding takes */
    if (used >= setup->budget)
        return qr_gpu_too_small(setup, &m, weights, share > 0 ? share : CUDA_SHARE, err);
    *room = setup->budget - used;
    return QR_OK;
}

/* Bytes of a block on the GPU: its keys and values, and its two places in a step's list of copies. */
static uint64_t gpu_block_bytes(const struct qr_setup *setup)
{
    return setup->block_bytes + 2 * sizeof(int32_t);
}

static enum qr_status no_room_for(const struct qr_setup *setup, uint64_t blocks, uint64_t room, const char *lower,
                                  struct qr_err *err)
{
    return qr_fail(err, QR_LIMIT, "a KV cache of %llu tokens takes %.0f MiB but there are %.0f MiB: lower %s",
                   (unsigned long long)blocks * QR_PAGE, (double)blocks * (double)setup->block_bytes / MIB,
                   (double)room / MIB, lower);
}

/* The longest sequence, and blocks for all that is left, or as many as were asked for. */
static enum qr_status choose_gpu_cache(const struct qr_weights *weights, const struct qr_engine_options *o,
                                       uint64_t asked, struct qr_setup *setup, struct qr_err *err)
{
    struct qr_exec_limits *l = &setup->limits;
    bool given = o->max_model_len > 0;
    uint64_t room = 0;
    QR_TRY(find_gpu_room(weights, o, setup, &room, err));
    uint64_t most = room / gpu_block_bytes(setup), blocks = asked > 0 ? asked : most;
    if (blocks > most)
        return no_room_for(setup, blocks, room, "kv_cache_tokens", err);
    if (asked == 0 && blocks > CUDA_BLOCKS)
        blocks = CUDA_BLOCKS;
    blocks = blocks < MAX_BLOCKS ? blocks : MAX_BLOCKS;
    uint64_t needed = (uint64_t)qr_blocks_for(l->max_len);
    if (needed > blocks && given)
        return no_room_for(setup, needed, blocks * setup->block_bytes,
                           asked > 0 ? "max_model_len, or raise kv_cache_tokens" : "max_model_len", err);
    if (blocks == 0)
        return no_room_for(setup, 1, room, "max_num_batched_tokens or raise gpu_memory_utilization", err);
    l->max_len = needed > blocks ? (int)blocks * QR_PAGE : l->max_len;
    l->n_block = (int)blocks;
    return QR_OK;
}

/* The longest sequence and the number of blocks. Left to itself quire gives the KV cache on a CPU room for one sequence, at
 * most half of the memory that is available once the weights are loaded. */
static enum qr_status choose_cache(const struct qr_model *model, const struct qr_engine_options *o,
                                   struct qr_setup *setup, struct qr_err *err)
{
    struct qr_exec_limits *l = &setup->limits;
    int trained = model->config.max_len;
    if (o->kv_cache_tokens < 0)
        return qr_fail(err, QR_INVALID, "kv_cache_tokens is %lld: it must not be negative",
                       (long long)o->kv_cache_tokens);
    QR_TRY(choose("max_model_len", o->max_model_len, trained, setup->cuda ? trained : 0, &l->max_len, err));
    uint64_t asked = ((uint64_t)o->kv_cache_tokens + QR_PAGE - 1) / QR_PAGE; /* 0: not said */
    if (setup->cuda)
        return choose_gpu_cache(model->weights, o, asked, setup, err);
    uint64_t available = qr_memory_available(), used = model->headers_only ? model->weights->bytes : 0;
    available = available > used ? available - used : 0;
    uint64_t room = available > 0 ? available / 2 : UINT64_MAX;
    uint64_t blocks = asked > 0 ? asked : room / setup->block_bytes;
    blocks = blocks < MAX_BLOCKS ? blocks : MAX_BLOCKS;
    if (l->max_len == 0) {
        if (blocks == 0)
            return qr_fail(err, QR_LIMIT, "a KV block of %d tokens takes %.2f MiB but there is room for %.2f MiB only",
                           QR_PAGE, (double)setup->block_bytes / MIB, (double)room / MIB);
        l->max_len = blocks < (uint64_t)qr_blocks_for(trained) ? (int)blocks * QR_PAGE : trained;
    }
    uint64_t needed = (uint64_t)qr_blocks_for(l->max_len);
    if (asked > 0 && needed > blocks)
        return qr_fail(err, QR_LIMIT, "a sequence may reach %d tokens but kv_cache_tokens is %lld: lower max_model_len",
                       l->max_len, (long long)o->kv_cache_tokens);
    l->n_block = (int)(asked > 0 ? blocks : needed);
    if (available > 0 && (uint64_t)l->n_block * setup->block_bytes > available)
        return no_room_for(setup, (uint64_t)l->n_block, available, asked > 0 ? "kv_cache_tokens" : "max_model_len",
                           err);
    return QR_OK;
}

/* The share of each matrix's storage that its view covers. */
static uint64_t bytes_read(const struct qr_plan *plan)
{
    uint64_t total = 0;
    for (int i = 0; i < plan->n_op; i++) {
        const struct qr_weight *w = plan->op[i].code == QR_OP_LINEAR ? plan->op[i].weight : NULL;
        for (int s = 0; w && s < w->storage->n_segment; s++) {
            const struct qr_segment *seg = &w->storage->segment[s];
            uint64_t lo = seg->row > w->row ? seg->row : w->row;
            uint64_t seg_end = (uint64_t)seg->row + seg->n_row, w_end = (uint64_t)w->row + w->n_row;
            uint64_t hi = seg_end < w_end ? seg_end : w_end;
            if (hi > lo)
                total += (uint64_t)((double)seg->bytes * (double)(hi - lo) / (double)seg->n_row);
        }
    }
    return total;
}

static enum qr_status make(const struct qr_model *model, const struct qr_engine_options *o, struct qr_setup *setup,
                           struct qr_err *err)
{
    uint32_t mask = (uint32_t)o->fuse_mask;
    if (!model->plan)
        return qr_fail(err, QR_INVALID, "the model was opened for its tokenizer only: open it with its weights");
    if (o->n_thread < 0 || o->n_thread > 256)
        return qr_fail(err, QR_INVALID, "n_thread is %d: it must lie within 1 and 256, or be 0 for all CPUs",
                       o->n_thread);
    setup->n_thread = o->n_thread > 0 ? o->n_thread : qr_cpu_count();
    QR_TRY(qr_isa_choose(o->isa, &setup->isa, err));
    if (o->fuse_mask > QR_FUSE_ALL)
        return qr_fail(err, QR_INVALID, "fuse_mask is %lld: it must lie within 0 and %d, or be -1 for the default",
                       (long long)o->fuse_mask, QR_FUSE_ALL);
    if (o->fuse_mask < 0)
        QR_TRY(qr_fuse_parse("default", &mask, err));
    QR_TRY(qr_fuse(model->plan, mask, &setup->plan, err));
    QR_TRY(qr_plan_check(setup->plan, err));
    QR_TRY(choose_device(o->device, setup->plan, setup, err));
    QR_TRY(choose_kv_type(o->kv_cache_dtype, setup->cuda, &setup->limits.kv_type, err));
    QR_TRY(choose_step(o, setup->cuda, &setup->limits, err));
    setup->run_ahead = setup->cuda ? CUDA_AHEAD : 0;
    setup->limits.n_place = setup->cuda ? (CUDA_AHEAD + 1) * setup->limits.max_row : 0;
    setup->block_bytes = setup->cuda ? qr_cuda_block_bytes(setup->plan, setup->limits.kv_type)
                                     : qr_cpu_block_bytes(setup->plan, setup->limits.kv_type);
    setup->weight_bytes = bytes_read(setup->plan);
    QR_TRY(choose_cache(model, o, setup, err));
    QR_TRY(qr_arch_set_rope(model->weights, setup->limits.max_len, setup->plan, err));
    if (setup->cuda)
        return qr_cuda_memory(setup->plan, &setup->limits, setup->gpu.major, &setup->cuda_memory, err);
    return qr_cpu_memory(setup->plan, &setup->limits, setup->n_thread, &setup->memory, err);
}

enum qr_status qr_setup_make(const struct qr_model *model, const struct qr_engine_options *options,
                             struct qr_setup *setup, struct qr_err *err)
{
    static const struct qr_engine_options defaults = {.fuse_mask = -1};
    *setup = (struct qr_setup){0};
    enum qr_status status = make(model, options ? options : &defaults, setup, err);
    if (status != QR_OK)
        qr_setup_free(setup);
    return status;
}

enum qr_status qr_setup_check(const struct qr_model *headers, const struct qr_engine_options *options,
                              struct qr_err *err)
{
    struct qr_setup setup;
    QR_TRY(qr_setup_make(headers, options, &setup, err));
    qr_setup_free(&setup);
    return QR_OK;
}

void qr_setup_free(struct qr_setup *setup)
{
    qr_plan_free(setup->plan);
    *setup = (struct qr_setup){0};
}
