/* prefix.h - what sequences have in common: blocks of a beginning shared, copied before one writes into them, and
 * indexed once they are full. */
#ifndef QR_ENGINE_PREFIX_H
#define QR_ENGINE_PREFIX_H
#include "engine/batch.h"
#include "engine/blocks.h"

/* Gives a waiting sequence the blocks of its beginning that are there already: those that the index knows and, for a
 * further choice of a request, those of the first one's prompt. It is left at least the first row that it wants. */
void qr_prefix_share(struct qr_blocks *blocks, bool use_index, struct qr_sequence *seq);
/* The block that it will write into first is used by others, too. */
bool qr_prefix_writes_shared(const struct qr_blocks *blocks, const struct qr_sequence *seq);
/* A copy takes that block's place; a block is free. */
void qr_prefix_copy(struct qr_blocks *blocks, struct qr_sequence *seq, struct qr_batch *batch);
/* The first n tokens are known and computed. */
void qr_prefix_index(struct qr_blocks *blocks, struct qr_sequence *seq, int n);
/* It is about to give its blocks back, and no step with it is in flight: all that they hold is indexed, the last one
 * too, though it is not full, so that a conversation goes on where it stopped. */
void qr_prefix_keep(struct qr_blocks *blocks, struct qr_sequence *seq);
#endif
