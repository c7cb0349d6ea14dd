/* grammar_dfaop.c - automata over code points combined: products, and what leads nowhere taken out. */
#include <stdlib.h>
#include <string.h>
#include "text/grammar_internal.h"
#include "text/utf8.h"
#include "text/vocab.h"

#define NOWHERE     UINT32_MAX
#define MAX_PRODUCT 200000

struct pair {
    uint32_t x, y;
};
struct product {
    struct qr_gr_builder *b;
    struct qr_gr_table table;
    struct pair *pair;
    struct qr_cdfa_state *state;
    size_t n, room_pair, room_state;
};

static uint32_t pair_state(struct product *p, uint32_t x, uint32_t y)
{
    uint64_t word = (uint64_t)x << 32 | y, key[2] = {qr_hash_mix((word ^ p->b->seed) * 0xD6E8FEB86659FD93u), word};
    uint32_t *slot = qr_gr_memo(p->b, &p->table, key);

    if (!slot || *slot)
        return slot ? *slot - 1 : NOWHERE;
    if (p->n >= MAX_PRODUCT) {
        qr_gr_fail(p->b, QR_LIMIT, "a pattern with its lengths needs more than %d states; shorten them", MAX_PRODUCT);
        return NOWHERE;
    }
    if (!qr_gr_room(p->b, &p->pair, p->n, &p->room_pair, sizeof *p->pair) ||
        !qr_gr_room(p->b, &p->state, p->n, &p->room_state, sizeof *p->state))
        return NOWHERE;
    p->pair[p->n] = (struct pair){x, y};
    p->state[p->n] = (struct qr_cdfa_state){0};
    *slot = (uint32_t)p->n + 1;
    return (uint32_t)p->n++;
}

static struct qr_cdfa *done(struct product *p)
{
    struct qr_cdfa *dfa = qr_gr_alloc(p->b, 1, sizeof *dfa);

    if (dfa) {
        dfa->n = (uint32_t)p->n;
        dfa->state = qr_gr_alloc(p->b, p->n, sizeof *dfa->state);
        if (dfa->state && p->n)
            memcpy(dfa->state, p->state, p->n * sizeof *dfa->state);
    }
    free(p->table.slot);
    free(p->pair);
    free(p->state);
    return p->b->status == QR_OK ? qr_cdfa_trim(p->b, dfa) : NULL;
}

/* Edges of the pair (x, y) where both move, or also where only x moves (y: NOWHERE). */
static void pair_edges(struct product *p, uint32_t index, const struct qr_cdfa *x, const struct qr_cdfa *y, bool alone)
{
    static const struct qr_cdfa_state none = {0};
    struct pair at = p->pair[index];
    const struct qr_cdfa_state *a = &x->state[at.x], *c = at.y == NOWHERE ? &none : &y->state[at.y];
    struct qr_cdfa_edge *edge = qr_gr_alloc(p->b, ((size_t)a->n + c->n) * 2 + 1, sizeof *edge);
    uint32_t n = 0, j = 0;

    for (uint32_t i = 0; edge && i < a->n && qr_gr_work(p->b, 1); i++) {
        int32_t lo = a->edge[i].lo;

        while (lo <= a->edge[i].hi && qr_gr_work(p->b, 1)) {
            int32_t hi = a->edge[i].hi;
            uint32_t to = NOWHERE;

            while (j < c->n && c->edge[j].hi < lo)
                j++;
            if (j < c->n && c->edge[j].lo <= lo) {
                to = c->edge[j].to;
                hi = c->edge[j].hi < hi ? c->edge[j].hi : hi;
            } else if (j < c->n && c->edge[j].lo <= hi)
                hi = c->edge[j].lo - 1;
            if (to != NOWHERE || alone)
                edge[n++] = (struct qr_cdfa_edge){lo, hi, pair_state(p, a->edge[i].to, to)};
            lo = hi + 1;
        }
    }
    p->state[index].edge = edge;
    p->state[index].n = n;
}

static struct qr_cdfa *combine(struct qr_gr_builder *b, const struct qr_cdfa *x, const struct qr_cdfa *y, bool without)
{
    struct product p = {.b = b};

    if (b->status != QR_OK || !x || !y)
        return NULL;
    if (x->n && (y->n || without))
        pair_state(&p, 0, y->n ? 0 : NOWHERE);
    for (uint32_t i = 0; i < p.n && b->status == QR_OK; i++) {
        bool in_y = p.pair[i].y != NOWHERE && y->state[p.pair[i].y].accept;

        p.state[i].accept = x->state[p.pair[i].x].accept && in_y != without;
        pair_edges(&p, i, x, y, without);
    }
    return done(&p);
}

struct qr_cdfa *qr_cdfa_and(struct qr_gr_builder *b, const struct qr_cdfa *x, const struct qr_cdfa *y)
{
    return combine(b, x, y, false);
}

struct qr_cdfa *qr_cdfa_without(struct qr_gr_builder *b, const struct qr_cdfa *x, const struct qr_cdfa *y)
{
    return combine(b, x, y, true);
}

struct qr_cdfa *qr_cdfa_length(struct qr_gr_builder *b, const struct qr_cdfa *x, uint32_t min, uint32_t max)
{
    struct product p = {.b = b};

    if (b->status != QR_OK || !x || !x->state)
        return NULL;
    if (x->n)
        pair_state(&p, 0, 0);
    for (uint32_t i = 0; i < p.n && b->status == QR_OK; i++) {
        struct pair at = p.pair[i];
        const struct qr_cdfa_state *a = &x->state[at.x];
        uint32_t next = max == QR_RE_MANY && at.y >= min ? at.y : at.y + 1; /* without an end, min is counted */
        struct qr_cdfa_edge *edge = qr_gr_alloc(b, a->n, sizeof *edge);
        uint32_t n = 0;

        for (uint32_t k = 0; edge && k < a->n && at.y < max && qr_gr_work(b, 1); k++)
            edge[n++] = (struct qr_cdfa_edge){a->edge[k].lo, a->edge[k].hi, pair_state(&p, a->edge[k].to, next)};
        p.state[i].accept = a->accept && at.y >= min;
        p.state[i].edge = edge;
        p.state[i].n = n;
    }
    return done(&p);
}

/* Marks what can reach an accepting state, by going backwards. */
static bool mark_alive(struct qr_gr_builder *b, const struct qr_cdfa *x, bool *alive)
{
    size_t n_edge = 0;
    uint32_t *start = calloc((size_t)x->n + 2, sizeof *start), *from, *stack = calloc((size_t)x->n + 1, sizeof *stack);
    size_t n = 0;

    for (uint32_t s = 0; s < x->n; s++)
        n_edge += x->state[s].n;
    from = calloc(n_edge + 1, sizeof *from);
    if (start && from && stack) {
        for (uint32_t s = 0; s < x->n; s++)
            for (uint32_t i = 0; i < x->state[s].n; i++)
                start[x->state[s].edge[i].to + 2]++;
        for (uint32_t s = 2; s < x->n + 2; s++)
            start[s] += start[s - 1];
        for (uint32_t s = 0; s < x->n; s++)
            for (uint32_t i = 0; i < x->state[s].n; i++)
                from[start[x->state[s].edge[i].to + 1]++] = s;
        for (uint32_t s = 0; s < x->n; s++)
            if (x->state[s].accept) {
                alive[s] = true;
                stack[n++] = s;
            }
        while (n > 0) {
            uint32_t s = stack[--n];

            for (uint32_t i = start[s]; i < start[s + 1]; i++)
                if (!alive[from[i]]) {
                    alive[from[i]] = true;
                    stack[n++] = from[i];
                }
        }
    } else
        qr_gr_nomem(b);
    free(start);
    free(from);
    free(stack);
    return b->status == QR_OK && qr_gr_work(b, n_edge);
}

struct qr_cdfa *qr_cdfa_trim(struct qr_gr_builder *b, struct qr_cdfa *x)
{
    bool *alive;

    if (b->status != QR_OK || !x || !x->n || !x->state)
        return b->status == QR_OK ? x : NULL;
    alive = qr_gr_alloc(b, x->n, sizeof *alive);
    if (!alive || !mark_alive(b, x, alive))
        return NULL;
    for (uint32_t s = 0; s < x->n; s++) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < x->state[s].n; i++)
            if (alive[x->state[s].edge[i].to])
                x->state[s].edge[n++] = x->state[s].edge[i];
        x->state[s].n = n;
    }
    if (!alive[0])
        x->n = 0;
    return x;
}

/* One state, which emitting counted strings relies on. */
struct qr_cdfa *qr_cdfa_any(struct qr_gr_builder *b)
{
    struct qr_cdfa *x = qr_gr_alloc(b, 1, sizeof *x);
    struct qr_cdfa_state *state = qr_gr_alloc(b, 1, sizeof *state);
    struct qr_cdfa_edge *edge = qr_gr_alloc(b, 2, sizeof *edge);

    if (!x || !state || !edge)
        return NULL;
    edge[0] = (struct qr_cdfa_edge){0, 0xD7FF, 0};
    edge[1] = (struct qr_cdfa_edge){0xE000, 0x10FFFF, 0};
    *state = (struct qr_cdfa_state){edge, 2, true};
    *x = (struct qr_cdfa){state, 1};
    return x;
}

bool qr_cdfa_matches(const struct qr_cdfa *x, const char *s, size_t n)
{
    uint32_t state = 0;

    if (!x->n)
        return false;
    for (size_t at = 0, len; at < n; at += len) {
        int32_t cp = qr_utf8_get(s + at, &len);
        const struct qr_cdfa_state *from = &x->state[state];
        uint32_t i = 0, end = from->n;

        while (i < end) {
            uint32_t mid = (i + end) / 2;

            if (from->edge[mid].hi < cp)
                i = mid + 1;
            else
                end = mid;
        }
        if (i == from->n || from->edge[i].lo > cp)
            return false;
        state = from->edge[i].to;
    }
    return x->state[state].accept;
}
