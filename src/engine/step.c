/* step.c - a step through the executor, its logits through the sampler, and what follows from that: events, ends. */
#include <math.h>
#include <string.h>
#include "base/clock.h"
#include "engine/core.h"

static void fill_usage(const struct qr_sequence *seq, struct qr_usage *usage)
{
    double now = qr_now_s(), submitted = seq->job->submitted_s;
    double started = seq->started_s > 0 ? seq->started_s : now, first = seq->first_s > 0 ? seq->first_s : now;
    *usage = (struct qr_usage){
        .prompt_tokens = seq->n_prompt,
        .output_tokens = qr_sequence_n_output(seq),
        .queue_s = started - submitted,
        .prefill_s = first - started,
        .decode_s = now - first,
    };
}

/* What the stream still holds goes out as text without a token. */
static void send_held_text(struct qr_engine *engine, struct qr_sequence *seq)
{
    struct qr_event_node *node = seq->stream ? qr_events_take(engine->events) : NULL;
    if (!node)
        return;
    if (qr_stream_flush(seq->stream, &node->text, NULL) != QR_OK || node->text.len == 0) {
        qr_events_give_back(engine->events, node);
        return;
    }
    node->event = (struct qr_event){
        .request = seq->job->id, .choice = seq->choice, .kind = QR_EVENT_TOKEN, .id = -1, .n_text = node->text.len};
    qr_event_chain_add(&engine->out, node);
}

void qr_sequence_finish(struct qr_engine *engine, struct qr_sequence *seq, enum qr_finish finish,
                        const struct qr_err *error)
{
    struct qr_job *job = seq->job;
    struct qr_event_node *node = seq->done;
    if (finish == QR_FINISH_CANCELLED || finish == QR_FINISH_ERROR)
        send_held_text(engine, seq);
    node->event =
        (struct qr_event){.request = job->id, .choice = seq->choice, .kind = QR_EVENT_DONE, .id = -1, .finish = finish};
    fill_usage(seq, &node->event.usage);
    if (error)
        node->event.error = *error;
    seq->done = NULL;
    qr_event_chain_add(&engine->out, node);
    qr_scheduler_end(&engine->scheduler, seq);
    if (++job->n_ended == job->n_choice)
        qr_engine_forget(engine, job);
}

/* ---------------------------------------------------------------- rows to ids and log-probabilities */

static void work_row(struct qr_sampler *sampler, struct qr_row_work *work)
{
    struct qr_sequence *seq = work->seq;
    struct qr_job *job = seq->job;
    int n_top = work->samples ? job->params.logprobs : job->params.prompt_logprobs;
    if (work->samples) {
        struct qr_pick pick = {
            .params = &job->params,
            .seed = job->seed,
            .choice = (uint32_t)seq->choice,
            .position = (uint32_t)seq->n_token,
            .count = job->penalised ? seq->tally.entry : NULL,
            .n_count = seq->tally.n,
            .end_id = job->end_id,
            .n_end = job->n_end,
            .n_output = qr_sequence_n_output(seq),
        };
        work->status = qr_sampler_pick(sampler, work->logits, &pick, &work->id, &work->error);
    } else {
        work->status = QR_OK;
        work->id = seq->token[work->position + 1];
    }
    work->logprob.top = work->top;
    if (work->status == QR_OK && n_top >= 0)
        work->status = qr_sampler_logprob(sampler, work->logits, work->id, n_top, &work->logprob, &work->error);
}

struct row_crew {
    struct qr_engine *engine;
    int n_row;
};

static void work_rows(void *ctx, int worker, int n_worker)
{
    struct row_crew *crew = ctx;
    for (int i = worker; i < crew->n_row; i += n_worker)
        work_row(crew->engine->sampler[worker], &crew->engine->work[i]);
}

static void work_all(struct qr_engine *engine, const struct qr_result *result)
{
    struct row_crew crew = {.engine = engine};
    for (int i = 0; i < engine->batch.n_item; i++) {
        const struct qr_batch_item *item = &engine->batch.item[i];
        for (int r = 0; r < item->n_row; r++) {
            struct qr_row_work *work = &engine->work[crew.n_row++];
            work->seq = item->seq;
            work->logits = result->logits + (size_t)(item->row + r) * (size_t)engine->parts.n_vocab;
            work->position = item->row_position + r;
            work->samples = work->position == item->seq->n_token - 1;
        }
    }
    if (crew.n_row > 1 && engine->n_sampler > 1)
        qr_pool_run(engine->parts.pool, work_rows, &crew);
    else
        work_rows(&crew, 0, 1);
}

/* ---------------------------------------------------------------- what follows for each sequence */

static enum qr_status no_event(struct qr_err *err)
{
    return qr_fail(err, QR_NOMEM, "out of memory for an event of this request");
}

/* The prompt's log-probabilities that this step gave, in one event. */
static enum qr_status send_prompt_logprobs(struct qr_engine *engine, struct qr_sequence *seq,
                                           const struct qr_row_work *work, int n_row, struct qr_err *err)
{
    bool first = seq->next_logprob == 0; /* nothing predicts the prompt's first token */
    int n = n_row + first, n_top = seq->job->params.prompt_logprobs;
    for (int i = 0; i < n_row; i++)
        if (work[i].status != QR_OK) {
            *err = work[i].error;
            return work[i].status;
        }
    struct qr_event_node *node = qr_events_take(engine->events);
    if (node)
        node->slice = qr_logprobs_alloc((size_t)n, n_top);
    if (!node || !node->slice) {
        qr_events_give_back(engine->events, node);
        return no_event(err);
    }
    if (first)
        node->slice[0] = (struct qr_token_logprob){.id = seq->token[0], .logprob = NAN, .top = node->slice[0].top};
    for (int i = 0; i < n_row; i++) {
        struct qr_token_logprob *out = &node->slice[i + first];
        struct qr_top *top = out->top;
        *out = work[i].logprob;
        out->top = top;
        memcpy(top, work[i].top, (size_t)out->n_top * sizeof(*top));
    }
    node->event = (struct qr_event){.request = seq->job->id,
                                    .choice = seq->choice,
                                    .kind = QR_EVENT_PROMPT_LOGPROBS,
                                    .id = -1,
                                    .n_logprobs = (size_t)n};
    seq->next_logprob += n;
    qr_event_chain_add(&engine->out, node);
    return QR_OK;
}

/* A sampled token: its event, and whether it ends the choice. An id that ends the text has no text of its own. */
static enum qr_status accept(struct qr_engine *engine, struct qr_sequence *seq, const struct qr_row_work *work,
                             enum qr_finish *finish, struct qr_err *err)
{
    struct qr_event_node *node = qr_events_take(engine->events);
    bool ends = qr_job_ends_with(seq->job, work->id), stopped = false;
    enum qr_status status = QR_OK;
    if (!node)
        return no_event(err);
    qr_sequence_append(seq, work->id);
    if (seq->first_s == 0)
        seq->first_s = qr_now_s();
    if (seq->stream && qr_sequence_n_output(seq) >= seq->job->params.min_tokens)
        qr_stream_search(seq->stream, true);
    if (seq->stream && !ends)
        status = qr_stream_push(seq->stream, work->id, &node->text, &stopped, err);
    if (ends || stopped)
        *finish = QR_FINISH_STOP;
    else if (qr_sequence_n_output(seq) >= seq->max_output)
        *finish = QR_FINISH_LENGTH;
    if (status == QR_OK && seq->stream && *finish != QR_FINISH_NONE && !stopped)
        status = qr_stream_flush(seq->stream, &node->text, err);
    if (status == QR_OK && node->text.failed)
        status = no_event(err);
    if (status != QR_OK) {
        qr_events_give_back(engine->events, node);
        return status;
    }
    node->event = (struct qr_event){.request = seq->job->id,
                                    .choice = seq->choice,
                                    .kind = QR_EVENT_TOKEN,
                                    .id = work->id,
                                    .n_text = node->text.len,
                                    .n_logprobs = seq->job->params.logprobs >= 0};
    if (node->event.n_logprobs) {
        node->logprob = work->logprob;
        memcpy(node->top, work->top, (size_t)work->logprob.n_top * sizeof(*work->top));
    }
    qr_event_chain_add(&engine->out, node);
    return QR_OK;
}

static void follow_up(struct qr_engine *engine, const struct qr_batch_item *item, const struct qr_row_work *work)
{
    struct qr_sequence *seq = item->seq;
    struct qr_err err;
    enum qr_status status = QR_OK;
    enum qr_finish finish = QR_FINISH_NONE;
    bool samples = item->n_row > 0 && work[item->n_row - 1].samples;
    int n_prompt_row = item->n_row - samples;
    if (seq->next_logprob < seq->n_prompt && (n_prompt_row > 0 || seq->next_logprob == 0))
        status = send_prompt_logprobs(engine, seq, work, n_prompt_row, &err);
    if (status == QR_OK && samples) {
        const struct qr_row_work *last = &work[item->n_row - 1];
        status = last->status;
        if (status == QR_OK)
            status = accept(engine, seq, last, &finish, &err);
        else
            err = last->error;
    }
    if (status != QR_OK)
        qr_sequence_finish(engine, seq, QR_FINISH_ERROR, &err);
    else if (finish != QR_FINISH_NONE)
        qr_sequence_finish(engine, seq, finish, NULL);
    else if (seq->n_computed == seq->n_token) /* nothing was to be generated */
        qr_sequence_finish(engine, seq, QR_FINISH_LENGTH, NULL);
}

static void mark_started(struct qr_engine *engine)
{
    double now = qr_now_s();
    for (int i = 0; i < engine->batch.n_item; i++) {
        struct qr_sequence *seq = engine->batch.item[i].seq;
        if (seq->started_s == 0)
            seq->started_s = now;
        if (seq->job->counted) {
            seq->job->counted = false;
            atomic_fetch_sub(&engine->n_queued, 1);
        }
    }
}

static void count_step(struct qr_engine *engine, double begin, double ran, const struct qr_result *result)
{
    const struct qr_scheduler *s = &engine->scheduler;
    pthread_mutex_lock(&engine->mutex);
    struct qr_engine_stats *stats = &engine->stats;
    stats->n_step++;
    stats->n_preempted = s->n_preempted;
    stats->step_s += ran - begin;
    stats->sample_s += qr_now_s() - ran;
    stats->n_token += (uint64_t)engine->batch.step.n_token;
    for (int i = 0; i < result->n_row; i++)
        stats->n_output += engine->work[i].samples;
    stats->n_free_block = s->blocks.n_free;
    stats->n_running = s->n_running;
    stats->n_waiting = s->n_waiting;
    stats->peak_running = s->n_running > stats->peak_running ? s->n_running : stats->peak_running;
    pthread_mutex_unlock(&engine->mutex);
}

void qr_step_run(struct qr_engine *engine)
{
    struct qr_batch *batch = &engine->batch;
    struct qr_result result = {0};
    struct qr_err err = {0};
    double begin = qr_now_s();
    mark_started(engine);
    enum qr_status status = qr_exec_submit(engine->parts.exec, &batch->step, &err);
    if (status == QR_OK)
        status = qr_exec_collect(engine->parts.exec, &result, NULL, &err);
    double ran = qr_now_s();
    if (status != QR_OK) { /* the step's sequences fail, the engine goes on */
        for (int i = 0; i < batch->n_item; i++)
            qr_sequence_finish(engine, batch->item[i].seq, QR_FINISH_ERROR, &err);
        return;
    }
    qr_scheduler_commit(batch);
    work_all(engine, &result);
    count_step(engine, begin, ran, &result);
    for (int i = 0; i < batch->n_item; i++)
        follow_up(engine, &batch->item[i], &engine->work[batch->item[i].row]);
}
