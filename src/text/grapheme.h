/* grapheme.h - extended grapheme clusters (Unicode Standard Annex #29), as of Unicode 17. */
#ifndef QR_TEXT_GRAPHEME_H
#define QR_TEXT_GRAPHEME_H
#include <stddef.h>

/* Bytes of the cluster that begins at s; n: of well-formed text, more than 0. */
size_t qr_grapheme(const char *s, size_t n);
#endif
