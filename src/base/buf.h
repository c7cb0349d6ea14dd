/* buf.h - a growable byte buffer with a cap. Once an append fails (out of memory, or over the cap) the
 * buffer is marked failed, keeps what it had, and refuses more: check once, at the end. */
#ifndef QR_BASE_BUF_H
#define QR_BASE_BUF_H
#include <stdbool.h>
#include <stddef.h>

struct qr_buf {
    char *data; /* NUL behind the last byte whenever data is not NULL */
    size_t len;
    size_t room; /* bytes allocated */
    size_t cap;  /* the most bytes that len may reach */
    bool failed;
    bool over; /* failed for the cap, not for want of memory */
};

void qr_buf_init(struct qr_buf *buf, size_t cap); /* cap 0: no limit */
void qr_buf_free(struct qr_buf *buf);             /* back to an empty buffer of the same cap */
void qr_buf_clear(struct qr_buf *buf);            /* len 0, keeps the memory, forgets failed */
bool qr_buf_append(struct qr_buf *buf, const void *data, size_t n);
bool qr_buf_puts(struct qr_buf *buf, const char *s);
bool qr_buf_putc(struct qr_buf *buf, char c);
bool qr_buf_printf(struct qr_buf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool qr_buf_reserve(struct qr_buf *buf, size_t more);
/* Gives the bytes away (malloc'ed, NUL-terminated, never NULL unless failed); buf is empty after. */
char *qr_buf_take(struct qr_buf *buf, size_t *n);
#endif
