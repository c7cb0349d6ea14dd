/* unigram.h - the unigram language model (Kudo 2018): a text is cut into the tokens with the largest sum of scores.
 * Immutable once built. */
#ifndef QR_TEXT_UNIGRAM_H
#define QR_TEXT_UNIGRAM_H
#include "text/ids.h"
#include "text/trie.h"
#include "text/vocab.h"

struct qr_unigram {
    double *score; /* [n_vocab]; NULL: there is no such model */
    size_t n_score;
    double worst; /* lowest score */
    int32_t unk;  /* -1: none */
    int32_t byte_id[256];
    bool byte_fallback; /* every byte has a token, and characters without one become their bytes */
    struct qr_trie trie;
};

struct qr_unigram_scratch {
    struct qr_unigram_node *node;
    size_t room;
};

/* score [n] is taken over. */
enum qr_status qr_unigram_build(struct qr_unigram *unigram, const struct qr_vocab *vocab, double *score, size_t n,
                                int32_t unk, bool byte_fallback, struct qr_err *err);
void qr_unigram_free(struct qr_unigram *unigram);
void qr_unigram_scratch_free(struct qr_unigram_scratch *scratch);
/* Appends the ids of a word. Time: n times the longest token. */
enum qr_status qr_unigram_encode(const struct qr_unigram *unigram, const struct qr_vocab *vocab, const char *word,
                                 size_t n, struct qr_unigram_scratch *scratch, struct qr_ids *ids, struct qr_err *err);
#endif
