/* base64.h - reading base64 (RFC 4648, section 4). */
#ifndef QR_BASE_BASE64_H
#define QR_BASE_BASE64_H
#include "base/buf.h"

/* Appends the bytes; false for what is not base64 with its padding, or when memory ran out (out->failed). */
bool qr_base64_decode(const char *s, size_t n, struct qr_buf *out);
#endif
