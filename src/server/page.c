/* page.c - see page.h. */
#include "server/page.h"
#include <stdio.h>
#include <string.h>
#include "base/rand.h"

/* The assembler puts the file between these two. make runs in the repository's root, and knows that this file reads it. */
__asm__(".section .rodata\n"
        ".hidden qr_page_begin\n.hidden qr_page_end\n.global qr_page_begin\n.global qr_page_end\n"
        "qr_page_begin:\n.incbin \"src/server/page.html\"\n"
        "qr_page_end:\n.byte 0\n.previous\n");
extern const char qr_page_begin[], qr_page_end[];

bool qr_page_write(struct qr_buf *page, char *fields, size_t room)
{
    static const char mark[] = "{NONCE}";
    char nonce[40];
    const char *at = qr_page_begin, *end = qr_page_end;
    snprintf(nonce, sizeof nonce, "%016llx%016llx", (unsigned long long)qr_rand_fresh_seed(),
             (unsigned long long)qr_rand_fresh_seed());
    for (const char *hit; (hit = memmem(at, (size_t)(end - at), mark, sizeof mark - 1)); at = hit + sizeof mark - 1) {
        qr_buf_append(page, at, (size_t)(hit - at));
        qr_buf_puts(page, nonce);
    }
    snprintf(fields, room,
             "Content-Security-Policy: default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; connect-src "
             "'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
             "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n",
             nonce, nonce);
    return qr_buf_append(page, at, (size_t)(end - at));
}
