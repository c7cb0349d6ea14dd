/* jinja_methods2.c - methods of str that change case or pad, and those of list, dict, float and cycler. */
#include <math.h>
#include <string.h>
#include "text/jinja_render.h"
#include "text/jinja_unicode.h"

#define METHOD(name)                                                                                                   \
    static struct jv name(struct jrt *rt, struct jv self, const struct jv *arg, const struct jargs *args)

METHOD(upper)
{
    (void)arg, (void)args;
    return qr_jinja_case(rt, self.u.str, JC_UPPER);
}

METHOD(lower)
{
    (void)arg, (void)args;
    return qr_jinja_case(rt, self.u.str, JC_LOWER);
}

METHOD(capitalize)
{
    (void)arg, (void)args;
    return qr_jinja_case(rt, self.u.str, JC_CAPITALIZE);
}

METHOD(title)
{
    (void)arg, (void)args;
    return qr_jinja_case(rt, self.u.str, JC_TITLE);
}

METHOD(swapcase)
{
    (void)arg, (void)args;
    return qr_jinja_case(rt, self.u.str, JC_SWAP);
}

METHOD(center)
{
    (void)args;
    return qr_jinja_pad(rt, self.u.str, qr_jinja_arg_int(rt, arg[0], 0), arg[1], '^');
}

METHOD(ljust)
{
    (void)args;
    return qr_jinja_pad(rt, self.u.str, qr_jinja_arg_int(rt, arg[0], 0), arg[1], '<');
}

METHOD(rjust)
{
    (void)args;
    return qr_jinja_pad(rt, self.u.str, qr_jinja_arg_int(rt, arg[0], 0), arg[1], '>');
}

METHOD(zfill)
{
    struct jv_str *str = self.u.str;
    int64_t more = qr_jinja_arg_int(rt, arg[0], 0) - qr_jv_str_len(str);
    size_t sign = str->n && (str->s[0] == '-' || str->s[0] == '+');
    (void)args;
    if (more <= 0)
        return self;
    struct jv text = qr_jv_str_copy(rt, str->s, sign);
    text = qr_jv_concat(rt, text, qr_jv_repeat(rt, qr_jv_cstr(rt, "0"), more));
    return qr_jv_concat(rt, text, qr_jv_str_view(rt, str->s + sign, str->n - sign));
}

METHOD(expandtabs)
{
    int64_t size = qr_jinja_arg_int(rt, arg[0], 8), column = 0;
    const char *s = self.u.str->s, *end = s + self.u.str->n;
    struct qr_buf buf;
    (void)args;
    qr_jv_text_begin(rt, &buf);
    while (s < end && !buf.failed) {
        const char *start = s;
        uint32_t cp = qr_u8_next(&s, end);
        if (cp == '\t') {
            for (int64_t n = size > 0 ? size - column % size : 0; n > 0 && !buf.failed; n--, column++)
                qr_buf_putc(&buf, ' ');
            continue;
        }
        qr_buf_append(&buf, start, (size_t)(s - start));
        column = cp == '\n' || cp == '\r' ? 0 : column + 1;
    }
    return qr_jv_text_end(rt, &buf);
}

const struct jbuiltin qr_jinja_str_methods2[] = {
    {"upper", upper, "", 0},
    {"lower", lower, "", 0},
    {"casefold", lower, "", 0},
    {"capitalize", capitalize, "", 0},
    {"title", title, "", 0},
    {"swapcase", swapcase, "", 0},
    {"center", center, "width,fillchar", 1},
    {"ljust", ljust, "width,fillchar", 1},
    {"rjust", rjust, "width,fillchar", 1},
    {"zfill", zfill, "width", 1},
    {"expandtabs", expandtabs, "tabsize", 0},
    {"format", qr_jinja_str_format, NULL, 0},
    {NULL, NULL, NULL, 0},
};

METHOD(list_count)
{
    struct jv_cursor cursor;
    struct jv item;
    int64_t n = 0;
    (void)args;
    qr_jv_walk(rt, self, &cursor);
    while (qr_jv_next(rt, &cursor, &item))
        n += qr_jv_equal(rt, item, arg[0]);
    return qr_jv_int(n);
}

METHOD(list_index)
{
    struct jv_cursor cursor;
    struct jv item;
    (void)args;
    qr_jv_walk(rt, self, &cursor);
    while (qr_jv_next(rt, &cursor, &item)) {
        if (qr_jv_equal(rt, item, arg[0]))
            return qr_jv_int((int64_t)cursor.pos - 1);
    }
    qr_jinja_raise(rt, QR_INVALID, "the value is not in the list");
    return qr_jv_none();
}

METHOD(list_copy)
{
    (void)arg, (void)args;
    return qr_jv_list(qr_jv_to_list(rt, self));
}

const struct jbuiltin qr_jinja_list_methods[] = {{"count", list_count, "value", 1},
                                                 {"index", list_index, "value", 1},
                                                 {"copy", list_copy, "", 0},
                                                 {NULL, NULL, NULL, 0}};

METHOD(dict_get)
{
    struct jv v;
    (void)args;
    if (!qr_jv_hashable(arg[0]))
        qr_jinja_raise(rt, QR_INVALID, "unhashable type: '%s'", qr_jv_type_name(arg[0]));
    if (qr_jv_dict_get(rt, self.u.dict, arg[0], &v))
        return v;
    return arg[1].type == JV_MISSING ? qr_jv_none() : arg[1];
}

static struct jv view(struct jrt *rt, const struct jv_dict *dict, enum jv_list_kind kind)
{
    struct jv_list *list = qr_jv_list_new(rt, kind);
    if (!qr_jinja_step(rt, dict->n))
        return qr_jv_list(list);
    for (size_t i = 0; i < dict->n && !rt->failed; i++)
        qr_jv_push(rt, list,
                   kind == JV_KIND_KEYS     ? dict->key[i]
                   : kind == JV_KIND_VALUES ? dict->value[i]
                                            : qr_jv_pair(rt, dict->key[i], dict->value[i]));
    return qr_jv_list(list);
}

METHOD(dict_keys)
{
    (void)arg, (void)args;
    return view(rt, self.u.dict, JV_KIND_KEYS);
}

METHOD(dict_values)
{
    (void)arg, (void)args;
    return view(rt, self.u.dict, JV_KIND_VALUES);
}

METHOD(dict_items)
{
    (void)arg, (void)args;
    return view(rt, self.u.dict, JV_KIND_ITEMS);
}

METHOD(dict_copy)
{
    struct jv_dict *dict = qr_jv_dict_new(rt);
    (void)arg, (void)args;
    for (size_t i = 0; i < self.u.dict->n && qr_jinja_step(rt, 1); i++)
        qr_jv_dict_set(rt, dict, self.u.dict->key[i], self.u.dict->value[i]);
    return qr_jv_dict(dict);
}

const struct jbuiltin qr_jinja_dict_methods[] = {
    {"get", dict_get, "key,default", 1}, {"keys", dict_keys, "", 0}, {"values", dict_values, "", 0},
    {"items", dict_items, "", 0},        {"copy", dict_copy, "", 0}, {NULL, NULL, NULL, 0},
};

METHOD(is_integer)
{
    (void)rt, (void)arg, (void)args;
    return qr_jv_bool(isfinite(self.u.f) && floor(self.u.f) == self.u.f);
}

const struct jbuiltin qr_jinja_float_methods[] = {{"is_integer", is_integer, "", 0}, {NULL, NULL, NULL, 0}};

METHOD(cycler_next)
{
    struct jv_cycler *c = self.u.cycler;
    struct jv v = c->items->v[c->pos];
    (void)rt, (void)arg, (void)args;
    c->pos = (c->pos + 1) % c->items->n;
    return v;
}

METHOD(cycler_reset)
{
    (void)rt, (void)arg, (void)args;
    self.u.cycler->pos = 0;
    return qr_jv_none();
}

const struct jbuiltin qr_jinja_cycler_methods[] = {
    {"next", cycler_next, "", 0}, {"reset", cycler_reset, "", 0}, {NULL, NULL, NULL, 0}};
