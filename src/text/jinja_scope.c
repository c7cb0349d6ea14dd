/* jinja_scope.c - variables. A scope is one for iteration, macro call, with block ...; names are looked up outwards, then in
 * the request's variables, then among the globals. set writes into the innermost scope only, as jinja2's does. */
#include <string.h>
#include "text/jinja_render.h"

struct jscope *qr_jinja_scope(struct jrt *rt, struct jscope *parent)
{
    struct jscope *scope = rt->free_scope;
    if (scope) {
        rt->free_scope = scope->parent;
    } else {
        scope = qr_jinja_alloc(rt, 1, sizeof *scope);
        if (!scope)
            return parent; /* failed: nothing will be bound */
    }
    scope->parent = parent;
    scope->n = 0;
    scope->in_use = true;
    return scope;
}

/* Only for scopes that no macro can have kept. */
void qr_jinja_scope_release(struct jrt *rt, struct jscope *scope)
{
    if (rt->failed || !scope->in_use)
        return;
    scope->in_use = false;
    scope->parent = rt->free_scope;
    rt->free_scope = scope;
}

void qr_jinja_bind(struct jrt *rt, struct jscope *scope, int name, struct jv v)
{
    if (rt->failed)
        return;
    for (int i = 0; i < scope->n; i++) {
        if (scope->b[i].name == name) {
            scope->b[i].v = v;
            return;
        }
    }
    if (scope->n == scope->room) {
        int room = scope->room ? 2 * scope->room : 4;
        struct jbinding *more = qr_jinja_alloc(rt, (size_t)room, sizeof *more);
        if (!more)
            return;
        if (scope->n)
            memcpy(more, scope->b, (size_t)scope->n * sizeof *more);
        scope->b = more;
        scope->room = room;
    }
    scope->b[scope->n++] = (struct jbinding){name, v};
}

struct jv qr_jinja_lookup(struct jrt *rt, const struct jscope *scope, int name)
{
    struct jv v;
    for (; scope; scope = scope->parent) {
        for (int i = 0; i < scope->n; i++) {
            if (scope->b[i].name == name)
                return scope->b[i].v;
        }
    }
    struct jv_str *str = rt->jinja->name[name];
    if (qr_jv_dict_get_str(rt, rt->context, str, &v))
        return v;
    const struct jbuiltin *global = qr_jinja_find(qr_jinja_globals, str->s, str->n);
    if (global)
        return qr_jv_func(rt, global, qr_jv_none());
    return qr_jv_undefined(JV_WHY_NAME, qr_jv_none(), str);
}

static void unpack(struct jrt *rt, struct jscope *scope, const struct jnode *target, struct jv v)
{
    struct jv_cursor cursor;
    struct jv item;
    int n = 0;
    if (!qr_jv_walk(rt, v, &cursor))
        return;
    for (; n < target->n_kid && qr_jv_next(rt, &cursor, &item); n++)
        qr_jinja_assign(rt, scope, target->kid[n], item);
    if (n < target->n_kid)
        qr_jinja_raise(rt, QR_INVALID, "not enough values to unpack (expected %d, got %d)", target->n_kid, n);
    else if (qr_jv_next(rt, &cursor, &item))
        qr_jinja_raise(rt, QR_INVALID, "too many values to unpack (expected %d)", target->n_kid);
}

void qr_jinja_assign(struct jrt *rt, struct jscope *scope, const struct jnode *target, struct jv v)
{
    if (rt->failed)
        return;
    if (target->type == JN_NAME) {
        qr_jinja_bind(rt, scope, target->name, v);
    } else if (target->type == JN_TUPLE) {
        unpack(rt, scope, target, v);
    } else {
        struct jv ns = qr_jinja_lookup(rt, scope, target->name);
        struct jv key = {.type = JV_STR, .u.str = rt->jinja->name[target->attr]};
        if (ns.type != JV_NAMESPACE)
            qr_jinja_raise(rt, QR_INVALID, "cannot assign attribute on non-namespace object");
        else
            qr_jv_dict_set(rt, ns.u.dict, key, v);
    }
}
