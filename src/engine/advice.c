/* advice.c - see advice.h. */
#include "engine/advice.h"
#include <stdio.h>

#define MIB (1024.0 * 1024.0)

/* Of weights that are bf16 on the GPU and could be FP8 there, 8.5 bits in place of 16 (docs/FIDELITY.md). */
static double fp8_saves(const struct qr_weights *weights)
{
    const uint64_t *bytes = weights->bytes_by_type;
    return ((double)bytes[QR_F32] / 2 + (double)bytes[QR_F16] + (double)bytes[QR_BF16]) * (1 - 8.5 / 16);
}

enum qr_status qr_gpu_too_small(const struct qr_setup *setup, const struct qr_cuda_memory *need,
                                const struct qr_weights *weights, double share, struct qr_err *err)
{
    const struct qr_cuda_device *gpu = &setup->gpu;
    const double budget = (double)setup->budget, used = (double)need->total, saved = fp8_saves(weights);
    const double steps = (double)(need->activations + need->workspace);
    char more[80] = "", other[120];
    if (used + (double)QR_GPU_SPARE < (double)gpu->available)
        snprintf(more, sizeof more, "raise gpu_memory_utilization from %.2f, ", share);
    if (used - steps < budget)
        snprintf(other, sizeof other, "lower max_num_batched_tokens from %d", setup->limits.max_token);
    else if (used - saved < budget)
        snprintf(other, sizeof other, "use quantization fp8, which saves %.0f MiB of weights", saved / MIB);
    else
        snprintf(other, sizeof other, "take a file whose weights have fewer bits");
    return qr_fail(
        err, QR_LIMIT,
        "the model does not fit into %s, of whose %.0f MiB %.0f are available and %.0f may be used: it "
        "takes %.0f before any KV cache (weights %.0f, activations and workspace %.0f); %s%s, or use device cpu",
        gpu->name, (double)gpu->memory / MIB, (double)gpu->available / MIB, budget / MIB, used / MIB,
        (double)need->weights / MIB, steps / MIB, more, other);
}
