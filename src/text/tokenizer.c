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
    (*tok)->bos = (*tok)->eos = -1;
    return QR_OK;
}

void qr_tokenizer_destroy(struct qr_tokenizer *tok)
{
    if (!tok)
        return;
    qr_vocab_free(&tok->vocab);
    qr_bpe_free(&tok->bpe);
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

    qr_buf_init(&normal, 0);
    if (how->normalized && tok->nfc && !qr_nfc_certain(text, n)) {
        status = qr_nfc(text, n, &normal, err);
        if (status == QR_OK && qr_vocab_find_text(&tok->vocab, normal.data, normal.len) < 0) {
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
    return qr_added_add(&tok->added, how, text, n, tok->nfc, err);
}

enum qr_status qr_tokenizer_finish(struct qr_tokenizer *tok, struct qr_err *err)
{
    if (tok->vocab.n_used == 0)
        return qr_fail(err, QR_FORMAT, "the tokenizer has no tokens");
    qr_bpe_set_bytes(&tok->bpe, &tok->vocab);
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

    *n = token ? token->n : 0;
    return token ? tok->vocab.bytes.data + token->at : NULL;
}

bool qr_tokenizer_is_special(const struct qr_tokenizer *tok, int32_t id)
{
    const struct qr_token *token = token_of(tok, id);

    return token && (token->kind & QR_TOKEN_SPECIAL);
}
