/* tiny.h - small tokenizers whose ids are known by construction. */
#ifndef TESTS_TEXT_TINY_H
#define TESTS_TEXT_TINY_H
#include "text/tokenizer.h"

/* A tokenizer.json, malloc'ed: the token of byte b has id b, merge i ("he+l" is the pair of "he" and "l", written as
 * byte-level letters) makes id 256 + i. more: further members, such as "\"added_tokens\":[...]". Where it does not
 * name a pre-tokenizer, that is ByteLevel without its pattern. model: further members of the model. */
char *tiny_json(const char *const *merge, size_t n_merge, const char *model, const char *more);
/* The same, loaded; fails the test when it is refused. */
struct qr_tokenizer *tiny_tokenizer(const char *const *merge, size_t n_merge, const char *model, const char *more);

/* Fails the test unless text encodes to these ids, ended by -1. flags: TINY_* */
enum { TINY_PLAIN = 0, TINY_SPECIAL = 1, TINY_AROUND = 2 };
void assert_encodes(const struct qr_tokenizer *tok, const char *text, int flags, const int32_t *ids);
#define IDS(...) ((const int32_t[]){__VA_ARGS__, -1})
#endif
