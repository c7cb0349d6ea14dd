/* decoder.h - from tokens back to text, for tokenizers that are not byte-level: steps over a list of texts, as in the
 * tokenizers package. Immutable once built. */
#ifndef QR_TEXT_DECODER_H
#define QR_TEXT_DECODER_H
#include "text/normalize.h"

enum qr_decode_kind {
    QR_DECODE_REPLACE,       /* by what replace says */
    QR_DECODE_BYTE_FALLBACK, /* <0xE2> in a row become the characters that they spell */
    QR_DECODE_FUSE,          /* all texts become one */
    QR_DECODE_STRIP,         /* up to start times text at the beginning, up to stop times at the end, of each */
    QR_DECODE_METASPACE      /* text becomes a space; in the first text, with drop, nothing */
};

struct qr_decode_step {
    enum qr_decode_kind kind;
    struct qr_normal_step replace; /* owned */
    char text[8];                  /* one character */
    size_t n_text;
    size_t start, stop;
    bool drop;
};

#define QR_MAX_DECODE 16

struct qr_decoder {
    struct qr_decode_step step[QR_MAX_DECODE];
    int n;
    bool joined; /* there is no decoder: texts are joined by spaces */
};

/* Takes over step->replace also when it fails. */
enum qr_status qr_decoder_add(struct qr_decoder *decoder, const struct qr_decode_step *step, struct qr_err *err);
void qr_decoder_free(struct qr_decoder *decoder);

struct qr_texts {
    struct qr_buf bytes;
    size_t *end; /* [n] of text i in bytes */
    size_t n, room;
};
void qr_texts_init(struct qr_texts *texts);
void qr_texts_free(struct qr_texts *texts);
bool qr_texts_add(struct qr_texts *texts, const char *s, size_t n);

/* out gets the text. texts is changed. */
enum qr_status qr_decoder_run(const struct qr_decoder *decoder, struct qr_texts *texts, struct qr_buf *out,
                              struct qr_err *err);
/* What one token stands for in the middle of a text, as bytes, appended to out. */
enum qr_status qr_decoder_piece(const struct qr_decoder *decoder, const char *s, size_t n, struct qr_buf *out,
                                struct qr_err *err);
#endif
