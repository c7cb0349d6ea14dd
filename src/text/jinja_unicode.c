/* jinja_unicode.c - code points: UTF-8 both ways, and the character classes and case maps of Python's str, by
 * utf8proc's tables. Case maps are the simple ones plus the few full ones that templates meet (German ss). */
#include <string.h>
#include <utf8proc.h>
#include "text/jinja_unicode.h"

uint32_t qr_u8_next(const char **s, const char *end)
{
    const unsigned char *p = (const unsigned char *)*s;
    ptrdiff_t left = end - *s;
    if (p[0] < 0x80 || left < 2) {
        *s += 1;
        return p[0];
    }
    if (p[0] < 0xe0 || left < 3) {
        *s += 2;
        return (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
    }
    if (p[0] < 0xf0 || left < 4) {
        *s += 3;
        return (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    }
    *s += 4;
    return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 | (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f);
}

uint32_t qr_u8_before(const char *start, const char **s)
{
    const char *end = *s, *p = end - 1;
    while (p > start && ((unsigned char)*p & 0xc0) == 0x80)
        p--;
    *s = p;
    return qr_u8_next(&p, end);
}

/* Surrogates and numbers beyond Unicode become U+FFFD: they have no UTF-8. */
size_t qr_u8_put(uint32_t cp, char out[4])
{
    if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
        cp = 0xfffd;
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

bool qr_u8_valid(const char *s, size_t n, size_t *bad_at)
{
    size_t i = 0;
    while (i < n) {
        utf8proc_int32_t cp;
        utf8proc_ssize_t left = (utf8proc_ssize_t)(n - i > 4 ? 4 : n - i);
        utf8proc_ssize_t k =
            (unsigned char)s[i] < 0x80 ? 1 : utf8proc_iterate((const utf8proc_uint8_t *)s + i, left, &cp);
        if (k < 1) {
            *bad_at = i;
            return false;
        }
        i += (size_t)k;
    }
    return true;
}

/* str.isspace: Unicode White_Space and the four separators FS GS RS US. */
bool qr_u_is_space(uint32_t cp)
{
    if (cp < 0x80)
        return cp == ' ' || (cp >= 9 && cp <= 13) || (cp >= 28 && cp <= 31);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

static int category(uint32_t cp)
{
    return (int)utf8proc_category((utf8proc_int32_t)cp);
}

bool qr_u_is_printable(uint32_t cp)
{
    if (cp < 0x7f)
        return cp >= 0x20;
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    default:
        return true;
    }
}

bool qr_u_is_alpha(uint32_t cp)
{
    int c = category(cp);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT ||
           c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_LO;
}

bool qr_u_is_decimal(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_ND;
}

/* Superscripts and circled digits: digits, but not decimal. */
bool qr_u_is_digit(uint32_t cp)
{
    return qr_u_is_decimal(cp) || cp == 0xb2 || cp == 0xb3 || cp == 0xb9 || cp == 0x2070 ||
           (cp >= 0x2074 && cp <= 0x2079) || (cp >= 0x2080 && cp <= 0x2089) || (cp >= 0x2460 && cp <= 0x2468);
}

bool qr_u_is_numeric(uint32_t cp)
{
    int c = category(cp);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool qr_u_is_upper(uint32_t cp)
{
    return cp < 0x80 ? cp >= 'A' && cp <= 'Z' : category(cp) == UTF8PROC_CATEGORY_LU;
}

bool qr_u_is_lower(uint32_t cp)
{
    return cp < 0x80 ? cp >= 'a' && cp <= 'z' : category(cp) == UTF8PROC_CATEGORY_LL;
}

bool qr_u_is_title(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LT;
}

static void put(struct qr_buf *buf, uint32_t cp)
{
    char s[4];
    qr_buf_append(buf, s, qr_u8_put(cp, s));
}

void qr_u_upper(struct qr_buf *buf, uint32_t cp)
{
    if (cp == 0xdf)
        qr_buf_puts(buf, "SS");
    else
        put(buf, (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp));
}

void qr_u_lower(struct qr_buf *buf, uint32_t cp)
{
    put(buf, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
}

void qr_u_title(struct qr_buf *buf, uint32_t cp)
{
    if (cp == 0xdf)
        qr_buf_puts(buf, "Ss");
    else
        put(buf, (uint32_t)utf8proc_totitle((utf8proc_int32_t)cp));
}
