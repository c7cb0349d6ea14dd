/* unidelta.h - what Unicode 15, 15.1 and 16 added to Unicode 14, which is what PCRE2 10.42 knows.
 *
 * The tokenizers package runs its patterns with Oniguruma (Unicode 16) and its Digits with Rust (Unicode 17). */
#ifndef QR_TEXT_UNIDELTA_H
#define QR_TEXT_UNIDELTA_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qr_unidelta {
    uint32_t first, last;
    char gc[3]; /* general category */
};
/* In order of code points. */
const struct qr_unidelta *qr_unidelta_ranges(size_t *n);
/* Category of a code point assigned after Unicode 14; NULL for others. */
const char *qr_unidelta_category(uint32_t cp);
/* Numeric since Unicode 17. */
bool qr_unidelta_numeric(uint32_t cp);

struct qr_script_delta {
    const char *script;
    uint32_t first, last;
};
/* Additions to the scripts that patterns may name; a script that got none has one empty range (first > last). */
const struct qr_script_delta *qr_script_deltas(size_t *n);
#endif
