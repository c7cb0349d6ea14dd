/* mixed.c - see mixed.h. */
#include "mixed.h"
#include <stdlib.h>
#include "base/rand.h"

struct thirds {
    int n_vocab;
    int32_t last;
};

static enum qr_status mask(void *ctx, uint32_t *bits, struct qr_err *err)
{
    const struct thirds *t = ctx;
    (void)err;
    for (int v = 0; v < t->n_vocab; v++)
        if ((v + t->last) % 3 != 0)
            bits[v / 32] |= UINT32_C(1) << v % 32;
    return QR_OK;
}

static enum qr_status accept(void *ctx, int32_t id, struct qr_err *err)
{
    struct thirds *t = ctx;
    (void)err;
    t->last = id;
    return QR_OK;
}

static void *clone(const void *ctx)
{
    struct thirds *t = malloc(sizeof *t);
    if (t)
        *t = (struct thirds){.n_vocab = *(const int *)ctx};
    return t;
}

const struct qr_constraint mixed_constraint = {.mask = mask, .accept = accept, .clone = clone, .destroy = free};

static float uniform(int stream, int i, int k)
{
    return qr_rand_uniform((uint64_t)stream, (uint32_t)i, (uint32_t)k);
}

void mixed_make(struct mixed *m, int i, int n_vocab)
{
    static const int32_t stop_ids[] = {3};
    static const struct qr_logit_bias bias[] = {{7, 3}, {8, -100}};
    static struct qr_constraint thirds;
    static int vocab;
    int n = 1 + (int)(uniform(1, i, 0) * 90);
    for (int k = 0; k < n; k++) { /* four beginnings, so that many have blocks in common */
        bool common = k < n * 2 / 3;
        m->prompt[k] = (int32_t)(uniform(2, common ? i % 4 : 100 + i, k) * (float)n_vocab);
    }
    m->request = ask_request(m->prompt, (size_t)n, 1 + (int)(uniform(3, i, 0) * 60));
    struct qr_sampling *p = &m->request.sampling;
    p->has_seed = true;
    p->seed = (uint64_t)i;
    p->temperature = i % 3 == 0 ? 0 : 0.8f;
    p->top_p = i % 5 == 1 ? 0.9f : 1;
    p->top_k = i % 7 == 2 ? 10 : 0;
    p->min_p = i % 11 == 3 ? 0.1f : 0;
    p->repetition_penalty = i % 4 == 1 ? 1.2f : 1;
    p->frequency_penalty = i % 6 == 2 ? 0.5f : 0;
    p->presence_penalty = i % 12 == 7 ? 0.3f : 0;
    p->logprobs = i % 2 ? 3 : -1;
    p->prompt_logprobs = i % 4 == 0 ? 2 : -1;
    p->min_tokens = i % 13 == 4 ? 1 : 0;
    p->ignore_eos = i % 3 == 1;
    p->stop_token_ids = stop_ids;
    p->n_stop_token_ids = i % 8 == 4;
    p->logit_bias = bias;
    p->n_logit_bias = i % 9 == 5 ? 2 : 0;
    vocab = n_vocab;
    thirds = mixed_constraint;
    thirds.ctx = &vocab;
    m->request.constraint = i % 5 == 3 ? &thirds : NULL;
    m->request.n = i % 8 == 2 ? 3 : 1;
    m->request.priority = i % 10 == 6 ? -1 : 0;
    m->request.key = (uint64_t)(i % 3);
    m->request.cache_salt = (uint64_t)(i % 7 == 6);
}

int mixed_choices(const struct mixed *m)
{
    return m->request.n > 1 ? m->request.n : 1;
}
