/* grammar_walk.c - see grammar_walk.h. */
#include "text/grammar_walk.h"
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/rand.h"
#include "text/grammar_internal.h"
#include "text/grammar_state.h"

struct walker {
    struct qr_grammar *g;
    uint32_t *distance; /* [n_state] */
    uint32_t *bits;
    struct qr_grammar_state *state, *probe;
};
#define FAR 100000000u

static uint32_t sum(uint32_t a, uint32_t b)
{
    return a + b < FAR ? a + b : FAR;
}

/* Rounds until nothing gets nearer (Bellman-Ford). */
static void measure(struct walker *w)
{
    const struct qr_grammar *g = w->g;
    bool moved = true, up = true;

    for (uint32_t s = 0; s < g->n_state; s++)
        w->distance[s] = g->state[s].accept ? 0 : FAR;
    while (moved) {
        moved = false;
        up = !up; /* one way in one round, the other in the next */
        for (uint32_t i = 0; i < g->n_state; i++) {
            uint32_t s = up ? i : g->n_state - 1 - i;
            const struct qr_gr_state *t = &g->state[s];
            uint32_t best = w->distance[s];

            for (uint32_t k = t->edge; k < t->edge + t->n_edge; k++)
                if (sum(1, w->distance[g->edge[k].to]) < best)
                    best = sum(1, w->distance[g->edge[k].to]);
            for (uint32_t k = t->call; k < t->call + t->n_call; k++) {
                uint32_t d = sum(w->distance[g->rule[g->call[k].rule].start], w->distance[g->call[k].next]);

                best = d < best ? d : best;
            }
            moved = moved || best < w->distance[s];
            w->distance[s] = best;
        }
    }
}

struct walker *walker_create(struct qr_grammar *grammar)
{
    struct walker *w = calloc(1, sizeof *w);

    w->g = grammar;
    w->distance = calloc(grammar->n_state, sizeof *w->distance);
    w->bits = calloc(grammar->vocab->n_word, sizeof *w->bits);
    if (qr_grammar_state_create(grammar, &w->state, NULL) != QR_OK ||
        qr_grammar_state_create(grammar, &w->probe, NULL) != QR_OK)
        abort();
    measure(w);
    return w;
}

void walker_destroy(struct walker *w)
{
    qr_grammar_state_destroy(w->state);
    qr_grammar_state_destroy(w->probe);
    free(w->distance);
    free(w->bits);
    free(w);
}

static uint32_t to_end(const struct walker *w, const struct qr_grammar_state *s)
{
    uint32_t best = FAR;

    for (uint32_t i = 0; i < s->n_thread; i++) {
        uint32_t d = w->distance[s->thread[i].state];

        for (uint32_t f = s->thread[i].frame; f >= QR_GR_FRAMES; f = s->frame[f].parent)
            d = sum(d, w->distance[s->frame[f].next]);
        best = d < best ? d : best;
    }
    return best;
}

static uint32_t draw(uint64_t seed, uint32_t *counter, uint32_t below)
{
    return (uint32_t)(qr_rand_uniform(seed, 0, (*counter)++) * (float)below);
}

static int32_t pick(const struct walker *w, uint64_t seed, uint32_t *counter)
{
    const struct qr_grammar_vocab *v = w->g->vocab;
    uint32_t n = 0, want;

    if (draw(seed, counter, 3) == 0) { /* often a short one: they are few among many */
        for (int tries = 0; tries < 40; tries++) {
            int32_t id = (int32_t)draw(seed, counter, v->n_bits);

            if ((w->bits[id / 32] >> id % 32 & 1) && v->at[id + 1] - v->at[id] <= 3)
                return id;
        }
    }
    for (uint32_t i = 0; i < v->n_word; i++)
        n += (uint32_t)__builtin_popcount(w->bits[i]);
    want = n ? draw(seed, counter, n) : 0;
    for (uint32_t i = 0; i < v->n_word; i++)
        for (uint32_t word = w->bits[i]; word; word &= word - 1)
            if (want-- == 0)
                return (int32_t)(i * 32 + (uint32_t)__builtin_ctz(word));
    return -1;
}

/* Of all tokens of one byte and some others, the one that leaves the shortest way. */
static int32_t nearest(struct walker *w, uint64_t seed, uint32_t *counter)
{
    const struct qr_grammar_vocab *v = w->g->vocab;
    int32_t best = -1;
    uint32_t best_d = UINT32_MAX, best_n = 0, some = draw(seed, counter, 211);

    for (uint32_t id = 0; id < v->n_bits; id++) {
        uint32_t n = v->at[id + 1] - v->at[id], d;

        if (!(w->bits[id / 32] >> id % 32 & 1) || (n > 1 && id % 211 != some))
            continue;
        memcpy(w->probe, w->state, sizeof *w->probe);
        if (qr_grammar_accept(w->probe, (int32_t)id, NULL) != QR_OK)
            return -2;
        d = w->probe->ended ? 0 : to_end(w, w->probe) + 1;
        if (d < best_d || (d == best_d && n > best_n)) {
            best = (int32_t)id;
            best_d = d;
            best_n = n;
        }
    }
    return best;
}

bool walk_text(struct walker *w, uint64_t seed, int n_free, struct qr_buf *text, struct walk_stats *stats,
               struct qr_err *err)
{
    const struct qr_grammar_vocab *v = w->g->vocab;
    uint32_t counter = 0;

    qr_grammar_state_reset(w->state);
    for (int n = 0; n < n_free + 20000; n++) {
        int64_t start = qr_now_ns();
        double us;
        int32_t id;

        if (qr_grammar_mask(w->state, w->bits, err) != QR_OK)
            return false;
        us = (double)(qr_now_ns() - start) / 1e3;
        stats->masks++;
        stats->cold += us > 100;
        stats->total_us += us;
        stats->worst_us = us > stats->worst_us ? us : stats->worst_us;
        if (qr_grammar_is_finished(w->state))
            return true;
        if (n >= n_free && qr_grammar_may_end(w->state))
            return true;
        id = n < n_free ? pick(w, seed, &counter) : nearest(w, seed, &counter);
        if (id < 0) {
            qr_fail(err, QR_INTERNAL, id == -2 ? "a token of the mask is refused" : "no token is allowed");
            return false;
        }
        if (qr_grammar_accept(w->state, id, err) != QR_OK)
            return false;
        qr_buf_append(text, v->bytes + v->at[id], w->state->ended ? 0 : v->at[id + 1] - v->at[id]);
    }
    qr_fail(err, QR_INTERNAL, "no end in sight");
    return false;
}

bool walk_ids(struct qr_grammar *grammar, const int32_t *ids, size_t n, struct qr_err *err)
{
    uint32_t *bits = calloc(grammar->vocab->n_word, sizeof *bits);
    struct qr_grammar_state *state;
    bool ok = qr_grammar_state_create(grammar, &state, err) == QR_OK;

    for (size_t i = 0; ok && i < n; i++) {
        ok = qr_grammar_mask(state, bits, err) == QR_OK;
        if (ok && !(bits[ids[i] / 32] >> ids[i] % 32 & 1)) {
            size_t len = grammar->vocab->at[ids[i] + 1] - grammar->vocab->at[ids[i]];

            qr_fail(err, QR_INVALID, "token %zu, \"%.*s\", is not in the mask", i, (int)len,
                    grammar->vocab->bytes + grammar->vocab->at[ids[i]]);
            ok = false;
        }
        ok = ok && qr_grammar_accept(state, ids[i], err) == QR_OK;
    }
    if (ok && !qr_grammar_may_end(state)) {
        qr_fail(err, QR_INVALID, "the text may not end");
        ok = false;
    }
    qr_grammar_state_destroy(state);
    free(bits);
    return ok;
}
