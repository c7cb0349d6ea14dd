/* jinja_expr.c - expressions by precedence, loosest first: a if b else c, or, and, not, comparisons, + -, ~, * / // %,
 * ** (left to right, as jinja2 has it). Operators of one level form one flat node, so that long sums stay shallow. */
#include "text/jinja_parse.h"

static struct jnode *flat(struct jparse *p, enum jnode_type type, int line, struct jnode *first, struct jnodes *kids,
                          int *ops)
{
    struct jnode *node = qr_jinja_node(p, type, line);
    node->a = first;
    node->kid = kids->v;
    node->n_kid = kids->n;
    node->ops = ops;
    return qr_jinja_done(p, node);
}

/* Operators beside their operands; the array grows with the list of operands. */
static int *push_op(struct jparse *p, int *ops, int n, int op)
{
    if (p->lex.failed)
        return ops;
    if (n >= 4 && (n & (n - 1))) {
        ops[n] = op;
        return ops;
    }
    if (n > 0 && n < 4) {
        ops[n] = op;
        return ops;
    }
    int *more = qr_arena_array(p->jinja->arena, n ? (size_t)n * 2 : 4, sizeof *more);
    if (!more) {
        qr_jinja_lex_fail(&p->lex, QR_NOMEM, p->cur.line, "out of memory");
        return ops;
    }
    for (int i = 0; i < n; i++)
        more[i] = ops[i];
    more[n] = op;
    return more;
}

/* One level of binary operators: op(p) consumes an operator and gives its code, or 0. */
static struct jnode *chain(struct jparse *p, enum jnode_type type, int (*op)(struct jparse *p),
                           struct jnode *(*operand)(struct jparse *p))
{
    int line = p->cur.line, code;
    struct jnode *first = operand(p);
    struct jnodes kids = {0};
    int *ops = NULL;
    while (!p->lex.failed && (code = op(p)) != 0) {
        ops = push_op(p, ops, kids.n, code);
        qr_jinja_push(p, &kids, operand(p));
    }
    return kids.n ? flat(p, type, line, first, &kids, ops) : first;
}

static int take(struct jparse *p, int a, int b, int c, int d)
{
    int type = p->cur.type;
    if (type != a && type != b && type != c && type != d)
        return 0;
    qr_jinja_advance(p);
    return type;
}

static struct jnode *unary(struct jparse *p)
{
    return qr_jinja_parse_unary(p, true);
}

static int pow_op(struct jparse *p)
{
    return take(p, JOP_POW, JOP_POW, JOP_POW, JOP_POW);
}

static struct jnode *power(struct jparse *p)
{
    return chain(p, JN_CHAIN, pow_op, unary);
}

static int mul_op(struct jparse *p)
{
    return take(p, '*', '/', JOP_FLOORDIV, '%');
}

static struct jnode *product(struct jparse *p)
{
    return chain(p, JN_CHAIN, mul_op, power);
}

static int tilde_op(struct jparse *p)
{
    return take(p, '~', '~', '~', '~');
}

static struct jnode *concat(struct jparse *p)
{
    return chain(p, JN_CONCAT, tilde_op, product);
}

static int add_op(struct jparse *p)
{
    return take(p, '+', '-', '+', '-');
}

static struct jnode *sum(struct jparse *p)
{
    return chain(p, JN_CHAIN, add_op, concat);
}

static int compare_op(struct jparse *p)
{
    int op = take(p, JOP_EQ, JOP_NE, JOP_LE, JOP_GE);
    if (!op)
        op = take(p, '<', '>', '<', '>');
    if (op)
        return op;
    if (qr_jinja_skip_name(p, "in"))
        return JOP_IN;
    if (!qr_jinja_at_name(p, "not") || !qr_jinja_tok_is(qr_jinja_peek(p), "in"))
        return 0;
    qr_jinja_advance(p);
    qr_jinja_advance(p);
    return JOP_NOT_IN;
}

static struct jnode *comparison(struct jparse *p)
{
    return chain(p, JN_COMPARE, compare_op, sum);
}

static struct jnode *negation(struct jparse *p)
{
    if (!qr_jinja_at_name(p, "not"))
        return comparison(p);
    struct jnode *node = qr_jinja_node(p, JN_NOT, p->cur.line);
    if (!qr_jinja_enter(p))
        return node;
    qr_jinja_advance(p);
    node->a = negation(p);
    p->depth--;
    return qr_jinja_done(p, node);
}

static int and_op(struct jparse *p)
{
    return qr_jinja_skip_name(p, "and");
}

static struct jnode *conjunction(struct jparse *p)
{
    return chain(p, JN_AND, and_op, negation);
}

static int or_op(struct jparse *p)
{
    return qr_jinja_skip_name(p, "or");
}

static struct jnode *disjunction(struct jparse *p)
{
    return chain(p, JN_OR, or_op, conjunction);
}

/* jinja2 refuses an unknown filter when it compiles, but inside of a condition only when it gets there. */
static void check_unknown(struct jparse *p)
{
    const struct jnode *node = p->unknown;
    if (node && !p->lex.failed) {
        const struct jv_str *name = node->value.u.str;
        qr_jinja_syntax(p, "there is no %s named '%.*s'", node->type == JN_FILTER ? "filter" : "test",
                        (int)(name->n > 60 ? 60 : name->n), name->s);
    }
    p->unknown = NULL;
}

struct jnode *qr_jinja_parse_expr(struct jparse *p, bool with_cond)
{
    if (!qr_jinja_enter(p))
        return qr_jinja_node(p, JN_CONST, p->cur.line);
    int line = p->cur.line;
    const struct jnode *unknown = p->unknown;
    p->unknown = NULL;
    p->in_expr++;
    struct jnode *value = disjunction(p);
    while (with_cond && !p->lex.failed && qr_jinja_skip_name(p, "if")) {
        struct jnode *cond = qr_jinja_node(p, JN_COND, line);
        cond->a = value;
        cond->b = disjunction(p);
        if (qr_jinja_skip_name(p, "else"))
            cond->c = qr_jinja_parse_expr(p, true);
        value = qr_jinja_done(p, cond);
        p->unknown = NULL;
    }
    if (unknown)
        p->unknown = unknown;
    if (--p->in_expr == 0)
        check_unknown(p);
    p->depth--;
    return value;
}

static bool tuple_ends(const struct jparse *p, const char *end_name)
{
    return p->cur.type == JT_VAR_END || p->cur.type == JT_BLOCK_END || p->cur.type == ')' ||
           (end_name && qr_jinja_at_name(p, end_name));
}

struct jnode *qr_jinja_parse_tuple(struct jparse *p, bool with_cond, bool parens, const char *end_name)
{
    int line = p->cur.line;
    struct jnodes kids = {0};
    bool tuple = false;
    while (!p->lex.failed) {
        if (kids.n && !qr_jinja_expect(p, ','))
            break;
        if (tuple_ends(p, end_name))
            break;
        qr_jinja_push(p, &kids, qr_jinja_parse_expr(p, with_cond));
        if (p->cur.type != ',')
            break;
        tuple = true;
    }
    if (!tuple && kids.n)
        return kids.v[0];
    if (!tuple && !parens)
        qr_jinja_syntax(p, "an expression is missing");
    return flat(p, JN_TUPLE, line, NULL, &kids, NULL);
}

/* What set, for and with may assign to: names, tuples of them, and (for set) an attribute of a namespace. */
static void check_target(struct jparse *p, const struct jnode *node, bool with_namespace)
{
    if (p->lex.failed)
        return;
    if (node->type == JN_TUPLE) {
        for (int i = 0; i < node->n_kid; i++)
            check_target(p, node->kid[i], with_namespace);
    } else if (node->type != JN_NAME && !(with_namespace && node->type == JN_NSREF)) {
        qr_jinja_syntax(p, "this cannot be assigned to");
    } else if (node->type == JN_NAME && p->in_loop && qr_jv_str_is(p->jinja->name[node->name], "loop")) {
        qr_jinja_syntax(p, "'loop' cannot be assigned to inside of a for loop");
    }
}

struct jnode *qr_jinja_parse_target(struct jparse *p, bool with_namespace, const char *end_name)
{
    int line = p->cur.line;
    struct jnodes kids = {0};
    bool tuple = false;
    while (!p->lex.failed) {
        if (kids.n && !qr_jinja_expect(p, ','))
            break;
        if (tuple_ends(p, end_name))
            break;
        qr_jinja_push(p, &kids, qr_jinja_parse_primary(p, with_namespace));
        if (p->cur.type != ',')
            break;
        tuple = true;
    }
    struct jnode *node;
    if (!tuple && kids.n)
        node = kids.v[0];
    else
        node = flat(p, JN_TUPLE, line, NULL, &kids, NULL);
    if (!tuple && !kids.n)
        qr_jinja_syntax(p, "a name to assign to is missing");
    check_target(p, node, with_namespace);
    return node;
}
