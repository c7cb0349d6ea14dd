/* advice.h - a model that does not fit into a GPU: why, and which of the ways out would lead out. */
#ifndef QR_ENGINE_ADVICE_H
#define QR_ENGINE_ADVICE_H
#include "engine/setup.h"

/* Always QR_LIMIT. setup: its gpu, budget and limits; need: the account with one KV block; share: of the GPU that may be
 * taken. */
enum qr_status qr_gpu_too_small(const struct qr_setup *setup, const struct qr_cuda_memory *need,
                                const struct qr_weights *weights, double share, struct qr_err *err);
#endif
