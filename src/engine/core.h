/* core.h - the engine's own struct, shared by engine.c (queue), loop.c (thread), step.c (steps launched and landed),
 * picks.c (rows to tokens) and follow.c (what becomes of the tokens), and its constructor from parts, by which a test
 * puts in an executor of its own. */
#ifndef QR_ENGINE_CORE_H
#define QR_ENGINE_CORE_H
#include <pthread.h>
#include "base/pool.h"
#include "engine/scheduler.h"
#include "engine/stats.h"

#define QR_MAX_QUEUE 2048 /* requests that wait for their first step; more: QR_BUSY */

/* Proposes tokens that may follow a text. What a sequence says does not depend on it: a proposed token is taken only
 * where the sampler picks the same. */
struct qr_drafter {
    void *ctx;
    int most; /* tokens that a step judges; 0: none are proposed */
    /* Up to most tokens behind token [n_token]; returns how many. The engine's thread calls it before a step. */
    int (*propose)(void *ctx, const int32_t *token, int n_token, int most, int32_t *draft);
};

/* Everything here is owned by the engine from a successful qr_engine_start on, but for tok and eos, which must outlive
 * it. plan is what exec walks and may be NULL. */
struct qr_engine_parts {
    struct qr_exec *exec;
    struct qr_exec_limits limits;
    int run_ahead; /* steps in flight while one is planned, up to QR_MAX_AHEAD; 0 for an executor that gives logits */
    bool no_prefix_cache;
    struct qr_drafter drafter;
    struct qr_pool *pool; /* helps with sampling between steps; NULL: no help */
    struct qr_plan *plan;
    int n_vocab;
    const int32_t *eos;
    int n_eos;
    const struct qr_tokenizer *tok; /* NULL: events carry no text */
    const char *device;             /* "avx512", for reports; a constant string */
    uint64_t weight_bytes, kv_token_bytes;
};

struct qr_engine {
    struct qr_engine_parts parts;
    struct qr_request_limits limits;
    struct qr_events *events;

    /* The engine thread's own. */
    struct qr_scheduler scheduler;
    struct qr_batch *ring;        /* [n_ring] steps in flight and the one being planned */
    int n_ring, oldest, n_flight; /* in flight: ring[oldest] and those behind it */
    struct qr_sampler **sampler;  /* [n_sampler] one per worker */
    int n_sampler;
    struct qr_pick *pick;        /* [max_row] of the step that is sampled */
    struct qr_picked *picked;    /* [max_row] of the step that lands */
    struct qr_event_chain out;   /* events of this step */
    struct qr_event_node *stock; /* blank nodes for them */
    uint64_t n_output, n_draft, n_taken;
    double submit_s;         /* wall seconds in submit since a step landed */
    double plan_s, follow_s; /* as in the stats */
    bool prepared;           /* the executor has nothing left to prepare */
    pthread_t thread;

    /* Shared. */
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t wake;
    struct qr_job *first, *last; /* live jobs in order of arrival */
    struct qr_job *first_new;    /* from here on the scheduler does not know them yet */
    uint64_t next_id, next_order;
    bool stopping, any_cancelled;
    struct qr_engine_stats stats;
    atomic_int n_queued;
    _Atomic int64_t heartbeat;
};

enum qr_status qr_engine_start(const struct qr_engine_parts *parts, struct qr_engine **engine, struct qr_err *err);

/* All below is for the engine thread. */

/* step.c */
struct qr_batch *qr_step_next(struct qr_engine *engine); /* the batch to plan into; fewer than n_ring are in flight */
void qr_step_launch(struct qr_engine *engine);           /* what was planned into it */
void qr_step_land(struct qr_engine *engine);             /* the oldest step in flight is collected and dealt with */

/* picks.c */
/* What each row of a submitted step is wanted for. Masks are made here: all that earlier steps picked must have
 * landed for a sequence with a constraint. */
void qr_picks_fill(struct qr_engine *engine, const struct qr_batch *batch);
/* For an executor that gives logits: engine->picked from engine->pick. */
void qr_picks_make(struct qr_engine *engine, const struct qr_result *result);

/* follow.c */
/* The tokens of a landed item: events, and the sequence's end where it is reached. */
void qr_follow(struct qr_engine *engine, const struct qr_batch_item *item);
/* Ends a sequence with its last event. error: for QR_FINISH_ERROR, else NULL. The job is freed with its last choice
 * once that is in no step in flight. */
void qr_sequence_finish(struct qr_engine *engine, struct qr_sequence *seq, enum qr_finish finish,
                        const struct qr_err *error);

/* loop.c: the thread itself; engine is a struct qr_engine. */
void *qr_engine_main(void *engine);
/* engine.c: a choice is gone, blocks and all; with the last one the job is freed. */
void qr_engine_gone(struct qr_engine *engine, struct qr_job *job);
#endif
