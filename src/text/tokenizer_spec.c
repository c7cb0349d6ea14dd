/* tokenizer_spec.c - a tokenizer from what a GGUF file says (tokenizer.ggml.* keys; docs/gguf.md of ggml). */
#include <string.h>
#include "text/tokenizer_impl.h"
#include "text/utf8.h"

enum token_type { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

static enum qr_status read_tokens(const struct qr_vocab_spec *spec, struct qr_tokenizer *tok, struct qr_err *err)
{
    QR_TRY(qr_vocab_reserve(&tok->vocab, spec->n_token, err));
    for (size_t i = 0; i < spec->n_token; i++) {
        const struct qr_vocab_piece *piece = &spec->token[i];
        int32_t type = spec->type ? spec->type[i] : NORMAL;
        struct qr_added_token how = {.id = (int32_t)i, .special = type != USER_DEFINED};

        if (type < NORMAL || type > BYTE)
            return qr_fail(err, QR_FORMAT, "tokenizer.ggml.token_type of token %zu is %d, which must be 1 to 6", i,
                           type);
        if (qr_utf8_valid(piece->s, piece->n) < piece->n)
            return qr_fail(err, QR_FORMAT, "tokenizer.ggml.tokens: token %zu is not well-formed UTF-8", i);
        if (type == CONTROL || type == USER_DEFINED || type == UNKNOWN)
            QR_TRY(qr_tokenizer_add_token(tok, &how, piece->s, piece->n, true, err));
        else
            QR_TRY(qr_vocab_add(&tok->vocab, (int64_t)i, piece->s, piece->n, 0, err));
    }
    return QR_OK;
}

static enum qr_status read_merges(const struct qr_vocab_spec *spec, struct qr_tokenizer *tok, struct qr_err *err)
{
    if (spec->merges_missing)
        return qr_fail(err, QR_FORMAT,
                       "tokenizer.ggml.merges is missing: without it the tokenizer would cut into bytes");
    QR_TRY(qr_bpe_init(&tok->bpe, spec->n_merge, err));
    for (size_t i = 0; i < spec->n_merge; i++) {
        const struct qr_vocab_piece *merge = &spec->merge[i];
        const char *space = merge->n > 1 ? memchr(merge->s + 1, ' ', merge->n - 1) : NULL;
        size_t n_left = space ? (size_t)(space - merge->s) : 0;

        if (!space || qr_utf8_valid(merge->s, merge->n) < merge->n)
            return qr_fail(err, QR_FORMAT, "tokenizer.ggml.merges: merge %zu is not two tokens with a space between",
                           i);
        QR_TRY(qr_bpe_add(&tok->bpe, &tok->vocab, (uint32_t)i, merge->s, n_left, space + 1, merge->n - n_left - 1, true,
                          err));
    }
    return QR_OK;
}

static enum qr_status check_id(const struct qr_tokenizer *tok, const char *what, int32_t id, bool needed,
                               struct qr_err *err)
{
    if (id < -1 || (id >= 0 && (size_t)id >= tok->vocab.n))
        return qr_fail(err, QR_FORMAT, "the %s token's id %d is outside the vocabulary of %zu", what, id, tok->vocab.n);
    if (needed && id < 0)
        return qr_fail(err, QR_FORMAT, "the file asks to add a %s token, but names none", what);
    return QR_OK;
}

static enum qr_status read_around(const struct qr_vocab_spec *spec, bool add_bos, bool add_eos,
                                  struct qr_tokenizer *tok, struct qr_err *err)
{
    QR_TRY(check_id(tok, "bos", spec->bos, add_bos, err));
    QR_TRY(check_id(tok, "eos", spec->eos, add_eos, err));
    tok->bos = spec->bos;
    tok->eos = spec->eos;
    if (add_bos)
        tok->front[tok->n_front++] = spec->bos;
    if (add_eos)
        tok->back[tok->n_back++] = spec->eos;
    return QR_OK;
}

static enum qr_status read_spec(const struct qr_vocab_spec *spec, struct qr_tokenizer *tok, struct qr_err *err)
{
    struct qr_pre pre;

    if (spec->model && strcmp(spec->model, "llama") == 0) {
        QR_TRY(qr_tokenizer_read_llama(spec, tok, err));
        QR_TRY(read_around(spec, spec->add_bos || (!spec->add_bos_known && spec->bos >= 0), spec->add_eos, tok, err));
        return qr_tokenizer_finish(tok, err);
    }
    if (spec->model && strcmp(spec->model, "t5") == 0) {
        QR_TRY(qr_tokenizer_read_t5(spec, tok, err));
        QR_TRY(read_around(spec, spec->add_bos, spec->add_eos || (!spec->add_eos_known && spec->eos >= 0), tok, err));
        return qr_tokenizer_finish(tok, err);
    }
    if (!spec->model || strcmp(spec->model, "gpt2") != 0)
        return qr_fail(err, QR_UNSUPPORTED, "tokenizer.ggml.model \"%.60s\" is not supported (gpt2, llama and t5 are)",
                       spec->model ? spec->model : "");
    QR_TRY(qr_tokenizer_named_pre(spec->pre, &tok->pretok, &pre, err));
    if (pre.nfc)
        QR_TRY(qr_normalizer_add_form(&tok->normalizer, QR_NFC, err));
    QR_TRY(read_tokens(spec, tok, err));
    QR_TRY(read_merges(spec, tok, err));
    tok->bpe.ignore_merges = spec->ignore_merges_known ? spec->ignore_merges : pre.ignore_merges;
    QR_TRY(read_around(spec, spec->add_bos || (!spec->add_bos_known && pre.add_bos && spec->bos >= 0), spec->add_eos,
                       tok, err));
    return qr_tokenizer_finish(tok, err);
}

enum qr_status qr_tokenizer_from_spec(const struct qr_vocab_spec *spec, struct qr_tokenizer **tok, struct qr_err *err)
{
    enum qr_status status;

    QR_TRY(qr_tokenizer_alloc(tok, err));
    status = read_spec(spec, *tok, err);
    if (status != QR_OK) {
        qr_tokenizer_destroy(*tok);
        *tok = NULL;
    }
    return status;
}
