/* scheduler.h - which sequences run, and what each brings to the next step.
 *
 * Continuous batching (Yu et al., Orca, OSDI 2022) with chunked prefill (Agrawal et al., Sarathi, 2023): decodes first,
 * then prompts in chunks up to the step's tokens, then new sequences as long as there are blocks for their whole
 * prompt. A sequence's blocks grow as it decodes; when none is left, the one that comes last in the order of (priority,
 * arrival) gives its blocks back and is computed again later. Nothing here allocates after init. */
#ifndef QR_ENGINE_SCHEDULER_H
#define QR_ENGINE_SCHEDULER_H
#include "engine/batch.h"
#include "engine/blocks.h"

struct qr_scheduler {
    struct qr_blocks blocks;
    int max_token, max_seq, max_row; /* of a step */
    struct qr_sequence **running;    /* [max_seq] by (priority, order) */
    int *share;                      /* [max_seq] tokens that each brings to the step being planned */
    int n_running;
    struct qr_sequence *first, *last; /* waiting, by (priority, order) */
    int n_waiting;
    uint64_t n_preempted;
};

enum qr_status qr_scheduler_init(struct qr_scheduler *s, int n_block, int max_token, int max_seq, int max_row,
                                 struct qr_err *err);
void qr_scheduler_free(struct qr_scheduler *s); /* sequences are the caller's; a zeroed struct is fine */

void qr_scheduler_add(struct qr_scheduler *s, struct qr_sequence *seq); /* new or preempted: waits from now on */
/* Takes a sequence out, wherever it is, and frees its blocks. */
void qr_scheduler_end(struct qr_scheduler *s, struct qr_sequence *seq);
/* Fills batch with the next step. An empty one means that no sequence is known here. */
void qr_scheduler_plan(struct qr_scheduler *s, struct qr_batch *batch);
/* The step ran: what it brought counts as computed. */
void qr_scheduler_commit(struct qr_batch *batch);
#endif
