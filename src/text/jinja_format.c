/* jinja_format.c - str.format: "{} {0} {name} {0.attr[key]!r:>10.2f}". Attributes obey the sandbox. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "text/jinja_render.h"
#include "text/jinja_unicode.h"

struct field {
    uint32_t fill;
    char align, sign, kind; /* 0: not given */
    bool alternate, zero, comma, underscore;
    int64_t width, precision; /* -1: not given */
};

/* Digits; what is beyond any budget need not be exact. */
static const char *size(const char *s, const char *end, int64_t *n)
{
    for (; s < end && *s >= '0' && *s <= '9'; s++)
        *n = *n < 1000000000 ? *n * 10 + (*s - '0') : *n;
    return s;
}

static bool parse_spec(const char *s, const char *end, struct field *f)
{
    const char *next = s;
    *f = (struct field){.fill = ' ', .width = 0, .precision = -1};
    if (s < end) {
        uint32_t cp = qr_u8_next(&next, end);
        if (next < end && strchr("<>=^", *next) && *next) {
            f->fill = cp;
            f->align = *next;
            s = next + 1;
        } else if (strchr("<>=^", *s) && *s) {
            f->align = *s++;
        }
    }
    if (s < end && (*s == '+' || *s == '-' || *s == ' '))
        f->sign = *s++;
    if (s < end && *s == '#')
        f->alternate = s++ != NULL;
    if (s < end && *s == '0')
        f->zero = s++ != NULL;
    s = size(s, end, &f->width);
    if (s < end && *s == ',')
        f->comma = s++ != NULL;
    else if (s < end && *s == '_')
        f->underscore = s++ != NULL;
    if (s < end && *s == '.') {
        f->precision = 0;
        const char *digits = ++s;
        s = size(s, end, &f->precision);
        if (s == digits)
            return false;
    }
    if (s < end)
        f->kind = *s++;
    if (f->zero && !f->align) {
        f->align = '=';
        f->fill = '0';
    }
    return s == end && (!f->kind || strchr("bcdeEfFgGnosxX%", f->kind));
}

static void put_fill(struct qr_buf *buf, uint32_t fill, int64_t n)
{
    char s[4];
    size_t k = qr_u8_put(fill, s);
    for (; n > 0 && !buf->failed; n--)
        qr_buf_append(buf, s, k);
}

static void padded(struct qr_buf *buf, const struct field *f, struct jv_str *text, size_t n_lead, char align)
{
    int64_t more = f->width - qr_jv_str_len(text), left;
    align = f->align ? f->align : align;
    more = more < 0 ? 0 : more;
    left = align == '>' ? more : align == '^' ? more / 2 : 0;
    put_fill(buf, f->fill, left);
    qr_buf_append(buf, text->s, n_lead);
    put_fill(buf, f->fill, align == '=' ? more : 0);
    qr_buf_append(buf, text->s + n_lead, text->n - n_lead);
    put_fill(buf, f->fill, align == '=' ? 0 : more - left);
}

/* 1234567 -> 1,234,567: digits up to the point, exponent or end. */
static void group(char *text, size_t room, char with)
{
    char out[512];
    size_t digits = strspn(text, "0123456789"), m = 0;
    for (size_t i = 0; i < digits && m + 2 < sizeof out; i++) {
        if (i && (digits - i) % 3 == 0)
            out[m++] = with;
        out[m++] = text[i];
    }
    out[m] = 0;
    if (m + strlen(text + digits) < room && m + strlen(text + digits) < sizeof out) {
        strcpy(out + m, text + digits);
        strcpy(text, out);
    }
}

static void binary(uint64_t u, char *out)
{
    int top = u ? 63 - __builtin_clzll(u) : 0;
    for (int bit = top; bit >= 0; bit--)
        *out++ = (char)('0' + (u >> bit & 1));
    *out = 0;
}

static bool number_text(struct jrt *rt, struct jv v, struct field *f, char *text, size_t room, size_t *n_lead)
{
    char digits[400] = "";
    const char *prefix = "";
    int64_t i;
    bool whole = qr_jv_as_int(v, &i), negative;
    if (whole && strchr("bcdnoxX", f->kind ? f->kind : 'd')) {
        uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
        char kind = f->kind ? f->kind : 'd';
        negative = i < 0;
        if (kind == 'b')
            binary(u, digits);
        else if (kind == 'c')
            digits[qr_u8_put((uint32_t)(u > 0x10ffff ? 0xfffd : u), digits)] = 0;
        else
            snprintf(digits, sizeof digits,
                     kind == 'x'   ? "%llx"
                     : kind == 'X' ? "%llX"
                     : kind == 'o' ? "%llo"
                                   : "%llu",
                     (unsigned long long)u);
        if (f->alternate)
            prefix = kind == 'b' ? "0b" : kind == 'o' ? "0o" : kind == 'x' ? "0x" : kind == 'X' ? "0X" : "";
    } else {
        double x = qr_jv_as_float(v);
        char format[16], kind = f->kind == '%' ? 'f' : f->kind ? f->kind : 'g';
        int precision = f->precision < 0 ? 6 : f->precision > 100 ? 100 : (int)f->precision;
        if (strchr("bcdoxXs", kind)) {
            qr_jinja_raise(rt, QR_INVALID, "format code '%c' does not fit a value of type '%s'", kind,
                           qr_jv_type_name(v));
            return false;
        }
        negative = signbit(x) && !isnan(x);
        x = fabs(x);
        snprintf(format, sizeof format, "%%%s.*%c", f->alternate ? "#" : "", kind == 'n' ? 'g' : kind);
        if (!f->kind && f->precision < 0)
            qr_jv_float_repr(x, digits);
        else
            snprintf(digits, sizeof digits, format, precision, f->kind == '%' ? x * 100 : x);
    }
    if (f->comma || f->underscore)
        group(digits, sizeof digits, f->comma ? ',' : '_');
    const char *sign = negative ? "-" : f->sign == '+' ? "+" : f->sign == ' ' ? " " : "";
    snprintf(text, room, "%s%s%s%s", sign, prefix, digits, f->kind == '%' ? "%" : "");
    *n_lead = strlen(sign) + strlen(prefix);
    return true;
}

void qr_jinja_format_spec(struct jrt *rt, struct qr_buf *buf, struct jv v, const char *spec, size_t n)
{
    struct field f;
    char text[450];
    size_t n_lead = 0;
    if (n == 0) {
        qr_jv_write(rt, buf, v);
        return;
    }
    if (!parse_spec(spec, spec + n, &f)) {
        qr_jinja_raise(rt, QR_INVALID, "invalid format specifier '%.*s'", (int)(n > 60 ? 60 : n), spec);
        return;
    }
    if (v.type == JV_STR && (!f.kind || f.kind == 's') && f.align != '=') {
        if (f.precision >= 0)
            v = qr_jinja_slice(rt, v, qr_jv_none(), qr_jv_int(f.precision), qr_jv_none());
        if (!rt->failed)
            padded(buf, &f, v.u.str, 0, '<');
    } else if (qr_jv_is_number(v) && f.kind != 's') {
        if (!number_text(rt, v, &f, text, sizeof text, &n_lead))
            return;
        struct jv_str str = {text, strlen(text), -1};
        padded(buf, &f, &str, n_lead, '>');
    } else {
        qr_jinja_raise(rt, QR_INVALID, "the format specifier '%.*s' does not fit a value of type '%s'",
                       (int)(n > 60 ? 60 : n), spec, qr_jv_type_name(v));
    }
}

static struct jv argument(struct jrt *rt, const struct jargs *args, const char *s, size_t n, int *next)
{
    int64_t i;
    if (n == 0) {
        i = (*next)++;
    } else if (!qr_jv_parse_int(s, n, 10, &i)) {
        for (int k = 0; k < args->n_kw; k++) {
            if (args->kw_name[k]->n == n && memcmp(args->kw_name[k]->s, s, n) == 0)
                return args->kw[k];
        }
        qr_jinja_raise(rt, QR_INVALID, "format: there is no argument '%.*s'", (int)(n > 60 ? 60 : n), s);
        return qr_jv_none();
    }
    if (i < 0 || i >= args->n_pos) {
        qr_jinja_raise(rt, QR_INVALID, "Replacement index %lld out of range for positional args tuple", (long long)i);
        return qr_jv_none();
    }
    return args->pos[i];
}

/* "0.name[key]" */
static struct jv field_value(struct jrt *rt, const struct jargs *args, const char *s, const char *end, int *next)
{
    const char *p = s;
    while (p < end && *p != '.' && *p != '[')
        p++;
    struct jv v = argument(rt, args, s, (size_t)(p - s), next);
    while (p < end && !rt->failed) {
        bool item = *p++ == '[';
        const char *start = p;
        while (p < end && (item ? *p != ']' : *p != '.' && *p != '['))
            p++;
        struct jv key = qr_jv_str_view(rt, start, (size_t)(p - start));
        int64_t i;
        if (item && qr_jv_parse_int(start, (size_t)(p - start), 10, &i))
            key = qr_jv_int(i);
        v = item ? qr_jinja_getitem(rt, v, key) : qr_jinja_getattr(rt, v, key.u.str);
        if (item && p < end)
            p++;
    }
    return v;
}

static void put_field(struct jrt *rt, struct qr_buf *buf, const struct jargs *args, const char *s, const char *end,
                      int *next)
{
    const char *colon = memchr(s, ':', (size_t)(end - s)), *stop = colon ? colon : end;
    char convert = 0;
    if (stop - s >= 2 && stop[-2] == '!') {
        convert = stop[-1];
        stop -= 2;
    }
    struct jv v = field_value(rt, args, s, stop, next);
    if (convert == 'r' || convert == 'a') {
        struct qr_buf inner;
        qr_jv_text_begin(rt, &inner);
        qr_jv_write_repr(rt, &inner, v);
        v = qr_jv_text_end(rt, &inner);
    } else if (convert == 's') {
        v = qr_jv_to_str(rt, v);
    }
    if (!rt->failed)
        qr_jinja_format_spec(rt, buf, v, colon ? colon + 1 : "", colon ? (size_t)(end - colon - 1) : 0);
}

struct jv qr_jinja_str_format(struct jrt *rt, struct jv self, const struct jv *arg, const struct jargs *args)
{
    struct qr_buf buf;
    const char *s = self.u.str->s, *end = s + self.u.str->n;
    int next = 0;
    (void)arg;
    qr_jv_text_begin(rt, &buf);
    while (s < end && !rt->failed && !buf.failed) {
        if ((*s == '{' || *s == '}') && s + 1 < end && s[1] == *s) {
            qr_buf_putc(&buf, *s);
            s += 2;
        } else if (*s == '{') {
            const char *close = memchr(s, '}', (size_t)(end - s));
            if (!close || memchr(s + 1, '{', (size_t)(close - s - 1))) {
                qr_jinja_raise(rt, QR_INVALID, "format: expected '}' before end of string, and fields do not nest");
                break;
            }
            qr_jinja_step(rt, 1);
            put_field(rt, &buf, args, s + 1, close, &next);
            s = close + 1;
        } else if (*s == '}') {
            qr_jinja_raise(rt, QR_INVALID, "Single '}' encountered in format string");
        } else {
            const char *start = s;
            while (s < end && *s != '{' && *s != '}')
                s++;
            qr_buf_append(&buf, start, (size_t)(s - start));
        }
    }
    return qr_jv_text_end(rt, &buf);
}
