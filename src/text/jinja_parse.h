/* jinja_parse.h - from text to tokens to the syntax tree: what the files of the parser share.
 *
 * Failure is sticky: the first one marks the parser as failed, later calls return harmless values, and loops stop as
 * soon as they see the mark. All memory lies in an arena. */
#ifndef QR_TEXT_JINJA_PARSE_H
#define QR_TEXT_JINJA_PARSE_H
#include "text/jinja_node.h"

/* ---------------------------------------------------------------- tokens: jinja_lex.c, jinja_escape.c */

enum jtok_type {
    JT_EOF = 512,
    JT_DATA,
    JT_VAR_BEGIN,
    JT_VAR_END,
    JT_BLOCK_BEGIN,
    JT_BLOCK_END,
    JT_NAME,
    JT_STRING,
    JT_INT,
    JT_FLOAT
}; /* smaller values: an operator (enum jop, or a character) */

struct jtok {
    int type;
    int line;
    const char *s; /* name, data, string (already unescaped) */
    size_t n;
    int64_t i;
    double f;
};

struct jlex {
    struct qr_arena *arena;
    struct qr_err *err;
    bool failed;
    const char *src; /* newlines are \n */
    size_t n, pos;
    int line;
    int state;     /* 0 outside of tags, else JT_VAR_BEGIN or JT_BLOCK_BEGIN */
    char *balance; /* open brackets */
    size_t n_balance, balance_room;
    bool raw; /* inside {% raw %} */
    bool after_dot;
};

bool qr_jinja_lex_init(struct jlex *lex, struct qr_arena *arena, const char *text, size_t n, struct qr_err *err);
void qr_jinja_lex_next(struct jlex *lex, struct jtok *tok); /* JT_EOF also after a failure */
void qr_jinja_lex_fail(struct jlex *lex, enum qr_status status, int line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* A string literal's escapes as Python reads them; false: a bad one. out: at least n bytes. */
bool qr_jinja_unescape(const char *s, size_t n, char *out, size_t *n_out);

/* ---------------------------------------------------------------- nodes */

struct jmacro_uses {
    bool caller, varargs, kwargs;
    struct jmacro_uses *outer;
};

struct jparse {
    struct jlex lex;
    struct qr_jinja *jinja;
    struct jtok cur, ahead;
    bool has_ahead;
    int depth;
    int in_loop;
    int in_if;                   /* an unknown filter inside a branch is an error only when reached */
    int in_expr;                 /* nesting of expressions */
    const struct jnode *unknown; /* the first unknown filter or test of the expression at hand, outside of any a if b */
    bool closes;                 /* a macro was seen since the flag was cleared */
    struct jmacro_uses *uses;
    struct jnode void_node;
};

#define QR_JINJA_DEPTH    200
#define QR_JINJA_MAX_TEXT ((size_t)1 << 20)

/* jinja_parse.c: what statements need from the token stream. */
void qr_jinja_advance(struct jparse *p);
const struct jtok *qr_jinja_peek(struct jparse *p);
bool qr_jinja_at_name(const struct jparse *p, const char *name);
bool qr_jinja_skip(struct jparse *p, int type);
bool qr_jinja_skip_name(struct jparse *p, const char *name);
bool qr_jinja_expect(struct jparse *p, int type);
bool qr_jinja_tok_is(const struct jtok *tok, const char *name);
void qr_jinja_syntax(struct jparse *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void qr_jinja_unexpected(struct jparse *p);
bool qr_jinja_enter(struct jparse *p); /* one level deeper; false: too deep */
int qr_jinja_name_id(struct jparse *p, const char *s, size_t n);

/* jinja_node.c */
struct jnodes {
    struct jnode **v;
    int n, room;
};
struct jnode *qr_jinja_node(struct jparse *p, enum jnode_type type, int line);
void qr_jinja_push(struct jparse *p, struct jnodes *list, struct jnode *node);
/* Sets the height from the parts; a failure when it is too high. */
struct jnode *qr_jinja_done(struct jparse *p, struct jnode *node);

/* jinja_stmt.c, jinja_expr.c, jinja_operand.c */
struct jnode *qr_jinja_parse_body(struct jparse *p, const char *const *end, bool top);
struct jnode *qr_jinja_parse_expr(struct jparse *p, bool with_cond);
struct jnode *qr_jinja_parse_tuple(struct jparse *p, bool with_cond, bool parens, const char *end_name);
struct jnode *qr_jinja_parse_target(struct jparse *p, bool with_namespace, const char *end_name);
struct jnode *qr_jinja_parse_filters(struct jparse *p, struct jnode *node, bool inline_start);
struct jnode *qr_jinja_parse_unary(struct jparse *p, bool with_filter);
struct jnode *qr_jinja_parse_primary(struct jparse *p, bool with_namespace);
#endif
