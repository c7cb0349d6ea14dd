/* jinja_value.c - making values, and what every type answers: its name, truth, length. */
#include <string.h>
#include "text/jinja_render.h"

struct jv qr_jv_none(void)
{
    return (struct jv){.type = JV_NONE};
}

struct jv qr_jv_bool(bool b)
{
    return (struct jv){.type = JV_BOOL, .u.b = b};
}

struct jv qr_jv_int(int64_t i)
{
    return (struct jv){.type = JV_INT, .u.i = i};
}

struct jv qr_jv_float(double f)
{
    return (struct jv){.type = JV_FLOAT, .u.f = f};
}

struct jv qr_jv_list(struct jv_list *list)
{
    return (struct jv){.type = JV_LIST, .u.list = list};
}

struct jv qr_jv_dict(struct jv_dict *dict)
{
    return (struct jv){.type = JV_DICT, .u.dict = dict};
}

struct jv qr_jv_undefined(enum jv_why why, struct jv of, struct jv_str *name)
{
    return (struct jv){.type = JV_UNDEFINED, .aux = (uint8_t)why, .of = of.type, .u.str = name};
}

/* text: a literal of the program. */
struct jv qr_jv_hint(struct jrt *rt, const char *text)
{
    struct jv s = qr_jv_cstr(rt, text);
    return qr_jv_undefined(JV_WHY_HINT, qr_jv_none(), s.u.str);
}

struct jv qr_jv_func(struct jrt *rt, const struct jbuiltin *builtin, struct jv self)
{
    struct jv_func *f = qr_jinja_alloc(rt, 1, sizeof *f);
    if (!f)
        return qr_jv_none();
    f->builtin = builtin;
    f->self = self;
    return (struct jv){.type = JV_FUNC, .u.func = f};
}

static const char *type_name(int type)
{
    static const char *const names[] = {
        [JV_MISSING] = "missing",  [JV_UNDEFINED] = "Undefined",
        [JV_NONE] = "NoneType",    [JV_BOOL] = "bool",
        [JV_INT] = "int",          [JV_FLOAT] = "float",
        [JV_STR] = "str",          [JV_LIST] = "list",
        [JV_DICT] = "dict",        [JV_RANGE] = "range",
        [JV_ITER] = "generator",   [JV_FUNC] = "builtin_function_or_method",
        [JV_MACRO] = "Macro",      [JV_NAMESPACE] = "Namespace",
        [JV_LOOP] = "LoopContext", [JV_CYCLER] = "Cycler",
        [JV_JOINER] = "Joiner",
    };
    return names[type];
}

const char *qr_jv_type_name(struct jv v)
{
    static const char *const kinds[] = {
        [JV_KIND_LIST] = "list",      [JV_KIND_TUPLE] = "tuple",        [JV_KIND_GROUP] = "tuple",
        [JV_KIND_KEYS] = "dict_keys", [JV_KIND_VALUES] = "dict_values", [JV_KIND_ITEMS] = "dict_items",
    };
    return v.type == JV_LIST ? kinds[v.u.list->kind] : type_name(v.type);
}

bool qr_jv_true(struct jrt *rt, struct jv v)
{
    switch (v.type) {
    case JV_MISSING:
    case JV_UNDEFINED:
    case JV_NONE:
        return false;
    case JV_BOOL:
        return v.u.b;
    case JV_INT:
        return v.u.i != 0;
    case JV_FLOAT:
        return v.u.f != 0;
    default:
        return qr_jv_len(rt, v) != 0;
    }
}

int64_t qr_jv_len(struct jrt *rt, struct jv v)
{
    switch (v.type) {
    case JV_UNDEFINED:
        return 0;
    case JV_STR:
        if (v.u.str->n_cp < 0)
            qr_jinja_work(rt, v.u.str->n);
        return qr_jv_str_len(v.u.str);
    case JV_LIST:
        return (int64_t)v.u.list->n;
    case JV_DICT:
        return (int64_t)v.u.dict->n;
    case JV_RANGE:
        return v.u.range->n;
    case JV_LOOP: {
        struct jv_str name = {"length", 6, 6};
        return qr_jinja_loop_attr(rt, v.u.loop, &name).u.i;
    }
    default:
        return -1;
    }
}

bool qr_jv_is_number(struct jv v)
{
    return v.type == JV_INT || v.type == JV_FLOAT || v.type == JV_BOOL;
}

bool qr_jv_as_int(struct jv v, int64_t *i)
{
    if (v.type == JV_INT)
        *i = v.u.i;
    else if (v.type == JV_BOOL)
        *i = v.u.b;
    else
        return false;
    return true;
}

double qr_jv_as_float(struct jv v)
{
    return v.type == JV_FLOAT ? v.u.f : v.type == JV_INT ? (double)v.u.i : v.type == JV_BOOL ? (double)v.u.b : 0.0;
}

void qr_jv_raise_undefined(struct jrt *rt, struct jv v)
{
    const struct jv_str *name = v.u.str;
    int n = name ? (int)(name->n > 120 ? 120 : name->n) : 0;
    const char *s = name ? name->s : "", *of = type_name(v.of);
    switch (v.aux) {
    case JV_WHY_NAME:
        qr_jinja_raise(rt, QR_INVALID, "'%.*s' is undefined", n, s);
        break;
    case JV_WHY_ATTR:
        qr_jinja_raise(rt, QR_INVALID, "'%s%s' has no attribute '%.*s'", of,
                       v.of == JV_NAMESPACE || v.of == JV_LOOP ? "" : " object", n, s);
        break;
    case JV_WHY_ELEMENT:
        qr_jinja_raise(rt, QR_INVALID, "%s object has no element %.*s", of, n, s);
        break;
    case JV_WHY_UNSAFE:
        qr_jinja_raise(rt, QR_INVALID, "access to attribute '%.*s' of '%s' object is unsafe", n, s, of);
        break;
    default:
        qr_jinja_raise(rt, QR_INVALID, "%.*s", n, s);
    }
}
