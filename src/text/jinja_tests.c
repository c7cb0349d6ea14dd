/* jinja_tests.c - what may follow "is". */
#include <string.h>
#include "text/jinja_render.h"

#define TEST(name, expression)                                                                                         \
    static struct jv name(struct jrt *rt, struct jv self, const struct jv *arg, const struct jargs *args)              \
    {                                                                                                                  \
        (void)rt, (void)self, (void)arg, (void)args;                                                                   \
        return qr_jv_bool(expression);                                                                                 \
    }

/* self % n, for the tests on whole numbers; floats work as in Python. */
static double remainder_of(struct jrt *rt, struct jv self, struct jv n)
{
    struct jv r = qr_jinja_binary(rt, '%', self, n);
    if (!rt->failed && !qr_jv_is_number(r))
        qr_jinja_raise(rt, QR_INVALID, "this test needs a number, not '%s'", qr_jv_type_name(self));
    return qr_jv_as_float(r);
}

static bool is_callable(struct jv v)
{
    return v.type == JV_FUNC || v.type == JV_MACRO || v.type == JV_LOOP || v.type == JV_JOINER ||
           v.type == JV_UNDEFINED;
}

/* Has a length and can be indexed: strings, lists, tuples, dicts, ranges. */
static bool is_sequence(struct jv v)
{
    return v.type == JV_STR || v.type == JV_DICT || v.type == JV_RANGE ||
           (v.type == JV_LIST && v.u.list->kind < JV_KIND_KEYS) || v.type == JV_UNDEFINED;
}

static bool is_same(struct jv a, struct jv b)
{
    if (a.type != b.type)
        return false;
    switch (a.type) {
    case JV_NONE:
        return true;
    case JV_BOOL:
        return a.u.b == b.u.b;
    case JV_INT: /* CPython keeps one object for each of these */
        return a.u.i == b.u.i && a.u.i >= -5 && a.u.i <= 256;
    case JV_FLOAT:
        return false;
    default:
        return a.u.str == b.u.str;
    }
}

static bool known(struct jrt *rt, struct jv v, bool filter)
{
    const struct jv_str *s = qr_jinja_arg_str(rt, v, NULL);
    return (filter ? qr_jinja_filter(s->s, s->n) : qr_jinja_test(s->s, s->n)) != NULL;
}

static bool cased(struct jrt *rt, struct jv v, bool upper)
{
    const struct jv_str *s = qr_jv_to_str(rt, v).u.str;
    qr_jinja_work(rt, 4 * s->n);
    return qr_jinja_case_is(s, upper);
}

TEST(odd, remainder_of(rt, self, qr_jv_int(2)) == 1)
TEST(even, remainder_of(rt, self, qr_jv_int(2)) == 0)
TEST(divisibleby, remainder_of(rt, self, arg[0]) == 0)
TEST(defined, self.type != JV_UNDEFINED)
TEST(undefined, self.type == JV_UNDEFINED)
TEST(is_filter, known(rt, self, true))
TEST(is_test, known(rt, self, false))
TEST(none, self.type == JV_NONE)
TEST(boolean, self.type == JV_BOOL)
TEST(is_true, self.type == JV_BOOL && self.u.b)
TEST(is_false, self.type == JV_BOOL && !self.u.b)
TEST(integer, self.type == JV_INT)
TEST(is_float, self.type == JV_FLOAT)
TEST(lower, cased(rt, self, false))
TEST(upper, cased(rt, self, true))
TEST(string, self.type == JV_STR)
TEST(mapping, self.type == JV_DICT)
TEST(number, qr_jv_is_number(self))
TEST(sequence, is_sequence(self))
TEST(iterable, qr_jv_iterable(self) || self.type == JV_LOOP)
TEST(callable, is_callable(self))
TEST(sameas, is_same(self, arg[0]))
TEST(escaped, false)
TEST(in, qr_jv_in(rt, self, arg[0]))
TEST(eq, qr_jinja_compare(rt, JOP_EQ, self, arg[0]))
TEST(ne, qr_jinja_compare(rt, JOP_NE, self, arg[0]))
TEST(gt, qr_jinja_compare(rt, '>', self, arg[0]))
TEST(ge, qr_jinja_compare(rt, JOP_GE, self, arg[0]))
TEST(lt, qr_jinja_compare(rt, '<', self, arg[0]))
TEST(le, qr_jinja_compare(rt, JOP_LE, self, arg[0]))

const struct jbuiltin qr_jinja_tests[] = {
    {"defined", defined, "", 0},
    {"undefined", undefined, "", 0},
    {"none", none, "", 0},
    {"string", string, "", 0},
    {"mapping", mapping, "", 0},
    {"iterable", iterable, "", 0},
    {"sequence", sequence, "", 0},
    {"number", number, "", 0},
    {"integer", integer, "", 0},
    {"float", is_float, "", 0},
    {"boolean", boolean, "", 0},
    {"true", is_true, "", 0},
    {"false", is_false, "", 0},
    {"callable", callable, "", 0},
    {"odd", odd, "", 0},
    {"even", even, "", 0},
    {"divisibleby", divisibleby, "num", 1},
    {"lower", lower, "", 0},
    {"upper", upper, "", 0},
    {"sameas", sameas, "other", 1},
    {"escaped", escaped, "", 0},
    {"filter", is_filter, "", 0},
    {"test", is_test, "", 0},
    {"in", in, "seq", 1},
    {"==", eq, "other", 1},
    {"eq", eq, "other", 1},
    {"equalto", eq, "other", 1},
    {"!=", ne, "other", 1},
    {"ne", ne, "other", 1},
    {">", gt, "other", 1},
    {"gt", gt, "other", 1},
    {"greaterthan", gt, "other", 1},
    {">=", ge, "other", 1},
    {"ge", ge, "other", 1},
    {"<", lt, "other", 1},
    {"lt", lt, "other", 1},
    {"lessthan", lt, "other", 1},
    {"<=", le, "other", 1},
    {"le", le, "other", 1},
    {NULL, NULL, NULL, 0},
};
