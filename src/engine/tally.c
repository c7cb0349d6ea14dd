/* tally.c - open addressing with linear probing over a table at most half full. */
#include "engine/tally.h"
#include <stdlib.h>

enum qr_status qr_tally_init(struct qr_tally *tally, int max_distinct, struct qr_err *err)
{
    uint32_t size = 16;
    while (size / 2 < (uint32_t)max_distinct)
        size *= 2;
    *tally = (struct qr_tally){.mask = size - 1};
    tally->entry = calloc((size_t)max_distinct + 1, sizeof(*tally->entry));
    tally->slot = calloc(size, sizeof(*tally->slot));
    if (!tally->entry || !tally->slot) {
        qr_tally_free(tally);
        return qr_fail(err, QR_NOMEM, "out of memory for the penalties' counts of %d tokens", max_distinct);
    }
    return QR_OK;
}

void qr_tally_free(struct qr_tally *tally)
{
    free(tally->entry);
    free(tally->slot);
    *tally = (struct qr_tally){0};
}

void qr_tally_count(struct qr_tally *tally, int32_t id, bool output)
{
    uint32_t i = ((uint32_t)id * 2654435761u) & tally->mask; /* Knuth's multiplicative hash */
    while (tally->slot[i] && tally->entry[tally->slot[i] - 1].id != id)
        i = (i + 1) & tally->mask;
    if (!tally->slot[i]) {
        tally->entry[tally->n] = (struct qr_count){.id = id};
        tally->slot[i] = ++tally->n;
    }
    tally->entry[tally->slot[i] - 1].n_output += output;
}
