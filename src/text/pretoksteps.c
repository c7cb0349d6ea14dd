/* pretoksteps.c - building a pre-tokenizer. */
#include <stdlib.h>
#include <string.h>
#include "text/pretok.h"

enum qr_status qr_pretok_add_step(struct qr_pretok *pretok, enum qr_step_kind kind, enum qr_split split,
                                  struct qr_err *err)
{
    if (pretok->n == QR_MAX_STEPS)
        return qr_fail(err, QR_LIMIT, "the pre-tokenizer has more than %d steps", QR_MAX_STEPS);
    pretok->step[pretok->n++] = (struct qr_step){.kind = kind, .split = split};
    return QR_OK;
}

enum qr_status qr_pretok_add_regex(struct qr_pretok *pretok, const char *pattern, size_t n, enum qr_split split,
                                   bool invert, struct qr_err *err)
{
    struct qr_regex *regex;

    QR_TRY(qr_regex_compile(pattern, n, &regex, err));
    if (qr_pretok_add_step(pretok, QR_STEP_REGEX, split, err) != QR_OK) {
        qr_regex_free(regex);
        return QR_LIMIT;
    }
    pretok->step[pretok->n - 1].regex = regex;
    pretok->step[pretok->n - 1].invert = invert;
    return QR_OK;
}

enum qr_status qr_pretok_add_string(struct qr_pretok *pretok, const char *text, size_t n, enum qr_split split,
                                    bool invert, struct qr_err *err)
{
    char *copy = malloc(n + 1);

    if (!copy)
        return qr_fail(err, QR_NOMEM, "out of memory for a pattern of %zu bytes", n);
    memcpy(copy, text, n);
    if (qr_pretok_add_step(pretok, QR_STEP_STRING, split, err) != QR_OK) {
        free(copy);
        return QR_LIMIT;
    }
    pretok->step[pretok->n - 1].text = copy;
    pretok->step[pretok->n - 1].n_text = n;
    pretok->step[pretok->n - 1].invert = invert;
    return QR_OK;
}

enum qr_status qr_pretok_add_metaspace(struct qr_pretok *pretok, const char *replacement, size_t n,
                                       enum qr_prefix prefix, bool split, struct qr_err *err)
{
    QR_TRY(qr_pretok_add_string(pretok, replacement, n, QR_SPLIT_MERGED_WITH_NEXT, false, err));
    pretok->step[pretok->n - 1].kind = QR_STEP_METASPACE;
    pretok->step[pretok->n - 1].prefix = prefix;
    return split ? qr_pretok_add_string(pretok, replacement, n, QR_SPLIT_MERGED_WITH_NEXT, false, err) : QR_OK;
}

enum qr_status qr_pretok_add_gpt2(struct qr_pretok *pretok, struct qr_err *err)
{
    /* encoder.py of GPT-2 */
    static const char pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

    return qr_pretok_add_regex(pretok, pattern, sizeof pattern - 1, QR_SPLIT_ISOLATED, false, err);
}

void qr_pretok_free(struct qr_pretok *pretok)
{
    for (int i = 0; i < pretok->n; i++) {
        qr_regex_free(pretok->step[i].regex);
        free(pretok->step[i].text);
    }
    pretok->n = 0;
}
