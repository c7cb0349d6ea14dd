/* jinja_json.c - the filter tojson as transformers defines it: Python's json.dumps, nothing escaped for HTML. */
#include <math.h>
#include <string.h>
#include "text/jinja_render.h"
#include "text/jinja_unicode.h"

struct dump {
    struct qr_buf buf;
    bool ascii, sort;
    const struct jv_str *indent; /* NULL: on one line */
    const struct jv_str *item_sep, *key_sep;
};

static void dump_str(struct jrt *rt, struct dump *d, const struct jv_str *str)
{
    const char *s = str->s, *end = s + str->n, *start = s;
    qr_jinja_work(rt, str->n);
    qr_buf_putc(&d->buf, '"');
    while (s < end && !d->buf.failed) {
        const char *at = s;
        uint32_t cp = qr_u8_next(&s, end);
        const char *escape = cp == '"'    ? "\\\""
                             : cp == '\\' ? "\\\\"
                             : cp == '\n' ? "\\n"
                             : cp == '\r' ? "\\r"
                             : cp == '\t' ? "\\t"
                             : cp == '\b' ? "\\b"
                             : cp == '\f' ? "\\f"
                                          : NULL;
        bool coded = cp < 0x20 || (d->ascii && cp > 0x7e);
        if (!escape && !coded)
            continue;
        qr_buf_append(&d->buf, start, (size_t)(at - start));
        start = s;
        if (escape)
            qr_buf_puts(&d->buf, escape);
        else if (cp >= 0x10000)
            qr_buf_printf(&d->buf, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10),
                          0xdc00 + ((cp - 0x10000) & 0x3ff));
        else
            qr_buf_printf(&d->buf, "\\u%04x", cp);
    }
    qr_buf_append(&d->buf, start, (size_t)(end - start));
    qr_buf_putc(&d->buf, '"');
}

static void newline(struct dump *d, int level)
{
    qr_buf_putc(&d->buf, '\n');
    for (int i = 0; i < level && !d->buf.failed; i++)
        qr_buf_append(&d->buf, d->indent->s, d->indent->n);
}

static void dump_value(struct jrt *rt, struct dump *d, struct jv v, int level);

static void dump_list(struct jrt *rt, struct dump *d, const struct jv_list *list, int level)
{
    qr_buf_putc(&d->buf, '[');
    for (size_t i = 0; i < list->n && !rt->failed && !d->buf.failed; i++) {
        if (i)
            qr_buf_append(&d->buf, d->item_sep->s, d->item_sep->n);
        if (d->indent)
            newline(d, level + 1);
        dump_value(rt, d, list->v[i], level + 1);
    }
    if (d->indent && list->n)
        newline(d, level);
    qr_buf_putc(&d->buf, ']');
}

static void write_float(struct dump *d, double f)
{
    char number[64];
    qr_jv_float_repr(f, number);
    qr_buf_puts(&d->buf, isnan(f) ? "NaN" : isinf(f) ? (f > 0 ? "Infinity" : "-Infinity") : number);
}

/* Keys that are no strings become ones, as json.dumps does it. */
static void dump_key(struct jrt *rt, struct dump *d, struct jv key)
{
    if (key.type == JV_STR) {
        dump_str(rt, d, key.u.str);
        return;
    }
    if (key.type != JV_NONE && !qr_jv_is_number(key)) {
        qr_jinja_raise(rt, QR_INVALID, "tojson: keys must be str, int, float, bool or None, not %s",
                       qr_jv_type_name(key));
        return;
    }
    qr_buf_putc(&d->buf, '"');
    dump_value(rt, d, key, 0);
    qr_buf_putc(&d->buf, '"');
}

static void dump_dict(struct jrt *rt, struct dump *d, const struct jv_dict *dict, int level)
{
    struct jv_list order = {.n = dict->n, .v = dict->key};
    if (d->sort && dict->n) {
        struct jv *keys = qr_jinja_alloc(rt, dict->n, sizeof *keys), *items = qr_jinja_alloc(rt, dict->n, sizeof *keys);
        if (!keys || !items)
            return;
        memcpy(keys, dict->key, dict->n * sizeof *keys);
        memcpy(items, dict->key, dict->n * sizeof *keys);
        order.v = items;
        qr_jv_sort(rt, &order, keys, false);
    }
    qr_buf_putc(&d->buf, '{');
    for (size_t i = 0; i < order.n && !rt->failed && !d->buf.failed; i++) {
        struct jv value = dict->value[i];
        if (d->sort && !qr_jv_dict_get(rt, dict, order.v[i], &value))
            break;
        if (i)
            qr_buf_append(&d->buf, d->item_sep->s, d->item_sep->n);
        if (d->indent)
            newline(d, level + 1);
        dump_key(rt, d, order.v[i]);
        qr_buf_append(&d->buf, d->key_sep->s, d->key_sep->n);
        dump_value(rt, d, value, level + 1);
    }
    if (d->indent && order.n)
        newline(d, level);
    qr_buf_putc(&d->buf, '}');
}

static void dump_value(struct jrt *rt, struct dump *d, struct jv v, int level)
{
    if (!qr_jinja_step(rt, 1))
        return;
    if (++rt->depth > rt->max_depth)
        qr_jinja_raise(rt, QR_LIMIT, "tojson: a value nests too deep");
    else if (v.type == JV_STR)
        dump_str(rt, d, v.u.str);
    else if (v.type == JV_NONE)
        qr_buf_puts(&d->buf, "null");
    else if (v.type == JV_BOOL)
        qr_buf_puts(&d->buf, v.u.b ? "true" : "false");
    else if (v.type == JV_INT)
        qr_buf_printf(&d->buf, "%lld", (long long)v.u.i);
    else if (v.type == JV_FLOAT)
        write_float(d, v.u.f);
    else if (v.type == JV_LIST && v.u.list->kind < JV_KIND_KEYS)
        dump_list(rt, d, v.u.list, level);
    else if (v.type == JV_DICT)
        dump_dict(rt, d, v.u.dict, level);
    else
        qr_jinja_raise(rt, QR_INVALID, "tojson: Object of type %s is not JSON serializable", qr_jv_type_name(v));
    rt->depth--;
}

/* separators=(item, key) */
static void separators(struct jrt *rt, struct dump *d, struct jv v)
{
    d->item_sep = qr_jv_cstr(rt, d->indent ? "," : ", ").u.str;
    d->key_sep = qr_jv_cstr(rt, ": ").u.str;
    if (v.type == JV_MISSING || v.type == JV_NONE)
        return;
    struct jv_list *pair = qr_jv_to_list(rt, v);
    if (pair->n != 2 || pair->v[0].type != JV_STR || pair->v[1].type != JV_STR) {
        qr_jinja_raise(rt, QR_INVALID, "tojson: separators must be two strings");
        return;
    }
    d->item_sep = pair->v[0].u.str;
    d->key_sep = pair->v[1].u.str;
}

struct jv qr_jinja_tojson(struct jrt *rt, struct jv self, const struct jv *arg, const struct jargs *args)
{
    struct dump d = {.ascii = qr_jinja_arg_true(rt, arg[0], false), .sort = qr_jinja_arg_true(rt, arg[3], false)};
    (void)args;
    if (arg[1].type == JV_STR)
        d.indent = arg[1].u.str;
    else if (arg[1].type != JV_MISSING && arg[1].type != JV_NONE)
        d.indent = qr_jv_repeat(rt, qr_jv_cstr(rt, " "), qr_jinja_arg_int(rt, arg[1], 0)).u.str;
    separators(rt, &d, arg[2]);
    qr_jv_text_begin(rt, &d.buf);
    if (!rt->failed)
        dump_value(rt, &d, self, 0);
    return qr_jv_text_end(rt, &d.buf);
}
