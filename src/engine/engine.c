/* engine.c - an engine made and ended, and what other threads ask of it. The thread that runs it is in loop.c. */
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "engine/core.h"

/* ---------------------------------------------------------------- start and end */

static void free_all(struct qr_engine *e)
{
    while (e->first) {
        struct qr_job *next = e->first->next;
        qr_job_destroy(e->first, e->events);
        e->first = next;
    }
    if (e->events)
        qr_events_give_stock(e->events, &e->stock);
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
    if (status == QR_OK && pthread_create(&e->thread, NULL, qr_engine_main, e) != 0)
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

/* ---------------------------------------------------------------- what the thread asks */

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

uint64_t qr_engine_progress(const struct qr_engine *engine)
{
    return __atomic_load_n(&engine->parts.exec->progress, __ATOMIC_RELAXED);
}
