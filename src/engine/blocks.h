/* blocks.h - which pages of the KV cache are whose: ids with reference counts.
 *
 * A block is QR_PAGE tokens of K and V over all layers and heads; the executor owns the memory, this only counts.
 * Blocks freed first are handed out first, so that what was freed lately keeps its contents longest. Not thread
 * safe: the engine thread owns it. */
#ifndef QR_ENGINE_BLOCKS_H
#define QR_ENGINE_BLOCKS_H
#include "base/err.h"

struct qr_blocks {
    int n_block;
    int n_free;
    int32_t *refs; /* [n_block] users; 0: free */
    int32_t *next; /* [n_block] the free list's links; -1: the end */
    int32_t head;  /* freed longest ago; -1: none is free */
    int32_t tail;
};

enum qr_status qr_blocks_init(struct qr_blocks *blocks, int n_block, struct qr_err *err);
void qr_blocks_free(struct qr_blocks *blocks); /* a zeroed struct is fine */

/* A free block with one reference; -1 when there is none. */
int32_t qr_blocks_take(struct qr_blocks *blocks);
void qr_blocks_ref(struct qr_blocks *blocks, int32_t id);  /* one user more of a block in use */
void qr_blocks_drop(struct qr_blocks *blocks, int32_t id); /* one user less; free after the last */

/* Blocks that n tokens take. */
int qr_blocks_for(int n_token);
#endif
