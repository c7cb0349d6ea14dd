/* tokenizer.c - a tokenizer as a whole: its parts, and what it knows of an id. */
#include "text/tokenizer.h"
#include <stdlib.h>
#include <string.h>
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

enum qr_status qr_tokenizer_alloc(struct qr_tokenizer **tok, struct qr_err *err)
{
    *tok = calloc(1, sizeof **tok);
    if (!*tok)
        return qr_fail(err, QR_NOMEM, "out of memory for a tokenizer");
    qr_vocab_init(&(*tok)->vocab);
    qr_added_init(&(*tok)->added);
    qr_buf_init(&(*tok)->piece_bytes, UINT32_MAX);
    (*tok)->bos = (*tok)->eos = -1;
    return QR_OK;
}

void qr_tokenizer_destroy(struct qr_tokenizer *tok)
{
    if (!tok)
        return;
    qr_vocab_free(&tok->vocab);
    qr_bpe_free(&tok->bpe);
    qr_unigram_free(&tok->unigram);
    qr_normalizer_free(&tok->normalizer);
    qr_decoder_free(&tok->decoder);
    free(tok->piece);
    qr_buf_free(&tok->piece_bytes);
    qr_added_free(&tok->added);
    qr_pretok_free(&tok->pretok);
    free(tok);
}

/* Adds a token that the model's vocabulary does not have. Where it is looked for in normalized text, its text is the
 * normalized one (tokenizers 0.23 shows it so), unless that is another token. */
static enum qr_status add_unknown(struct qr_tokenizer *tok, const struct qr_added_token *how, const char *text,
                                  size_t n, int kind, struct qr_err *err)
{
    enum qr_status status = QR_OK;
    struct qr_buf normal;
    bool moved;

    qr_buf_init(&normal, 0);
    if (tok->vocab.plain)
        kind |= QR_TOKEN_LITERAL;
    if (how->normalized && !tok->text && !qr_normalizer_idle(&tok->normalizer, text, n)) {
        status = qr_normalizer_run(&tok->normalizer, text, n, NULL, &normal, &moved, err);
        if (status == QR_OK && normal.len > 0 && qr_vocab_find_text(&tok->vocab, normal.data, normal.len) < 0) {
            text = normal.data;
            n = normal.len;
        }
    }
    if (status == QR_OK)
        status = qr_vocab_add(&tok->vocab, how->id, text, n, kind, err);
    qr_buf_free(&normal);
    return status;
}

enum qr_status qr_tokenizer_add_token(struct qr_tokenizer *tok, const struct qr_added_token *how, const char *text,
                                      size_t n, bool literal, struct qr_err *err)
{
    int kind = QR_TOKEN_ADDED | (how->special ? QR_TOKEN_SPECIAL : 0);
    const struct qr_added_token *before = qr_added_find(&tok->added, text, n);
    struct qr_token *token;
    int32_t known;

    if (n == 0)
        return QR_OK;
    if (before)
        known = before->id;
    else
        known = literal ? qr_vocab_find(&tok->vocab, text, n, true) : qr_vocab_find_text(&tok->vocab, text, n);
    if (known >= 0 && known != how->id)
        return qr_fail(err, QR_FORMAT, "the added token \"%.*s\" has the id %d, but the vocabulary gives it %d",
                       (int)(n < 60 ? n : 60), text, how->id, known);
    if (known < 0)
        QR_TRY(add_unknown(tok, how, text, n, kind | (literal ? QR_TOKEN_LITERAL : 0), err));
    token = &tok->vocab.token[how->id];
    token->kind = (uint8_t)((token->kind & ~QR_TOKEN_SPECIAL) | kind);
    return qr_added_add(&tok->added, how, text, n, &tok->normalizer, err);
}

const char *qr_tokenizer_text(const struct qr_tokenizer *tok, int32_t id, size_t *n)
{
    const struct qr_token *token = &tok->vocab.token[id];
    const struct qr_added_token *added = tok->piece[id].added ? &tok->added.token[tok->piece[id].added - 1] : NULL;

    *n = added ? added->nk : token->n;
    if (added)
        return tok->added.bytes.data + added->key;
    return token->kind & QR_TOKEN_PRESENT ? tok->vocab.bytes.data + token->at : NULL;
}

static enum qr_status make_pieces(struct qr_tokenizer *tok, struct qr_err *err)
{
    tok->piece = calloc(tok->vocab.n + 1, sizeof *tok->piece);
    if (!tok->piece)
        return qr_fail(err, QR_NOMEM, "out of memory for a vocabulary of %zu tokens", tok->vocab.n);
    for (size_t i = 0; i < tok->added.n; i++)
        tok->piece[tok->added.token[i].id].added = (uint32_t)i + 1;
    for (size_t i = 0; i < tok->vocab.n; i++) {
        size_t at = tok->piece_bytes.len, n;
        const char *s = qr_tokenizer_text(tok, (int32_t)i, &n);

        if (s)
            QR_TRY(qr_decoder_piece(&tok->decoder, s, n, &tok->piece_bytes, err));
        tok->piece[i].at = (uint32_t)at;
        tok->piece[i].n = (uint32_t)(tok->piece_bytes.len - at);
    }
    return qr_buf_reserve(&tok->piece_bytes, 1) ? QR_OK : qr_fail(err, QR_NOMEM, "out of memory for a vocabulary");
}

enum qr_status qr_tokenizer_finish(struct qr_tokenizer *tok, struct qr_err *err)
{
    if (tok->vocab.n_used == 0)
        return qr_fail(err, QR_FORMAT, "the tokenizer has no tokens");
    if (tok->bpe.slot)
        qr_bpe_finish(&tok->bpe, &tok->vocab);
    if (tok->text)
        QR_TRY(make_pieces(tok, err));
    return qr_added_finish(&tok->added, err);
}

int qr_tokenizer_n_vocab(const struct qr_tokenizer *tok)
{
    return (int)tok->vocab.n;
}

int32_t qr_tokenizer_bos(const struct qr_tokenizer *tok)
{
    return tok->bos;
}

int32_t qr_tokenizer_eos(const struct qr_tokenizer *tok)
{
    return tok->eos;
}

int32_t qr_tokenizer_id(const struct qr_tokenizer *tok, const char *token, size_t n)
{
    const struct qr_added_token *added = qr_added_find(&tok->added, token, n);

    if (added)
        return added->id;
    return qr_vocab_find(&tok->vocab, token, n, false);
}

static const struct qr_token *token_of(const struct qr_tokenizer *tok, int32_t id)
{
    if (id < 0 || (size_t)id >= tok->vocab.n || !(tok->vocab.token[id].kind & QR_TOKEN_PRESENT))
        return NULL;
    return &tok->vocab.token[id];
}

const char *qr_tokenizer_bytes(const struct qr_tokenizer *tok, int32_t id, size_t *n)
{
    const struct qr_token *token = token_of(tok, id);

    *n = !token ? 0 : tok->piece ? tok->piece[id].n : token->n;
    if (token && tok->piece)
        return tok->piece_bytes.data + tok->piece[id].at;
    return token ? tok->vocab.bytes.data + token->at : NULL;
}

bool qr_tokenizer_is_special(const struct qr_tokenizer *tok, int32_t id)
{
    const struct qr_token *token = token_of(tok, id);

    return token && (token->kind & QR_TOKEN_SPECIAL);
}
