/* jinja_value.h - values of the Jinja engine, and what can be done with them as Python does it. What takes a render may
 * fail: jinja_render.h says how. */
#ifndef QR_TEXT_JINJA_VALUE_H
#define QR_TEXT_JINJA_VALUE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"

struct jrt;      /* a render: jinja_render.h */
struct jbuiltin; /* a filter, test, method or global */
struct jnode;    /* of the syntax tree: jinja_node.h */
struct jscope;

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

/* jinja_value.c */
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

/* jinja_number.c */
bool qr_jv_parse_int(const char *s, size_t n, int base, int64_t *i); /* as Python's int(): spaces, sign, _ */
bool qr_jv_parse_float(const char *s, size_t n, double *f);
#endif
