/* pretok.c - the steps of a pre-tokenizer, each cutting the pieces of the one before. Pieces flow through all steps one
 * by one, so that no list of them is kept. */
#include "text/pretok.h"
#include <stdlib.h>
#include <string.h>
#include "text/bytelevel.h"
#include "text/utf8.h"

struct run {
    const struct qr_pretok *pretok;
    struct qr_regex_state *state;
    qr_word_fn fn;
    void *ctx;
    struct qr_err *err;
    const char *first; /* where the whole text begins; NULL: not here */
};

static enum qr_status run_step(struct run *run, int i, const char *s, size_t n, bool letters);

/* Cuts of one piece: pieces under construction go to the next step once they are known to be complete. */
struct cut {
    struct run *run;
    int next; /* step */
    const char *s;
    bool letters;
    const struct qr_step *step;
    bool any;          /* [start, end) is held back */
    size_t start, end; /* what is held back: the rest of the rule may still lengthen it */
    bool after_match;
};

static enum qr_status flush(struct cut *cut)
{
    size_t start = cut->start, end = cut->end;
    bool any = cut->any;

    cut->any = false;
    if (!any || start == end)
        return QR_OK;
    return run_step(cut->run, cut->next, cut->s + start, end - start, cut->letters);
}

/* The next stretch of the text, a match or what lies between two. Stretches cover the text, in order. */
static enum qr_status add_stretch(struct cut *cut, size_t start, size_t end, bool match)
{
    bool joins = false; /* it lengthens what is held back */

    match ^= cut->step->invert;
    switch (cut->step->split) {
    case QR_SPLIT_REMOVED:
        if (match)
            return flush(cut);
        break;
    case QR_SPLIT_CONTIGUOUS:
        joins = match == cut->after_match;
        break;
    case QR_SPLIT_MERGED_WITH_PREVIOUS:
        joins = match && !cut->after_match;
        break;
    case QR_SPLIT_MERGED_WITH_NEXT:
        /* from the right: a match joins what follows unless that is a match: a held match is joined by no match */
        joins = !match && cut->after_match;
        break;
    case QR_SPLIT_ISOLATED:
        break;
    }
    cut->after_match = match;
    if (joins && cut->any) {
        cut->end = end;
        return QR_OK;
    }
    QR_TRY(flush(cut));
    cut->any = true;
    cut->start = start;
    cut->end = end;
    return QR_OK;
}

/* A match at [start, end); *done is the end of the last stretch. */
static enum qr_status add_match(struct cut *cut, size_t *done, size_t start, size_t end)
{
    if (start > *done)
        QR_TRY(add_stretch(cut, *done, start, false));
    *done = end;
    return add_stretch(cut, start, end, true);
}

static enum qr_status cut_by_regex(struct cut *cut, size_t n, size_t *done)
{
    bool found;
    size_t from = 0, start = 0, end = 0, len;

    while (from <= n) {
        QR_TRY(qr_regex_match(cut->step->regex, cut->s, n, from, cut->run->state, &found, &start, &end, cut->run->err));
        if (!found)
            break;
        if (end > start) {
            QR_TRY(add_match(cut, done, start, end));
            from = end;
            continue;
        }
        /* an empty match cuts, but not right behind a match; then go on one character further */
        if (start > *done)
            QR_TRY(add_match(cut, done, start, end));
        if (start >= n)
            break;
        qr_utf8_get(cut->s + start, &len);
        from = start + len;
    }
    return QR_OK;
}

static enum qr_status cut_by_string(struct cut *cut, size_t n, size_t *done)
{
    const struct qr_step *step = cut->step;
    const char *at;

    while (step->n_text > 0 && n - *done >= step->n_text &&
           (at = memmem(cut->s + *done, n - *done, step->text, step->n_text)))
        QR_TRY(add_match(cut, done, (size_t)(at - cut->s), (size_t)(at - cut->s) + step->n_text));
    return QR_OK;
}

/* Each code point that has a property. */
static enum qr_status cut_by_property(struct cut *cut, size_t n, size_t *done, bool (*has)(int32_t cp))
{
    for (size_t i = 0, len; i < n; i += len)
        if (has(qr_utf8_get(cut->s + i, &len)))
            QR_TRY(add_match(cut, done, i, i + len));
    return QR_OK;
}

/* \w+|[^\w\s]+ */
static enum qr_status cut_by_words(struct cut *cut, size_t n, size_t *done)
{
    for (size_t i = 0, end, len; i < n; i = end) {
        int32_t cp = qr_utf8_get(cut->s + i, &len);
        bool word = qr_cp_is_word(cp);

        end = i + len;
        if (!word && qr_cp_is_space(cp))
            continue;
        while (end < n) {
            cp = qr_utf8_get(cut->s + end, &len);
            if (qr_cp_is_word(cp) != word || (!word && qr_cp_is_space(cp)))
                break;
            end += len;
        }
        QR_TRY(add_match(cut, done, i, end));
    }
    return QR_OK;
}

static enum qr_status run_cut(struct run *run, int i, const char *s, size_t n, bool letters)
{
    const struct qr_step *step = &run->pretok->step[i];
    struct cut cut = {.run = run, .next = i + 1, .s = s, .letters = letters, .step = step};
    enum qr_status status;
    size_t done = 0;

    if (step->kind == QR_STEP_REGEX)
        status = cut_by_regex(&cut, n, &done);
    else if (step->kind == QR_STEP_STRING)
        status = cut_by_string(&cut, n, &done);
    else if (step->kind == QR_STEP_WORDS)
        status = cut_by_words(&cut, n, &done);
    else if (step->kind == QR_STEP_NUMERIC)
        status = cut_by_property(&cut, n, &done, qr_cp_is_numeric);
    else if (step->kind == QR_STEP_SPACE)
        status = cut_by_property(&cut, n, &done, qr_cp_is_space);
    else
        status = cut_by_property(&cut, n, &done, qr_cp_is_punctuation);
    if (status == QR_OK && done < n)
        status = add_stretch(&cut, done, n, false);
    return status == QR_OK ? flush(&cut) : status;
}

static void put_metaspace(const struct qr_step *step, const char *s, size_t n, bool first, struct qr_buf *out)
{
    bool has = n >= step->n_text && memcmp(s, step->text, step->n_text) == 0;

    qr_buf_reserve(out, n + n / 2 + step->n_text);
    if (s[0] != ' ' && !has && (step->prefix == QR_PREFIX_ALWAYS || (step->prefix == QR_PREFIX_FIRST && first)))
        qr_buf_append(out, step->text, step->n_text);
    while (n > 0) {
        const char *space = memchr(s, ' ', n);
        size_t plain = space ? (size_t)(space - s) : n;

        qr_buf_append(out, s, plain);
        if (space)
            qr_buf_append(out, step->text, step->n_text);
        plain += space != NULL;
        s += plain;
        n -= plain;
    }
}

/* A step that rewrites the piece. */
static enum qr_status run_rewritten(struct run *run, int i, const char *s, size_t n, bool letters)
{
    const struct qr_step *step = &run->pretok->step[i];
    bool to_letters = step->kind == QR_STEP_LETTERS;
    const char *first = run->first;
    enum qr_status status;
    struct qr_buf text;

    qr_buf_init(&text, 0);
    if (to_letters) {
        qr_bytes_to_letters(s, n, &text);
    } else if (step->kind == QR_STEP_METASPACE) {
        put_metaspace(step, s, n, s == first, &text);
    } else {
        qr_buf_putc(&text, ' ');
        qr_buf_append(&text, s, n);
    }
    if (s == first)
        run->first = text.data;
    if (text.failed || !text.data)
        status = qr_fail(run->err, QR_NOMEM, "out of memory for a word of %zu bytes", n);
    else
        status = run_step(run, i + 1, text.data, text.len, letters || to_letters);
    run->first = first;
    qr_buf_free(&text);
    return status;
}

static enum qr_status word_of_letters(struct run *run, const char *s, size_t n)
{
    char *bytes = malloc(n);
    size_t n_bytes;
    enum qr_status status;

    if (!bytes)
        return qr_fail(run->err, QR_NOMEM, "out of memory for a word of %zu bytes", n);
    qr_letters_to_bytes(s, n, bytes, &n_bytes);
    status = run->fn(run->ctx, bytes, n_bytes, run->err);
    free(bytes);
    return status;
}

static enum qr_status run_step(struct run *run, int i, const char *s, size_t n, bool letters)
{
    if (i == run->pretok->n)
        return letters ? word_of_letters(run, s, n) : run->fn(run->ctx, s, n, run->err);
    switch (run->pretok->step[i].kind) {
    case QR_STEP_PREFIX:
        if (s[0] == ' ')
            return run_step(run, i + 1, s, n, letters);
        return run_rewritten(run, i, s, n, letters);
    case QR_STEP_LETTERS:
    case QR_STEP_METASPACE:
        return run_rewritten(run, i, s, n, letters);
    default:
        return run_cut(run, i, s, n, letters);
    }
}

enum qr_status qr_pretok_run(const struct qr_pretok *pretok, const char *s, size_t n, bool first,
                             struct qr_regex_state *state, qr_word_fn fn, void *ctx, struct qr_err *err)
{
    struct run run = {pretok, state, fn, ctx, err, first ? s : NULL};

    return s && n ? run_step(&run, 0, s, n, false) : QR_OK;
}
