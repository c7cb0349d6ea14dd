/* grammar_internal.h - between the files grammar_*.c: the automaton and what builds it.
 *
 * The automaton is a recursive transition network over bytes. A state has edges on bytes, and calls: (rule, next) goes
 * through the rule's start state with next on the stack. A state that accepts returns to what lies on the stack. A rule
 * consumes at least one byte before it calls itself again. Several threads of (state, stack) run side by side. */
#ifndef QR_TEXT_GRAMMAR_INTERNAL_H
#define QR_TEXT_GRAMMAR_INTERNAL_H
#include <pthread.h>
#include "base/arena.h"
#include "text/grammar.h"

enum { QR_GR_NONE = 0, QR_GR_FIN = 1 }; /* states: none; the one that accepts and has no way on */
#define QR_GR_NEVER     UINT16_MAX      /* height of a state from which no rule ends */
#define QR_GR_MAX_TOKEN 256             /* bytes; longer tokens are never allowed */
#define QR_GR_MAX_DEPTH 500

struct qr_gr_edge {
    uint32_t to;
    uint8_t lo, hi; /* bytes, inclusive */
};
struct qr_gr_call {
    uint32_t rule, next;
};
struct qr_gr_state {
    uint32_t edge, call; /* first in grammar->edge, ->call */
    uint32_t n_call;
    uint32_t dense; /* row of grammar->row + 1; 0: none */
    uint32_t limit; /* in grammar->limit: inside a counted string; 0: no */
    uint16_t n_edge;
    uint16_t height; /* stack frames needed from here to the rule's end, at least */
    bool accept;
    bool between; /* two characters of a counted string: coming here counts */
    bool text;    /* between two characters of a string of any characters, counted or not */
};
struct qr_gr_rule {
    uint32_t start;
    uint32_t first[8]; /* bytes that it can start with */
};
/* A counted string's length + 1, since the opening quote counts as well. */
struct qr_gr_limit {
    uint32_t min, max;
};

/* What tokens are to the inside of a JSON string, from between two of its characters: the same for every grammar. */
struct qr_gr_closer {
    uint32_t node, chars; /* a trie node at which the string is closed, characters before */
};
struct qr_gr_texts {
    uint16_t *chars; /* [n_bits] characters that the token starts; 0: it does not stay inside */
    struct qr_gr_closer *closer;
    size_t n_closer, room_closer;
};

/* The vocabulary as a trie in preorder: node i is followed by its subtree, which ends before skip[i]. */
struct qr_grammar_vocab {
    uint32_t n_node;
    uint8_t *byte;
    uint16_t *depth; /* 1: first byte */
    uint32_t *skip;
    int32_t *token; /* [n_node] -1: none */
    int32_t *same;  /* [n_bits] next id with the same bytes, -1: none */
    uint32_t *at;   /* [n_bits + 1] of an id in bytes */
    char *bytes;
    uint8_t *spelled; /* [n_bits] the id is in the trie */
    int32_t *end;
    size_t n_end;
    uint32_t n_bits, n_word;
    uint32_t max_token; /* bytes of the longest in the trie */
    struct qr_gr_texts texts;
    size_t memory;
};

struct qr_gr_frame {
    uint32_t next, parent, depth; /* depth: frames from here down, this one included */
};
struct qr_gr_thread {
    uint32_t state, count, frame;
};
enum { QR_GR_ROOT = 0, QR_GR_OPAQUE = 1, QR_GR_FRAMES = 2 }; /* frames: nothing below; unknown below; first free */

#define QR_GR_THREADS 128  /* that may run side by side */
#define QR_GR_POOL    2048 /* frames of a sequence */

/* Where threads step. Frames are handed out upwards, so that going back to an earlier n_frame frees them. */
struct qr_gr_space {
    const struct qr_grammar *g;
    struct qr_gr_frame *frame;
    uint32_t n_frame, room_frame;
    struct qr_gr_thread *thread;
    uint32_t n_thread, room_thread; /* the set being made is [set, n_thread) */
    uint32_t set, set_frame;
    uint32_t base; /* depth that counts below the opaque frame */
    uint32_t rise; /* the most that depth and height together reached */
    uint64_t work;
    bool full;
};
/* grammar_texts.c: fills vocab->texts. */
enum qr_status qr_gr_texts_make(struct qr_grammar_vocab *vocab);
void qr_gr_texts_free(struct qr_gr_texts *texts);

/* Steps thread t over byte b into the set being made. */
void qr_gr_step(struct qr_gr_space *space, struct qr_gr_thread t, uint8_t b);
/* May this thread return through every frame down to bottom? */
bool qr_gr_returns(const struct qr_gr_space *space, uint32_t state, uint32_t frame, uint32_t bottom);
uint32_t qr_gr_target(const struct qr_grammar *g, const struct qr_gr_state *s, uint8_t b);

/* Tokens allowed from a state until it returns; events: trie nodes at which it may have returned. */
struct qr_gr_entry {
    struct qr_gr_entry *chain; /* of the hash slot */
    const struct qr_gr_entry *above;
    uint32_t state, count, depth; /* depth: frames below, + 1, when near the limit; 0: far from it */
    uint32_t rise;
    uint32_t n_event, n_id;
    uint32_t *event; /* trie node, UINT32_MAX: the root */
    int32_t *id;     /* [n_id], or NULL with */
    uint32_t *bits;  /* [n_word] */
};
struct qr_gr_cache {
    pthread_mutex_t lock;
    bool has_lock;
    struct qr_gr_entry **slot;
    size_t n_slot, n_entry, bytes;
    struct qr_gr_space space;
    uint32_t *bits; /* scratch [n_word] */
    uint32_t *event;
    size_t n_event, room_event;
};

struct qr_grammar {
    const struct qr_grammar_vocab *vocab;
    struct qr_gr_state *state;
    struct qr_gr_edge *edge;
    struct qr_gr_call *call;
    struct qr_gr_rule *rule;
    struct qr_gr_limit *limit;
    uint32_t (*row)[256];
    uint32_t n_state, n_rule, n_limit, n_row;
    size_t n_edge, n_call;
    size_t room_state, room_edge, room_call, room_rule, room_limit;
    uint32_t max_depth, max_height; /* height: of any state */
    size_t cache_bytes;
    struct qr_gr_cache cache;
};

/* ------------------------------------------------------------------ building */

/* Sets of code points, regular expressions over them, automata (grammar_dfa.c). All in the builder's arena. */
struct qr_cp_range {
    int32_t lo, hi;
};
struct qr_cp_set {
    struct qr_cp_range *range; /* sorted, apart from each other, no surrogates */
    uint32_t n;
};
enum qr_re_kind { QR_RE_EMPTY, QR_RE_SET, QR_RE_SEQ, QR_RE_ALT, QR_RE_REPEAT, QR_RE_BEGIN, QR_RE_END };
#define QR_RE_MANY UINT32_MAX
struct qr_re {
    enum qr_re_kind kind;
    struct qr_cp_set set;
    struct qr_re **child;
    uint32_t n_child;
    uint32_t min, max; /* REPEAT; QR_RE_MANY: no end */
};
struct qr_cdfa_edge {
    int32_t lo, hi;
    uint32_t to;
};
struct qr_cdfa_state {
    struct qr_cdfa_edge *edge; /* sorted, apart */
    uint32_t n;
    bool accept;
};
struct qr_cdfa { /* starts in state 0; n 0: accepts nothing */
    struct qr_cdfa_state *state;
    uint32_t n;
};

struct qr_gr_item { /* a rule that waits for its states */
    json_t *schema;
    const char *path;
    uint32_t rule;
};
struct qr_gr_memo {
    uint64_t key[2];
    uint32_t value; /* 0: free slot */
};
struct qr_gr_table {
    struct qr_gr_memo *slot;
    size_t n_slot, n_used;
};

struct qr_gr_builder {
    struct qr_grammar *g;
    struct qr_arena *arena;
    const json_t *root;
    json_t *owned; /* array of what was made on the way */
    struct qr_gr_item *item;
    size_t n_item, room_item;
    struct qr_gr_item *empty; /* rules that must have no value, for oneOf */
    size_t n_empty, room_empty;
    struct qr_gr_table cons, schemas, strings;
    uint64_t seed, work, max_work;
    uint32_t max_states;
    size_t max_bytes;
    bool closed_objects;
    uint32_t any_rule, any_string;
    enum qr_status status;
    struct qr_err *err;
};

/* The first failure stays. Returns 0. */
uint32_t qr_gr_fail(struct qr_gr_builder *b, enum qr_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
uint32_t qr_gr_nomem(struct qr_gr_builder *b);
bool qr_gr_work(struct qr_gr_builder *b, uint64_t steps);
void *qr_gr_alloc(struct qr_gr_builder *b, size_t n, size_t size); /* from the arena; NULL: failed */
struct qr_arena *qr_gr_scratch(struct qr_gr_builder *b);
void qr_gr_scratch_end(struct qr_gr_builder *b, struct qr_arena *outer);
/* Makes room for one more in a malloc'ed array. */
bool qr_gr_room(struct qr_gr_builder *b, void *array, size_t n, size_t *room, size_t size);
uint32_t *qr_gr_memo(struct qr_gr_builder *b, struct qr_gr_table *table, const uint64_t key[2]);

/* grammar_build.c: states. Edges are sorted and joined by the callee. */
uint32_t qr_gr_new(struct qr_gr_builder *b);
void qr_gr_set(struct qr_gr_builder *b, uint32_t state, struct qr_gr_edge *edge, size_t n_edge,
               const struct qr_gr_call *call, size_t n_call, bool accept);
/* A state with just these edges: one that stands there already, or a new one. */
uint32_t qr_gr_cons(struct qr_gr_builder *b, struct qr_gr_edge *edge, size_t n_edge, const struct qr_gr_call *call,
                    size_t n_call, bool accept);
uint32_t qr_gr_one(struct qr_gr_builder *b, uint8_t byte, uint32_t to);
/* The way to next over s. */
uint32_t qr_gr_literal(struct qr_gr_builder *b, const char *s, size_t n, uint32_t next);
/* Like state (0: none), and over s to next as well, in which it must not run past an accepting state. */
uint32_t qr_gr_insert(struct qr_gr_builder *b, uint32_t state, const char *s, size_t n, uint32_t next);
struct qr_gr_text {
    const char *s;
    size_t n;
};
uint32_t qr_gr_choice(struct qr_gr_builder *b, struct qr_gr_text *text, size_t n); /* sorts them */
/* A state with the edges and calls of both. */
uint32_t qr_gr_union(struct qr_gr_builder *b, uint32_t x, uint32_t y);
/* state, or one space and state. */
uint32_t qr_gr_spaced(struct qr_gr_builder *b, uint32_t state);
uint32_t qr_gr_rule(struct qr_gr_builder *b);
uint32_t qr_gr_limit(struct qr_gr_builder *b, uint32_t min, uint32_t max);

/* grammar_finish.c: cuts off what leads nowhere, refuses left recursion, makes first sets and rows. */
enum qr_status qr_gr_finish(struct qr_gr_builder *b);

/* grammar_set.c */
struct qr_cp_set qr_cp_make(struct qr_gr_builder *b, const struct qr_cp_range *range, size_t n); /* any order */
struct qr_cp_set qr_cp_negate(struct qr_gr_builder *b, struct qr_cp_set set);
struct qr_cp_set qr_cp_class(struct qr_gr_builder *b, char letter); /* d D w W s S and . */
bool qr_cp_property(struct qr_gr_builder *b, const char *name, size_t n, struct qr_cp_set *set);

/* grammar_regex.c; where: for messages. NULL: failed. */
struct qr_re *qr_re_parse(struct qr_gr_builder *b, const char *pattern, size_t n, const char *where);
struct qr_re *qr_re_make(struct qr_gr_builder *b, enum qr_re_kind kind, struct qr_re *const *child, uint32_t n);
struct qr_re *qr_re_repeat(struct qr_gr_builder *b, struct qr_re *re, uint32_t min, uint32_t max);
struct qr_re *qr_re_range(struct qr_gr_builder *b, int32_t lo, int32_t hi);
struct qr_re *qr_re_text(struct qr_gr_builder *b, const char *ascii, size_t n);
/* grammar_dfa.c; search: matches anywhere inside, else as a whole. */
struct qr_cdfa *qr_cdfa_from_re(struct qr_gr_builder *b, struct qr_re *re, bool search, const char *where);
/* A pattern with what may stand before it: look-ahead at its start. */
struct qr_cdfa *qr_cdfa_pattern(struct qr_gr_builder *b, const char *pattern, size_t n, bool search, const char *where);
/* grammar_dfaop.c */
struct qr_cdfa *qr_cdfa_and(struct qr_gr_builder *b, const struct qr_cdfa *x, const struct qr_cdfa *y);
struct qr_cdfa *qr_cdfa_without(struct qr_gr_builder *b, const struct qr_cdfa *x, const struct qr_cdfa *y);
struct qr_cdfa *qr_cdfa_length(struct qr_gr_builder *b, const struct qr_cdfa *x, uint32_t min, uint32_t max);
struct qr_cdfa *qr_cdfa_trim(struct qr_gr_builder *b, struct qr_cdfa *x);
struct qr_cdfa *qr_cdfa_any(struct qr_gr_builder *b);                   /* all texts */
bool qr_cdfa_matches(const struct qr_cdfa *x, const char *s, size_t n); /* s: well-formed UTF-8 */

/* grammar_emit.c: an automaton over code points as states over bytes. */
uint32_t qr_gr_emit_raw(struct qr_gr_builder *b, const struct qr_cdfa *x);
/* In quotes, escaped as JSON. */
uint32_t qr_gr_emit_string(struct qr_gr_builder *b, const struct qr_cdfa *x);
/* Any JSON string of min to max code points (QR_RE_MANY: no end). */
uint32_t qr_gr_emit_counted(struct qr_gr_builder *b, uint32_t min, uint32_t max);

/* grammar_number.c, grammar_format.c */
uint32_t qr_gr_number(struct qr_gr_builder *b, const json_t *schema, bool integer, const char *path);
const char *qr_gr_format(const char *name); /* its pattern; NULL: not enforced */

/* grammar_merge.c, grammar_schema.c, grammar_object.c, grammar_value.c */
json_t *qr_gr_keep(struct qr_gr_builder *b, json_t *made);         /* takes it over; NULL: failed */
json_t *qr_gr_both(struct qr_gr_builder *b, json_t *x, json_t *y); /* allOf; NULL stands for true */
bool qr_gr_merge(struct qr_gr_builder *b, json_t *base, const json_t *schema, const char *path);
uint32_t qr_gr_schema_rule(struct qr_gr_builder *b, json_t *schema, const char *path);
void qr_gr_schema(struct qr_gr_builder *b, const json_t *schema); /* rule 0 and all that it needs */
/* A schema with $ref and allOf worked in; NULL with b->status right: it has choices, or no value. */
json_t *qr_gr_plain(struct qr_gr_builder *b, json_t *schema, const char *path);
uint32_t qr_gr_type_bits(const json_t *type);
uint32_t qr_gr_value_bits(const json_t *value); /* the type that a value has: one bit */
enum {
    QR_T_NULL = 1,
    QR_T_BOOL = 2,
    QR_T_INTEGER = 4,
    QR_T_NUMBER = 8,
    QR_T_STRING = 16,
    QR_T_ARRAY = 32,
    QR_T_OBJECT = 64,
    QR_T_ALL = 127
};
uint32_t qr_gr_object(struct qr_gr_builder *b, const json_t *schema, const char *path);
uint32_t qr_gr_array(struct qr_gr_builder *b, const json_t *schema, const char *path);
uint32_t qr_gr_string(struct qr_gr_builder *b, const json_t *schema, const char *path);
struct qr_cdfa *qr_gr_string_dfa(struct qr_gr_builder *b, const json_t *schema, const char *path);
uint32_t qr_gr_enum(struct qr_gr_builder *b, const json_t *schema, const char *path);
/* A text as JSON, in quotes; ascii: other characters as \uXXXX. In the arena. */
struct qr_gr_text qr_gr_quote(struct qr_gr_builder *b, const char *s, size_t n, bool ascii);
const char *qr_gr_path(struct qr_gr_builder *b, const char *path, const char *step);
/* An integer keyword in [0, 2^31); false: failed. *out stays when absent. */
bool qr_gr_count(struct qr_gr_builder *b, const json_t *schema, const char *key, const char *path, uint32_t *out);
#endif
