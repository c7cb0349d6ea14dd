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
        for (int i = 0; i < e->first_new->n_choice; i++)
            qr_scheduler_add(&e->scheduler, &e->first_new->choice[i]);
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
        if (e->any_cancelled || e->scheduler.n_running + e->scheduler.n_waiting > 0)
            break;
        e->stats.n_running = e->stats.n_waiting = 0;
        e->stats.n_free_block = e->scheduler.blocks.n_free;
        wait_idle(e);
    }
    bool go_on = !e->stopping;
    pthread_mutex_unlock(&e->mutex);
    return go_on;
}

/* The first job that was cancelled and still lives; NULL: none is left. */
static struct qr_job *next_cancelled(struct qr_engine *e)
{
    pthread_mutex_lock(&e->mutex);
    take_new(e); /* what ends must be known to the scheduler */
    struct qr_job *job = e->any_cancelled ? e->first : NULL;
    while (job && !atomic_load(&job->cancelled))
        job = job->next;
    if (!job)
        e->any_cancelled = false;
    pthread_mutex_unlock(&e->mutex);
    return job;
}

static void end_job(struct qr_engine *e, struct qr_job *job, enum qr_finish finish, const struct qr_err *error)
{
    int n = job->n_choice;
    int left = n - job->n_ended; /* the job is freed with its last choice */
    for (int i = 0; i < n && left > 0; i++)
        if (job->choice[i].state != QR_SEQ_ENDED) {
            left--;
            qr_sequence_finish(e, &job->choice[i], finish, error);
        }
}

static void *engine_main(void *arg)
{
    struct qr_engine *e = arg;
    while (take_input(e)) {
        for (struct qr_job *job; (job = next_cancelled(e));)
            end_job(e, job, QR_FINISH_CANCELLED, NULL);
        qr_scheduler_plan(&e->scheduler, &e->batch);
        if (e->batch.n_item > 0) {
            qr_step_run(e);
        } else if (e->scheduler.first) { /* cannot be: what was accepted fits alone */
            struct qr_err err;
            qr_fail(&err, QR_INTERNAL, "the scheduler found no room for a request of %d tokens among %d blocks",
                    e->scheduler.first->n_token, e->scheduler.blocks.n_block);
            qr_sequence_finish(e, e->scheduler.first, QR_FINISH_ERROR, &err);
        }
        qr_events_publish(e->events, &e->out);
    }
    return NULL;
}

void qr_engine_forget(struct qr_engine *e, struct qr_job *job)
{
    pthread_mutex_lock(&e->mutex);
    *(job->prev ? &job->prev->next : &e->first) = job->next;
    *(job->next ? &job->next->prev : &e->last) = job->prev;
    pthread_mutex_unlock(&e->mutex);
    if (job->counted)
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
    qr_batch_free(&e->batch);
    for (int i = 0; e->sampler && i < e->n_sampler; i++)
        qr_sampler_destroy(e->sampler[i]);
    free(e->sampler);
    free(e->work);
    pthread_mutex_destroy(&e->mutex);
    pthread_cond_destroy(&e->wake);
    free(e);
}

static enum qr_status allocate(struct qr_engine *e, struct qr_err *err)
{
    const struct qr_exec_limits *l = &e->parts.limits;
    QR_TRY(qr_events_create(&e->events, err));
    QR_TRY(qr_scheduler_init(&e->scheduler, l->n_block, l->max_token, l->max_seq, l->max_row, err));
    QR_TRY(qr_batch_init(&e->batch, l->max_token, l->max_seq, l->max_row, qr_blocks_for(l->max_len), err));
    int n = e->parts.pool ? qr_pool_size(e->parts.pool) : 1;
    e->sampler = calloc((size_t)n, sizeof(struct qr_sampler *));
    e->work = calloc((size_t)l->max_row, sizeof(*e->work));
    if (!e->sampler || !e->work)
        return qr_fail(err, QR_NOMEM, "out of memory for %d rows of results", l->max_row);
    for (; e->n_sampler < n; e->n_sampler++)
        QR_TRY(qr_sampler_create(e->parts.n_vocab, &e->sampler[e->n_sampler], err));
    return QR_OK;
}

enum qr_status qr_engine_start(const struct qr_engine_parts *parts, struct qr_engine **engine, struct qr_err *err)
{
    struct qr_engine *e = calloc(1, sizeof(*e));
    pthread_condattr_t attr;
    *engine = NULL;
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

enum qr_status qr_engine_submit(struct qr_engine *engine, const struct qr_request *request, uint64_t *id,
                                struct qr_err *err)
{
    struct qr_job *job;
    *id = 0;
    if (atomic_load(&engine->n_queued) >= QR_MAX_QUEUE) /* before a long prompt is copied; made sure of below */
        return qr_fail(err, QR_BUSY, "%d requests wait already, the most that the queue holds: try again later",
                       QR_MAX_QUEUE);
    QR_TRY(qr_job_create(request, &engine->limits, engine->events, &job, err));
    pthread_mutex_lock(&engine->mutex);
    if (atomic_load(&engine->n_queued) >= QR_MAX_QUEUE) {
        pthread_mutex_unlock(&engine->mutex);
        qr_job_destroy(job, engine->events);
        return qr_fail(err, QR_BUSY, "%d requests wait already, the most that the queue holds: try again later",
                       QR_MAX_QUEUE);
    }
    atomic_fetch_add(&engine->n_queued, 1);
    job->counted = true;
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
