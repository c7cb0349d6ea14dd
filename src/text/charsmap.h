/* charsmap.h - SentencePiece's precompiled map of characters (its doc/normalization.md; builder.cc, normalizer.cc):
 * sequences of bytes and the texts in their place, as a trie. Immutable once read. */
#ifndef QR_TEXT_CHARSMAP_H
#define QR_TEXT_CHARSMAP_H
#include "base/buf.h"
#include "base/err.h"

struct qr_charsmap;

/* data [n] is copied: the trie's size in bytes (32 bits, little-endian), its units, and texts ended by zero bytes. All
 * that lookups rely on is checked here. */
enum qr_status qr_charsmap_read(const void *data, size_t n, struct qr_charsmap **map, struct qr_err *err);
void qr_charsmap_free(struct qr_charsmap *map);

/* True when no byte of s [n] begins a key. */
bool qr_charsmap_idle(const struct qr_charsmap *map, const char *s, size_t n);
/* Appends well-formed text s [n] with its clusters and characters replaced as the tokenizers package does it: a cluster of
 * less than six bytes is replaced as a whole by the text of the shortest key that it begins with, where there is one; the
 * characters of others are looked up one by one. */
bool qr_charsmap_apply(const struct qr_charsmap *map, const char *s, size_t n, struct qr_buf *out);
#endif
