/* grapheme.c - where a cluster ends: the rules GB3 to GB13 of Unicode Standard Annex #29.
 *
 * utf8proc 2.8 knows the classes of Unicode 14; the table holds what Unicode 17 has otherwise, and the classes of GB9c
 * and GB11, which grew too. It was found by normalizing every code point in the company that tells its class, with
 * maps of characters made for it, with tokenizers 0.23.3. */
#include "text/grapheme.h"
#include <stdint.h>
#include <utf8proc.h>
#include "text/utf8.h"

enum kind {
    OTHER,
    CONTROL, /* with CR and LF */
    EXTEND,
    LINKER,    /* Extend that joins consonants */
    NONJOINER, /* U+200C: Extend, but it parts consonants */
    ZWJ,
    SPACING,
    PREPEND,
    REGIONAL,
    CONSONANT,
    PICT, /* Extended_Pictographic */
    L,    /* Hangul syllables */
    V,
    T,
    LV,
    LVT
};

struct range {
    int32_t first, last;
    enum kind kind;
};

/* clang-format off */
static const struct range ranges[] = {
    {0xA9, 0xA9, PICT}, {0xAE, 0xAE, PICT}, {0x897, 0x897, EXTEND}, {0x915, 0x939, CONSONANT}, {0x94D, 0x94D, LINKER},
    {0x958, 0x95F, CONSONANT}, {0x978, 0x97F, CONSONANT}, {0x995, 0x9A8, CONSONANT}, {0x9AA, 0x9B0, CONSONANT},
    {0x9B2, 0x9B2, CONSONANT}, {0x9B6, 0x9B9, CONSONANT}, {0x9CD, 0x9CD, LINKER}, {0x9DC, 0x9DD, CONSONANT},
    {0x9DF, 0x9DF, CONSONANT}, {0x9F0, 0x9F1, CONSONANT}, {0xA95, 0xAA8, CONSONANT}, {0xAAA, 0xAB0, CONSONANT},
    {0xAB2, 0xAB3, CONSONANT}, {0xAB5, 0xAB9, CONSONANT}, {0xACD, 0xACD, LINKER}, {0xAF9, 0xAF9, CONSONANT},
    {0xB15, 0xB28, CONSONANT}, {0xB2A, 0xB30, CONSONANT}, {0xB32, 0xB33, CONSONANT}, {0xB35, 0xB39, CONSONANT},
    {0xB4D, 0xB4D, LINKER}, {0xB5C, 0xB5D, CONSONANT}, {0xB5F, 0xB5F, CONSONANT}, {0xB71, 0xB71, CONSONANT},
    {0xC15, 0xC28, CONSONANT}, {0xC2A, 0xC39, CONSONANT}, {0xC4D, 0xC4D, LINKER}, {0xC58, 0xC5A, CONSONANT},
    {0xCC0, 0xCC0, EXTEND}, {0xCC7, 0xCC8, EXTEND}, {0xCCA, 0xCCB, EXTEND}, {0xD15, 0xD3A, CONSONANT},
    {0xD4D, 0xD4D, LINKER}, {0x1000, 0x102A, CONSONANT}, {0x1039, 0x1039, LINKER}, {0x103F, 0x103F, CONSONANT},
    {0x1050, 0x1055, CONSONANT}, {0x105A, 0x105D, CONSONANT}, {0x1061, 0x1061, CONSONANT},
    {0x1065, 0x1066, CONSONANT}, {0x106E, 0x1070, CONSONANT}, {0x1075, 0x1081, CONSONANT},
    {0x108E, 0x108E, CONSONANT}, {0x1715, 0x1715, EXTEND}, {0x1734, 0x1734, EXTEND}, {0x1780, 0x17B3, CONSONANT},
    {0x17D2, 0x17D2, LINKER}, {0x1A20, 0x1A54, CONSONANT}, {0x1A60, 0x1A60, LINKER}, {0x1ACF, 0x1ADD, EXTEND},
    {0x1AE0, 0x1AEB, EXTEND}, {0x1B0B, 0x1B0C, CONSONANT}, {0x1B13, 0x1B33, CONSONANT}, {0x1B3B, 0x1B3B, EXTEND},
    {0x1B3D, 0x1B3D, EXTEND}, {0x1B43, 0x1B43, EXTEND}, {0x1B44, 0x1B44, LINKER}, {0x1B45, 0x1B4C, CONSONANT},
    {0x1B83, 0x1BA0, CONSONANT}, {0x1BAA, 0x1BAA, EXTEND}, {0x1BAB, 0x1BAB, LINKER}, {0x1BAE, 0x1BAF, CONSONANT},
    {0x1BBB, 0x1BBD, CONSONANT}, {0x1BF2, 0x1BF3, EXTEND}, {0x200C, 0x200C, NONJOINER}, {0x203C, 0x203C, PICT},
    {0x2049, 0x2049, PICT}, {0x2065, 0x2065, CONTROL}, {0x2122, 0x2122, PICT}, {0x2139, 0x2139, PICT},
    {0x2194, 0x2199, PICT}, {0x21A9, 0x21AA, PICT}, {0x231A, 0x231B, PICT}, {0x2328, 0x2328, PICT},
    {0x23CF, 0x23CF, PICT}, {0x23E9, 0x23F3, PICT}, {0x23F8, 0x23FA, PICT}, {0x24C2, 0x24C2, PICT},
    {0x25AA, 0x25AB, PICT}, {0x25B6, 0x25B6, PICT}, {0x25C0, 0x25C0, PICT}, {0x25FB, 0x25FE, PICT},
    {0x2600, 0x2604, PICT}, {0x260E, 0x260E, PICT}, {0x2611, 0x2611, PICT}, {0x2614, 0x2615, PICT},
    {0x2618, 0x2618, PICT}, {0x261D, 0x261D, PICT}, {0x2620, 0x2620, PICT}, {0x2622, 0x2623, PICT},
    {0x2626, 0x2626, PICT}, {0x262A, 0x262A, PICT}, {0x262E, 0x262F, PICT}, {0x2638, 0x263A, PICT},
    {0x2640, 0x2640, PICT}, {0x2642, 0x2642, PICT}, {0x2648, 0x2653, PICT}, {0x265F, 0x2660, PICT},
    {0x2663, 0x2663, PICT}, {0x2665, 0x2666, PICT}, {0x2668, 0x2668, PICT}, {0x267B, 0x267B, PICT},
    {0x267E, 0x267F, PICT}, {0x2692, 0x2697, PICT}, {0x2699, 0x2699, PICT}, {0x269B, 0x269C, PICT},
    {0x26A0, 0x26A1, PICT}, {0x26A7, 0x26A7, PICT}, {0x26AA, 0x26AB, PICT}, {0x26B0, 0x26B1, PICT},
    {0x26BD, 0x26BE, PICT}, {0x26C4, 0x26C5, PICT}, {0x26C8, 0x26C8, PICT}, {0x26CE, 0x26CF, PICT},
    {0x26D1, 0x26D1, PICT}, {0x26D3, 0x26D4, PICT}, {0x26E9, 0x26EA, PICT}, {0x26F0, 0x26F5, PICT},
    {0x26F7, 0x26FA, PICT}, {0x26FD, 0x26FD, PICT}, {0x2702, 0x2702, PICT}, {0x2705, 0x2705, PICT},
    {0x2708, 0x270D, PICT}, {0x270F, 0x270F, PICT}, {0x2712, 0x2712, PICT}, {0x2714, 0x2714, PICT},
    {0x2716, 0x2716, PICT}, {0x271D, 0x271D, PICT}, {0x2721, 0x2721, PICT}, {0x2728, 0x2728, PICT},
    {0x2733, 0x2734, PICT}, {0x2744, 0x2744, PICT}, {0x2747, 0x2747, PICT}, {0x274C, 0x274C, PICT},
    {0x274E, 0x274E, PICT}, {0x2753, 0x2755, PICT}, {0x2757, 0x2757, PICT}, {0x2763, 0x2764, PICT},
    {0x2795, 0x2797, PICT}, {0x27A1, 0x27A1, PICT}, {0x27B0, 0x27B0, PICT}, {0x27BF, 0x27BF, PICT},
    {0x2934, 0x2935, PICT}, {0x2B05, 0x2B07, PICT}, {0x2B1B, 0x2B1C, PICT}, {0x2B50, 0x2B50, PICT},
    {0x2B55, 0x2B55, PICT}, {0x3030, 0x3030, PICT}, {0x303D, 0x303D, PICT}, {0x3297, 0x3297, PICT},
    {0x3299, 0x3299, PICT}, {0xA953, 0xA953, EXTEND}, {0xA989, 0xA98B, CONSONANT}, {0xA98F, 0xA9B2, CONSONANT},
    {0xA9C0, 0xA9C0, LINKER}, {0xA9E0, 0xA9E4, CONSONANT}, {0xA9E7, 0xA9EF, CONSONANT}, {0xA9FA, 0xA9FE, CONSONANT},
    {0xAA60, 0xAA6F, CONSONANT}, {0xAA71, 0xAA73, CONSONANT}, {0xAA7A, 0xAA7A, CONSONANT},
    {0xAA7E, 0xAA7F, CONSONANT}, {0xAAE0, 0xAAEA, CONSONANT}, {0xAAF6, 0xAAF6, LINKER}, {0xABC0, 0xABDA, CONSONANT},
    {0xFFF0, 0xFFF8, CONTROL}, {0x10A00, 0x10A00, CONSONANT}, {0x10A10, 0x10A13, CONSONANT},
    {0x10A15, 0x10A17, CONSONANT}, {0x10A19, 0x10A35, CONSONANT}, {0x10A3F, 0x10A3F, LINKER},
    {0x10D69, 0x10D6D, EXTEND}, {0x10EFA, 0x10EFC, EXTEND}, {0x11103, 0x11126, CONSONANT}, {0x11133, 0x11133, LINKER},
    {0x11144, 0x11144, CONSONANT}, {0x11147, 0x11147, CONSONANT}, {0x111C0, 0x111C0, EXTEND},
    {0x11235, 0x11235, EXTEND}, {0x1134D, 0x1134D, EXTEND}, {0x11380, 0x11389, CONSONANT},
    {0x1138B, 0x1138B, CONSONANT}, {0x1138E, 0x1138E, CONSONANT}, {0x11390, 0x113B5, CONSONANT},
    {0x113B8, 0x113B8, EXTEND}, {0x113B9, 0x113BA, SPACING}, {0x113BB, 0x113C0, EXTEND}, {0x113C2, 0x113C2, EXTEND},
    {0x113C5, 0x113C5, EXTEND}, {0x113C7, 0x113C9, EXTEND}, {0x113CA, 0x113CA, SPACING}, {0x113CC, 0x113CD, SPACING},
    {0x113CE, 0x113CF, EXTEND}, {0x113D0, 0x113D0, LINKER}, {0x113D1, 0x113D1, PREPEND}, {0x113D2, 0x113D2, EXTEND},
    {0x113E1, 0x113E2, EXTEND}, {0x116B6, 0x116B6, EXTEND}, {0x1171E, 0x1171E, SPACING},
    {0x11900, 0x11906, CONSONANT}, {0x11909, 0x11909, CONSONANT}, {0x1190C, 0x11913, CONSONANT},
    {0x11915, 0x11916, CONSONANT}, {0x11918, 0x1192F, CONSONANT}, {0x1193D, 0x1193D, EXTEND},
    {0x1193E, 0x1193E, LINKER}, {0x11A00, 0x11A00, CONSONANT}, {0x11A0B, 0x11A32, CONSONANT},
    {0x11A3A, 0x11A3A, OTHER}, {0x11A47, 0x11A47, LINKER}, {0x11A50, 0x11A50, CONSONANT},
    {0x11A5C, 0x11A83, CONSONANT}, {0x11A99, 0x11A99, LINKER}, {0x11B60, 0x11B60, EXTEND},
    {0x11B61, 0x11B61, SPACING}, {0x11B62, 0x11B64, EXTEND}, {0x11B65, 0x11B65, SPACING}, {0x11B66, 0x11B66, EXTEND},
    {0x11B67, 0x11B67, SPACING}, {0x11F04, 0x11F10, CONSONANT}, {0x11F12, 0x11F33, CONSONANT},
    {0x11F41, 0x11F41, EXTEND}, {0x11F42, 0x11F42, LINKER}, {0x11F5A, 0x11F5A, EXTEND}, {0x1611E, 0x16129, EXTEND},
    {0x1612A, 0x1612C, SPACING}, {0x1612D, 0x1612F, EXTEND}, {0x16D63, 0x16D63, V}, {0x16D67, 0x16D6A, V},
    {0x16FF0, 0x16FF1, EXTEND}, {0x1D166, 0x1D166, EXTEND},
    {0x1D16D, 0x1D16D, EXTEND}, {0x1E5EE, 0x1E5EF, EXTEND}, {0x1E6E3, 0x1E6E3, EXTEND}, {0x1E6E6, 0x1E6E6, EXTEND},
    {0x1E6EE, 0x1E6EF, EXTEND}, {0x1E6F5, 0x1E6F5, EXTEND}, {0x1F004, 0x1F004, PICT}, {0x1F02C, 0x1F02F, PICT},
    {0x1F094, 0x1F09F, PICT}, {0x1F0AF, 0x1F0B0, PICT}, {0x1F0C0, 0x1F0C0, PICT}, {0x1F0CF, 0x1F0D0, PICT},
    {0x1F0F6, 0x1F0FF, PICT}, {0x1F170, 0x1F171, PICT}, {0x1F17E, 0x1F17F, PICT}, {0x1F18E, 0x1F18E, PICT},
    {0x1F191, 0x1F19A, PICT}, {0x1F1AE, 0x1F1E5, PICT}, {0x1F201, 0x1F20F, PICT}, {0x1F21A, 0x1F21A, PICT},
    {0x1F22F, 0x1F22F, PICT}, {0x1F232, 0x1F23A, PICT}, {0x1F23C, 0x1F23F, PICT}, {0x1F249, 0x1F25F, PICT},
    {0x1F266, 0x1F321, PICT}, {0x1F324, 0x1F393, PICT}, {0x1F396, 0x1F397, PICT}, {0x1F399, 0x1F39B, PICT},
    {0x1F39E, 0x1F3F0, PICT}, {0x1F3F3, 0x1F3F5, PICT}, {0x1F3F7, 0x1F3FA, PICT}, {0x1F400, 0x1F4FD, PICT},
    {0x1F4FF, 0x1F53D, PICT}, {0x1F549, 0x1F54E, PICT}, {0x1F550, 0x1F567, PICT}, {0x1F56F, 0x1F570, PICT},
    {0x1F573, 0x1F57A, PICT}, {0x1F587, 0x1F587, PICT}, {0x1F58A, 0x1F58D, PICT}, {0x1F590, 0x1F590, PICT},
    {0x1F595, 0x1F596, PICT}, {0x1F5A4, 0x1F5A5, PICT}, {0x1F5A8, 0x1F5A8, PICT}, {0x1F5B1, 0x1F5B2, PICT},
    {0x1F5BC, 0x1F5BC, PICT}, {0x1F5C2, 0x1F5C4, PICT}, {0x1F5D1, 0x1F5D3, PICT}, {0x1F5DC, 0x1F5DE, PICT},
    {0x1F5E1, 0x1F5E1, PICT}, {0x1F5E3, 0x1F5E3, PICT}, {0x1F5E8, 0x1F5E8, PICT}, {0x1F5EF, 0x1F5EF, PICT},
    {0x1F5F3, 0x1F5F3, PICT}, {0x1F5FA, 0x1F64F, PICT}, {0x1F680, 0x1F6C5, PICT}, {0x1F6CB, 0x1F6D2, PICT},
    {0x1F6D5, 0x1F6E5, PICT}, {0x1F6E9, 0x1F6E9, PICT}, {0x1F6EB, 0x1F6F0, PICT}, {0x1F6F3, 0x1F6FF, PICT},
    {0x1F7DA, 0x1F7FF, PICT}, {0x1F80C, 0x1F80F, PICT}, {0x1F848, 0x1F84F, PICT}, {0x1F85A, 0x1F85F, PICT},
    {0x1F888, 0x1F88F, PICT}, {0x1F8AE, 0x1F8AF, PICT}, {0x1F8BC, 0x1F8BF, PICT}, {0x1F8C2, 0x1F8CF, PICT},
    {0x1F8D9, 0x1F8FF, PICT}, {0x1F90C, 0x1F93A, PICT}, {0x1F93C, 0x1F945, PICT}, {0x1F947, 0x1F9FF, PICT},
    {0x1FA58, 0x1FA5F, PICT}, {0x1FA6E, 0x1FAFF, PICT}, {0x1FC00, 0x1FFFD, PICT},
};
/* clang-format on */

static enum kind kind_of_utf8proc(int32_t cp)
{
    switch (utf8proc_get_property(cp)->boundclass) {
    case UTF8PROC_BOUNDCLASS_CR:
    case UTF8PROC_BOUNDCLASS_LF:
    case UTF8PROC_BOUNDCLASS_CONTROL:
        return CONTROL;
    case UTF8PROC_BOUNDCLASS_EXTEND:
        return EXTEND;
    case UTF8PROC_BOUNDCLASS_L:
        return L;
    case UTF8PROC_BOUNDCLASS_V:
        return V;
    case UTF8PROC_BOUNDCLASS_T:
        return T;
    case UTF8PROC_BOUNDCLASS_LV:
        return LV;
    case UTF8PROC_BOUNDCLASS_LVT:
        return LVT;
    case UTF8PROC_BOUNDCLASS_REGIONAL_INDICATOR:
        return REGIONAL;
    case UTF8PROC_BOUNDCLASS_SPACINGMARK:
        return SPACING;
    case UTF8PROC_BOUNDCLASS_PREPEND:
        return PREPEND;
    case UTF8PROC_BOUNDCLASS_ZWJ:
        return ZWJ;
    default:
        return OTHER;
    }
}

static enum kind kind_of(int32_t cp)
{
    size_t low = 0, high = sizeof ranges / sizeof ranges[0];

    if (cp < 0x80)
        return cp < 0x20 || cp == 0x7F ? CONTROL : OTHER;
    while (low < high) {
        size_t mid = (low + high) / 2;

        if (cp > ranges[mid].last)
            low = mid + 1;
        else if (cp < ranges[mid].first)
            high = mid;
        else
            return ranges[mid].kind;
    }
    return kind_of_utf8proc(cp);
}

struct cluster { /* what the rules look back at */
    enum kind last;
    int n_regional;
    bool consonant, linker; /* GB9c: a consonant; and behind it extenders, a linker among them */
    bool pict, pict_zwj;    /* GB11: a picture and extenders; and a joiner */
};

static bool joins(const struct cluster *c, enum kind next)
{
    enum kind last = c->last;

    if (last == CONTROL || next == CONTROL)
        return false; /* GB4, GB5 */
    if (next == EXTEND || next == LINKER || next == NONJOINER || next == ZWJ || next == SPACING || last == PREPEND)
        return true; /* GB9, GB9a, GB9b */
    switch (next) {
    case L:
        return last == L; /* GB6 */
    case LV:
    case LVT:
        return last == L;
    case V:
        return last == L || last == LV || last == V; /* GB6, GB7 */
    case T:
        return last == LV || last == V || last == LVT || last == T; /* GB7, GB8 */
    case CONSONANT:
        return c->linker; /* GB9c */
    case PICT:
        return c->pict_zwj; /* GB11 */
    case REGIONAL:
        return c->n_regional % 2 == 1; /* GB12, GB13 */
    default:
        return false;
    }
}

static void take(struct cluster *c, enum kind next)
{
    bool extend = next == EXTEND || next == LINKER;

    c->linker = c->consonant && (next == LINKER || (c->linker && (extend || next == ZWJ)));
    c->consonant = next == CONSONANT || (c->consonant && (extend || next == ZWJ));
    c->pict_zwj = c->pict && next == ZWJ;
    c->pict = next == PICT || (c->pict && (extend || next == NONJOINER));
    c->n_regional = next == REGIONAL ? c->n_regional + 1 : 0;
    c->last = next;
}

size_t qr_grapheme(const char *s, size_t n)
{
    struct cluster c = {.last = PREPEND};
    size_t at = 0, len;

    if (n > 1 && s[0] == '\r' && s[1] == '\n')
        return 2; /* GB3 */
    while (at < n) {
        enum kind next = kind_of(qr_utf8_get(s + at, &len));

        if (at > 0 && !joins(&c, next))
            break;
        take(&c, next);
        at += len;
    }
    return at;
}
