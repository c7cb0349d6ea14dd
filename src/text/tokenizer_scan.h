/* tokenizer_scan.h - moving through the bytes of a JSON text, between tokenizer_scan.c and tokenizer_read.c. */
#ifndef QR_TEXT_TOKENIZER_SCAN_H
#define QR_TEXT_TOKENIZER_SCAN_H
#include "text/tokenizer_impl.h"

struct qr_scan {
    const char *p, *end;
    struct qr_buf text[2]; /* strings that had escapes */
    const char *what;      /* for messages */
    struct qr_err *err;
};

void qr_scan_space(struct qr_scan *scan);
/* Past white space, is the next character c? Takes it then. */
bool qr_scan_take(struct qr_scan *scan, char c);
/* Moves behind a value without checking it; false at the end of the text. */
bool qr_scan_skip(struct qr_scan *scan);
#endif
