/* trie.h - many strings looked for at once. */
#ifndef QR_TEXT_TRIE_H
#define QR_TEXT_TRIE_H
#include "text/added.h"

bool qr_trie_init(struct qr_trie *trie, size_t n_byte); /* n_byte: of all keys together */
void qr_trie_free(struct qr_trie *trie);
bool qr_trie_add(struct qr_trie *trie, const char *key, size_t n, int32_t token);
/* From a node (the first is 0) along a byte; QR_TRIE_END: no string goes on so. */
#define QR_TRIE_END UINT32_MAX
uint32_t qr_trie_step(const struct qr_trie *trie, uint32_t node, uint8_t byte);
/* Leftmost token at or behind at, of those the longest: its index and place; -1: none. */
int32_t qr_trie_search(const struct qr_trie *trie, const char *s, size_t n, size_t at, size_t *start, size_t *end);
#endif
