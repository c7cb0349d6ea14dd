/* bpelong.c - merging a long word: a linked list of symbols and a heap of candidates, O(n log n). */
#include "text/bpelong.h"
#include <string.h>
#include "base/checked.h"

#define NONE UINT32_MAX

struct qr_symbol {
    int32_t id; /* -1: merged into the one before */
    uint32_t prev, next;
};

struct qr_candidate {
    uint32_t rank, at; /* order: rank, then the leftmost */
    uint32_t slot;     /* the merge; stale when the symbols at at are no longer its two */
};

void qr_bpe_scratch_free(struct qr_bpe_scratch *scratch)
{
    free(scratch->id);
    free(scratch->symbol);
    free(scratch->heap);
    *scratch = (struct qr_bpe_scratch){0};
}

static bool before(const struct qr_candidate *a, const struct qr_candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_push(struct qr_bpe_scratch *scratch, struct qr_candidate candidate)
{
    size_t i = scratch->n_heap++;

    for (; i > 0 && before(&candidate, &scratch->heap[(i - 1) / 2]); i = (i - 1) / 2)
        scratch->heap[i] = scratch->heap[(i - 1) / 2];
    scratch->heap[i] = candidate;
}

static struct qr_candidate heap_pop(struct qr_bpe_scratch *scratch)
{
    struct qr_candidate *heap = scratch->heap, top = heap[0], last = heap[--scratch->n_heap];
    size_t n = scratch->n_heap, i = 0;

    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &last))
            break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return top;
}

static bool make_room(struct qr_bpe_scratch *scratch, size_t n)
{
    /* each merge leaves one symbol less and adds two candidates at most: n - 1 + 2 (n - 1) */
    if (scratch->room_symbol < n) {
        free(scratch->symbol);
        scratch->symbol = malloc(n * sizeof *scratch->symbol);
        scratch->room_symbol = scratch->symbol ? n : 0;
    }
    if (scratch->room_heap < 3 * n) {
        free(scratch->heap);
        scratch->heap = malloc(3 * n * sizeof *scratch->heap);
        scratch->room_heap = scratch->heap ? 3 * n : 0;
    }
    return scratch->symbol && scratch->heap;
}

static void consider(const struct qr_bpe *bpe, struct qr_bpe_scratch *scratch, uint32_t left)
{
    uint32_t right = left == NONE ? NONE : scratch->symbol[left].next, slot;

    if (right == NONE)
        return;
    slot = qr_bpe_find(bpe, (uint32_t)scratch->symbol[left].id, (uint32_t)scratch->symbol[right].id);
    if (slot != QR_NO_MERGE)
        heap_push(scratch, (struct qr_candidate){bpe->slot[slot].rank, left, slot});
}

static void fill_symbols(const int32_t *id, size_t n, struct qr_symbol *symbol)
{
    for (size_t i = 0; i < n; i++)
        symbol[i] = (struct qr_symbol){id[i], (uint32_t)i - 1, (uint32_t)i + 1};
    if (n > 0) {
        symbol[0].prev = NONE;
        symbol[n - 1].next = NONE;
    }
}

static void merge(const struct qr_bpe *bpe, struct qr_bpe_scratch *scratch, const struct qr_candidate *best)
{
    const struct qr_merge *rule = &bpe->slot[best->slot];
    struct qr_symbol *symbol = scratch->symbol, *left = &symbol[best->at];
    uint32_t right = left->next;

    if (left->id != (int32_t)rule->left || right == NONE || symbol[right].id != (int32_t)rule->right)
        return; /* one of the two was merged meanwhile */
    left->id = rule->id;
    left->next = symbol[right].next;
    symbol[right].id = -1;
    if (left->next != NONE)
        symbol[left->next].prev = best->at;
    consider(bpe, scratch, left->prev);
    consider(bpe, scratch, best->at);
}

enum qr_status qr_bpe_merge_long(const struct qr_bpe *bpe, const int32_t *id, size_t n, struct qr_bpe_scratch *scratch,
                                 struct qr_ids *ids, struct qr_err *err)
{
    if (n > NONE / 4)
        return qr_fail(err, QR_LIMIT, "a word of %zu symbols is longer than the limit of %u", n, NONE / 4);
    if (!make_room(scratch, n))
        return qr_fail(err, QR_NOMEM, "out of memory for a word of %zu symbols", n);
    fill_symbols(id, n, scratch->symbol);
    scratch->n_heap = 0;
    for (size_t i = 0; i < n; i++)
        consider(bpe, scratch, (uint32_t)i);
    while (scratch->n_heap > 0) {
        struct qr_candidate best = heap_pop(scratch);

        merge(bpe, scratch, &best);
    }
    for (size_t i = 0; i < n; i++)
        if (scratch->symbol[i].id >= 0)
            qr_ids_push(ids, scratch->symbol[i].id);
    return QR_OK;
}
