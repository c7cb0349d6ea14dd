/* late.c - see late.h. */
#include "late.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/rand.h"
#include "engine/sampler.h"

enum { RING = QR_MAX_AHEAD + 2 };

struct queued {
    const struct qr_step *step; /* the engine's own: it promised to leave it alone */
    struct qr_pick *pick;       /* deep copies; NULL: not sampled yet */
    float *logits;
    struct qr_picked *picked;
    bool forwarded, chosen, crowded; /* crowded: others were in flight when it was submitted */
};

struct late {
    struct qr_exec head;
    struct qr_exec *inner;
    struct qr_exec_limits limits;
    struct spy *spy;
    struct late_hooks *hooks, own_hooks;
    struct qr_sampler *sampler;
    int n_vocab;
    uint64_t seed;
    uint32_t draw;
    struct queued ring[RING];
    int first, n; /* not collected */
    int32_t *place, *page, *token;
};

static void *some(size_t n)
{
    void *p = calloc(n + 1, 1);
    assert_non_null(p);
    return p;
}

/* ---------------------------------------------------------------- the spy */

static uint64_t mix(uint64_t hash, uint64_t x)
{
    hash = (hash ^ x) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 31;
}

static void compare(struct spy *spy, uint64_t text, const float *logits, int n_vocab)
{
    uint64_t bits = 1;
    for (int v = 0; v < n_vocab; v++) {
        uint32_t one;
        memcpy(&one, &logits[v], 4);
        bits = mix(bits, one);
    }
    size_t at = text >> 47;
    while (spy->seen[at].text != 0 && spy->seen[at].text != text)
        at = (at + 1) % (1 << 17);
    if (spy->seen[at].text == text) {
        spy->n_again++;
        spy->n_differ += spy->seen[at].logits != bits;
    } else {
        assert_true(spy->n_text < 100000);
        spy->n_text++;
        spy->seen[at].text = text;
        spy->seen[at].logits = bits;
    }
}

/* Follows the step through a shadow of the pages, so that a text is what the device read, not what was meant. */
static void spy_on(struct late *l, const struct qr_step *step, const float *logits)
{
    int r = 0;
    for (int i = 0; i < step->n_copy; i++)
        memcpy(&l->page[step->copy_to[i] * QR_PAGE], &l->page[step->copy_from[i] * QR_PAGE], QR_PAGE * sizeof(int32_t));
    for (int t = 0; t < step->n_token; t++)
        l->page[step->slot[t]] = l->token[t];
    for (int s = 0; s < step->n_seq && l->spy; s++) {
        const int32_t *table = step->block_table + (size_t)s * (size_t)step->table_stride;
        int begin = step->seq_begin[s], first = step->seq_len[s] - (step->seq_begin[s + 1] - begin);
        uint64_t text = 77;
        for (int p = 0; p < step->seq_len[s]; p++) {
            text = mix(text, (uint64_t)(uint32_t)l->page[table[p / QR_PAGE] * QR_PAGE + p % QR_PAGE]);
            if (p >= first && r < step->n_row && step->row[r] == begin + p - first)
                compare(l->spy, text, logits + (size_t)r++ * (size_t)l->n_vocab, l->n_vocab);
        }
    }
}

/* ---------------------------------------------------------------- the device's work */

static int32_t resolve(const struct late *l, int32_t token)
{
    if (token >= 0)
        return token;
    assert_in_range(-1 - token, 0, l->limits.n_place - 1);
    return l->place[-1 - token];
}

static enum qr_status forward(struct late *l, const struct qr_step *step, const float **logits, struct qr_err *err)
{
    struct qr_step known = *step;
    struct qr_result result;
    for (int t = 0; t < step->n_token; t++)
        l->token[t] = resolve(l, step->token[t]);
    known.token = l->token;
    QR_TRY(qr_exec_submit(l->inner, &known, err));
    QR_TRY(qr_exec_collect(l->inner, &result, NULL, err));
    *logits = result.logits;
    spy_on(l, step, result.logits);
    return QR_OK;
}

static void choose(struct late *l, struct queued *q)
{
    for (int r = 0; r < q->step->n_row; r++) {
        struct qr_pick *pick = &q->pick[r];
        struct qr_picked *out = &q->picked[r];
        const float *logits = q->logits + (size_t)r * (size_t)l->n_vocab;
        for (int i = 0; i < pick->n_pending; i++)
            ((int32_t *)pick->pending)[i] = resolve(l, pick->pending[i]);
        out->id = pick->id;
        out->logprob.top = out->top;
        if (pick->samples)
            out->status = qr_sampler_pick(l->sampler, logits, pick, &out->id, NULL);
        if (out->status == QR_OK && pick->n_top >= 0)
            out->status = qr_sampler_logprob(l->sampler, logits, out->id, pick->n_top, &out->logprob, NULL);
        if (out->status != QR_OK)
            out->id = 0;
        l->place[q->step->place + r] = out->id;
    }
    q->chosen = true;
}

/* Does the next piece of work; false: there is none. */
static bool work(struct late *l)
{
    for (int i = 0; i < l->n; i++) {
        struct queued *q = &l->ring[(l->first + i) % RING];
        const float *logits = NULL;
        if (!q->forwarded) {
            size_t bytes = (size_t)q->step->n_row * (size_t)l->n_vocab * sizeof(float);
            assert_int_equal(forward(l, q->step, &logits, NULL), QR_OK);
            q->logits = some(bytes);
            memcpy(q->logits, logits, bytes);
            q->forwarded = true;
            return true;
        }
        if (!q->chosen) {
            if (!q->pick)
                return false; /* in order: nothing behind it either */
            choose(l, q);
            return true;
        }
    }
    return false;
}

static void work_a_little(struct late *l)
{
    int n = (int)(qr_rand_uniform(l->seed, 0, l->draw++) * 4);
    while (n-- > 0 && work(l))
        ;
}

/* ---------------------------------------------------------------- calls */

static enum qr_status submit(struct qr_exec *exec, const struct qr_step *step, struct qr_err *err)
{
    struct late *l = (struct late *)exec;
    if (++l->hooks->n_submit == l->hooks->fail_submit)
        return qr_fail(err, QR_IO, "the late device refused a step");
    assert_true(l->n <= QR_MAX_AHEAD);
    assert_true(step->place >= 0 && step->place + step->n_row <= l->limits.n_place);
    l->ring[(l->first + l->n) % RING] = (struct queued){.step = step, .crowded = l->n > 0};
    l->n++;
    l->hooks->max_flight = l->n > l->hooks->max_flight ? l->n : l->hooks->max_flight;
    work_a_little(l);
    return QR_OK;
}

static const void *copied(const void *p, size_t n)
{
    return p ? memcpy(some(n), p, n) : NULL;
}

static void forget(struct queued *q)
{
    for (int r = 0; q->pick && r < q->step->n_row; r++)
        if (q->pick[r].samples) {
            free((void *)q->pick[r].params->logit_bias);
            free((void *)q->pick[r].params);
            free((void *)q->pick[r].count);
            free((void *)q->pick[r].pending);
            free((void *)q->pick[r].end_id);
            free((void *)q->pick[r].mask);
        }
    free(q->pick);
    free(q->picked);
    free(q->logits);
    *q = (struct queued){0};
}

static enum qr_status sample(struct qr_exec *exec, const struct qr_pick *pick, struct qr_err *err)
{
    struct late *l = (struct late *)exec;
    struct queued *q = &l->ring[(l->first + l->n - 1) % RING];
    l->hooks->n_late_sample += q->crowded && l->n == 1;
    if (++l->hooks->n_sample == l->hooks->fail_sample) {
        l->n--;
        forget(q);
        return qr_fail(err, QR_IO, "the late device refused to sample");
    }
    q->pick = some((size_t)q->step->n_row * sizeof *pick);
    q->picked = some((size_t)q->step->n_row * sizeof *q->picked);
    for (int r = 0; r < q->step->n_row; r++) {
        struct qr_pick *to = &q->pick[r];
        *to = pick[r];
        if (!to->samples)
            continue;
        struct qr_sampling *params = (struct qr_sampling *)copied(to->params, sizeof *params);
        params->logit_bias = copied(params->logit_bias, params->n_logit_bias * sizeof *params->logit_bias);
        to->params = params;
        to->count = copied(to->count, (size_t)to->n_count * sizeof *to->count);
        to->pending = copied(to->pending, (size_t)to->n_pending * sizeof *to->pending);
        to->end_id = copied(to->end_id, (size_t)to->n_end * sizeof *to->end_id);
        to->mask = copied(to->mask, ((size_t)l->n_vocab + 31) / 32 * sizeof *to->mask);
    }
    work_a_little(l);
    return QR_OK;
}

static enum qr_status collect(struct qr_exec *exec, struct qr_result *result, struct qr_picked *picked,
                              struct qr_err *err)
{
    struct late *l = (struct late *)exec;
    struct queued *q = &l->ring[l->first];
    assert_true(l->n > 0);
    while (!q->chosen)
        assert_true(work(l));
    bool fails = ++l->hooks->n_collect == l->hooks->fail_collect;
    *result = (struct qr_result){.n_row = q->step->n_row};
    for (int r = 0; r < q->step->n_row; r++) {
        picked[r] = q->picked[r];
        picked[r].logprob.top = picked[r].top;
    }
    forget(q);
    l->first = (l->first + 1) % RING;
    l->n--;
    return fails ? qr_fail(err, QR_IO, "the late device fell over") : QR_OK;
}

static void destroy(struct qr_exec *exec)
{
    struct late *l = (struct late *)exec;
    assert_int_equal(l->n, 0);
    qr_exec_destroy(l->inner);
    qr_sampler_destroy(l->sampler);
    free(l->place);
    free(l->page);
    free(l->token);
    free(l);
}

static const struct qr_exec_ops late_ops = {
    .name = "late", .submit = submit, .sample = sample, .collect = collect, .destroy = destroy};

/* ---------------------------------------------------------------- the spy alone */

static const struct qr_step *spied_step(struct late *l)
{
    return l->ring[0].step;
}

static enum qr_status spied_submit(struct qr_exec *exec, const struct qr_step *step, struct qr_err *err)
{
    struct late *l = (struct late *)exec;
    l->ring[0].step = step;
    return qr_exec_submit(l->inner, step, err);
}

static enum qr_status spied_collect(struct qr_exec *exec, struct qr_result *result, struct qr_picked *picked,
                                    struct qr_err *err)
{
    struct late *l = (struct late *)exec;
    QR_TRY(qr_exec_collect(l->inner, result, picked, err));
    memcpy(l->token, spied_step(l)->token, (size_t)spied_step(l)->n_token * sizeof *l->token);
    spy_on(l, spied_step(l), result->logits);
    return QR_OK;
}

static const struct qr_exec_ops spied_ops = {
    .name = "spied", .submit = spied_submit, .collect = spied_collect, .destroy = destroy};

static struct late *make(const struct qr_exec_ops *ops, struct qr_exec *inner, struct qr_exec_limits limits,
                         int n_vocab, struct spy *spy)
{
    struct late *l = some(sizeof *l);
    l->head.ops = ops;
    l->inner = inner;
    l->limits = limits;
    l->n_vocab = n_vocab;
    l->spy = spy;
    l->place = some((size_t)limits.n_place * sizeof *l->place);
    l->page = some((size_t)limits.n_block * QR_PAGE * sizeof *l->page);
    l->token = some((size_t)limits.max_token * sizeof *l->token);
    assert_int_equal(qr_sampler_create(n_vocab, &l->sampler, NULL), QR_OK);
    return l;
}

struct qr_exec *late_exec(struct qr_exec *inner, struct qr_exec_limits limits, int n_vocab, uint64_t seed,
                          struct spy *spy, struct late_hooks *hooks)
{
    struct late *l = make(&late_ops, inner, limits, n_vocab, spy);
    l->seed = seed;
    l->hooks = hooks ? hooks : &l->own_hooks;
    return &l->head;
}

struct qr_exec *spied_exec(struct qr_exec *inner, struct qr_exec_limits limits, int n_vocab, struct spy *spy)
{
    return &make(&spied_ops, inner, limits, n_vocab, spy)->head;
}
