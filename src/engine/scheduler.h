/* scheduler.h - which sequences run, what each brings to the next step, and whose blocks are shared.
 *
 * Continuous batching (Yu et al., Orca, OSDI 2022) with chunked prefill (Agrawal et al., Sarathi, 2023): decodes first,
 * then prompts in chunks up to the step's tokens, then waiting sequences (queue.h says which) as long as there are
 * blocks for all their tokens. A sequence's blocks grow as it decodes; when none is left, the one that comes last in
 * the order of (priority, arrival) gives its blocks back and is computed again later.
 *
 * A sequence starts with the blocks of its beginning that the prefix cache knows, and a further choice of a request with
 * those of the first one's prompt. It writes behind them at once, so that a shared block that is not full is copied when
 * it starts: copy on write.
 *
 * Steps may be planned while others are in flight: what those pick is brought by place, not by id. A block is given
 * back only after the last step that may write it has landed; one is indexed for the prefix cache only when it is
 * full, its ids are known, and none of them was thrown away; nobody is preempted while a step is in flight. Nothing here allocates after
 * init. */
#ifndef QR_ENGINE_SCHEDULER_H
#define QR_ENGINE_SCHEDULER_H
#include "engine/batch.h"
#include "engine/blocks.h"
#include "engine/queue.h"

struct qr_scheduler {
    struct qr_blocks blocks;
    struct qr_queue queue;
    int max_token, max_seq, max_row; /* of a step */
    bool prefix_cache;
    bool drafts;                  /* ids are proposed to sequences, which must know their last ones for that */
    struct qr_sequence **running; /* [max_seq] by (priority, order) */
    int *share;                   /* [max_seq] tokens that each brings to the step being planned */
    int n_running;
    const struct qr_sequence
        *blocked; /* found too few blocks when there were blocked_spare more than run; NULL: none */
    int blocked_spare;
    uint64_t n_preempted;
    uint64_t n_asked, n_hit; /* prompt tokens of sequences that started; of these, found in the cache */
};

enum qr_status qr_scheduler_init(struct qr_scheduler *s, int n_block, int max_token, int max_seq, int max_row,
                                 struct qr_err *err);
void qr_scheduler_free(struct qr_scheduler *s); /* jobs are the caller's; a zeroed struct is fine */

/* A new job: its first choice waits from now on, the others once that one's prompt is computed. */
void qr_scheduler_join(struct qr_scheduler *s, struct qr_job *job);
/* Every choice has ended: the scheduler forgets the job. */
void qr_scheduler_leave(struct qr_scheduler *s, struct qr_job *job);

enum qr_planned {
    QR_PLAN_IDLE, /* nothing to do */
    QR_PLAN_WAIT, /* nothing before a step in flight has landed */
    QR_PLAN_STEP  /* batch is the next step */
};
enum qr_planned qr_scheduler_plan(struct qr_scheduler *s, struct qr_batch *batch, bool in_flight);
/* The step was submitted: what it brings counts as computed, what it picks as ahead. */
void qr_scheduler_commit(struct qr_scheduler *s, struct qr_batch *batch);
/* The item's step has landed and its ids were dealt with: full blocks are indexed, and drafts that were not taken are
 * forgotten. */
void qr_scheduler_land(struct qr_scheduler *s, const struct qr_batch_item *item);
/* The sequence's last event is out: it brings nothing any more. Its blocks go now, or as its last step lands. */
void qr_scheduler_end(struct qr_scheduler *s, struct qr_sequence *seq);
#endif
