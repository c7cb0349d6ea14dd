/* jinja_print.c - values as text: Python's str() and repr(). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "text/jinja_render.h"
#include "text/jinja_unicode.h"

/* repr of a float: the shortest digits that read back as the same number (for normal numbers 15 digits or fewer always
 * show as 15 with zeros behind), in positional notation for exponents -4 .. 15. */
void qr_jv_float_repr(double f, char out[64])
{
    char digits[40];
    int n, exponent;
    if (isnan(f) || isinf(f)) {
        snprintf(out, 64, "%s", isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
        return;
    }
    for (int precision = fabs(f) < 0x1p-1022 ? 0 : 14; precision <= 16; precision++) {
        snprintf(digits, sizeof digits, "%.*e", precision, fabs(f));
        if (strtod(digits, NULL) == fabs(f))
            break;
    }
    char *e = strchr(digits, 'e');
    exponent = atoi(e + 1);
    *e = 0;
    if (digits[1] == '.')
        memmove(digits + 1, digits + 2, strlen(digits + 2) + 1);
    n = (int)strlen(digits);
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = 0;
    char *p = out;
    if (signbit(f))
        *p++ = '-';
    if (exponent < -4 || exponent >= 16)
        snprintf(p, 62, "%c%s%se%c%02d", digits[0], n > 1 ? "." : "", digits + 1, exponent < 0 ? '-' : '+',
                 abs(exponent));
    else if (exponent < 0)
        snprintf(p, 62, "0.%.*s%s", -exponent - 1, "0000", digits);
    else if (n <= exponent + 1)
        snprintf(p, 62, "%s%.*s.0", digits, exponent + 1 - n, "0000000000000000");
    else
        snprintf(p, 62, "%.*s.%s", exponent + 1, digits, digits + exponent + 1);
}

static void write_int(struct qr_buf *buf, int64_t i)
{
    qr_buf_printf(buf, "%lld", (long long)i);
}

static void repr_str(struct jrt *rt, struct qr_buf *buf, const struct jv_str *str)
{
    const char *s = str->s, *end = s + str->n;
    bool single = memchr(s, '\'', str->n), dbl = memchr(s, '"', str->n);
    char quote = single && !dbl ? '"' : '\'';
    qr_jinja_work(rt, str->n);
    qr_buf_putc(buf, quote);
    while (s < end && !buf->failed) {
        const char *start = s;
        uint32_t cp = qr_u8_next(&s, end);
        if (cp == (uint32_t)quote || cp == '\\')
            qr_buf_printf(buf, "\\%c", (char)cp);
        else if (cp == '\n')
            qr_buf_puts(buf, "\\n");
        else if (cp == '\r')
            qr_buf_puts(buf, "\\r");
        else if (cp == '\t')
            qr_buf_puts(buf, "\\t");
        else if (qr_u_is_printable(cp))
            qr_buf_append(buf, start, (size_t)(s - start));
        else
            qr_buf_printf(buf, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
    }
    qr_buf_putc(buf, quote);
}

static void write_value(struct jrt *rt, struct qr_buf *buf, struct jv v, bool repr);

static void write_list(struct jrt *rt, struct qr_buf *buf, const struct jv_list *list)
{
    static const char *const open[] = {[JV_KIND_LIST] = "[",
                                       [JV_KIND_TUPLE] = "(",
                                       [JV_KIND_GROUP] = "(",
                                       [JV_KIND_KEYS] = "dict_keys([",
                                       [JV_KIND_VALUES] = "dict_values([",
                                       [JV_KIND_ITEMS] = "dict_items(["};
    bool tuple = list->kind == JV_KIND_TUPLE || list->kind == JV_KIND_GROUP;
    qr_buf_puts(buf, open[list->kind]);
    for (size_t i = 0; i < list->n && !rt->failed && !buf->failed; i++) {
        if (i)
            qr_buf_puts(buf, ", ");
        write_value(rt, buf, list->v[i], true);
    }
    if (tuple && list->n == 1)
        qr_buf_putc(buf, ',');
    qr_buf_puts(buf, tuple ? ")" : list->kind == JV_KIND_LIST ? "]" : "])");
}

static void write_dict(struct jrt *rt, struct qr_buf *buf, const struct jv_dict *dict)
{
    qr_buf_putc(buf, '{');
    for (size_t i = 0; i < dict->n && !rt->failed && !buf->failed; i++) {
        if (i)
            qr_buf_puts(buf, ", ");
        write_value(rt, buf, dict->key[i], true);
        qr_buf_puts(buf, ": ");
        write_value(rt, buf, dict->value[i], true);
    }
    qr_buf_putc(buf, '}');
}

static void write_range(struct qr_buf *buf, const struct jv_range *r)
{
    qr_buf_printf(buf, "range(%lld, %lld", (long long)r->start, (long long)r->stop);
    if (r->step != 1)
        qr_buf_printf(buf, ", %lld", (long long)r->step);
    qr_buf_putc(buf, ')');
}

static void write_object(struct jrt *rt, struct qr_buf *buf, struct jv v)
{
    if (v.type == JV_NAMESPACE) {
        qr_buf_puts(buf, "<Namespace ");
        write_dict(rt, buf, v.u.dict);
        qr_buf_putc(buf, '>');
    } else if (v.type == JV_MACRO) {
        int name = v.u.macro->node->name;
        qr_buf_puts(buf, "<Macro ");
        if (name < 0)
            qr_buf_puts(buf, "anonymous");
        else
            repr_str(rt, buf, rt->jinja->name[name]);
        qr_buf_putc(buf, '>');
    } else if (v.type == JV_LOOP) {
        qr_buf_printf(buf, "<LoopContext %lld/%lld>", (long long)v.u.loop->index0 + 1, (long long)qr_jv_len(rt, v));
    } else {
        qr_buf_printf(buf, "<%s object>", qr_jv_type_name(v)); /* Python shows an address */
    }
}

static void write_value(struct jrt *rt, struct qr_buf *buf, struct jv v, bool repr)
{
    char number[64];
    if (!qr_jinja_step(rt, 1))
        return;
    if (++rt->depth > rt->max_depth) {
        qr_jinja_raise(rt, QR_LIMIT, "a value that is printed nests too deep");
        rt->depth--;
        return;
    }
    switch (v.type) {
    case JV_MISSING:
        break;
    case JV_UNDEFINED:
        qr_buf_puts(buf, repr ? "Undefined" : "");
        break;
    case JV_NONE:
        qr_buf_puts(buf, "None");
        break;
    case JV_BOOL:
        qr_buf_puts(buf, v.u.b ? "True" : "False");
        break;
    case JV_INT:
        write_int(buf, v.u.i);
        break;
    case JV_FLOAT:
        qr_jv_float_repr(v.u.f, number);
        qr_buf_puts(buf, number);
        break;
    case JV_STR:
        if (repr)
            repr_str(rt, buf, v.u.str);
        else
            qr_buf_append(buf, v.u.str->s, v.u.str->n);
        break;
    case JV_LIST:
        write_list(rt, buf, v.u.list);
        break;
    case JV_DICT:
        write_dict(rt, buf, v.u.dict);
        break;
    case JV_RANGE:
        write_range(buf, v.u.range);
        break;
    default:
        write_object(rt, buf, v);
    }
    rt->depth--;
}

void qr_jv_write(struct jrt *rt, struct qr_buf *buf, struct jv v)
{
    write_value(rt, buf, v, false);
}

void qr_jv_write_repr(struct jrt *rt, struct qr_buf *buf, struct jv v)
{
    write_value(rt, buf, v, true);
}

struct jv qr_jv_to_str(struct jrt *rt, struct jv v)
{
    struct qr_buf buf;
    if (v.type == JV_STR)
        return v;
    qr_jv_text_begin(rt, &buf);
    qr_jv_write(rt, &buf, v);
    return qr_jv_text_end(rt, &buf);
}
