/* sampler.c - see sampler.h for the order of the filters. */
#include "engine/sampler.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/rand.h"
#include "engine/logits.h"
#include "engine/select.h"

#define GREEDY_BELOW 1e-5f

struct qr_sampler {
    int n_vocab;
    float *logits;             /* [n_vocab] after bias and penalties, then weights */
    float *block_max;          /* [n_vocab / QR_LOGIT_BLOCK + 1] */
    double *block_sum;         /* [the same] */
    struct qr_candidate *list; /* [n_vocab] */
    struct qr_select_scratch select;
};

uint64_t qr_sampler_bytes(int n_vocab)
{
    uint64_t n = (uint64_t)n_vocab;
    return sizeof(struct qr_sampler) + n * (sizeof(float) + sizeof(struct qr_candidate)) +
           (n / QR_LOGIT_BLOCK + 1) * (sizeof(float) + sizeof(double));
}

enum qr_status qr_sampler_create(int n_vocab, struct qr_sampler **sampler, struct qr_err *err)
{
    struct qr_sampler *s = calloc(1, sizeof(*s));
    *sampler = NULL;
    if (s) {
        s->n_vocab = n_vocab;
        s->logits = malloc((size_t)n_vocab * sizeof(*s->logits));
        s->block_max = malloc(((size_t)n_vocab / QR_LOGIT_BLOCK + 1) * sizeof(*s->block_max));
        s->block_sum = malloc(((size_t)n_vocab / QR_LOGIT_BLOCK + 1) * sizeof(*s->block_sum));
        s->list = malloc((size_t)n_vocab * sizeof(*s->list));
    }
    if (!s || !s->logits || !s->block_max || !s->block_sum || !s->list) {
        qr_sampler_destroy(s);
        return qr_fail(err, QR_NOMEM, "out of memory for sampling from %d tokens", n_vocab);
    }
    *sampler = s;
    return QR_OK;
}

void qr_sampler_destroy(struct qr_sampler *sampler)
{
    if (!sampler)
        return;
    free(sampler->logits);
    free(sampler->block_max);
    free(sampler->block_sum);
    free(sampler->list);
    free(sampler);
}

static bool masks_ends(const struct qr_pick *pick)
{
    return pick->n_end > 0 && pick->n_output < pick->params->min_tokens;
}

static float penalised(float logit, int n_output, const struct qr_sampling *p)
{
    float v = logit > 0 ? logit / p->repetition_penalty : logit * p->repetition_penalty;
    return n_output > 0 ? v - (p->frequency_penalty * (float)n_output + p->presence_penalty) : v;
}

/* How often id stands among the pending tokens. */
static int n_pending(const struct qr_pick *pick, int32_t id)
{
    int n = 0;
    for (int i = 0; i < pick->n_pending; i++)
        n += pick->pending[i] == id;
    return n;
}

static bool is_counted(const struct qr_pick *pick, int32_t id)
{
    for (int i = 0; i < pick->n_count; i++)
        if (pick->count[i].id == id)
            return true;
    return false;
}

/* Steps 2 and 3. Pending tokens are few: drafts that wait for their verdict. */
static void apply_penalties(float *l, const struct qr_pick *pick)
{
    for (int i = 0; i < pick->n_count; i++) {
        const struct qr_count *c = &pick->count[i];
        l[c->id] = penalised(l[c->id], c->n_output + n_pending(pick, c->id), pick->params);
    }
    for (int i = 0; i < pick->n_pending; i++) {
        int32_t id = pick->pending[i];
        bool first = true;
        for (int k = 0; k < i; k++)
            first = first && pick->pending[k] != id;
        if (first && !is_counted(pick, id))
            l[id] = penalised(l[id], n_pending(pick, id), pick->params);
    }
}

static void apply_mask(float *l, int n_vocab, const uint32_t *mask)
{
    for (int v = 0; v < n_vocab; v += 32) {
        uint32_t word = mask[v / 32];
        for (int i = v; word != UINT32_MAX && i < v + 32 && i < n_vocab; i++)
            if (!(word >> (i - v) & 1))
                l[i] = -INFINITY;
    }
}

/* Steps 1 to 4 on a copy; the row itself where none of them is on. */
static const float *adjusted(struct qr_sampler *s, const float *logits, const struct qr_pick *pick)
{
    const struct qr_sampling *p = pick->params;
    if (p->n_logit_bias == 0 && !pick->count && !masks_ends(pick) && !pick->mask)
        return logits;
    float *l = s->logits;
    memcpy(l, logits, (size_t)s->n_vocab * sizeof(*l));
    for (size_t i = 0; i < p->n_logit_bias; i++)
        l[p->logit_bias[i].id] += p->logit_bias[i].bias;
    if (pick->count)
        apply_penalties(l, pick);
    for (int i = 0; masks_ends(pick) && i < pick->n_end; i++)
        l[pick->end_id[i]] = -INFINITY;
    if (pick->mask)
        apply_mask(l, s->n_vocab, pick->mask);
    return l;
}

/* Walks up the ids until the running sum passes u of the whole. */
static int32_t draw(const struct qr_candidate *list, int n, float u)
{
    double total = 0, sum = 0;
    int last = 0;
    for (int i = 0; i < n; i++)
        total += (double)list[i].weight;
    for (int i = 0; i < n; i++) {
        sum += (double)list[i].weight;
        if (list[i].weight > 0)
            last = i;
        if (sum > (double)u * total)
            break;
    }
    return list[last].id;
}

/* The same over all tokens, from s->logits (weights by now) and the sums of their blocks. */
static int32_t draw_any(const struct qr_sampler *s, double total, float u)
{
    double target = (double)u * total, sum = 0;
    int n_block = (s->n_vocab + QR_LOGIT_BLOCK - 1) / QR_LOGIT_BLOCK, b = 0, last = -1;
    while (b + 1 < n_block && sum + s->block_sum[b] <= target)
        sum += s->block_sum[b++];
    for (; last<0; b = b> 0 ? b - 1 : n_block - 1) { /* rounding may lead into a block of zeros: then one before */
        int end = (b + 1) * QR_LOGIT_BLOCK < s->n_vocab ? (b + 1) * QR_LOGIT_BLOCK : s->n_vocab;
        for (int i = b * QR_LOGIT_BLOCK; i < end && (last < 0 || sum <= target); i++) {
            sum += (double)s->logits[i];
            if (s->logits[i] > 0)
                last = i;
        }
    }
    return last;
}

/* Step 6: candidates with weights e^((l - max) / temperature). The k-th largest of the blocks' maxima is a floor under
 * the k-th largest of all, so that few numbers are left to select from. */
static int gather_top_k(struct qr_sampler *s, const float *l, float max, float scale, int k)
{
    int n_block = (s->n_vocab + QR_LOGIT_BLOCK - 1) / QR_LOGIT_BLOCK, n_equal, n = 0, m = 0;
    float floor = k <= n_block ? qr_select_threshold(s->block_max, n_block, k, &n_equal, &s->select) : -INFINITY;
    for (int b = 0; b < n_block; b++) {
        int end = (b + 1) * QR_LOGIT_BLOCK < s->n_vocab ? (b + 1) * QR_LOGIT_BLOCK : s->n_vocab;
        for (int i = b * QR_LOGIT_BLOCK; s->block_max[b] >= floor && i < end; i++)
            if (l[i] >= floor) {
                s->list[n].id = i;
                s->logits[n++] = l[i]; /* l may be s->logits: n never overtakes i */
            }
    }
    float threshold = qr_select_threshold(s->logits, n, k, &n_equal, &s->select);
    for (int i = 0; i < n; i++)
        if (s->logits[i] > threshold || (s->logits[i] == threshold && n_equal-- > 0))
            s->list[m++] = (struct qr_candidate){s->list[i].id, qr_exp_neg((s->logits[i] - max) * scale)};
    return m;
}

/* Candidates without top_k, from the weights of all tokens. Leaves out those too light to matter: what is under
 * (1 - top_p) / n_vocab of the sum adds up to less than 1 - top_p, and min_p is a plain limit. */
static int gather_all(struct qr_sampler *s, float max, float scale, const struct qr_sampling *p, double total)
{
    int n_block = (s->n_vocab + QR_LOGIT_BLOCK - 1) / QR_LOGIT_BLOCK, n = 0;
    float least = p->top_p < 1 ? (float)((1.0 - (double)p->top_p) * total / s->n_vocab * 0.999) : p->min_p * 0.999f;
    for (int b = 0; b < n_block; b++) {
        int end = (b + 1) * QR_LOGIT_BLOCK < s->n_vocab ? (b + 1) * QR_LOGIT_BLOCK : s->n_vocab;
        if (qr_exp_neg((s->block_max[b] - max) * scale) <= least)
            continue;
        for (int i = b * QR_LOGIT_BLOCK; i < end; i++)
            if (s->logits[i] > least)
                s->list[n++] = (struct qr_candidate){i, s->logits[i]};
    }
    return n;
}

/* Steps 5 to 9 for a temperature above 0. */
static int32_t sample(struct qr_sampler *s, const float *l, float max, const struct qr_pick *pick)
{
    const struct qr_sampling *p = pick->params;
    float u = qr_rand_uniform(pick->seed, pick->choice, pick->position), scale = 1 / p->temperature;
    double total = 0;
    int n;
    if (p->top_k > 0 && p->top_k < s->n_vocab) {
        n = gather_top_k(s, l, max, scale, p->top_k);
        for (int i = 0; i < n; i++)
            total += (double)s->list[i].weight;
    } else {
        total = qr_logit_weights(l, s->n_vocab, max, scale, s->logits, s->block_sum);
        if (p->top_p == 1 && p->min_p == 0)
            return draw_any(s, total, u);
        n = gather_all(s, max, scale, p, total);
    }
    if (p->top_p < 1)
        n = qr_select_mass(s->list, n, (double)p->top_p * total, &s->select);
    if (p->min_p > 0) {
        int m = 0;
        for (int i = 0; i < n; i++) /* the best one's weight is e^0 */
            if (s->list[i].weight >= p->min_p)
                s->list[m++] = s->list[i];
        n = m;
    }
    return draw(s->list, n, u);
}

enum qr_status qr_sampler_fail(enum qr_status status, uint32_t position, struct qr_err *err)
{
    if (status == QR_INVALID)
        return qr_fail(
            err, status,
            "no token is possible at position %u: relax the constraint, logit_bias, min_tokens or the stop ids",
            position);
    return qr_fail(err, status, "the model's output for position %u is not finite, the weights may be damaged",
                   position);
}

enum qr_status qr_sampler_pick(struct qr_sampler *sampler, const float *logits, const struct qr_pick *pick, int32_t *id,
                               struct qr_err *err)
{
    const float *l = adjusted(sampler, logits, pick);
    struct qr_logit_scan scan = qr_logit_scan(l, sampler->n_vocab, sampler->block_max);
    if (scan.bad)
        return qr_sampler_fail(QR_INTERNAL, pick->position, err);
    if (scan.max == -INFINITY)
        return qr_sampler_fail(QR_INVALID, pick->position, err);
    *id = pick->params->temperature < GREEDY_BELOW ? scan.argmax : sample(sampler, l, scan.max, pick);
    return QR_OK;
}

enum qr_status qr_sampler_logprob(struct qr_sampler *sampler, const float *logits, int32_t id, int n_top,
                                  struct qr_token_logprob *out, struct qr_err *err)
{
    struct qr_logit_scan scan = qr_logit_scan(logits, sampler->n_vocab, sampler->block_max);
    if (scan.bad || scan.max == -INFINITY)
        return qr_fail(err, QR_INTERNAL, "the model's output is not finite, the weights may be damaged");
    double shift = (double)scan.max + log(qr_logit_expsum(logits, sampler->n_vocab, scan.max));
    out->id = id;
    out->logprob = (float)((double)logits[id] - shift);
    out->rank = qr_logit_rank(logits, sampler->n_vocab, id);
    out->n_top = qr_logit_top(logits, sampler->n_vocab, sampler->block_max, n_top, out->top);
    for (int i = 0; i < out->n_top; i++)
        out->top[i].logprob = (float)((double)out->top[i].logprob - shift);
    return QR_OK;
}
