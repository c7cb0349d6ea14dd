/* regex.h - the regular expressions of tokenizers, which are written for Oniguruma, run by PCRE2.
 *
 * A pattern is rewritten so that it means under PCRE2 what it means there; a construct that cannot be rewritten is
 * refused by its name. Immutable after compilation. */
#ifndef QR_TEXT_REGEX_H
#define QR_TEXT_REGEX_H
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"

struct qr_regex;

enum qr_status qr_regex_compile(const char *pattern, size_t n, struct qr_regex **regex, struct qr_err *err);
void qr_regex_free(struct qr_regex *regex);

/* What one thread needs to match; work counts the bytes looked at, over all matches made with it. */
struct qr_regex_state {
    void *match_data, *match_context;
    size_t position;     /* of the matcher, for counting */
    uint64_t work, room; /* room: the most that work may reach */
};
enum qr_status qr_regex_state_init(struct qr_regex_state *state, uint64_t room, struct qr_err *err);
void qr_regex_state_free(struct qr_regex_state *state);

/* The next match at or behind from in s[0, n), which is well-formed UTF-8; *found is false when there is none. An
 * empty match is reported as it is. QR_LIMIT when state's room is used up. */
enum qr_status qr_regex_match(const struct qr_regex *regex, const char *s, size_t n, size_t from,
                              struct qr_regex_state *state, bool *found, size_t *start, size_t *end,
                              struct qr_err *err);

/* The rewritten pattern (for regex.c and tests). */
enum qr_status qr_regex_rewrite(const char *pattern, size_t n, struct qr_buf *out, struct qr_err *err);

/* A bracketed class at *s (just behind '['), or one escape such as \s at *s (just behind the backslash), rewritten as
 * one item that matches one character; *s moves behind it. */
enum qr_status qr_regex_class(const char **s, const char *end, bool caseless, struct qr_buf *out, struct qr_err *err);
enum qr_status qr_regex_class_escape(const char **s, const char *end, struct qr_buf *out, bool *is_class,
                                     struct qr_err *err);
/* The character that an escape such as \n or \x{85} at *s (behind the backslash) stands for. */
enum qr_status qr_regex_char_escape(const char **s, const char *end, int32_t *cp, struct qr_err *err);
/* Refuses what (?i) does not leave a single character. */
enum qr_status qr_regex_check_char(int32_t cp, bool caseless, struct qr_err *err);
/* Appends a character so that it stands for itself inside a class and outside. */
void qr_regex_put_char(struct qr_buf *out, int32_t cp);
#endif
