/* json_parse.c - jansson's parser with a limit on depth, and made safe where memory runs out.
 *
 * jansson's lexer keeps a token's text in a buffer that doubles from 16 bytes. When the buffer cannot grow, lex_save()
 * (load.c, 2.14 and before) does not look: the byte is lost, and a string without its closing quote is read past its end. So
 * a parse sets memory aside for that buffer before it begins. The first allocation that fails gets it, and the text ends there:
 * the lexer is fed 8 bytes at a time, too few for a token to outgrow the 16 that its buffer has at least. */
#include <pthread.h>
#include <string.h>
#include "base/buf.h"
#include "base/json.h"
#include "base/mapfile.h"

#define MAX_DEPTH 200 /* jansson recurses once a level, and so does whoever walks the value */
#define STRICT    (JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL)
enum { PIECE = 8, LEXER_BUFFER = 16 };

struct shape {
    int depth;      /* deepest nesting */
    size_t longest; /* token, in bytes, quotes included */
};

struct parse {
    const char *data; /* [n] */
    size_t n, at;
    void *reserve; /* what the lexer's buffer gets when nothing else is left; NULL: none needed, or given */
    size_t n_reserve;
    bool failed;
};

static _Thread_local struct parse *running;       /* of this thread: jansson's hooks have no argument of their own */
static pthread_once_t hooked = PTHREAD_ONCE_INIT; /* the hooks are the process's, and stay */
static json_malloc_t next_malloc;
static json_free_t next_free;

static void *take(size_t n)
{
    struct parse *p = running;
    void *got = next_malloc(n);
    if (got || !p)
        return got;
    p->failed = true;
    if (n <= p->n_reserve) {
        got = p->reserve;
        p->reserve = NULL;
        p->n_reserve = 0;
    }
    return got;
}

static void hook(void)
{
    json_get_alloc_funcs(&next_malloc, &next_free);
    json_set_alloc_funcs(take, next_free);
}

static size_t feed(void *buffer, size_t room, void *ctx)
{
    struct parse *p = ctx;
    size_t n = p->failed ? 0 : p->n - p->at;
    n = n < PIECE ? n : PIECE;
    n = n < room ? n : room;
    memcpy(buffer, p->data + p->at, n);
    p->at += n;
    return n;
}

/* Right for valid text, and never too small for what jansson would enter; ends early where depth is over the limit. */
static struct shape measure(const char *data, size_t n)
{
    struct shape s = {0};
    int depth = 0;
    size_t begin = 0; /* of the token that may be going on */
    bool in_string = false;

    for (size_t i = 0; i < n && s.depth <= MAX_DEPTH; i++) {
        char c = data[i];

        if (in_string) {
            if (c == '\\')
                i++;
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
            begin = i;
        } else if (c == '[' || c == '{') {
            s.depth = ++depth > s.depth ? depth : s.depth;
            begin = i;
        } else if (c == ']' || c == '}') {
            depth--;
            begin = i;
        } else if (c == ',' || c == ':' || c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            begin = i;
        }
        if (i - begin >= s.longest)
            s.longest = i - begin + 1;
    }
    return s;
}

/* json_load_callback, with what it needs besides at hand. *failed: for want of memory. */
static json_t *load(const char *data, size_t n, size_t longest, size_t flags, json_error_t *error, bool *failed)
{
    struct parse p = {.data = n ? data : "", .n = n};
    json_t *value = NULL;

    pthread_once(&hooked, hook);
    if (longest + 2 >= LEXER_BUFFER) { /* one byte is read ahead, one ends the text; a full buffer doubles */
        p.n_reserve = (longest + 2) * 2;
        p.reserve = next_malloc(p.n_reserve);
        p.failed = !p.reserve;
    }
    if (!p.failed) {
        running = &p;
        value = json_load_callback(feed, &p, flags, error);
        running = NULL;
    }
    if (p.reserve)
        next_free(p.reserve);
    *failed = p.failed;
    if (p.failed) {
        json_decref(value);
        value = NULL;
    }
    return value;
}

/* *huge, if not NULL: the text is bad for the size of a number, no more is known. */
static enum qr_status parse(const char *data, size_t n, const char *what, size_t flags, bool *huge, json_t **out,
                            struct qr_err *err)
{
    json_error_t error = {0};
    struct shape shape = measure(data, n);
    bool failed;

    *out = NULL;
    if (shape.depth > MAX_DEPTH)
        return qr_fail(err, QR_LIMIT, "%s: JSON is nested more than %d deep", what, MAX_DEPTH);
    *out = load(data, n, shape.longest, flags, &error, &failed);
    if (*out)
        return QR_OK;
    if (failed)
        return qr_fail(err, QR_NOMEM, "%s: out of memory while parsing %zu bytes of JSON", what, n);
    if (huge)
        *huge = json_error_code(&error) == json_error_numeric_overflow;
    return qr_fail(err, QR_FORMAT, "%s: bad JSON at line %d, column %d: %s", what, error.line, error.column,
                   error.text);
}

/* Integers of so many digits as may be beyond int64 as real numbers: with e0 behind them. */
static void put_reals(const char *data, size_t n, struct qr_buf *out)
{
    enum { MOST = 18 }; /* digits of which no number is beyond */
    bool in_string = false;

    for (size_t i = 0; i < n;) {
        size_t from = i, digits = 0;

        if (in_string || data[i] == '"') {
            in_string = data[i] != '"' || !in_string;
            i += data[i] == '\\' && in_string && i + 1 < n ? 2 : 1;
        } else if ((data[i] >= '0' && data[i] <= '9') || data[i] == '.' || data[i] == 'e' || data[i] == 'E') {
            bool whole = true; /* a number from its first digit on, or letters of true and false */

            for (; i < n && data[i] && strchr("0123456789.eE+-", data[i]); i++) {
                digits += data[i] >= '0' && data[i] <= '9';
                whole &= data[i] >= '0' && data[i] <= '9';
            }
            qr_buf_append(out, data + from, i - from);
            if (whole && digits > MOST)
                qr_buf_puts(out, "e0");
            continue;
        } else {
            i++;
        }
        qr_buf_append(out, data + from, i - from);
    }
}

enum qr_status qr_json_parse(const char *data, size_t n, const char *what, json_t **out, struct qr_err *err)
{
    return parse(data, n, what, STRICT, NULL, out, err);
}

enum qr_status qr_json_parse_file(const char *data, size_t n, const char *what, json_t **out, struct qr_err *err)
{
    bool huge = false;
    struct qr_buf text;
    enum qr_status status;

    *out = NULL;
    if (qr_file_mistaken(data, n))
        return qr_fail(err, QR_FORMAT, "%s: this is %s", what, qr_file_mistaken(data, n));
    if (n >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0)
        return qr_fail(err, QR_FORMAT, "%s: it begins with a byte order mark, which JSON has none of: save it without",
                       what);
    status = parse(data, n, what, STRICT, &huge, out, err);
    if (status == QR_OK || !huge)
        return status;
    qr_buf_init(&text, 0);
    put_reals(data, n, &text);
    if (text.failed)
        status = qr_fail(err, QR_NOMEM, "%s: out of memory while parsing %zu bytes of JSON", what, n);
    else
        status = parse(text.data, text.len, what, STRICT, NULL, out, err);
    qr_buf_free(&text);
    return status;
}

enum qr_status qr_json_parse_lax(const char *data, size_t n, const char *what, json_t **out, struct qr_err *err)
{
    return parse(data, n, what, 0, NULL, out, err);
}
