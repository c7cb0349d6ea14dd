/* jinja_filters_list.c - filters on sequences: first, last, length, sort, unique, groupby, batch, slice, dictsort ... */
#include <string.h>
#include "text/jinja_render.h"

#define FILTER(name)                                                                                                   \
    static struct jv name(struct jrt *rt, struct jv self, const struct jv *arg, const struct jargs *args)

FILTER(default_filter)
{
    (void)args;
    bool use = self.type == JV_UNDEFINED || (qr_jinja_arg_true(rt, arg[1], false) && !qr_jv_true(rt, self));
    if (!use)
        return self;
    return arg[0].type == JV_MISSING ? qr_jv_cstr(rt, "") : arg[0];
}

FILTER(length)
{
    int64_t n = qr_jv_len(rt, self);
    (void)arg, (void)args;
    if (n < 0)
        qr_jinja_raise(rt, QR_INVALID, "object of type '%s' has no len()", qr_jv_type_name(self));
    return qr_jv_int(n);
}

FILTER(first)
{
    struct jv_cursor cursor;
    struct jv item;
    (void)arg, (void)args;
    if (qr_jv_walk(rt, self, &cursor) && qr_jv_next(rt, &cursor, &item))
        return item;
    return qr_jv_hint(rt, "No first item, sequence was empty.");
}

FILTER(last)
{
    (void)arg, (void)args;
    if (self.type == JV_DICT && self.u.dict->n)
        return self.u.dict->key[self.u.dict->n - 1];
    if (self.type == JV_LIST && self.u.list->n)
        return self.u.list->v[self.u.list->n - 1];
    if ((self.type == JV_STR || self.type == JV_RANGE) && qr_jv_len(rt, self))
        return qr_jinja_getitem(rt, self, qr_jv_int(-1));
    if (self.type == JV_ITER || !qr_jv_iterable(self))
        qr_jinja_raise(rt, QR_INVALID, "'%s' object is not reversible", qr_jv_type_name(self));
    return qr_jv_hint(rt, "No last item, sequence was empty.");
}

FILTER(list)
{
    (void)arg, (void)args;
    return qr_jv_list(qr_jv_to_list(rt, self));
}

static void reverse_in_place(struct jv_list *list)
{
    for (size_t i = 0; i + 1 < list->n - i; i++) {
        struct jv swap = list->v[i];
        list->v[i] = list->v[list->n - 1 - i];
        list->v[list->n - 1 - i] = swap;
    }
}

FILTER(reverse)
{
    (void)arg, (void)args;
    if (self.type == JV_STR)
        return qr_jinja_slice(rt, self, qr_jv_none(), qr_jv_none(), qr_jv_int(-1));
    struct jv_list *list = qr_jv_to_list(rt, self);
    reverse_in_place(list);
    return self.type == JV_ITER || self.type == JV_UNDEFINED ? qr_jv_list(list) : qr_jv_iter_of(rt, list);
}

FILTER(items)
{
    struct jv_list *list = qr_jv_list_new(rt, JV_KIND_LIST);
    (void)arg, (void)args;
    if (self.type != JV_UNDEFINED && self.type != JV_DICT)
        qr_jinja_raise(rt, QR_INVALID, "Can only get item pairs from a mapping.");
    for (size_t i = 0; self.type == JV_DICT && i < self.u.dict->n && qr_jinja_step(rt, 1); i++)
        qr_jv_push(rt, list, qr_jv_pair(rt, self.u.dict->key[i], self.u.dict->value[i]));
    return qr_jv_iter_of(rt, list);
}

/* What sort, unique, min, max, groupby compare by: the attribute's value, in lower case unless case matters. */
static struct jv sort_key(struct jrt *rt, struct jv item, struct jv attribute, bool with_case)
{
    struct jv key = qr_jinja_path(rt, item, attribute);
    return key.type == JV_STR && !with_case && !rt->failed ? qr_jinja_case(rt, key.u.str, JC_LOWER) : key;
}

/* For sort, "a,b" names two attributes: a list of keys. jinja2 sorts by such a list always, which shows where equal keys
 * have no order (undefined, none, dicts): they are fine. */
static struct jv multi_key(struct jrt *rt, struct jv item, struct jv attribute, bool with_case)
{
    struct jv one = {.type = JV_MISSING};
    if (attribute.type != JV_STR || !memchr(attribute.u.str->s, ',', attribute.u.str->n))
        one = sort_key(rt, item, attribute, with_case);
    if (one.type == JV_STR || qr_jv_is_number(one))
        return one;
    struct jv_list *keys = qr_jv_list_new(rt, JV_KIND_LIST);
    if (one.type != JV_MISSING) {
        qr_jv_push(rt, keys, one);
        return qr_jv_list(keys);
    }
    const char *s = attribute.u.str->s, *end = s + attribute.u.str->n;
    while (!rt->failed) {
        const char *comma = s < end ? memchr(s, ',', (size_t)(end - s)) : NULL, *stop = comma ? comma : end;
        qr_jv_push(rt, keys, sort_key(rt, item, qr_jv_str_view(rt, s, (size_t)(stop - s)), with_case));
        if (!comma)
            break;
        s = comma + 1;
    }
    return qr_jv_list(keys);
}

static struct jv *keys_of(struct jrt *rt, const struct jv_list *list, struct jv attribute, bool with_case)
{
    struct jv *keys = qr_jinja_alloc(rt, list->n + 1, sizeof *keys);
    for (size_t i = 0; keys && i < list->n && !rt->failed; i++)
        keys[i] = multi_key(rt, list->v[i], attribute, with_case);
    return rt->failed ? NULL : keys;
}

FILTER(sort)
{
    struct jv_list *list = qr_jv_to_list(rt, self);
    struct jv *keys = keys_of(rt, list, arg[2], qr_jinja_arg_true(rt, arg[1], false));
    (void)args;
    if (keys)
        qr_jv_sort(rt, list, keys, qr_jinja_arg_true(rt, arg[0], false));
    return qr_jv_list(list);
}

FILTER(dictsort)
{
    bool with_case = qr_jinja_arg_true(rt, arg[0], false);
    const struct jv_str *by = qr_jinja_arg_str(rt, arg[1], "key");
    bool by_value = qr_jv_str_is(by, "value");
    struct jv_list *list = qr_jv_list_new(rt, JV_KIND_LIST);
    (void)args;
    if (!by_value && !qr_jv_str_is(by, "key"))
        qr_jinja_raise(rt, QR_INVALID, "You can only sort by either \"key\" or \"value\"");
    if (self.type == JV_UNDEFINED)
        qr_jv_raise_undefined(rt, self);
    else if (self.type != JV_DICT)
        qr_jinja_raise(rt, QR_INVALID, "dictsort needs a dict, not '%s'", qr_jv_type_name(self));
    for (size_t i = 0; !rt->failed && i < self.u.dict->n && qr_jinja_step(rt, 1); i++)
        qr_jv_push(rt, list, qr_jv_pair(rt, self.u.dict->key[i], self.u.dict->value[i]));
    struct jv *keys = keys_of(rt, list, qr_jv_int(by_value), with_case);
    if (keys)
        qr_jv_sort(rt, list, keys, qr_jinja_arg_true(rt, arg[2], false));
    return qr_jv_list(list);
}

FILTER(unique)
{
    struct jv_list *list = qr_jv_list_new(rt, JV_KIND_LIST);
    struct jv_dict *seen = qr_jv_dict_new(rt);
    bool with_case = qr_jinja_arg_true(rt, arg[0], false);
    struct jv_cursor cursor;
    struct jv item, found;
    (void)args;
    qr_jv_walk(rt, self, &cursor);
    while (qr_jv_next(rt, &cursor, &item)) {
        struct jv key = sort_key(rt, item, arg[1], with_case);
        if (rt->failed || qr_jv_dict_get(rt, seen, key, &found))
            continue;
        qr_jv_dict_set(rt, seen, key, qr_jv_none());
        qr_jv_push(rt, list, item);
    }
    return qr_jv_iter_of(rt, list);
}

static struct jv extreme(struct jrt *rt, struct jv self, const struct jv *arg, bool max)
{
    bool with_case = qr_jinja_arg_true(rt, arg[0], false), some = false;
    struct jv_cursor cursor;
    struct jv item, best = qr_jv_none(), best_key = qr_jv_none();
    qr_jv_walk(rt, self, &cursor);
    while (qr_jv_next(rt, &cursor, &item)) {
        struct jv key = sort_key(rt, item, arg[1], with_case);
        if (rt->failed)
            break;
        if (!some || (max ? qr_jv_less(rt, best_key, key) : qr_jv_less(rt, key, best_key))) {
            best = item;
            best_key = key;
        }
        some = true;
    }
    return some ? best : qr_jv_hint(rt, "No aggregated item, sequence was empty.");
}

FILTER(min)
{
    (void)args;
    return extreme(rt, self, arg, false);
}

FILTER(max)
{
    (void)args;
    return extreme(rt, self, arg, true);
}

static struct jv group_key(struct jrt *rt, struct jv item, const struct jv *arg, bool with_case)
{
    struct jv key = qr_jinja_path(rt, item, arg[0]);
    if (key.type == JV_UNDEFINED && arg[1].type != JV_MISSING && arg[1].type != JV_NONE)
        key = arg[1];
    return key.type == JV_STR && !with_case ? qr_jinja_case(rt, key.u.str, JC_LOWER) : key;
}

FILTER(groupby)
{
    bool with_case = qr_jinja_arg_true(rt, arg[2], false);
    struct jv_list *list = qr_jv_to_list(rt, self), *groups = qr_jv_list_new(rt, JV_KIND_LIST), *members = NULL;
    struct jv *keys = qr_jinja_alloc(rt, list->n + 1, sizeof *keys);
    (void)args;
    for (size_t i = 0; keys && i < list->n && !rt->failed; i++)
        keys[i] = group_key(rt, list->v[i], arg, with_case);
    if (!keys || rt->failed)
        return qr_jv_list(groups);
    qr_jv_sort(rt, list, keys, false);
    for (size_t i = 0; i < list->n && !rt->failed; i++) {
        if (i == 0 || !qr_jv_equal(rt, keys[i - 1], keys[i])) {
            members = qr_jv_list_new(rt, JV_KIND_LIST);
            struct jv group = qr_jv_pair(rt, group_key(rt, list->v[i], arg, true), qr_jv_list(members));
            group.u.list->kind = JV_KIND_GROUP;
            qr_jv_push(rt, groups, group);
        }
        qr_jv_push(rt, members, list->v[i]);
    }
    return qr_jv_list(groups);
}

FILTER(batch)
{
    int64_t size = qr_jinja_arg_int(rt, arg[0], 0);
    struct jv_list *rows = qr_jv_list_new(rt, JV_KIND_LIST), *row = NULL;
    struct jv_cursor cursor;
    struct jv item;
    (void)args;
    qr_jv_walk(rt, self, &cursor);
    while (qr_jv_next(rt, &cursor, &item)) {
        if (!row || (int64_t)row->n == size) {
            row = qr_jv_list_new(rt, JV_KIND_LIST);
            qr_jv_push(rt, rows, qr_jv_list(row));
        }
        qr_jv_push(rt, row, item);
    }
    bool fill = row && arg[1].type != JV_MISSING && arg[1].type != JV_NONE;
    while (fill && (int64_t)row->n < size && qr_jinja_step(rt, 1))
        qr_jv_push(rt, row, arg[1]);
    return qr_jv_iter_of(rt, rows);
}

FILTER(slice)
{
    int64_t slices = qr_jinja_arg_int(rt, arg[0], 0);
    struct jv_list *list = qr_jv_to_list(rt, self), *rows = qr_jv_list_new(rt, JV_KIND_LIST);
    bool fill = arg[1].type != JV_MISSING && arg[1].type != JV_NONE;
    size_t at = 0;
    (void)args;
    if (slices == 0)
        qr_jinja_raise(rt, QR_INVALID, "division by zero");
    for (int64_t k = 0; k < slices && qr_jinja_step(rt, 1); k++) {
        struct jv_list *row = qr_jv_list_new(rt, JV_KIND_LIST);
        bool extra = k < (int64_t)list->n % slices;
        for (int64_t i = (int64_t)list->n / slices + extra; i > 0; i--)
            qr_jv_push(rt, row, list->v[at++]);
        if (fill && !extra)
            qr_jv_push(rt, row, arg[1]);
        qr_jv_push(rt, rows, qr_jv_list(row));
    }
    return qr_jv_iter_of(rt, rows);
}

FILTER(attr)
{
    (void)args;
    struct jv_str *name = qr_jinja_arg_str(rt, arg[0], NULL);
    if (self.type != JV_DICT || rt->failed)
        return qr_jinja_getattr(rt, self, name);
    struct jv_dict none = {0}; /* only methods, not keys */
    struct jv v = qr_jinja_getattr(rt, qr_jv_dict(&none), name);
    if (v.type == JV_FUNC)
        v.u.func->self = self;
    return v;
}

const struct jbuiltin qr_jinja_filters_list[] = {
    {"default", default_filter, "default_value,boolean", 0},
    {"d", default_filter, "default_value,boolean", 0},
    {"length", length, "", 0},
    {"count", length, "", 0},
    {"first", first, "", 0},
    {"last", last, "", 0},
    {"list", list, "", 0},
    {"reverse", reverse, "", 0},
    {"items", items, "", 0},
    {"sort", sort, "reverse,case_sensitive,attribute", 0},
    {"dictsort", dictsort, "case_sensitive,by,reverse", 0},
    {"unique", unique, "case_sensitive,attribute", 0},
    {"min", min, "case_sensitive,attribute", 0},
    {"max", max, "case_sensitive,attribute", 0},
    {"groupby", groupby, "attribute,default,case_sensitive", 1},
    {"batch", batch, "linecount,fill_with", 1},
    {"slice", slice, "slices,fill_with", 1},
    {"attr", attr, "name", 1},
    {NULL, NULL, NULL, 0},
};
