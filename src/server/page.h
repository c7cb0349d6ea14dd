/* page.h - the chat page: one file, page.html, within the binary. */
#ifndef QR_SERVER_PAGE_H
#define QR_SERVER_PAGE_H
#include "base/buf.h"

/* The page with a nonce in its style and script, and the header lines that allow these two and nothing else: a script that
 * somebody smuggles in does not run. False: out of memory. */
bool qr_page_write(struct qr_buf *page, char *fields, size_t room);
#endif
