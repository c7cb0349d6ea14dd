/* jinja_args.c - arguments of builtins as C values, and looking builtins up. */
#include <string.h>
#include "text/jinja_render.h"

int64_t qr_jinja_arg_int(struct jrt *rt, struct jv v, int64_t otherwise)
{
    int64_t i;
    if (v.type == JV_MISSING || v.type == JV_NONE)
        return otherwise;
    if (qr_jv_as_int(v, &i))
        return i;
    if (v.type == JV_UNDEFINED)
        qr_jv_raise_undefined(rt, v);
    else
        qr_jinja_raise(rt, QR_INVALID, "'%s' object cannot be interpreted as an integer", qr_jv_type_name(v));
    return otherwise;
}

/* Never NULL. */
struct jv_str *qr_jinja_arg_str(struct jrt *rt, struct jv v, const char *otherwise)
{
    if (v.type == JV_STR)
        return v.u.str;
    if (v.type == JV_UNDEFINED)
        qr_jv_raise_undefined(rt, v);
    else if ((v.type != JV_MISSING && v.type != JV_NONE) || !otherwise)
        qr_jinja_raise(rt, QR_INVALID, "a string is needed, not %s", qr_jv_type_name(v));
    return qr_jv_cstr(rt, otherwise ? otherwise : "").u.str;
}

bool qr_jinja_arg_true(struct jrt *rt, struct jv v, bool otherwise)
{
    return v.type == JV_MISSING ? otherwise : qr_jv_true(rt, v);
}

const struct jbuiltin *qr_jinja_find(const struct jbuiltin *table, const char *s, size_t n)
{
    for (; table->name; table++) {
        if (strncmp(table->name, s, n) == 0 && table->name[n] == 0)
            return table;
    }
    return NULL;
}

const struct jbuiltin *qr_jinja_filter(const char *s, size_t n)
{
    const struct jbuiltin *const tables[] = {qr_jinja_filters_text, qr_jinja_filters_list, qr_jinja_filters_select,
                                             qr_jinja_filters_number};
    const struct jbuiltin *found = NULL;
    for (int i = 0; i < 4 && !found; i++)
        found = qr_jinja_find(tables[i], s, n);
    return found;
}

const struct jbuiltin *qr_jinja_test(const char *s, size_t n)
{
    return qr_jinja_find(qr_jinja_tests, s, n);
}
