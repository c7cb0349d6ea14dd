/* jinja_unicode.h - code points as Python's str methods see them. */
#ifndef QR_TEXT_JINJA_UNICODE_H
#define QR_TEXT_JINJA_UNICODE_H
#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"

uint32_t qr_u8_next(const char **s, const char *end); /* s < end; the text is valid UTF-8 */
uint32_t qr_u8_before(const char *start, const char **s);
size_t qr_u8_put(uint32_t cp, char out[4]);
bool qr_u8_valid(const char *s, size_t n, size_t *bad_at);
bool qr_u_is_space(uint32_t cp);
bool qr_u_is_printable(uint32_t cp);
bool qr_u_is_alpha(uint32_t cp);
bool qr_u_is_decimal(uint32_t cp);
bool qr_u_is_digit(uint32_t cp);
bool qr_u_is_numeric(uint32_t cp);
bool qr_u_is_upper(uint32_t cp);
bool qr_u_is_lower(uint32_t cp);
bool qr_u_is_title(uint32_t cp);
void qr_u_upper(struct qr_buf *buf, uint32_t cp);
void qr_u_lower(struct qr_buf *buf, uint32_t cp);
void qr_u_title(struct qr_buf *buf, uint32_t cp);
#endif
