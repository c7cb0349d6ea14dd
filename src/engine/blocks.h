/* blocks.h - which pages of the KV cache are whose, and which hold what: reference counts and the prefix cache.
 *
 * A block is QR_PAGE tokens of K and V over all layers and heads; the executor owns the memory, this only counts. A
 * block whose tokens are all known and computed is indexed by what it holds: its tokens and the block in front of it
 * (a chain, so that equal tokens behind different beginnings differ); so is the last one of a sequence that ended, which
 * is not full: there -1 stands for what it does not hold. The index compares the tokens themselves: two
 * texts with one hash are not taken for each other. The first block of a chain stands behind a salt, which keeps
 * apart what must never be shared.
 *
 * A block that nobody uses is free; an indexed one keeps its contents until it is handed out again, those without
 * contents first, then the one freed longest ago. Not thread safe: the engine thread owns it. */
#ifndef QR_ENGINE_BLOCKS_H
#define QR_ENGINE_BLOCKS_H
#include "base/err.h"
#include "plan/exec.h"

/* A salt as the parent of a first block; never equal to a block's serial. */
#define QR_BLOCKS_ROOT(salt) ((uint64_t)(salt) | (UINT64_C(1) << 63))

struct qr_block {
    int refs;           /* users; 0: free */
    int32_t prev, next; /* in the list of free blocks; -1: the end */
    uint64_t serial;    /* of its contents, never used twice; 0: not indexed */
    uint64_t parent;    /* serial of the block in front, or a root */
    int32_t chain;      /* the next one in its bucket; -1: the end */
    int32_t token[QR_PAGE];
};

struct qr_blocks {
    int n_block, n_free;
    struct qr_block *block; /* [n_block] */
    int32_t first, last;    /* of the free ones, in the order in which they are handed out */
    int32_t *bucket;        /* [bucket_mask + 1] */
    uint32_t bucket_mask;
    uint64_t next_serial;
    uint64_t key; /* of the hash: drawn afresh, so that nobody can choose tokens that share a bucket */
};

enum qr_status qr_blocks_init(struct qr_blocks *blocks, int n_block, struct qr_err *err);
void qr_blocks_free(struct qr_blocks *blocks); /* a zeroed struct is fine */
uint64_t qr_blocks_bytes(int n_block);         /* what init allocates */

/* A free block with one reference, its contents forgotten; -1 when there is none. */
int32_t qr_blocks_take(struct qr_blocks *blocks);
void qr_blocks_ref(struct qr_blocks *blocks, int32_t id);  /* one user more, of a free one too */
void qr_blocks_drop(struct qr_blocks *blocks, int32_t id); /* one user less; free after the last */

/* The block with these QR_PAGE tokens behind parent; -1: none. */
int32_t qr_blocks_find(const struct qr_blocks *blocks, uint64_t parent, const int32_t *token);
/* A block in use holds these tokens behind parent. Returns the block that stands for them from now on: id,
 * or another one that was there first, with the same contents. */
int32_t qr_blocks_index(struct qr_blocks *blocks, int32_t id, uint64_t parent, const int32_t *token);

/* Blocks that n tokens take. */
static inline int qr_blocks_for(int n_token)
{
    return n_token / QR_PAGE + (n_token % QR_PAGE != 0);
}
#endif
