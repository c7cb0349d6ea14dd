/* jinja_percent.c - "..." % values, and the filter format: Python's printf-style formatting. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "text/jinja_render.h"
#include "text/jinja_unicode.h"

struct spec {
    bool minus, plus, space, zero, alternate;
    int64_t width, precision; /* precision -1: not given */
};

/* text, whose sign and prefix take its first n_lead bytes, padded to the width. */
static void pad(struct qr_buf *buf, const struct spec *spec, struct jv_str *text, size_t n_lead, bool number)
{
    int64_t more = spec->width - qr_jv_str_len(text);
    bool zero = spec->zero && number && !spec->minus;
    for (; more > 0 && !spec->minus && !zero && !buf->failed; more--)
        qr_buf_putc(buf, ' ');
    qr_buf_append(buf, text->s, n_lead);
    for (; more > 0 && zero && !buf->failed; more--)
        qr_buf_putc(buf, '0');
    qr_buf_append(buf, text->s + n_lead, text->n - n_lead);
    for (; more > 0 && spec->minus && !buf->failed; more--)
        qr_buf_putc(buf, ' ');
}

static void put_int(struct jrt *rt, struct qr_buf *buf, const struct spec *spec, struct jv v, char kind)
{
    char digits[80], text[160];
    int64_t i;
    if (v.type == JV_FLOAT && isfinite(v.u.f) && fabs(v.u.f) < 9223372036854775808.0 && kind == 'd')
        v = qr_jv_int((int64_t)v.u.f);
    if (!qr_jv_as_int(v, &i)) {
        qr_jinja_raise(rt, QR_INVALID, "%%%c format: a number is required, not %s", kind, qr_jv_type_name(v));
        return;
    }
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    int precision = spec->precision > 60 ? 60 : spec->precision < 0 ? 1 : (int)spec->precision;
    snprintf(digits, sizeof digits,
             kind == 'x'   ? "%.*llx"
             : kind == 'X' ? "%.*llX"
             : kind == 'o' ? "%.*llo"
                           : "%.*llu",
             precision, (unsigned long long)u);
    const char *sign = i < 0 ? "-" : spec->plus ? "+" : spec->space ? " " : "";
    const char *prefix = !spec->alternate || kind == 'd' ? "" : kind == 'x' ? "0x" : kind == 'X' ? "0X" : "0o";
    snprintf(text, sizeof text, "%s%s%s", sign, prefix, digits);
    struct jv_str str = {text, strlen(text), -1};
    pad(buf, spec, &str, strlen(sign) + strlen(prefix), true);
}

static void put_float(struct jrt *rt, struct qr_buf *buf, const struct spec *spec, struct jv v, char kind)
{
    char text[512], format[16];
    if (!qr_jv_is_number(v)) {
        qr_jinja_raise(rt, QR_INVALID, "must be real number, not %s", qr_jv_type_name(v));
        return;
    }
    double f = qr_jv_as_float(v);
    snprintf(format, sizeof format, "%%%s%s.*%c",
             spec->plus    ? "+"
             : spec->space ? " "
                           : "",
             spec->alternate ? "#" : "", kind);
    int precision = spec->precision < 0 ? 6 : spec->precision > 100 ? 100 : (int)spec->precision;
    snprintf(text, sizeof text, format, precision, f);
    struct jv_str str = {text, strlen(text), -1};
    pad(buf, spec, &str, text[0] == '-' || text[0] == '+' || text[0] == ' ', isfinite(f));
}

static void put_text(struct jrt *rt, struct qr_buf *buf, const struct spec *spec, struct jv v, char kind)
{
    struct qr_buf inner;
    struct jv text;
    if (kind == 'c' && v.type == JV_INT && v.u.i >= 0 && v.u.i <= 0x10ffff) {
        char s[4];
        text = qr_jv_str_copy(rt, s, qr_u8_put((uint32_t)v.u.i, s));
    } else if (kind == 'c' && (v.type != JV_STR || qr_jv_len(rt, v) != 1)) {
        qr_jinja_raise(rt, QR_INVALID, "%%c requires int or char");
        return;
    } else if (kind == 'r' || kind == 'a') {
        qr_jv_text_begin(rt, &inner);
        qr_jv_write_repr(rt, &inner, v);
        text = qr_jv_text_end(rt, &inner);
    } else {
        text = qr_jv_to_str(rt, v);
    }
    if (spec->precision >= 0)
        text = qr_jinja_slice(rt, text, qr_jv_none(), qr_jv_int(spec->precision), qr_jv_none());
    if (!rt->failed)
        pad(buf, spec, text.u.str, 0, false);
}

static bool next_arg(struct jrt *rt, const struct jargs *args, int *used, struct jv *v)
{
    if (*used >= args->n_pos) {
        qr_jinja_raise(rt, QR_INVALID, "not enough arguments for format string");
        return false;
    }
    *v = args->pos[(*used)++];
    return true;
}

/* (name) behind the %: the value under that key. */
static const char *keyed(struct jrt *rt, const struct jargs *args, const char *s, const char *end, struct jv *v)
{
    const char *close = memchr(s, ')', (size_t)(end - s));
    if (!close) {
        qr_jinja_raise(rt, QR_INVALID, "incomplete format key");
        return end;
    }
    struct jv key = qr_jv_str_view(rt, s, (size_t)(close - s));
    for (int k = 0; k < args->n_kw; k++) {
        if (args->kw_name[k]->n == key.u.str->n && memcmp(args->kw_name[k]->s, s, key.u.str->n) == 0) {
            *v = args->kw[k];
            return close + 1;
        }
    }
    if (args->n_pos != 1 || args->pos[0].type != JV_DICT || !qr_jv_dict_get(rt, args->pos[0].u.dict, key, v))
        qr_jinja_raise(rt, QR_INVALID, "the format names '%.*s', and no mapping has it",
                       (int)(key.u.str->n > 60 ? 60 : key.u.str->n), s);
    return close + 1;
}

static int64_t size_of(struct jrt *rt, const struct jargs *args, const char **s, const char *end, int *used)
{
    int64_t n = 0;
    struct jv v;
    if (*s < end && **s == '*') {
        (*s)++;
        return next_arg(rt, args, used, &v) ? qr_jinja_arg_int(rt, v, 0) : 0;
    }
    for (; *s < end && **s >= '0' && **s <= '9'; (*s)++)
        n = n < 1000000000 ? n * 10 + (**s - '0') : n;
    return n;
}

/* One conversion, s behind the %; gives where it ends. */
static const char *convert(struct jrt *rt, struct qr_buf *buf, const struct jargs *args, const char *s, const char *end,
                           int *used, bool *by_key)
{
    struct spec spec = {.precision = -1};
    struct jv v = {.type = JV_MISSING};
    if (s < end && *s == '(') {
        s = keyed(rt, args, s + 1, end, &v);
        *by_key = true;
    }
    for (; s < end && *s && strchr("-+ 0#", *s); s++) {
        spec.minus |= *s == '-';
        spec.plus |= *s == '+';
        spec.space |= *s == ' ';
        spec.zero |= *s == '0';
        spec.alternate |= *s == '#';
    }
    spec.width = size_of(rt, args, &s, end, used);
    if (spec.width < 0) {
        spec.minus = true;
        spec.width = spec.width == INT64_MIN ? INT64_MAX : -spec.width;
    }
    if (s < end && *s == '.') {
        s++;
        spec.precision = size_of(rt, args, &s, end, used);
        spec.precision = spec.precision < 0 ? 0 : spec.precision;
    }
    while (s < end && (*s == 'l' || *s == 'h' || *s == 'L'))
        s++;
    char kind = s < end ? *s : 0;
    if (kind == '%') {
        qr_buf_putc(buf, '%');
        return s + 1;
    }
    if (!kind || !strchr("diuoxXeEfFgGcrsa", kind)) {
        qr_jinja_raise(rt, QR_INVALID, kind ? "unsupported format character" : "incomplete format");
        return end;
    }
    if (rt->failed || (v.type == JV_MISSING && !next_arg(rt, args, used, &v)))
        return end;
    if (strchr("diuoxX", kind))
        put_int(rt, buf, &spec, v, kind == 'i' || kind == 'u' ? 'd' : kind);
    else if (strchr("eEfFgG", kind))
        put_float(rt, buf, &spec, v, kind);
    else
        put_text(rt, buf, &spec, v, kind);
    return s + 1;
}

struct jv qr_jinja_percent(struct jrt *rt, struct jv format, const struct jargs *args)
{
    struct qr_buf buf;
    const char *s = format.u.str->s, *end = s + format.u.str->n;
    int used = 0;
    bool by_key = false;
    qr_jv_text_begin(rt, &buf);
    while (s < end && !rt->failed && !buf.failed) {
        const char *mark = memchr(s, '%', (size_t)(end - s));
        qr_buf_append(&buf, s, (size_t)((mark ? mark : end) - s));
        if (!mark || !qr_jinja_step(rt, 1))
            break;
        s = convert(rt, &buf, args, mark + 1, end, &used, &by_key);
    }
    bool mapping = args->n_pos == 1 &&
                   (args->pos[0].type == JV_DICT || args->pos[0].type == JV_LIST || args->pos[0].type == JV_UNDEFINED);
    if (used < args->n_pos && !by_key && !mapping)
        qr_jinja_raise(rt, QR_INVALID, "not all arguments converted during string formatting");
    return qr_jv_text_end(rt, &buf);
}
