/* stream.c - from ids to text that may be shown.
 *
 * Bytes pass two gates: only whole code points go on, and of these only what can be part of no stop string any more: an
 * Aho-Corasick automaton (Aho and Corasick 1975) over the stop strings knows how many bytes at the end may still become
 * one. What is sent therefore never depends on where tokens end. */
#include "text/stream.h"
#include <stdlib.h>
#include <string.h>
#include "text/stops.h"
#include "text/utf8.h"

struct qr_stream {
    const struct qr_tokenizer *tok;
    struct qr_stops *stops; /* NULL: none */
    struct qr_buf held;     /* whole code points that may start a stop string */
    uint32_t state;         /* of the automaton, behind held */
    char tail[4];           /* the start of a code point */
    size_t n_tail;
    bool keep_special, stopped, unsearched, shares; /* shares: stops belong to another stream */
};

static enum qr_status create(const struct qr_tokenizer *tok, bool keep_special, struct qr_stream **stream,
                             struct qr_err *err)
{
    *stream = calloc(1, sizeof **stream);
    if (!*stream)
        return qr_fail(err, QR_NOMEM, "out of memory for a stream");
    (*stream)->tok = tok;
    (*stream)->keep_special = keep_special;
    qr_buf_init(&(*stream)->held, 0);
    return QR_OK;
}

enum qr_status qr_stream_create(const struct qr_tokenizer *tok, const char *const *stop, size_t n_stop,
                                bool keep_special, struct qr_stream **stream, struct qr_err *err)
{
    QR_TRY(create(tok, keep_special, stream, err));
    if (n_stop == 0)
        return QR_OK;
    enum qr_status status = qr_stops_create(stop, n_stop, &(*stream)->stops, err);
    if (status != QR_OK) {
        qr_stream_destroy(*stream);
        *stream = NULL;
    }
    return status;
}

enum qr_status qr_stream_share(const struct qr_stream *from, struct qr_stream **stream, struct qr_err *err)
{
    QR_TRY(create(from->tok, from->keep_special, stream, err));
    (*stream)->stops = from->stops;
    (*stream)->shares = true;
    return QR_OK;
}

void qr_stream_destroy(struct qr_stream *stream)
{
    if (!stream)
        return;
    if (!stream->shares)
        qr_stops_destroy(stream->stops);
    qr_buf_free(&stream->held);
    free(stream);
}

void qr_stream_search(struct qr_stream *stream, bool on)
{
    stream->unsearched = !on;
}

/* Sends the first n held bytes. */
static void send_held(struct qr_stream *stream, size_t n, struct qr_buf *out)
{
    struct qr_buf *held = &stream->held;

    if (n == 0)
        return;
    qr_buf_append(out, held->data, n);
    memmove(held->data, held->data + n, held->len - n);
    held->len -= n;
}

/* A whole code point passes the second gate. */
static void pass(struct qr_stream *stream, const char *s, size_t n, struct qr_buf *out)
{
    if (!stream->stops || stream->unsearched) {
        qr_buf_append(out, s, n);
        return;
    }
    qr_buf_append(&stream->held, s, n);
    for (size_t i = 0; i < n; i++) {
        size_t length;

        stream->state = qr_stops_step(stream->stops, stream->state, (uint8_t)s[i]);
        length = qr_stops_match(stream->stops, stream->state);
        if (length > 0 && !stream->held.failed) {
            send_held(stream, stream->held.len - (n - 1 - i) - length, out);
            qr_buf_clear(&stream->held);
            stream->stopped = true;
            return;
        }
    }
    if (!stream->held.failed)
        send_held(stream, stream->held.len - qr_stops_depth(stream->stops, stream->state), out);
}

static enum qr_status finish(const struct qr_stream *stream, const struct qr_buf *out, struct qr_err *err)
{
    if (stream->held.failed || out->failed)
        return qr_fail(err, QR_NOMEM, "out of memory for text, or over the limit of its buffer (%zu bytes)", out->cap);
    return QR_OK;
}

/* Bytes pass the first gate; more: others may follow. */
static void pass_bytes(struct qr_stream *stream, const char *s, size_t n, bool more, struct qr_buf *out)
{
    while (!stream->stopped && (n > 0 || (stream->n_tail > 0 && !more))) {
        int32_t cp;
        size_t len, fresh = n;

        /* the tail with what follows it, as one piece of up to 4 bytes */
        if (fresh > sizeof stream->tail - stream->n_tail)
            fresh = sizeof stream->tail - stream->n_tail;
        if (s && fresh > 0)
            memcpy(stream->tail + stream->n_tail, s, fresh);
        len = qr_utf8_step(stream->tail, stream->n_tail + fresh, more, &cp);
        if (len == 0) { /* cut by the end */
            stream->n_tail += fresh;
            return;
        }
        if (cp >= 0)
            pass(stream, stream->tail, len, out);
        else
            pass(stream, "\xEF\xBF\xBD", 3, out);
        if (len >= stream->n_tail) {
            s += len - stream->n_tail;
            n -= len - stream->n_tail;
            stream->n_tail = 0;
        } else { /* an ill-formed start of the tail */
            memmove(stream->tail, stream->tail + len, stream->n_tail - len);
            stream->n_tail -= len;
        }
    }
}

enum qr_status qr_stream_push(struct qr_stream *stream, int32_t id, struct qr_buf *out, bool *stopped,
                              struct qr_err *err)
{
    size_t n = 0;
    const char *s = qr_tokenizer_bytes(stream->tok, id, &n);

    *stopped = stream->stopped;
    if (id < 0)
        return qr_fail(err, QR_INVALID, "the token id %d is negative", id);
    /* an id without a token (models pad their vocabulary) stands for no text */
    if (stream->stopped || !s || (!stream->keep_special && qr_tokenizer_is_special(stream->tok, id)))
        return QR_OK;
    pass_bytes(stream, s, n, true, out);
    *stopped = stream->stopped;
    return finish(stream, out, err);
}

enum qr_status qr_stream_flush(struct qr_stream *stream, struct qr_buf *out, struct qr_err *err)
{
    pass_bytes(stream, NULL, 0, false, out);
    if (!stream->stopped && !stream->held.failed)
        send_held(stream, stream->held.len, out);
    stream->state = 0;
    return finish(stream, out, err);
}
