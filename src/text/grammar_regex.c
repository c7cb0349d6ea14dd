/* grammar_regex.c - the regular expressions of "pattern" and of regex output, as trees.
 *
 * The part of ECMA-262 (with the u flag) that is regular: literals, . [...] | ( ) (?: ) (?<name> ), * + ? {n} {n,}
 * {n,m} and their lazy forms (which match the same texts), ^ and $, \d \w \s \D \W \S, \t \n \v \f \r \0 \xHH \uHHHH
 * \u{H} \cX, \p{Lu} and \P{Lu} (general categories), \/ and \ before other punctuation. Look-around (but at the
 * start, grammar_pattern.c), back references and \b are refused by name. */
#include <string.h>
#include "text/grammar_internal.h"
#include "text/utf8.h"

#define MAX_NEST  100
#define MAX_COUNT 10000 /* in {n,m} */

struct parser {
    struct qr_gr_builder *b;
    const char *start, *s, *end;
    const char *where;
    int depth;
};

struct qr_re *qr_re_make(struct qr_gr_builder *b, enum qr_re_kind kind, struct qr_re *const *child, uint32_t n)
{
    struct qr_re *re = qr_gr_alloc(b, 1, sizeof *re);

    if (!re)
        return NULL;
    re->kind = kind;
    if (n) {
        re->child = qr_gr_alloc(b, n, sizeof *re->child);
        if (!re->child)
            return NULL;
        memcpy(re->child, child, n * sizeof *child);
        for (uint32_t i = 0; i < n; i++)
            if (!child[i])
                return NULL;
    }
    re->n_child = n;
    return re;
}

struct qr_re *qr_re_repeat(struct qr_gr_builder *b, struct qr_re *re, uint32_t min, uint32_t max)
{
    struct qr_re *repeat = qr_re_make(b, QR_RE_REPEAT, &re, 1);

    if (!repeat)
        return NULL;
    repeat->min = min;
    repeat->max = max;
    return repeat;
}

static struct qr_re *set_node(struct qr_gr_builder *b, struct qr_cp_set set)
{
    struct qr_re *re = qr_re_make(b, QR_RE_SET, NULL, 0);

    if (re)
        re->set = set;
    return re;
}

struct qr_re *qr_re_range(struct qr_gr_builder *b, int32_t lo, int32_t hi)
{
    struct qr_cp_range range = {lo, hi};

    return set_node(b, qr_cp_make(b, &range, 1));
}

struct qr_re *qr_re_text(struct qr_gr_builder *b, const char *ascii, size_t n)
{
    struct qr_re **child = qr_gr_alloc(b, n, sizeof(struct qr_re *));

    for (size_t i = 0; child && i < n; i++)
        child[i] = qr_re_range(b, ascii[i], ascii[i]);
    return child ? qr_re_make(b, QR_RE_SEQ, child, (uint32_t)n) : NULL;
}

static struct qr_re *refuse(struct parser *p, enum qr_status status, const char *what)
{
    qr_gr_fail(p->b, status, "%s: the pattern has %s at character %zu%s", p->where, what, (size_t)(p->s - p->start),
               status == QR_UNSUPPORTED ? ", which is not supported; rewrite it" : "");
    return NULL;
}

static bool next_is(struct parser *p, const char *text)
{
    size_t n = strlen(text);

    if ((size_t)(p->end - p->s) < n || memcmp(p->s, text, n) != 0)
        return false;
    p->s += n;
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Exactly n hex digits; -1: none. */
static int32_t hex(struct parser *p, int n)
{
    int32_t cp = 0;

    if (p->end - p->s < n)
        return -1;
    for (int i = 0; i < n; i++) {
        int d = hex_digit(p->s[i]);

        if (d < 0)
            return -1;
        cp = cp * 16 + d;
    }
    p->s += n;
    return cp;
}

static int32_t unicode_escape(struct parser *p)
{
    int32_t cp = -1, low;

    if (next_is(p, "{")) {
        for (cp = 0; p->s < p->end && *p->s != '}' && cp <= 0x10FFFF; p->s++) {
            int d = hex_digit(*p->s);

            if (d < 0)
                return -1;
            cp = cp * 16 + d;
        }
        return next_is(p, "}") ? cp : -1;
    }
    cp = hex(p, 4);
    if (cp >= 0xD800 && cp <= 0xDBFF) {
        if (!next_is(p, "\\u"))
            return -1;
        low = hex(p, 4);
        if (low < 0xDC00 || low > 0xDFFF)
            return -1;
        cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
    }
    return cp;
}

/* Behind a backslash: one code point (*cp) or a set (*cp -1). False: refused. */
static bool escape(struct parser *p, bool in_class, int32_t *cp, struct qr_cp_set *set)
{
    static const char letters[] = "tnvfr", codes[] = "\t\n\v\f\r";
    char c = p->s < p->end ? *p->s++ : 0;
    const char *at = c ? strchr(letters, c) : NULL;

    *cp = -1;
    if (c && strchr("dDwWsS", c)) {
        *set = qr_cp_class(p->b, c);
        return true;
    }
    if (c == 'p' || c == 'P') {
        const char *close = p->s < p->end && *p->s == '{' ? memchr(p->s, '}', (size_t)(p->end - p->s)) : NULL;

        if (!close || !qr_cp_property(p->b, p->s + 1, (size_t)(close - p->s - 1), set)) {
            refuse(p, QR_UNSUPPORTED, "a \\p that names no general category");
            return false;
        }
        if (c == 'P')
            *set = qr_cp_negate(p->b, *set);
        p->s = close + 1;
        return true;
    }
    if (at)
        *cp = (unsigned char)codes[at - letters];
    else if (c == 'b' && in_class)
        *cp = 8;
    else if (c == '0' && (p->s == p->end || *p->s < '0' || *p->s > '9'))
        *cp = 0;
    else if (c == 'x')
        *cp = hex(p, 2);
    else if (c == 'u')
        *cp = unicode_escape(p);
    else if (c == 'c' && p->s < p->end && ((*p->s | 0x20) >= 'a' && (*p->s | 0x20) <= 'z'))
        *cp = *p->s++ & 0x1F;
    else if (c > 0x20 && c < 0x7F && !(c >= '0' && c <= '9') && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z'))
        *cp = (unsigned char)c;
    else if (c == 'b' || c == 'B')
        refuse(p, QR_UNSUPPORTED, "a word boundary");
    else if ((c >= '1' && c <= '9') || c == 'k')
        refuse(p, QR_UNSUPPORTED, "a back reference");
    if (*cp < 0 || (*cp >= 0xD800 && *cp <= 0xDFFF) || *cp > 0x10FFFF) {
        refuse(p, QR_UNSUPPORTED, "an unknown escape");
        return false;
    }
    return true;
}

/* One member of a class: a code point, or a set. */
static bool class_item(struct parser *p, int32_t *cp, struct qr_cp_set *set)
{
    size_t len;

    if (next_is(p, "\\"))
        return escape(p, true, cp, set);
    if (p->s == p->end) {
        refuse(p, QR_INVALID, "a [ that nothing closes");
        return false;
    }
    *cp = qr_utf8_get(p->s, &len);
    p->s += len;
    return true;
}

static struct qr_re *class(struct parser *p)
{
    size_t room = (size_t)(p->end - p->s) + 1, n = 0;
    struct qr_cp_range *range = qr_gr_alloc(p->b, room < 4096 ? room : 4096, sizeof *range);
    bool negated = next_is(p, "^");
    struct qr_cp_set made;

    room = room < 4096 ? room : 4096;
    while (range && !next_is(p, "]")) {
        struct qr_cp_set set = {0};
        int32_t lo, hi;

        if (!class_item(p, &lo, &set))
            return NULL;
        hi = lo;
        if (lo >= 0 && p->end - p->s >= 2 && p->s[0] == '-' && p->s[1] != ']') {
            p->s++;
            if (!class_item(p, &hi, &set))
                return NULL;
            if (hi < lo)
                return refuse(p, QR_INVALID, "a range in [] whose end lies before its start or that is none");
        }
        if (n + (lo < 0 ? set.n : 1) > room) { /* sets grow it */
            size_t more = (n + set.n + 1) * 2;
            struct qr_cp_range *grown = qr_gr_alloc(p->b, more, sizeof *grown);

            if (!grown)
                return NULL;
            memcpy(grown, range, n * sizeof *range);
            range = grown;
            room = more;
        }
        if (lo >= 0)
            range[n++] = (struct qr_cp_range){lo, hi};
        else if (set.n) {
            memcpy(range + n, set.range, set.n * sizeof *range);
            n += set.n;
        }
    }
    if (!range)
        return NULL;
    made = qr_cp_make(p->b, range, n);
    return set_node(p->b, negated ? qr_cp_negate(p->b, made) : made);
}

static struct qr_re *alternatives(struct parser *p);

static struct qr_re *group(struct parser *p)
{
    struct qr_re *re;

    if (next_is(p, "?") && !next_is(p, ":")) {
        const char *close;

        if (next_is(p, "=") || next_is(p, "!") || next_is(p, "<=") || next_is(p, "<!"))
            return refuse(p, QR_UNSUPPORTED, "look-around");
        if (!next_is(p, "<") || !(close = memchr(p->s, '>', (size_t)(p->end - p->s))))
            return refuse(p, QR_UNSUPPORTED, "an unknown group");
        p->s = close + 1;
    }
    if (++p->depth > MAX_NEST)
        return refuse(p, QR_LIMIT, "more than 100 nested groups");
    re = alternatives(p);
    p->depth--;
    if (re && !next_is(p, ")"))
        return refuse(p, QR_INVALID, "a ( that nothing closes");
    return re;
}

static struct qr_re *atom(struct parser *p)
{
    struct qr_cp_set set = {0};
    size_t len;
    int32_t cp;

    switch (*p->s) {
    case '(':
        p->s++;
        return group(p);
    case '[':
        p->s++;
        return class(p);
    case '.':
        p->s++;
        return set_node(p->b, qr_cp_class(p->b, '.'));
    case '^':
        p->s++;
        return qr_re_make(p->b, QR_RE_BEGIN, NULL, 0);
    case '$':
        p->s++;
        return qr_re_make(p->b, QR_RE_END, NULL, 0);
    case '\\':
        p->s++;
        if (!escape(p, false, &cp, &set))
            return NULL;
        return cp < 0 ? set_node(p->b, set) : qr_re_range(p->b, cp, cp);
    case '*':
    case '+':
    case '?':
        return refuse(p, QR_INVALID, "a repeat of nothing");
    case '{': /* {,3}: Python and ECMA read it in different ways */
        if (p->end - p->s > 1 && p->s[1] == ',')
            return refuse(p, QR_UNSUPPORTED, "a repeat without its first number");
        p->s++;
        return qr_re_range(p->b, '{', '{');
    default:
        cp = qr_utf8_get(p->s, &len);
        p->s += len;
        return qr_re_range(p->b, cp, cp);
    }
}

/* {n}, {n,}, {n,m} at p->s; false: it is none, p->s stays. */
static bool counts(struct parser *p, uint32_t *min, uint32_t *max)
{
    const char *start = p->s;
    uint32_t n[2] = {0, QR_RE_MANY};
    int part = 0;
    bool digits = false;

    for (p->s++; p->s < p->end && *p->s != '}'; p->s++) {
        if (*p->s == ',' && part == 0 && digits) {
            part = 1;
            digits = false;
        } else if (*p->s >= '0' && *p->s <= '9') {
            if (part == 1 && !digits)
                n[1] = 0;
            digits = true;
            if (n[part] <= MAX_COUNT)
                n[part] = n[part] * 10 + (uint32_t)(*p->s - '0');
        } else
            break;
    }
    if (p->s == p->end || *p->s != '}' || (part == 0 && !digits)) {
        p->s = start;
        return false;
    }
    p->s++;
    *min = n[0];
    *max = part == 0 ? n[0] : n[1];
    return true;
}

static struct qr_re *repeated(struct parser *p)
{
    struct qr_re *re = atom(p);

    while (re && p->s < p->end) {
        uint32_t min = 0, max = QR_RE_MANY;

        if (next_is(p, "+"))
            min = 1;
        else if (next_is(p, "?"))
            max = 1;
        else if (!next_is(p, "*") && !(*p->s == '{' && counts(p, &min, &max)))
            break;
        next_is(p, "?"); /* lazy */
        if (min > MAX_COUNT || (max != QR_RE_MANY && max > MAX_COUNT))
            return refuse(p, QR_LIMIT, "a repeat count over 10000");
        if (max < min)
            return refuse(p, QR_INVALID, "a repeat whose end lies before its start");
        if (p->s < p->end && (*p->s == '*' || *p->s == '+'))
            return refuse(p, QR_INVALID, "a repeat of a repeat");
        re = qr_re_repeat(p->b, re, min, max);
    }
    return re;
}

/* Children are gathered in a list that doubles. */
struct list {
    struct qr_re **item;
    uint32_t n, room;
};

static bool push(struct qr_gr_builder *b, struct list *list, struct qr_re *re)
{
    if (!re)
        return false;
    if (list->n == list->room) {
        uint32_t room = list->room ? list->room * 2 : 4;
        struct qr_re **item = qr_gr_alloc(b, room, sizeof(struct qr_re *));

        if (!item)
            return false;
        if (list->n)
            memcpy(item, list->item, list->n * sizeof *item);
        list->item = item;
        list->room = room;
    }
    list->item[list->n++] = re;
    return true;
}

static struct qr_re *sequence(struct parser *p)
{
    struct list list = {0};

    while (p->s < p->end && *p->s != '|' && *p->s != ')')
        if (!push(p->b, &list, repeated(p)))
            return NULL;
    return list.n == 1 ? list.item[0] : qr_re_make(p->b, QR_RE_SEQ, list.item, list.n);
}

static struct qr_re *alternatives(struct parser *p)
{
    struct list list = {0};

    do
        if (!push(p->b, &list, sequence(p)))
            return NULL;
    while (next_is(p, "|"));
    return list.n == 1 ? list.item[0] : qr_re_make(p->b, QR_RE_ALT, list.item, list.n);
}

struct qr_re *qr_re_parse(struct qr_gr_builder *b, const char *pattern, size_t n, const char *where)
{
    struct parser p = {b, pattern, pattern, pattern + n, where, 0};
    struct qr_re *re;

    if (b->status != QR_OK)
        return NULL;
    if (n > 65536) {
        qr_gr_fail(b, QR_LIMIT, "%s: the pattern has %zu bytes; the limit is 65536", where, n);
        return NULL;
    }
    if (qr_utf8_valid(pattern, n) != n) {
        qr_gr_fail(b, QR_INVALID, "%s: the pattern is not well-formed UTF-8", where);
        return NULL;
    }
    re = alternatives(&p);
    if (re && p.s < p.end)
        return refuse(&p, QR_INVALID, "a ) that closes nothing");
    return re;
}
