/* jinja_operand.c - names, literals, brackets, and what may follow them: .attr, [item], (call), | filter, is test. */
#include <string.h>
#include "text/jinja_parse.h"
#include "text/jinja_render.h"

static struct jv const_str(struct jparse *p, const char *s, size_t n)
{
    struct jv_str *str = qr_arena_alloc(p->jinja->arena, sizeof *str);
    if (!str) {
        qr_jinja_lex_fail(&p->lex, QR_NOMEM, p->cur.line, "out of memory");
        return qr_jv_none();
    }
    *str = (struct jv_str){.s = s, .n = n, .n_cp = -1};
    qr_jv_str_len(str);
    return (struct jv){.type = JV_STR, .u.str = str};
}

/* Adjacent string literals are one. */
static struct jnode *string_literal(struct jparse *p)
{
    struct jnode *node = qr_jinja_node(p, JN_CONST, p->cur.line);
    const char *s = p->cur.s;
    size_t n = p->cur.n;
    qr_jinja_advance(p);
    while (p->cur.type == JT_STRING) {
        char *both = qr_arena_alloc(p->jinja->arena, n + p->cur.n + 1);
        if (!both) {
            qr_jinja_lex_fail(&p->lex, QR_NOMEM, p->cur.line, "out of memory");
            break;
        }
        memcpy(both, s, n);
        memcpy(both + n, p->cur.s, p->cur.n);
        s = both;
        n += p->cur.n;
        qr_jinja_advance(p);
    }
    node->value = const_str(p, s, n);
    return qr_jinja_done(p, node);
}

static void note_use(struct jparse *p, const struct jtok *name)
{
    bool caller = qr_jinja_tok_is(name, "caller"), varargs = qr_jinja_tok_is(name, "varargs"),
         kwargs = qr_jinja_tok_is(name, "kwargs");
    for (struct jmacro_uses *u = p->uses; u && (caller || varargs || kwargs); u = u->outer) {
        u->caller |= caller;
        u->varargs |= varargs;
        u->kwargs |= kwargs;
    }
}

static struct jnode *name_or_constant(struct jparse *p, bool with_namespace)
{
    struct jtok name = p->cur;
    struct jnode *node = qr_jinja_node(p, JN_CONST, name.line);
    qr_jinja_advance(p);
    if (qr_jinja_tok_is(&name, "true") || qr_jinja_tok_is(&name, "True")) {
        node->value = qr_jv_bool(true);
    } else if (qr_jinja_tok_is(&name, "false") || qr_jinja_tok_is(&name, "False")) {
        node->value = qr_jv_bool(false);
    } else if (qr_jinja_tok_is(&name, "none") || qr_jinja_tok_is(&name, "None")) {
        node->value = qr_jv_none();
    } else if (with_namespace && p->cur.type == '.') {
        qr_jinja_advance(p);
        node->type = JN_NSREF;
        node->name = qr_jinja_name_id(p, name.s, name.n);
        node->attr = qr_jinja_name_id(p, p->cur.s ? p->cur.s : "", p->cur.type == JT_NAME ? p->cur.n : 0);
        qr_jinja_expect(p, JT_NAME);
    } else {
        note_use(p, &name);
        node->type = JN_NAME;
        node->name = qr_jinja_name_id(p, name.s, name.n);
    }
    return qr_jinja_done(p, node);
}

static struct jnode *list_or_dict(struct jparse *p, bool dict)
{
    struct jnode *node = qr_jinja_node(p, dict ? JN_DICT : JN_LIST, p->cur.line);
    struct jnodes kids = {0};
    int close = dict ? '}' : ']';
    qr_jinja_advance(p);
    while (!p->lex.failed && p->cur.type != close) {
        if (kids.n && !qr_jinja_expect(p, ','))
            break;
        if (p->cur.type == close)
            break;
        qr_jinja_push(p, &kids, qr_jinja_parse_expr(p, true));
        if (dict && qr_jinja_expect(p, ':'))
            qr_jinja_push(p, &kids, qr_jinja_parse_expr(p, true));
    }
    qr_jinja_expect(p, close);
    node->kid = kids.v;
    node->n_kid = kids.n;
    return qr_jinja_done(p, node);
}

struct jnode *qr_jinja_parse_primary(struct jparse *p, bool with_namespace)
{
    struct jnode *node;
    switch (p->cur.type) {
    case JT_NAME:
        return name_or_constant(p, with_namespace);
    case JT_STRING:
        return string_literal(p);
    case JT_INT:
    case JT_FLOAT:
        node = qr_jinja_node(p, JN_CONST, p->cur.line);
        node->value = p->cur.type == JT_INT ? qr_jv_int(p->cur.i) : qr_jv_float(p->cur.f);
        qr_jinja_advance(p);
        return qr_jinja_done(p, node);
    case '(':
        qr_jinja_advance(p);
        node = qr_jinja_parse_tuple(p, true, true, NULL);
        qr_jinja_expect(p, ')');
        return node;
    case '[':
        return list_or_dict(p, false);
    case '{':
        return list_or_dict(p, true);
    default:
        qr_jinja_unexpected(p);
        return qr_jinja_node(p, JN_CONST, p->cur.line);
    }
}

static struct jcall *call_args(struct jparse *p)
{
    struct jcall *call = p->lex.failed ? NULL : qr_arena_alloc(p->jinja->arena, sizeof *call);
    struct jnodes pos = {0}, kw = {0}, names = {0};
    qr_jinja_expect(p, '(');
    if (!call) {
        qr_jinja_lex_fail(&p->lex, QR_NOMEM, p->cur.line, "out of memory");
        return NULL;
    }
    bool comma = false, bad = false;
    while (!p->lex.failed && p->cur.type != ')') {
        if (comma && !qr_jinja_expect(p, ','))
            break;
        if (p->cur.type == ')')
            break;
        comma = true;
        if (p->cur.type == '*') {
            bad |= call->star || call->star_star;
            qr_jinja_advance(p);
            call->star = qr_jinja_parse_expr(p, true);
        } else if (p->cur.type == JOP_POW) {
            bad |= call->star_star != NULL;
            qr_jinja_advance(p);
            call->star_star = qr_jinja_parse_expr(p, true);
        } else if (p->cur.type == JT_NAME && qr_jinja_peek(p)->type == '=') {
            bad |= call->star_star != NULL;
            struct jnode *name = qr_jinja_node(p, JN_CONST, p->cur.line);
            name->value = const_str(p, p->cur.s, p->cur.n);
            qr_jinja_advance(p);
            qr_jinja_advance(p);
            qr_jinja_push(p, &names, name);
            qr_jinja_push(p, &kw, qr_jinja_parse_expr(p, true));
        } else {
            bad |= call->star || call->star_star || kw.n;
            qr_jinja_push(p, &pos, qr_jinja_parse_expr(p, true));
        }
        if (bad)
            qr_jinja_syntax(p, "invalid order of the arguments of a call");
    }
    qr_jinja_expect(p, ')');
    call->pos = pos.v;
    call->n_pos = pos.n;
    call->kw = kw.v;
    call->n_kw = kw.n < names.n ? kw.n : names.n;
    call->kw_name = call->n_kw ? qr_arena_array(p->jinja->arena, (size_t)call->n_kw, sizeof *call->kw_name) : NULL;
    if (call->n_kw && !call->kw_name)
        qr_jinja_lex_fail(&p->lex, QR_NOMEM, p->cur.line, "out of memory");
    for (int i = 0; i < call->n_kw && call->kw_name; i++)
        call->kw_name[i] = names.v[i]->value.u.str;
    return call;
}

static struct jnode *slice_or_index(struct jparse *p)
{
    struct jnode *first = NULL;
    int line = p->cur.line;
    if (p->cur.type != ':') {
        first = qr_jinja_parse_expr(p, true);
        if (p->cur.type != ':')
            return first;
    }
    qr_jinja_advance(p);
    struct jnode *node = qr_jinja_node(p, JN_SLICE, line);
    node->a = first;
    if (p->cur.type != ':' && p->cur.type != ']' && p->cur.type != ',')
        node->b = qr_jinja_parse_expr(p, true);
    if (qr_jinja_skip(p, ':') && p->cur.type != ']' && p->cur.type != ',')
        node->c = qr_jinja_parse_expr(p, true);
    return qr_jinja_done(p, node);
}

static struct jnode *subscript(struct jparse *p, struct jnode *of)
{
    struct jnode *node = qr_jinja_node(p, JN_ITEM, p->cur.line);
    node->a = of;
    if (qr_jinja_skip(p, '.')) {
        if (p->cur.type == JT_NAME) {
            node->type = JN_ATTR;
            node->value = const_str(p, p->cur.s, p->cur.n);
        } else if (p->cur.type == JT_INT) {
            node->b = qr_jinja_node(p, JN_CONST, p->cur.line);
            node->b->value = qr_jv_int(p->cur.i);
        } else {
            qr_jinja_syntax(p, "expected a name or a number behind the dot");
        }
        qr_jinja_advance(p);
        return qr_jinja_done(p, node);
    }
    struct jnodes parts = {0};
    qr_jinja_advance(p);
    while (!p->lex.failed && p->cur.type != ']') {
        if (parts.n && !qr_jinja_expect(p, ','))
            break;
        qr_jinja_push(p, &parts, slice_or_index(p));
    }
    qr_jinja_expect(p, ']');
    if (parts.n == 1) {
        node->b = parts.v[0];
    } else {
        node->b = qr_jinja_node(p, JN_TUPLE, node->line);
        node->b->kid = parts.v;
        node->b->n_kid = parts.n;
        for (int i = 0; i < parts.n; i++) {
            if (parts.v[i]->type == JN_SLICE)
                qr_jinja_syntax(p, "a slice inside of a tuple index is not supported");
        }
        qr_jinja_done(p, node->b);
    }
    return qr_jinja_done(p, node);
}

static struct jnode *call_of(struct jparse *p, struct jnode *fn)
{
    struct jnode *node = qr_jinja_node(p, JN_CALL, p->cur.line);
    node->a = fn;
    node->call = call_args(p);
    return qr_jinja_done(p, node);
}

static struct jnode *postfix(struct jparse *p, struct jnode *node)
{
    while (!p->lex.failed) {
        if (p->cur.type == '.' || p->cur.type == '[')
            node = subscript(p, node);
        else if (p->cur.type == '(')
            node = call_of(p, node);
        else
            break;
    }
    return node;
}

/* a.b.c: the names that none of the builtins has. */
static void dotted(struct jparse *p, struct qr_buf *name)
{
    while (p->cur.type == '.' && !p->lex.failed) {
        qr_jinja_advance(p);
        qr_buf_putc(name, '.');
        qr_buf_append(name, p->cur.s, p->cur.type == JT_NAME ? p->cur.n : 0);
        qr_jinja_expect(p, JT_NAME);
    }
}

/* The name of a filter or test, and its builtin. Unknown ones are an error here, or, in a branch that may never run,
 * when reached; inside of an expression, only its end shows which (jinja_expr.c). */
static void named(struct jparse *p, struct jnode *node, bool filter)
{
    const char *s = p->cur.s;
    size_t n = p->cur.type == JT_NAME ? p->cur.n : 0;
    if (!qr_jinja_expect(p, JT_NAME))
        return;
    if (p->cur.type == '.') {
        struct qr_buf name;
        char *copy;
        qr_buf_init(&name, 0);
        qr_buf_append(&name, s, n);
        dotted(p, &name);
        copy = name.failed ? NULL : qr_arena_alloc(p->jinja->arena, name.len);
        if (copy) {
            memcpy(copy, name.data, name.len);
            s = copy;
            n = name.len;
        } else {
            qr_jinja_lex_fail(&p->lex, QR_NOMEM, p->cur.line, "out of memory");
        }
        qr_buf_free(&name);
    }
    node->value = const_str(p, s, n);
    node->builtin = filter ? qr_jinja_filter(s, n) : qr_jinja_test(s, n);
    if (node->builtin || p->in_if)
        return;
    if (!p->in_expr)
        qr_jinja_syntax(p, "there is no %s named '%.*s'", filter ? "filter" : "test", (int)(n > 60 ? 60 : n), s);
    else if (!p->unknown)
        p->unknown = node;
}

struct jnode *qr_jinja_parse_filters(struct jparse *p, struct jnode *node, bool inline_start)
{
    while (!p->lex.failed && (inline_start || p->cur.type == '|')) {
        if (!inline_start)
            qr_jinja_advance(p);
        inline_start = false;
        struct jnode *filter = qr_jinja_node(p, JN_FILTER, p->cur.line);
        filter->a = node;
        named(p, filter, true);
        if (p->cur.type == '(')
            filter->call = call_args(p);
        node = qr_jinja_done(p, filter);
    }
    return node;
}

static bool test_operand_follows(const struct jparse *p)
{
    switch (p->cur.type) {
    case JT_NAME:
        return !qr_jinja_at_name(p, "else") && !qr_jinja_at_name(p, "or") && !qr_jinja_at_name(p, "and");
    case JT_STRING:
    case JT_INT:
    case JT_FLOAT:
    case '[':
    case '{':
        return true;
    default:
        return false;
    }
}

static struct jnode *test_of(struct jparse *p, struct jnode *of)
{
    int line = p->cur.line;
    qr_jinja_advance(p);
    bool negated = qr_jinja_skip_name(p, "not");
    struct jnode *node = qr_jinja_node(p, JN_TEST, line);
    node->a = of;
    named(p, node, false);
    if (p->cur.type == '(') {
        node->call = call_args(p);
    } else if (test_operand_follows(p)) {
        if (qr_jinja_at_name(p, "is"))
            qr_jinja_syntax(p, "tests cannot be chained with 'is'");
        struct jnodes one = {0};
        qr_jinja_push(p, &one, postfix(p, qr_jinja_parse_primary(p, false)));
        node->call = p->lex.failed ? NULL : qr_arena_alloc(p->jinja->arena, sizeof *node->call);
        if (node->call) {
            node->call->pos = one.v;
            node->call->n_pos = one.n;
        } else {
            qr_jinja_lex_fail(&p->lex, QR_NOMEM, line, "out of memory");
        }
    }
    node = qr_jinja_done(p, node);
    if (!negated)
        return node;
    struct jnode *not = qr_jinja_node(p, JN_NOT, line);
    not ->a = node;
    return qr_jinja_done(p, not );
}

struct jnode *qr_jinja_parse_unary(struct jparse *p, bool with_filter)
{
    struct jnode *node;
    if (!qr_jinja_enter(p))
        return qr_jinja_node(p, JN_CONST, p->cur.line);
    if (p->cur.type == '-' || p->cur.type == '+') {
        node = qr_jinja_node(p, p->cur.type == '-' ? JN_NEG : JN_POS, p->cur.line);
        qr_jinja_advance(p);
        node->a = qr_jinja_parse_unary(p, false);
        node = qr_jinja_done(p, node);
    } else {
        node = qr_jinja_parse_primary(p, false);
    }
    node = postfix(p, node);
    while (with_filter && !p->lex.failed) {
        if (p->cur.type == '|')
            node = qr_jinja_parse_filters(p, node, false);
        else if (qr_jinja_at_name(p, "is"))
            node = test_of(p, node);
        else if (p->cur.type == '(')
            node = call_of(p, node);
        else
            break;
    }
    p->depth--;
    return node;
}
