/* grammar.h - structured output: which tokens may come next, as a bit mask.
 *
 * A JSON schema, a regular expression or a list of strings is compiled into a byte-level pushdown automaton. The
 * vocabulary is laid out once per model as a trie; the tokens allowed in a state of the automaton are found by walking
 * both together, and are kept, so that a mask is a few look-ups and ORs of ready sets.
 *
 * What a finished text fulfils: it is JSON, well-formed UTF-8 without lone surrogates, and valid by the schema. What
 * is stricter than the schema, so that generation ends and stays canonical:
 *   - white space: at most one space behind ',' and ':', none elsewhere;
 *   - object members stand in the order of "properties" (then of "required", then additional ones);
 *   - in strings printable ASCII is not escaped, '/' neither; other characters may be written as \uXXXX (in names and
 *     enum values with small hex digits, all of them or none);
 *   - numbers: integers have no point; up to 18 digits before the point, 24 behind it, 2 in the exponent; no exponent under bounds, and then
 *     no more digits than a double tells apart;
 *   - nesting up to limits.max_depth.
 * Additional members may repeat a name of their own, never a declared one. A keyword that cannot be honoured is refused
 * when compiling, with its path. "format" is enforced for date, time, date-time, duration, uuid, email, ipv4, ipv6,
 * hostname and uri; others say nothing, as in JSON Schema. Patterns: see grammar_regex.c.
 *
 * Threads: vocab and grammar may be shared by any number of threads (a grammar locks its table of masks while one is
 * made); a state belongs to one thread at a time. */
#ifndef QR_TEXT_GRAMMAR_H
#define QR_TEXT_GRAMMAR_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

struct qr_tokenizer;
struct qr_grammar_vocab; /* the trie of a vocabulary: one per model */
struct qr_grammar;       /* a compiled grammar over a vocabulary */
struct qr_grammar_state; /* where one sequence is */

/* n_bits: width of the masks; ids from there on are never allowed; 0: the tokenizer's vocabulary. end: the ids that
 * end a text; they are allowed exactly where the text may end. Special tokens are never allowed otherwise. Nothing of
 * tok is needed after. */
enum qr_status qr_grammar_vocab_create(const struct qr_tokenizer *tok, int n_bits, const int32_t *end, size_t n_end,
                                       struct qr_grammar_vocab **vocab, struct qr_err *err);
void qr_grammar_vocab_destroy(struct qr_grammar_vocab *vocab);       /* after every grammar on it */
size_t qr_grammar_vocab_words(const struct qr_grammar_vocab *vocab); /* uint32_t words of a mask */
size_t qr_grammar_vocab_bytes(const struct qr_grammar_vocab *vocab); /* memory it takes */

struct qr_grammar_limits { /* 0: the default in brackets */
    uint32_t max_depth;    /* nesting of the text [64], at most 500 */
    uint32_t max_states;   /* of the automaton [400,000] */
    uint64_t max_work;     /* steps of compiling [50 million: about a second] */
    size_t max_bytes;      /* memory while compiling [128 MB] */
    size_t cache_bytes;    /* kept masks [32 MB] */
    bool closed_objects;   /* objects that say nothing of additional members get none */
};

/* limits may be NULL. Errors: QR_UNSUPPORTED (a keyword that cannot be honoured, with its path), QR_INVALID (no schema,
 * or one that no value fulfils), QR_LIMIT, QR_NOMEM: one sentence for the client each. */
enum qr_status qr_grammar_compile_json_schema(const struct qr_grammar_vocab *vocab, const json_t *schema,
                                              const struct qr_grammar_limits *limits, struct qr_grammar **grammar,
                                              struct qr_err *err);
/* Any JSON object. */
enum qr_status qr_grammar_compile_json_object(const struct qr_grammar_vocab *vocab,
                                              const struct qr_grammar_limits *limits, struct qr_grammar **grammar,
                                              struct qr_err *err);
/* The whole text matches the pattern. */
enum qr_status qr_grammar_compile_regex(const struct qr_grammar_vocab *vocab, const char *pattern, size_t n,
                                        const struct qr_grammar_limits *limits, struct qr_grammar **grammar,
                                        struct qr_err *err);
/* The text is one of these (UTF-8, not empty). */
enum qr_status qr_grammar_compile_choice(const struct qr_grammar_vocab *vocab, const char *const *choice,
                                         size_t n_choice, const struct qr_grammar_limits *limits,
                                         struct qr_grammar **grammar, struct qr_err *err);
void qr_grammar_destroy(struct qr_grammar *grammar);       /* after every state on it */
size_t qr_grammar_bytes(const struct qr_grammar *grammar); /* memory, kept masks included */

/* All memory of a state is taken here; nothing later allocates but the table of masks. */
enum qr_status qr_grammar_state_create(struct qr_grammar *grammar, struct qr_grammar_state **state, struct qr_err *err);
enum qr_status qr_grammar_state_clone(const struct qr_grammar_state *from, struct qr_grammar_state **state,
                                      struct qr_err *err);
void qr_grammar_state_destroy(struct qr_grammar_state *state);
void qr_grammar_state_reset(struct qr_grammar_state *state); /* back to the start of the text */

/* bits [words]: bit id % 32 of word id / 32 is set when id may come next. QR_LIMIT when the grammar is too ambiguous
 * here, QR_NOMEM when a new mask could not be made, QR_UNSUPPORTED when the vocabulary cannot spell what must follow:
 * the sequence ends with that error. After the end no bit but those of the end ids is set. */
enum qr_status qr_grammar_mask(struct qr_grammar_state *state, uint32_t *bits, struct qr_err *err);
/* Moves on by one token. QR_INVALID (and the state stays) when it is not allowed. */
enum qr_status qr_grammar_accept(struct qr_grammar_state *state, int32_t id, struct qr_err *err);
/* The same for bytes of text (no end). */
enum qr_status qr_grammar_accept_bytes(struct qr_grammar_state *state, const char *s, size_t n, struct qr_err *err);
bool qr_grammar_may_end(const struct qr_grammar_state *state);
/* An end id was accepted, or nothing but an end can follow. */
bool qr_grammar_is_finished(const struct qr_grammar_state *state);
#endif
