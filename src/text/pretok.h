/* pretok.h - cutting normalized text into the words that BPE may not merge across. Immutable once built. */
#ifndef QR_TEXT_PRETOK_H
#define QR_TEXT_PRETOK_H
#include "base/err.h"
#include "text/regex.h"

enum qr_split {
    QR_SPLIT_ISOLATED, /* matches and what lies between, each a piece */
    QR_SPLIT_REMOVED,  /* only what lies between */
    QR_SPLIT_MERGED_WITH_PREVIOUS,
    QR_SPLIT_MERGED_WITH_NEXT,
    QR_SPLIT_CONTIGUOUS /* neighbouring matches together, too */
};

enum qr_step_kind {
    QR_STEP_REGEX,
    QR_STEP_STRING,      /* text */
    QR_STEP_NUMERIC,     /* each code point that is a number */
    QR_STEP_PUNCTUATION, /* each code point that is punctuation */
    QR_STEP_SPACE,       /* each code point that is white space */
    QR_STEP_WORDS,       /* word characters in a row, and others in a row; white space goes */
    QR_STEP_METASPACE,   /* spaces become text, which is put in front as prefix says */
    QR_STEP_PREFIX,      /* a space in front where there is none */
    QR_STEP_LETTERS      /* bytes become their letters for the steps behind */
};

enum qr_prefix { QR_PREFIX_NEVER, QR_PREFIX_FIRST, QR_PREFIX_ALWAYS };

struct qr_step {
    enum qr_step_kind kind;
    enum qr_split split;
    bool invert;           /* matches and the rest change places */
    enum qr_prefix prefix; /* of Metaspace: in front of the first piece of a text, or of all */
    struct qr_regex *regex;
    char *text;
    size_t n_text;
};

#define QR_MAX_STEPS 32

struct qr_pretok {
    struct qr_step step[QR_MAX_STEPS];
    int n;
};

/* Append a step. Errors leave pretok as it was; qr_pretok_free frees all. */
enum qr_status qr_pretok_add_regex(struct qr_pretok *pretok, const char *pattern, size_t n, enum qr_split split,
                                   bool invert, struct qr_err *err);
enum qr_status qr_pretok_add_string(struct qr_pretok *pretok, const char *text, size_t n, enum qr_split split,
                                    bool invert, struct qr_err *err);
enum qr_status qr_pretok_add_step(struct qr_pretok *pretok, enum qr_step_kind kind, enum qr_split split,
                                  struct qr_err *err);
/* Metaspace; split: also cuts before each replacement. */
enum qr_status qr_pretok_add_metaspace(struct qr_pretok *pretok, const char *replacement, size_t n,
                                       enum qr_prefix prefix, bool split, struct qr_err *err);
/* ByteLevel's own pattern (GPT-2's). */
enum qr_status qr_pretok_add_gpt2(struct qr_pretok *pretok, struct qr_err *err);
void qr_pretok_free(struct qr_pretok *pretok);

/* Gets each word, as bytes. first: s is the beginning of the whole text. */
typedef enum qr_status (*qr_word_fn)(void *ctx, const char *word, size_t n, struct qr_err *err);
enum qr_status qr_pretok_run(const struct qr_pretok *pretok, const char *s, size_t n, bool first,
                             struct qr_regex_state *state, qr_word_fn fn, void *ctx, struct qr_err *err);
#endif
