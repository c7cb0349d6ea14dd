/* picks.c - what is wanted of each row of a step, and the host's sampler for executors that give logits. */
#include <string.h>
#include "engine/core.h"

/* The tokens between those that the host knows and the one that is picked: drafts, or places of unread ids. */
static void add_pending(const struct qr_sequence *seq, struct qr_pick *pick)
{
    int n = (int)pick->position - seq->n_token;
    pick->n_pending = n > 0 ? n : 0;
    pick->pending = seq->n_draft > 0 ? seq->token + seq->n_token : seq->ahead;
}

static void add_mask(const struct qr_engine *engine, struct qr_sequence *seq, struct qr_pick *pick)
{
    const struct qr_constraint *c = &seq->job->constraint;
    memset(seq->mask, 0, ((size_t)engine->parts.n_vocab + 31) / 32 * sizeof(*seq->mask));
    enum qr_status status = c->mask(seq->constraint, seq->mask, &seq->failure);
    if (status == QR_OK) {
        pick->mask = seq->mask;
        return;
    }
    if (seq->failure.status != status) /* the callback said no more */
        qr_fail(&seq->failure, status, "the constraint failed at position %u and did not say why", pick->position);
    *pick = (struct qr_pick){.n_top = -1};
}

static void fill_sampling(const struct qr_engine *engine, struct qr_sequence *seq, int position, struct qr_pick *pick)
{
    const struct qr_job *job = seq->job;
    *pick = (struct qr_pick){
        .samples = true,
        .n_top = job->params.logprobs,
        .params = &job->params,
        .seed = job->seed,
        .choice = (uint32_t)seq->choice,
        .position = (uint32_t)position,
        .end_id = job->end_id,
        .n_end = job->n_end,
        .n_output = position - seq->n_prompt,
    };
    add_pending(seq, pick);
    if (job->penalised) {
        pick->count = seq->tally.entry;
        pick->n_count = seq->tally.n;
    }
    if (seq->constraint)
        add_mask(engine, seq, pick);
}

void qr_picks_fill(struct qr_engine *engine, const struct qr_batch *batch)
{
    for (int i = 0; i < batch->n_item; i++) {
        const struct qr_batch_item *item = &batch->item[i];
        struct qr_sequence *seq = item->seq;
        for (int r = 0; r < item->n_row; r++) {
            struct qr_pick *pick = &engine->pick[item->row + r];
            int position = item->row_position + r + 1; /* of the token that the row is about */
            if (seq->state != QR_SEQ_RUNNING)          /* surplus: nobody will look at it */
                *pick = (struct qr_pick){.n_top = -1};
            else if (r < item->n_given)
                *pick = (struct qr_pick){.id = seq->token[position], .n_top = seq->job->params.prompt_logprobs};
            else
                fill_sampling(engine, seq, position, pick);
        }
    }
}

/* ---------------------------------------------------------------- on the host */

static void make_one(struct qr_sampler *sampler, const float *logits, const struct qr_pick *pick, struct qr_picked *out)
{
    out->id = pick->id;
    out->status = QR_OK;
    if (pick->samples)
        out->status = qr_sampler_pick(sampler, logits, pick, &out->id, NULL);
    out->logprob.top = out->top;
    if (out->status == QR_OK && pick->n_top >= 0)
        out->status = qr_sampler_logprob(sampler, logits, out->id, pick->n_top, &out->logprob, NULL);
}

struct crew {
    struct qr_engine *engine;
    const struct qr_result *result;
};

static void make_share(void *ctx, int worker, int n_worker)
{
    const struct crew *crew = ctx;
    struct qr_engine *e = crew->engine;
    for (int r = worker; r < crew->result->n_row; r += n_worker)
        make_one(e->sampler[worker], crew->result->logits + (size_t)r * (size_t)e->parts.n_vocab, &e->pick[r],
                 &e->picked[r]);
}

void qr_picks_make(struct qr_engine *engine, const struct qr_result *result)
{
    struct crew crew = {engine, result};
    if (result->n_row > 1 && engine->n_sampler > 1)
        qr_pool_run(engine->parts.pool, make_share, &crew);
    else
        make_share(&crew, 0, 1);
}
