/* jinja_arith.c - + - * / // % ** and signs, with Python's rules: / gives a float, // and % round towards minus infinity,
 * strings and lists add and repeat, % formats. Integers have 64 bits; beyond them is an error, not a wrong number. */
#include <math.h>
#include <string.h>
#include "text/jinja_render.h"

static struct jv too_large(struct jrt *rt)
{
    qr_jinja_raise(rt, QR_LIMIT, "an integer grows beyond 64 bits");
    return qr_jv_int(0);
}

static struct jv no_operator(struct jrt *rt, int op, struct jv a, struct jv b)
{
    const char *name = op == JOP_FLOORDIV ? "//"
                       : op == JOP_POW    ? "** or pow()"
                       : op == '+'        ? "+"
                       : op == '-'        ? "-"
                       : op == '*'        ? "*"
                       : op == '/'        ? "/"
                                          : "%";
    if (a.type == JV_UNDEFINED || b.type == JV_UNDEFINED)
        qr_jv_raise_undefined(rt, a.type == JV_UNDEFINED ? a : b);
    else if (op == '+' && a.type == JV_STR)
        qr_jinja_raise(rt, QR_INVALID, "can only concatenate str (not \"%s\") to str", qr_jv_type_name(b));
    else
        qr_jinja_raise(rt, QR_INVALID, "unsupported operand type(s) for %s: '%s' and '%s'", name, qr_jv_type_name(a),
                       qr_jv_type_name(b));
    return qr_jv_none();
}

static struct jv zero_division(struct jrt *rt)
{
    qr_jinja_raise(rt, QR_INVALID, "division by zero");
    return qr_jv_none();
}

/* By the exact remainder, as CPython does: floor(6 / 1e-5) would be one too many. */
static double floor_div(double x, double y)
{
    double mod = fmod(x, y), div = (x - mod) / y, floored;
    if (mod != 0 && (y < 0) != (mod < 0))
        div -= 1;
    if (div == 0)
        return copysign(0, x / y);
    floored = floor(div);
    return div - floored > 0.5 ? floored + 1 : floored;
}

static struct jv float_op(struct jrt *rt, int op, double x, double y)
{
    double r;
    switch (op) {
    case '+':
        return qr_jv_float(x + y);
    case '-':
        return qr_jv_float(x - y);
    case '*':
        return qr_jv_float(x * y);
    case '/':
        return y == 0 ? zero_division(rt) : qr_jv_float(x / y);
    case JOP_FLOORDIV:
        return y == 0 ? zero_division(rt) : qr_jv_float(floor_div(x, y));
    case '%':
        if (y == 0)
            return zero_division(rt);
        r = fmod(x, y);
        if (r != 0 && (r < 0) != (y < 0))
            r += y;
        return qr_jv_float(r == 0 ? copysign(0, y) : r);
    default:
        if (x == 0 && y < 0)
            return zero_division(rt);
        r = pow(x, y);
        if (isnan(r) && !isnan(x) && !isnan(y))
            qr_jinja_raise(rt, QR_INVALID, "a power of a negative number has no real value");
        return qr_jv_float(r);
    }
}

static struct jv int_pow(struct jrt *rt, int64_t base, int64_t exponent)
{
    int64_t r = 1;
    if (exponent < 0)
        return float_op(rt, JOP_POW, (double)base, (double)exponent);
    while (exponent > 0) {
        if (exponent & 1 && __builtin_mul_overflow(r, base, &r))
            return too_large(rt);
        exponent >>= 1;
        if (exponent && __builtin_mul_overflow(base, base, &base))
            return too_large(rt);
    }
    return qr_jv_int(r);
}

static struct jv int_op(struct jrt *rt, int op, int64_t x, int64_t y)
{
    int64_t r;
    switch (op) {
    case '+':
        return __builtin_add_overflow(x, y, &r) ? too_large(rt) : qr_jv_int(r);
    case '-':
        return __builtin_sub_overflow(x, y, &r) ? too_large(rt) : qr_jv_int(r);
    case '*':
        return __builtin_mul_overflow(x, y, &r) ? too_large(rt) : qr_jv_int(r);
    case '/':
        return float_op(rt, op, (double)x, (double)y);
    case JOP_POW:
        return int_pow(rt, x, y);
    default:
        if (y == 0)
            return zero_division(rt);
        if (y == -1) /* INT64_MIN / -1 does not fit */
            return op == '%' ? qr_jv_int(0) : int_op(rt, '-', 0, x);
        r = x % y;
        if (op == '%')
            return qr_jv_int(r != 0 && (r < 0) != (y < 0) ? r + y : r);
        return qr_jv_int(x / y - (r != 0 && (r < 0) != (y < 0)));
    }
}

static struct jv repeat_list(struct jrt *rt, struct jv v, int64_t times)
{
    struct jv_list *list = qr_jv_list_new(rt, v.u.list->kind), *of = v.u.list;
    for (int64_t i = 0; i < times && of->n && !rt->failed; i++) {
        if (!qr_jinja_step(rt, of->n))
            break;
        for (size_t k = 0; k < of->n; k++)
            qr_jv_push(rt, list, of->v[k]);
    }
    return qr_jv_list(list);
}

static struct jv add_lists(struct jrt *rt, struct jv a, struct jv b)
{
    struct jv_list *list = qr_jv_list_new(rt, a.u.list->kind);
    const struct jv_list *parts[] = {a.u.list, b.u.list};
    for (int p = 0; p < 2 && qr_jinja_step(rt, parts[p]->n); p++) {
        for (size_t k = 0; k < parts[p]->n; k++)
            qr_jv_push(rt, list, parts[p]->v[k]);
    }
    return qr_jv_list(list);
}

static bool is_list(struct jv v)
{
    return v.type == JV_LIST && (v.u.list->kind == JV_KIND_LIST || v.u.list->kind == JV_KIND_TUPLE);
}

static struct jv percent(struct jrt *rt, struct jv a, struct jv b)
{
    struct jargs args = {.pos = &b, .n_pos = 1};
    if (b.type == JV_LIST && b.u.list->kind == JV_KIND_TUPLE) {
        args.pos = b.u.list->v;
        args.n_pos = b.u.list->n > 1000 ? 1000 : (int)b.u.list->n;
    }
    return qr_jinja_percent(rt, a, &args);
}

struct jv qr_jinja_binary(struct jrt *rt, int op, struct jv a, struct jv b)
{
    int64_t x, y;
    bool xi = qr_jv_as_int(a, &x), yi = qr_jv_as_int(b, &y);
    if (xi && yi)
        return int_op(rt, op, x, y);
    if (qr_jv_is_number(a) && qr_jv_is_number(b))
        return float_op(rt, op, qr_jv_as_float(a), qr_jv_as_float(b));
    if (op == '+' && a.type == JV_STR && b.type == JV_STR)
        return qr_jv_concat(rt, a, b);
    if (op == '+' && is_list(a) && is_list(b) && a.u.list->kind == b.u.list->kind)
        return add_lists(rt, a, b);
    if (op == '*' && (a.type == JV_STR || is_list(a)) && yi)
        return a.type == JV_STR ? qr_jv_repeat(rt, a, y) : repeat_list(rt, a, y);
    if (op == '*' && (b.type == JV_STR || is_list(b)) && xi)
        return b.type == JV_STR ? qr_jv_repeat(rt, b, x) : repeat_list(rt, b, x);
    if (op == '%' && a.type == JV_STR)
        return percent(rt, a, b);
    return no_operator(rt, op, a, b);
}

struct jv qr_jinja_negate(struct jrt *rt, struct jv v, bool minus)
{
    int64_t i;
    if (rt->failed)
        return v;
    if (v.type == JV_FLOAT)
        return minus ? qr_jv_float(-v.u.f) : v;
    if (qr_jv_as_int(v, &i))
        return minus ? int_op(rt, '-', 0, i) : qr_jv_int(i);
    if (v.type == JV_UNDEFINED)
        qr_jv_raise_undefined(rt, v);
    else
        qr_jinja_raise(rt, QR_INVALID, "bad operand type for unary %c: '%s'", minus ? '-' : '+', qr_jv_type_name(v));
    return qr_jv_none();
}
