/* blocks.c - the free list and the reference counts of KV blocks. */
#include "engine/blocks.h"
#include <stdlib.h>
#include "plan/exec.h"

enum qr_status qr_blocks_init(struct qr_blocks *blocks, int n_block, struct qr_err *err)
{
    *blocks = (struct qr_blocks){.n_block = n_block, .n_free = n_block, .head = n_block > 0 ? 0 : -1};
    blocks->tail = n_block - 1;
    blocks->refs = calloc((size_t)n_block + 1, sizeof(*blocks->refs));
    blocks->next = calloc((size_t)n_block + 1, sizeof(*blocks->next));
    if (!blocks->refs || !blocks->next) {
        qr_blocks_free(blocks);
        return qr_fail(err, QR_NOMEM, "out of memory for the counts of %d KV blocks", n_block);
    }
    for (int i = 0; i < n_block; i++)
        blocks->next[i] = i + 1 < n_block ? i + 1 : -1;
    return QR_OK;
}

void qr_blocks_free(struct qr_blocks *blocks)
{
    free(blocks->refs);
    free(blocks->next);
    *blocks = (struct qr_blocks){.head = -1, .tail = -1};
}

int32_t qr_blocks_take(struct qr_blocks *blocks)
{
    int32_t id = blocks->head;
    if (id < 0)
        return -1;
    blocks->head = blocks->next[id];
    if (blocks->head < 0)
        blocks->tail = -1;
    blocks->n_free--;
    blocks->refs[id] = 1;
    return id;
}

void qr_blocks_ref(struct qr_blocks *blocks, int32_t id)
{
    blocks->refs[id]++;
}

void qr_blocks_drop(struct qr_blocks *blocks, int32_t id)
{
    if (--blocks->refs[id] > 0)
        return;
    blocks->next[id] = -1;
    if (blocks->tail >= 0)
        blocks->next[blocks->tail] = id;
    else
        blocks->head = id;
    blocks->tail = id;
    blocks->n_free++;
}

int qr_blocks_for(int n_token)
{
    return n_token / QR_PAGE + (n_token % QR_PAGE != 0);
}
