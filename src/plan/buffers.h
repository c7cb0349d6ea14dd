/* buffers.h - which root values share which memory: two roots may share when their lifetimes (first write to last read, over
 * all their views) do not overlap. */
#ifndef QR_PLAN_BUFFERS_H
#define QR_PLAN_BUFFERS_H
#include "plan/op.h"

struct qr_buffers {
    int n_value;
    uint64_t *offset; /* [n_value] bytes from the start of the one allocation; views hold their first element's */
    uint64_t bytes;   /* of the whole allocation, offsets are multiples of 64 */
    uint64_t unshared_bytes; /* what it would be without sharing */
};

/* max_t, max_r: the most rows a step may have; elem_bytes: of an activation (4 for fp32). */
enum qr_status qr_buffers_assign(const struct qr_plan *plan, uint32_t max_t, uint32_t max_r, uint32_t elem_bytes,
                                 struct qr_buffers *buffers, struct qr_err *err);
void qr_buffers_free(struct qr_buffers *buffers);
#endif
