/* sampling.c - the choice of tokens launched behind a step's forward, by the kernel of sample.h. */
#include "cuda/exec.h"

#define PICK_ROOM (UINT64_C(1) << 20) /* bytes for what is wanted of a step's rows; more of them go in several parts */
#define MAX_ENDS  4096
#define FEW_BYTES 1024 /* of wishes that the kernel reads from the host: less than a copy in front of it takes */

static uint64_t round_up(uint64_t n)
{
    return (n + 255) / 256 * 256;
}

void qr_cuda_size_sampling(const struct qr_plan *plan, const struct qr_exec_limits *l, struct qr_cuda_sizes *sizes)
{
    int n_vocab = (int)plan->n_vocab, most = l->max_len < n_vocab ? l->max_len : n_vocab;
    uint64_t row = qr_sample_row_bound(n_vocab, most, n_vocab, MAX_ENDS);
    sizes->pick = round_up(row > PICK_ROOM ? row : PICK_ROOM);
    sizes->picked = round_up((uint64_t)l->max_row * sizeof(struct qr_sampled));
}

enum qr_status qr_cuda_sample(struct qr_cuda_exec *exec, struct qr_cuda_slot *slot, const struct qr_pick *pick,
                              struct qr_err *err)
{
    size_t n_vocab = exec->plan->n_vocab, used = 0;
    const float *logits = (const float *)(void *)(exec->activation + exec->sizes.buffers.offset[exec->plan->logits]);
    for (int r = 0, n; r < slot->n_row; r += n) {
        if (r > 0) /* the packed rows before have to be on the device */
            QR_CUDA(cudaStreamSynchronize(exec->on.stream), "sending what is wanted of a step", err);
        n = qr_sample_pack(pick + r, slot->n_row - r, (int)n_vocab, slot->place + r, slot->pick, exec->sizes.pick,
                           &used);
        if (n == 0)
            return qr_fail(err, QR_LIMIT, "row %d of a step has lists that the sampler on the GPU has no room for", r);
        const bool few = used <= FEW_BYTES;
        if (!few)
            QR_CUDA(cudaMemcpyAsync(exec->pick, slot->pick, used, cudaMemcpyHostToDevice, exec->on.stream),
                    "sending what is wanted of a step", err);
        struct qr_sample_args args = {.logits = logits + (size_t)r * n_vocab,
                                      .stride = n_vocab,
                                      .n_vocab = (int)n_vocab,
                                      .n_row = n,
                                      .pick =
                                          (const struct qr_sample_head *)(const void *)(few ? slot->pick : exec->pick),
                                      .place = exec->place,
                                      .out = slot->picked + r,
                                      .work = exec->sample_work};
        QR_CUDA((cudaError_t)qr_sample_launch(&args, exec->device.major, exec->on.stream), "picking tokens", err);
        exec->n_launch++;
    }
    return QR_OK;
}
