/* jinja_for.c - for loops and their loop variable. Items are pulled one by one, so that a filter (for x in y if z) sees what
 * the body did before, as in jinja2; loop.last, loop.nextitem and loop.length look ahead only when asked. */
#include "text/jinja_render.h"

/* Does the filter of the loop let this item pass? */
static bool passes(struct jrt *rt, const struct jv_loop *loop, struct jv item)
{
    if (!loop->node->e)
        return true;
    struct jscope *scope = qr_jinja_scope(rt, loop->scope);
    qr_jinja_assign(rt, scope, loop->node->a, item);
    bool pass = !rt->failed && qr_jv_true(rt, qr_jinja_eval(rt, loop->node->e, scope));
    if (scope != loop->scope)
        qr_jinja_scope_release(rt, scope);
    return pass;
}

static bool pull(struct jrt *rt, struct jv_loop *loop, struct jv *item)
{
    if (loop->rest) {
        if (loop->rest_pos >= loop->rest->n)
            return false;
        *item = loop->rest->v[loop->rest_pos++];
        return true;
    }
    while (qr_jv_next(rt, &loop->cursor, item)) {
        if (passes(rt, loop, *item))
            return !rt->failed;
    }
    return false;
}

static bool advance(struct jrt *rt, struct jv_loop *loop)
{
    struct jv item;
    if (loop->has_after) {
        item = loop->after;
        loop->has_after = false;
    } else if (!pull(rt, loop, &item)) {
        return false;
    }
    loop->index0++;
    loop->before = loop->current;
    loop->current = item;
    return true;
}

static bool peek(struct jrt *rt, struct jv_loop *loop)
{
    if (!loop->has_after)
        loop->has_after = pull(rt, loop, &loop->after);
    return loop->has_after;
}

static int64_t length(struct jrt *rt, struct jv_loop *loop)
{
    if (loop->length < 0 && !loop->node->e)
        loop->length = qr_jv_len(rt, loop->source);
    if (loop->length < 0) {
        struct jv_list *rest = qr_jv_list_new(rt, JV_KIND_LIST);
        struct jv item;
        while (pull(rt, loop, &item))
            qr_jv_push(rt, rest, item);
        loop->rest = rest;
        loop->rest_pos = 0;
        loop->length = (int64_t)rest->n + loop->index0 + 1 + loop->has_after;
    }
    return loop->length;
}

static struct jv cycle(struct jrt *rt, struct jv self, const struct jv *arg, const struct jargs *args)
{
    (void)arg;
    if (!args->n_pos) {
        qr_jinja_raise(rt, QR_INVALID, "no items for cycling given");
        return qr_jv_none();
    }
    int64_t i = self.u.loop->index0 < 0 ? 0 : self.u.loop->index0;
    return args->pos[i % args->n_pos];
}

static struct jv changed(struct jrt *rt, struct jv self, const struct jv *arg, const struct jargs *args)
{
    struct jv_loop *loop = self.u.loop;
    struct jv_list *now = qr_jv_list_new(rt, JV_KIND_TUPLE);
    (void)arg;
    for (int i = 0; i < args->n_pos; i++)
        qr_jv_push(rt, now, args->pos[i]);
    bool same = loop->changed && qr_jv_equal(rt, qr_jv_list(loop->changed), qr_jv_list(now));
    loop->changed = now;
    return qr_jv_bool(!same);
}

const struct jbuiltin qr_jinja_loop_methods[] = {
    {"cycle", cycle, NULL, 0}, {"changed", changed, NULL, 0}, {NULL, NULL, NULL, 0}};

/* JV_MISSING: no such attribute. */
struct jv qr_jinja_loop_attr(struct jrt *rt, struct jv_loop *loop, const struct jv_str *name)
{
    if (qr_jv_str_is(name, "index"))
        return qr_jv_int(loop->index0 + 1);
    if (qr_jv_str_is(name, "index0"))
        return qr_jv_int(loop->index0);
    if (qr_jv_str_is(name, "first"))
        return qr_jv_bool(loop->index0 == 0);
    if (qr_jv_str_is(name, "last"))
        return qr_jv_bool(!peek(rt, loop));
    if (qr_jv_str_is(name, "length"))
        return qr_jv_int(length(rt, loop));
    if (qr_jv_str_is(name, "revindex"))
        return qr_jv_int(length(rt, loop) - loop->index0);
    if (qr_jv_str_is(name, "revindex0"))
        return qr_jv_int(length(rt, loop) - loop->index0 - 1);
    if (qr_jv_str_is(name, "depth"))
        return qr_jv_int(loop->depth0 + 1);
    if (qr_jv_str_is(name, "depth0"))
        return qr_jv_int(loop->depth0);
    if (qr_jv_str_is(name, "previtem"))
        return loop->index0 > 0 ? loop->before : qr_jv_hint(rt, "there is no previous item");
    if (qr_jv_str_is(name, "nextitem"))
        return peek(rt, loop) ? loop->after : qr_jv_hint(rt, "there is no next item");
    const struct jbuiltin *method = qr_jinja_find(qr_jinja_loop_methods, name->s, name->n);
    if (method)
        return qr_jv_func(rt, method, (struct jv){.type = JV_LOOP, .u.loop = loop});
    return (struct jv){.type = JV_MISSING};
}

static bool enter_call(struct jrt *rt)
{
    if (rt->calls >= rt->max_calls) {
        qr_jinja_raise(rt, QR_LIMIT, "calls nest deeper than %d", rt->max_calls);
        return false;
    }
    rt->calls++;
    return true;
}

/* loop(children) inside of a recursive loop: the body again, over these, as text. */
struct jv qr_jinja_loop_call(struct jrt *rt, struct jv_loop *loop, const struct jargs *args)
{
    if (!loop->node->recursive || args->n_pos != 1 || args->n_kw) {
        qr_jinja_raise(rt, QR_INVALID, "the loop must have the 'recursive' marker to be called recursively");
        return qr_jv_none();
    }
    if (!enter_call(rt))
        return qr_jv_none();
    struct qr_buf text, *outer = rt->out;
    qr_buf_init(&text, 0);
    rt->out = &text;
    qr_jinja_for(rt, loop->node, loop->scope, args->pos[0], loop->depth0 + 1);
    rt->out = outer;
    rt->calls--;
    struct jv v = qr_jv_str_copy(rt, text.data ? text.data : "", text.len);
    qr_buf_free(&text);
    return v;
}

/* Did the body once come to its end? jinja2's else asks for that: not for a break or continue. */
static bool run_body(struct jrt *rt, const struct jnode *node, struct jscope *scope, struct jv_loop *loop)
{
    bool finished = false;
    struct jscope *inner = NULL;
    struct jv self = {.type = JV_LOOP, .u.loop = loop};
    while (!rt->failed && advance(rt, loop)) {
        if (!inner || node->closes)
            inner = qr_jinja_scope(rt, scope);
        if (rt->failed)
            return false;
        inner->n = 0;
        qr_jinja_bind(rt, inner, rt->jinja->loop_name, self);
        qr_jinja_assign(rt, inner, node->a, loop->current);
        enum jflow flow = rt->failed ? JF_BREAK : qr_jinja_exec(rt, node->c, inner);
        finished |= flow == JF_NEXT;
        if (flow == JF_BREAK)
            break;
    }
    if (inner && !node->closes)
        qr_jinja_scope_release(rt, inner);
    return finished;
}

void qr_jinja_for(struct jrt *rt, const struct jnode *node, struct jscope *scope, struct jv source, int depth0)
{
    struct jv_loop *loop = qr_jinja_alloc(rt, 1, sizeof *loop);
    if (!loop)
        return;
    *loop =
        (struct jv_loop){.source = source, .node = node, .scope = scope, .index0 = -1, .length = -1, .depth0 = depth0};
    if (!qr_jv_walk(rt, source, &loop->cursor))
        return;
    if (run_body(rt, node, scope, loop) || !node->d || rt->failed)
        return;
    struct jscope *inner = qr_jinja_scope(rt, scope);
    qr_jinja_exec(rt, node->d, inner);
    if (inner != scope && !node->closes)
        qr_jinja_scope_release(rt, inner);
}
