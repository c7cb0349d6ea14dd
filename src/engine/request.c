/* request.c - a job's memory, taken in one go and given back in one go. */
#include "engine/request.h"
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/rand.h"
#include "engine/blocks.h"

static void free_sequence(struct qr_sequence *seq, struct qr_events *events)
{
    free(seq->token);
    free(seq->block);
    free(seq->mask);
    if (seq->constraint)
        seq->job->constraint.destroy(seq->constraint);
    qr_tally_free(&seq->tally);
    qr_stream_destroy(seq->stream);
    qr_events_give_back(events, seq->done);
}

void qr_job_destroy(struct qr_job *job, struct qr_events *events)
{
    if (!job)
        return;
    for (int i = 0; job->choice && i < job->n_choice; i++)
        free_sequence(&job->choice[i], events);
    free(job->choice);
    free(job->own_flow);
    free(job->end_id);
    free((void *)job->params.logit_bias);
    free(job);
}

static enum qr_status no_memory(const struct qr_request *request, struct qr_err *err)
{
    return qr_fail(err, QR_NOMEM, "out of memory for a request of %zu tokens", request->n_prompt);
}

/* The arrays of params that live on: logit_bias; stop strings go into the streams, ids into end_id. */
static bool copy_arrays(struct qr_job *job, const struct qr_request_limits *limits)
{
    struct qr_sampling *p = &job->params;
    size_t n_bias = p->n_logit_bias, n_end = p->n_stop_token_ids + (p->ignore_eos ? 0 : (size_t)limits->n_eos);
    struct qr_logit_bias *bias = n_bias ? malloc(n_bias * sizeof(*bias)) : NULL;
    if (bias)
        memcpy(bias, p->logit_bias, n_bias * sizeof(*bias));
    p->logit_bias = bias;
    job->end_id = malloc((n_end + 1) * sizeof(*job->end_id));
    if (!job->end_id || (n_bias && !bias))
        return false;
    for (int i = 0; !p->ignore_eos && i < limits->n_eos; i++)
        if (limits->eos[i] >= 0 && limits->eos[i] < limits->n_vocab)
            job->end_id[job->n_end++] = limits->eos[i];
    for (size_t i = 0; i < p->n_stop_token_ids; i++)
        job->end_id[job->n_end++] = p->stop_token_ids[i];
    p->stop_token_ids = NULL;
    p->n_stop_token_ids = 0;
    return true;
}

static enum qr_status init_sequence(struct qr_sequence *seq, struct qr_job *job, const struct qr_request *request,
                                    const struct qr_request_limits *limits, struct qr_events *events,
                                    struct qr_err *err)
{
    const struct qr_sampling *p = &job->params;
    int n = (int)request->n_prompt, left = limits->max_len - n;
    *seq = (struct qr_sequence){.job = job, .choice = (int)(seq - job->choice), .priority = request->priority};
    seq->n_prompt = seq->n_token = n;
    seq->max_output = p->max_tokens >= 0 && p->max_tokens < left ? p->max_tokens : left;
    seq->next_logprob = p->prompt_logprobs >= 0 && seq->choice == 0 ? p->prompt_logprobs_from : n;
    seq->room = n + seq->max_output;
    seq->token = malloc((size_t)seq->room * sizeof(*seq->token));
    seq->block = malloc((size_t)qr_blocks_for(seq->room) * sizeof(*seq->block));
    seq->done = qr_events_take(events);
    if (!seq->token || !seq->block || !seq->done)
        return no_memory(request, err);
    memcpy(seq->token, request->prompt, (size_t)n * sizeof(*seq->token));
    if (request->constraint) {
        seq->mask = calloc(((size_t)limits->n_vocab + 31) / 32, sizeof(*seq->mask));
        seq->constraint = request->constraint->clone(request->constraint->ctx);
        if (!seq->mask || !seq->constraint)
            return no_memory(request, err);
    }
    if (job->penalised) {
        QR_TRY(qr_tally_init(&seq->tally, seq->room < limits->n_vocab ? seq->room : limits->n_vocab, err));
        for (int i = 0; i < n; i++)
            qr_tally_count(&seq->tally, seq->token[i], false);
    }
    if (!limits->tok)
        return QR_OK;
    if (seq->choice == 0)
        QR_TRY(qr_stream_create(limits->tok, p->stop, p->n_stop, request->keep_special, &seq->stream, err));
    else
        QR_TRY(qr_stream_share(job->choice[0].stream, &seq->stream, err));
    qr_stream_search(seq->stream, p->min_tokens == 0);
    return QR_OK;
}

enum qr_status qr_job_create(const struct qr_request *request, const struct qr_request_limits *limits,
                             struct qr_events *events, struct qr_job **job, struct qr_err *err)
{
    *job = NULL;
    QR_TRY(qr_request_check(request, limits, err));
    struct qr_job *j = calloc(1, sizeof(*j));
    if (!j)
        return no_memory(request, err);
    j->params = request->sampling;
    const struct qr_sampling *p = &j->params;
    j->seed = p->has_seed ? p->seed : qr_rand_fresh_seed();
    j->penalised = p->repetition_penalty != 1 || p->presence_penalty != 0 || p->frequency_penalty != 0;
    j->n_choice = request->n > 1 ? request->n : 1;
    j->key = request->key;
    j->salt = request->cache_salt;
    if (request->constraint)
        j->constraint = *request->constraint;
    j->submitted_s = qr_now_s();
    j->choice = calloc((size_t)j->n_choice, sizeof(*j->choice));
    j->own_flow = calloc(1, sizeof(*j->own_flow));
    bool got = copy_arrays(j, limits) && j->choice && j->own_flow;
    enum qr_status status = got ? QR_OK : no_memory(request, err);
    for (int i = 0; status == QR_OK && i < j->n_choice; i++)
        status = init_sequence(&j->choice[i], j, request, limits, events, err);
    j->params.stop = NULL; /* the caller's; the streams have copies */
    j->params.n_stop = 0;
    if (status != QR_OK) {
        qr_job_destroy(j, events);
        return status;
    }
    *job = j;
    return QR_OK;
}

bool qr_job_ends_with(const struct qr_job *job, int32_t id)
{
    for (int i = 0; i < job->n_end; i++)
        if (job->end_id[i] == id)
            return true;
    return false;
}

void qr_sequence_append(struct qr_sequence *seq, int32_t id)
{
    seq->token[seq->n_token++] = id;
    if (seq->job->penalised)
        qr_tally_count(&seq->tally, id, true);
}
