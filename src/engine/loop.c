/* loop.c - the engine's thread: takes what is new, ends what was cancelled, plans, launches, lands, publishes. */
#include <time.h>
#include "base/clock.h"
#include "engine/core.h"

#define IDLE_NS 500000000 /* between two heartbeats when there is nothing to do */

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

/* Under the mutex, when there is nothing to do: the executor's own preparations, then sleep. */
static void be_idle(struct qr_engine *e)
{
    if (!e->prepared) {
        pthread_mutex_unlock(&e->mutex);
        e->prepared = !qr_exec_prepare(e->parts.exec);
        pthread_mutex_lock(&e->mutex);
    } else {
        wait_idle(e);
    }
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
        be_idle(e);
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
        int32_t *draft = seq->token + seq->n_token;
        if (seq->state != QR_SEQ_RUNNING || seq->n_flight > 0 || seq->n_token - seq->n_computed != 1 || most <= 0 ||
            seq->constraint || qr_sequence_n_output(seq) == 0)
            continue;
        int n = d->propose(d->ctx, seq->token, seq->n_token, most, draft);
        seq->n_draft = 0;
        while (seq->n_draft < n && draft[seq->n_draft] >= 0 && draft[seq->n_draft] < e->parts.n_vocab)
            seq->n_draft++;
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

void *qr_engine_main(void *arg)
{
    struct qr_engine *e = arg;
    while (take_input(e)) {
        for (struct qr_job *job; (job = next_cancelled(e));)
            cancel_job(e, job);
        double begin = qr_now_s();
        propose(e);
        enum qr_planned planned = qr_scheduler_plan(&e->scheduler, qr_step_next(e), e->n_flight > 0);
        e->plan_s += qr_now_s() - begin;
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
    qr_events_publish(e->events, &e->out); /* the queue frees them */
    return NULL;
}
