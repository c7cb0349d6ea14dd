/* page.c - see page.h. The Makefile has the assembler look for both files where it made them. */
#include "server/page.h"
#include <stdint.h>

__asm__(".section .rodata\n"
        ".global qr_page_html_bytes, qr_page_html_size, qr_page_fields_text\n"
        ".hidden qr_page_html_bytes, qr_page_html_size, qr_page_fields_text\n"
        "qr_page_html_bytes: .incbin \"chat.html\"\n"
        ".Lend_of_page:\n"
        "qr_page_fields_text: .incbin \"chat.fields\"\n"
        ".byte 0\n"
        ".balign 8\n"
        "qr_page_html_size: .quad .Lend_of_page - qr_page_html_bytes\n"
        ".previous\n");

extern const char qr_page_html_bytes[], qr_page_fields_text[];
extern const uint64_t qr_page_html_size;

const char *qr_page_html(size_t *n)
{
    *n = qr_page_html_size;
    return qr_page_html_bytes;
}

const char *qr_page_fields(void)
{
    return qr_page_fields_text;
}
