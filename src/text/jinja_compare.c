/* jinja_compare.c - == != < <= > >= in, as Python decides them. UTF-8 sorts as its code points do. */
#include <string.h>
#include "text/jinja_render.h"

static bool too_deep(struct jrt *rt)
{
    if (rt->depth < rt->max_depth)
        return false;
    qr_jinja_raise(rt, QR_LIMIT, "values that are compared nest too deep");
    return true;
}

static int str_order(struct jrt *rt, const struct jv_str *a, const struct jv_str *b)
{
    size_t n = a->n < b->n ? a->n : b->n;
    qr_jinja_work(rt, n);
    int c = n ? memcmp(a->s, b->s, n) : 0;
    return c ? c : a->n < b->n ? -1 : a->n > b->n;
}

static bool is_tuple(const struct jv_list *list)
{
    return list->kind == JV_KIND_TUPLE || list->kind == JV_KIND_GROUP;
}

static bool list_equal(struct jrt *rt, const struct jv_list *a, const struct jv_list *b)
{
    if (a->n != b->n || is_tuple(a) != is_tuple(b) || (!is_tuple(a) && a->kind != b->kind))
        return false;
    for (size_t i = 0; i < a->n; i++) {
        if (!qr_jv_equal(rt, a->v[i], b->v[i]))
            return false;
    }
    return true;
}

static bool dict_equal(struct jrt *rt, const struct jv_dict *a, const struct jv_dict *b)
{
    struct jv other;
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        if (!qr_jv_dict_get(rt, b, a->key[i], &other) || !qr_jv_equal(rt, a->value[i], other))
            return false;
    }
    return true;
}

static bool equal_inner(struct jrt *rt, struct jv a, struct jv b)
{
    if (qr_jv_is_number(a) && qr_jv_is_number(b)) {
        int64_t x, y;
        if (qr_jv_as_int(a, &x) && qr_jv_as_int(b, &y))
            return x == y;
        return qr_jv_as_float(a) == qr_jv_as_float(b);
    }
    if (a.type != b.type)
        return false;
    switch (a.type) {
    case JV_UNDEFINED:
    case JV_NONE:
        return true;
    case JV_STR:
        return a.u.str->n == b.u.str->n && str_order(rt, a.u.str, b.u.str) == 0;
    case JV_LIST:
        return a.u.list == b.u.list || list_equal(rt, a.u.list, b.u.list);
    case JV_DICT:
        return a.u.dict == b.u.dict || dict_equal(rt, a.u.dict, b.u.dict);
    case JV_RANGE:
        return a.u.range->n == b.u.range->n && (a.u.range->n == 0 || a.u.range->start == b.u.range->start) &&
               (a.u.range->n <= 1 || a.u.range->step == b.u.range->step);
    case JV_FUNC:
        return a.u.func->builtin == b.u.func->builtin && a.u.func->self.type == JV_NONE &&
               b.u.func->self.type == JV_NONE;
    default:
        return a.u.list == b.u.list; /* the same object */
    }
}

bool qr_jv_equal(struct jrt *rt, struct jv a, struct jv b)
{
    if (!qr_jinja_step(rt, 1) || too_deep(rt))
        return false;
    rt->depth++;
    bool equal = equal_inner(rt, a, b);
    rt->depth--;
    return equal;
}

static bool no_order(struct jrt *rt, struct jv a, struct jv b, const char *op)
{
    if (a.type == JV_UNDEFINED || b.type == JV_UNDEFINED)
        qr_jv_raise_undefined(rt, a.type == JV_UNDEFINED ? a : b);
    else
        qr_jinja_raise(rt, QR_INVALID, "'%s' not supported between instances of '%s' and '%s'", op, qr_jv_type_name(a),
                       qr_jv_type_name(b));
    return false;
}

/* a < b, or a <= b when or_equal; op: for the message. */
static bool ordered(struct jrt *rt, struct jv a, struct jv b, bool or_equal, const char *op)
{
    if (!qr_jinja_step(rt, 1) || too_deep(rt))
        return false;
    if (qr_jv_is_number(a) && qr_jv_is_number(b)) {
        int64_t x, y;
        if (qr_jv_as_int(a, &x) && qr_jv_as_int(b, &y))
            return or_equal ? x <= y : x < y;
        double f = qr_jv_as_float(a), g = qr_jv_as_float(b);
        return or_equal ? f <= g : f < g;
    }
    if (a.type == JV_STR && b.type == JV_STR) {
        int c = str_order(rt, a.u.str, b.u.str);
        return or_equal ? c <= 0 : c < 0;
    }
    if (a.type != JV_LIST || b.type != JV_LIST || is_tuple(a.u.list) != is_tuple(b.u.list) ||
        (!is_tuple(a.u.list) && (a.u.list->kind != JV_KIND_LIST || b.u.list->kind != JV_KIND_LIST)))
        return no_order(rt, a, b, op);
    const struct jv_list *x = a.u.list, *y = b.u.list;
    for (size_t i = 0; i < x->n && i < y->n && !rt->failed; i++) {
        if (qr_jv_equal(rt, x->v[i], y->v[i]))
            continue;
        rt->depth++;
        bool less = ordered(rt, x->v[i], y->v[i], or_equal, op);
        rt->depth--;
        return less;
    }
    return or_equal ? x->n <= y->n : x->n < y->n;
}

bool qr_jv_less(struct jrt *rt, struct jv a, struct jv b)
{
    return ordered(rt, a, b, false, "<");
}

bool qr_jv_in(struct jrt *rt, struct jv needle, struct jv hay)
{
    struct jv_cursor cursor;
    struct jv item;
    if (hay.type == JV_STR) {
        if (needle.type == JV_STR) {
            qr_jinja_work(rt, hay.u.str->n);
            return needle.u.str->n == 0 || memmem(hay.u.str->s, hay.u.str->n, needle.u.str->s, needle.u.str->n) != NULL;
        }
        qr_jinja_raise(rt, QR_INVALID, "'in <string>' requires string as left operand, not %s",
                       qr_jv_type_name(needle));
        return false;
    }
    if (hay.type == JV_DICT) {
        if (!qr_jv_hashable(needle))
            qr_jinja_raise(rt, QR_INVALID, "unhashable type: '%s'", qr_jv_type_name(needle));
        return qr_jv_dict_get(rt, hay.u.dict, needle, &item);
    }
    if (!qr_jv_iterable(hay)) {
        qr_jinja_raise(rt, QR_INVALID, "argument of type '%s' is not iterable", qr_jv_type_name(hay));
        return false;
    }
    qr_jv_walk(rt, hay, &cursor);
    while (qr_jv_next(rt, &cursor, &item)) {
        if (qr_jv_equal(rt, needle, item))
            return true;
    }
    return false;
}

bool qr_jinja_compare(struct jrt *rt, int op, struct jv a, struct jv b)
{
    switch (op) {
    case JOP_EQ:
        return qr_jv_equal(rt, a, b);
    case JOP_NE:
        return !qr_jv_equal(rt, a, b);
    case '<':
        return ordered(rt, a, b, false, "<");
    case JOP_LE:
        return ordered(rt, a, b, true, "<=");
    case '>':
        return ordered(rt, b, a, false, "<");
    case JOP_GE:
        return ordered(rt, b, a, true, "<=");
    case JOP_IN:
        return qr_jv_in(rt, a, b);
    default:
        return !qr_jv_in(rt, a, b);
    }
}
