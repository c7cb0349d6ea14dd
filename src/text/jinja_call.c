/* jinja_call.c - calls: evaluating arguments, binding them to the parameters of macros and builtins. */
#include <string.h>
#include "text/jinja_render.h"

#define MAX_ARGS 100000

static bool star_args(struct jrt *rt, const struct jcall *call, struct jscope *scope, struct jv_list *pos,
                      struct jv_dict **kw)
{
    struct jv_cursor cursor;
    struct jv item;
    if (call->star) {
        qr_jv_walk(rt, qr_jinja_eval(rt, call->star, scope), &cursor);
        while (pos->n < MAX_ARGS && qr_jv_next(rt, &cursor, &item))
            qr_jv_push(rt, pos, item);
    }
    if (call->star_star && !rt->failed) {
        struct jv v = qr_jinja_eval(rt, call->star_star, scope);
        if (v.type == JV_DICT)
            *kw = v.u.dict;
        else
            qr_jinja_raise(rt, QR_INVALID, "argument after ** must be a mapping, not %s", qr_jv_type_name(v));
    }
    return !rt->failed;
}

bool qr_jinja_args(struct jrt *rt, const struct jcall *call, struct jscope *scope, struct jargs *args)
{
    *args = (struct jargs){0};
    struct jv_list pos = {0};
    struct jv_dict *more = NULL;
    if (call->n_pos) {
        pos.v = qr_jinja_alloc(rt, (size_t)call->n_pos, sizeof *pos.v);
        pos.room = pos.v ? (size_t)call->n_pos : 0;
    }
    for (int i = 0; i < call->n_pos && !rt->failed; i++)
        qr_jv_push(rt, &pos, qr_jinja_eval(rt, call->pos[i], scope));
    size_t n_kw = (size_t)call->n_kw;
    struct jv *kw = n_kw ? qr_jinja_alloc(rt, n_kw, sizeof *kw) : NULL;
    for (int i = 0; i < call->n_kw && !rt->failed; i++)
        kw[i] = qr_jinja_eval(rt, call->kw[i], scope);
    args->kw = kw;
    args->kw_name = call->kw_name;
    args->n_kw = call->n_kw;
    if ((call->star || call->star_star) && !star_args(rt, call, scope, &pos, &more))
        return false;
    args->pos = pos.v;
    args->n_pos = (int)pos.n;
    if (!more || rt->failed)
        return !rt->failed;
    args->kw = qr_jinja_alloc(rt, n_kw + more->n + 1, sizeof *args->kw);
    args->kw_name = qr_jinja_alloc(rt, n_kw + more->n + 1, sizeof *args->kw_name);
    for (size_t i = 0; i < n_kw + more->n && !rt->failed; i++) {
        struct jv name = i < n_kw ? qr_jv_none() : more->key[i - n_kw];
        if (i >= n_kw && name.type != JV_STR) {
            qr_jinja_raise(rt, QR_INVALID, "keywords must be strings");
            break;
        }
        args->kw[i] = i < n_kw ? kw[i] : more->value[i - n_kw];
        args->kw_name[i] = i < n_kw ? call->kw_name[i] : name.u.str;
    }
    args->n_kw += (int)more->n;
    return !rt->failed;
}

/* Length of the k-th name of "a,b,c" and where it starts; 0: there are fewer. */
static size_t param(const char *params, int k, const char **start)
{
    while (k-- > 0) {
        params = strchr(params, ',');
        if (!params)
            return 0;
        params++;
    }
    *start = params;
    return strcspn(params, ",");
}

static bool bind(struct jrt *rt, const struct jbuiltin *b, const char *what, const struct jargs *args, struct jv *arg)
{
    const char *s;
    int n = 0;
    while (n < QR_JINJA_MAX_PARAMS && param(b->params, n, &s))
        n++;
    if (args->n_pos > n) {
        qr_jinja_raise(rt, QR_INVALID, "%s '%s' takes at most %d argument(s), %d were given", what, b->name, n,
                       args->n_pos);
        return false;
    }
    for (int i = 0; i < QR_JINJA_MAX_PARAMS; i++)
        arg[i] = i < args->n_pos ? args->pos[i] : (struct jv){.type = JV_MISSING};
    for (int k = 0; k < args->n_kw; k++) {
        const struct jv_str *name = args->kw_name[k];
        int i = 0;
        while (i < n && !(param(b->params, i, &s) == name->n && memcmp(s, name->s, name->n) == 0))
            i++;
        if (i == n || arg[i].type != JV_MISSING) {
            qr_jinja_raise(rt, QR_INVALID, "%s '%s' %s argument '%.*s'", what, b->name,
                           i == n ? "takes no keyword" : "got twice its", (int)(name->n > 60 ? 60 : name->n), name->s);
            return false;
        }
        arg[i] = args->kw[k];
    }
    for (int i = 0; i < b->n_required; i++) {
        if (arg[i].type == JV_MISSING) {
            size_t len = param(b->params, i, &s);
            qr_jinja_raise(rt, QR_INVALID, "%s '%s' needs its argument '%.*s'", what, b->name, (int)len, s);
            return false;
        }
    }
    return true;
}

struct jv qr_jinja_call_builtin(struct jrt *rt, const struct jbuiltin *b, const char *what, struct jv self,
                                const struct jargs *args)
{
    struct jv arg[QR_JINJA_MAX_PARAMS];
    if (rt->failed || (b->params && !bind(rt, b, what, args, arg)))
        return qr_jv_none();
    return b->fn(rt, self, b->params ? arg : NULL, args);
}

/* The value of a keyword argument, which is taken; JV_MISSING: not given. */
static struct jv take_kw(const struct jargs *args, bool *taken, const struct jv_str *name)
{
    for (int k = 0; k < args->n_kw; k++) {
        if (!taken[k] && args->kw_name[k]->n == name->n && memcmp(args->kw_name[k]->s, name->s, name->n) == 0) {
            taken[k] = true;
            return args->kw[k];
        }
    }
    return (struct jv){.type = JV_MISSING};
}

static void bind_params(struct jrt *rt, const struct jnode *node, struct jscope *scope, const struct jargs *args,
                        bool *taken, bool *has_caller)
{
    for (int i = 0; i < node->n_kid; i++) {
        struct jv_str *name = rt->jinja->name[node->params[i]];
        struct jv v = i < args->n_pos ? args->pos[i] : take_kw(args, taken, name);
        if (qr_jv_str_is(name, "caller"))
            *has_caller = true;
        qr_jinja_bind(rt, scope, node->params[i], v);
    }
    for (int i = args->n_pos; i < node->n_kid && !rt->failed; i++) {
        if (qr_jinja_lookup(rt, scope, node->params[i]).type != JV_MISSING)
            continue;
        struct jv v = qr_jv_undefined(JV_WHY_NAME, qr_jv_none(), rt->jinja->name[node->params[i]]);
        if (node->kid[i])
            v = qr_jinja_eval(rt, node->kid[i], scope);
        qr_jinja_bind(rt, scope, node->params[i], v);
    }
}

/* caller, kwargs and varargs exist in macros whose body names them. */
static void bind_special(struct jrt *rt, const struct jnode *node, struct jscope *scope, const struct jargs *args,
                         bool *taken, bool has_caller)
{
    const struct qr_jinja *j = rt->jinja;
    if (node->uses_caller && !has_caller) {
        struct jv caller = take_kw(args, taken, j->name[j->caller_name]);
        if (caller.type == JV_MISSING || caller.type == JV_NONE)
            caller = qr_jv_hint(rt, "No caller defined");
        qr_jinja_bind(rt, scope, j->caller_name, caller);
    }
    struct jv_dict *rest = qr_jv_dict_new(rt);
    for (int k = 0; k < args->n_kw && !rt->failed; k++) {
        const struct jv_str *name = args->kw_name[k];
        if (taken[k])
            continue;
        if (!node->uses_kwargs)
            qr_jinja_raise(rt, QR_INVALID, "a macro takes no keyword argument '%.*s'",
                           (int)(name->n > 60 ? 60 : name->n), name->s);
        else
            qr_jv_dict_set(rt, rest, (struct jv){.type = JV_STR, .u.str = args->kw_name[k]}, args->kw[k]);
    }
    if (node->uses_kwargs)
        qr_jinja_bind(rt, scope, j->kwargs_name, qr_jv_dict(rest));
    if (!node->uses_varargs) {
        if (args->n_pos > node->n_kid)
            qr_jinja_raise(rt, QR_INVALID, "a macro takes not more than %d argument(s)", node->n_kid);
        return;
    }
    struct jv_list *more = qr_jv_list_new(rt, JV_KIND_TUPLE);
    for (int i = node->n_kid; i < args->n_pos; i++)
        qr_jv_push(rt, more, args->pos[i]);
    qr_jinja_bind(rt, scope, j->varargs_name, qr_jv_list(more));
}

static struct jv call_macro(struct jrt *rt, const struct jv_macro *macro, const struct jargs *args)
{
    const struct jnode *node = macro->node;
    bool has_caller = false;
    if (rt->calls >= rt->max_calls) {
        qr_jinja_raise(rt, QR_LIMIT, "calls nest deeper than %d", rt->max_calls);
        return qr_jv_none();
    }
    bool *taken = qr_jinja_alloc(rt, (size_t)args->n_kw + 1, sizeof *taken);
    struct jscope *scope = qr_jinja_scope(rt, macro->scope);
    if (rt->failed)
        return qr_jv_none();
    rt->calls++;
    bind_params(rt, node, scope, args, taken, &has_caller);
    if (!rt->failed)
        bind_special(rt, node, scope, args, taken, has_caller);
    struct jv text = rt->failed ? qr_jv_none() : qr_jinja_capture(rt, node->c, scope);
    if (!node->closes)
        qr_jinja_scope_release(rt, scope);
    rt->calls--;
    return text;
}

struct jv qr_jinja_call(struct jrt *rt, struct jv fn, const struct jargs *args)
{
    switch (fn.type) {
    case JV_FUNC:
        return qr_jinja_call_builtin(rt, fn.u.func->builtin, "function", fn.u.func->self, args);
    case JV_MACRO:
        return call_macro(rt, fn.u.macro, args);
    case JV_LOOP:
        return qr_jinja_loop_call(rt, fn.u.loop, args);
    case JV_JOINER:
        if (!fn.u.joiner->used) {
            fn.u.joiner->used = true;
            return qr_jv_cstr(rt, "");
        }
        return fn.u.joiner->sep;
    case JV_UNDEFINED:
        qr_jv_raise_undefined(rt, fn);
        return qr_jv_none();
    default:
        qr_jinja_raise(rt, QR_INVALID, "'%s' object is not callable", qr_jv_type_name(fn));
        return qr_jv_none();
    }
}
