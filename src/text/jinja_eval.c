/* jinja_eval.c - the value of an expression. */
#include "text/jinja_render.h"

static struct jv eval_list(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    struct jv_list *list = qr_jv_list_new(rt, node->type == JN_TUPLE ? JV_KIND_TUPLE : JV_KIND_LIST);
    for (int i = 0; i < node->n_kid && !rt->failed; i++)
        qr_jv_push(rt, list, qr_jinja_eval(rt, node->kid[i], scope));
    return qr_jv_list(list);
}

static struct jv eval_dict(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    struct jv_dict *dict = qr_jv_dict_new(rt);
    for (int i = 0; i + 1 < node->n_kid && !rt->failed; i += 2) {
        struct jv key = qr_jinja_eval(rt, node->kid[i], scope);
        struct jv value = qr_jinja_eval(rt, node->kid[i + 1], scope);
        if (!rt->failed)
            qr_jv_dict_set(rt, dict, key, value);
    }
    return qr_jv_dict(dict);
}

static struct jv eval_cond(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    if (qr_jv_true(rt, qr_jinja_eval(rt, node->b, scope)))
        return qr_jinja_eval(rt, node->a, scope);
    if (node->c)
        return qr_jinja_eval(rt, node->c, scope);
    if (rt->folding)
        qr_jinja_raise(rt, QR_INVALID, "no else section was defined");
    return qr_jv_hint(rt, "the inline if-expression evaluated to false and no else section was defined");
}

/* and, or: the operand that decides, not a boolean. */
static struct jv eval_logic(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    struct jv v = qr_jinja_eval(rt, node->a, scope);
    for (int i = 0; i < node->n_kid && !rt->failed; i++) {
        if (qr_jv_true(rt, v) == (node->type == JN_OR))
            break;
        v = qr_jinja_eval(rt, node->kid[i], scope);
    }
    return v;
}

static struct jv eval_compare(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    struct jv left = qr_jinja_eval(rt, node->a, scope);
    for (int i = 0; i < node->n_kid; i++) {
        struct jv right = qr_jinja_eval(rt, node->kid[i], scope);
        if (rt->failed || !qr_jinja_compare(rt, node->ops[i], left, right))
            return qr_jv_bool(false);
        left = right;
    }
    return qr_jv_bool(true);
}

static struct jv eval_chain(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    struct jv v = qr_jinja_eval(rt, node->a, scope);
    for (int i = 0; i < node->n_kid && !rt->failed; i++) {
        struct jv right = qr_jinja_eval(rt, node->kid[i], scope);
        if (!rt->failed)
            v = qr_jinja_binary(rt, node->ops[i], v, right);
    }
    return v;
}

static struct jv eval_concat(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    struct jv text = qr_jv_to_str(rt, qr_jinja_eval(rt, node->a, scope));
    for (int i = 0; i < node->n_kid && !rt->failed; i++) {
        struct jv right = qr_jinja_eval(rt, node->kid[i], scope);
        if (!rt->failed)
            text = qr_jv_concat(rt, text, qr_jv_to_str(rt, right));
    }
    return text;
}

static struct jv optional(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    return node ? qr_jinja_eval(rt, node, scope) : qr_jv_none();
}

static struct jv eval_item(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    struct jv obj = qr_jinja_eval(rt, node->a, scope);
    if (rt->failed)
        return obj;
    if (node->b->type != JN_SLICE) {
        struct jv key = qr_jinja_eval(rt, node->b, scope);
        return rt->failed ? key : qr_jinja_getitem(rt, obj, key);
    }
    struct jv start = optional(rt, node->b->a, scope);
    struct jv stop = optional(rt, node->b->b, scope);
    struct jv step = optional(rt, node->b->c, scope);
    return rt->failed ? obj : qr_jinja_slice(rt, obj, start, stop, step);
}

static struct jv eval_call(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    struct jargs args;
    struct jv fn = qr_jinja_eval(rt, node->a, scope);
    if (rt->failed || !qr_jinja_args(rt, node->call, scope, &args))
        return qr_jv_none();
    rt->line = node->line;
    return qr_jinja_call(rt, fn, &args);
}

static struct jv eval_named(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    const char *what = node->type == JN_FILTER ? "filter" : "test";
    struct jargs args = {0};
    struct jv self = node->a ? qr_jinja_eval(rt, node->a, scope) : rt->filtered;
    if (rt->failed || (node->call && !qr_jinja_args(rt, node->call, scope, &args)))
        return qr_jv_none();
    rt->line = node->line;
    if (!node->builtin) {
        const struct jv_str *name = node->value.u.str;
        qr_jinja_raise(rt, QR_INVALID, "there is no %s named '%.*s'", what, (int)(name->n > 60 ? 60 : name->n),
                       name->s);
        return qr_jv_none();
    }
    return qr_jinja_call_builtin(rt, node->builtin, what, self, &args);
}

static struct jv eval_inner(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    switch (node->type) {
    case JN_LIST:
    case JN_TUPLE:
        return eval_list(rt, node, scope);
    case JN_DICT:
        return eval_dict(rt, node, scope);
    case JN_COND:
        return eval_cond(rt, node, scope);
    case JN_AND:
    case JN_OR:
        return eval_logic(rt, node, scope);
    case JN_NOT:
        return qr_jv_bool(!qr_jv_true(rt, qr_jinja_eval(rt, node->a, scope)));
    case JN_COMPARE:
        return eval_compare(rt, node, scope);
    case JN_CHAIN:
        return eval_chain(rt, node, scope);
    case JN_CONCAT:
        return eval_concat(rt, node, scope);
    case JN_NEG:
    case JN_POS:
        return qr_jinja_negate(rt, qr_jinja_eval(rt, node->a, scope), node->type == JN_NEG);
    case JN_ATTR:
        return qr_jinja_getattr(rt, qr_jinja_eval(rt, node->a, scope), node->value.u.str);
    case JN_ITEM:
        return eval_item(rt, node, scope);
    case JN_CALL:
        return eval_call(rt, node, scope);
    default:
        return eval_named(rt, node, scope);
    }
}

struct jv qr_jinja_eval(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    if (!qr_jinja_step(rt, 1))
        return qr_jv_none();
    if (node->type == JN_CONST)
        return node->value;
    rt->line = node->line;
    if (rt->folding && !node->fixed) {
        qr_jinja_raise(rt, QR_INVALID, "this is not constant");
        return qr_jv_none();
    }
    if (node->type == JN_NAME)
        return qr_jinja_lookup(rt, scope, node->name);
    if (rt->depth >= rt->max_depth) {
        qr_jinja_raise(rt, QR_LIMIT, "calls nest too deep (more than %d levels)", rt->max_depth);
        return qr_jv_none();
    }
    struct jv v;
    if (qr_jinja_fold(rt, node, scope, false, &v))
        return v;
    rt->depth++;
    v = eval_inner(rt, node, scope);
    rt->depth--;
    return v;
}
