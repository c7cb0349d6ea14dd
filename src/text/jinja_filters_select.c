/* jinja_filters_select.c - map, select, reject, selectattr, rejectattr: filters that take a filter or a test by name. */
#include <string.h>
#include "text/jinja_render.h"

#define FILTER(name)                                                                                                   \
    static struct jv name(struct jrt *rt, struct jv self, const struct jv *arg, const struct jargs *args)

static const struct jbuiltin *by_name(struct jrt *rt, struct jv name, bool filter)
{
    const struct jv_str *s = qr_jinja_arg_str(rt, name, NULL);
    const struct jbuiltin *b = filter ? qr_jinja_filter(s->s, s->n) : qr_jinja_test(s->s, s->n);
    if (!b)
        qr_jinja_raise(rt, QR_INVALID, "there is no %s named '%.*s'", filter ? "filter" : "test",
                       (int)(s->n > 60 ? 60 : s->n), s->s);
    return b;
}

/* map(attribute=..., default=...) */
static struct jv map_attribute(struct jrt *rt, struct jv self, const struct jargs *args)
{
    struct jv_list *out = qr_jv_list_new(rt, JV_KIND_LIST);
    struct jv attribute = {.type = JV_MISSING}, otherwise = {.type = JV_MISSING}, item;
    struct jv_cursor cursor;
    for (int k = 0; k < args->n_kw; k++) {
        if (qr_jv_str_is(args->kw_name[k], "attribute"))
            attribute = args->kw[k];
        else if (qr_jv_str_is(args->kw_name[k], "default"))
            otherwise = args->kw[k];
        else
            qr_jinja_raise(rt, QR_INVALID, "map: unexpected keyword argument");
    }
    if (attribute.type == JV_MISSING)
        qr_jinja_raise(rt, QR_INVALID, "map requires a filter argument");
    qr_jv_walk(rt, self, &cursor);
    while (qr_jv_next(rt, &cursor, &item)) {
        struct jv v = qr_jinja_path(rt, item, attribute);
        bool use = v.type == JV_UNDEFINED && otherwise.type != JV_MISSING && otherwise.type != JV_NONE;
        qr_jv_push(rt, out, use ? otherwise : v);
    }
    return qr_jv_iter_of(rt, out);
}

FILTER(map)
{
    struct jv_list *out = qr_jv_list_new(rt, JV_KIND_LIST);
    struct jv_cursor cursor;
    struct jv item;
    (void)arg;
    if (!qr_jv_true(rt, self)) /* as jinja2: whatever is false maps to nothing */
        return qr_jv_iter_of(rt, out);
    if (!args->n_pos)
        return map_attribute(rt, self, args);
    const struct jbuiltin *filter = by_name(rt, args->pos[0], true);
    struct jargs rest = *args;
    rest.pos++;
    rest.n_pos--;
    qr_jv_walk(rt, self, &cursor);
    while (qr_jv_next(rt, &cursor, &item))
        qr_jv_push(rt, out, qr_jinja_call_builtin(rt, filter, "filter", item, &rest));
    return qr_jv_iter_of(rt, out);
}

static struct jv choose(struct jrt *rt, struct jv self, const struct jargs *args, bool keep, bool by_attr)
{
    struct jv_list *out = qr_jv_list_new(rt, JV_KIND_LIST);
    struct jv_cursor cursor;
    struct jv item, attribute = {.type = JV_MISSING};
    struct jargs rest = *args;
    const struct jbuiltin *test = NULL;
    if (!qr_jv_true(rt, self))
        return qr_jv_iter_of(rt, out);
    if (by_attr && !rest.n_pos)
        qr_jinja_raise(rt, QR_INVALID, "Missing parameter for attribute name");
    if (by_attr && !rt->failed) {
        attribute = *rest.pos++;
        rest.n_pos--;
    }
    if (rest.n_pos && !rt->failed) {
        test = by_name(rt, *rest.pos++, false);
        rest.n_pos--;
    }
    qr_jv_walk(rt, self, &cursor);
    while (qr_jv_next(rt, &cursor, &item)) {
        struct jv v = qr_jinja_path(rt, item, attribute);
        if (test && !rt->failed)
            v = qr_jinja_call_builtin(rt, test, "test", v, &rest);
        if (!rt->failed && qr_jv_true(rt, v) == keep)
            qr_jv_push(rt, out, item);
    }
    return qr_jv_iter_of(rt, out);
}

FILTER(select_filter)
{
    (void)arg;
    return choose(rt, self, args, true, false);
}

FILTER(reject)
{
    (void)arg;
    return choose(rt, self, args, false, false);
}

FILTER(selectattr)
{
    (void)arg;
    return choose(rt, self, args, true, true);
}

FILTER(rejectattr)
{
    (void)arg;
    return choose(rt, self, args, false, true);
}

const struct jbuiltin qr_jinja_filters_select[] = {
    {"map", map, NULL, 0},
    {"select", select_filter, NULL, 0},
    {"reject", reject, NULL, 0},
    {"selectattr", selectattr, NULL, 0},
    {"rejectattr", rejectattr, NULL, 0},
    {NULL, NULL, NULL, 0},
};
