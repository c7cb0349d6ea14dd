/* tokenizer_read.c - the vocabulary and the merges of a tokenizer.json, straight from its bytes into the tables. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "text/tokenizer_scan.h"
#include "text/utf8.h"

static enum qr_status broken(struct qr_scan *scan, const char *why)
{
    return qr_fail(scan->err, QR_FORMAT, "bad JSON in \"%s\", %td bytes before its end: %s", scan->what,
                   scan->end - scan->p, why);
}

static int hex4(const char *s)
{
    int value = 0;

    for (int i = 0; i < 4; i++) {
        char c = s[i] | 0x20;
        int digit = s[i] >= '0' && s[i] <= '9' ? s[i] - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;

        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* \uXXXX, or two of them for a code point beyond U+FFFF; s stands behind the u. */
static int32_t unicode_escape(const char **s, const char *end)
{
    int32_t high, low;

    if (end - *s < 4 || (high = hex4(*s)) < 0)
        return -1;
    *s += 4;
    if (high < 0xD800 || high > 0xDFFF)
        return high;
    if (high > 0xDBFF || end - *s < 6 || (*s)[0] != '\\' || (*s)[1] != 'u' || (low = hex4(*s + 2)) < 0xDC00 ||
        low > 0xDFFF)
        return -1;
    *s += 6;
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
}

static bool undo_escapes(const char *s, const char *end, struct qr_buf *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";

    while (s < end) {
        const char *known;
        int32_t cp;

        if (*s != '\\') {
            qr_buf_putc(out, *s++);
            continue;
        }
        if (++s == end)
            return false;
        if (*s == 'u') {
            s++;
            if ((cp = unicode_escape(&s, end)) < 0)
                return false;
            qr_utf8_put(out, cp);
        } else if (*s && (known = strchr(from, *s))) {
            qr_buf_putc(out, to[known - from]);
            s++;
        } else {
            return false;
        }
    }
    return true;
}

/* A string; valid until the next one read into the same place (0 or 1). */
static enum qr_status read_string(struct qr_scan *scan, int place, struct qr_json_span *out)
{
    const char *start;
    bool escapes = false;

    if (!qr_scan_take(scan, '"'))
        return broken(scan, "a string was expected");
    for (start = scan->p; scan->p < scan->end && *scan->p != '"'; scan->p++) {
        if ((unsigned char)*scan->p < 0x20)
            return broken(scan, "a control character in a string");
        if (*scan->p == '\\') {
            escapes = true;
            if (++scan->p == scan->end)
                break;
        }
    }
    if (scan->p == scan->end)
        return broken(scan, "a string has no end");
    *out = (struct qr_json_span){start, (size_t)(scan->p++ - start)};
    if (qr_utf8_valid(out->s, out->n) < out->n)
        return broken(scan, "a string is not well-formed UTF-8");
    if (!escapes)
        return QR_OK;
    qr_buf_clear(&scan->text[place]);
    if (!undo_escapes(out->s, out->s + out->n, &scan->text[place]))
        return broken(scan, "a string has a wrong escape");
    if (!qr_buf_reserve(&scan->text[place], 0))
        return qr_fail(scan->err, QR_NOMEM, "out of memory for its strings");
    *out = (struct qr_json_span){scan->text[place].data, scan->text[place].len};
    return QR_OK;
}

/* Digits; how many. */
static size_t skip_digits(struct qr_scan *scan)
{
    const char *start = scan->p;

    while (scan->p < scan->end && *scan->p >= '0' && *scan->p <= '9')
        scan->p++;
    return (size_t)(scan->p - start);
}

static bool take_any(struct qr_scan *scan, const char *of)
{
    if (scan->p == scan->end || !*scan->p || !strchr(of, *scan->p))
        return false;
    scan->p++;
    return true;
}

/* A number as JSON writes them; c: the "C" locale, so that the point is one. */
static enum qr_status read_real(struct qr_scan *scan, locale_t c, double *value)
{
    const char *start;
    char text[64];
    size_t n;
    bool ok;

    qr_scan_space(scan);
    start = scan->p;
    take_any(scan, "-");
    ok = take_any(scan, "0") || skip_digits(scan) > 0;
    if (ok && take_any(scan, "."))
        ok = skip_digits(scan) > 0;
    if (ok && take_any(scan, "eE")) {
        take_any(scan, "+-");
        ok = skip_digits(scan) > 0;
    }
    n = (size_t)(scan->p - start);
    if (!ok || n >= sizeof text)
        return broken(scan, ok ? "a score has more than 63 characters" : "a score must be a number");
    memcpy(text, start, n);
    text[n] = 0;
    *value = strtod_l(text, NULL, c);
    return isfinite(*value) ? QR_OK : broken(scan, "a score is too large");
}

static enum qr_status read_id(struct qr_scan *scan, int64_t *id)
{
    bool negative;
    const char *start;

    qr_scan_space(scan);
    negative = scan->p < scan->end && *scan->p == '-';
    scan->p += negative;
    *id = 0;
    for (start = scan->p; scan->p < scan->end && *scan->p >= '0' && *scan->p <= '9'; scan->p++)
        if (*id < INT64_MAX / 100)
            *id = *id * 10 + (*scan->p - '0');
    if (scan->p == start || (*start == '0' && scan->p - start > 1) ||
        (scan->p < scan->end && (*scan->p == '.' || (*scan->p | 0x20) == 'e')))
        return broken(scan, "an id must be an integer");
    if (negative)
        *id = -*id;
    return QR_OK;
}

static void scan_free(struct qr_scan *scan)
{
    qr_buf_free(&scan->text[0]);
    qr_buf_free(&scan->text[1]);
}

static enum qr_status read_vocab(struct qr_scan *scan, struct qr_vocab *vocab)
{
    struct qr_json_span text;
    int64_t id;

    if (!qr_scan_take(scan, '{'))
        return broken(scan, "an object was expected");
    if (qr_scan_take(scan, '}'))
        return QR_OK;
    do {
        QR_TRY(read_string(scan, 0, &text));
        if (!qr_scan_take(scan, ':'))
            return broken(scan, "a colon was expected");
        QR_TRY(read_id(scan, &id));
        QR_TRY(qr_vocab_add(vocab, id, text.s, text.n, 0, scan->err));
    } while (qr_scan_take(scan, ','));
    return qr_scan_take(scan, '}') && scan->p == scan->end ? QR_OK : broken(scan, "a comma or } was expected");
}

enum qr_status qr_tokenizer_read_vocab(struct qr_json_span span, struct qr_vocab *vocab, struct qr_err *err)
{
    struct qr_scan scan = {.p = span.s, .end = span.s + span.n, .what = "vocab", .err = err};
    size_t guess = span.n / 16; /* bytes that an entry takes */
    enum qr_status status = qr_vocab_reserve(vocab, guess < QR_MAX_VOCAB ? guess : QR_MAX_VOCAB, err);

    if (status == QR_OK)
        status = read_vocab(&scan, vocab);
    scan_free(&scan);
    return status;
}

/* How many elements a list has at most: strings or lists. */
static size_t count_elements(struct qr_json_span span)
{
    struct qr_scan scan = {.p = span.s, .end = span.s + span.n};
    size_t n = 0;

    if (!qr_scan_take(&scan, '[') || qr_scan_take(&scan, ']'))
        return 0;
    while (qr_scan_skip(&scan)) {
        n++;
        if (!qr_scan_take(&scan, ','))
            break;
    }
    return n;
}

static enum qr_status no_score(struct qr_scan *scan, size_t i)
{
    return qr_fail(scan->err, QR_FORMAT, "token %zu of the Unigram model is no text with a score", i);
}

static enum qr_status read_scored(struct qr_scan *scan, locale_t c, struct qr_vocab *vocab, double *score, size_t n)
{
    struct qr_json_span text;
    size_t i = 0;

    if (!qr_scan_take(scan, '['))
        return broken(scan, "a list was expected");
    do {
        if (i == n || !qr_scan_take(scan, '['))
            return no_score(scan, i);
        QR_TRY(read_string(scan, 0, &text));
        if (!qr_scan_take(scan, ','))
            return no_score(scan, i);
        QR_TRY(read_real(scan, c, &score[i]));
        if (!qr_scan_take(scan, ']'))
            return no_score(scan, i);
        QR_TRY(qr_vocab_add(vocab, (int64_t)i++, text.s, text.n, 0, scan->err));
    } while (qr_scan_take(scan, ','));
    return i == n && qr_scan_take(scan, ']') && scan->p == scan->end ? QR_OK
                                                                     : broken(scan, "a comma or ] was expected");
}

enum qr_status qr_tokenizer_read_scored(struct qr_json_span span, struct qr_vocab *vocab, double **score, size_t *n,
                                        struct qr_err *err)
{
    struct qr_scan scan = {.p = span.s, .end = span.s + span.n, .what = "vocab", .err = err};
    enum qr_status status;
    locale_t c;

    *n = count_elements(span);
    if (*n == 0 || *n > QR_MAX_VOCAB)
        return qr_fail(err, QR_FORMAT, "the \"vocab\" of the Unigram model has %zu tokens, which must be 1 to %d", *n,
                       QR_MAX_VOCAB);
    c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    *score = c ? calloc(*n, sizeof **score) : NULL;
    status = *score ? qr_vocab_reserve(vocab, *n, err)
                    : qr_fail(err, QR_NOMEM, "out of memory for a vocabulary of %zu tokens", *n);
    if (status == QR_OK)
        status = read_scored(&scan, c, vocab, *score, *n);
    if (c)
        freelocale(c);
    scan_free(&scan);
    if (status != QR_OK)
        free(*score);
    return status;
}

/* "left right", or ["left", "right"]. */
static enum qr_status read_merge(struct qr_scan *scan, struct qr_json_span *left, struct qr_json_span *right)
{
    const char *space;

    if (!qr_scan_take(scan, '[')) {
        QR_TRY(read_string(scan, 0, left));
        space = memchr(left->s, ' ', left->n);
        if (!space || memchr(space + 1, ' ', left->n - (size_t)(space + 1 - left->s)))
            return broken(scan, "a merge must be two tokens with one space between");
        *right = (struct qr_json_span){space + 1, left->n - (size_t)(space + 1 - left->s)};
        left->n = (size_t)(space - left->s);
        return QR_OK;
    }
    QR_TRY(read_string(scan, 0, left));
    if (!qr_scan_take(scan, ','))
        return broken(scan, "a merge must have two parts");
    QR_TRY(read_string(scan, 1, right));
    return qr_scan_take(scan, ']') ? QR_OK : broken(scan, "a merge must have two parts");
}

static enum qr_status read_merges(struct qr_scan *scan, const struct qr_vocab *vocab, struct qr_bpe *bpe)
{
    struct qr_json_span left, right;
    uint32_t rank = 0;

    if (!qr_scan_take(scan, '['))
        return broken(scan, "a list was expected");
    if (qr_scan_take(scan, ']'))
        return QR_OK;
    do {
        QR_TRY(read_merge(scan, &left, &right));
        QR_TRY(qr_bpe_add(bpe, vocab, rank++, left.s, left.n, right.s, right.n, false, scan->err));
    } while (qr_scan_take(scan, ','));
    return qr_scan_take(scan, ']') && scan->p == scan->end ? QR_OK : broken(scan, "a comma or ] was expected");
}

enum qr_status qr_tokenizer_read_merges(struct qr_json_span span, const struct qr_vocab *vocab, struct qr_bpe *bpe,
                                        struct qr_err *err)
{
    struct qr_scan scan = {.p = span.s, .what = "merges", .err = err};
    enum qr_status status;

    if (!span.s)
        return qr_bpe_init(bpe, 0, err);
    scan.end = span.s + span.n;
    status = qr_bpe_init(bpe, count_elements(span), err);
    if (status == QR_OK)
        status = read_merges(&scan, vocab, bpe);
    scan_free(&scan);
    return status;
}
