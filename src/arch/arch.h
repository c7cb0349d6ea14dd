/* arch.h - records a family's forward pass. One file a family, each read like the model's paper. */
#ifndef QR_ARCH_ARCH_H
#define QR_ARCH_ARCH_H
#include "model/weights.h"
#include "plan/op.h"

/* The canonical unfused plan: decomposed norms, q, k, v and gate, up apart, ROPE and KV_STORE apart, SILU and MUL apart.
 * weights (may be headers only) must outlive the plan. */
enum qr_status qr_arch_record(const struct qr_weights *weights, struct qr_plan **plan, struct qr_err *err);
/* The rope tables of a plan once more, for sequences of up to `context` tokens: longrope has two sets of factors, and which one
 * counts hangs on that. Recording takes the model's max_len. */
enum qr_status qr_arch_set_rope(const struct qr_weights *weights, int32_t context, struct qr_plan *plan,
                                struct qr_err *err);
#endif
