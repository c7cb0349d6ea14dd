/* stops.c - Aho-Corasick over stop strings. */
#include "text/stops.h"
#include <stdlib.h>
#include <string.h>
#include "text/utf8.h"

#define NONE UINT32_MAX

struct node {
    uint32_t child, sibling; /* NONE: no more */
    uint32_t fail;           /* the longest proper suffix that starts a stop string */
    uint32_t depth;
    uint32_t match; /* length of the longest stop string that ends here, 0: none */
    uint8_t byte;
};

struct qr_stops {
    struct node *node;
    uint32_t n;
};

static uint32_t find_child(const struct qr_stops *stops, uint32_t state, uint8_t byte)
{
    uint32_t child = stops->node[state].child;

    while (child != NONE && stops->node[child].byte != byte)
        child = stops->node[child].sibling;
    return child;
}

uint32_t qr_stops_step(const struct qr_stops *stops, uint32_t state, uint8_t byte)
{
    uint32_t child;

    while ((child = find_child(stops, state, byte)) == NONE && state != 0)
        state = stops->node[state].fail;
    return child == NONE ? 0 : child;
}

size_t qr_stops_match(const struct qr_stops *stops, uint32_t state)
{
    return stops->node[state].match;
}

size_t qr_stops_depth(const struct qr_stops *stops, uint32_t state)
{
    return stops->node[state].depth;
}

static void add(struct qr_stops *stops, const char *s)
{
    uint32_t state = 0;

    for (size_t i = 0; s[i]; i++) {
        uint32_t child = find_child(stops, state, (uint8_t)s[i]);

        if (child == NONE) {
            child = stops->n++;
            stops->node[child] = (struct node){
                .child = NONE, .sibling = stops->node[state].child, .depth = (uint32_t)i + 1, .byte = (uint8_t)s[i]};
            stops->node[state].child = child;
        }
        state = child;
    }
    stops->node[state].match = stops->node[state].depth;
}

/* Failure links in order of depth, so that those of shorter strings are known. */
static bool link_all(struct qr_stops *stops)
{
    uint32_t *queue = malloc(stops->n * sizeof *queue);
    uint32_t head = 0, tail = 0;

    if (!queue)
        return false;
    queue[tail++] = 0;
    while (head < tail) {
        uint32_t state = queue[head++];

        for (uint32_t child = stops->node[state].child; child != NONE; child = stops->node[child].sibling) {
            struct node *node = &stops->node[child];

            node->fail = state == 0 ? 0 : qr_stops_step(stops, stops->node[state].fail, node->byte);
            if (node->match == 0)
                node->match = stops->node[node->fail].match;
            queue[tail++] = child;
        }
    }
    free(queue);
    return true;
}

enum qr_status qr_stops_create(const char *const *stop, size_t n, struct qr_stops **stops, struct qr_err *err)
{
    size_t bytes = 0;

    *stops = NULL;
    if (n > QR_MAX_STOPS)
        return qr_fail(err, QR_LIMIT, "%zu stop strings are more than the limit of %d", n, QR_MAX_STOPS);
    for (size_t i = 0; i < n; i++) {
        size_t len = stop[i] ? strlen(stop[i]) : 0;

        if (len == 0)
            return qr_fail(err, QR_INVALID, "stop string %zu is empty: it would end every text before it starts", i);
        if (qr_utf8_valid(stop[i], len) < len)
            return qr_fail(err, QR_INVALID, "stop string %zu is not well-formed UTF-8", i);
        bytes += len;
        if (bytes > QR_MAX_STOP_BYTES)
            return qr_fail(err, QR_LIMIT, "the stop strings take more than the limit of %d bytes", QR_MAX_STOP_BYTES);
    }
    *stops = calloc(1, sizeof **stops);
    if (*stops)
        (*stops)->node = malloc((bytes + 1) * sizeof *(*stops)->node);
    if (!*stops || !(*stops)->node) {
        qr_stops_destroy(*stops);
        *stops = NULL;
        return qr_fail(err, QR_NOMEM, "out of memory for %zu stop strings", n);
    }
    (*stops)->node[0] = (struct node){.child = NONE, .sibling = NONE};
    (*stops)->n = 1;
    for (size_t i = 0; i < n; i++)
        add(*stops, stop[i]);
    if (!link_all(*stops)) {
        qr_stops_destroy(*stops);
        *stops = NULL;
        return qr_fail(err, QR_NOMEM, "out of memory for %zu stop strings", n);
    }
    return QR_OK;
}

void qr_stops_destroy(struct qr_stops *stops)
{
    if (!stops)
        return;
    free(stops->node);
    free(stops);
}
