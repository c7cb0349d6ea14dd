/* grammar_set.c - sets of code points: joined, negated, named. Surrogates are in none.
 *
 * \d, \w, \s are ECMA-262's (ASCII for \d and \w). Their negations leave out what Unicode calls a digit, letter or space
 * too, so that a text is right both for ECMA's reading and for those of Python, Rust and others. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include "text/grammar_internal.h"
#include "text/utf8.h"

#define LAST 0x10FFFF

static int by_lo(const void *a, const void *b)
{
    const struct qr_cp_range *x = a, *y = b;

    return (x->lo > y->lo) - (x->lo < y->lo);
}

static void put(struct qr_cp_set *set, int32_t lo, int32_t hi)
{
    if (lo < 0)
        lo = 0;
    if (hi > LAST)
        hi = LAST;
    if (lo <= 0xDFFF && hi >= 0xD800) { /* around the surrogates */
        if (lo < 0xD800)
            put(set, lo, 0xD7FF);
        if (hi > 0xDFFF)
            put(set, 0xE000, hi);
        return;
    }
    if (lo > hi)
        return;
    if (set->n && set->range[set->n - 1].hi >= lo - 1 && lo != 0xE000) {
        if (hi > set->range[set->n - 1].hi)
            set->range[set->n - 1].hi = hi;
        return;
    }
    set->range[set->n++] = (struct qr_cp_range){lo, hi};
}

struct qr_cp_set qr_cp_make(struct qr_gr_builder *b, const struct qr_cp_range *range, size_t n)
{
    struct qr_cp_range *sorted = qr_gr_alloc(b, n, sizeof *sorted);
    struct qr_cp_set set = {qr_gr_alloc(b, n + 2, sizeof *set.range), 0};

    if (!sorted || !set.range || !qr_gr_work(b, n))
        return (struct qr_cp_set){0};
    if (n)
        memcpy(sorted, range, n * sizeof *range);
    qsort(sorted, n, sizeof *sorted, by_lo);
    for (size_t i = 0; i < n; i++)
        put(&set, sorted[i].lo, sorted[i].hi);
    return set;
}

struct qr_cp_set qr_cp_negate(struct qr_gr_builder *b, struct qr_cp_set from)
{
    struct qr_cp_set set = {qr_gr_alloc(b, (size_t)from.n + 3, sizeof *set.range), 0};
    int32_t next = 0;

    if (!set.range)
        return set;
    for (uint32_t i = 0; i < from.n; i++) {
        put(&set, next, from.range[i].lo - 1);
        next = from.range[i].hi + 1;
    }
    put(&set, next, LAST);
    return set;
}

static bool is_digit(int32_t cp, const void *ctx)
{
    (void)ctx;
    return utf8proc_category(cp) == UTF8PROC_CATEGORY_ND;
}

static bool is_word(int32_t cp, const void *ctx)
{
    (void)ctx;
    return cp == '_' || qr_cp_is_word(cp) || qr_cp_is_numeric(cp);
}

static bool has_category(int32_t cp, const void *ctx)
{
    const char *want = ctx, *got = utf8proc_category_string(cp);

    return got[0] == want[0] && (!want[1] || got[1] == want[1]);
}

/* The code points for which test says so. */
static struct qr_cp_set all_that(struct qr_gr_builder *b, bool (*test)(int32_t, const void *), const void *ctx)
{
    size_t n = 0, room = 0;
    struct qr_cp_range *range = NULL;
    struct qr_cp_set set = {0};

    if (!qr_gr_work(b, LAST))
        return set;
    for (int32_t cp = 0; cp <= LAST; cp++) {
        if (!test(cp, ctx))
            continue;
        if (n && range[n - 1].hi == cp - 1) {
            range[n - 1].hi = cp;
            continue;
        }
        if (!qr_gr_room(b, &range, n, &room, sizeof *range))
            break;
        range[n++] = (struct qr_cp_range){cp, cp};
    }
    if (b->status == QR_OK)
        set = qr_cp_make(b, range, n);
    free(range);
    return set;
}

struct qr_cp_set qr_cp_class(struct qr_gr_builder *b, char letter)
{
    static const struct qr_cp_range digit[] = {{'0', '9'}};
    static const struct qr_cp_range word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    /* White space of ECMA-262 but U+FEFF, which others do not count; and what any of them counts. */
    static const struct qr_cp_range space[] = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},
                                               {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                               {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
    static const struct qr_cp_range spaces[] = {{9, 13},          {0x1C, ' '},      {0x85, 0x85},     {0xA0, 0xA0},
                                                {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                                {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    static const struct qr_cp_range line[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

    switch (letter) {
    case 'd':
        return qr_cp_make(b, digit, 1);
    case 'w':
        return qr_cp_make(b, word, 4);
    case 's':
        return qr_cp_make(b, space, sizeof space / sizeof *space);
    case 'D':
        return qr_cp_negate(b, all_that(b, is_digit, NULL));
    case 'W':
        return qr_cp_negate(b, all_that(b, is_word, NULL));
    case 'S':
        return qr_cp_negate(b, qr_cp_make(b, spaces, sizeof spaces / sizeof *spaces));
    default:
        return qr_cp_negate(b, qr_cp_make(b, line, 3));
    }
}

bool qr_cp_property(struct qr_gr_builder *b, const char *name, size_t n, struct qr_cp_set *set)
{
    static const char *const known[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd",
                                        "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm",
                                        "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Co", "Cn"};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i]) == n && memcmp(known[i], name, n) == 0) {
            *set = all_that(b, has_category, known[i]);
            return true;
        }
    return false;
}
