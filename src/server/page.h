/* page.h - the chat page, one file in the binary (src/server/page, joined by tools/join_page.py). */
#ifndef QR_SERVER_PAGE_H
#define QR_SERVER_PAGE_H
#include <stddef.h>

const char *qr_page_html(size_t *n);
const char *
qr_page_fields(void); /* its header lines, each with \r\n: the policy that names its script by hash, and more */
#endif
