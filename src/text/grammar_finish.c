/* grammar_finish.c - the automaton made ready: what leads nowhere is cut off, so that a text can always be finished. */
#include <stdlib.h>
#include <string.h>
#include "text/grammar_internal.h"

/* Reverse edges: those into state s are from[start[s] .. start[s + 1]). */
struct back {
    uint32_t *start, *from;
};
struct heights {
    struct back edge, next; /* of byte edges; of calls by their next state (from: index of the call) */
    uint32_t *owner;        /* of a call: its state */
    uint32_t *stack;
    size_t n_stack;
};

static bool turn(const struct qr_grammar *g, struct heights *h)
{
    size_t n = g->n_state;
    struct back *e = &h->edge, *c = &h->next;

    e->start = calloc(n + 2, sizeof *e->start);
    c->start = calloc(n + 2, sizeof *c->start);
    e->from = calloc(g->n_edge + 1, sizeof *e->from);
    c->from = calloc(g->n_call + 1, sizeof *c->from);
    h->owner = calloc(g->n_call + 1, sizeof *h->owner);
    h->stack = calloc(n + 1, sizeof *h->stack);
    if (!e->start || !c->start || !e->from || !c->from || !h->owner || !h->stack)
        return false;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t s = 0; s < n; s++) {
            const struct qr_gr_state *t = &g->state[s];

            for (uint32_t i = t->edge; i < t->edge + t->n_edge; i++) {
                if (pass == 0)
                    e->start[g->edge[i].to + 2]++;
                else
                    e->from[e->start[g->edge[i].to + 1]++] = s;
            }
            for (uint32_t i = t->call; i < t->call + t->n_call; i++) {
                if (pass == 0)
                    c->start[g->call[i].next + 2]++;
                else
                    c->from[c->start[g->call[i].next + 1]++] = i;
                h->owner[i] = s;
            }
        }
        for (size_t s = 2; pass == 0 && s < n + 2; s++) {
            e->start[s] += e->start[s - 1];
            c->start[s] += c->start[s - 1];
        }
    }
    return true;
}

static void reach(struct qr_grammar *g, struct heights *h, uint32_t state, uint16_t height)
{
    if (state == QR_GR_NONE || g->state[state].height != QR_GR_NEVER)
        return;
    g->state[state].height = height;
    h->stack[h->n_stack++] = state;
}

static bool callable(const struct qr_grammar *g, const struct qr_gr_call *call, uint16_t height)
{
    uint16_t start = g->state[g->rule[call->rule].start].height;

    return start != QR_GR_NEVER && start + 1 <= height && g->state[call->next].height <= height;
}

/* Height by height: what can end without a call, with calls of what that found, ... */
static void measure(struct qr_grammar *g, struct heights *h)
{
    for (uint32_t s = 0; s < g->n_state; s++)
        g->state[s].height = QR_GR_NEVER;
    for (uint16_t height = 0; height <= (uint16_t)g->max_depth; height++) {
        for (uint32_t s = 0; height == 0 && s < g->n_state; s++)
            if (g->state[s].accept)
                reach(g, h, s, 0);
        for (uint32_t c = 0; c < g->n_call; c++)
            if (callable(g, &g->call[c], height))
                reach(g, h, h->owner[c], height);
        while (h->n_stack > 0) {
            uint32_t s = h->stack[--h->n_stack];

            for (uint32_t i = h->edge.start[s]; i < h->edge.start[s + 1]; i++)
                reach(g, h, h->edge.from[i], height);
            for (uint32_t i = h->next.start[s]; i < h->next.start[s + 1]; i++)
                if (callable(g, &g->call[h->next.from[i]], height))
                    reach(g, h, h->owner[h->next.from[i]], height);
        }
    }
}

static void cut(struct qr_grammar *g)
{
    for (uint32_t s = 0; s < g->n_state; s++) {
        struct qr_gr_state *t = &g->state[s];
        uint16_t n_edge = 0;
        uint32_t n_call = 0;

        for (uint32_t i = t->edge; i < t->edge + t->n_edge; i++)
            if (g->edge[i].to && g->state[g->edge[i].to].height != QR_GR_NEVER)
                g->edge[t->edge + n_edge++] = g->edge[i];
        for (uint32_t i = t->call; i < t->call + t->n_call; i++)
            if (g->state[g->call[i].next].height != QR_GR_NEVER &&
                g->state[g->rule[g->call[i].rule].start].height != QR_GR_NEVER)
                g->call[t->call + n_call++] = g->call[i];
        t->n_edge = n_edge;
        t->n_call = n_call;
        if (t->height != QR_GR_NEVER && t->height > g->max_height)
            g->max_height = t->height;
    }
}

/* Values start with one of these kinds of bytes. */
enum { N_KIND = 6 };

static int kind_of(int byte)
{
    switch (byte) {
    case '{':
        return 0;
    case '[':
        return 1;
    case '"':
        return 2;
    case 't':
    case 'f':
    case 'n':
        return 3;
    default:
        return byte == '-' || (byte >= '0' && byte <= '9') ? 4 : 5;
    }
}

/* Threads that one byte makes at a state, at most: by kinds. Those of a rule's start are at width + rule * N_KIND. */
static void count_threads(const struct qr_grammar *g, const struct qr_gr_state *s, const uint32_t *width, uint32_t *out)
{
    memset(out, 0, N_KIND * sizeof *out);
    for (uint32_t i = s->edge; i < s->edge + s->n_edge; i++)
        for (int c = g->edge[i].lo; c <= g->edge[i].hi; c++)
            out[kind_of(c)] = 1; /* edges do not overlap */
    for (uint32_t i = s->call; i < s->call + s->n_call; i++)
        for (int k = 0; k < N_KIND; k++)
            if (out[k] <= QR_GR_THREADS)
                out[k] += width[g->call[i].rule * N_KIND + (uint32_t)k];
}

/* Alternatives that start alike must fit beside each other; better refused here than in the middle of a text. */
static bool threads_fit(struct qr_gr_builder *b, const uint32_t *width)
{
    const struct qr_grammar *g = b->g;
    uint32_t n[N_KIND];

    for (uint32_t s = 0; s < g->n_state; s++) {
        if (g->state[s].height == QR_GR_NEVER || g->state[s].n_call < 2)
            continue;
        count_threads(g, &g->state[s], width, n);
        for (int k = 0; k < N_KIND; k++)
            if (n[k] > QR_GR_THREADS) {
                qr_gr_fail(b, QR_LIMIT,
                           "more than %d alternatives of an anyOf or oneOf start alike; use fewer, or one enum",
                           QR_GR_THREADS);
                return false;
            }
    }
    return true;
}

#define MAX_CHAIN 200 /* rules entered one in another before a byte: each is a recursion when stepping */

/* First sets, callees before callers; refuses a rule that enters itself. depth: 0 new, 1 open, 2 + chain done. */
static bool first_sets(struct qr_gr_builder *b, uint32_t *depth, uint32_t *path, uint32_t *at, uint32_t *width)
{
    struct qr_grammar *g = b->g;

    for (uint32_t root = 0; root < g->n_rule; root++) {
        size_t n = 0;

        if (depth[root])
            continue;
        path[n] = root;
        at[n++] = 0;
        depth[root] = 1;
        while (n > 0) {
            struct qr_gr_rule *rule = &g->rule[path[n - 1]];
            const struct qr_gr_state *s = &g->state[rule->start];
            uint32_t chain = 2;

            if (at[n - 1] < s->n_call) {
                uint32_t callee = g->call[s->call + at[n - 1]++].rule;

                if (depth[callee] == 1) {
                    qr_gr_fail(
                        b, QR_UNSUPPORTED,
                        "a $ref of the schema leads back to itself with no value in between; take the cycle out");
                    return false;
                }
                if (!depth[callee]) {
                    depth[callee] = 1;
                    path[n] = callee;
                    at[n++] = 0;
                }
                continue;
            }
            for (uint32_t i = s->edge; i < s->edge + s->n_edge; i++)
                for (int c = g->edge[i].lo; c <= g->edge[i].hi; c++)
                    rule->first[c / 32] |= 1u << c % 32;
            for (uint32_t i = s->call; i < s->call + s->n_call; i++) {
                uint32_t callee = g->call[i].rule;

                for (int w = 0; w < 8; w++)
                    rule->first[w] |= g->rule[callee].first[w];
                if (depth[callee] + 1 > chain)
                    chain = depth[callee] + 1;
            }
            if (chain > MAX_CHAIN) {
                qr_gr_fail(b, QR_LIMIT, "more than %d $refs or anyOf lead from one to the next before a value begins",
                           MAX_CHAIN - 2);
                return false;
            }
            depth[path[--n]] = chain;
            count_threads(g, s, width, width + (size_t)path[n] * N_KIND);
        }
    }
    return true;
}

#define MAX_ROW 4096 /* of 1 KB */

/* States with many edges get a table row. */
static bool make_rows(struct qr_grammar *g)
{
    uint32_t n = 0;

    for (uint32_t s = 0; s < g->n_state && n < MAX_ROW; s++)
        n += g->state[s].n_edge > 4;
    g->row = calloc(n ? n : 1, sizeof *g->row);
    if (!g->row)
        return false;
    for (uint32_t s = 0; s < g->n_state && g->n_row < n; s++) {
        struct qr_gr_state *t = &g->state[s];

        if (t->n_edge <= 4)
            continue;
        for (uint32_t i = t->edge; i < t->edge + t->n_edge; i++)
            for (int c = g->edge[i].lo; c <= g->edge[i].hi; c++)
                g->row[g->n_row][c] = g->edge[i].to;
        t->dense = ++g->n_row;
    }
    return true;
}

/* The array without its spare room. */
static void *shrunk(void *old, size_t n, size_t size)
{
    void *less = realloc(old, (n ? n : 1) * size);

    if (!less)
        return old;
    return less;
}

static bool walk_rules(struct qr_gr_builder *b)
{
    struct qr_grammar *g = b->g;
    uint32_t *depth = calloc(g->n_rule, sizeof *depth), *path = calloc(g->n_rule, sizeof *path);
    uint32_t *at = calloc(g->n_rule, sizeof *at), *width = calloc((size_t)g->n_rule * N_KIND, sizeof *width);
    bool ok = depth && path && at && width && first_sets(b, depth, path, at, width) && threads_fit(b, width);

    if (!depth || !path || !at || !width)
        qr_gr_nomem(b);
    free(width);
    free(depth);
    free(path);
    free(at);
    return ok;
}

enum qr_status qr_gr_finish(struct qr_gr_builder *b)
{
    struct qr_grammar *g = b->g;
    struct heights h = {0};
    bool ok;

    if (b->status != QR_OK || !qr_gr_work(b, g->n_state + g->n_edge + (uint64_t)g->n_call * (g->max_depth + 1)))
        return b->status;
    ok = turn(g, &h);
    if (ok)
        measure(g, &h);
    free(h.edge.start);
    free(h.edge.from);
    free(h.next.start);
    free(h.next.from);
    free(h.owner);
    free(h.stack);
    if (!ok) {
        qr_gr_nomem(b);
        return b->status;
    }
    for (size_t i = 0; i < b->n_empty; i++)
        if (g->state[g->rule[b->empty[i].rule].start].height != QR_GR_NEVER) {
            qr_gr_fail(b, QR_UNSUPPORTED,
                       "oneOf at %s has alternatives that a value may fulfil together, which cannot be honoured; "
                       "use anyOf, or a const that tells them apart",
                       b->empty[i].path);
            return b->status;
        }
    if (g->state[g->rule[0].start].height == QR_GR_NEVER) {
        qr_gr_fail(b, QR_INVALID, "no value fulfils the schema (in a nesting of up to %u); correct it", g->max_depth);
        return b->status;
    }
    cut(g);
    if (!walk_rules(b))
        return b->status;
    g->state = shrunk(g->state, g->n_state, sizeof *g->state);
    g->edge = shrunk(g->edge, g->n_edge, sizeof *g->edge);
    g->call = shrunk(g->call, g->n_call, sizeof *g->call);
    if (!make_rows(g))
        qr_gr_nomem(b);
    return b->status;
}
