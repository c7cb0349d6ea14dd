/* utf8.c - well-formed UTF-8 (Unicode, table 3-7), repair, and code point properties. */
#include "text/utf8.h"
#include <string.h>
#include <utf8proc.h>
#include "text/unidelta.h"

size_t qr_utf8_step(const char *s, size_t n, bool more, int32_t *cp)
{
    const unsigned char *u = (const unsigned char *)s;
    unsigned char low = 0x80, high = 0xBF;
    size_t want;

    *cp = -1;
    if (u[0] < 0x80) {
        *cp = u[0];
        return 1;
    }
    if (u[0] < 0xC2 || u[0] > 0xF4)
        return 1;
    want = u[0] < 0xE0 ? 2 : u[0] < 0xF0 ? 3 : 4;
    if (u[0] == 0xE0)
        low = 0xA0;
    else if (u[0] == 0xED)
        high = 0x9F;
    else if (u[0] == 0xF0)
        low = 0x90;
    else if (u[0] == 0xF4)
        high = 0x8F;
    for (size_t i = 1; i < want; i++) {
        if (i == n)
            return more ? 0 : n;
        if (u[i] < low || u[i] > high)
            return i;
        low = 0x80;
        high = 0xBF;
    }
    *cp = qr_utf8_get(s, &want);
    return want;
}

size_t qr_utf8_valid(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n) {
        uint64_t word;
        int32_t cp;
        size_t len;

        if (n - i >= 8) { /* eight ASCII bytes at a time */
            memcpy(&word, s + i, 8);
            if (!(word & 0x8080808080808080u)) {
                i += 8;
                continue;
            }
        }
        len = qr_utf8_step(s + i, n - i, false, &cp);
        if (cp < 0)
            return i;
        i += len;
    }
    return n;
}

bool qr_utf8_repair(const char *s, size_t n, struct qr_buf *out)
{
    size_t i = 0;

    while (i < n) {
        size_t good = qr_utf8_valid(s + i, n - i);
        int32_t cp;

        qr_buf_append(out, s + i, good);
        i += good;
        if (i < n) {
            i += qr_utf8_step(s + i, n - i, false, &cp);
            qr_buf_append(out, "\xEF\xBF\xBD", 3);
        }
    }
    return !out->failed;
}

bool qr_utf8_put(struct qr_buf *out, int32_t cp)
{
    utf8proc_uint8_t bytes[4];
    utf8proc_ssize_t n = utf8proc_encode_char(cp, bytes);

    return qr_buf_append(out, bytes, (size_t)n);
}

bool qr_cp_is_space(int32_t cp)
{
    if (cp < 0x80)
        return cp == ' ' || (cp >= 9 && cp <= 13);
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

/* utf8proc's category, with those of the code points that came to Unicode after it. */
static const char *category(int32_t cp)
{
    const char *name = utf8proc_category_string(cp);

    if (name[0] == 'C' && name[1] == 'n') {
        const char *newer = qr_unidelta_category((uint32_t)cp);

        if (newer)
            return newer;
    }
    return name;
}

bool qr_cp_is_word(int32_t cp)
{
    const char *gc;

    if (cp < 0x80)
        return (cp >= '0' && cp <= '9') || (cp >= 'A' && cp <= 'Z') || (cp >= 'a' && cp <= 'z') || cp == '_';
    /* Other_Alphabetic symbols, Join_Control */
    if ((cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F149) || (cp >= 0x1F150 && cp <= 0x1F169) ||
        (cp >= 0x1F170 && cp <= 0x1F189) || cp == 0x200C || cp == 0x200D)
        return true;
    gc = category(cp);
    return gc[0] == 'L' || gc[0] == 'M' || (gc[0] == 'N' && gc[1] != 'o') || (gc[0] == 'P' && gc[1] == 'c');
}

bool qr_cp_is_numeric(int32_t cp)
{
    if (cp < 0x80)
        return cp >= '0' && cp <= '9';
    return category(cp)[0] == 'N' || qr_unidelta_numeric((uint32_t)cp);
}
