/* styles.h - tokenizers in the styles that models ship, small, for fuzz targets. */
#ifndef TESTS_FUZZ_STYLES_H
#define TESTS_FUZZ_STYLES_H
#include "text/tokenizer.h"

enum style {
    STYLE_BYTES, /* byte-level, no normalizer: decoding gives the text back */
    STYLE_NFC,   /* byte-level behind NFC, Qwen's pattern, digits, added tokens of every kind */
    STYLE_CHARS, /* BPE on characters with byte tokens, as Llama 2: decoding gives the text back */
    STYLE_UNIGRAM,
    N_STYLE
};
/* Ends the program when it cannot be made. */
struct qr_tokenizer *style_tokenizer(enum style style);
#endif
