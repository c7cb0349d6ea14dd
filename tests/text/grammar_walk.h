/* grammar_walk.h - texts drawn at random from the masks of a grammar, and texts checked against them. */
#ifndef TESTS_TEXT_GRAMMAR_WALK_H
#define TESTS_TEXT_GRAMMAR_WALK_H
#include "base/buf.h"
#include "text/grammar.h"
#include "text/tokenizer.h"

struct walker; /* how many bytes each state is from its rule's end, to find a way out */
struct walk_stats {
    long masks, cold; /* masks made; those that took over 100 us */
    double total_us, worst_us;
};
struct walker *walker_create(struct qr_grammar *grammar);
void walker_destroy(struct walker *walker);
/* n_free tokens at random, then the nearest way to the end. False: a dead end, an error (message) or no end in sight. */
bool walk_text(struct walker *walker, uint64_t seed, int n_free, struct qr_buf *text, struct walk_stats *stats,
               struct qr_err *err);
/* Does the mask allow each of these ids in turn, and the end behind them? */
bool walk_ids(struct qr_grammar *grammar, const int32_t *ids, size_t n, struct qr_err *err);
#endif
