/* fuse.h - the fusion passes, one bit each. A pass is a pure function of the plan and rewrites adjacent ops
 * only where no other op reads what would vanish. */
#ifndef QR_PLAN_FUSE_H
#define QR_PLAN_FUSE_H
#include "plan/op.h"

enum qr_fuse_bit {
    QR_FUSE_MERGE = 1 << 0,       /* "merge"        LINEARs of the same input on adjacent row views -> one LINEAR */
    QR_FUSE_RMSNORM = 1 << 1,     /* "rmsnorm"      MEAN_SQUARE RSQRT SCALE_ROWS SCALE_COLS -> RMSNORM */
    QR_FUSE_ADD_RMSNORM = 1 << 2, /* "add-rmsnorm"  ADD RMSNORM -> ADD_RMSNORM (needs rmsnorm) */
    QR_FUSE_ROPE_STORE = 1 << 3,  /* "rope-store"   ROPE ROPE KV_STORE -> ROPE_STORE */
    QR_FUSE_QK_NORM = 1 << 4,     /* "qk-norm"      RMSNORM(q) RMSNORM(k) ROPE_STORE -> ROPE_STORE with norms
                                   *                (needs rmsnorm and rope-store) */
    QR_FUSE_SILU_MUL = 1 << 5,    /* "silu-mul"     SILU MUL -> SILU_MUL */
    QR_FUSE_ALL = (1 << 6) - 1,
    QR_N_FUSE = 6
};

const char *qr_fuse_name(int bit_index);
/* "none", "all", "default", a number (0x1f), or names joined by commas; "-name" takes away from all. */
enum qr_status qr_fuse_parse(const char *text, uint32_t *mask, struct qr_err *err);
/* A new plan with its own arena; plan is left alone. Weights and vectors that plan refers to must outlive both. */
enum qr_status qr_fuse(const struct qr_plan *plan, uint32_t mask, struct qr_plan **fused, struct qr_err *err);
#endif
