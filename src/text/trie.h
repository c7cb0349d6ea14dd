/* trie.h - between trie.c and added.c. */
#ifndef QR_TEXT_TRIE_H
#define QR_TEXT_TRIE_H
#include "text/added.h"

bool qr_trie_init(struct qr_trie *trie, size_t n_byte); /* n_byte: of all keys together */
void qr_trie_free(struct qr_trie *trie);
bool qr_trie_add(struct qr_trie *trie, const char *key, size_t n, int32_t token);
/* Leftmost token at or behind at, of those the longest: its index and place; -1: none. */
int32_t qr_trie_search(const struct qr_trie *trie, const char *s, size_t n, size_t at, size_t *start, size_t *end);
#endif
