/* added.h - tokens that are found in the text as a whole, before BPE sees it. */
#ifndef QR_TEXT_ADDED_H
#define QR_TEXT_ADDED_H
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"
#include "text/normalize.h"

#define QR_MAX_ADDED 1024 /* bytes of one added token: matching may look at that many for each byte of a text */

struct qr_added_token {
    uint32_t at, n;   /* its text in the set's bytes */
    uint32_t key, nk; /* what is looked for: the text, or its normal form where normalized is set */
    int32_t id;
    bool special;        /* a control token */
    bool lstrip, rstrip; /* it takes the white space on that side along */
    bool single_word;    /* not beside a word character */
    bool normalized;     /* looked for in the normalized text, else in the raw one */
};

/* A trie of tokens. Edges lie in one hash table keyed by (node, byte). */
struct qr_trie {
    struct qr_edge {
        uint32_t node; /* + 1; 0: free */
        uint32_t child;
        uint8_t byte;
    } * edge; /* [n_edge] */
    size_t n_edge, n_used;
    int32_t *token; /* [n_node] index of the token that ends there, -1: none */
    size_t n_node, room_node;
    bool first[256]; /* bytes that a token starts with */
};

struct qr_added {
    struct qr_added_token *token; /* [n] */
    size_t n, room;
    uint32_t *slot; /* [2 room] index + 1 by hash of the text, 0: free */
    uint64_t seed;
    struct qr_buf bytes;
    struct qr_trie raw, normal; /* of the tokens without and with normalized */
};

void qr_added_init(struct qr_added *added);
void qr_added_free(struct qr_added *added);
/* Adds a token; the fields at, n, key, nk of how are filled in here. A text that is there already gets the new options.
 * normalizer: of the text. Empty texts are left out, as Hugging Face does. */
enum qr_status qr_added_add(struct qr_added *added, const struct qr_added_token *how, const char *text, size_t n,
                            const struct qr_normalizer *normalizer, struct qr_err *err);
/* Builds the tries, after the last token. */
enum qr_status qr_added_finish(struct qr_added *added, struct qr_err *err);
const struct qr_added_token *qr_added_find(const struct qr_added *added, const char *text, size_t n);

/* Looks for the next token at or behind *at in s[0, n); matches do not overlap. done: where the text was cut last (white
 * space that lstrip takes ends there). Returns NULL at the end, else the token, its place in [*start, *end), and moves
 * *at. Special tokens are passed over unless parse_special. */
const struct qr_added_token *qr_added_next(const struct qr_added *added, const struct qr_trie *trie, const char *s,
                                           size_t n, size_t done, bool parse_special, size_t *at, size_t *start,
                                           size_t *end);
#endif
