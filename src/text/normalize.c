/* normalize.c - see normalize.h; the meaning of each step is that of the tokenizers package. */
#include "text/normalize.h"
#include <stdlib.h>
#include <string.h>

#define OWN_WORK 100000000u /* steps of regular expressions when the caller counts none */

static void free_step(const struct qr_normal_step *step)
{
    qr_regex_free(step->regex);
    qr_charsmap_free(step->map);
    free(step->text);
    free(step->content);
}

enum qr_status qr_normalizer_add(struct qr_normalizer *normalizer, const struct qr_normal_step *step,
                                 struct qr_err *err)
{
    if (normalizer->n == QR_MAX_NORMAL) {
        free_step(step);
        return qr_fail(err, QR_LIMIT, "the normalizer has more than %d steps", QR_MAX_NORMAL);
    }
    normalizer->step[normalizer->n++] = *step;
    return QR_OK;
}

enum qr_status qr_normalizer_add_form(struct qr_normalizer *normalizer, enum qr_normal_form form, struct qr_err *err)
{
    struct qr_normal_step step = {.kind = QR_NORMAL_FORM, .form = form};

    return qr_normalizer_add(normalizer, &step, err);
}

void qr_normalizer_free(struct qr_normalizer *normalizer)
{
    for (int i = 0; i < normalizer->n; i++)
        free_step(&normalizer->step[i]);
    normalizer->n = 0;
}

static bool idle(const struct qr_normal_step *step, const char *s, size_t n)
{
    switch (step->kind) {
    case QR_NORMAL_FORM:
        return qr_normal_certain(step->form, s, n);
    case QR_NORMAL_LOWERCASE:
        for (size_t i = 0; i < n; i++)
            if ((unsigned char)s[i] >= 0x80 || (s[i] >= 'A' && s[i] <= 'Z'))
                return false;
        return true;
    case QR_NORMAL_REPLACE:
        return !step->regex && (step->n_text == 0 || !memmem(s, n, step->text, step->n_text));
    case QR_NORMAL_PREPEND:
        return n == 0 || step->n_content == 0;
    case QR_NORMAL_CHARSMAP:
        return qr_charsmap_idle(step->map, s, n);
    default:
        return n == 0;
    }
}

bool qr_normalizer_idle(const struct qr_normalizer *normalizer, const char *s, size_t n)
{
    for (int i = 0; i < normalizer->n; i++)
        if (!idle(&normalizer->step[i], s, n))
            return false;
    return true;
}

static enum qr_status replace_by_regex(const struct qr_normal_step *step, const char *s, size_t n,
                                       struct qr_regex_state *state, struct qr_buf *out, struct qr_err *err)
{
    size_t from = 0, done = 0, start = 0, end = 0, len;
    bool found;

    while (from <= n) {
        QR_TRY(qr_regex_match(step->regex, s, n, from, state, &found, &start, &end, err));
        if (!found)
            break;
        if (end > start || start > done || done == 0) {
            qr_buf_append(out, s + done, start - done);
            qr_buf_append(out, step->content, step->n_content);
            done = end;
        }
        if (end > start) {
            from = end;
            continue;
        }
        if (start >= n)
            break;
        qr_utf8_get(s + start, &len);
        from = start + len;
    }
    qr_buf_append(out, s + done, n - done);
    return QR_OK;
}

enum qr_status qr_normal_replace(const struct qr_normal_step *step, const char *s, size_t n,
                                 struct qr_regex_state *state, struct qr_buf *out, struct qr_err *err)
{
    const char *at;

    if (step->regex)
        return replace_by_regex(step, s, n, state, out, err);
    while (step->n_text > 0 && n >= step->n_text && (at = memmem(s, n, step->text, step->n_text))) {
        qr_buf_append(out, s, (size_t)(at - s));
        qr_buf_append(out, step->content, step->n_content);
        n -= (size_t)(at - s) + step->n_text;
        s = at + step->n_text;
    }
    qr_buf_append(out, s, n);
    return QR_OK;
}

static void lower(const char *s, size_t n, struct qr_buf *out)
{
    qr_buf_reserve(out, n);
    for (size_t i = 0, len; i < n; i += len)
        qr_utf8_put_lower(out, qr_utf8_get(s + i, &len));
}

static void strip(const struct qr_normal_step *step, const char *s, size_t n, struct qr_buf *out, bool *moved)
{
    size_t start = 0, end = n, len;

    while (step->left && start < end && qr_cp_is_space(qr_utf8_get(s + start, &len)))
        start += len;
    while (step->right && end > start) {
        size_t at = end - 1;

        while (at > start && ((unsigned char)s[at] & 0xC0) == 0x80)
            at--;
        if (!qr_cp_is_space(qr_utf8_get(s + at, &len)))
            break;
        end = at;
    }
    *moved = *moved || start > 0;
    qr_buf_append(out, s + start, end - start);
}

static enum qr_status run_step(const struct qr_normal_step *step, const char *s, size_t n, struct qr_regex_state *state,
                               struct qr_buf *out, bool *moved, struct qr_err *err)
{
    switch (step->kind) {
    case QR_NORMAL_FORM:
        return qr_normal_form(step->form, s, n, out, err);
    case QR_NORMAL_LOWERCASE:
        lower(s, n, out);
        return QR_OK;
    case QR_NORMAL_REPLACE:
        return qr_normal_replace(step, s, n, state, out, err);
    case QR_NORMAL_PREPEND:
        qr_buf_append(out, step->content, step->n_content);
        qr_buf_append(out, s, n);
        return QR_OK;
    case QR_NORMAL_CHARSMAP: /* memory that ran out is seen by the caller */
        qr_charsmap_apply(step->map, s, n, out);
        return QR_OK;
    default:
        strip(step, s, n, out, moved);
        return QR_OK;
    }
}

static enum qr_status fail_text(const struct qr_buf *out, size_t n, struct qr_err *err)
{
    if (!out->over)
        return qr_fail(err, QR_NOMEM, "out of memory while normalizing a text of %zu bytes", n);
    return qr_fail(err, QR_LIMIT,
                   "the tokenizer's normalizer makes more than %zu bytes out of a text of %zu: take another tokenizer",
                   out->cap, n);
}

static enum qr_status run_all(const struct qr_normalizer *normalizer, const char *s, size_t n,
                              struct qr_regex_state *state, struct qr_buf *out, bool *moved, struct qr_err *err)
{
    struct qr_buf text[2];
    enum qr_status status = QR_OK;
    size_t n_given = n, room = qr_normal_room(n);
    int turn = 0;

    if (out->cap && out->cap - out->len < room)
        room = out->cap > out->len ? out->cap - out->len : 1;
    qr_buf_init(&text[0], room);
    qr_buf_init(&text[1], room);
    for (int i = 0; i < normalizer->n && status == QR_OK; i++) {
        const struct qr_normal_step *step = &normalizer->step[i];

        if (idle(step, s, n))
            continue;
        qr_buf_clear(&text[turn]);
        status = run_step(step, s, n, state, &text[turn], moved, err);
        if (status == QR_OK && text[turn].failed)
            status = fail_text(&text[turn], n_given, err);
        s = text[turn].data ? text[turn].data : "";
        n = text[turn].len;
        turn = !turn;
    }
    if (status == QR_OK && !qr_buf_append(out, s, n))
        status = fail_text(out, n_given, err);
    qr_buf_free(&text[0]);
    qr_buf_free(&text[1]);
    return status;
}

enum qr_status qr_normalizer_run(const struct qr_normalizer *normalizer, const char *s, size_t n,
                                 struct qr_regex_state *state, struct qr_buf *out, bool *moved, struct qr_err *err)
{
    struct qr_regex_state own;
    enum qr_status status;

    *moved = false;
    if (state)
        return run_all(normalizer, s, n, state, out, moved, err);
    QR_TRY(qr_regex_state_init(&own, OWN_WORK, err));
    status = run_all(normalizer, s, n, &own, out, moved, err);
    qr_regex_state_free(&own);
    return status;
}
