/* jinja_exec.c - statements. */
#include "text/jinja_render.h"

static void exec_output(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    struct jv v;
    if (!qr_jinja_fold(rt, node->a, scope, true, &v))
        v = qr_jinja_eval(rt, node->a, scope);
    if (rt->failed)
        return;
    if (v.type != JV_STR)
        v = qr_jv_to_str(rt, v);
    qr_jinja_emit(rt, v.u.str->s, v.u.str->n);
}

static enum jflow exec_if(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    for (int i = 0; i + 1 < node->n_kid && !rt->failed; i += 2) {
        if (qr_jv_true(rt, qr_jinja_eval(rt, node->kid[i], scope)))
            return qr_jinja_exec(rt, node->kid[i + 1], scope);
    }
    return node->a ? qr_jinja_exec(rt, node->a, scope) : JF_NEXT;
}

struct jv qr_jinja_capture(struct jrt *rt, const struct jnode *body, struct jscope *scope)
{
    struct qr_buf text, *outer = rt->out;
    size_t before = rt->text;
    qr_buf_init(&text, 0);
    rt->out = &text;
    qr_jinja_exec(rt, body, scope);
    rt->out = outer;
    /* What was written there is charged once, when it becomes a string; strings made meanwhile stay charged. */
    if (!rt->failed && rt->text - before >= text.len)
        rt->text -= text.len;
    struct jv v = qr_jv_str_copy(rt, text.data ? text.data : "", text.len);
    qr_buf_free(&text);
    return v;
}

/* Runs the body in a scope of its own; break and continue pass through. */
static enum jflow exec_scoped(struct jrt *rt, const struct jnode *node, struct jscope *scope, struct jscope *inner)
{
    enum jflow flow = qr_jinja_exec(rt, node->c, inner);
    if (!node->closes && inner != scope)
        qr_jinja_scope_release(rt, inner);
    return flow;
}

static void exec_captured(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    struct jscope *inner = qr_jinja_scope(rt, scope);
    struct jv text = qr_jinja_capture(rt, node->c, inner);
    if (node->b && !rt->failed) {
        rt->filtered = text;
        text = qr_jinja_eval(rt, node->b, inner);
    }
    if (!node->closes && inner != scope)
        qr_jinja_scope_release(rt, inner);
    if (rt->failed)
        return;
    if (node->type == JN_SET_BLOCK) {
        qr_jinja_assign(rt, scope, node->a, text);
    } else {
        text = qr_jv_to_str(rt, text);
        qr_jinja_emit(rt, text.u.str->s, text.u.str->n);
    }
}

static enum jflow exec_with(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    struct jscope *inner = qr_jinja_scope(rt, scope);
    for (int i = 0; i + 1 < node->n_kid && !rt->failed; i += 2) {
        struct jv v = qr_jinja_eval(rt, node->kid[i + 1], scope);
        qr_jinja_assign(rt, inner, node->kid[i], v);
    }
    return exec_scoped(rt, node, scope, inner);
}

static struct jv closure(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    struct jv_macro *macro = qr_jinja_alloc(rt, 1, sizeof *macro);
    if (!macro)
        return qr_jv_none();
    macro->node = node;
    macro->scope = scope;
    return (struct jv){.type = JV_MACRO, .u.macro = macro};
}

/* {% call(x) m(...) %}: the call gets the block as its keyword argument caller. */
static void exec_call_block(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    struct jargs args;
    struct jv fn = qr_jinja_eval(rt, node->a->a, scope);
    if (rt->failed || !qr_jinja_args(rt, node->a->call, scope, &args))
        return;
    int n = args.n_kw;
    struct jv *kw = qr_jinja_alloc(rt, (size_t)n + 1, sizeof *kw);
    struct jv_str **name = qr_jinja_alloc(rt, (size_t)n + 1, sizeof *name);
    if (!kw || !name)
        return;
    for (int i = 0; i < n; i++) {
        kw[i] = args.kw[i];
        name[i] = args.kw_name[i];
    }
    kw[n] = closure(rt, node, scope);
    name[n] = qr_jv_cstr(rt, "caller").u.str;
    args.kw = kw;
    args.kw_name = name;
    args.n_kw = n + 1;
    struct jv text = qr_jinja_call(rt, fn, &args);
    if (rt->failed)
        return;
    text = qr_jv_to_str(rt, text);
    qr_jinja_emit(rt, text.u.str->s, text.u.str->n);
}

static enum jflow exec_body(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    for (int i = 0; i < node->n_kid && !rt->failed; i++) {
        enum jflow flow = qr_jinja_exec(rt, node->kid[i], scope);
        if (flow != JF_NEXT)
            return flow;
    }
    return JF_NEXT;
}

static enum jflow exec_inner(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    switch (node->type) {
    case JN_BODY:
        return exec_body(rt, node, scope);
    case JN_DATA:
        qr_jinja_emit(rt, node->value.u.str->s, node->value.u.str->n);
        return JF_NEXT;
    case JN_OUTPUT:
        exec_output(rt, node, scope);
        return JF_NEXT;
    case JN_IF:
        return exec_if(rt, node, scope);
    case JN_FOR:
        qr_jinja_for(rt, node, scope, qr_jinja_eval(rt, node->b, scope), 0);
        return JF_NEXT;
    case JN_SET:
        qr_jinja_assign(rt, scope, node->a, qr_jinja_eval(rt, node->b, scope));
        return JF_NEXT;
    case JN_SET_BLOCK:
    case JN_FILTER_BLOCK:
        exec_captured(rt, node, scope);
        return JF_NEXT;
    case JN_WITH:
        return exec_with(rt, node, scope);
    case JN_MACRO:
        qr_jinja_bind(rt, scope, node->name, closure(rt, node, scope));
        return JF_NEXT;
    case JN_CALL_BLOCK:
        exec_call_block(rt, node, scope);
        return JF_NEXT;
    case JN_SCOPE:
        return exec_scoped(rt, node, scope, qr_jinja_scope(rt, scope));
    case JN_BREAK:
        return JF_BREAK;
    default:
        return JF_CONTINUE;
    }
}

enum jflow qr_jinja_exec(struct jrt *rt, const struct jnode *node, struct jscope *scope)
{
    if (!qr_jinja_step(rt, 1))
        return JF_NEXT;
    rt->line = node->line;
    if (rt->depth >= rt->max_depth) {
        qr_jinja_raise(rt, QR_LIMIT, "calls nest too deep (more than %d levels)", rt->max_depth);
        return JF_NEXT;
    }
    rt->depth++;
    enum jflow flow = exec_inner(rt, node, scope);
    rt->depth--;
    return flow;
}
