/* jinja_case.c - upper, lower, capitalize, title and their questions. */
#include <string.h>
#include "text/jinja_render.h"
#include "text/jinja_unicode.h"

static bool cased(uint32_t cp)
{
    return qr_u_is_upper(cp) || qr_u_is_lower(cp) || qr_u_is_title(cp);
}

/* Where jinja2's title filter starts a word: behind any of these. */
static bool starts_word(uint32_t cp)
{
    return cp == '-' || cp == '(' || cp == '{' || cp == '[' || cp == '<' || qr_u_is_space(cp);
}

struct jv qr_jinja_case(struct jrt *rt, struct jv_str *str, enum jcase to)
{
    struct qr_buf buf;
    const char *s = str->s, *end = s + str->n;
    bool first = true;
    qr_jinja_work(rt, 4 * str->n);
    qr_jv_text_begin(rt, &buf);
    while (s < end && !buf.failed) {
        uint32_t cp = qr_u8_next(&s, end);
        if (to == JC_UPPER || (to == JC_SWAP && qr_u_is_lower(cp)) || (to == JC_TITLE_FILTER && first))
            qr_u_upper(&buf, cp);
        else if ((to == JC_CAPITALIZE || to == JC_TITLE) && first)
            qr_u_title(&buf, cp);
        else
            qr_u_lower(&buf, cp);
        if (to == JC_TITLE_FILTER)
            first = starts_word(cp);
        else
            first = to == JC_TITLE && !cased(cp);
    }
    return qr_jv_text_end(rt, &buf);
}

bool qr_jinja_case_is(const struct jv_str *str, bool upper)
{
    const char *s = str->s, *end = s + str->n;
    bool some = false;
    while (s < end) {
        uint32_t cp = qr_u8_next(&s, end);
        if (qr_u_is_title(cp) || (upper ? qr_u_is_lower(cp) : qr_u_is_upper(cp)))
            return false;
        some |= upper ? qr_u_is_upper(cp) : qr_u_is_lower(cp);
    }
    return some;
}

static bool all(const struct jv_str *str, bool (*is)(uint32_t cp), bool of_empty)
{
    const char *s = str->s, *end = s + str->n;
    if (s == end)
        return of_empty;
    while (s < end) {
        if (!is(qr_u8_next(&s, end)))
            return false;
    }
    return true;
}

static bool alnum(uint32_t cp)
{
    return qr_u_is_alpha(cp) || qr_u_is_numeric(cp);
}

static bool ascii(uint32_t cp)
{
    return cp < 0x80;
}

static bool identifier(uint32_t cp)
{
    return cp == '_' || qr_u_is_alpha(cp) || qr_u_is_decimal(cp);
}

/* Upper case only behind what has no case, lower case only behind what has. */
static bool title_cased(const struct jv_str *str)
{
    const char *s = str->s, *end = s + str->n;
    bool behind_cased = false, some = false;
    while (s < end) {
        uint32_t cp = qr_u8_next(&s, end);
        bool upper = qr_u_is_upper(cp) || qr_u_is_title(cp), lower = qr_u_is_lower(cp);
        if ((upper && behind_cased) || (lower && !behind_cased))
            return false;
        behind_cased = upper || lower;
        some |= behind_cased;
    }
    return some;
}

#define IS_METHOD(name, expression)                                                                                    \
    static struct jv name(struct jrt *rt, struct jv self, const struct jv *arg, const struct jargs *args)              \
    {                                                                                                                  \
        const struct jv_str *str = self.u.str;                                                                         \
        (void)arg;                                                                                                     \
        (void)args;                                                                                                    \
        qr_jinja_work(rt, 4 * str->n);                                                                                 \
        return qr_jv_bool(expression);                                                                                 \
    }

IS_METHOD(is_lower, qr_jinja_case_is(str, false))
IS_METHOD(is_upper, qr_jinja_case_is(str, true))
IS_METHOD(is_title, title_cased(str))
IS_METHOD(is_alpha, all(str, qr_u_is_alpha, false))
IS_METHOD(is_alnum, all(str, alnum, false))
IS_METHOD(is_ascii, all(str, ascii, true))
IS_METHOD(is_decimal, all(str, qr_u_is_decimal, false))
IS_METHOD(is_digit, all(str, qr_u_is_digit, false))
IS_METHOD(is_numeric, all(str, qr_u_is_numeric, false))
IS_METHOD(is_space, all(str, qr_u_is_space, false))
IS_METHOD(is_printable, all(str, qr_u_is_printable, true))
IS_METHOD(is_identifier, all(str, identifier, false) && !(str->s[0] >= '0' && str->s[0] <= '9'))

const struct jbuiltin qr_jinja_str_is_methods[] = {
    {"islower", is_lower, "", 0},
    {"isupper", is_upper, "", 0},
    {"istitle", is_title, "", 0},
    {"isalpha", is_alpha, "", 0},
    {"isalnum", is_alnum, "", 0},
    {"isascii", is_ascii, "", 0},
    {"isdecimal", is_decimal, "", 0},
    {"isdigit", is_digit, "", 0},
    {"isnumeric", is_numeric, "", 0},
    {"isspace", is_space, "", 0},
    {"isprintable", is_printable, "", 0},
    {"isidentifier", is_identifier, "", 0},
    {NULL, NULL, NULL, 0},
};
