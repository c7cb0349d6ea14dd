/* jinja_node.h - the syntax tree of a template. */
#ifndef QR_TEXT_JINJA_NODE_H
#define QR_TEXT_JINJA_NODE_H
#include "base/arena.h"
#include "text/jinja.h"
#include "text/jinja_value.h"

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
#endif
