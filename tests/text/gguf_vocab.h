/* gguf_vocab.h - the tokenizer's keys of a GGUF file that is known to be good (src/model reads those that are not). */
#ifndef TESTS_TEXT_GGUF_VOCAB_H
#define TESTS_TEXT_GGUF_VOCAB_H
#include "base/mapfile.h"
#include "text/tokenizer.h"

struct gguf_vocab {
    struct qr_vocab_spec spec;
    struct qr_map map;
    char model[64], pre[64];
};
struct gguf_vocab *read_gguf_vocab(const char *path);
void free_gguf_vocab(struct gguf_vocab *vocab);
#endif
