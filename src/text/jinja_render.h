/* jinja_render.h - a render: its state and limits, and what the files that evaluate a template share.
 *
 * Failure is sticky: the first qr_jinja_raise marks the render as failed, later calls return harmless values (undefined,
 * empty lists), and loops stop as soon as they see the mark. All memory lies in an arena, so no path has anything to free
 * but the qr_bufs that it opened itself. */
#ifndef QR_TEXT_JINJA_RENDER_H
#define QR_TEXT_JINJA_RENDER_H
#include "base/arena.h"
#include "text/jinja.h"
#include "text/jinja_node.h"
#include "text/jinja_value.h"

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

/* jinja_json.c */
struct jv qr_jinja_tojson(struct jrt *rt, struct jv self, const struct jv *arg, const struct jargs *args);

/* jinja_format.c, jinja_percent.c */
struct jv qr_jinja_percent(struct jrt *rt, struct jv format, const struct jargs *args);
struct jv qr_jinja_str_format(struct jrt *rt, struct jv self, const struct jv *arg, const struct jargs *args);
/* A value by a format specification ("<10.2f"). */
void qr_jinja_format_spec(struct jrt *rt, struct qr_buf *buf, struct jv v, const char *spec, size_t n);
#endif
