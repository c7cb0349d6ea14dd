/* grammar_dfa.c - regular expressions over code points to deterministic automata: Thompson's construction (CACM 11(6),
 * 1968), then subsets. ^ and $ are edges that only the start's and the end's closure may follow. */
#include <stdlib.h>
#include <string.h>
#include "text/grammar_internal.h"
#include "text/vocab.h"

#define MAX_NFA 200000
#define MAX_DFA 50000

enum kind { SPLIT, SET, BEGIN, END, MATCH };
struct node {
    enum kind kind;
    int32_t out, out2; /* -1: none yet */
    const struct qr_cp_set *set;
};
struct nfa {
    struct qr_gr_builder *b;
    struct node *node;
    size_t n, room;
    const char *where;
};

static int32_t add(struct nfa *nfa, enum kind kind, int32_t out, int32_t out2, const struct qr_cp_set *set)
{
    if (!qr_gr_work(nfa->b, 1) || !qr_gr_room(nfa->b, &nfa->node, nfa->n, &nfa->room, sizeof *nfa->node))
        return -1;
    if (nfa->n >= MAX_NFA) {
        qr_gr_fail(nfa->b, QR_LIMIT, "%s: the pattern needs more than %d states; make it shorter", nfa->where, MAX_NFA);
        return -1;
    }
    nfa->node[nfa->n] = (struct node){kind, out, out2, set};
    return (int32_t)nfa->n++;
}

/* The way through re to next: built from its end. */
static int32_t build(struct nfa *nfa, const struct qr_re *re, int32_t next)
{
    int32_t at = next, loop;

    if (nfa->b->status != QR_OK || !re || next < 0)
        return -1;
    switch (re->kind) {
    case QR_RE_EMPTY:
        return next;
    case QR_RE_SET:
        return add(nfa, SET, next, -1, &re->set);
    case QR_RE_SEQ:
        for (uint32_t i = re->n_child; i-- > 0 && at >= 0;)
            at = build(nfa, re->child[i], at);
        return at;
    case QR_RE_ALT:
        at = build(nfa, re->child[re->n_child - 1], next);
        for (uint32_t i = re->n_child - 1; i-- > 0 && at >= 0;) {
            int32_t branch = build(nfa, re->child[i], next);

            at = branch < 0 ? -1 : add(nfa, SPLIT, branch, at, NULL);
        }
        return at;
    case QR_RE_REPEAT:
        if (re->max == QR_RE_MANY) {
            loop = add(nfa, SPLIT, -1, next, NULL);
            at = loop < 0 ? -1 : build(nfa, re->child[0], loop);
            if (at < 0)
                return -1;
            nfa->node[loop].out = at;
            at = loop;
        } else
            for (uint32_t i = re->min; i < re->max && at >= 0; i++) {
                int32_t body = build(nfa, re->child[0], at);

                at = body < 0 ? -1 : add(nfa, SPLIT, body, next, NULL);
            }
        for (uint32_t i = 0; i < re->min && at >= 0; i++)
            at = build(nfa, re->child[0], at);
        return at;
    case QR_RE_BEGIN:
        return add(nfa, BEGIN, next, -1, NULL);
    default:
        return add(nfa, END, next, -1, NULL);
    }
}

struct subset {
    uint32_t *node; /* sorted */
    uint32_t n;
};
struct maker {
    struct nfa nfa;
    struct qr_gr_builder *b;
    int32_t tail; /* the loop over anything behind a match, -1: none: whoever is there accepts all */
    uint32_t *mark, stamp;
    uint32_t *stack, *found, n_found;
    struct subset *set;
    size_t n_set, room_set;
    struct qr_gr_table table;
    struct qr_cdfa_state *state;
    size_t room_state;
    int32_t *cut; /* places where a range starts or ends */
    size_t n_cut, room_cut;
};

/* Adds the nodes reached from at without a code point. */
static void close_over(struct maker *m, int32_t at, bool at_start, bool at_end)
{
    uint32_t n = 0;

    m->stack[n++] = (uint32_t)at;
    while (n > 0 && qr_gr_work(m->b, 1)) {
        uint32_t i = m->stack[--n];
        const struct node *node = &m->nfa.node[i];

        if (m->mark[i] == m->stamp)
            continue;
        m->mark[i] = m->stamp;
        if (node->kind == SET || node->kind == MATCH || (node->kind == END && !at_end))
            m->found[m->n_found++] = i;
        if (node->kind == SPLIT || (node->kind == BEGIN && at_start) || (node->kind == END && at_end))
            m->stack[n++] = (uint32_t)node->out;
        if (node->kind == SPLIT)
            m->stack[n++] = (uint32_t)node->out2; /* the stack has two places a node */
    }
}

static int by_number(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static int by_place(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* The state of the nodes found; an equal one that stands there already, unless it is the start. */
static uint32_t intern(struct maker *m, bool start)
{
    uint64_t key[2] = {m->b->seed, m->b->seed * 7};
    struct subset set = {0};
    uint32_t *slot = NULL;

    for (uint32_t i = 0; m->tail >= 0 && i < m->n_found; i++)
        if (m->found[i] == (uint32_t)m->tail) {
            m->found[0] = (uint32_t)m->tail;
            m->n_found = 1;
        }
    if (m->n_found == 0)
        return UINT32_MAX;
    qsort(m->found, m->n_found, sizeof *m->found, by_number);
    for (uint32_t i = 0; i < m->n_found; i++) {
        key[0] = qr_hash_mix((key[0] ^ m->found[i]) * 0xD6E8FEB86659FD93u);
        key[1] = qr_hash_mix((key[1] + m->found[i]) * 0xA0761D6478BD642Fu + i);
    }
    if (!start) {
        slot = qr_gr_memo(m->b, &m->table, key);
        if (!slot || *slot)
            return slot ? *slot - 1 : UINT32_MAX;
    }
    if (m->n_set >= MAX_DFA) {
        qr_gr_fail(m->b, QR_LIMIT, "%s: the pattern needs more than %d states; make it simpler", m->nfa.where, MAX_DFA);
        return UINT32_MAX;
    }
    set.n = m->n_found;
    set.node = qr_gr_alloc(m->b, set.n, sizeof *set.node);
    if (!set.node || !qr_gr_room(m->b, &m->set, m->n_set, &m->room_set, sizeof *m->set) ||
        !qr_gr_room(m->b, &m->state, m->n_set, &m->room_state, sizeof *m->state))
        return UINT32_MAX;
    memcpy(set.node, m->found, set.n * sizeof *set.node);
    m->set[m->n_set] = set;
    m->state[m->n_set] = (struct qr_cdfa_state){0};
    if (slot)
        *slot = (uint32_t)m->n_set + 1;
    return (uint32_t)m->n_set++;
}

static bool accepts(struct maker *m, const struct subset *set, bool start)
{
    m->stamp++;
    m->n_found = 0;
    for (uint32_t i = 0; i < set->n; i++)
        close_over(m, (int32_t)set->node[i], start, true);
    for (uint32_t i = 0; i < m->n_found; i++)
        if (m->nfa.node[m->found[i]].kind == MATCH || (int32_t)m->found[i] == m->tail)
            return true;
    return false;
}

static bool contains(const struct qr_cp_set *set, int32_t cp)
{
    uint32_t lo = 0, hi = set->n;

    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;

        if (cp > set->range[mid].hi)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < set->n && cp >= set->range[lo].lo;
}

static bool gather_cuts(struct maker *m, const struct subset *set)
{
    size_t n = 0;

    m->n_cut = 0;
    for (uint32_t i = 0; i < set->n; i++) {
        const struct node *node = &m->nfa.node[set->node[i]];

        for (uint32_t r = 0; node->kind == SET && r < node->set->n; r++) {
            if (!qr_gr_work(m->b, 1) || !qr_gr_room(m->b, &m->cut, m->n_cut + 1, &m->room_cut, sizeof *m->cut))
                return false;
            m->cut[m->n_cut++] = node->set->range[r].lo;
            m->cut[m->n_cut++] = node->set->range[r].hi + 1;
        }
    }
    if (m->n_cut == 0)
        return true;
    qsort(m->cut, m->n_cut, sizeof *m->cut, by_place);
    for (size_t i = 1; i < m->n_cut; i++)
        if (m->cut[i] != m->cut[n])
            m->cut[++n] = m->cut[i];
    m->n_cut = n + 1;
    return true;
}

static void edges_of(struct maker *m, uint32_t index)
{
    struct qr_cdfa_edge *edge, *kept;
    uint32_t n = 0;

    if (!gather_cuts(m, &m->set[index]) || m->n_cut < 2)
        return;
    edge = malloc(m->n_cut * sizeof *edge);
    if (!edge) {
        qr_gr_nomem(m->b);
        return;
    }
    for (size_t c = 0; c + 1 < m->n_cut && qr_gr_work(m->b, m->set[index].n); c++) {
        const struct subset *set = &m->set[index];
        uint32_t to;

        m->stamp++;
        m->n_found = 0;
        for (uint32_t i = 0; i < set->n; i++) {
            const struct node *node = &m->nfa.node[set->node[i]];

            if (node->kind == SET && contains(node->set, m->cut[c]))
                close_over(m, node->out, false, false);
        }
        to = intern(m, false);
        if (to == UINT32_MAX)
            continue;
        if (n && edge[n - 1].to == to && edge[n - 1].hi + 1 == m->cut[c])
            edge[n - 1].hi = m->cut[c + 1] - 1;
        else
            edge[n++] = (struct qr_cdfa_edge){m->cut[c], m->cut[c + 1] - 1, to};
    }
    kept = qr_gr_alloc(m->b, n, sizeof *kept);
    if (kept && n)
        memcpy(kept, edge, n * sizeof *kept);
    if (kept) {
        m->state[index].edge = kept;
        m->state[index].n = n;
    }
    free(edge);
}

static struct qr_cdfa *determine(struct maker *m, int32_t start)
{
    struct qr_cdfa *dfa = NULL;

    m->mark = calloc(m->nfa.n + 1, sizeof *m->mark);
    m->stack = calloc(m->nfa.n * 3 + 3, sizeof *m->stack);
    m->found = calloc(m->nfa.n + 1, sizeof *m->found);
    if (!m->mark || !m->stack || !m->found) {
        qr_gr_nomem(m->b);
        return NULL;
    }
    m->stamp = 1;
    close_over(m, start, true, false);
    intern(m, true);
    for (uint32_t i = 0; i < m->n_set && m->b->status == QR_OK; i++) {
        m->state[i].accept = accepts(m, &m->set[i], i == 0);
        edges_of(m, i);
    }
    dfa = qr_gr_alloc(m->b, 1, sizeof *dfa);
    if (!dfa)
        return NULL;
    dfa->n = (uint32_t)m->n_set;
    dfa->state = qr_gr_alloc(m->b, dfa->n, sizeof *dfa->state);
    if (!dfa->state)
        return NULL;
    if (dfa->n)
        memcpy(dfa->state, m->state, dfa->n * sizeof *dfa->state);
    return qr_cdfa_trim(m->b, dfa);
}

struct qr_cdfa *qr_cdfa_from_re(struct qr_gr_builder *b, struct qr_re *re, bool search, const char *where)
{
    struct maker m = {.nfa = {.b = b, .where = where}, .b = b, .tail = -1};
    struct qr_re *any = search ? qr_re_range(b, 0, 0x10FFFF) : NULL;
    int32_t at = add(&m.nfa, MATCH, -1, -1, NULL), loop;
    struct qr_cdfa *dfa = NULL;

    if (search && any && at >= 0) {
        loop = add(&m.nfa, SPLIT, -1, at, NULL);
        m.tail = loop < 0 ? -1 : add(&m.nfa, SET, loop, -1, &any->set);
        if (m.tail >= 0)
            m.nfa.node[loop].out = m.tail;
        at = m.tail < 0 ? -1 : loop;
    }
    at = build(&m.nfa, re, at);
    if (search && any && at >= 0) {
        loop = add(&m.nfa, SPLIT, -1, at, NULL);
        at = loop < 0 ? -1 : add(&m.nfa, SET, loop, -1, &any->set);
        if (at >= 0)
            m.nfa.node[loop].out = at;
        at = at < 0 ? -1 : loop;
    }
    if (at >= 0 && b->status == QR_OK)
        dfa = determine(&m, at);
    free(m.nfa.node);
    free(m.mark);
    free(m.stack);
    free(m.found);
    free(m.set);
    free(m.table.slot);
    free(m.state);
    free(m.cut);
    return b->status == QR_OK ? dfa : NULL;
}
