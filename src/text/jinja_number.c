/* jinja_number.c - numbers from text, and the number filters: int, float, abs, round, sum, filesizeformat. */
#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "text/jinja_render.h"
#include "text/jinja_unicode.h"

static void trim(const char **s, size_t *n)
{
    const char *end = *s + *n;
    while (*s < end) {
        const char *next = *s;
        if (!qr_u_is_space(qr_u8_next(&next, end)))
            break;
        *s = next;
    }
    while (end > *s) {
        const char *before = end;
        if (!qr_u_is_space(qr_u8_before(*s, &before)))
            break;
        end = before;
    }
    *n = (size_t)(end - *s);
}

/* base 0: by the prefix; a prefix that fits the base is skipped. */
static size_t prefix(const char *s, size_t n, int *base)
{
    int of = 0;
    if (n > 2 && s[0] == '0')
        of = (s[1] | 32) == 'x' ? 16 : (s[1] | 32) == 'o' ? 8 : (s[1] | 32) == 'b' ? 2 : 0;
    if (of && (*base == 0 || *base == of)) {
        *base = of;
        return 2;
    }
    if (*base == 0)
        *base = 10;
    return 0;
}

bool qr_jv_parse_int(const char *s, size_t n, int base, int64_t *i)
{
    uint64_t v = 0;
    bool digit = false, literal = base == 0;
    trim(&s, &n);
    bool minus = n && *s == '-';
    if (n && (*s == '-' || *s == '+'))
        s++, n--;
    size_t skip = prefix(s, n, &base);
    s += skip;
    n -= skip;
    if (skip && n > 1 && *s == '_')
        s++, n--;
    for (size_t k = 0; k < n; k++) {
        char c = s[k];
        if (c == '_' && digit && k + 1 < n && s[k + 1] != '_')
            continue;
        int d = isdigit((unsigned char)c) ? c - '0' : isalpha((unsigned char)c) ? (c | 32) - 'a' + 10 : 99;
        if (d >= base || __builtin_mul_overflow(v, (uint64_t)base, &v) || __builtin_add_overflow(v, (uint64_t)d, &v))
            return false;
        if (literal && !skip && v && *s == '0') /* 007 is no literal */
            return false;
        digit = true;
    }
    if (!digit || v > (uint64_t)INT64_MAX)
        return false;
    *i = minus ? -(int64_t)v : (int64_t)v;
    return true;
}

static bool is_word(const char *s, size_t n, const char *word)
{
    return n == strlen(word) && strncasecmp(s, word, n) == 0;
}

bool qr_jv_parse_float(const char *s, size_t n, double *f)
{
    char text[512], *end;
    size_t m = 0;
    trim(&s, &n);
    size_t sign = n && (*s == '-' || *s == '+');
    if (is_word(s + sign, n - sign, "inf") || is_word(s + sign, n - sign, "infinity")) {
        *f = *s == '-' ? -INFINITY : INFINITY;
        return true;
    }
    if (is_word(s + sign, n - sign, "nan")) {
        *f = NAN;
        return true;
    }
    for (size_t k = 0; k < n; k++) {
        bool between =
            s[k] == '_' && k > 0 && k + 1 < n && isdigit((unsigned char)s[k - 1]) && isdigit((unsigned char)s[k + 1]);
        if (between)
            continue;
        if (!isdigit((unsigned char)s[k]) && (!s[k] || !strchr("+-.eE", s[k])))
            return false;
        if (m == sizeof text - 1)
            return false;
        text[m++] = s[k];
    }
    text[m] = 0;
    *f = strtod(text, &end);
    return m > 0 && *end == 0;
}

#define FILTER(name)                                                                                                   \
    static struct jv name(struct jrt *rt, struct jv self, const struct jv *arg, const struct jargs *args)

static struct jv float_to_int(struct jrt *rt, double f)
{
    if (fabs(f) < 9223372036854775808.0)
        return qr_jv_int((int64_t)f);
    qr_jinja_raise(rt, QR_LIMIT, "a number has no integer of 64 bits");
    return qr_jv_none();
}

FILTER(to_int)
{
    struct jv otherwise = arg[0].type == JV_MISSING ? qr_jv_int(0) : arg[0];
    int64_t i, base = qr_jinja_arg_int(rt, arg[1], 10);
    double f;
    (void)args;
    if (qr_jv_as_int(self, &i))
        return qr_jv_int(i);
    if (self.type == JV_FLOAT)
        return isfinite(self.u.f) ? float_to_int(rt, self.u.f) : otherwise;
    if (self.type == JV_UNDEFINED)
        qr_jv_raise_undefined(rt, self);
    if (self.type != JV_STR || (base != 0 && (base < 2 || base > 36)))
        return otherwise;
    if (qr_jv_parse_int(self.u.str->s, self.u.str->n, (int)base, &i))
        return qr_jv_int(i);
    if (qr_jv_parse_float(self.u.str->s, self.u.str->n, &f) && isfinite(f))
        return float_to_int(rt, f);
    return otherwise;
}

FILTER(to_float)
{
    double f;
    (void)args;
    if (qr_jv_is_number(self))
        return qr_jv_float(qr_jv_as_float(self));
    if (self.type == JV_UNDEFINED)
        qr_jv_raise_undefined(rt, self);
    if (self.type == JV_STR && qr_jv_parse_float(self.u.str->s, self.u.str->n, &f))
        return qr_jv_float(f);
    return arg[0].type == JV_MISSING ? qr_jv_float(0) : arg[0];
}

static bool need_number(struct jrt *rt, struct jv v, const char *what)
{
    if (qr_jv_is_number(v))
        return true;
    if (v.type == JV_UNDEFINED)
        qr_jv_raise_undefined(rt, v);
    else
        qr_jinja_raise(rt, QR_INVALID, "%s needs a number, not '%s'", what, qr_jv_type_name(v));
    return false;
}

FILTER(absolute)
{
    int64_t i;
    (void)arg, (void)args;
    if (!need_number(rt, self, "abs"))
        return qr_jv_none();
    if (qr_jv_as_int(self, &i))
        return i < 0 ? qr_jinja_negate(rt, qr_jv_int(i), true) : qr_jv_int(i);
    return qr_jv_float(fabs(self.u.f));
}

/* Python's round(): the decimal digits of the exact value, ties to even. */
static struct jv round_common(struct jrt *rt, struct jv v, int64_t precision)
{
    char text[400];
    int64_t i;
    if (qr_jv_as_int(v, &i)) {
        if (precision >= 0 || i == 0)
            return qr_jv_int(i);
        if (precision < -18)
            return qr_jv_int(0);
        int64_t unit = 1;
        for (int64_t k = precision; k < 0; k++)
            unit *= 10;
        int64_t rest = ((i % unit) + unit) % unit, down;
        if (__builtin_sub_overflow(i, rest, &down))
            return qr_jv_int(0);
        bool up = rest > unit - rest || (rest == unit - rest && (down / unit) % 2 != 0);
        return up ? qr_jinja_binary(rt, '+', qr_jv_int(down), qr_jv_int(unit)) : qr_jv_int(down);
    }
    if (!isfinite(v.u.f) || precision > 330)
        return v;
    if (precision >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)(precision > 60 ? 60 : precision), v.u.f);
        return precision > 60 ? v : qr_jv_float(strtod(text, NULL));
    }
    if (precision < -310)
        return qr_jv_float(copysign(0, v.u.f));
    double unit = pow(10, (double)-precision);
    return qr_jv_float(rint(v.u.f / unit) * unit);
}

FILTER(round_filter)
{
    int64_t precision = qr_jinja_arg_int(rt, arg[0], 0);
    const struct jv_str *method = qr_jinja_arg_str(rt, arg[1], "common");
    (void)args;
    if (!need_number(rt, self, "round"))
        return qr_jv_none();
    if (qr_jv_str_is(method, "common"))
        return round_common(rt, self, precision);
    bool ceiling = qr_jv_str_is(method, "ceil");
    if (!ceiling && !qr_jv_str_is(method, "floor")) {
        qr_jinja_raise(rt, QR_INVALID, "method must be common, ceil or floor");
        return qr_jv_none();
    }
    double unit = pow(10, (double)precision), scaled = qr_jv_as_float(self) * unit;
    return qr_jv_float(((ceiling ? ceil(scaled) : floor(scaled)) + 0.0) / unit); /* + 0.0: Python's ceil knows no -0 */
}

FILTER(sum)
{
    struct jv total = arg[1].type == JV_MISSING ? qr_jv_int(0) : arg[1], item;
    struct jv_cursor cursor;
    (void)args;
    if (total.type == JV_STR)
        qr_jinja_raise(rt, QR_INVALID, "sum() can't sum strings: use join");
    qr_jv_walk(rt, self, &cursor);
    while (qr_jv_next(rt, &cursor, &item)) {
        item = qr_jinja_path(rt, item, arg[0]);
        if (rt->failed)
            break;
        total = qr_jinja_binary(rt, '+', total, item);
    }
    return total;
}

FILTER(filesizeformat)
{
    static const char *const decimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const binary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    bool two = qr_jinja_arg_true(rt, arg[0], false);
    double base = two ? 1024 : 1000, bytes, unit = base;
    char text[64];
    int i = 0;
    (void)args;
    struct jv v = to_float(rt, self, &(struct jv){.type = JV_NONE}, args);
    if (v.type != JV_FLOAT) {
        qr_jinja_raise(rt, QR_INVALID, "filesizeformat needs a number");
        return qr_jv_none();
    }
    bytes = v.u.f;
    if (bytes == 1)
        return qr_jv_cstr(rt, "1 Byte");
    if (bytes < base) {
        snprintf(text, sizeof text, "%lld Bytes", (long long)(bytes > -1e18 ? bytes : -1e18));
        return qr_jv_str_copy(rt, text, strlen(text));
    }
    while (i < 7 && !(bytes < unit * base)) {
        unit *= base;
        i++;
    }
    snprintf(text, sizeof text, "%.1f %s", bytes / unit > 1e30 ? 1e30 : bytes / unit, two ? binary[i] : decimal[i]);
    return qr_jv_str_copy(rt, text, strlen(text));
}

const struct jbuiltin qr_jinja_filters_number[] = {
    {"int", to_int, "default,base", 0},
    {"float", to_float, "default", 0},
    {"abs", absolute, "", 0},
    {"round", round_filter, "precision,method", 0},
    {"sum", sum, "attribute,start", 0},
    {"filesizeformat", filesizeformat, "binary", 0},
    {NULL, NULL, NULL, 0},
};
