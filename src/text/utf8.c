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

/* P since Unicode 9 to 15: the tokenizers package tests that category by older tables. */
static bool is_later_punctuation(int32_t cp)
{
    static const struct {
        int32_t first, last;
    } later[] = {
        {0x61D, 0x61D},     {0x9FD, 0x9FD},     {0xA76, 0xA76},     {0xC77, 0xC77},     {0xC84, 0xC84},
        {0x1B7D, 0x1B7E},   {0x2E43, 0x2E4F},   {0x2E52, 0x2E5D},   {0x10EAD, 0x10EAD}, {0x10F55, 0x10F59},
        {0x10F86, 0x10F89}, {0x1144B, 0x1144F}, {0x1145A, 0x1145B}, {0x1145D, 0x1145D}, {0x11660, 0x1166C},
        {0x116B9, 0x116B9}, {0x1183B, 0x1183B}, {0x11944, 0x11946}, {0x119E2, 0x119E2}, {0x11A3F, 0x11A46},
        {0x11A9A, 0x11A9C}, {0x11A9E, 0x11AA2}, {0x11B00, 0x11B09}, {0x11C41, 0x11C45}, {0x11C70, 0x11C71},
        {0x11EF7, 0x11EF8}, {0x11F43, 0x11F4F}, {0x11FFF, 0x11FFF}, {0x12FF1, 0x12FF2}, {0x16E97, 0x16E9A},
        {0x16FE2, 0x16FE2}, {0x1E95E, 0x1E95F},
    };

    for (size_t i = 0; i < sizeof later / sizeof *later && later[i].first <= cp; i++)
        if (cp <= later[i].last)
            return true;
    return false;
}

bool qr_cp_is_punctuation(int32_t cp)
{
    if (cp < 0x80)
        return (cp >= 0x21 && cp <= 0x2F) || (cp >= 0x3A && cp <= 0x40) || (cp >= 0x5B && cp <= 0x60) ||
               (cp >= 0x7B && cp <= 0x7E);
    if (cp == 0x166D || cp == 0x111C9) /* which became symbols */
        return true;
    return utf8proc_category_string(cp)[0] == 'P' && !is_later_punctuation(cp);
}

/* Upper case letters since Unicode 16 and 17, each with the distance to its lower case. */
static int32_t newer_lower(int32_t cp)
{
    if (cp == 0x1C89 || cp == 0xA7CC || cp == 0xA7CE || cp == 0xA7D2 || cp == 0xA7D4 || cp == 0xA7DA)
        return cp + 1;
    if (cp == 0xA7CB)
        return 0x264;
    if (cp == 0xA7DC)
        return 0x19B;
    if (cp >= 0x10D50 && cp <= 0x10D65)
        return cp + 0x20;
    if (cp >= 0x16EA0 && cp <= 0x16EB8)
        return cp + 0x1B;
    return utf8proc_tolower(cp);
}

bool qr_utf8_put_lower(struct qr_buf *out, int32_t cp)
{
    if (cp < 0x80)
        return qr_buf_putc(out, (char)(cp >= 'A' && cp <= 'Z' ? cp + 32 : cp));
    if (cp == 0x130) /* SpecialCasing.txt: the only one that becomes two */
        return qr_buf_puts(out, "i\xCC\x87");
    return qr_utf8_put(out, newer_lower(cp));
}
