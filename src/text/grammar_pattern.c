/* grammar_pattern.c - patterns with look-ahead at their start, ^(?!x)y or ^(?=x)y: the texts of one automaton without, or
 * and, those of another. Anywhere else look-around is refused. */
#include <string.h>
#include "text/grammar_internal.h"

/* s is behind a '(' or at the start: the place of the ')' that closes it, or the end; *bar: a | stands in it, outside of
 * groups. */
static const char *group_end(const char *s, const char *end, bool *bar)
{
    int depth = 0;

    *bar = false;
    for (; s < end; s++) {
        if (*s == '\\' && s + 1 < end)
            s++;
        else if (*s == '[') {
            for (s++; s < end && *s != ']'; s++)
                if (*s == '\\')
                    s++;
        } else if (*s == '(')
            depth++;
        else if (*s == ')' && depth-- == 0)
            return s;
        else if (*s == '|' && depth == 0)
            *bar = true;
    }
    return end;
}

/* Texts that start with a match of s[0, n). */
static struct qr_cdfa *starts_with(struct qr_gr_builder *b, const char *s, size_t n, const char *where)
{
    struct qr_re *part[2] = {qr_re_parse(b, s, n, where), qr_re_range(b, 0, 0x10FFFF)}, *re;

    part[1] = part[1] ? qr_re_repeat(b, part[1], 0, QR_RE_MANY) : NULL;
    re = part[0] && part[1] ? qr_re_make(b, QR_RE_SEQ, part, 2) : NULL;
    return re ? qr_cdfa_from_re(b, re, false, where) : NULL;
}

struct qr_cdfa *qr_cdfa_pattern(struct qr_gr_builder *b, const char *pattern, size_t n, bool search, const char *where)
{
    const char *s = pattern, *end = pattern + n, *close;
    struct qr_cdfa *ahead[8], *dfa;
    bool without[8], bar;
    struct qr_re *part[2], *re;
    int n_ahead = 0;

    group_end(s, end, &bar);
    if (n && *s == '^')
        s++;
    else if (search)
        bar = true; /* a match may begin anywhere: what is ahead of it is not the text */
    while (!bar && n_ahead < 8 && end - s > 3 && (memcmp(s, "(?!", 3) == 0 || memcmp(s, "(?=", 3) == 0)) {
        bool inner;

        close = group_end(s + 3, end, &inner);
        if (close == end)
            break;
        without[n_ahead] = s[2] == '!';
        ahead[n_ahead] = starts_with(b, s + 3, (size_t)(close - s - 3), where);
        if (!ahead[n_ahead++])
            return NULL;
        s = close + 1;
    }
    if (!n_ahead) {
        re = qr_re_parse(b, pattern, n, where);
        return re ? qr_cdfa_from_re(b, re, search, where) : NULL;
    }
    part[0] = qr_re_make(b, QR_RE_BEGIN, NULL, 0);
    part[1] = qr_re_parse(b, s, (size_t)(end - s), where);
    re = part[0] && part[1] ? qr_re_make(b, QR_RE_SEQ, part, 2) : NULL;
    dfa = re ? qr_cdfa_from_re(b, re, search, where) : NULL;
    for (int i = 0; dfa && i < n_ahead; i++)
        dfa = without[i] ? qr_cdfa_without(b, dfa, ahead[i]) : qr_cdfa_and(b, dfa, ahead[i]);
    return dfa;
}
