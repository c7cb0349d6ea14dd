/* jinja_attr.c - obj.name and obj[key], with the sandbox's rules: a name is first an attribute (a method), then a
 * key; what starts with __ or would change a list or dict is out of reach. */
#include <string.h>
#include "text/jinja_render.h"
#include "text/jinja_unicode.h"

/* Does this attribute change the object? (jinja2/sandbox.py, _mutable_spec) */
static bool changes(struct jv obj, const struct jv_str *name)
{
    static const char *const of_list[] = {"append", "clear",  "pop",    "reverse", "insert",
                                          "sort",   "extend", "remove", NULL};
    static const char *const of_dict[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    bool list = obj.type == JV_LIST && obj.u.list->kind == JV_KIND_LIST;
    if (!list && obj.type != JV_DICT)
        return false;
    for (const char *const *s = list ? of_list : of_dict; *s; s++) {
        if (qr_jv_str_is(name, *s))
            return true;
    }
    return false;
}

static const struct jbuiltin *method(struct jv obj, const struct jv_str *name)
{
    const struct jbuiltin *m = NULL;
    const struct jbuiltin *const of_str[] = {qr_jinja_str_methods, qr_jinja_str_methods2, qr_jinja_str_is_methods};
    switch (obj.type) {
    case JV_STR:
        for (int i = 0; i < 3 && !m; i++)
            m = qr_jinja_find(of_str[i], name->s, name->n);
        return m;
    case JV_LIST:
        if (obj.u.list->kind >= JV_KIND_KEYS)
            return NULL;
        m = qr_jinja_find(qr_jinja_list_methods, name->s, name->n);
        return m && obj.u.list->kind != JV_KIND_LIST && qr_jv_str_is(name, "copy") ? NULL : m;
    case JV_DICT:
        return qr_jinja_find(qr_jinja_dict_methods, name->s, name->n);
    case JV_FLOAT:
        return qr_jinja_find(qr_jinja_float_methods, name->s, name->n);
    case JV_RANGE:
        return qr_jv_str_is(name, "copy") ? NULL : qr_jinja_find(qr_jinja_list_methods, name->s, name->n);
    case JV_CYCLER:
        return qr_jinja_find(qr_jinja_cycler_methods, name->s, name->n);
    default:
        return NULL;
    }
}

static struct jv macro_attr(struct jrt *rt, const struct jv_macro *macro, const struct jv_str *name)
{
    const struct jnode *node = macro->node;
    if (qr_jv_str_is(name, "name") && node->name >= 0)
        return (struct jv){.type = JV_STR, .u.str = rt->jinja->name[node->name]};
    if (qr_jv_str_is(name, "name"))
        return qr_jv_none();
    if (qr_jv_str_is(name, "caller"))
        return qr_jv_bool(node->uses_caller);
    if (qr_jv_str_is(name, "catch_kwargs"))
        return qr_jv_bool(node->uses_kwargs);
    if (qr_jv_str_is(name, "catch_varargs"))
        return qr_jv_bool(node->uses_varargs);
    if (!qr_jv_str_is(name, "arguments"))
        return (struct jv){.type = JV_MISSING};
    struct jv_list *names = qr_jv_list_new(rt, JV_KIND_TUPLE);
    for (int i = 0; i < node->n_kid; i++)
        qr_jv_push(rt, names, (struct jv){.type = JV_STR, .u.str = rt->jinja->name[node->params[i]]});
    return qr_jv_list(names);
}

/* What is an attribute, not a key. JV_MISSING: nothing. */
static struct jv own_attr(struct jrt *rt, struct jv obj, struct jv_str *name)
{
    struct jv v = {.type = JV_MISSING};
    if (name->n >= 4 && memcmp(name->s, "__", 2) == 0 && memcmp(name->s + name->n - 2, "__", 2) == 0)
        return qr_jv_undefined(JV_WHY_UNSAFE, obj, name);
    if (changes(obj, name))
        return qr_jv_undefined(JV_WHY_UNSAFE, obj, name);
    const struct jbuiltin *m = method(obj, name);
    if (m)
        return qr_jv_func(rt, m, obj);
    switch (obj.type) {
    case JV_NAMESPACE:
        return qr_jv_dict_get_str(rt, obj.u.dict, name, &v) ? v : (struct jv){.type = JV_MISSING};
    case JV_LOOP:
        return qr_jinja_loop_attr(rt, obj.u.loop, name);
    case JV_MACRO:
        return macro_attr(rt, obj.u.macro, name);
    case JV_CYCLER:
        return qr_jv_str_is(name, "current") ? obj.u.cycler->items->v[obj.u.cycler->pos] : v;
    case JV_LIST:
        if (obj.u.list->kind == JV_KIND_GROUP && qr_jv_str_is(name, "grouper"))
            return obj.u.list->v[0];
        return obj.u.list->kind == JV_KIND_GROUP && qr_jv_str_is(name, "list") ? obj.u.list->v[1] : v;
    case JV_RANGE:
        return qr_jv_str_is(name, "start")  ? qr_jv_int(obj.u.range->start)
               : qr_jv_str_is(name, "stop") ? qr_jv_int(obj.u.range->stop)
               : qr_jv_str_is(name, "step") ? qr_jv_int(obj.u.range->step)
                                            : v;
    default:
        return v;
    }
}

/* An undefined value has no attributes either; only names with __ are let through to Python. */
static bool is_undefined(struct jrt *rt, struct jv obj)
{
    if (obj.type == JV_UNDEFINED)
        qr_jv_raise_undefined(rt, obj);
    return rt->failed;
}

struct jv qr_jinja_getattr(struct jrt *rt, struct jv obj, struct jv_str *name)
{
    struct jv v;
    if (rt->failed || is_undefined(rt, obj))
        return qr_jv_none();
    v = own_attr(rt, obj, name);
    if (v.type != JV_MISSING)
        return v;
    if (obj.type == JV_DICT && qr_jv_dict_get_str(rt, obj.u.dict, name, &v))
        return v;
    return qr_jv_undefined(JV_WHY_ATTR, obj, name);
}

static struct jv char_at(struct jrt *rt, struct jv_str *str, int64_t i)
{
    if (!qr_jinja_work(rt, str->n))
        return qr_jv_none();
    size_t at = qr_jv_offset(str, i), next;
    const char *s = str->s + at;
    qr_u8_next(&s, str->s + str->n);
    next = (size_t)(s - str->s);
    return qr_jv_str_view(rt, str->s + at, next - at);
}

/* By position. false: not that kind of object, or out of range. */
static bool element(struct jrt *rt, struct jv obj, int64_t i, struct jv *v)
{
    if (obj.type != JV_STR && obj.type != JV_LIST && obj.type != JV_RANGE)
        return false;
    if (obj.type == JV_LIST && obj.u.list->kind >= JV_KIND_KEYS)
        return false;
    int64_t n = qr_jv_len(rt, obj);
    if (i < 0)
        i += n;
    if (i < 0 || i >= n)
        return false;
    if (obj.type == JV_STR)
        *v = char_at(rt, obj.u.str, i);
    else if (obj.type == JV_LIST)
        *v = obj.u.list->v[i];
    else
        *v = qr_jv_int(obj.u.range->start + i * obj.u.range->step);
    return true;
}

struct jv qr_jinja_getitem(struct jrt *rt, struct jv obj, struct jv key)
{
    struct jv v;
    int64_t i;
    if (rt->failed || is_undefined(rt, obj))
        return qr_jv_none();
    if (obj.type == JV_DICT) {
        if (qr_jv_dict_get(rt, obj.u.dict, key, &v))
            return v;
    } else if (qr_jv_as_int(key, &i) && element(rt, obj, i, &v)) {
        return v;
    }
    if (key.type == JV_STR) {
        v = own_attr(rt, obj, key.u.str);
        return v.type != JV_MISSING ? v : qr_jv_undefined(JV_WHY_ATTR, obj, key.u.str);
    }
    struct jv name = rt->failed ? qr_jv_none() : qr_jv_to_str(rt, key);
    return qr_jv_undefined(JV_WHY_ELEMENT, obj, name.type == JV_STR ? name.u.str : NULL);
}

struct jv qr_jinja_path(struct jrt *rt, struct jv item, struct jv attribute)
{
    if (attribute.type == JV_MISSING || attribute.type == JV_NONE)
        return item;
    if (attribute.type != JV_STR)
        return qr_jinja_getitem(rt, item, attribute);
    const char *s = attribute.u.str->s, *end = s + attribute.u.str->n;
    for (;;) {
        const char *dot = s < end ? memchr(s, '.', (size_t)(end - s)) : NULL, *stop = dot ? dot : end;
        int64_t i;
        size_t digits = 0;
        while (s + digits < stop && s[digits] >= '0' && s[digits] <= '9')
            digits++;
        struct jv key = qr_jv_str_view(rt, s, (size_t)(stop - s));
        if (digits && s + digits == stop && qr_jv_parse_int(s, digits, 10, &i))
            key = qr_jv_int(i);
        item = qr_jinja_getitem(rt, item, key);
        if (!dot || rt->failed)
            return item;
        s = dot + 1;
    }
}
