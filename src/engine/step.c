/* step.c - steps on their way: launched while others are in flight, landed in the same order. */
#include "base/clock.h"
#include "engine/core.h"

struct qr_batch *qr_step_next(struct qr_engine *engine)
{
    return &engine->ring[(engine->oldest + engine->n_flight) % engine->n_ring];
}

static void mark_started(struct qr_engine *engine, const struct qr_batch *batch)
{
    double now = qr_now_s();
    for (int i = 0; i < batch->n_item; i++) {
        struct qr_sequence *seq = batch->item[i].seq;
        if (seq->started_s == 0)
            seq->started_s = now;
        if (atomic_exchange(&seq->job->counted, false))
            atomic_fetch_sub(&engine->n_queued, 1);
    }
}

/* The executor refused a step: its sequences fail, the engine goes on. */
static void fail_all(struct qr_engine *engine, const struct qr_batch *batch, const struct qr_err *err)
{
    for (int i = 0; i < batch->n_item; i++)
        if (batch->item[i].seq->state == QR_SEQ_RUNNING)
            qr_sequence_finish(engine, batch->item[i].seq, QR_FINISH_ERROR, err);
}

static bool any_constraint(const struct qr_batch *batch)
{
    for (int i = 0; i < batch->n_item; i++)
        if (batch->item[i].seq->constraint)
            return true;
    return false;
}

static int step_class(int n_token)
{
    static const int bound[QR_N_STEP_BOUND] = QR_STEP_BOUNDS;
    int i = 0;
    while (i < QR_N_STEP_BOUND && n_token > bound[i])
        i++;
    return i;
}

static void count_step(struct qr_engine *engine, int n_token, int n_running, double ran, double sampled)
{
    const struct qr_scheduler *s = &engine->scheduler;
    pthread_mutex_lock(&engine->mutex);
    struct qr_engine_stats *stats = &engine->stats;
    stats->n_step++;
    stats->step_class[step_class(n_token)]++;
    stats->n_preempted = s->n_preempted;
    stats->n_asked = s->n_asked;
    stats->n_cached = s->n_hit;
    stats->plan_s = engine->plan_s;
    stats->follow_s = engine->follow_s;
    stats->step_s += ran;
    stats->sample_s += sampled;
    stats->n_token += (uint64_t)n_token;
    stats->n_output = engine->n_output;
    stats->n_draft = engine->n_draft;
    stats->n_taken = engine->n_taken;
    stats->n_free_block = s->blocks.n_free;
    stats->n_running = s->n_running;
    stats->n_waiting = s->queue.n_waiting;
    stats->peak_running = n_running > stats->peak_running ? n_running : stats->peak_running;
    pthread_mutex_unlock(&engine->mutex);
}

/* The oldest step leaves the ring; status says whether it worked. Nodes of its sequences may be freed here. */
static void land(struct qr_engine *engine, enum qr_status status, const struct qr_err *err)
{
    struct qr_batch *batch = &engine->ring[engine->oldest];
    engine->oldest = (engine->oldest + 1) % engine->n_ring;
    engine->n_flight--;
    if (status != QR_OK)
        fail_all(engine, batch, err);
    for (int i = 0; i < batch->n_item; i++) {
        const struct qr_batch_item *item = &batch->item[i];
        struct qr_sequence *seq = item->seq;
        if (status == QR_OK && seq->state == QR_SEQ_RUNNING)
            qr_follow(engine, item);
        bool leaves = seq->state == QR_SEQ_LEAVING;
        qr_scheduler_land(&engine->scheduler, item);
        if (leaves && seq->state == QR_SEQ_ENDED)
            qr_engine_gone(engine, seq->job);
        else if (seq->state == QR_SEQ_RUNNING && seq->cancelled && seq->n_flight == 0)
            qr_sequence_finish(engine, seq, QR_FINISH_CANCELLED, NULL);
    }
}

void qr_step_land(struct qr_engine *engine)
{
    struct qr_exec *exec = engine->parts.exec;
    const struct qr_batch *batch = &engine->ring[engine->oldest];
    struct qr_result result = {0};
    struct qr_err err = {0};
    double begin = qr_now_s();
    enum qr_status status = qr_exec_collect(exec, &result, engine->picked, &err);
    double ran = qr_now_s();
    if (status == QR_OK && !exec->ops->sample) {
        qr_picks_fill(engine, batch);
        qr_picks_make(engine, &result);
    }
    double sampled = qr_now_s(), spent = ran - begin + engine->submit_s;
    int n_token = batch->step.n_token, n_running = engine->scheduler.n_running;
    engine->submit_s = 0;
    land(engine, status, &err);
    qr_events_publish(engine->events, &engine->out);
    engine->follow_s += qr_now_s() - sampled;
    count_step(engine, n_token, n_running, spent, sampled - ran);
}

void qr_step_launch(struct qr_engine *engine)
{
    struct qr_exec *exec = engine->parts.exec;
    struct qr_batch *batch = qr_step_next(engine);
    struct qr_err err = {0};
    mark_started(engine, batch);
    batch->step.place = (int)(batch - engine->ring) * engine->parts.limits.max_row;
    double begin = qr_now_s();
    enum qr_status status = qr_exec_submit(exec, &batch->step, &err);
    engine->submit_s += qr_now_s() - begin;
    if (status != QR_OK) {
        fail_all(engine, batch, &err);
        return;
    }
    begin = qr_now_s();
    qr_scheduler_commit(&engine->scheduler, batch);
    engine->plan_s += qr_now_s() - begin;
    engine->n_flight++;
    if (!exec->ops->sample)
        return;
    if (any_constraint(batch)) /* masks are made of ids, which must be here; the forward runs meanwhile */
        while (engine->n_flight > 1)
            qr_step_land(engine);
    qr_picks_fill(engine, batch);
    status = exec->ops->sample(exec, engine->pick, &err);
    if (status == QR_OK)
        return;
    while (engine->n_flight > 1)
        qr_step_land(engine);
    land(engine, status, &err);
}
