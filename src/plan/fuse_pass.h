/* fuse_pass.h - what a fusion pass is, between fuse.c and fuse_pass.c. */
#ifndef QR_PLAN_FUSE_PASS_H
#define QR_PLAN_FUSE_PASS_H
#include "plan/fuse.h"

/* Looks at the ops from i on. Returns how many of them *fused replaces: 0 when the pattern is not there or something
 * that would vanish is read elsewhere, -1 when out of memory. Ops before i are not looked at. */
typedef int (*qr_fuse_match)(struct qr_plan *plan, int i, struct qr_op *fused);

struct qr_fuse_pass {
    const char *name;
    qr_fuse_match match;
};
extern const struct qr_fuse_pass qr_fuse_passes[QR_N_FUSE]; /* in the order in which they run */
#endif
