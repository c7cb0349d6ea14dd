/* grammar_emit.c - automata over code points written as states over bytes: plain UTF-8, or a JSON string with escapes.
 *
 * A range of code points is a range of numbers with a fixed count of digits, each a byte: the digits of UTF-8 (RFC 3629)
 * or the hex digits of \uXXXX (RFC 8259, section 7). */
#include <string.h>
#include "text/grammar_internal.h"

struct digit {
    uint8_t bits;
    bool hex;     /* written as a hex digit in either case, else as a byte */
    uint8_t base; /* what digit 0 is */
};
struct space {
    int n;
    struct digit digit[6];
};
static const struct space utf8_2 = {2, {{5, false, 0xC0}, {6, false, 0x80}}};
static const struct space utf8_3 = {3, {{4, false, 0xE0}, {6, false, 0x80}, {6, false, 0x80}}};
static const struct space utf8_4 = {4, {{3, false, 0xF0}, {6, false, 0x80}, {6, false, 0x80}, {6, false, 0x80}}};
static const struct space hex4 = {4, {{4, true, 0}, {4, true, 0}, {4, true, 0}, {4, true, 0}}};
static const struct space low_surrogate = {
    6, {{0, false, '\\'}, {0, false, 'u'}, {0, true, 13}, {2, true, 12}, {4, true, 0}, {4, true, 0}}};

/* Numbers lo..hi lead to a state. */
struct part {
    uint32_t lo, hi, to;
};
struct edges {
    struct qr_gr_edge edge[600];
    size_t n;
};

static void put(struct edges *e, uint32_t lo, uint32_t hi, uint32_t to)
{
    if (e->n < 600)
        e->edge[e->n++] = (struct qr_gr_edge){to, (uint8_t)lo, (uint8_t)hi};
}

static void put_digits(struct edges *e, const struct digit *d, uint32_t lo, uint32_t hi, uint32_t to)
{
    lo += d->base;
    hi += d->base;
    if (!d->hex) {
        put(e, lo, hi, to);
        return;
    }
    if (lo < 10)
        put(e, '0' + lo, '0' + (hi < 10 ? hi : 9), to);
    if (hi >= 10) {
        put(e, 'a' + (lo > 10 ? lo : 10) - 10, 'a' + hi - 10, to);
        put(e, 'A' + (lo > 10 ? lo : 10) - 10, 'A' + hi - 10, to);
    }
}

/* The digits from `at` on, for sorted parts; edges of the first of them. */
static void digits(struct qr_gr_builder *b, const struct space *space, int at, struct part *part, size_t n,
                   struct edges *out);

static uint32_t digit_state(struct qr_gr_builder *b, const struct space *space, int at, struct part *part, size_t n)
{
    struct edges e;

    if (at == space->n)
        return part[0].to;
    e.n = 0;
    digits(b, space, at, part, n, &e);
    return b->status == QR_OK ? qr_gr_cons(b, e.edge, e.n, NULL, 0, false) : 0;
}

static void digits(struct qr_gr_builder *b, const struct space *space, int at, struct part *part, size_t n,
                   struct edges *out)
{
    const struct digit *d = &space->digit[at];
    uint32_t below = 0, size;

    for (int i = at + 1; i < space->n; i++)
        below += space->digit[i].bits;
    size = 1u << below;
    for (size_t i = 0; i < n && qr_gr_work(b, 1);) {
        uint32_t first = part[i].lo >> below, first_at = first << below;

        if (part[i].lo == first_at && part[i].hi - first_at >= size - 1) { /* whole digits */
            uint32_t last = (part[i].hi + 1 - first_at) / size + first - 1;
            struct part whole = {0, size - 1, part[i].to};

            put_digits(out, d, first, last, digit_state(b, space, at + 1, &whole, 1));
            part[i].lo = (last + 1) << below;
            if (part[i].lo > part[i].hi || last + 1 == 1u << d->bits)
                i++;
        } else {
            size_t from = i, m = 0;
            struct part few[8], *sub = few;

            while (i < n && part[i].lo >> below == first && part[i].hi >> below == first)
                i++;
            if (i - from + 1 > 8)
                sub = qr_gr_alloc(b, i - from + 1, sizeof *sub);
            if (!sub)
                return;
            for (size_t k = from; k < i; k++)
                sub[m++] = (struct part){part[k].lo - first_at, part[k].hi - first_at, part[k].to};
            if (i < n && part[i].lo >> below == first) { /* the last one goes on in the next digit */
                sub[m++] = (struct part){part[i].lo - first_at, size - 1, part[i].to};
                part[i].lo = first_at + size;
            }
            put_digits(out, d, first, first, digit_state(b, space, at + 1, sub, m));
        }
    }
}

/* The part of the edges that lies in [lo, hi], with states for the automaton's. */
static struct part *cut(struct qr_gr_builder *b, const struct qr_cdfa_edge *edge, uint32_t n, const uint32_t *state,
                        int32_t lo, int32_t hi, size_t *n_part)
{
    struct part *part = qr_gr_alloc(b, (size_t)n + 1, sizeof *part);

    *n_part = 0;
    for (uint32_t i = 0; part && i < n; i++) {
        int32_t from = edge[i].lo > lo ? edge[i].lo : lo, to = edge[i].hi < hi ? edge[i].hi : hi;

        if (from > to)
            continue;
        if (*n_part && part[*n_part - 1].hi + 1 == (uint32_t)from && part[*n_part - 1].to == state[edge[i].to])
            part[*n_part - 1].hi = (uint32_t)to;
        else
            part[(*n_part)++] = (struct part){(uint32_t)from, (uint32_t)to, state[edge[i].to]};
    }
    return part;
}

static void several_bytes(struct qr_gr_builder *b, const struct qr_cdfa_state *s, const uint32_t *state,
                          struct edges *out)
{
    static const struct {
        const struct space *space;
        int32_t lo, hi;
    } lengths[] = {{&utf8_2, 0x80, 0x7FF}, {&utf8_3, 0x800, 0xFFFF}, {&utf8_4, 0x10000, 0x10FFFF}};
    size_t n;

    for (int k = 0; k < 3; k++) {
        struct part *part = cut(b, s->edge, s->n, state, lengths[k].lo, lengths[k].hi, &n);

        if (part)
            digits(b, lengths[k].space, 0, part, n, out);
    }
}

/* Parts in the number space of \uXXXX: the characters of the BMP, and high surrogates that lead to low ones. */
static uint32_t hex_state(struct qr_gr_builder *b, const struct qr_cdfa_state *s, const uint32_t *state)
{
    size_t n_control, n_low, n_astral, n_high, n = 0;
    struct part *control = cut(b, s->edge, s->n, state, 0, 0x1F, &n_control);
    struct part *low = cut(b, s->edge, s->n, state, 0x7F, 0xD7FF, &n_low);
    struct part *astral = cut(b, s->edge, s->n, state, 0x10000, 0x10FFFF, &n_astral);
    struct part *high = cut(b, s->edge, s->n, state, 0xE000, 0xFFFF, &n_high);
    struct part *all = qr_gr_alloc(b, n_control + n_low + n_high + 3 * n_astral + 1, sizeof *all);

    if (!all || !control || !low || !astral || !high)
        return 0;
    memcpy(all, control, n_control * sizeof *all);
    memcpy(all + n_control, low, n_low * sizeof *all);
    n = n_control + n_low;
    for (size_t i = 0; i < n_astral && qr_gr_work(b, 1);) {
        uint32_t lo = astral[i].lo - 0x10000, hi = astral[i].hi - 0x10000, first = lo >> 10;
        struct part few[64], *sub = few;
        size_t m = 0, from = i;

        if ((lo & 0x3FF) == 0 && hi - lo >= 0x3FF) {
            uint32_t last = ((hi + 1) >> 10) - 1;
            struct part whole = {0, 0x3FF, astral[i].to};

            all[n++] = (struct part){0xD800 + first, 0xD800 + last, digit_state(b, &low_surrogate, 0, &whole, 1)};
            astral[i].lo = ((last + 1) << 10) + 0x10000;
            i += astral[i].lo > astral[i].hi;
            continue;
        }
        while (i < n_astral && (astral[i].hi - 0x10000) >> 10 == first)
            i++;
        if (i - from + 1 > 64)
            sub = qr_gr_alloc(b, i - from + 1, sizeof *sub);
        if (!sub)
            return 0;
        for (size_t k = from; k < i; k++)
            sub[m++] = (struct part){(astral[k].lo - 0x10000) & 0x3FF, (astral[k].hi - 0x10000) & 0x3FF, astral[k].to};
        if (i < n_astral && (astral[i].lo - 0x10000) >> 10 == first) {
            sub[m++] = (struct part){(astral[i].lo - 0x10000) & 0x3FF, 0x3FF, astral[i].to};
            astral[i].lo = ((first + 1) << 10) + 0x10000;
        }
        all[n++] = (struct part){0xD800 + first, 0xD800 + first, digit_state(b, &low_surrogate, 0, sub, m)};
    }
    memcpy(all + n, high, n_high * sizeof *all);
    n += n_high;
    return n && b->status == QR_OK ? digit_state(b, &hex4, 0, all, n) : 0;
}

static uint32_t escapes(struct qr_gr_builder *b, const struct qr_cdfa_state *s, const uint32_t *state)
{
    static const char letters[] = "\"\\bfnrt", codes[] = "\"\\\b\f\n\r\t";
    struct edges e;
    uint32_t hex = hex_state(b, s, state);

    e.n = 0;
    if (hex)
        put(&e, 'u', 'u', hex);
    for (int i = 0; letters[i]; i++)
        for (uint32_t k = 0; k < s->n; k++)
            if (s->edge[k].lo <= codes[i] && s->edge[k].hi >= codes[i])
                put(&e, (uint8_t)letters[i], (uint8_t)letters[i], state[s->edge[k].to]);
    return e.n ? qr_gr_cons(b, e.edge, e.n, NULL, 0, false) : 0;
}

static void one_byte(const struct qr_cdfa_state *s, const uint32_t *state, int32_t lo, int32_t hi, struct edges *out)
{
    for (uint32_t i = 0; i < s->n; i++) {
        int32_t from = s->edge[i].lo > lo ? s->edge[i].lo : lo, to = s->edge[i].hi < hi ? s->edge[i].hi : hi;

        if (from <= to)
            put(out, (uint32_t)from, (uint32_t)to, state[s->edge[i].to]);
    }
}

static void string_edges(struct qr_gr_builder *b, const struct qr_cdfa_state *s, const uint32_t *state,
                         struct edges *out)
{
    uint32_t escaped = escapes(b, s, state);

    one_byte(s, state, 0x20, '"' - 1, out);
    one_byte(s, state, '"' + 1, '\\' - 1, out);
    one_byte(s, state, '\\' + 1, 0x7F, out);
    several_bytes(b, s, state, out);
    if (escaped)
        put(out, '\\', '\\', escaped);
    if (s->accept)
        put(out, '"', '"', QR_GR_FIN);
}

/* States for those of x that can be reached. */
static uint32_t *make_states(struct qr_gr_builder *b, const struct qr_cdfa *x)
{
    uint32_t *state = qr_gr_alloc(b, x->n, sizeof *state), *stack = qr_gr_alloc(b, x->n, sizeof *stack);
    uint32_t n = 0;

    if (!state || !stack || !x->n)
        return NULL;
    state[0] = qr_gr_new(b);
    stack[n++] = 0;
    while (n > 0 && b->status == QR_OK) {
        const struct qr_cdfa_state *s = &x->state[stack[--n]];

        for (uint32_t i = 0; i < s->n; i++)
            if (!state[s->edge[i].to]) {
                state[s->edge[i].to] = qr_gr_new(b);
                stack[n++] = s->edge[i].to;
            }
    }
    return state;
}

static uint32_t emit(struct qr_gr_builder *b, const struct qr_cdfa *x, bool string)
{
    uint32_t *state = b->status == QR_OK && x && x->n ? make_states(b, x) : NULL;

    for (uint32_t i = 0; state && i < x->n && b->status == QR_OK; i++) {
        struct edges e;

        if (!state[i])
            continue;
        e.n = 0;
        if (string)
            string_edges(b, &x->state[i], state, &e);
        else {
            one_byte(&x->state[i], state, 0, 0x7F, &e);
            several_bytes(b, &x->state[i], state, &e);
        }
        qr_gr_set(b, state[i], e.edge, e.n, NULL, 0, !string && x->state[i].accept);
    }
    return state && b->status == QR_OK ? state[0] : 0;
}

uint32_t qr_gr_emit_raw(struct qr_gr_builder *b, const struct qr_cdfa *x)
{
    return emit(b, x, false);
}

uint32_t qr_gr_emit_string(struct qr_gr_builder *b, const struct qr_cdfa *x)
{
    uint32_t start = emit(b, x, true);

    return start ? qr_gr_one(b, '"', start) : 0;
}

uint32_t qr_gr_emit_counted(struct qr_gr_builder *b, uint32_t min, uint32_t max)
{
    const struct qr_cdfa *any = qr_cdfa_any(b);
    uint32_t first = b->g->n_state, start, limit;

    start = any ? emit(b, any, true) : 0;
    if (!start)
        return 0;
    b->g->state[start].text = true;
    if (min > 0 || max != QR_RE_MANY) {
        limit = qr_gr_limit(b, min, max);
        for (uint32_t s = first; s < b->g->n_state; s++)
            b->g->state[s].limit = limit;
        b->g->state[start].between = true;
    }
    return qr_gr_one(b, '"', start);
}
