/* tally.h - which tokens a sequence holds, for the penalties: a hash set of ids with counts. Memory is taken once;
 * counting and walking allocate nothing. */
#ifndef QR_ENGINE_TALLY_H
#define QR_ENGINE_TALLY_H
#include "base/err.h"
#include "plan/pick.h"

struct qr_tally {
    int n;
    struct qr_count *entry; /* [n], in order of first appearance */
    int32_t *slot;          /* [mask + 1] index into entry + 1; 0: empty */
    uint32_t mask;
};

/* max_distinct: the most different ids that will be counted. */
enum qr_status qr_tally_init(struct qr_tally *tally, int max_distinct, struct qr_err *err);
void qr_tally_free(struct qr_tally *tally); /* a zeroed struct is fine */
void qr_tally_count(struct qr_tally *tally, int32_t id, bool output);
#endif
