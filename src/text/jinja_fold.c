/* jinja_fold.c - where jinja2 computes constants before a template runs.
 *
 * It matters for slices alone: of what has none (5[1:], 'a'['x':]) they are an error in a template that runs, and
 * undefined in a constant expression that jinja2 computes beforehand, as it does with what is printed whole and with
 * what has a value that can be written into its code (nodes.py, as_const; optimizer.py). Here that is tried when the
 * expression is reached: constants do not change. */
#include "text/jinja_render.h"

static void take(struct jnode *node, const struct jnode *part)
{
    if (!part)
        return;
    node->fixed &= part->fixed;
    node->sliced |= part->sliced;
}

/* These get the context, which is not there beforehand. */
static bool needs_context(const struct jbuiltin *builtin)
{
    for (const struct jbuiltin *b = qr_jinja_filters_select; b->name; b++)
        if (b == builtin)
            return true;
    return false;
}

/* From the parts, which are noted already. Of "a if b else c", "a and b", "a or b" not all parts may be computed. */
void qr_jinja_note_fixed(struct jnode *node)
{
    node->fixed = node->type >= JN_CONST && node->type != JN_NAME && node->type != JN_NSREF && node->type != JN_CALL;
    if (node->type == JN_FILTER || node->type == JN_TEST)
        node->fixed = node->a && node->builtin && !needs_context(node->builtin);
    node->sliced = node->type == JN_SLICE;
    take(node, node->a);
    take(node, node->b);
    take(node, node->c);
    bool first = node->type == JN_COND ? node->b->fixed : node->a && node->a->fixed;
    for (int i = 0; i < node->n_kid; i++)
        take(node, node->kid[i]);
    for (int i = 0; node->call && i < node->call->n_pos; i++)
        take(node, node->call->pos[i]);
    for (int i = 0; node->call && i < node->call->n_kw; i++)
        take(node, node->call->kw[i]);
    take(node, node->call ? node->call->star : NULL);
    take(node, node->call ? node->call->star_star : NULL);
    if (node->type == JN_COND || node->type == JN_AND || node->type == JN_OR)
        node->fixed = first;
}

/* Whether jinja2 writes such a value into the code that it makes (compiler.py, has_safe_repr). */
static bool writable(struct jv v)
{
    if (v.type == JV_LIST && v.u.list->kind <= JV_KIND_TUPLE) {
        for (size_t i = 0; i < v.u.list->n; i++)
            if (!writable(v.u.list->v[i]))
                return false;
        return true;
    }
    if (v.type == JV_DICT) {
        for (size_t i = 0; i < v.u.dict->n; i++)
            if (!writable(v.u.dict->value[i]))
                return false;
        return true;
    }
    return (v.type >= JV_NONE && v.type <= JV_STR) || v.type == JV_RANGE;
}

/* False: there is nothing to compute beforehand, or it cannot be; the expression is evaluated as any other. A limit
 * that is reached here is reached again there. */
bool qr_jinja_fold(struct jrt *rt, const struct jnode *node, struct jscope *scope, bool printed, struct jv *v)
{
    struct qr_err *err = rt->err;
    bool done;
    if (!node->fixed || !node->sliced || rt->folding || rt->failed)
        return false;
    rt->folding = true;
    rt->err = NULL;
    *v = qr_jinja_eval(rt, node, scope);
    done = !rt->failed && (printed || writable(*v));
    rt->folding = false;
    rt->err = err;
    rt->failed = false;
    rt->status = QR_OK;
    return done;
}
