/* grammar_mask.c - which tokens may come next.
 *
 * For one thread, tokens fall in two: those that stay in the rule at the top of its stack depend on the state alone;
 * those that return from it depend on what lies below. A kept entry holds the first, and the trie nodes at which the
 * rule may have ended; an entry that hangs on it goes on from these nodes in the state that lies below; and so on. */
#include <stdlib.h>
#include <string.h>
#include "text/grammar_internal.h"
#include "text/grammar_state.h"
#include "text/vocab.h"

#define MAX_WORK  50000000u /* steps for one entry: about a second */
#define ROOT_NODE UINT32_MAX

static bool add_event(struct qr_gr_cache *c, uint32_t node)
{
    if (c->n_event == c->room_event) {
        size_t room = c->room_event ? c->room_event * 2 : 1024;
        uint32_t *event = realloc(c->event, room * sizeof *event);

        if (!event)
            return false;
        c->event = event;
        c->room_event = room;
    }
    c->event[c->n_event++] = node;
    return true;
}

static void add_token(const struct qr_grammar_vocab *v, uint32_t *bits, int32_t id)
{
    for (; id >= 0; id = v->same[id])
        bits[id / 32] |= 1u << id % 32;
}

struct mark { /* the threads after the bytes of a trie node */
    uint32_t from, to, n_frame;
};

static bool may_return(const struct qr_gr_space *space, const struct mark *m)
{
    for (uint32_t i = m->from; i < m->to; i++)
        if (qr_gr_returns(space, space->thread[i].state, space->thread[i].frame, QR_GR_OPAQUE))
            return true;
    return false;
}

/* One thread in a state with a table row and nothing else, which is most of a long walk: the state behind byte, or
 * QR_GR_NONE; SLOW when it needs more. */
#define SLOW UINT32_MAX
static inline uint32_t quick(const struct qr_gr_space *space, const struct mark *up, uint8_t byte)
{
    const struct qr_grammar *g = space->g;
    const struct qr_gr_thread *t = &space->thread[up->from];
    const struct qr_gr_state *s = &g->state[t->state], *next;
    uint32_t to;

    if (up->to - up->from != 1 || !s->dense || s->n_call || s->limit || t->frame != QR_GR_OPAQUE)
        return SLOW;
    to = g->row[s->dense - 1][byte];
    next = &g->state[to];
    if (!to)
        return QR_GR_NONE;
    if (next->height > space->rise || space->base + next->height > g->max_depth || to == QR_GR_FIN || next->between ||
        up->to == space->room_thread)
        return SLOW;
    return to;
}

/* Walks what hangs below a trie node with the thread that stands there. */
static bool walk(struct qr_grammar *g, struct qr_gr_thread start, uint32_t node)
{
    const struct qr_grammar_vocab *v = g->vocab;
    struct qr_gr_cache *c = &g->cache;
    struct qr_gr_space *space = &c->space;
    struct mark at[QR_GR_MAX_TOKEN + 1];
    uint32_t i = node == ROOT_NODE ? 0 : node + 1, end = node == ROOT_NODE ? v->n_node : v->skip[node];
    uint32_t base = node == ROOT_NODE ? 0 : v->depth[node];

    space->thread[0] = start;
    at[0] = (struct mark){0, 1, QR_GR_FRAMES};
    if (qr_gr_returns(space, start.state, start.frame, QR_GR_OPAQUE) && !add_event(c, node))
        return false;
    while (i < end && !space->full && space->work < MAX_WORK) {
        const struct mark *up = &at[v->depth[i] - base - 1];
        struct mark *m = &at[v->depth[i] - base];
        uint32_t to = quick(space, up, v->byte[i]);
        bool may_end;

        space->n_thread = space->set = up->to;
        space->n_frame = space->set_frame = up->n_frame;
        if (to == SLOW)
            for (uint32_t t = up->from; t < up->to; t++)
                qr_gr_step(space, space->thread[t], v->byte[i]);
        else if (to != QR_GR_NONE)
            space->thread[space->n_thread++] = (struct qr_gr_thread){to, 0, QR_GR_OPAQUE};
        *m = (struct mark){space->set, space->n_thread, space->n_frame};
        if (m->from == m->to) {
            i = v->skip[i];
            continue;
        }
        if (v->token[i] >= 0)
            add_token(v, c->bits, v->token[i]);
        may_end = to == SLOW ? may_return(space, m) : g->state[to].accept;
        if (may_end && v->skip[i] > i + 1 && !add_event(c, i))
            return false;
        i++;
    }
    return true;
}

/* Inside a string of any characters: from the table of the vocabulary. */
static bool look_up(struct qr_grammar *g, struct qr_gr_thread t)
{
    const struct qr_grammar_vocab *v = g->vocab;
    const struct qr_gr_texts *texts = &v->texts;
    const struct qr_gr_limit *limit = &g->limit[g->state[t.state].limit];
    uint32_t need = 0, room = QR_RE_MANY;

    if (g->state[t.state].limit) {
        need = limit->min > t.count ? limit->min - t.count : 0;
        room = limit->max > t.count ? limit->max - t.count : 0;
    }
    for (uint32_t w = 0; w < v->n_word; w++) {
        const uint16_t *chars = texts->chars + (size_t)w * 32;
        uint32_t n = v->n_bits - w * 32 < 32 ? v->n_bits - w * 32 : 32, word = 0;

        for (uint32_t i = 0; i < n; i++)
            word |= (uint32_t)(chars[i] != 0 && chars[i] <= room) << i;
        g->cache.bits[w] = word;
    }
    for (size_t i = 0; i < texts->n_closer; i++) {
        const struct qr_gr_closer *c = &texts->closer[i];

        if (c->chars < need || c->chars > room)
            continue;
        if (v->token[c->node] >= 0)
            add_token(v, g->cache.bits, v->token[c->node]);
        if (v->skip[c->node] > c->node + 1 && !add_event(&g->cache, c->node))
            return false;
    }
    return true;
}

static struct qr_gr_entry *pack(struct qr_grammar *g)
{
    struct qr_gr_cache *c = &g->cache;
    uint32_t n_word = g->vocab->n_word, n = 0, at = 0;
    size_t words, bytes;
    struct qr_gr_entry *e;
    uint32_t *data;

    for (uint32_t w = 0; w < n_word; w++)
        n += (uint32_t)__builtin_popcount(c->bits[w]);
    words = c->n_event + (n < n_word ? n : n_word);
    bytes = sizeof *e + words * sizeof(uint32_t);
    e = calloc(1, bytes);
    if (!e)
        return NULL;
    data = (uint32_t *)(void *)(e + 1);
    e->event = data;
    e->n_event = (uint32_t)c->n_event;
    if (c->n_event)
        memcpy(data, c->event, c->n_event * sizeof *data);
    data += c->n_event;
    if (n >= n_word) {
        e->bits = data;
        memcpy(data, c->bits, n_word * sizeof *data);
    } else {
        e->id = (int32_t *)data;
        e->n_id = n;
        for (uint32_t w = 0; w < n_word; w++)
            for (uint32_t word = c->bits[w]; word; word &= word - 1)
                e->id[at++] = (int32_t)(w * 32 + (uint32_t)__builtin_ctz(word));
    }
    c->bytes += bytes;
    return e;
}

static enum qr_status make(struct qr_grammar *g, const struct qr_gr_entry *above, struct qr_gr_thread start,
                           uint32_t depth, struct qr_gr_entry **out, struct qr_err *err)
{
    struct qr_gr_cache *c = &g->cache;
    struct qr_gr_space *space = &c->space;
    bool ok = true;

    memset(c->bits, 0, g->vocab->n_word * sizeof *c->bits);
    c->n_event = 0;
    space->base = depth ? depth - 1 : 0;
    space->rise = 0;
    space->work = 0;
    space->full = false;
    start.frame = QR_GR_OPAQUE;
    if (!above)
        ok = g->state[start.state].text && g->vocab->texts.chars ? look_up(g, start) : walk(g, start, ROOT_NODE);
    for (uint32_t i = 0; above && ok && i < above->n_event; i++)
        ok = walk(g, start, above->event[i]);
    *out = ok ? pack(g) : NULL;
    if (!*out)
        return qr_fail(err, QR_NOMEM, "out of memory for the token mask of a grammar");
    if (space->full || space->work >= MAX_WORK) {
        free(*out);
        return qr_fail(err, QR_LIMIT, "the grammar is too ambiguous here: more than %d readings side by side",
                       QR_GR_THREADS);
    }
    (*out)->rise = space->rise;
    return QR_OK;
}

static bool grow(struct qr_gr_cache *c)
{
    size_t n = c->n_slot ? c->n_slot * 2 : 64;
    struct qr_gr_entry **slot = calloc(n, sizeof *slot);

    if (!slot)
        return false;
    for (size_t i = 0; i < c->n_slot; i++)
        for (struct qr_gr_entry *e = c->slot[i], *next; e; e = next) {
            size_t at = (size_t)(qr_hash_mix((uint64_t)(uintptr_t)e->above * 31 + e->state * 0x10001u +
                                             e->count * 257u + e->depth) &
                                 (n - 1));

            next = e->chain;
            e->chain = slot[at];
            slot[at] = e;
        }
    free(c->slot);
    c->slot = slot;
    c->n_slot = n;
    return true;
}

/* key: stands for the count of the thread. */
static enum qr_status get(struct qr_grammar *g, const struct qr_gr_entry *above, struct qr_gr_thread start,
                          uint32_t key, uint32_t depth, struct qr_gr_entry **out, struct qr_err *err)
{
    struct qr_gr_cache *c = &g->cache;
    uint64_t hash = qr_hash_mix((uint64_t)(uintptr_t)above * 31 + start.state * 0x10001u + key * 257u + depth);

    for (struct qr_gr_entry *e = c->n_slot ? c->slot[hash & (c->n_slot - 1)] : NULL; e; e = e->chain)
        if (e->above == above && e->state == start.state && e->count == key && e->depth == depth) {
            *out = e;
            return QR_OK;
        }
    if (c->n_entry >= c->n_slot && !grow(c))
        return qr_fail(err, QR_NOMEM, "out of memory for the token mask of a grammar");
    QR_TRY(make(g, above, start, depth, out, err));
    (*out)->above = above;
    (*out)->state = start.state;
    (*out)->count = key;
    (*out)->depth = depth;
    (*out)->chain = c->slot[hash & (c->n_slot - 1)];
    c->slot[hash & (c->n_slot - 1)] = *out;
    c->n_entry++;
    return QR_OK;
}

static void clear(struct qr_gr_cache *c)
{
    for (size_t i = 0; i < c->n_slot; i++)
        for (struct qr_gr_entry *e = c->slot[i], *next; e; e = next) {
            next = e->chain;
            free(e);
        }
    free(c->slot);
    c->slot = NULL;
    c->n_slot = c->n_entry = c->bytes = 0;
}

/* Two counts are alike when no token is long enough to tell them apart. */
static uint32_t count_key(const struct qr_grammar *g, struct qr_gr_thread t)
{
    uint32_t index = g->state[t.state].limit, far = g->vocab->max_token + 1, need, room;

    if (!index)
        return 0;
    need = g->limit[index].min > t.count ? g->limit[index].min - t.count : 0;
    room = g->limit[index].max > t.count ? g->limit[index].max - t.count : 0;
    return (need < far ? need : far) * 1024 + (room < far ? room : far);
}

static enum qr_status mask_thread(struct qr_grammar *g, const struct qr_gr_frame *frame, struct qr_gr_thread t,
                                  uint32_t *bits, struct qr_err *err)
{
    const struct qr_gr_entry *above = NULL;

    for (;;) {
        uint32_t depth = frame[t.frame].depth, key = count_key(g, t);
        struct qr_gr_entry *e;

        QR_TRY(get(g, above, t, key, 0, &e, err));
        if (depth + e->rise > g->max_depth)
            QR_TRY(get(g, above, t, key, depth + 1, &e, err));
        if (e->bits)
            for (uint32_t w = 0; w < g->vocab->n_word; w++)
                bits[w] |= e->bits[w];
        for (uint32_t i = 0; i < e->n_id; i++)
            bits[e->id[i] / 32] |= 1u << e->id[i] % 32;
        if (!e->n_event || t.frame == QR_GR_ROOT)
            return QR_OK;
        above = e;
        t = (struct qr_gr_thread){frame[t.frame].next, 0, frame[t.frame].parent};
    }
}

enum qr_status qr_grammar_mask(struct qr_grammar_state *state, uint32_t *bits, struct qr_err *err)
{
    struct qr_grammar *g = state->g;
    const struct qr_grammar_vocab *v = g->vocab;
    enum qr_status status = QR_OK;

    memset(bits, 0, v->n_word * sizeof *bits);
    if (!state->ended) {
        pthread_mutex_lock(&g->cache.lock);
        if (g->cache.bytes > g->cache_bytes)
            clear(&g->cache);
        for (uint32_t i = 0; i < state->n_thread && status == QR_OK; i++)
            status = mask_thread(g, state->frame, state->thread[i], bits, err);
        pthread_mutex_unlock(&g->cache.lock);
        if (status != QR_OK)
            return status;
    }
    if (qr_grammar_may_end(state))
        for (size_t i = 0; i < v->n_end; i++)
            bits[v->end[i] / 32] |= 1u << v->end[i] % 32;
    for (uint32_t w = 0; w < v->n_word; w++)
        if (bits[w])
            return QR_OK;
    if (qr_grammar_may_end(state)) /* no end ids: the caller asks is_finished */
        return QR_OK;
    return qr_fail(err, QR_UNSUPPORTED, "no token of the vocabulary spells what the grammar wants next");
}

#define WARM_WIDTH 64 /* bytes that a state goes on with */
#define WARM_WORK  2000000

/* Makes the masks of states that most of the vocabulary goes through, so that no step waits for them. Failing is fine:
 * they are made when they are needed. */
void qr_gr_cache_warm(struct qr_grammar *g)
{
    uint64_t work = 0;

    for (uint32_t s = 0;
         s < g->n_state && g->vocab->texts.chars && work < WARM_WORK && g->cache.bytes < g->cache_bytes / 2; s++) {
        const struct qr_gr_state *t = &g->state[s];
        struct qr_gr_thread start = {s, t->limit ? g->limit[t->limit].min : 0, QR_GR_OPAQUE};
        struct qr_gr_entry *e;
        int width = 0;

        for (uint32_t i = t->edge; i < t->edge + t->n_edge; i++)
            width += g->edge[i].hi - g->edge[i].lo + 1;
        if (width < WARM_WIDTH || (t->limit && !t->between) || t->height == QR_GR_NEVER)
            continue;
        if (get(g, NULL, start, count_key(g, start), 0, &e, NULL) != QR_OK)
            return;
        work += g->cache.space.work;
    }
}

enum qr_status qr_gr_cache_init(struct qr_grammar *g)
{
    struct qr_gr_cache *c = &g->cache;
    struct qr_gr_space *space = &c->space;

    if (pthread_mutex_init(&c->lock, NULL) != 0)
        return QR_NOMEM;
    c->has_lock = true;
    space->g = g;
    space->room_frame = QR_GR_POOL;
    space->room_thread = 8 * QR_GR_POOL;
    space->frame = calloc(space->room_frame, sizeof *space->frame);
    space->thread = calloc(space->room_thread, sizeof *space->thread);
    c->bits = calloc(g->vocab->n_word, sizeof *c->bits);
    return space->frame && space->thread && c->bits ? QR_OK : QR_NOMEM;
}

void qr_gr_cache_free(struct qr_grammar *g)
{
    struct qr_gr_cache *c = &g->cache;

    clear(c);
    free(c->space.frame);
    free(c->space.thread);
    free(c->bits);
    free(c->event);
    if (c->has_lock)
        pthread_mutex_destroy(&c->lock);
}
