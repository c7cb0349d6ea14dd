/* grammar_number.c - numbers as automata over their digits.
 *
 * Bounds become ranges of decimal digits. A bound is taken as the shortest decimal that reads back as its double, which
 * is what the schema's author wrote. Under bounds a number has at most 15 significant digits near them, so that no two
 * of its texts are one double, and what is above a bound as text is above it as a double. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "text/grammar_internal.h"

#define MAX_DIGITS   18
#define MAX_FRACTION 24
#define MAX_INTEGER  999999999999999999 /* of 18 digits */

static struct qr_re *seq2(struct qr_gr_builder *b, struct qr_re *x, struct qr_re *y)
{
    struct qr_re *pair[2] = {x, y};

    return x && y ? qr_re_make(b, QR_RE_SEQ, pair, 2) : NULL;
}

static struct qr_re *alt2(struct qr_gr_builder *b, struct qr_re *x, struct qr_re *y)
{
    struct qr_re *pair[2] = {x, y};

    if (!x || !y)
        return x ? x : y;
    return qr_re_make(b, QR_RE_ALT, pair, 2);
}

static struct qr_re *any_digits(struct qr_gr_builder *b, uint32_t min, uint32_t max)
{
    return qr_re_repeat(b, qr_re_range(b, '0', '9'), min, max);
}

/* Digit strings of the length n from lo to hi, compared as text. */
static struct qr_re *same_length(struct qr_gr_builder *b, const char *lo, const char *hi, size_t n)
{
    struct qr_re *all = NULL;
    char from[32], to[32];

    if (n == 0)
        return qr_re_make(b, QR_RE_EMPTY, NULL, 0);
    if (strspn(lo, "0") >= n && strspn(hi, "9") >= n)
        return any_digits(b, (uint32_t)n, (uint32_t)n);
    if (lo[0] == hi[0])
        return seq2(b, qr_re_range(b, lo[0], lo[0]), same_length(b, lo + 1, hi + 1, n - 1));
    memset(from, '0', n);
    memset(to, '9', n);
    from[n] = to[n] = 0;
    all = seq2(b, qr_re_range(b, lo[0], lo[0]), same_length(b, lo + 1, to + 1, n - 1));
    if (hi[0] - lo[0] > 1)
        all = alt2(b, all,
                   seq2(b, qr_re_range(b, lo[0] + 1, hi[0] - 1), any_digits(b, (uint32_t)n - 1, (uint32_t)n - 1)));
    return alt2(b, all, seq2(b, qr_re_range(b, hi[0], hi[0]), same_length(b, from + 1, hi + 1, n - 1)));
}

/* Integers of [lo, hi], 0 <= lo, without leading zeros; NULL when there are none. */
static struct qr_re *natural(struct qr_gr_builder *b, int64_t lo, int64_t hi)
{
    struct qr_re *all = NULL;
    char low[32], high[32];

    for (int n = 1; n <= MAX_DIGITS && lo <= hi; n++) {
        int64_t end = 9;

        for (int i = 1; i < n; i++)
            end = end * 10 + 9;
        if (lo > end)
            continue;
        snprintf(low, sizeof low, "%lld", (long long)lo);
        snprintf(high, sizeof high, "%lld", (long long)(hi < end ? hi : end));
        all = alt2(b, all, same_length(b, low, high, (size_t)n));
        lo = end + 1;
    }
    return all;
}

static struct qr_re *negated(struct qr_gr_builder *b, struct qr_re *re)
{
    return re ? seq2(b, qr_re_range(b, '-', '-'), re) : NULL;
}

static struct qr_re *integers(struct qr_gr_builder *b, int64_t lo, int64_t hi)
{
    struct qr_re *all = NULL;

    if (hi >= 0)
        all = natural(b, lo > 0 ? lo : 0, hi);
    if (lo < 0)
        all = alt2(b, all, negated(b, natural(b, hi < 0 ? -hi : 1, -lo)));
    return all;
}

/* Integers without leading zeros that m divides: the state is the remainder (and the start, and after a sign). */
static struct qr_cdfa *multiples(struct qr_gr_builder *b, uint32_t m)
{
    struct qr_cdfa *dfa = qr_gr_alloc(b, 1, sizeof *dfa);

    if (!dfa)
        return NULL;
    dfa->n = m + 3; /* 0 start, 1 after '-', 2 a lone zero, 3 + remainder */
    dfa->state = qr_gr_alloc(b, dfa->n, sizeof *dfa->state);
    for (uint32_t s = 0; dfa->state && s < dfa->n && qr_gr_work(b, 10); s++) {
        struct qr_cdfa_edge *edge = qr_gr_alloc(b, 11, sizeof *edge);
        uint32_t n = 0;

        if (!edge)
            return NULL;
        if (s == 0)
            edge[n++] = (struct qr_cdfa_edge){'-', '-', 1};
        for (int d = s < 2 ? 1 : 0; d < 10 && s != 2; d++) {
            if (s == 0 && d == 1)
                edge[n++] = (struct qr_cdfa_edge){'0', '0', 2};
            edge[n++] = (struct qr_cdfa_edge){'0' + d, '0' + d,
                                              3 + (uint32_t)(((uint64_t)(s < 3 ? 0 : s - 3) * 10 + (uint64_t)d) % m)};
        }
        dfa->state[s].edge = edge;
        dfa->state[s].n = n;
        dfa->state[s].accept = s == 2 || s == 3;
    }
    return dfa->state ? dfa : NULL;
}

/* A bound as decimal: sign, whole part, fraction digits without trailing zeros. */
struct decimal {
    bool negative;
    int64_t whole;
    char fraction[40];
};

static bool decimal_of(double x, struct decimal *d)
{
    char text[64], *e;
    int places = 0;

    memset(d, 0, sizeof *d);
    if (!(fabs(x) < 1e15))
        return false;
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*e", precision - 1, x);
        if (strtod(text, NULL) == x)
            break;
    }
    e = strchr(text, 'e');
    if (e)
        places = (int)((strchr(text, '.') ? e - strchr(text, '.') - 1 : 0) - strtol(e + 1, NULL, 10));
    if (places > 30)
        return false;
    snprintf(text, sizeof text, "%.*f", places > 0 ? places : 0, fabs(x));
    d->negative = x < 0;
    d->whole = strtoll(text, &e, 10);
    if (*e == '.')
        snprintf(d->fraction, sizeof d->fraction, "%s", e + 1);
    for (size_t n = strlen(d->fraction); n > 0 && d->fraction[n - 1] == '0'; n--)
        d->fraction[n - 1] = 0;
    return true;
}

/* Fractions (with their point, or none at all) that compare so to `digits`: above or below, or equal where allowed;
 * at most `most` digits. NULL: none. */
static struct qr_re *fraction(struct qr_gr_builder *b, const char *digits, bool above, bool equal, uint32_t most)
{
    size_t n = strlen(digits);
    struct qr_re *all = NULL, *none = qr_re_make(b, QR_RE_EMPTY, NULL, 0), *zeros;

    for (size_t i = 0; i < n && i < most; i++) { /* the first i digits are equal, then one differs */
        int lo = above ? digits[i] + 1 : '0', hi = above ? '9' : digits[i] - 1;
        struct qr_re *same = qr_re_text(b, digits, i);

        if (lo <= hi)
            all =
                alt2(b, all, seq2(b, same, seq2(b, qr_re_range(b, lo, hi), any_digits(b, 0, most - (uint32_t)i - 1))));
        if (!above && i > 0) /* a shorter one is below */
            all = alt2(b, all, same);
    }
    if (n > most && !above)
        all = alt2(b, all, most ? qr_re_text(b, digits, most) : NULL);
    if (n > most)
        return all ? alt2(b, seq2(b, qr_re_range(b, '.', '.'), all), above ? NULL : none) : above ? NULL : none;
    zeros = qr_re_repeat(b, qr_re_range(b, '0', '0'), 0, most - (uint32_t)n);
    if (equal && n)
        all = alt2(b, all, seq2(b, qr_re_text(b, digits, n), zeros));
    if (equal && !n && most)
        all = alt2(b, all, qr_re_repeat(b, qr_re_range(b, '0', '0'), 1, most));
    if (above && n < most) { /* what goes on with a digit that is not 0 */
        struct qr_re *some = qr_re_repeat(b, qr_re_range(b, '0', '0'), 0, most - (uint32_t)n - 1);
        struct qr_re *rest = seq2(b, some, seq2(b, qr_re_range(b, '1', '9'), any_digits(b, 0, most)));

        all = alt2(b, all, n ? seq2(b, qr_re_text(b, digits, n), rest) : rest);
    }
    if (all)
        all = seq2(b, qr_re_range(b, '.', '.'), all);
    if (n == 0 ? equal : !above) /* no fraction at all is zero */
        all = alt2(b, all, none);
    return all;
}

/* What a schema says of a number, all of it merged. */
struct bound {
    bool set, open;
    struct decimal at;
};
struct bounds {
    struct bound lo, hi;
    uint32_t most; /* fraction digits */
    int64_t step;  /* an integer that divides it; 0: none */
};

static struct qr_re *whole_and(struct qr_gr_builder *b, int64_t lo, int64_t hi, struct qr_re *rest)
{
    struct qr_re *whole = lo <= hi && rest ? natural(b, lo, hi) : NULL;

    return whole ? seq2(b, whole, rest) : NULL;
}

/* Texts of sign and a decimal of the range. NULL: none, or failed. */
static struct qr_cdfa *decimals(struct qr_gr_builder *b, bool minus, struct bound lo, struct bound hi, uint32_t most)
{
    struct qr_re *part = seq2(b, qr_re_range(b, '.', '.'), any_digits(b, 1, most)), *side[2];
    struct qr_re *any = most ? qr_re_repeat(b, part, 0, 1) : qr_re_make(b, QR_RE_EMPTY, NULL, 0);
    const int64_t end = 999999999999999;
    struct qr_cdfa *dfa = NULL;

    side[0] = side[1] = whole_and(b, 0, end, any);
    if (lo.set)
        side[0] = alt2(b, whole_and(b, lo.at.whole + 1, end, any),
                       whole_and(b, lo.at.whole, lo.at.whole, fraction(b, lo.at.fraction, true, !lo.open, most)));
    if (hi.set)
        side[1] = alt2(b, whole_and(b, 0, hi.at.whole - 1, any),
                       whole_and(b, hi.at.whole, hi.at.whole, fraction(b, hi.at.fraction, false, !hi.open, most)));
    for (int i = 0; i < 2; i++) {
        struct qr_re *re = minus ? negated(b, side[i]) : side[i];
        struct qr_cdfa *one = re ? qr_cdfa_from_re(b, re, false, "a number") : NULL;

        if (!one)
            return NULL;
        dfa = dfa ? qr_cdfa_and(b, dfa, one) : one;
    }
    return dfa && dfa->n ? dfa : NULL;
}

static uint32_t real_range(struct qr_gr_builder *b, const struct bounds *is)
{
    struct bound none = {0}, zero = {.set = true, .open = true};
    struct qr_cdfa *above = NULL, *below = NULL;

    if (!is->hi.set || !is->hi.at.negative)
        above = decimals(b, false, is->lo.set && !is->lo.at.negative ? is->lo : none, is->hi, is->most);
    if (!is->lo.set || is->lo.at.negative)
        below = decimals(b, true, is->hi.set && is->hi.at.negative ? is->hi : zero, is->lo, is->most);
    return qr_gr_union(b, above ? qr_gr_emit_raw(b, above) : 0, below ? qr_gr_emit_raw(b, below) : 0);
}

static int64_t clamp(double x)
{
    return x < -(double)MAX_INTEGER ? -MAX_INTEGER - 1 : x > (double)MAX_INTEGER ? MAX_INTEGER + 1 : (int64_t)x;
}

/* The least or greatest integer that a bound allows. */
static int64_t integer_bound(const json_t *schema, const char *key, bool open, bool low, int64_t without)
{
    const json_t *value = json_object_get(schema, key);
    double x, whole;

    if (!json_is_number(value))
        return without;
    if (json_is_integer(value)) {
        int64_t at = json_integer_value(value);

        if (at < -MAX_INTEGER - 1 || at > MAX_INTEGER + 1)
            at = at < 0 ? -MAX_INTEGER - 1 : MAX_INTEGER + 1;
        return at + (open ? low ? 1 : -1 : 0);
    }
    x = json_real_value(value);
    whole = low ? ceil(x) : floor(x);
    return clamp(whole) + (open && whole == x ? low ? 1 : -1 : 0);
}

static uint32_t integer_range(struct qr_gr_builder *b, const json_t *schema, int64_t step)
{
    int64_t lo = -MAX_INTEGER, hi = MAX_INTEGER, at;
    struct qr_re *re;
    struct qr_cdfa *dfa;

    at = integer_bound(schema, "minimum", false, true, lo);
    lo = at > lo ? at : lo;
    at = integer_bound(schema, "exclusiveMinimum", true, true, lo);
    lo = at > lo ? at : lo;
    at = integer_bound(schema, "maximum", false, false, hi);
    hi = at < hi ? at : hi;
    at = integer_bound(schema, "exclusiveMaximum", true, false, hi);
    hi = at < hi ? at : hi;
    re = lo <= hi ? integers(b, lo, hi) : NULL;
    dfa = re ? qr_cdfa_from_re(b, re, false, "an integer") : NULL;
    if (dfa && step > 1)
        dfa = qr_cdfa_and(b, dfa, multiples(b, (uint32_t)step));
    return dfa && dfa->n ? qr_gr_emit_raw(b, dfa) : 0;
}

/* multipleOf as an integer step, or as a count of fraction digits. False: refused. */
static bool multiple_of(struct qr_gr_builder *b, const json_t *schema, bool integer, const char *path, int64_t *step,
                        uint32_t *places)
{
    const json_t *value = json_object_get(schema, "multipleOf");
    double m = json_number_value(value);

    if (!value)
        return true;
    if (!(m > 0) || m > 1e15) {
        qr_gr_fail(b, QR_INVALID, "multipleOf at %s is not a number above 0 (and up to 1e15)", path);
        return false;
    }
    for (uint32_t k = 0; k <= 9; k++) {
        double power = pow(10, k), scaled = round(m * power);
        int64_t p = (int64_t)scaled, q = (int64_t)power, r;

        if (scaled < 1 || fabs(scaled / power - m) > m * 1e-15)
            continue;
        for (int64_t x = p, y = q; y; r = x % y, x = y, y = r)
            if (x % y == 0) {
                p /= y;
                q /= y;
                break;
            }
        if ((integer || q == 1) && p <= 10000) {
            *step = p;
            return true;
        }
        if (!integer && p == 1 && (double)q == power) {
            *places = k;
            return true;
        }
        break;
    }
    qr_gr_fail(b, QR_UNSUPPORTED,
               "multipleOf %g at %s cannot be honoured: integers up to 10000 can, and 0.1, 0.01, ... for numbers", m,
               path);
    return false;
}

/* A bound of the schema; of an open and a closed one the narrower. False: refused. */
static bool real_bound(struct qr_gr_builder *b, const json_t *schema, bool low, const char *path, struct bounds *is)
{
    const char *const name[2] = {low ? "minimum" : "maximum", low ? "exclusiveMinimum" : "exclusiveMaximum"};
    struct bound *bound = low ? &is->lo : &is->hi;
    double best = 0;
    uint32_t digits;

    for (int open = 0; open < 2; open++) {
        const json_t *value = json_object_get(schema, name[open]);
        double x = json_number_value(value);

        if (!value || (bound->set && (low ? x < best : x > best)))
            continue;
        bound->set = true;
        bound->open = open;
        best = x;
    }
    if (!bound->set)
        return true;
    is->most = 14;                            /* as soon as there is a bound */
    if (low ? best <= -1e15 : best >= 1e15) { /* beyond every number that is written */
        bound->set = false;
        return true;
    }
    if (!decimal_of(best, &bound->at)) {
        qr_gr_fail(b, QR_UNSUPPORTED, "%s %g at %s cannot be honoured; the limit for numbers is 1e15",
                   name[bound->open], best, path);
        return false;
    }
    digits = (uint32_t)snprintf(NULL, 0, "%lld", (long long)bound->at.whole);
    if (bound->open && digits + strlen(bound->at.fraction) > 15) {
        qr_gr_fail(b, QR_UNSUPPORTED, "%s %.17g at %s has more than 15 digits and cannot be honoured; shorten it",
                   name[1], best, path);
        return false;
    }
    return true;
}

static void set_places(struct bounds *is)
{
    const struct bound *side[2] = {&is->lo, &is->hi};
    uint32_t most = 14, least = 0;

    for (int i = 0; i < 2; i++) {
        uint32_t digits, places;

        if (!side[i]->set)
            continue;
        digits = (uint32_t)snprintf(NULL, 0, "%lld", (long long)side[i]->at.whole);
        places = (uint32_t)strlen(side[i]->at.fraction);
        most = 15 - digits < most ? 15 - digits : most;
        least = places > least ? places : least;
    }
    is->most = most > least ? most : least;
}

static uint32_t number(struct qr_gr_builder *b, const json_t *schema, bool integer, const char *path)
{
    static const char plain[] = "-?(0|[1-9][0-9]{0,17})(\\.[0-9]{1,24})?([eE][+-]?[0-9]{1,2})?";
    struct bounds is = {.most = MAX_FRACTION};
    uint32_t places = MAX_FRACTION;
    int64_t step = 0;
    struct qr_re *re;

    if (!multiple_of(b, schema, integer, path, &step, &places))
        return 0;
    if (integer || step > 0)
        return integer_range(b, schema, step);
    if (!real_bound(b, schema, true, path, &is) || !real_bound(b, schema, false, path, &is))
        return 0;
    if (is.most == MAX_FRACTION && places == MAX_FRACTION) {
        re = qr_re_parse(b, plain, sizeof plain - 1, "a number");
        return re ? qr_gr_emit_raw(b, qr_cdfa_from_re(b, re, false, "a number")) : 0;
    }
    set_places(&is);
    if (places < is.most)
        is.most = places;
    return real_range(b, &is);
}

uint32_t qr_gr_number(struct qr_gr_builder *b, const json_t *schema, bool integer, const char *path)
{
    struct qr_arena *outer = qr_gr_scratch(b);
    uint32_t start = number(b, schema, integer, path);

    qr_gr_scratch_end(b, outer);
    return start;
}
