/* blocks.c - see blocks.h. */
#include "engine/blocks.h"
#include <stdlib.h>
#include <string.h>
#include "base/rand.h"

static uint32_t buckets_for(int n_block)
{
    uint32_t n = 16;
    while (n < (uint32_t)n_block)
        n *= 2;
    return n;
}

uint64_t qr_blocks_bytes(int n_block)
{
    return (uint64_t)n_block * sizeof(struct qr_block) + buckets_for(n_block) * sizeof(int32_t);
}

enum qr_status qr_blocks_init(struct qr_blocks *blocks, int n_block, struct qr_err *err)
{
    uint32_t n_bucket = buckets_for(n_block);
    *blocks = (struct qr_blocks){
        .n_block = n_block,
        .n_free = n_block,
        .first = n_block > 0 ? 0 : -1,
        .last = n_block - 1,
        .bucket_mask = n_bucket - 1,
        .next_serial = 1,
        .key = qr_rand_fresh_seed(),
    };
    blocks->block = calloc((size_t)n_block + 1, sizeof(*blocks->block));
    blocks->bucket = malloc(n_bucket * sizeof(*blocks->bucket));
    if (!blocks->block || !blocks->bucket) {
        qr_blocks_free(blocks);
        return qr_fail(err, QR_NOMEM, "out of memory for the account of %d KV blocks", n_block);
    }
    memset(blocks->bucket, 0xff, n_bucket * sizeof(*blocks->bucket)); /* all -1 */
    for (int i = 0; i < n_block; i++) {
        blocks->block[i].prev = i - 1;
        blocks->block[i].next = i + 1 < n_block ? i + 1 : -1;
    }
    return QR_OK;
}

void qr_blocks_free(struct qr_blocks *blocks)
{
    free(blocks->block);
    free(blocks->bucket);
    *blocks = (struct qr_blocks){.first = -1, .last = -1};
}

/* ---------------------------------------------------------------- the list of free blocks */

static void leave_free(struct qr_blocks *b, int32_t id)
{
    struct qr_block *it = &b->block[id];
    *(it->prev >= 0 ? &b->block[it->prev].next : &b->first) = it->next;
    *(it->next >= 0 ? &b->block[it->next].prev : &b->last) = it->prev;
    b->n_free--;
}

/* One without contents goes in front: it is handed out before any that may still be of use. */
static void join_free(struct qr_blocks *b, int32_t id)
{
    struct qr_block *it = &b->block[id];
    bool in_front = it->serial == 0;
    it->prev = in_front ? -1 : b->last;
    it->next = in_front ? b->first : -1;
    *(it->prev >= 0 ? &b->block[it->prev].next : &b->first) = id;
    *(it->next >= 0 ? &b->block[it->next].prev : &b->last) = id;
    b->n_free++;
}

/* ---------------------------------------------------------------- the index */

static uint32_t bucket_of(const struct qr_blocks *b, uint64_t parent, const int32_t *token)
{
    uint64_t h = parent ^ b->key;
    for (int i = 0; i < QR_PAGE; i += 2) {
        uint64_t two = (uint64_t)(uint32_t)token[i] << 32 | (uint32_t)token[i + 1];
        h = (h ^ two) * UINT64_C(0x9E3779B97F4A7C15); /* 2^64 / golden ratio */
        h ^= h >> 32;
    }
    return (uint32_t)h & b->bucket_mask;
}

static void forget(struct qr_blocks *b, int32_t id)
{
    struct qr_block *it = &b->block[id];
    if (it->serial == 0)
        return;
    int32_t *link = &b->bucket[bucket_of(b, it->parent, it->token)];
    while (*link != id)
        link = &b->block[*link].chain;
    *link = it->chain;
    it->serial = 0;
}

int32_t qr_blocks_find(const struct qr_blocks *b, uint64_t parent, const int32_t *token)
{
    int32_t id = b->bucket[bucket_of(b, parent, token)];
    while (id >= 0 &&
           (b->block[id].parent != parent || memcmp(b->block[id].token, token, sizeof(b->block[id].token)) != 0))
        id = b->block[id].chain;
    return id;
}

int32_t qr_blocks_index(struct qr_blocks *b, int32_t id, uint64_t parent, const int32_t *token)
{
    struct qr_block *it = &b->block[id];
    int32_t there = qr_blocks_find(b, parent, token);
    if (there >= 0)
        return there;
    forget(b, id); /* another chain may lead to it, whose beginning is gone */
    int32_t *bucket = &b->bucket[bucket_of(b, parent, token)];
    it->serial = b->next_serial++;
    it->parent = parent;
    memcpy(it->token, token, sizeof(it->token));
    it->chain = *bucket;
    *bucket = id;
    return id;
}

/* ---------------------------------------------------------------- users */

int32_t qr_blocks_take(struct qr_blocks *b)
{
    int32_t id = b->first;
    if (id < 0)
        return -1;
    leave_free(b, id);
    forget(b, id);
    b->block[id].refs = 1;
    return id;
}

void qr_blocks_ref(struct qr_blocks *b, int32_t id)
{
    if (b->block[id].refs++ == 0)
        leave_free(b, id);
}

void qr_blocks_drop(struct qr_blocks *b, int32_t id)
{
    if (--b->block[id].refs == 0)
        join_free(b, id);
}
