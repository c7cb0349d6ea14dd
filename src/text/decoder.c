/* decoder.c - see decoder.h. */
#include "text/decoder.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define OWN_WORK 1000000000u /* steps of regular expressions in one decoding */

static void free_replace(const struct qr_normal_step *step)
{
    qr_regex_free(step->regex);
    free(step->text);
    free(step->content);
}

enum qr_status qr_decoder_add(struct qr_decoder *decoder, const struct qr_decode_step *step, struct qr_err *err)
{
    if (decoder->n == QR_MAX_DECODE) {
        free_replace(&step->replace);
        return qr_fail(err, QR_LIMIT, "the decoder has more than %d steps", QR_MAX_DECODE);
    }
    decoder->step[decoder->n++] = *step;
    return QR_OK;
}

void qr_decoder_free(struct qr_decoder *decoder)
{
    for (int i = 0; i < decoder->n; i++)
        free_replace(&decoder->step[i].replace);
    decoder->n = 0;
}

void qr_texts_init(struct qr_texts *texts)
{
    *texts = (struct qr_texts){0};
    qr_buf_init(&texts->bytes, 0);
}

void qr_texts_free(struct qr_texts *texts)
{
    qr_buf_free(&texts->bytes);
    free(texts->end);
    *texts = (struct qr_texts){0};
}

/* The bytes that were appended since the last text are one. */
static bool end_text(struct qr_texts *texts)
{
    if (texts->n == texts->room) {
        size_t room = texts->room ? 2 * texts->room : 64;
        size_t *end = room > SIZE_MAX / sizeof *end ? NULL : realloc(texts->end, room * sizeof *end);

        if (!end) {
            texts->bytes.failed = true;
            return false;
        }
        texts->end = end;
        texts->room = room;
    }
    texts->end[texts->n++] = texts->bytes.len;
    return !texts->bytes.failed;
}

bool qr_texts_add(struct qr_texts *texts, const char *s, size_t n)
{
    return qr_buf_append(&texts->bytes, s, n) && end_text(texts);
}

static bool is_byte(const char *s, size_t n, char *byte)
{
    unsigned v = 0;

    if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>')
        return false;
    /* u8::from_str_radix takes a sign, too */
    for (size_t i = s[3] == '+' ? 4 : 3; i < 5; i++) {
        char c = s[i];

        if (c >= '0' && c <= '9')
            v = v * 16 + (unsigned)(c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            v = v * 16 + (unsigned)((c | 0x20) - 'a' + 10);
        else
            return false;
    }
    *byte = (char)v;
    return true;
}

/* Bytes in a row: the text that they spell, or as many U+FFFD. */
static void end_bytes(const struct qr_buf *bytes, struct qr_texts *to)
{
    if (bytes->len == 0)
        return;
    if (qr_utf8_valid(bytes->data, bytes->len) == bytes->len) {
        qr_texts_add(to, bytes->data, bytes->len);
        return;
    }
    for (size_t i = 0; i < bytes->len; i++)
        qr_texts_add(to, "\xEF\xBF\xBD", 3);
}

static void byte_fallback(const struct qr_texts *from, struct qr_texts *to)
{
    struct qr_buf bytes;

    qr_buf_init(&bytes, 0);
    for (size_t i = 0, start = 0; i < from->n; start = from->end[i++]) {
        const char *s = from->bytes.data + start;
        size_t n = from->end[i] - start;
        char byte;

        if (is_byte(s, n, &byte)) {
            qr_buf_putc(&bytes, byte);
            continue;
        }
        end_bytes(&bytes, to);
        qr_buf_clear(&bytes);
        qr_texts_add(to, s, n);
    }
    end_bytes(&bytes, to);
    to->bytes.failed = to->bytes.failed || bytes.failed;
    qr_buf_free(&bytes);
}

static void strip(const struct qr_decode_step *step, const char *s, size_t n, struct qr_texts *to)
{
    size_t start = 0, end = n;

    for (size_t i = 0; i < step->start && n - start >= step->n_text && memcmp(s + start, step->text, step->n_text) == 0;
         i++)
        start += step->n_text;
    for (size_t i = 0;
         i < step->stop && end - start >= step->n_text && memcmp(s + end - step->n_text, step->text, step->n_text) == 0;
         i++)
        end -= step->n_text;
    qr_texts_add(to, s + start, end - start);
}

static void metaspace(const struct qr_decode_step *step, const char *s, size_t n, bool first, struct qr_buf *out)
{
    for (const char *at; step->n_text > 0 && (at = n ? memmem(s, n, step->text, step->n_text) : NULL);) {
        qr_buf_append(out, s, (size_t)(at - s));
        if (!(first && step->drop))
            qr_buf_putc(out, ' ');
        n -= (size_t)(at - s) + step->n_text;
        s = at + step->n_text;
    }
    qr_buf_append(out, s, n);
}

/* Bytes that steps may make out of n, at most: real ones make no more than three of one. */
static size_t most_bytes(size_t n)
{
    return n > SIZE_MAX / 128 ? SIZE_MAX / 2 : 256 + 64 * n;
}

static enum qr_status fail_text(const struct qr_buf *out, struct qr_err *err)
{
    if (!out->over)
        return qr_fail(err, QR_NOMEM, "out of memory while decoding");
    return qr_fail(err, QR_LIMIT,
                   "the tokenizer's decoder makes more than %zu bytes of some tokens: take another tokenizer",
                   out->cap);
}

/* One step over texts from, into to. */
static enum qr_status run_step(const struct qr_decode_step *step, struct qr_texts *from, struct qr_texts *to,
                               struct qr_regex_state *state, struct qr_err *err)
{
    if (step->kind == QR_DECODE_BYTE_FALLBACK) {
        byte_fallback(from, to);
        return QR_OK;
    }
    if (step->kind == QR_DECODE_FUSE) {
        qr_texts_add(to, from->bytes.data, from->bytes.len);
        return QR_OK;
    }
    for (size_t i = 0, start = 0; i < from->n; start = from->end[i++]) {
        const char *s = from->bytes.data + start;
        size_t n = from->end[i] - start;

        if (step->kind == QR_DECODE_STRIP) {
            strip(step, s, n, to);
            continue;
        }
        if (step->kind == QR_DECODE_REPLACE)
            QR_TRY(qr_normal_replace(&step->replace, s, n, state, &to->bytes, err));
        else
            metaspace(step, s, n, i == 0, &to->bytes);
        end_text(to);
    }
    return QR_OK;
}

static enum qr_status run_all(const struct qr_decoder *decoder, struct qr_texts *texts, struct qr_regex_state *state,
                              struct qr_err *err)
{
    size_t most = most_bytes(texts->bytes.len);

    for (int i = 0; i < decoder->n; i++) {
        struct qr_texts from = *texts;
        enum qr_status status = QR_NOMEM;

        qr_texts_init(texts);
        texts->bytes.cap = most;
        if (!from.bytes.failed && (from.bytes.data || qr_buf_reserve(&from.bytes, 1))) /* no step sees NULL */
            status = run_step(&decoder->step[i], &from, texts, state, err);
        qr_texts_free(&from);
        if (status == QR_NOMEM || texts->bytes.failed)
            return fail_text(&texts->bytes, err);
        QR_TRY(status);
    }
    return QR_OK;
}

enum qr_status qr_decoder_run(const struct qr_decoder *decoder, struct qr_texts *texts, struct qr_buf *out,
                              struct qr_err *err)
{
    struct qr_regex_state state;
    enum qr_status status;

    QR_TRY(qr_regex_state_init(&state, OWN_WORK, err));
    status = run_all(decoder, texts, &state, err);
    qr_regex_state_free(&state);
    if (status != QR_OK)
        return status;
    for (size_t i = 0, start = 0; i < texts->n; start = texts->end[i++]) {
        if (decoder->joined && i > 0)
            qr_buf_putc(out, ' ');
        qr_buf_append(out, texts->bytes.data + start, texts->end[i] - start);
    }
    return out->failed ? qr_fail(err, QR_NOMEM, "out of memory while decoding") : QR_OK;
}

enum qr_status qr_decoder_piece(const struct qr_decoder *decoder, const char *s, size_t n, struct qr_buf *out,
                                struct qr_err *err)
{
    struct qr_buf text[2];
    struct qr_regex_state state = {0};
    enum qr_status status = QR_OK;
    int turn = 0;
    char byte;

    qr_buf_init(&text[0], most_bytes(n));
    qr_buf_init(&text[1], most_bytes(n));
    for (int i = 0; i < decoder->n && status == QR_OK; i++) {
        const struct qr_decode_step *step = &decoder->step[i];
        struct qr_buf *to = &text[turn];

        if (step->kind == QR_DECODE_BYTE_FALLBACK && is_byte(s, n, &byte)) {
            qr_buf_putc(out, byte);
            n = 0;
            break;
        }
        if (step->kind != QR_DECODE_REPLACE && step->kind != QR_DECODE_METASPACE)
            continue;
        if (step->replace.regex && !state.match_data)
            status = qr_regex_state_init(&state, OWN_WORK, err);
        qr_buf_clear(to);
        if (status == QR_OK && step->kind == QR_DECODE_REPLACE)
            status = qr_normal_replace(&step->replace, s, n, &state, to, err);
        else if (status == QR_OK)
            metaspace(step, s, n, false, to);
        if (status == QR_OK && to->failed)
            status = fail_text(to, err);
        s = to->data ? to->data : "";
        n = to->len;
        turn = !turn;
    }
    if (status == QR_OK && n > 0 && !qr_buf_append(out, s, n))
        status = qr_fail(err, QR_NOMEM, "out of memory for a token of %zu bytes", n);
    if (status == QR_OK && decoder->joined)
        qr_buf_putc(out, ' ');
    if (state.match_data)
        qr_regex_state_free(&state);
    qr_buf_free(&text[0]);
    qr_buf_free(&text[1]);
    return status;
}
