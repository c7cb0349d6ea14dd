/* stream.h - ids one by one into text that may be shown: whole code points only, stop strings found across token seams and never
 * sent in part. One struct a choice; not thread safe. A push allocates only while the held text grows. */
#ifndef QR_TEXT_STREAM_H
#define QR_TEXT_STREAM_H
#include "base/buf.h"
#include "text/tokenizer.h"

struct qr_stream;
/* stop: strings, copied; n_stop may be 0. Empty stop strings are refused (QR_INVALID). */
enum qr_status qr_stream_create(const struct qr_tokenizer *tok, const char *const *stop, size_t n_stop,
                                bool keep_special, struct qr_stream **stream, struct qr_err *err);
/* A stream of its own from the start, over the stop strings of `from`, which must outlive it: choices of one request. */
enum qr_status qr_stream_share(const struct qr_stream *from, struct qr_stream **stream, struct qr_err *err);
void qr_stream_destroy(struct qr_stream *stream);
/* While off, text passes unsearched for stop strings (before min_tokens). On from the start; to be turned off before the
 * first push only. */
void qr_stream_search(struct qr_stream *stream, bool on);
/* Appends what became certain to out. *stopped: a stop string was completed; its text and all behind it are dropped. */
enum qr_status qr_stream_push(struct qr_stream *stream, int32_t id, struct qr_buf *out, bool *stopped,
                              struct qr_err *err);
/* The end: appends what was held back (an unfinished code point becomes U+FFFD). */
enum qr_status qr_stream_flush(struct qr_stream *stream, struct qr_buf *out, struct qr_err *err);
#endif
