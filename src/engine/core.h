/* core.h - the engine's own struct, shared by engine.c (queue, thread) and step.c (what becomes of a step's logits),
 * and its constructor from parts, by which a test puts in an executor of its own. */
#ifndef QR_ENGINE_CORE_H
#define QR_ENGINE_CORE_H
#include <pthread.h>
#include "base/pool.h"
#include "engine/scheduler.h"
#include "engine/stats.h"

#define QR_MAX_QUEUE 1024 /* requests that wait for their first step; more: QR_BUSY */

/* Everything here is owned by the engine from a successful qr_engine_start on, but for tok and eos, which must outlive
 * it. plan is what exec walks and may be NULL. */
struct qr_engine_parts {
    struct qr_exec *exec;
    struct qr_exec_limits limits;
    struct qr_pool *pool; /* helps with sampling between steps; NULL: no help */
    struct qr_plan *plan;
    int n_vocab;
    const int32_t *eos;
    int n_eos;
    const struct qr_tokenizer *tok; /* NULL: events carry no text */
    const char *device;             /* "avx512", for reports; a constant string */
    uint64_t weight_bytes, kv_token_bytes;
};

/* One row of a result and what was made of it. */
struct qr_row_work {
    struct qr_sequence *seq;
    const float *logits; /* [n_vocab] */
    int position;        /* of the row's token; it predicts position + 1 */
    bool samples;        /* picks the next token; else the log-probability of the prompt's next token is wanted */
    int32_t id;
    enum qr_status status;
    struct qr_err error;
    struct qr_token_logprob logprob; /* top points to the array below */
    struct qr_top top[QR_MAX_TOP];
};

struct qr_engine {
    struct qr_engine_parts parts;
    struct qr_request_limits limits;
    struct qr_events *events;

    /* The engine thread's own. */
    struct qr_scheduler scheduler;
    struct qr_batch batch;
    struct qr_sampler **sampler; /* [n_sampler] one per worker */
    int n_sampler;
    struct qr_row_work *work;  /* [max_row] */
    struct qr_event_chain out; /* events of this step */
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

/* step.c. The engine thread calls them. */
void qr_step_run(struct qr_engine *engine); /* runs engine->batch and deals with what came out */
/* Ends a sequence with its last event; with the last choice the job is freed. error: for QR_FINISH_ERROR, else NULL. */
void qr_sequence_finish(struct qr_engine *engine, struct qr_sequence *seq, enum qr_finish finish,
                        const struct qr_err *error);
/* engine.c: the job's last choice has ended. */
void qr_engine_forget(struct qr_engine *engine, struct qr_job *job);
#endif
