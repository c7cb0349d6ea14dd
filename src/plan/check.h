/* check.h - proves that a plan is well formed: shapes of every op, every value written before it is read,
 * views inside their parents, weights that fit, each layer's K and V stored before attention reads them. */
#ifndef QR_PLAN_CHECK_H
#define QR_PLAN_CHECK_H
#include "plan/op.h"
enum qr_status qr_plan_check(const struct qr_plan *plan, struct qr_err *err);
#endif
