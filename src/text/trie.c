/* trie.c - many strings looked for at once: leftmost, then longest. */
#include "text/trie.h"
#include <stdlib.h>
#include "text/vocab.h"

#define NO_NODE QR_TRIE_END

static size_t edge_slot(const struct qr_trie *trie, uint32_t node, uint8_t byte)
{
    size_t i = qr_hash_mix((uint64_t)node << 8 | byte) & (trie->n_edge - 1);

    for (; trie->edge[i].node; i = (i + 1) & (trie->n_edge - 1))
        if (trie->edge[i].node == node + 1 && trie->edge[i].byte == byte)
            break;
    return i;
}

uint32_t qr_trie_step(const struct qr_trie *trie, uint32_t node, uint8_t byte)
{
    const struct qr_edge *edge = &trie->edge[edge_slot(trie, node, byte)];

    return edge->node ? edge->child : NO_NODE;
}

bool qr_trie_init(struct qr_trie *trie, size_t n_byte)
{
    size_t n_edge = 16;

    while (n_edge / 2 < n_byte)
        n_edge *= 2;
    *trie = (struct qr_trie){.n_edge = n_edge, .room_node = n_byte + 1, .n_node = 1};
    trie->edge = calloc(n_edge, sizeof *trie->edge);
    trie->token = malloc(trie->room_node * sizeof *trie->token);
    if (!trie->edge || !trie->token)
        return false;
    trie->token[0] = -1;
    return true;
}

void qr_trie_free(struct qr_trie *trie)
{
    free(trie->edge);
    free(trie->token);
    *trie = (struct qr_trie){0};
}

bool qr_trie_add(struct qr_trie *trie, const char *key, size_t n, int32_t token)
{
    uint32_t node = 0;

    if (n == 0)
        return true;
    trie->first[(unsigned char)key[0]] = true;
    for (size_t i = 0; i < n; i++) {
        struct qr_edge *edge = &trie->edge[edge_slot(trie, node, (uint8_t)key[i])];

        if (!edge->node) {
            if (trie->n_node == trie->room_node)
                return false;
            *edge = (struct qr_edge){node + 1, (uint32_t)trie->n_node, (uint8_t)key[i]};
            trie->token[trie->n_node++] = -1;
        }
        node = edge->child;
    }
    trie->token[node] = token;
    return true;
}

int32_t qr_trie_search(const struct qr_trie *trie, const char *s, size_t n, size_t at, size_t *start, size_t *end)
{
    for (; at < n; at++) {
        uint32_t node = 0;
        int32_t found = -1;

        if (!trie->first[(unsigned char)s[at]])
            continue;
        for (size_t i = at; i < n && (node = qr_trie_step(trie, node, (uint8_t)s[i])) != NO_NODE; i++) {
            if (trie->token[node] >= 0) {
                found = trie->token[node];
                *end = i + 1;
            }
        }
        if (found >= 0) {
            *start = at;
            return found;
        }
    }
    return -1;
}
