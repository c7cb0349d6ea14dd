/* regexclass.c - character classes of a tokenizer's pattern: \s, \w, \p{...} and [...].
 *
 * PCRE2's \s holds U+180E, its \w no marks, its \p{...} are those of an older Unicode: sets are spelled out, or
 * completed by the ranges of unidelta.c. Two kinds of classes mean to Oniguruma what nobody expects, and are refused:
 * under (?i) a set that holds ß matches "ss", and a complement gains the other case of what it lacks; and of [^...]
 * inside a class, where it excludes everything beyond ASCII, the complement is lost. */
#include <stdio.h>
#include <string.h>
#include "text/regex.h"
#include "text/unidelta.h"
#include "text/utf8.h"

#define MAX_CLASS_DEPTH 8
#define SPACES                                                                                                         \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define HEX_DIGITS "0-9A-Fa-f"
/* symbols that are Alphabetic (UTS #18 makes them word characters) */
#define OTHER_ALPHABETIC "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"

/* A set under construction: ranges that it holds, and sets whose complement it holds. */
struct set {
    struct qr_buf holds;  /* class items: a-z\p{L} */
    struct qr_buf others; /* |[^...] alternatives, each one character */
    bool caseless;
};

static void set_init(struct set *set)
{
    qr_buf_init(&set->holds, 0);
    qr_buf_init(&set->others, 0);
    set->caseless = false;
}

static void set_free(struct set *set)
{
    qr_buf_free(&set->holds);
    qr_buf_free(&set->others);
}

static void put_range(struct qr_buf *out, uint32_t first, uint32_t last)
{
    if (first > last)
        return;
    qr_buf_printf(out, "\\x{%x}", first);
    if (last > first)
        qr_buf_printf(out, "-\\x{%x}", last);
}

/* General category ("L", "Nd"): PCRE2's, and what came to it since. */
static void put_category(struct qr_buf *out, const char *gc)
{
    size_t n, i = 0;
    const struct qr_unidelta *row = qr_unidelta_ranges(&n);

    qr_buf_printf(out, "\\p{%s}", gc);
    while (i < n) {
        uint32_t first = row[i].first, last = row[i].last;

        if (strncmp(row[i].gc, gc, strlen(gc)) != 0) {
            i++;
            continue;
        }
        for (i++; i < n && row[i].first == last + 1 && strncmp(row[i].gc, gc, strlen(gc)) == 0; i++)
            last = row[i].last;
        put_range(out, first, last);
    }
}

static bool put_script(struct qr_buf *out, const char *name)
{
    size_t n;
    const struct qr_script_delta *row = qr_script_deltas(&n);
    bool known = false;

    for (size_t i = 0; i < n; i++) {
        if (strcmp(row[i].script, name) != 0)
            continue;
        if (!known)
            qr_buf_printf(out, "\\p{sc:%s}", name);
        known = true;
        put_range(out, row[i].first, row[i].last);
    }
    return known;
}

static bool put_property(struct qr_buf *out, const char *name)
{
    static const char *const categories[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",
                                             "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po",
                                             "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "Cc", "Cf"};
    static const char *const longer[][2] = {{"Letter", "L"}, {"Mark", "M"},        {"Number", "N"},
                                            {"Symbol", "S"}, {"Punctuation", "P"}, {"Separator", "Z"}};

    for (size_t i = 0; i < sizeof longer / sizeof longer[0]; i++)
        if (strcmp(name, longer[i][0]) == 0)
            name = longer[i][1];
    for (size_t i = 0; i < sizeof categories / sizeof categories[0]; i++) {
        if (strcmp(name, categories[i]) == 0) {
            put_category(out, name);
            return true;
        }
    }
    return put_script(out, name);
}

/* p{...}, pL or P{...} behind the backslash. */
static enum qr_status parse_property(const char **s, const char *end, struct qr_buf *out, bool *negated,
                                     struct qr_err *err)
{
    const char *p = *s, *close;
    char name[32];

    *negated = *p++ == 'P';
    if (p == end || *p != '{' || !(close = memchr(p, '}', (size_t)(end - p))))
        return qr_fail(err, QR_UNSUPPORTED, "regular expression: \\p needs a property in braces, as in \\p{L}");
    p++;
    if (p < close && *p == '^') {
        *negated = !*negated;
        p++;
    }
    if ((size_t)(close - p) >= sizeof name || close == p)
        return qr_fail(err, QR_UNSUPPORTED, "regular expression: unknown property \\p{%.*s}",
                       (int)(close - p < 64 ? close - p : 64), p);
    memcpy(name, p, (size_t)(close - p));
    name[close - p] = 0;
    if (!put_property(out, name))
        return qr_fail(err, QR_UNSUPPORTED,
                       "regular expression: property \\p{%s} is not supported (general categories and the common "
                       "scripts are)",
                       name);
    *s = close + 1;
    return QR_OK;
}

/* The items of a class escape at *s; *is_class false (and nothing consumed) when the escape is a character. */
static enum qr_status escape_items(const char **s, const char *end, struct qr_buf *out, bool *negated, bool *is_class,
                                   struct qr_err *err)
{
    char c = **s;

    *is_class = true;
    *negated = c >= 'A' && c <= 'Z';
    switch (c) {
    case 'p':
    case 'P':
        return parse_property(s, end, out, negated, err);
    case 's':
    case 'S':
        qr_buf_puts(out, SPACES);
        break;
    case 'd':
    case 'D':
        put_category(out, "Nd");
        break;
    case 'h':
    case 'H':
        qr_buf_puts(out, HEX_DIGITS);
        break;
    case 'w':
    case 'W':
        put_category(out, "L");
        put_category(out, "M");
        put_category(out, "Nd");
        put_category(out, "Nl");
        put_category(out, "Pc");
        qr_buf_puts(out, OTHER_ALPHABETIC);
        break;
    default:
        *is_class = false;
        return QR_OK;
    }
    ++*s;
    return QR_OK;
}

enum qr_status qr_regex_class_escape(const char **s, const char *end, struct qr_buf *out, bool *is_class,
                                     struct qr_err *err)
{
    struct qr_buf items;
    enum qr_status status;
    bool negated;

    qr_buf_init(&items, 0);
    status = escape_items(s, end, &items, &negated, is_class, err);
    if (status == QR_OK && *is_class) {
        qr_buf_puts(out, negated ? "[^" : "[");
        qr_buf_append(out, items.data, items.len);
        qr_buf_putc(out, ']');
    }
    if (items.failed)
        out->failed = true;
    qr_buf_free(&items);
    return status;
}

/* Writes a set as one item that matches one character. */
static void set_write(const struct set *set, bool negated, struct qr_buf *out)
{
    if (set->holds.failed || set->others.failed)
        out->failed = true;
    if (set->others.len == 0) {
        qr_buf_puts(out, negated ? "[^" : "[");
        qr_buf_append(out, set->holds.data, set->holds.len);
        qr_buf_putc(out, ']');
        return;
    }
    /* atomic: a character that is in several of the sets must not be tried once for each */
    qr_buf_puts(out, negated ? "(?:(?!" : "(?>");
    if (set->holds.len > 0) {
        qr_buf_putc(out, '[');
        qr_buf_append(out, set->holds.data, set->holds.len);
        qr_buf_puts(out, "]|");
    }
    qr_buf_append(out, set->others.data + 1, set->others.len - 1); /* without the first bar */
    qr_buf_puts(out, negated ? ")(?s:.))" : ")");
}

static enum qr_status parse_set(const char **s, const char *end, int depth, struct set *set, bool *negated,
                                struct qr_err *err);

/* A class inside a class: its union with the outer one. */
static enum qr_status nested(const char **s, const char *end, int depth, struct set *set, struct qr_err *err)
{
    struct set inner;
    bool negated = false;
    enum qr_status status;

    if (depth == MAX_CLASS_DEPTH)
        return qr_fail(err, QR_LIMIT, "regular expression: classes are nested more than %d deep", MAX_CLASS_DEPTH);
    if (set->caseless)
        return qr_fail(err, QR_UNSUPPORTED, "regular expression: a class in a class under (?i) is not supported");
    set_init(&inner);
    status = parse_set(s, end, depth + 1, &inner, &negated, err);
    if (status == QR_OK && negated && inner.others.len > 0)
        status = qr_fail(err, QR_UNSUPPORTED,
                         "regular expression: a complement such as \\S or \\P{L} in a [^...] that stands in a class is "
                         "not supported");
    if (status == QR_OK && !negated) {
        qr_buf_append(&set->holds, inner.holds.data, inner.holds.len);
        qr_buf_append(&set->others, inner.others.data, inner.others.len);
    } else if (status == QR_OK) {
        qr_buf_putc(&set->others, '|');
        set_write(&inner, true, &set->others);
    }
    if (inner.holds.failed || inner.others.failed)
        set->holds.failed = true;
    set_free(&inner);
    return status;
}

/* One character of a class, plain or escaped. */
static enum qr_status class_char(const char **s, const char *end, int32_t *cp, struct qr_err *err)
{
    size_t len;

    if (**s == '\\') {
        ++*s;
        return qr_regex_char_escape(s, end, cp, err);
    }
    *cp = qr_utf8_get(*s, &len);
    *s += len;
    return QR_OK;
}

/* Oniguruma sees it before a range's end too: [!-&&a] is - or ! that is a. */
static enum qr_status check_intersection(const char *s, const char *end, struct qr_err *err)
{
    if (end - s < 2 || s[0] != '&' || s[1] != '&')
        return QR_OK;
    return qr_fail(err, QR_UNSUPPORTED, "regular expression: intersection (&&) in a class is not supported");
}

/* A character, or a range that starts with it. */
static enum qr_status char_or_range(const char **s, const char *end, struct set *set, struct qr_err *err)
{
    struct qr_buf *out = &set->holds;
    int32_t first, last;

    QR_TRY(class_char(s, end, &first, err));
    QR_TRY(qr_regex_check_char(first, set->caseless, err));
    qr_regex_put_char(out, first);
    if (end - *s < 2 || (*s)[0] != '-' || (*s)[1] == ']')
        return QR_OK;
    if ((*s)[1] == '[' || ((*s)[1] == '\\' && end - *s > 2 && strchr("pPsSdDwWhH", (*s)[2])))
        return qr_fail(err, QR_UNSUPPORTED, "regular expression: a range in a class must end with a character");
    ++*s;
    QR_TRY(check_intersection(*s, end, err));
    QR_TRY(class_char(s, end, &last, err));
    if (last < first)
        return qr_fail(err, QR_FORMAT, "regular expression: the range U+%04X-U+%04X in a class is empty",
                       (unsigned)first, (unsigned)last);
    QR_TRY(qr_regex_check_char(last, set->caseless, err));
    qr_buf_putc(out, '-');
    qr_regex_put_char(out, last);
    return QR_OK;
}

static enum qr_status set_escape(const char **s, const char *end, struct set *set, bool *is_class, struct qr_err *err)
{
    struct qr_buf items;
    bool negated;
    enum qr_status status;

    qr_buf_init(&items, 0);
    status = escape_items(s, end, &items, &negated, is_class, err);
    if (status == QR_OK && *is_class && set->caseless)
        status = qr_fail(err, QR_UNSUPPORTED,
                         "regular expression: a set such as \\w or \\p{L} in a class under (?i) is not supported");
    if (status == QR_OK && *is_class && !negated)
        qr_buf_append(&set->holds, items.data, items.len);
    if (status == QR_OK && *is_class && negated)
        qr_buf_printf(&set->others, "|[^%s]", items.data ? items.data : "");
    if (items.failed)
        set->holds.failed = true;
    qr_buf_free(&items);
    return status;
}

static enum qr_status parse_set(const char **s, const char *end, int depth, struct set *set, bool *negated,
                                struct qr_err *err)
{
    const char *start;

    if (*s < end && **s == '^') {
        *negated = true;
        ++*s;
    }
    for (start = *s; *s < end;) {
        if (**s == ']') {
            if (*s == start)
                break; /* Oniguruma takes it as a character, with a warning: nobody writes that on purpose */
            ++*s;
            return QR_OK;
        }
        QR_TRY(check_intersection(*s, end, err));
        if (**s == '[') {
            ++*s;
            if (*s < end && **s == ':')
                return qr_fail(err, QR_UNSUPPORTED, "regular expression: [:name:] in a class is not supported");
            QR_TRY(nested(s, end, depth, set, err));
            continue;
        }
        if (**s == '\\' && end - *s >= 2) {
            const char *at = *s + 1;
            bool is_class;

            QR_TRY(set_escape(&at, end, set, &is_class, err));
            if (is_class) {
                *s = at;
                continue;
            }
        }
        QR_TRY(char_or_range(s, end, set, err));
    }
    return qr_fail(err, QR_FORMAT, "regular expression: a class is empty or lacks its closing ]");
}

enum qr_status qr_regex_class(const char **s, const char *end, bool caseless, struct qr_buf *out, struct qr_err *err)
{
    struct set set;
    bool negated = false;
    enum qr_status status;

    set_init(&set);
    set.caseless = caseless;
    status = parse_set(s, end, 0, &set, &negated, err);
    if (status == QR_OK)
        set_write(&set, negated, out);
    set_free(&set);
    return status;
}
