/* normalize.h - the normalizer of a tokenizer: steps that rewrite a text before it is cut. Immutable once built. */
#ifndef QR_TEXT_NORMALIZE_H
#define QR_TEXT_NORMALIZE_H
#include "text/charsmap.h"
#include "text/regex.h"
#include "text/utf8.h"

enum qr_normal_kind {
    QR_NORMAL_FORM, /* form */
    QR_NORMAL_LOWERCASE,
    QR_NORMAL_REPLACE, /* what regex, or text where that is NULL, matches, by content */
    QR_NORMAL_PREPEND, /* content, unless the text is empty */
    QR_NORMAL_STRIP,   /* white space on the left, on the right */
    QR_NORMAL_CHARSMAP /* map */
};

struct qr_normal_step {
    enum qr_normal_kind kind;
    enum qr_normal_form form;
    struct qr_regex *regex;
    struct qr_charsmap *map;
    char *text, *content;
    size_t n_text, n_content;
    bool left, right;
};

#define QR_MAX_NORMAL 32

struct qr_normalizer {
    struct qr_normal_step step[QR_MAX_NORMAL];
    int n;
};

/* Appends a step, which takes over step's memory also when it fails. */
enum qr_status qr_normalizer_add(struct qr_normalizer *normalizer, const struct qr_normal_step *step,
                                 struct qr_err *err);
enum qr_status qr_normalizer_add_form(struct qr_normalizer *normalizer, enum qr_normal_form form, struct qr_err *err);
void qr_normalizer_free(struct qr_normalizer *normalizer);

/* Bytes that steps may make out of n, at most: real ones make some 11 of one (NFKD), those of a stranger's file a million. */
static inline size_t qr_normal_room(size_t n)
{
    return n > SIZE_MAX / 128 ? SIZE_MAX / 2 : 4096 + 64 * n;
}

/* True when a quick look says that the text stays as it is. */
bool qr_normalizer_idle(const struct qr_normalizer *normalizer, const char *s, size_t n);
/* out gets the text, appended: qr_normal_room(n) bytes at most, and no more than its own cap. *moved: its beginning was taken away. state: for regular expressions; NULL: one is made. */
enum qr_status qr_normalizer_run(const struct qr_normalizer *normalizer, const char *s, size_t n,
                                 struct qr_regex_state *state, struct qr_buf *out, bool *moved, struct qr_err *err);
/* A replacement by itself, for decoders. */
enum qr_status qr_normal_replace(const struct qr_normal_step *step, const char *s, size_t n,
                                 struct qr_regex_state *state, struct qr_buf *out, struct qr_err *err);
#endif
