/* follow.c - what becomes of a landed step's tokens: events, stops, ends. */
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
        .cached_tokens = seq->n_cached,
        .output_tokens = qr_sequence_n_output(seq),
        .queue_s = started - submitted,
        .prefill_s = first - started,
        .decode_s = now - first,
    };
}

/* What the stream still holds goes out as text without a token. */
static void send_held_text(struct qr_engine *engine, struct qr_sequence *seq)
{
    struct qr_event_node *node = seq->stream ? qr_events_take_from(engine->events, &engine->stock) : NULL;
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
    seq->spoiled = finish == QR_FINISH_ERROR;
    qr_event_chain_add(&engine->out, node);
    qr_scheduler_end(&engine->scheduler, seq);
    if (seq->state == QR_SEQ_ENDED)
        qr_engine_gone(engine, job);
}

static enum qr_status no_event(struct qr_err *err)
{
    return qr_fail(err, QR_NOMEM, "out of memory for an event of this request");
}

/* The prompt's log-probabilities that this step gave, in one event. */
static enum qr_status send_prompt_logprobs(struct qr_engine *engine, const struct qr_batch_item *item,
                                           struct qr_err *err)
{
    const struct qr_sequence *seq = item->seq;
    const struct qr_picked *picked = engine->picked + item->row;
    int n = item->n_logprob, first = n - item->n_given; /* 1: nothing predicts the prompt's first token */
    for (int i = 0; i < item->n_given; i++)
        if (picked[i].status != QR_OK)
            return qr_sampler_fail(picked[i].status, (uint32_t)(item->row_position + i + 1), err);
    struct qr_event_node *node = qr_events_take_from(engine->events, &engine->stock);
    if (node)
        node->slice = qr_logprobs_alloc((size_t)n, seq->job->params.prompt_logprobs);
    if (!node || !node->slice) {
        qr_events_give_back(engine->events, node);
        return no_event(err);
    }
    if (first)
        node->slice[0] = (struct qr_token_logprob){.id = seq->token[0], .logprob = NAN, .top = node->slice[0].top};
    for (int i = 0; i < item->n_given; i++) {
        struct qr_token_logprob *out = &node->slice[i + first];
        struct qr_top *top = out->top;
        *out = picked[i].logprob;
        out->top = top;
        memcpy(top, picked[i].top, (size_t)out->n_top * sizeof(*top));
    }
    node->event = (struct qr_event){.request = seq->job->id,
                                    .choice = seq->choice,
                                    .kind = QR_EVENT_PROMPT_LOGPROBS,
                                    .id = -1,
                                    .n_logprobs = (size_t)n};
    qr_event_chain_add(&engine->out, node);
    return QR_OK;
}

/* A picked token: its event, and whether it ends the choice. An id that ends the text has no text of its own. */
static enum qr_status accept(struct qr_engine *engine, struct qr_sequence *seq, const struct qr_picked *picked,
                             enum qr_finish *finish, struct qr_err *err)
{
    struct qr_event_node *node = qr_events_take_from(engine->events, &engine->stock);
    bool ends = qr_job_ends_with(seq->job, picked->id), stopped = false;
    enum qr_status status = QR_OK;
    if (!node)
        return no_event(err);
    qr_sequence_append(seq, picked->id);
    engine->n_output++;
    if (seq->first_s == 0)
        seq->first_s = qr_now_s();
    if (seq->stream && qr_sequence_n_output(seq) >= seq->job->params.min_tokens)
        qr_stream_search(seq->stream, true);
    if (seq->stream && !ends)
        status = qr_stream_push(seq->stream, picked->id, &node->text, &stopped, err);
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
                                    .id = picked->id,
                                    .n_text = node->text.len,
                                    .n_logprobs = seq->job->params.logprobs >= 0};
    if (node->event.n_logprobs) {
        node->logprob = picked->logprob;
        memcpy(node->top, picked->top, (size_t)picked->logprob.n_top * sizeof(*picked->top));
    }
    qr_event_chain_add(&engine->out, node);
    return QR_OK;
}

/* One row's token, if there is one. */
static enum qr_status take_pick(struct qr_engine *engine, const struct qr_batch_item *item, int row,
                                enum qr_finish *finish, struct qr_err *err)
{
    struct qr_sequence *seq = item->seq;
    const struct qr_picked *picked = &engine->picked[item->row + row];
    if (seq->failure.status != QR_OK) {
        *err = seq->failure;
        return err->status;
    }
    if (picked->status != QR_OK)
        return qr_sampler_fail(picked->status, (uint32_t)(item->row_position + row + 1), err);
    if (seq->constraint) {
        enum qr_status status = seq->job->constraint.accept(seq->constraint, picked->id, err);
        if (status != QR_OK && err->status != status) /* the callback said no more */
            qr_fail(err, status, "the constraint refused token %d and did not say why", picked->id);
        QR_TRY(status);
    }
    return accept(engine, seq, picked, finish, err);
}

/* The tokens that its rows picked: one, or behind drafts as many as were proposed rightly and one more. */
static enum qr_status take_picks(struct qr_engine *engine, const struct qr_batch_item *item, enum qr_finish *finish,
                                 struct qr_err *err)
{
    struct qr_sequence *seq = item->seq;
    bool drafted = seq->n_draft > 0, go_on = true;
    if (item->n_row > item->n_given && !drafted) { /* its id is here: no longer ahead */
        seq->n_ahead--;
        memmove(seq->ahead, seq->ahead + 1, (size_t)seq->n_ahead * sizeof(*seq->ahead));
    }
    engine->n_draft += (uint64_t)seq->n_draft;
    for (int r = item->n_given; r < item->n_row && go_on; r++) {
        int next = item->row_position + r + 1; /* where the token goes; a draft may stand there */
        go_on = r + 1 < item->n_row && seq->token[next] == engine->picked[item->row + r].id;
        QR_TRY(take_pick(engine, item, r, finish, err));
        engine->n_taken += go_on;
        go_on = go_on && *finish == QR_FINISH_NONE;
    }
    return QR_OK;
}

void qr_follow(struct qr_engine *engine, const struct qr_batch_item *item)
{
    struct qr_sequence *seq = item->seq;
    enum qr_finish finish = QR_FINISH_NONE;
    enum qr_status status = QR_OK;
    struct qr_err err = {0};
    if (item->n_logprob > 0)
        status = send_prompt_logprobs(engine, item, &err);
    if (status == QR_OK)
        status = take_picks(engine, item, &finish, &err);
    if (status != QR_OK)
        qr_sequence_finish(engine, seq, QR_FINISH_ERROR, &err);
    else if (finish != QR_FINISH_NONE)
        qr_sequence_finish(engine, seq, finish, NULL);
    else if (seq->max_output == 0 && item->position + item->n == seq->n_prompt) /* nothing was to be generated */
        qr_sequence_finish(engine, seq, QR_FINISH_LENGTH, NULL);
}
