/* jinja_internal.h - what the files of the Jinja engine share: values, the syntax tree, the state of a render.
 *
 * Failure is sticky: the first qr_jinja_raise marks the parser or the render as failed, later calls return
 * harmless values (undefined, empty lists), and loops stop as soon as they see the mark. All memory lies in an
 * arena, so no path has anything to free but the qr_bufs that it opened itself. */
#ifndef QR_TEXT_JINJA_INTERNAL_H
#define QR_TEXT_JINJA_INTERNAL_H
#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/buf.h"
#include "text/jinja.h"

/* ------------------------------------------------------------------ values */

enum jv_type {
    JV_MISSING, /* an argument that was not given; never seen by a template */
    JV_UNDEFINED,
    JV_NONE,
    JV_BOOL,
    JV_INT,
    JV_FLOAT,
    JV_STR,
    JV_LIST, /* list, tuple or dict view: see jv_list.kind */
    JV_DICT,
    JV_RANGE,
    JV_ITER, /* what map, select, reverse ... give: can be walked once */
    JV_FUNC, /* a builtin, or a method bound to its object */
    JV_MACRO,
    JV_NAMESPACE,
    JV_LOOP,
    JV_CYCLER,
    JV_JOINER
};

/* How an undefined value came to be (jv.aux), for its error message. */
enum jv_why { JV_WHY_NAME, JV_WHY_ATTR, JV_WHY_ELEMENT, JV_WHY_UNSAFE, JV_WHY_HINT };

struct jv {
    uint8_t type; /* enum jv_type */
    uint8_t aux;  /* undefined: enum jv_why */
    uint8_t of;   /* undefined: the type of the object that was asked */
    union {
        bool b;
        int64_t i;
        double f;
        struct jv_str *str; /* undefined: the name that was asked, or the hint */
        struct jv_list *list;
        struct jv_dict *dict; /* also JV_NAMESPACE */
        struct jv_range *range;
        struct jv_iter *iter;
        struct jv_func *func;
        struct jv_macro *macro;
        struct jv_loop *loop;
        struct jv_cycler *cycler;
        struct jv_joiner *joiner;
    } u;
};

struct jv_str {
    const char *s; /* UTF-8, not NUL-terminated */
    size_t n;      /* bytes */
    int64_t n_cp;  /* code points, -1: not counted yet (never in a template's own constants) */
};

enum jv_list_kind { JV_KIND_LIST, JV_KIND_TUPLE, JV_KIND_GROUP, JV_KIND_KEYS, JV_KIND_VALUES, JV_KIND_ITEMS };

struct jv_list {
    enum jv_list_kind kind;
    size_t n, room;
    struct jv *v;
};

struct jv_dict {
    size_t n, room;
    struct jv *key, *value; /* in order of insertion */
    uint32_t *slot;         /* [n_slot] position + 1 or 0; NULL while small */
    size_t n_slot;          /* a power of two */
};

struct jv_range {
    int64_t start, stop, step, n;
};

struct jv_iter {
    struct jv_list *items;
    size_t pos;
};

struct jv_func {
    const struct jbuiltin *builtin;
    struct jv self;
};

struct jv_macro {
    const struct jnode *node; /* JN_MACRO, or JN_CALL_BLOCK for a caller */
    struct jscope *scope;     /* where it was defined */
};

struct jv_cycler {
    struct jv_list *items;
    size_t pos;
};

struct jv_joiner {
    struct jv sep;
    bool used;
};

/* A walk over anything iterable. */
struct jv_cursor {
    struct jv v;
    size_t pos;
};

struct jv_loop {
    struct jv source;
    struct jv_cursor cursor;
    struct jv_list *rest; /* what length forced out of the cursor; NULL before */
    size_t rest_pos;
    const struct jnode *node;
    struct jscope *scope; /* where the loop stands */
    int64_t index0;       /* -1 before the first item */
    int64_t length;       /* -1: not known */
    int depth0;
    bool has_after;
    struct jv before, current, after;
    struct jv_list *changed; /* last arguments of loop.changed */
};

/* ------------------------------------------------------------------ syntax tree */

enum jnode_type {
    JN_DATA, /* statements */
    JN_OUTPUT,
    JN_BODY,
    JN_IF,           /* kid: test, body, test, body ...; a: else body */
    JN_FOR,          /* a: target, b: iterable, c: body, d: else body, e: filter */
    JN_SET,          /* a: target, b: value */
    JN_SET_BLOCK,    /* a: target, b: filter chain or NULL, c: body */
    JN_WITH,         /* kid: target, value, target, value ...; c: body */
    JN_MACRO,        /* kid: defaults (NULL: none), params: names; c: body */
    JN_CALL_BLOCK,   /* as macro; a: the call */
    JN_FILTER_BLOCK, /* b: filter chain, c: body */
    JN_SCOPE,        /* c: body in a scope of its own ({% block %}, {% generation %}) */
    JN_BREAK,
    JN_CONTINUE,
    JN_CONST, /* expressions */
    JN_NAME,
    JN_NSREF, /* only as a target: name.attr */
    JN_LIST,
    JN_TUPLE,
    JN_DICT,    /* kid: key, value ... */
    JN_COND,    /* a if b else c */
    JN_AND,     /* kid */
    JN_OR,      /* kid */
    JN_NOT,     /* a */
    JN_COMPARE, /* a, kid, ops */
    JN_CHAIN,   /* a, kid, ops: arithmetic of equal precedence, left to right */
    JN_CONCAT,  /* kid */
    JN_NEG,
    JN_POS,
    JN_ATTR,   /* a.name */
    JN_ITEM,   /* a[b] */
    JN_SLICE,  /* only as b of JN_ITEM: a:b:c */
    JN_CALL,   /* a(args) */
    JN_FILTER, /* a | builtin(args); a NULL: the text of the block */
    JN_TEST    /* a is builtin(args) */
};

/* Operators: the character itself, or one of these. */
enum jop { JOP_EQ = 256, JOP_NE, JOP_LE, JOP_GE, JOP_FLOORDIV, JOP_POW, JOP_IN, JOP_NOT_IN };

struct jcall {
    struct jnode **pos;
    int n_pos;
    struct jnode **kw;
    struct jv_str **kw_name;
    int n_kw;
    struct jnode *star, *star_star;
};

struct jnode {
    uint8_t type;                                /* enum jnode_type */
    bool fixed, sliced;                          /* expression: may be a constant (jinja_fold.c); a slice is in it */
    bool closes;                                 /* a macro or call block lies inside: its scope may be kept */
    bool recursive;                              /* for */
    bool uses_caller, uses_varargs, uses_kwargs; /* macro */
    uint16_t height;                             /* longest way down to a leaf */
    int line;
    int name; /* id of a name: jinja->name[name] */
    int attr; /* JN_NSREF: id of the attribute */
    struct jnode *a, *b, *c, *d, *e;
    struct jnode **kid;
    int n_kid;
    int *ops;    /* [n_kid] */
    int *params; /* [n_kid] ids */
    struct jcall *call;
    const struct jbuiltin *builtin; /* filter or test; NULL: unknown, an error when reached */
    struct jv value;                /* JN_CONST; JN_DATA: the text; JN_FILTER, JN_TEST: the name */
};

struct qr_jinja {
    struct qr_arena *arena;
    struct jnode *body;
    struct jv_str **name; /* [n_name] */
    int n_name, name_room;
    int loop_name, caller_name, varargs_name, kwargs_name; /* ids */
};

/* ------------------------------------------------------------------ lexer (jinja_lex.c) */

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

/* ------------------------------------------------------------------ parser */

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

/* ------------------------------------------------------------------ render */

struct jbinding {
    int name;
    struct jv v;
};
struct jscope {
    struct jscope *parent;
    struct jbinding *b;
    int n, room;
    bool in_use;
};

struct jrt {
    const struct qr_jinja *jinja;
    struct qr_arena *arena;
    struct qr_err *err;
    enum qr_status status;
    bool failed, folding; /* folding: see jinja_fold.c */
    int line;
    uint64_t steps, max_steps;
    size_t text, max_text; /* bytes of output and intermediate strings */
    size_t max_values;     /* bytes of all values together: lists, scopes, strings */
    int depth, max_depth;  /* of eval and exec */
    int calls, max_calls;  /* of macros and recursive loops */
    struct qr_buf *out;
    struct jv_dict *context;
    struct jscope *free_scope;
    struct jv filtered; /* the text that a filter chain without a left side works on */
    char *tail;         /* free room behind the newest string, so that a + b can grow a in place */
    size_t tail_room;
    struct jv_list void_list;
    struct jv_dict void_dict;
    struct jv_str void_str;
};

/* Evaluated arguments of a call. */
struct jargs {
    struct jv *pos;
    int n_pos;
    struct jv_str **kw_name;
    struct jv *kw;
    int n_kw;
};

/* A filter, test, method or global. params: "a,b,c" in order, of which the first n_required must be given; arg[i] is
 * JV_MISSING where not. params NULL: takes anything, look at args. */
struct jbuiltin {
    const char *name;
    struct jv (*fn)(struct jrt *rt, struct jv self, const struct jv *arg, const struct jargs *args);
    const char *params;
    int n_required;
};
#define QR_JINJA_MAX_PARAMS 6

/* jinja_render.c */
void qr_jinja_raise(struct jrt *rt, enum qr_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void qr_jinja_raise_plain(struct jrt *rt, const char *s, size_t n); /* raise_exception: the message as it is */
bool qr_jinja_step(struct jrt *rt, uint64_t n);
bool qr_jinja_work(struct jrt *rt, size_t bytes); /* steps for walking over that many bytes */
bool qr_jinja_charge(struct jrt *rt, size_t bytes);
void *qr_jinja_alloc(struct jrt *rt, size_t n, size_t size); /* zeroed; NULL: failed */
void qr_jinja_emit(struct jrt *rt, const char *s, size_t n);
struct jv qr_jinja_from_json(struct jrt *rt, const json_t *json);

/* jinja_scope.c */
struct jscope *qr_jinja_scope(struct jrt *rt, struct jscope *parent);
void qr_jinja_scope_release(struct jrt *rt, struct jscope *scope);
void qr_jinja_bind(struct jrt *rt, struct jscope *scope, int name, struct jv v);
struct jv qr_jinja_lookup(struct jrt *rt, const struct jscope *scope, int name);
void qr_jinja_assign(struct jrt *rt, struct jscope *scope, const struct jnode *target, struct jv v);

/* jinja_eval.c, jinja_arith.c, jinja_compare.c */
struct jv qr_jinja_eval(struct jrt *rt, const struct jnode *node, struct jscope *scope);
struct jv qr_jinja_binary(struct jrt *rt, int op, struct jv a, struct jv b);
struct jv qr_jinja_negate(struct jrt *rt, struct jv v, bool minus);
bool qr_jinja_compare(struct jrt *rt, int op, struct jv a, struct jv b);
bool qr_jv_equal(struct jrt *rt, struct jv a, struct jv b);
bool qr_jv_less(struct jrt *rt, struct jv a, struct jv b); /* raises where Python has no order */
bool qr_jv_in(struct jrt *rt, struct jv needle, struct jv hay);

/* jinja_fold.c */
void qr_jinja_note_fixed(struct jnode *node);
bool qr_jinja_fold(struct jrt *rt, const struct jnode *node, struct jscope *scope, bool printed, struct jv *v);

/* jinja_exec.c, jinja_for.c */
enum jflow { JF_NEXT, JF_BREAK, JF_CONTINUE };
enum jflow qr_jinja_exec(struct jrt *rt, const struct jnode *node, struct jscope *scope);
struct jv qr_jinja_capture(struct jrt *rt, const struct jnode *body, struct jscope *scope);
void qr_jinja_for(struct jrt *rt, const struct jnode *node, struct jscope *scope, struct jv source, int depth0);
struct jv qr_jinja_loop_attr(struct jrt *rt, struct jv_loop *loop, const struct jv_str *name);
struct jv qr_jinja_loop_call(struct jrt *rt, struct jv_loop *loop, const struct jargs *args);

/* jinja_call.c */
bool qr_jinja_args(struct jrt *rt, const struct jcall *call, struct jscope *scope, struct jargs *args);
struct jv qr_jinja_call(struct jrt *rt, struct jv fn, const struct jargs *args);
struct jv qr_jinja_call_builtin(struct jrt *rt, const struct jbuiltin *b, const char *what, struct jv self,
                                const struct jargs *args);

/* jinja_attr.c */
struct jv qr_jinja_getattr(struct jrt *rt, struct jv obj, struct jv_str *name);
struct jv qr_jinja_getitem(struct jrt *rt, struct jv obj, struct jv key);
struct jv qr_jinja_slice(struct jrt *rt, struct jv obj, struct jv start, struct jv stop, struct jv step);
/* "a.b.0" as the attribute= arguments of filters write it. attribute MISSING or none: the item itself. */
struct jv qr_jinja_path(struct jrt *rt, struct jv item, struct jv attribute);

/* Tables; NULL: no such. */
const struct jbuiltin *qr_jinja_find(const struct jbuiltin *table, const char *s, size_t n);
const struct jbuiltin *qr_jinja_filter(const char *s, size_t n);
const struct jbuiltin *qr_jinja_test(const char *s, size_t n);
extern const struct jbuiltin qr_jinja_filters_text[], qr_jinja_filters_list[], qr_jinja_filters_select[],
    qr_jinja_filters_number[], qr_jinja_tests[], qr_jinja_globals[], qr_jinja_str_methods[], qr_jinja_str_methods2[],
    qr_jinja_str_is_methods[], qr_jinja_list_methods[], qr_jinja_dict_methods[], qr_jinja_loop_methods[],
    qr_jinja_cycler_methods[], qr_jinja_float_methods[];

/* jinja_args.c: arguments of builtins as C values; a wrong type raises. MISSING and none give the default. */
int64_t qr_jinja_arg_int(struct jrt *rt, struct jv v, int64_t otherwise);
struct jv_str *qr_jinja_arg_str(struct jrt *rt, struct jv v, const char *otherwise);
bool qr_jinja_arg_true(struct jrt *rt, struct jv v, bool otherwise);

/* jinja_strip.c, jinja_split.c, jinja_replace.c, jinja_case.c: what filters and methods share */
struct jv qr_jinja_strip(struct jrt *rt, struct jv_str *str, struct jv chars, bool left, bool right);
struct jv_list *qr_jinja_splitlines(struct jrt *rt, struct jv_str *str, bool keep_ends);
struct jv qr_jinja_replace(struct jrt *rt, struct jv_str *str, struct jv_str *from, struct jv_str *to, int64_t count);
enum jcase { JC_UPPER, JC_LOWER, JC_CAPITALIZE, JC_TITLE, JC_TITLE_FILTER, JC_SWAP };
struct jv qr_jinja_case(struct jrt *rt, struct jv_str *str, enum jcase to);
struct jv qr_jinja_pad(struct jrt *rt, struct jv_str *str, int64_t width, struct jv fill, char align);
struct jv qr_jinja_join(struct jrt *rt, struct jv_str *sep, struct jv items, struct jv attribute, bool strings_only);
bool qr_jinja_case_is(const struct jv_str *str, bool upper); /* islower, isupper */

/* ------------------------------------------------------------------ values: jinja_value.c */
struct jv qr_jv_none(void);
struct jv qr_jv_bool(bool b);
struct jv qr_jv_int(int64_t i);
struct jv qr_jv_float(double f);
struct jv qr_jv_undefined(enum jv_why why, struct jv of, struct jv_str *name);
struct jv qr_jv_hint(struct jrt *rt, const char *text);
struct jv qr_jv_func(struct jrt *rt, const struct jbuiltin *builtin, struct jv self);
const char *qr_jv_type_name(struct jv v); /* as Python calls it */
bool qr_jv_true(struct jrt *rt, struct jv v);
int64_t qr_jv_len(struct jrt *rt, struct jv v); /* -1: has no length */
bool qr_jv_is_number(struct jv v);              /* int, float, bool */
bool qr_jv_as_int(struct jv v, int64_t *i);     /* int or bool */
double qr_jv_as_float(struct jv v);             /* of a number */
void qr_jv_raise_undefined(struct jrt *rt, struct jv v);

/* jinja_list.c */
struct jv_list *qr_jv_list_new(struct jrt *rt, enum jv_list_kind kind);
void qr_jv_push(struct jrt *rt, struct jv_list *list, struct jv v);
struct jv qr_jv_list(struct jv_list *list);
struct jv qr_jv_pair(struct jrt *rt, struct jv a, struct jv b);
struct jv qr_jv_iter_of(struct jrt *rt, struct jv_list *items);
bool qr_jv_iterable(struct jv v);
bool qr_jv_walk(struct jrt *rt, struct jv v, struct jv_cursor *cursor); /* raises when not iterable */
bool qr_jv_next(struct jrt *rt, struct jv_cursor *cursor, struct jv *item);
struct jv_list *qr_jv_to_list(struct jrt *rt, struct jv v); /* a new one */
/* Stable; less may raise. */
void qr_jv_sort(struct jrt *rt, struct jv_list *items, struct jv *keys, bool reverse);

/* jinja_dict.c */
struct jv_dict *qr_jv_dict_new(struct jrt *rt);
bool qr_jv_dict_get(struct jrt *rt, const struct jv_dict *dict, struct jv key, struct jv *value);
bool qr_jv_dict_get_str(struct jrt *rt, const struct jv_dict *dict, struct jv_str *key, struct jv *value);
void qr_jv_dict_set(struct jrt *rt, struct jv_dict *dict, struct jv key, struct jv value);
bool qr_jv_hashable(struct jv v);
struct jv qr_jv_dict(struct jv_dict *dict);

/* jinja_string.c */
struct jv qr_jv_str_view(struct jrt *rt, const char *s, size_t n); /* no copy: s must live as long as the render */
struct jv qr_jv_str_copy(struct jrt *rt, const char *s, size_t n);
struct jv qr_jv_cstr(struct jrt *rt, const char *s); /* a literal of the program */
struct jv qr_jv_concat(struct jrt *rt, struct jv a, struct jv b);
struct jv qr_jv_repeat(struct jrt *rt, struct jv s, int64_t times);
int64_t qr_jv_str_len(struct jv_str *str);                 /* code points */
size_t qr_jv_offset(const struct jv_str *str, int64_t cp); /* byte offset of a code point */
bool qr_jv_str_is(const struct jv_str *str, const char *s);
/* A text under way: every begin has its end, which frees the buffer whatever happened. */
void qr_jv_text_begin(struct jrt *rt, struct qr_buf *buf);
struct jv qr_jv_text_end(struct jrt *rt, struct qr_buf *buf);

/* jinja_print.c: str() and repr() as Python writes them */
void qr_jv_write(struct jrt *rt, struct qr_buf *buf, struct jv v);
void qr_jv_write_repr(struct jrt *rt, struct qr_buf *buf, struct jv v);
struct jv qr_jv_to_str(struct jrt *rt, struct jv v);
void qr_jv_float_repr(double f, char out[64]);

/* jinja_json.c */
struct jv qr_jinja_tojson(struct jrt *rt, struct jv self, const struct jv *arg, const struct jargs *args);

/* jinja_format.c, jinja_percent.c */
struct jv qr_jinja_percent(struct jrt *rt, struct jv format, const struct jargs *args);
struct jv qr_jinja_str_format(struct jrt *rt, struct jv self, const struct jv *arg, const struct jargs *args);
/* A value by a format specification ("<10.2f"). */
void qr_jinja_format_spec(struct jrt *rt, struct qr_buf *buf, struct jv v, const char *spec, size_t n);

/* jinja_number.c */
bool qr_jv_parse_int(const char *s, size_t n, int base, int64_t *i); /* as Python's int(): spaces, sign, _ */
bool qr_jv_parse_float(const char *s, size_t n, double *f);

/* jinja_unicode.c */
uint32_t qr_u8_next(const char **s, const char *end); /* s < end; the text is valid UTF-8 */
uint32_t qr_u8_before(const char *start, const char **s);
size_t qr_u8_put(uint32_t cp, char out[4]);
bool qr_u8_valid(const char *s, size_t n, size_t *bad_at);
bool qr_u_is_space(uint32_t cp);
bool qr_u_is_printable(uint32_t cp);
bool qr_u_is_alpha(uint32_t cp);
bool qr_u_is_decimal(uint32_t cp);
bool qr_u_is_digit(uint32_t cp);
bool qr_u_is_numeric(uint32_t cp);
bool qr_u_is_upper(uint32_t cp);
bool qr_u_is_lower(uint32_t cp);
bool qr_u_is_title(uint32_t cp);
void qr_u_upper(struct qr_buf *buf, uint32_t cp);
void qr_u_lower(struct qr_buf *buf, uint32_t cp);
void qr_u_title(struct qr_buf *buf, uint32_t cp);
#endif
