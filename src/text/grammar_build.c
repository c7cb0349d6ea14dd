/* grammar_build.c - states of the automaton: made, shared when equal, joined. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/checked.h"
#include "text/grammar_internal.h"
#include "text/vocab.h"

uint32_t qr_gr_fail(struct qr_gr_builder *b, enum qr_status status, const char *fmt, ...)
{
    char text[400];
    va_list args;

    if (b->status != QR_OK)
        return 0;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    b->status = qr_fail(b->err, status, "%s", text);
    return 0;
}

uint32_t qr_gr_nomem(struct qr_gr_builder *b)
{
    return qr_gr_fail(b, QR_NOMEM, "out of memory while compiling a grammar");
}

bool qr_gr_work(struct qr_gr_builder *b, uint64_t steps)
{
    if (b->status != QR_OK)
        return false;
    b->work += steps;
    if (b->work > b->max_work) {
        qr_gr_fail(b, QR_LIMIT, "the grammar needs more than %llu steps to compile; make it simpler",
                   (unsigned long long)b->max_work);
        return false;
    }
    return true;
}

void *qr_gr_alloc(struct qr_gr_builder *b, size_t n, size_t size)
{
    void *p = b->status == QR_OK ? qr_arena_array(b->arena, n ? n : 1, size) : NULL;

    if (!p)
        qr_gr_fail(b, QR_LIMIT, "the grammar needs too much memory to compile; make it simpler");
    return p;
}

/* An arena of its own for what dies when its states are made; the other one comes back. */
struct qr_arena *qr_gr_scratch(struct qr_gr_builder *b)
{
    struct qr_arena *outer = b->arena;

    b->arena = qr_arena_create(b->max_bytes);
    if (!b->arena)
        qr_gr_nomem(b);
    return outer;
}

void qr_gr_scratch_end(struct qr_gr_builder *b, struct qr_arena *outer)
{
    qr_arena_destroy(b->arena);
    b->arena = outer;
}

bool qr_gr_room(struct qr_gr_builder *b, void *array, size_t n, size_t *room, size_t size)
{
    void *old, *grown;
    size_t want = *room ? *room * 2 : 64;
    uint64_t bytes;

    if (b->status != QR_OK)
        return false;
    if (n < *room)
        return true;
    memcpy(&old, array, sizeof old);
    grown = qr_mul_u64(want, size, &bytes) ? realloc(old, bytes) : NULL;
    if (!grown) {
        qr_gr_nomem(b);
        return false;
    }
    memcpy(array, &grown, sizeof grown);
    *room = want;
    return true;
}

static bool table_grow(struct qr_gr_builder *b, struct qr_gr_table *table)
{
    size_t n = table->n_slot ? table->n_slot * 2 : 256;
    struct qr_gr_memo *slot = calloc(n, sizeof *slot);

    if (!slot) {
        qr_gr_nomem(b);
        return false;
    }
    for (size_t i = 0; i < table->n_slot; i++) {
        size_t at = table->slot[i].key[0] & (n - 1);

        if (!table->slot[i].value)
            continue;
        while (slot[at].value)
            at = (at + 1) & (n - 1);
        slot[at] = table->slot[i];
    }
    free(table->slot);
    table->slot = slot;
    table->n_slot = n;
    return true;
}

/* The value kept under this 128-bit hash; a new one is 0 and must be set before the next call. */
uint32_t *qr_gr_memo(struct qr_gr_builder *b, struct qr_gr_table *table, const uint64_t key[2])
{
    size_t at;

    if (b->status != QR_OK)
        return NULL;
    if (table->n_used * 2 >= table->n_slot && !table_grow(b, table))
        return NULL;
    at = key[0] & (table->n_slot - 1);
    while (table->slot[at].value && (table->slot[at].key[0] != key[0] || table->slot[at].key[1] != key[1]))
        at = (at + 1) & (table->n_slot - 1);
    if (!table->slot[at].value) {
        table->slot[at].key[0] = key[0];
        table->slot[at].key[1] = key[1];
        table->n_used++;
    }
    return &table->slot[at].value;
}

uint32_t qr_gr_new(struct qr_gr_builder *b)
{
    struct qr_grammar *g = b->g;

    if (!qr_gr_work(b, 4) || !qr_gr_room(b, &g->state, g->n_state, &g->room_state, sizeof *g->state))
        return 0;
    if (g->n_state >= b->max_states)
        return qr_gr_fail(b, QR_LIMIT, "the grammar needs more than %u states; make it smaller", b->max_states);
    g->state[g->n_state] = (struct qr_gr_state){0};
    return g->n_state++;
}

/* Sorts by byte and joins neighbours with the same target. The ranges do not overlap. */
static size_t tidy(struct qr_gr_edge *edge, size_t n)
{
    size_t used = 0;

    for (size_t i = 1; i < n; i++) {
        struct qr_gr_edge e = edge[i];
        size_t j = i;

        for (; j > 0 && edge[j - 1].lo > e.lo; j--)
            edge[j] = edge[j - 1];
        edge[j] = e;
    }
    for (size_t i = 0; i < n; i++) {
        if (!edge[i].to)
            continue;
        if (used && edge[used - 1].to == edge[i].to && edge[used - 1].hi + 1 == edge[i].lo)
            edge[used - 1].hi = edge[i].hi;
        else
            edge[used++] = edge[i];
    }
    return used;
}

void qr_gr_set(struct qr_gr_builder *b, uint32_t state, struct qr_gr_edge *edge, size_t n_edge,
               const struct qr_gr_call *call, size_t n_call, bool accept)
{
    struct qr_grammar *g = b->g;
    struct qr_gr_state *s;

    if (!qr_gr_work(b, 1 + n_edge + n_call))
        return;
    n_edge = tidy(edge, n_edge);
    if (n_edge > UINT16_MAX || g->n_edge + n_edge > UINT32_MAX / 2 || g->n_call + n_call > UINT32_MAX / 2) {
        qr_gr_fail(b, QR_LIMIT, "the grammar has too many alternatives in one place (%zu)", n_edge + n_call);
        return;
    }
    s = &g->state[state];
    s->edge = (uint32_t)g->n_edge;
    s->call = (uint32_t)g->n_call;
    s->accept = accept;
    for (size_t i = 0; i < n_edge; i++) {
        if (!qr_gr_room(b, &g->edge, g->n_edge, &g->room_edge, sizeof *g->edge))
            return;
        g->edge[g->n_edge++] = edge[i];
    }
    s->n_edge = (uint16_t)n_edge;
    for (size_t i = 0; i < n_call; i++) {
        if (!qr_gr_room(b, &g->call, g->n_call, &g->room_call, sizeof *g->call))
            return;
        g->call[g->n_call++] = call[i];
    }
    s->n_call = (uint32_t)n_call;
}

static void hash_word(uint64_t key[2], uint64_t word, size_t i)
{
    key[0] = qr_hash_mix((key[0] ^ word) * 0xD6E8FEB86659FD93u);
    key[1] = qr_hash_mix((key[1] + word) * 0xA0761D6478BD642Fu + i);
}

/* Equal keys stand for equal states: the hash has 128 bits and a seed of its own for every grammar. */
uint32_t qr_gr_cons(struct qr_gr_builder *b, struct qr_gr_edge *edge, size_t n_edge, const struct qr_gr_call *call,
                    size_t n_call, bool accept)
{
    uint64_t key[2] = {b->seed, ~b->seed * 3};
    uint32_t state, *slot;

    n_edge = tidy(edge, n_edge);
    for (size_t i = 0; i < n_edge; i++)
        hash_word(key, (uint64_t)edge[i].to << 16 | edge[i].lo << 8 | edge[i].hi, i);
    for (size_t i = 0; i < n_call; i++)
        hash_word(key, (uint64_t)call[i].rule << 32 | call[i].next, i + n_edge);
    key[0] = qr_hash_mix(key[0] + accept + 2 * n_edge);
    slot = qr_gr_memo(b, &b->cons, key);
    state = slot ? *slot : 0;
    if (!slot || state)
        return state;
    state = qr_gr_new(b);
    qr_gr_set(b, state, edge, n_edge, call, n_call, accept);
    if (b->status != QR_OK)
        return 0;
    *slot = state; /* nothing was put into the table meanwhile */
    return state;
}

uint32_t qr_gr_one(struct qr_gr_builder *b, uint8_t byte, uint32_t to)
{
    struct qr_gr_edge edge = {to, byte, byte};

    return qr_gr_cons(b, &edge, 1, NULL, 0, false);
}

uint32_t qr_gr_literal(struct qr_gr_builder *b, const char *s, size_t n, uint32_t next)
{
    while (n > 0 && b->status == QR_OK)
        next = qr_gr_one(b, (uint8_t)s[--n], next);
    return next;
}

uint32_t qr_gr_insert(struct qr_gr_builder *b, uint32_t state, const char *s, size_t n, uint32_t next)
{
    struct qr_gr_edge edge[257];
    const struct qr_gr_state *from;
    uint8_t byte = (uint8_t)s[0];
    uint32_t old = 0;
    size_t m = 0;

    if (n == 0 || b->status != QR_OK)
        return next;
    if (!state)
        return qr_gr_literal(b, s, n, next);
    from = &b->g->state[state];
    for (size_t i = 0; i < from->n_edge; i++) {
        struct qr_gr_edge e = b->g->edge[from->edge + i];

        if (byte < e.lo || byte > e.hi) {
            edge[m++] = e;
            continue;
        }
        old = e.to;
        if (e.lo < byte)
            edge[m++] = (struct qr_gr_edge){e.to, e.lo, byte - 1};
        if (e.hi > byte)
            edge[m++] = (struct qr_gr_edge){e.to, byte + 1, e.hi};
    }
    old = qr_gr_insert(b, old, s + 1, n - 1, next);
    edge[m++] = (struct qr_gr_edge){old, byte, byte};
    from = &b->g->state[state];
    return qr_gr_cons(b, edge, m, NULL, 0, from->accept);
}

static int by_text(const void *a, const void *b)
{
    const struct qr_gr_text *x = a, *y = b;
    int c = memcmp(x->s, y->s, x->n < y->n ? x->n : y->n);

    return c ? c : (x->n > y->n) - (x->n < y->n);
}

#define MAX_LEVEL 1000 /* branches on the way to one text: each is a recursion */

/* The texts share their first `depth` bytes. */
static uint32_t choice_at(struct qr_gr_builder *b, const struct qr_gr_text *text, size_t n, size_t depth, int level)
{
    struct qr_gr_edge edge[256];
    size_t m = 0, i = 0;
    bool accept = false;

    if (level > MAX_LEVEL)
        return qr_gr_fail(b, QR_LIMIT, "alternatives share starts in more than %d steps; use fewer of them", MAX_LEVEL);
    while (i < n && text[i].n == depth) {
        accept = true;
        i++;
    }
    if (i == n)
        return QR_GR_FIN;
    while (i < n && qr_gr_work(b, 1)) {
        uint8_t byte = (uint8_t)text[i].s[depth];
        size_t first = i, same = depth + 1;

        while (i < n && (uint8_t)text[i].s[depth] == byte)
            i++;
        /* What all have in common is no branch. */
        while (text[first].n > same && text[i - 1].n > same && text[first].s[same] == text[i - 1].s[same])
            same++;
        edge[m] = (struct qr_gr_edge){choice_at(b, text + first, i - first, same, level + 1), byte, byte};
        edge[m].to = qr_gr_literal(b, text[first].s + depth + 1, same - depth - 1, edge[m].to);
        m++;
    }
    return qr_gr_cons(b, edge, m, NULL, 0, accept);
}

uint32_t qr_gr_choice(struct qr_gr_builder *b, struct qr_gr_text *text, size_t n)
{
    if (n == 0)
        return 0;
    qsort(text, n, sizeof *text, by_text);
    return choice_at(b, text, n, 0, 0);
}

uint32_t qr_gr_union(struct qr_gr_builder *b, uint32_t x, uint32_t y)
{
    struct qr_gr_edge edge[512];
    struct qr_gr_call *call;
    struct qr_gr_state s, t;
    size_t n = 0;

    if (b->status != QR_OK || !x || !y)
        return x ? x : y;
    s = b->g->state[x];
    t = b->g->state[y];
    for (size_t i = 0; i < s.n_edge && n < 256; i++)
        edge[n++] = b->g->edge[s.edge + i];
    for (size_t i = 0; i < t.n_edge && n < 512; i++)
        edge[n++] = b->g->edge[t.edge + i];
    call = qr_gr_alloc(b, (size_t)s.n_call + t.n_call, sizeof *call);
    if (!call)
        return 0;
    for (size_t i = 0; i < s.n_call; i++)
        call[i] = b->g->call[s.call + i];
    for (size_t i = 0; i < t.n_call; i++)
        call[s.n_call + i] = b->g->call[t.call + i];
    return qr_gr_cons(b, edge, n, call, (size_t)s.n_call + t.n_call, s.accept || t.accept);
}

uint32_t qr_gr_spaced(struct qr_gr_builder *b, uint32_t state)
{
    return qr_gr_union(b, state, qr_gr_one(b, ' ', state));
}

uint32_t qr_gr_rule(struct qr_gr_builder *b)
{
    struct qr_grammar *g = b->g;

    if (b->status != QR_OK || !qr_gr_room(b, &g->rule, g->n_rule, &g->room_rule, sizeof *g->rule))
        return 0;
    g->rule[g->n_rule] = (struct qr_gr_rule){0};
    return g->n_rule++;
}

uint32_t qr_gr_limit(struct qr_gr_builder *b, uint32_t min, uint32_t max)
{
    struct qr_grammar *g = b->g;

    if (b->status != QR_OK || !qr_gr_room(b, &g->limit, g->n_limit, &g->room_limit, sizeof *g->limit))
        return 0;
    g->limit[g->n_limit].min = min + 1;
    g->limit[g->n_limit].max = max > QR_RE_MANY - 1 ? QR_RE_MANY : max + 1;
    return g->n_limit++;
}
