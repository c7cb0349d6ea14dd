/* jinja_stmt.c - statements: the body of a template, and what stands in {% %}. */
#include <string.h>
#include "text/jinja_parse.h"

static struct jnode *block_of(struct jparse *p, const char *end)
{
    const char *ends[] = {end, NULL};
    qr_jinja_skip(p, ':');
    if (!qr_jinja_expect(p, JT_BLOCK_END))
        return qr_jinja_node(p, JN_BODY, p->cur.line);
    struct jnode *body = qr_jinja_parse_body(p, ends, false);
    qr_jinja_advance(p);
    return body;
}

/* What has a scope of its own: an unknown filter is an error there, whatever stands around it. */
static struct jnode *inner_block(struct jparse *p, const char *end)
{
    int in_if = p->in_if;
    p->in_if = 0;
    struct jnode *body = block_of(p, end);
    p->in_if = in_if;
    return body;
}

static struct jnode *inner_filters(struct jparse *p, bool inline_start)
{
    int in_if = p->in_if;
    p->in_if = 0;
    struct jnode *chain = qr_jinja_parse_filters(p, NULL, inline_start);
    p->in_if = in_if;
    return chain;
}

static struct jnode *parse_if(struct jparse *p, int line)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct jnode *node = qr_jinja_node(p, JN_IF, line);
    struct jnodes kids = {0};
    p->in_if++;
    while (!p->lex.failed) {
        qr_jinja_push(p, &kids, qr_jinja_parse_tuple(p, false, false, NULL));
        qr_jinja_skip(p, ':');
        if (!qr_jinja_expect(p, JT_BLOCK_END))
            break;
        qr_jinja_push(p, &kids, qr_jinja_parse_body(p, ends, false));
        if (qr_jinja_skip_name(p, "elif"))
            continue;
        if (qr_jinja_skip_name(p, "else"))
            node->a = block_of(p, "endif");
        else
            qr_jinja_advance(p);
        break;
    }
    p->in_if--;
    node->kid = kids.v;
    node->n_kid = kids.n;
    return qr_jinja_done(p, node);
}

static struct jnode *parse_for(struct jparse *p, int line)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    struct jnode *node = qr_jinja_node(p, JN_FOR, line);
    p->in_loop++;
    node->a = qr_jinja_parse_target(p, false, "in");
    p->in_loop--;
    if (!qr_jinja_skip_name(p, "in"))
        qr_jinja_syntax(p, "expected 'in' behind the names of a for loop");
    node->b = qr_jinja_parse_tuple(p, false, false, "recursive");
    int in_if = p->in_if;
    p->in_if = 0;
    if (qr_jinja_skip_name(p, "if"))
        node->e = qr_jinja_parse_expr(p, true);
    node->recursive = qr_jinja_skip_name(p, "recursive");
    qr_jinja_skip(p, ':');
    p->in_loop++;
    if (qr_jinja_expect(p, JT_BLOCK_END))
        node->c = qr_jinja_parse_body(p, ends, false);
    p->in_loop--;
    if (qr_jinja_skip_name(p, "else"))
        node->d = block_of(p, "endfor");
    else
        qr_jinja_advance(p);
    p->in_if = in_if;
    node->closes = node->recursive;
    return qr_jinja_done(p, node);
}

static struct jnode *parse_set(struct jparse *p, int line)
{
    struct jnode *node = qr_jinja_node(p, JN_SET, line);
    node->a = qr_jinja_parse_target(p, true, NULL);
    if (qr_jinja_skip(p, '=')) {
        node->b = qr_jinja_parse_tuple(p, true, false, NULL);
        return qr_jinja_done(p, node);
    }
    node->type = JN_SET_BLOCK;
    node->b = p->cur.type == '|' ? inner_filters(p, false) : NULL;
    node->c = inner_block(p, "endset");
    return qr_jinja_done(p, node);
}

static struct jnode *parse_with(struct jparse *p, int line)
{
    struct jnode *node = qr_jinja_node(p, JN_WITH, line);
    struct jnodes kids = {0};
    while (!p->lex.failed && p->cur.type != JT_BLOCK_END && p->cur.type != ':') {
        if (kids.n && !qr_jinja_expect(p, ','))
            break;
        qr_jinja_push(p, &kids, qr_jinja_parse_target(p, false, NULL));
        qr_jinja_expect(p, '=');
        qr_jinja_push(p, &kids, qr_jinja_parse_expr(p, true));
    }
    node->kid = kids.v;
    node->n_kid = kids.n;
    node->c = inner_block(p, "endwith");
    return qr_jinja_done(p, node);
}

/* (a, b=1): params gets the ids, kids the defaults. */
static void signature(struct jparse *p, struct jnode *node)
{
    struct jnodes kids = {0};
    int ids[64];
    bool defaults = false;
    qr_jinja_expect(p, '(');
    while (!p->lex.failed && p->cur.type != ')') {
        if (kids.n && !qr_jinja_expect(p, ','))
            break;
        if (kids.n == (int)(sizeof ids / sizeof ids[0])) {
            qr_jinja_syntax(p, "a macro takes at most 64 arguments");
            break;
        }
        ids[kids.n] = p->cur.type == JT_NAME ? qr_jinja_name_id(p, p->cur.s, p->cur.n) : 0;
        if (!qr_jinja_expect(p, JT_NAME))
            break;
        struct jnode *value = NULL;
        if (qr_jinja_skip(p, '=')) {
            int in_if = p->in_if;
            p->in_if = 0;
            value = qr_jinja_parse_expr(p, true);
            p->in_if = in_if;
            defaults = true;
        } else if (defaults) {
            qr_jinja_syntax(p, "an argument without a default follows one with a default");
        }
        qr_jinja_push(p, &kids, value);
    }
    qr_jinja_expect(p, ')');
    if (p->lex.failed || !kids.n)
        return;
    node->params = qr_arena_array(p->jinja->arena, (size_t)kids.n, sizeof *node->params);
    if (!node->params) {
        qr_jinja_lex_fail(&p->lex, QR_NOMEM, node->line, "out of memory");
        return;
    }
    memcpy(node->params, ids, (size_t)kids.n * sizeof ids[0]);
    node->kid = kids.v;
    node->n_kid = kids.n;
}

/* The body of a macro or call block: notes which of caller, varargs, kwargs it names, and whether it holds macros. */
static void macro_body(struct jparse *p, struct jnode *node, const char *end)
{
    struct jmacro_uses uses = {.outer = p->uses};
    p->uses = &uses;
    p->closes = false;
    node->c = inner_block(p, end);
    node->closes = p->closes;
    node->uses_caller = uses.caller;
    node->uses_varargs = uses.varargs;
    node->uses_kwargs = uses.kwargs;
    p->uses = uses.outer;
    p->closes = true;
}

static struct jnode *parse_macro(struct jparse *p, int line)
{
    struct jnode *node = qr_jinja_node(p, JN_MACRO, line);
    if (p->cur.type == JT_NAME)
        node->name = qr_jinja_name_id(p, p->cur.s, p->cur.n);
    if (qr_jinja_expect(p, JT_NAME))
        signature(p, node);
    macro_body(p, node, "endmacro");
    return qr_jinja_done(p, node);
}

static struct jnode *parse_call_block(struct jparse *p, int line)
{
    struct jnode *node = qr_jinja_node(p, JN_CALL_BLOCK, line);
    if (p->cur.type == '(')
        signature(p, node);
    node->name = -1;
    node->a = qr_jinja_parse_expr(p, true);
    if (!p->lex.failed && node->a->type != JN_CALL)
        qr_jinja_syntax(p, "{%% call %%} needs a call");
    macro_body(p, node, "endcall");
    return qr_jinja_done(p, node);
}

static struct jnode *parse_filter_block(struct jparse *p, int line)
{
    struct jnode *node = qr_jinja_node(p, JN_FILTER_BLOCK, line);
    node->b = inner_filters(p, true);
    node->c = inner_block(p, "endfilter");
    return qr_jinja_done(p, node);
}

static struct jnode *parse_print(struct jparse *p, int line)
{
    struct jnode *body = qr_jinja_node(p, JN_BODY, line);
    struct jnodes kids = {0};
    while (!p->lex.failed && p->cur.type != JT_BLOCK_END) {
        if (kids.n && !qr_jinja_expect(p, ','))
            break;
        struct jnode *out = qr_jinja_node(p, JN_OUTPUT, p->cur.line);
        out->a = qr_jinja_parse_expr(p, true);
        qr_jinja_push(p, &kids, qr_jinja_done(p, out));
    }
    body->kid = kids.v;
    body->n_kid = kids.n;
    return qr_jinja_done(p, body);
}

static struct jnode *parse_block(struct jparse *p, int line)
{
    struct jnode *node = qr_jinja_node(p, JN_SCOPE, line);
    qr_jinja_expect(p, JT_NAME);
    qr_jinja_skip_name(p, "scoped");
    qr_jinja_skip_name(p, "required");
    node->c = inner_block(p, "endblock");
    qr_jinja_skip(p, JT_NAME);
    return qr_jinja_done(p, node);
}

static struct jnode *parse_generation(struct jparse *p, int line)
{
    struct jnode *node = qr_jinja_node(p, JN_SCOPE, line);
    node->c = inner_block(p, "endgeneration");
    return qr_jinja_done(p, node);
}

static struct jnode *loop_control(struct jparse *p, enum jnode_type type, int line)
{
    if (!p->in_loop)
        qr_jinja_syntax(p, "break and continue belong inside of a for loop");
    return qr_jinja_done(p, qr_jinja_node(p, type, line));
}

static struct jnode *statement(struct jparse *p)
{
    static const struct {
        const char *name;
        struct jnode *(*parse)(struct jparse *p, int line);
    } table[] = {
        {"if", parse_if},
        {"for", parse_for},
        {"set", parse_set},
        {"macro", parse_macro},
        {"with", parse_with},
        {"call", parse_call_block},
        {"filter", parse_filter_block},
        {"print", parse_print},
        {"block", parse_block},
        {"generation", parse_generation},
    };
    int line = p->cur.line;
    struct jtok name = p->cur;
    if (!qr_jinja_expect(p, JT_NAME))
        return qr_jinja_node(p, JN_BODY, line);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (!qr_jinja_tok_is(&name, table[i].name))
            continue;
        bool closes = p->closes;
        p->closes = false;
        struct jnode *node = table[i].parse(p, line);
        if (node->type != JN_MACRO && node->type != JN_CALL_BLOCK)
            node->closes |= p->closes;
        p->closes |= closes;
        return node;
    }
    if (qr_jinja_tok_is(&name, "break"))
        return loop_control(p, JN_BREAK, line);
    if (qr_jinja_tok_is(&name, "continue"))
        return loop_control(p, JN_CONTINUE, line);
    static const char *const files[] = {"include", "import", "from", "extends"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (qr_jinja_tok_is(&name, files[i]))
            qr_jinja_syntax(p, "{%% %s %%} needs another template, and a chat template is alone", files[i]);
    }
    qr_jinja_syntax(p, "unknown or misplaced tag '%.*s'", (int)(name.n > 60 ? 60 : name.n), name.s);
    return qr_jinja_node(p, JN_BODY, line);
}

static bool at_end(const struct jparse *p, const char *const *end)
{
    for (int i = 0; end && end[i]; i++) {
        if (qr_jinja_at_name(p, end[i]))
            return true;
    }
    return false;
}

/* Up to one of the end tags, whose name is left as the current token; to the end of the template when top. */
struct jnode *qr_jinja_parse_body(struct jparse *p, const char *const *end, bool top)
{
    struct jnode *body = qr_jinja_node(p, JN_BODY, p->cur.line);
    struct jnodes kids = {0};
    bool ended = false;
    if (!qr_jinja_enter(p))
        return body;
    while (!p->lex.failed && !ended && p->cur.type != JT_EOF) {
        struct jnode *node;
        if (p->cur.type == JT_DATA) {
            node = qr_jinja_node(p, JN_DATA, p->cur.line);
            struct jv_str *text = qr_arena_alloc(p->jinja->arena, sizeof *text);
            if (text)
                *text = (struct jv_str){.s = p->cur.s, .n = p->cur.n};
            else
                qr_jinja_lex_fail(&p->lex, QR_NOMEM, p->cur.line, "out of memory");
            node->value = (struct jv){.type = JV_STR, .u.str = text};
            qr_jinja_advance(p);
            qr_jinja_push(p, &kids, qr_jinja_done(p, node));
        } else if (p->cur.type == JT_VAR_BEGIN) {
            node = qr_jinja_node(p, JN_OUTPUT, p->cur.line);
            qr_jinja_advance(p);
            node->a = qr_jinja_parse_tuple(p, true, false, NULL);
            qr_jinja_expect(p, JT_VAR_END);
            qr_jinja_push(p, &kids, qr_jinja_done(p, node));
        } else if (qr_jinja_expect(p, JT_BLOCK_BEGIN)) {
            ended = at_end(p, end);
            if (!ended) {
                qr_jinja_push(p, &kids, statement(p));
                qr_jinja_expect(p, JT_BLOCK_END);
            }
        }
    }
    if (!ended && !top)
        qr_jinja_syntax(p, "the template ends where {%% %s %%} was expected for the tag of line %d", end[0],
                        body->line);
    body->kid = kids.v;
    body->n_kid = kids.n;
    p->depth--;
    return qr_jinja_done(p, body);
}
