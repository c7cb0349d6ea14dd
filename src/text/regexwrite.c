/* regexwrite.c - a pattern in Oniguruma's Ruby syntax, as tokenizers reads it, rewritten for PCRE2.
 *
 * Differences that are handled (doc/RE of Oniguruma, pcre2pattern(3)): the sets of regexclass.c; \b by that \w; \h is a
 * hexadecimal digit and \v a vertical tab; X{n,m}+ repeats X{n,m}, where PCRE2 would not give back; X{n}? is optional;
 * X{,m} is X{0,m}. Groups capture nothing.
 *
 * What is not known to mean the same is refused. Of X{2} that may match nothing, Oniguruma leaves the loop behind the
 * first empty turn, PCRE2 tries the second (X* and X+ end at an empty turn in both). (?i:ss) matches ß. \b.* is tried
 * at the starts of lines only, and (?m:.*) at the start of the text. */
#include <string.h>
#include "text/regex.h"
#include "text/utf8.h"

#define MAX_GROUPS  64
#define MAX_PATTERN 16384 /* bytes */

/* A group, or the whole pattern. */
struct level {
    size_t start; /* of it in out */
    bool caseless;
    bool looks;          /* looks ahead or behind: matches nothing itself */
    bool solid;          /* the branch so far takes a character at least, whatever it matches */
    bool hollow;         /* a branch before may match nothing */
    bool moved, looked;  /* from the pattern's start to here: something that takes characters, \b or a look around */
    bool stays, glances; /* a branch before did not move, did look */
};

struct writer {
    const char *s, *end;
    struct qr_buf *out;
    struct level level[MAX_GROUPS + 1]; /* by depth; 0: the pattern */
    int depth;
    int32_t literal, before; /* this item and the one before, in lower case, if they are characters; else 0 */
    size_t atom;             /* start of what a quantifier would apply to; SIZE_MAX: nothing */
    bool taking;             /* the atom takes a character at least */
    bool repeated;           /* the atom has its quantifier already */
    bool leading;            /* the atom is a dot, with looks around and no more in front of it */
    struct qr_err *err;
};

/* What stands at the end of out is an atom from now on. */
static void begin_atom(struct writer *w, bool taking)
{
    w->level[w->depth].solid |= w->taking;
    w->taking = taking;
    w->atom = w->out->len;
}

static void begin_moving(struct writer *w)
{
    begin_atom(w, true);
    w->level[w->depth].moved = true;
}

static void end_branch(struct writer *w)
{
    struct level *level = &w->level[w->depth];

    begin_atom(w, false);
    w->atom = SIZE_MAX;
    level->hollow |= !level->solid;
    level->solid = false;
    level->stays |= !level->moved;
    level->glances |= level->looked;
    level->moved = w->depth > 0 && level[-1].moved;
    level->looked = w->depth > 0 && level[-1].looked;
}

void qr_regex_put_char(struct qr_buf *out, int32_t cp)
{
    if ((cp >= '0' && cp <= '9') || (cp >= 'A' && cp <= 'Z') || (cp >= 'a' && cp <= 'z'))
        qr_buf_putc(out, (char)cp);
    else
        qr_buf_printf(out, "\\x{%x}", (unsigned)cp);
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Hexadecimal digits at *s, at most most of them; -1 without any. */
static int32_t hex_number(const char **s, const char *end, int most)
{
    int32_t value = -1;

    for (int i = 0; i < most && *s < end && hex_value(**s) >= 0; i++, ++*s)
        value = (value < 0 ? 0 : value) * 16 + hex_value(**s);
    return value;
}

enum qr_status qr_regex_char_escape(const char **s, const char *end, int32_t *cp, struct qr_err *err)
{
    static const char from[] = "tnrfvae", to[] = "\t\n\r\f\v\a\x1b";
    const char *known;
    size_t len;
    char c;

    if (*s == end)
        return qr_fail(err, QR_FORMAT, "regular expression: it ends with a backslash");
    c = **s;
    known = c ? strchr(from, c) : NULL;
    *cp = -1;
    if (known) {
        *cp = (unsigned char)to[known - from];
        ++*s;
    } else if (c == 'x' || c == 'u') {
        bool brace = ++*s < end && **s == '{' && c == 'x';

        *s += brace;
        *cp = hex_number(s, end, brace ? 6 : c == 'x' ? 2 : 4);
        if (brace && (*s == end || *(*s)++ != '}'))
            *cp = -1;
        if (!brace && c == 'x' && *cp > 0x7F)
            *cp = -1; /* a byte of a longer sequence */
        if (*cp > 0x10FFFF || (*cp >= 0xD800 && *cp < 0xE000))
            *cp = -1;
        if (*cp < 0)
            return qr_fail(err, QR_UNSUPPORTED, "regular expression: \\%c does not stand for a character", c);
    } else if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) {
        return qr_fail(err, QR_UNSUPPORTED, "regular expression: the escape \\%c is not supported", c);
    } else {
        *cp = qr_utf8_get(*s, &len);
        *s += len;
    }
    return QR_OK;
}

enum qr_status qr_regex_check_char(int32_t cp, bool caseless, struct qr_err *err)
{
    if (caseless && cp > 0x7F)
        return qr_fail(err, QR_UNSUPPORTED, "regular expression: U+%04X under (?i) is not supported", (unsigned)cp);
    return QR_OK;
}

/* A character that stands for itself. */
static enum qr_status write_char(struct writer *w, int32_t cp)
{
    static const char *const folded[] = {"ss", "st", "ff", "fi", "fl"}; /* of ß and the ligatures */
    bool caseless = w->level[w->depth].caseless;

    QR_TRY(qr_regex_check_char(cp, caseless, w->err));
    w->literal = cp >= 'A' && cp <= 'Z' ? cp | 0x20 : cp;
    for (int i = 0; caseless && i < 5; i++)
        if (w->before == folded[i][0] && w->literal == folded[i][1])
            return qr_fail(w->err, QR_UNSUPPORTED, "regular expression: %s under (?i) is not supported", folded[i]);
    qr_regex_put_char(w->out, cp);
    return QR_OK;
}

/* \b and \B by the \w of regexclass.c. */
static enum qr_status word_boundary(struct writer *w, bool negated)
{
    struct qr_buf word;
    const char *name = "w";
    bool is_class;
    enum qr_status status;

    qr_buf_init(&word, 0);
    status = qr_regex_class_escape(&name, name + 1, &word, &is_class, w->err);
    if (status == QR_OK && !word.failed)
        qr_buf_printf(w->out, negated ? "(?:(?<=%s)(?=%s)|(?<!%s)(?!%s))" : "(?:(?<=%s)(?!%s)|(?<!%s)(?=%s))",
                      word.data, word.data, word.data, word.data);
    if (word.failed)
        w->out->failed = true;
    qr_buf_free(&word);
    return status;
}

static enum qr_status write_escape(struct writer *w)
{
    bool is_class;
    int32_t cp;

    w->s++;
    if (w->s == w->end)
        return qr_fail(w->err, QR_FORMAT, "regular expression: it ends with a backslash");
    begin_atom(w, !memchr("bBAzZ", *w->s, 5));
    w->level[w->depth].moved |= w->taking;
    w->level[w->depth].looked |= !w->taking;
    if (*w->s == 'b' || *w->s == 'B')
        return word_boundary(w, *w->s++ == 'B');
    if (*w->s == 'A' || *w->s == 'z' || *w->s == 'Z') {
        qr_buf_printf(w->out, "\\%c", *w->s++);
        return QR_OK;
    }
    QR_TRY(qr_regex_class_escape(&w->s, w->end, w->out, &is_class, w->err));
    if (is_class)
        return QR_OK;
    QR_TRY(qr_regex_char_escape(&w->s, w->end, &cp, w->err));
    return write_char(w, cp);
}

/* Behind "(?": the options of (?i-m:...) or (?i). */
static enum qr_status write_options(struct writer *w)
{
    bool at_start = w->out->len == 0;
    bool on = true;
    bool *caseless = &w->level[w->depth].caseless;

    qr_buf_puts(w->out, "(?");
    for (; w->s < w->end && *w->s != ':' && *w->s != ')'; w->s++) {
        if (*w->s == 'i')
            *caseless = on;
        if (*w->s == 'i' || (*w->s == '-' && on))
            qr_buf_putc(w->out, *w->s);
        else
            return qr_fail(w->err, QR_UNSUPPORTED, "regular expression: (?%c is not supported", *w->s);
        on = on && *w->s != '-';
    }
    if (w->s == w->end)
        return qr_fail(w->err, QR_FORMAT, "regular expression: a group lacks its closing )");
    if (*w->s == ')') { /* to the end of the group; in Ruby it also encloses what stands behind a bar */
        if (!at_start)
            return qr_fail(w->err, QR_UNSUPPORTED,
                           "regular expression: an option such as (?i) is supported at the very start only");
        w->level[w->depth - 1].caseless = *caseless;
        w->depth--;
        w->atom = SIZE_MAX;
    }
    qr_buf_putc(w->out, *w->s++);
    return QR_OK;
}

static enum qr_status write_group(struct writer *w)
{
    static const char *const kinds[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    struct level *level;

    if (w->depth == MAX_GROUPS)
        return qr_fail(w->err, QR_LIMIT, "regular expression: groups are nested more than %d deep", MAX_GROUPS);
    begin_atom(w, false);
    w->atom = SIZE_MAX;
    w->depth++;
    level = &w->level[w->depth];
    *level = level[-1];
    level->start = w->out->len;
    level->looks = level->solid = level->hollow = level->stays = level->glances = false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t n = strlen(kinds[i]);

        if ((size_t)(w->end - w->s) >= n && memcmp(w->s, kinds[i], n) == 0) {
            qr_buf_puts(w->out, kinds[i]);
            w->s += n;
            level->looks = i >= 1 && i <= 4;
            return QR_OK;
        }
    }
    if (w->end - w->s >= 2 && w->s[1] == '?') {
        w->s += 2;
        return write_options(w);
    }
    w->s++;
    qr_buf_puts(w->out, "(?:");
    return QR_OK;
}

static enum qr_status close_group(struct writer *w)
{
    struct level *level = &w->level[w->depth];

    if (w->depth == 0)
        return qr_fail(w->err, QR_FORMAT, "regular expression: a ) closes nothing");
    end_branch(w);
    w->depth--;
    level[-1].moved |= !level->looks && !level->stays;
    level[-1].looked |= level->looks || level->glances;
    w->atom = level->start;
    w->taking = !level->hollow && !level->looks;
    qr_buf_putc(w->out, *w->s++);
    return QR_OK;
}

/* Puts text in front of the atom. */
static void wrap_atom(struct writer *w, const char *text)
{
    size_t n = strlen(text), tail = w->out->len - w->atom;

    if (!qr_buf_append(w->out, text, n))
        return;
    memmove(w->out->data + w->atom + n, w->out->data + w->atom, tail);
    memcpy(w->out->data + w->atom, text, n);
}

/* {n}, {n,}, {,m}, {n,m} at s: false when it is none and the brace stands for itself. */
static bool parse_interval(const char **s, const char *end, int *low, int *high)
{
    const char *p = *s + 1;
    int number[2] = {-1, -1};
    bool comma = false;

    for (; p < end && *p != '}'; p++) {
        if (*p == ',' && !comma) {
            comma = true;
        } else if (*p >= '0' && *p <= '9' && number[comma] < 100000) {
            number[comma] = (number[comma] < 0 ? 0 : number[comma]) * 10 + (*p - '0');
        } else {
            return false;
        }
    }
    if (p == end || (number[0] < 0 && number[1] < 0))
        return false;
    *low = number[0] < 0 ? 0 : number[0];
    *high = comma ? number[1] : number[0];
    *s = p + 1;
    return true;
}

static enum qr_status write_quantifier(struct writer *w)
{
    const char *from = w->s;
    bool interval = *w->s == '{', fixed = false;
    int low = 0, high = 0;
    char next;

    if (interval && !parse_interval(&w->s, w->end, &low, &high)) {
        begin_moving(w);
        w->repeated = false;
        qr_regex_put_char(w->out, '{');
        w->s++;
        return QR_OK;
    }
    if (w->atom == SIZE_MAX)
        return qr_fail(w->err, QR_FORMAT, "regular expression: a quantifier stands behind nothing");
    if (w->repeated) /* Oniguruma simplifies pairs; as a group in a group PCRE2 would take exponential time */
        return qr_fail(w->err, QR_UNSUPPORTED, "regular expression: a quantifier behind a quantifier is not supported");
    if (interval && high >= 0 && high < low)
        return qr_fail(w->err, QR_UNSUPPORTED, "regular expression: the interval {%d,%d} is not supported", low, high);
    if (interval && !w->taking && (low > 1 || high > 1))
        return qr_fail(w->err, QR_UNSUPPORTED,
                       "regular expression: %.*s behind what may match nothing is not supported", (int)(w->s - from),
                       from);
    if (interval) {
        fixed = low == high;
        qr_buf_printf(w->out, "{%d", low);
        if (high < 0)
            qr_buf_putc(w->out, ',');
        else if (!fixed)
            qr_buf_printf(w->out, ",%d", high);
        qr_buf_putc(w->out, '}');
    } else {
        low = *w->s == '+';
        high = *w->s == '?' ? 1 : -1;
        qr_buf_putc(w->out, *w->s++);
    }
    next = w->s < w->end ? *w->s : 0;
    if (w->leading && high < 0 && next != '?')
        return qr_fail(w->err, QR_UNSUPPORTED,
                       "regular expression: .%.*s behind \\b or a look around alone is not supported",
                       (int)(w->s - from), from);
    if (interval && (next == '+' || (next == '?' && fixed))) {
        w->s++;
        low = next == '?' ? 0 : low;
        wrap_atom(w, "(?:");
        qr_buf_printf(w->out, ")%c", next);
    } else if (next == '?' || (next == '+' && !interval)) {
        qr_buf_putc(w->out, next);
        w->s++;
    }
    w->repeated = true;
    w->taking = w->taking && low > 0;
    return QR_OK;
}

/* . ^ or $ */
static enum qr_status write_mark(struct writer *w)
{
    struct level *level = &w->level[w->depth];
    char c = *w->s++;

    begin_atom(w, c == '.');
    w->leading = c == '.' && level->looked && !level->moved;
    level->moved |= c == '.';
    level->looked |= c == '$';
    qr_buf_putc(w->out, c);
    return QR_OK;
}

static enum qr_status write_item(struct writer *w)
{
    int32_t cp;
    size_t len;

    w->before = w->literal;
    w->literal = 0;
    if (!memchr("*+?{", *w->s, 4))
        w->repeated = w->leading = false;
    switch (*w->s) {
    case '\\':
        return write_escape(w);
    case '[':
        begin_moving(w);
        w->s++;
        return qr_regex_class(&w->s, w->end, w->level[w->depth].caseless, w->out, w->err);
    case '(':
        return write_group(w);
    case ')':
        return close_group(w);
    case '*':
    case '+':
    case '?':
    case '{':
        return write_quantifier(w);
    case '|':
        end_branch(w);
        qr_buf_putc(w->out, *w->s++);
        return QR_OK;
    case '.':
    case '^':
    case '$':
        return write_mark(w);
    default:
        begin_moving(w);
        cp = qr_utf8_get(w->s, &len);
        w->s += len;
        return write_char(w, cp);
    }
}

/* Sets of upper-case letters and the like mean different things under (?i) to each of the two. */
static enum qr_status check_case(const struct writer *w, size_t before)
{
    static const char *const cased[] = {"\\p{Lu}", "\\p{Ll}", "\\p{Lt}"};

    for (int i = 0; w->level[w->depth].caseless && !w->out->failed && i < 3; i++)
        if (memmem(w->out->data + before, w->out->len - before, cased[i], strlen(cased[i])))
            return qr_fail(w->err, QR_UNSUPPORTED, "regular expression: %s under (?i) is not supported", cased[i]);
    return QR_OK;
}

enum qr_status qr_regex_rewrite(const char *pattern, size_t n, struct qr_buf *out, struct qr_err *err)
{
    struct writer w = {.s = pattern, .end = pattern + n, .out = out, .atom = SIZE_MAX, .err = err};

    if (n > MAX_PATTERN)
        return qr_fail(err, QR_LIMIT, "regular expression: %zu bytes are more than the limit of %d", n, MAX_PATTERN);
    if (qr_utf8_valid(pattern, n) < n)
        return qr_fail(err, QR_FORMAT, "regular expression: it is not well-formed UTF-8");
    while (w.s < w.end && !out->failed) {
        size_t before = out->len;

        QR_TRY(write_item(&w));
        QR_TRY(check_case(&w, before));
    }
    if (out->failed)
        return qr_fail(err, QR_NOMEM, "regular expression: out of memory");
    if (w.depth > 0)
        return qr_fail(err, QR_FORMAT, "regular expression: a group lacks its closing )");
    return QR_OK;
}
