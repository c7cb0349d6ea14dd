/* engine.c - one thread that takes requests, runs steps and publishes events. Nobody else touches a sequence. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/clock.h"
#include "engine/core.h"

#define IDLE_NS 500000000 /* between two heartbeats when there is nothing to do */

/* ---------------------------------------------------------------- the engine thread */

/* Under the mutex: new jobs go to the scheduler. */
static void take_new(struct qr_engine *e)
{
    for (; e->first_new; e->first_new = e->first_new->next)
        qr_scheduler_join(&e->scheduler, e->first_new);
}

static void wait_idle(struct qr_engine *e)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += IDLE_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&e->wake, &e->mutex, &until);
}

/* Waits until there is something to do. False: the engine is to stop. */
static bool take_input(struct qr_engine *e)
{
    pthread_mutex_lock(&e->mutex);
    for (;;) {
        atomic_store(&e->heartbeat, qr_now_ns());
        if (e->stopping)
            break;
        take_new(e);
        if (e->any_cancelled || e->scheduler.n_running + e->scheduler.queue.n_waiting > 0)
            break;
        e->stats.n_running = e->stats.n_waiting = 0;
        e->stats.n_free_block = e->scheduler.blocks.n_free;
        wait_idle(e);
    }
    bool go_on = !e->stopping;
    pthread_mutex_unlock(&e->mutex);
    return go_on;
}

/* The first job that was cancelled and does not know it yet; NULL: none is left. */
static struct qr_job *next_cancelled(struct qr_engine *e)
{
    pthread_mutex_lock(&e->mutex);
    take_new(e); /* what ends must be known to the scheduler */
    struct qr_job *job = e->any_cancelled ? e->first : NULL;
    while (job && (job->ending || !atomic_load(&job->cancelled)))
        job = job->next;
    if (!job)
        e->any_cancelled = false;
    pthread_mutex_unlock(&e->mutex);
    return job;
}

/* Choices that a step in flight works on end as it lands. */
static void cancel_job(struct qr_engine *e, struct qr_job *job)
{
    int n = job->n_choice, left = n - job->n_ended; /* the job is freed with its last choice */
    job->ending = true;
    for (int i = 0; i < n && left > 0; i++) {
        struct qr_sequence *seq = &job->choice[i];
        if (seq->state == QR_SEQ_ENDED)
            continue;
        left--;
        if (seq->n_flight > 0)
            seq->cancelled = true;
        else
            qr_sequence_finish(e, seq, QR_FINISH_CANCELLED, NULL);
    }
}

/* Sequences that decode are given tokens to judge. */
static void propose(struct qr_engine *e)
{
    const struct qr_drafter *d = &e->parts.drafter;
    for (int i = 0; d->most > 0 && i < e->scheduler.n_running; i++) {
        struct qr_sequence *seq = e->scheduler.running[i];
        int most = seq->max_output - qr_sequence_n_output(seq) - 1; /* the step gives one token more */
        most = most < d->most ? most : d->most;
        if (seq->state == QR_SEQ_RUNNING && seq->n_flight == 0 && seq->n_token - seq->n_computed == 1 && most > 0 &&
            !seq->constraint && qr_sequence_n_output(seq) > 0)
            seq->n_draft = d->propose(d->ctx, seq->token, seq->n_token, most, seq->token + seq->n_token);
    }
}

/* Cannot be: what was accepted fits alone. */
static void fail_stuck(struct qr_engine *e)
{
    struct qr_sequence *seq = qr_queue_first(&e->scheduler.queue);
    struct qr_err err;
    if (!seq)
        return;
    qr_fail(&err, QR_INTERNAL, "the scheduler found no room for a request of %d tokens among %d blocks", seq->n_token,
            e->scheduler.blocks.n_block);
    qr_sequence_finish(e, seq, QR_FINISH_ERROR, &err);
}

static void *engine_main(void *arg)
{
    struct qr_engine *e = arg;
    while (take_input(e)) {
        for (struct qr_job *job; (job = next_cancelled(e));)
            cancel_job(e, job);
        propose(e);
        enum qr_planned planned = qr_scheduler_plan(&e->scheduler, qr_step_next(e), e->n_flight > 0);
        if (planned == QR_PLAN_STEP)
            qr_step_launch(e);
        else if (planned == QR_PLAN_IDLE)
            fail_stuck(e);
        if (e->n_flight > (planned == QR_PLAN_STEP ? e->parts.run_ahead : 0))
            qr_step_land(e);
        qr_events_publish(e->events, &e->out);
    }
    while (e->n_flight > 0)
        qr_step_land(e);
    return NULL;
}

void qr_engine_gone(struct qr_engine *e, struct qr_job *job)
{
    if (++job->n_ended < job->n_choice)
        return;
    qr_scheduler_leave(&e->scheduler, job);
    pthread_mutex_lock(&e->mutex);
    *(job->prev ? &job->prev->next : &e->first) = job->next;
    *(job->next ? &job->next->prev : &e->last) = job->prev;
    pthread_mutex_unlock(&e->mutex);
    if (atomic_load(&job->counted))
        atomic_fetch_sub(&e->n_queued, 1);
    qr_job_destroy(job, e->events);
}

/* ---------------------------------------------------------------- start and end */

static void free_all(struct qr_engine *e)
{
    while (e->first) {
        struct qr_job *next = e->first->next;
        qr_job_destroy(e->first, e->events);
        e->first = next;
    }
    qr_events_destroy(e->events);
    qr_scheduler_free(&e->scheduler);
    for (int i = 0; e->ring && i < e->n_ring; i++)
        qr_batch_free(&e->ring[i]);
    free(e->ring);
    for (int i = 0; e->sampler && i < e->n_sampler; i++)
        qr_sampler_destroy(e->sampler[i]);
    free(e->sampler);
    free(e->pick);
    free(e->picked);
    pthread_mutex_destroy(&e->mutex);
    pthread_cond_destroy(&e->wake);
    free(e);
}

static enum qr_status allocate(struct qr_engine *e, struct qr_err *err)
{
    const struct qr_exec_limits *l = &e->parts.limits;
    QR_TRY(qr_events_create(&e->events, err));
    QR_TRY(qr_scheduler_init(&e->scheduler, l->n_block, l->max_token, l->max_seq, l->max_row, err));
    e->scheduler.prefix_cache = !e->parts.no_prefix_cache;
    e->scheduler.drafts = e->parts.drafter.most > 0;
    int n = e->parts.pool ? qr_pool_size(e->parts.pool) : 1, n_ring = e->parts.run_ahead + 1;
    e->ring = calloc((size_t)n_ring, sizeof(*e->ring));
    e->sampler = calloc((size_t)n, sizeof(struct qr_sampler *));
    e->pick = calloc((size_t)l->max_row, sizeof(*e->pick));
    e->picked = calloc((size_t)l->max_row, sizeof(*e->picked));
    if (!e->ring || !e->sampler || !e->pick || !e->picked)
        return qr_fail(err, QR_NOMEM, "out of memory for %d rows of results", l->max_row);
    for (; e->n_ring < n_ring; e->n_ring++)
        QR_TRY(
            qr_batch_init(&e->ring[e->n_ring], l->max_token, l->max_seq, l->max_row, qr_blocks_for(l->max_len), err));
    for (; e->n_sampler < n; e->n_sampler++)
        QR_TRY(qr_sampler_create(e->parts.n_vocab, &e->sampler[e->n_sampler], err));
    return QR_OK;
}

enum qr_status qr_engine_start(const struct qr_engine_parts *parts, struct qr_engine **engine, struct qr_err *err)
{
    pthread_condattr_t attr;
    *engine = NULL;
    if (parts->run_ahead < 0 || parts->run_ahead > (parts->exec->ops->sample ? QR_MAX_AHEAD : 0))
        return qr_fail(err, QR_INVALID, "run_ahead is %d: the executor %s allows %d at most", parts->run_ahead,
                       parts->exec->ops->name, parts->exec->ops->sample ? QR_MAX_AHEAD : 0);
    struct qr_engine *e = calloc(1, sizeof(*e));
    if (!e)
        return qr_fail(err, QR_NOMEM, "out of memory for an engine");
    e->parts = *parts;
    e->limits = (struct qr_request_limits){
        .n_vocab = parts->n_vocab,
        .max_len = parts->limits.max_len,
        .eos = parts->eos,
        .n_eos = parts->n_eos,
        .tok = parts->tok,
    };
    e->stats = (struct qr_engine_stats){
        .weight_bytes = parts->weight_bytes,
        .kv_token_bytes = parts->kv_token_bytes,
        .n_block = parts->limits.n_block,
        .n_free_block = parts->limits.n_block,
    };
    e->next_id = 1;
    pthread_mutex_init(&e->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&e->wake, &attr);
    pthread_condattr_destroy(&attr);
    atomic_store(&e->heartbeat, qr_now_ns());
    enum qr_status status = allocate(e, err);
    if (status == QR_OK && pthread_create(&e->thread, NULL, engine_main, e) != 0)
        status = qr_fail(err, QR_LIMIT, "the system refused the engine's thread");
    if (status != QR_OK) {
        free_all(e);
        return status;
    }
    *engine = e;
    return QR_OK;
}

void qr_engine_destroy(struct qr_engine *engine)
{
    if (!engine)
        return;
    pthread_mutex_lock(&engine->mutex);
    engine->stopping = true;
    pthread_cond_signal(&engine->wake);
    pthread_mutex_unlock(&engine->mutex);
    pthread_join(engine->thread, NULL);
    struct qr_engine_parts parts = engine->parts;
    free_all(engine);
    qr_exec_destroy(parts.exec);
    qr_pool_destroy(parts.pool);
    qr_plan_free(parts.plan);
}

/* ---------------------------------------------------------------- what other threads call */

/* Under the mutex. The queue is full, or this key has as many in it as are left for all others: one key alone fills
 * half of it (dynamic thresholds: Choudhury and Hahne, 1998). */
static bool is_busy(struct qr_engine *engine, uint64_t key)
{
    int left = QR_MAX_QUEUE - atomic_load(&engine->n_queued), same = 0;
    if (left > QR_MAX_QUEUE / 2)
        return false;
    for (const struct qr_job *job = engine->first; job && same < left; job = job->next)
        same += job->key == key && atomic_load(&job->counted);
    return same >= left;
}

static enum qr_status busy(struct qr_engine *engine, struct qr_err *err)
{
    return qr_fail(err, QR_BUSY, "%d requests wait already (the queue holds %d, one key half of it): try again later",
                   atomic_load(&engine->n_queued), QR_MAX_QUEUE);
}

enum qr_status qr_engine_submit(struct qr_engine *engine, const struct qr_request *request, uint64_t *id,
                                struct qr_err *err)
{
    struct qr_job *job;
    *id = 0;
    if (atomic_load(&engine->n_queued) >= QR_MAX_QUEUE) /* before a long prompt is copied; made sure of below */
        return busy(engine, err);
    QR_TRY(qr_job_create(request, &engine->limits, engine->events, &job, err));
    pthread_mutex_lock(&engine->mutex);
    if (is_busy(engine, job->key)) {
        pthread_mutex_unlock(&engine->mutex);
        qr_job_destroy(job, engine->events);
        return busy(engine, err);
    }
    atomic_fetch_add(&engine->n_queued, 1);
    atomic_store(&job->counted, true);
    job->id = *id = engine->next_id++;
    for (int i = 0; i < job->n_choice; i++)
        job->choice[i].order = engine->next_order++;
    job->prev = engine->last;
    *(engine->last ? &engine->last->next : &engine->first) = job;
    engine->last = job;
    if (!engine->first_new)
        engine->first_new = job;
    pthread_cond_signal(&engine->wake);
    pthread_mutex_unlock(&engine->mutex);
    return QR_OK;
}

void qr_engine_cancel(struct qr_engine *engine, uint64_t id)
{
    pthread_mutex_lock(&engine->mutex);
    struct qr_job *job = engine->first;
    while (job && job->id != id)
        job = job->next;
    if (job) {
        atomic_store(&job->cancelled, true);
        engine->any_cancelled = true;
        pthread_cond_signal(&engine->wake);
    }
    pthread_mutex_unlock(&engine->mutex);
}

enum qr_status qr_engine_next(struct qr_engine *engine, struct qr_event *event, int timeout_ms, bool *got,
                              struct qr_err *err)
{
    return qr_events_next(engine->events, event, timeout_ms, got, err);
}

int qr_engine_max_len(const struct qr_engine *engine)
{
    return engine->limits.max_len;
}

void qr_engine_stats(struct qr_engine *engine, struct qr_engine_stats *stats)
{
    pthread_mutex_lock(&engine->mutex);
    *stats = engine->stats;
    pthread_mutex_unlock(&engine->mutex);
}

int64_t qr_engine_heartbeat_ns(const struct qr_engine *engine)
{
    return atomic_load(&engine->heartbeat);
}
