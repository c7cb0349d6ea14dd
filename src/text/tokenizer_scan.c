/* tokenizer_scan.c - cutting the vocabulary and the merges out of a tokenizer.json: they are 99% of the file, some
 * 300,000 strings, and tokenizer_read.c reads them without a JSON tree. The rest is jansson's. */
#include "text/tokenizer_scan.h"
#include <string.h>

void qr_scan_space(struct qr_scan *scan)
{
    while (scan->p < scan->end && (*scan->p == ' ' || *scan->p == '\n' || *scan->p == '\t' || *scan->p == '\r'))
        scan->p++;
}

bool qr_scan_take(struct qr_scan *scan, char c)
{
    qr_scan_space(scan);
    if (scan->p == scan->end || *scan->p != c)
        return false;
    scan->p++;
    return true;
}

/* Behind an opening quote: moves behind the closing one; false when there is none. */
static bool skip_string(struct qr_scan *scan)
{
    for (; scan->p < scan->end; scan->p++) {
        if (*scan->p == '\\')
            scan->p++;
        else if (*scan->p == '"')
            return scan->p++, true;
    }
    scan->p = scan->end;
    return false;
}

bool qr_scan_skip(struct qr_scan *scan)
{
    int depth = 0;

    qr_scan_space(scan);
    while (scan->p < scan->end) {
        char c = *scan->p;

        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            return true; /* behind a number or a word */
        scan->p++;
        if (c == '"' && !skip_string(scan))
            return false;
        if (c == '{' || c == '[')
            depth++;
        else if (c == '}' || c == ']')
            depth--;
        if (depth == 0 && (c == '"' || c == '}' || c == ']'))
            return true;
    }
    return false;
}

/* In an object: the next key (raw, without escapes undone); false at its end or where the text is broken. */
static bool next_key(struct qr_scan *scan, struct qr_json_span *key)
{
    if (!qr_scan_take(scan, '"'))
        return false;
    key->s = scan->p;
    if (!skip_string(scan))
        return false;
    key->n = (size_t)(scan->p - 1 - key->s);
    return qr_scan_take(scan, ':');
}

static bool key_is(struct qr_json_span key, const char *name)
{
    return key.n == strlen(name) && memcmp(key.s, name, key.n) == 0;
}

/* The vocabulary is an object, or of Unigram a list. */
static void cut_value(struct qr_scan *scan, bool object, const char **copied, struct qr_buf *rest,
                      struct qr_json_span *span)
{
    const char *start;

    qr_scan_space(scan);
    start = scan->p;
    if (span->s || start == scan->end || (*start != '[' && !(object && *start == '{')) || !qr_scan_skip(scan) ||
        scan->p - start < 2)
        return;
    *span = (struct qr_json_span){start, (size_t)(scan->p - start)};
    qr_buf_append(rest, *copied, (size_t)(start - *copied));
    qr_buf_puts(rest, *start == '{' ? "{}" : "[]");
    *copied = scan->p;
}

enum qr_status qr_tokenizer_cut(const char *json, size_t n, struct qr_buf *rest, struct qr_json_span *vocab,
                                struct qr_json_span *merges, struct qr_err *err)
{
    struct qr_scan scan = {.p = json, .end = json + n};
    const char *copied = json;
    struct qr_json_span key;
    int depth = 0; /* 1: in the file's object, 2: in its "model" */

    *vocab = *merges = (struct qr_json_span){0};
    if (qr_scan_take(&scan, '{'))
        depth = 1;
    while (depth > 0) {
        if (!next_key(&scan, &key)) {
            /* the end of "model", or of all; a broken text is found by who reads the rest */
            if (depth == 1 || !qr_scan_take(&scan, '}'))
                break;
            depth = 1;
        } else if (depth == 1 && key_is(key, "model") && qr_scan_take(&scan, '{')) {
            depth = 2;
            continue;
        } else if (depth == 2 && key_is(key, "vocab")) {
            cut_value(&scan, true, &copied, rest, vocab);
        } else if (depth == 2 && key_is(key, "merges")) {
            cut_value(&scan, false, &copied, rest, merges);
        }
        if (!qr_scan_skip(&scan))
            break;
        if (!qr_scan_take(&scan, ',') && depth == 1)
            break;
    }
    qr_buf_append(rest, copied, (size_t)(json + n - copied));
    return rest->failed ? qr_fail(err, QR_NOMEM, "tokenizer.json: out of memory") : QR_OK;
}
