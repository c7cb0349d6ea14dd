/* tokenizer.h - text to ids and back: BPE on bytes or characters, or Unigram, as tokenizer.json or a GGUF file says.
 * Immutable after creation: any number of threads may encode and decode at once. */
#ifndef QR_TEXT_TOKENIZER_H
#define QR_TEXT_TOKENIZER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

struct qr_tokenizer;

/* json: the text of tokenizer.json. config: of tokenizer_config.json, or NULL (bos, eos, added tokens). Components that are not
 * supported are refused by name. */
enum qr_status qr_tokenizer_from_json(const char *json, size_t n_json, const char *config, size_t n_config,
                                      struct qr_tokenizer **tok, struct qr_err *err);

struct qr_vocab_piece {
    const char *s; /* not NUL-terminated */
    size_t n;
};
/* What a GGUF file says of its tokenizer; everything is copied. */
struct qr_vocab_spec {
    const char *model;                  /* tokenizer.ggml.model: "gpt2", "llama" or "t5" */
    const char *pre;                    /* tokenizer.ggml.pre, NULL when absent */
    const struct qr_vocab_piece *token; /* [n_token] in byte-level letters; of llama and t5 as they are */
    const int32_t *type; /* [n_token] 1 normal 2 unknown 3 control 4 user defined 5 unused 6 byte; NULL: all normal */
    size_t n_token;
    const struct qr_vocab_piece *merge; /* [n_merge] "left right" */
    size_t n_merge;
    bool merges_missing; /* the file says nothing of them, which is not the same as none */
    const float *score; /* [n_token] of llama and t5; NULL: the file has none */
    int32_t bos, eos;   /* -1: none */
    int32_t unk;        /* with unk_known */
    bool unk_known;
    bool add_space_known, add_space; /* a space in front of the text; llama and t5: yes, unless the file says no */
    bool remove_spaces;              /* t5: of several spaces one is left, at the ends none */
    const void *charsmap;            /* [n_charsmap] t5: a precompiled map of characters (charsmap.h); NULL: none */
    size_t n_charsmap;
    /* *_known: the file says so; else the default of pre. add_bos true without add_bos_known counts as said. */
    bool add_bos_known, add_bos, add_eos_known, add_eos, ignore_merges_known, ignore_merges;
};
enum qr_status qr_tokenizer_from_spec(const struct qr_vocab_spec *spec, struct qr_tokenizer **tok, struct qr_err *err);
void qr_tokenizer_destroy(struct qr_tokenizer *tok);

int qr_tokenizer_n_vocab(const struct qr_tokenizer *tok); /* highest id + 1 */
int32_t qr_tokenizer_bos(const struct qr_tokenizer *tok); /* -1: none */
int32_t qr_tokenizer_eos(const struct qr_tokenizer *tok);
/* Id of a token given as text ("<|im_end|>"); -1: none. */
int32_t qr_tokenizer_id(const struct qr_tokenizer *tok, const char *token, size_t n);
/* The bytes that an id stands for; NULL for an id that stands for none. */
const char *qr_tokenizer_bytes(const struct qr_tokenizer *tok, int32_t id, size_t *n);
bool qr_tokenizer_is_special(const struct qr_tokenizer *tok, int32_t id);

/* *ids is malloc'ed. Invalid UTF-8 is replaced by U+FFFD first. Time is O(n log n) in the text. */
enum qr_status qr_tokenizer_encode(const struct qr_tokenizer *tok, const char *text, size_t n, bool parse_special,
                                   bool add_special, int32_t **ids, size_t *n_ids, struct qr_err *err);
/* *text is malloc'ed and NUL-terminated; QR_INVALID for an id outside the vocabulary. */
enum qr_status qr_tokenizer_decode(const struct qr_tokenizer *tok, const int32_t *ids, size_t n, bool skip_special,
                                   char **text, size_t *n_text, struct qr_err *err);
#endif
