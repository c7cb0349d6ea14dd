/* jinja_escape.c - the escapes of a string literal, as Python's unicode-escape codec reads them. */
#include <string.h>
#include "text/jinja_parse.h"
#include "text/jinja_unicode.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
        return (c | 0x20) - 'a' + 10;
    return -1;
}

static bool hex(const char *s, size_t left, size_t k, uint32_t *cp)
{
    uint32_t v = 0;
    if (left < k)
        return false;
    for (size_t i = 0; i < k; i++) {
        int d = hex_digit(s[i]);
        if (d < 0)
            return false;
        v = v << 4 | (uint32_t)d;
    }
    *cp = v;
    return v <= 0x10ffff;
}

/* One escape behind the backslash at s; *used: its bytes. A pair of surrogates is one character. */
static bool coded(const char *s, size_t left, uint32_t *cp, size_t *used)
{
    size_t k = s[0] == 'x' ? 2 : s[0] == 'u' ? 4 : 8;
    if (!hex(s + 1, left - 1, k, cp))
        return false;
    *used = k + 1;
    uint32_t low;
    if (*cp >= 0xd800 && *cp < 0xdc00 && left >= *used + 6 && s[*used] == '\\' && s[*used + 1] == 'u' &&
        hex(s + *used + 2, 4, 4, &low) && low >= 0xdc00 && low < 0xe000) {
        *cp = 0x10000 + ((*cp - 0xd800) << 10) + (low - 0xdc00);
        *used += 6;
    }
    return true;
}

bool qr_jinja_unescape(const char *s, size_t n, char *out, size_t *n_out)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    size_t m = 0;
    for (size_t i = 0; i < n;) {
        if (s[i] != '\\' || i + 1 >= n) {
            out[m++] = s[i++];
            continue;
        }
        char c = s[++i];
        const char *simple = c ? strchr(from, c) : NULL;
        if (simple) {
            out[m++] = to[simple - from];
            i++;
        } else if (c == '\n') {
            i++;
        } else if (c >= '0' && c <= '7') {
            uint32_t v = 0;
            for (int k = 0; k < 3 && i < n && s[i] >= '0' && s[i] <= '7'; k++)
                v = v * 8 + (uint32_t)(s[i++] - '0');
            m += qr_u8_put(v, out + m); /* at most two bytes from at least two */
        } else if (c == 'x' || c == 'u' || c == 'U') {
            uint32_t cp;
            size_t used;
            if (!coded(s + i, n - i, &cp, &used))
                return false;
            m += qr_u8_put(cp, out + m);
            i += used;
        } else if (c == 'N') {
            return false;
        } else {
            out[m++] = '\\';
        }
    }
    *n_out = m;
    return true;
}
