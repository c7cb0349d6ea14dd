/* tokenizer_impl.h - what the tokenizer*.c files share. */
#ifndef QR_TEXT_TOKENIZER_IMPL_H
#define QR_TEXT_TOKENIZER_IMPL_H
#include <jansson.h>
#include "text/added.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalize.h"
#include "text/pretok.h"
#include "text/tokenizer.h"
#include "text/unigram.h"
#include "text/vocab.h"

#define QR_MAX_AROUND 16 /* tokens that add_special puts on one side */

struct qr_tokenizer {
    struct qr_vocab vocab;
    struct qr_bpe bpe;
    struct qr_unigram unigram; /* .score NULL: the model is bpe */
    struct qr_added added;
    struct qr_normalizer normalizer;
    struct qr_pretok pretok;
    bool text; /* the model sees characters, else bytes; decoder makes the text then */
    struct qr_decoder decoder;
    struct qr_piece { /* with text: what a token stands for by itself */
        uint32_t at, n;
        uint32_t added; /* index + 1 of the added token; 0: it is none */
    } * piece;          /* [vocab.n]; NULL: the token's bytes */
    struct qr_buf piece_bytes;
    int32_t bos, eos;                                  /* -1: none */
    int32_t front[QR_MAX_AROUND], back[QR_MAX_AROUND]; /* what add_special adds */
    int n_front, n_back;
};

enum qr_status qr_tokenizer_alloc(struct qr_tokenizer **tok, struct qr_err *err);
/* Adds a token that is matched in the text as a whole. literal: its bytes are its text even where that could be read as
 * byte-level letters. */
enum qr_status qr_tokenizer_add_token(struct qr_tokenizer *tok, const struct qr_added_token *how, const char *text,
                                      size_t n, bool literal, struct qr_err *err);
/* With text: what the decoder sees of a token of the vocabulary: its text, of an added one in its normal form. NULL:
 * none. */
const char *qr_tokenizer_text(const struct qr_tokenizer *tok, int32_t id, size_t *n);
/* After the last token: tables that need all of them. */
enum qr_status qr_tokenizer_finish(struct qr_tokenizer *tok, struct qr_err *err);

/* tokenizer_scan.c: the two big parts of a tokenizer.json, which jansson would take too long for. *rest gets the JSON
 * with an empty "vocab" and "merges" of "model" in their place; vocab and merges point into json, NULL when absent. */
struct qr_json_span {
    const char *s;
    size_t n;
};
enum qr_status qr_tokenizer_cut(const char *json, size_t n, struct qr_buf *rest, struct qr_json_span *vocab,
                                struct qr_json_span *merges, struct qr_err *err);
enum qr_status qr_tokenizer_read_vocab(struct qr_json_span span, struct qr_vocab *vocab, struct qr_err *err);
/* [["<unk>", 0.0], ["a", -2.5], ...]: 1 to QR_MAX_VOCAB tokens, *score [*n] malloc'ed. */
enum qr_status qr_tokenizer_read_scored(struct qr_json_span span, struct qr_vocab *vocab, double **score, size_t *n,
                                        struct qr_err *err);
enum qr_status qr_tokenizer_read_merges(struct qr_json_span span, const struct qr_vocab *vocab, struct qr_bpe *bpe,
                                        struct qr_err *err);

/* tokenizer_component.c: what the readers of components share. */
#define QR_MAX_NESTING 16 /* of Sequence */
enum qr_status qr_component_type(const json_t *json, const char *part, const char **type, struct qr_err *err);
enum qr_status qr_component_refuse(const char *part, const char *type, const char *known, struct qr_err *err);
/* The list of a Sequence. */
enum qr_status qr_component_list(const json_t *json, const char *part, const char *key, int depth, json_t **list,
                                 struct qr_err *err);
/* {"pattern": {"String": ...} or {"Regex": ...}, "content": ...} */
enum qr_status qr_component_replace(const json_t *json, const char *part, struct qr_normal_step *step,
                                    struct qr_err *err);
enum qr_status qr_tokenizer_read_normalizer(const json_t *json, struct qr_normalizer *normalizer, struct qr_err *err);

/* tokenizer_parts.c: the components of a tokenizer.json, each refused by name when it is not supported. *text: the
 * model sees characters. */
enum qr_status qr_tokenizer_read_pretok(const json_t *json, struct qr_pretok *pretok, bool *text, struct qr_err *err);
enum qr_status qr_tokenizer_read_post(const json_t *json, struct qr_tokenizer *tok, struct qr_err *err);

/* tokenizer_decoder.c */
enum qr_status qr_tokenizer_read_decoder(const json_t *json, struct qr_tokenizer *tok, struct qr_err *err);

/* tokenizer_added.c: added_tokens, and tokenizer_config.json. */
enum qr_status qr_tokenizer_read_added(const json_t *list, struct qr_tokenizer *tok, struct qr_err *err);
enum qr_status qr_tokenizer_read_config(const json_t *config, struct qr_tokenizer *tok, struct qr_err *err);

/* tokenizer_spm.c: all but what stands around the text. */
enum qr_status qr_tokenizer_read_llama(const struct qr_vocab_spec *spec, struct qr_tokenizer *tok, struct qr_err *err);
enum qr_status qr_tokenizer_read_t5(const struct qr_vocab_spec *spec, struct qr_tokenizer *tok, struct qr_err *err);

/* tokenizer_pre.c: the pre-tokenizer that a GGUF file names. */
struct qr_pre {
    bool nfc, ignore_merges, add_bos;
};
enum qr_status qr_tokenizer_named_pre(const char *name, struct qr_pretok *pretok, struct qr_pre *pre,
                                      struct qr_err *err);
#endif
