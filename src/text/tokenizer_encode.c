/* tokenizer_encode.c - text to ids and back.
 *
 * The order is Hugging Face's: tokens that are looked for in the raw text cut it first; what lies between is
 * normalized, cut by the tokens that are looked for in normalized text, cut into words, and each word merged. */
#include <stdlib.h>
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

#define MAX_TEXT ((size_t)1 << 30) /* bytes */
/* Steps of the regular expressions: real patterns take some 20 a byte, one that is quadratic in a row of spaces takes
 * 10^8 for a row of 10,000. */
#define WORK_BASE     200000000u
#define WORK_PER_BYTE 200u

struct encoding {
    const struct qr_tokenizer *tok;
    const char *text, *first; /* the whole text; its first segment once it is normalized, NULL in others */
    bool parse_special;
    size_t room; /* bytes that the normalizer may still make of all segments together */
    struct qr_ids *ids;
    struct qr_bpe_scratch scratch;
    struct qr_unigram_scratch unigram;
    struct qr_regex_state regex;
    struct qr_err *err;
};

static enum qr_status encode_word(void *ctx, const char *word, size_t n, struct qr_err *err)
{
    struct encoding *e = ctx;

    if (e->tok->unigram.score)
        return qr_unigram_encode(&e->tok->unigram, &e->tok->vocab, word, n, &e->unigram, e->ids, err);
    return qr_bpe_encode(&e->tok->bpe, &e->tok->vocab, word, n, &e->scratch, e->ids, err);
}

static enum qr_status encode_plain(struct encoding *e, const char *s, size_t n)
{
    return qr_pretok_run(&e->tok->pretok, s, n, s == e->first, &e->regex, encode_word, e, e->err);
}

/* Cuts s by the tokens of a trie; what lies between goes to between. */
static enum qr_status encode_around(struct encoding *e, const struct qr_trie *trie, const char *s, size_t n,
                                    enum qr_status (*between)(struct encoding *e, const char *s, size_t n))
{
    const struct qr_added_token *token;
    size_t at = 0, done = 0, start, end;

    while ((token = qr_added_next(&e->tok->added, trie, s, n, done, e->parse_special, &at, &start, &end))) {
        if (start > done)
            QR_TRY(between(e, s + done, start - done));
        qr_ids_push(e->ids, token->id);
        done = end;
    }
    return done < n ? between(e, s + done, n - done) : QR_OK;
}

static enum qr_status encode_raw(struct encoding *e, const char *s, size_t n)
{
    enum qr_status status;
    struct qr_buf text;
    bool moved;

    e->first = s == e->text ? s : NULL;
    if (qr_normalizer_idle(&e->tok->normalizer, s, n))
        return encode_around(e, &e->tok->added.normal, s, n, encode_plain);
    qr_buf_init(&text, e->room);
    status = qr_normalizer_run(&e->tok->normalizer, s, n, &e->regex, &text, &moved, e->err);
    e->first = e->first && !moved ? text.data : NULL;
    e->room -= text.len < e->room ? text.len : e->room - 1; /* a cap of 0 would be none */
    if (status == QR_OK && text.len > 0)
        status = encode_around(e, &e->tok->added.normal, text.data, text.len, encode_plain);
    qr_buf_free(&text);
    return status;
}

static enum qr_status encode_valid(struct encoding *e, const char *text, size_t n, bool add_special)
{
    for (int i = 0; add_special && i < e->tok->n_front; i++)
        qr_ids_push(e->ids, e->tok->front[i]);
    QR_TRY(encode_around(e, &e->tok->added.raw, text, n, encode_raw));
    for (int i = 0; add_special && i < e->tok->n_back; i++)
        qr_ids_push(e->ids, e->tok->back[i]);
    if (e->ids->failed)
        return qr_fail(e->err, QR_NOMEM, "out of memory for %zu tokens", e->ids->n);
    return QR_OK;
}

enum qr_status qr_tokenizer_encode(const struct qr_tokenizer *tok, const char *text, size_t n, bool parse_special,
                                   bool add_special, int32_t **ids, size_t *n_ids, struct qr_err *err)
{
    struct qr_ids list = {0};
    struct encoding e = {.tok = tok, .parse_special = parse_special, .ids = &list, .err = err};
    enum qr_status status = QR_OK;
    struct qr_buf repaired;

    *ids = NULL;
    *n_ids = 0;
    if (n > MAX_TEXT)
        return qr_fail(err, QR_LIMIT, "a text of %zu bytes is longer than the limit of %zu: split it", n, MAX_TEXT);
    QR_TRY(qr_regex_state_init(&e.regex, WORK_BASE + (uint64_t)n * WORK_PER_BYTE, err));
    qr_buf_init(&repaired, 0);
    if (qr_utf8_valid(text, n) < n) {
        if (!qr_utf8_repair(text, n, &repaired))
            status = qr_fail(err, QR_NOMEM, "out of memory for a text of %zu bytes", n);
        text = repaired.data;
        n = repaired.len;
    }
    e.text = text;
    e.room = qr_normal_room(n);
    if (status == QR_OK)
        status = encode_valid(&e, text, n, add_special);
    if (status == QR_OK && !list.data && !(list.data = calloc(1, sizeof *list.data)))
        status = qr_fail(err, QR_NOMEM, "out of memory for tokens");
    qr_buf_free(&repaired);
    qr_bpe_scratch_free(&e.scratch);
    qr_unigram_scratch_free(&e.unigram);
    qr_regex_state_free(&e.regex);
    if (status != QR_OK) {
        free(list.data);
        return status;
    }
    *ids = list.data;
    *n_ids = list.n;
    return QR_OK;
}

static enum qr_status check_id(const struct qr_tokenizer *tok, int32_t id, struct qr_err *err)
{
    if (id >= 0 && (size_t)id < tok->vocab.n)
        return QR_OK;
    return qr_fail(err, QR_INVALID, "the token id %d is outside the vocabulary of %zu", id, tok->vocab.n);
}

/* The tokenizers package knows special tokens by the text that it shows, which is the normal form: where that differs
 * from what the file says, the token is not skipped. */
static bool is_skipped(const struct qr_tokenizer *tok, int32_t id, const char *s, size_t n)
{
    const struct qr_added_token *added = qr_added_find(&tok->added, s, n);

    return qr_tokenizer_is_special(tok, id) && (!tok->piece[id].added || (added && added->special));
}

/* By the decoder's steps: they see all tokens, so that the first may lose its space. */
static enum qr_status decode_text(const struct qr_tokenizer *tok, const int32_t *ids, size_t n, bool skip_special,
                                  char **text, size_t *n_text, struct qr_err *err)
{
    struct qr_texts texts;
    struct qr_buf out;
    enum qr_status status = QR_OK;

    qr_texts_init(&texts);
    qr_buf_init(&out, 0);
    for (size_t i = 0; i < n && status == QR_OK; i++) {
        const char *s;
        size_t len;

        status = check_id(tok, ids[i], err);
        if (status != QR_OK)
            break;
        s = qr_tokenizer_text(tok, ids[i], &len);
        if (s && !(skip_special && is_skipped(tok, ids[i], s, len)))
            qr_texts_add(&texts, s, len);
    }
    if (status == QR_OK)
        status = qr_decoder_run(&tok->decoder, &texts, &out, err);
    qr_texts_free(&texts);
    if (status == QR_OK && !(*text = qr_buf_take(&out, n_text)))
        status = qr_fail(err, QR_NOMEM, "out of memory for the text of %zu tokens", n);
    qr_buf_free(&out);
    return status;
}

enum qr_status qr_tokenizer_decode(const struct qr_tokenizer *tok, const int32_t *ids, size_t n, bool skip_special,
                                   char **text, size_t *n_text, struct qr_err *err)
{
    struct qr_buf bytes, repaired;

    *text = NULL;
    *n_text = 0;
    if (tok->text)
        return decode_text(tok, ids, n, skip_special, text, n_text, err);
    qr_buf_init(&bytes, 0);
    qr_buf_init(&repaired, 0);
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *s = qr_tokenizer_bytes(tok, ids[i], &len);

        if (check_id(tok, ids[i], err) != QR_OK) {
            qr_buf_free(&bytes);
            return QR_INVALID;
        }
        if (s && !(skip_special && qr_tokenizer_is_special(tok, ids[i])))
            qr_buf_append(&bytes, s, len);
    }
    if (!bytes.failed && qr_utf8_valid(bytes.data, bytes.len) < bytes.len) {
        qr_utf8_repair(bytes.data, bytes.len, &repaired);
        qr_buf_free(&bytes);
        bytes = repaired;
    }
    *text = qr_buf_take(&bytes, n_text);
    if (!*text) {
        qr_buf_free(&bytes);
        return qr_fail(err, QR_NOMEM, "out of memory for the text of %zu tokens", n);
    }
    return QR_OK;
}
