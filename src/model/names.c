/* names.c - sorted names, and names made fit for printing. */
#include "model/names.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const struct qr_name *x = a, *y = b;
    uint64_t n = x->n < y->n ? x->n : y->n;
    int order = n ? memcmp(x->s, y->s, n) : 0;

    if (order != 0)
        return order;
    return (x->n > y->n) - (x->n < y->n);
}

void qr_names_sort(struct qr_name *names, uint64_t n_name)
{
    if (n_name > 1)
        qsort(names, n_name, sizeof *names, compare);
}

const struct qr_name *qr_names_duplicate(const struct qr_name *names, uint64_t n_name)
{
    for (uint64_t i = 1; i < n_name; i++)
        if (compare(&names[i - 1], &names[i]) == 0)
            return &names[i];
    return NULL;
}

const struct qr_name *qr_names_find(const struct qr_name *names, uint64_t n_name, const char *s, uint64_t n)
{
    struct qr_name wanted = {.s = s, .n = n};

    if (n_name == 0)
        return NULL;
    return bsearch(&wanted, names, n_name, sizeof *names, compare);
}

/* Bytes of the UTF-8 sequence at s, 0 when there is none (Unicode 15, table 3-7; overlong forms and surrogates too). */
static uint64_t utf8_length(const uint8_t *s, uint64_t n)
{
    uint64_t length = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF5 ? 4 : 0;

    if (length > n)
        return 0;
    for (uint64_t i = 1; i < length; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return length;
}

void qr_name_copy(char *dst, size_t room, const char *s, uint64_t n)
{
    const uint8_t *bytes = (const uint8_t *)s;
    size_t put = 0;

    for (uint64_t at = 0, length; at < n; at += length) {
        bool printable;

        length = utf8_length(bytes + at, n - at);
        printable = length > 1 || (length == 1 && bytes[at] >= 0x20 && bytes[at] != 0x7F);
        if (length == 0)
            length = 1;
        if (put + length >= room)
            break;
        if (printable)
            memcpy(dst + put, bytes + at, length);
        else
            dst[put] = '?';
        put += length;
    }
    dst[put] = 0;
}
