/* ids.h - a growing list of token ids; check failed once, at the end. */
#ifndef QR_TEXT_IDS_H
#define QR_TEXT_IDS_H
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct qr_ids {
    int32_t *data; /* [n] */
    size_t n, room;
    bool failed; /* out of memory */
};

static inline bool qr_ids_push(struct qr_ids *ids, int32_t id)
{
    if (ids->n == ids->room) {
        size_t room = ids->room ? ids->room * 2 : 64;
        int32_t *data = ids->failed || room > SIZE_MAX / sizeof *data ? NULL : realloc(ids->data, room * sizeof *data);

        if (!data) {
            ids->failed = true;
            return false;
        }
        ids->data = data;
        ids->room = room;
    }
    ids->data[ids->n++] = id;
    return true;
}
#endif
