/* page.c - see page.h. The Makefile has the assembler look for both files where it made them. */
#include "server/page.h"

__asm__(".section .rodata\n"
        ".global qr_page_html_start, qr_page_html_end, qr_page_fields_start\n"
        ".hidden qr_page_html_start, qr_page_html_end, qr_page_fields_start\n"
        "qr_page_html_start: .incbin \"chat.html\"\n"
        "qr_page_html_end:\n"
        "qr_page_fields_start: .incbin \"chat.fields\"\n"
        ".byte 0\n"
        ".previous\n");

extern const char qr_page_html_start[], qr_page_html_end[], qr_page_fields_start[];

const char *qr_page_html(size_t *n)
{
    *n = (size_t)(qr_page_html_end - qr_page_html_start);
    return qr_page_html_start;
}

const char *qr_page_fields(void)
{
    return qr_page_fields_start;
}
