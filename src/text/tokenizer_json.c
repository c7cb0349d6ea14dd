/* tokenizer_json.c - a tokenizer from tokenizer.json, the format of Hugging Face's tokenizers package. */
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "text/tokenizer_impl.h"

/* An option of the model that must be absent, null, or what it is without effect. */
static enum qr_status refuse_option(const json_t *model, const char *key, struct qr_err *err)
{
    const json_t *value = json_object_get(model, key);
    bool empty = !value || json_is_null(value) || json_is_false(value) ||
                 (json_is_string(value) && json_string_length(value) == 0) ||
                 (json_is_number(value) && json_number_value(value) == 0);

    if (empty)
        return QR_OK;
    return qr_fail(err, QR_UNSUPPORTED, "the BPE model's option \"%s\" is not supported", key);
}

/* Refuses what quire has not; *unigram: that model, else BPE. */
static enum qr_status read_model_kind(const json_t *model, bool *unigram, struct qr_err *err)
{
    static const char *const options[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix"};
    const char *type = "BPE"; /* old files leave it out */

    if (!json_is_object(model))
        return qr_fail(err, QR_FORMAT, "it has no \"model\"");
    QR_TRY(qr_json_string(model, "type", &type, err));
    *unigram = strcmp(type, "Unigram") == 0;
    if (*unigram)
        return QR_OK;
    if (strcmp(type, "BPE") != 0)
        return qr_component_refuse("model", type, "BPE and Unigram are", err);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        QR_TRY(refuse_option(model, options[i], err));
    return QR_OK;
}

static enum qr_status read_bpe(const json_t *model, struct qr_json_span vocab, struct qr_json_span merges,
                               struct qr_tokenizer *tok, struct qr_err *err)
{
    const char *unk = NULL;

    if (!tok->text)
        QR_TRY(refuse_option(model, "byte_fallback", err));
    if (!vocab.s || *vocab.s != '{')
        return qr_fail(err, QR_FORMAT, "its model has no object \"vocab\"");
    if (!merges.s && json_object_get(model, "merges"))
        return qr_fail(err, QR_FORMAT, "its model's \"merges\" are no list");
    QR_TRY(qr_tokenizer_read_vocab(vocab, &tok->vocab, err));
    QR_TRY(qr_tokenizer_read_merges(merges, &tok->vocab, &tok->bpe, err));
    tok->bpe.chars = tok->text;
    QR_TRY(qr_json_bool(model, "byte_fallback", &tok->bpe.byte_fallback, err));
    QR_TRY(qr_json_bool(model, "ignore_merges", &tok->bpe.ignore_merges, err));
    QR_TRY(qr_json_bool(model, "fuse_unk", &tok->bpe.fuse_unk, err));
    QR_TRY(qr_json_string(model, "unk_token", &unk, err));
    if (unk) {
        tok->bpe.unk = qr_vocab_find_text(&tok->vocab, unk, strlen(unk));
        if (tok->bpe.unk < 0)
            return qr_fail(err, QR_FORMAT, "its unk_token \"%.80s\" is no token of the vocabulary", unk);
    }
    return QR_OK;
}

static enum qr_status read_unigram(const json_t *model, struct qr_json_span vocab, struct qr_tokenizer *tok,
                                   struct qr_err *err)
{
    int64_t unk = -1;
    bool byte_fallback = false;
    enum qr_status status;
    double *score;
    size_t n;

    if (!tok->text)
        return qr_fail(err, QR_UNSUPPORTED, "the model Unigram with the pre-tokenizer ByteLevel is not supported");
    if (!vocab.s || *vocab.s != '[')
        return qr_fail(err, QR_FORMAT, "the Unigram model needs a list \"vocab\"");
    QR_TRY(qr_json_bool(model, "byte_fallback", &byte_fallback, err));
    QR_TRY(qr_tokenizer_read_scored(vocab, &tok->vocab, &score, &n, err));
    status = qr_json_int(model, "unk_id", 0, (int64_t)n - 1, &unk, err);
    if (status != QR_OK) {
        free(score);
        return status;
    }
    return qr_unigram_build(&tok->unigram, &tok->vocab, score, n, (int32_t)unk, byte_fallback, err);
}

static enum qr_status read_all(const json_t *root, struct qr_json_span vocab, struct qr_json_span merges,
                               struct qr_tokenizer *tok, struct qr_err *err)
{
    bool unigram;

    if (!json_is_object(root))
        return qr_fail(err, QR_FORMAT, "it must be an object");
    /* what a stranger's file lacks should be said before its vocabulary is read */
    QR_TRY(read_model_kind(json_object_get(root, "model"), &unigram, err));
    QR_TRY(qr_tokenizer_read_normalizer(json_object_get(root, "normalizer"), &tok->normalizer, err));
    QR_TRY(qr_tokenizer_read_pretok(json_object_get(root, "pre_tokenizer"), &tok->pretok, &tok->text, err));
    tok->vocab.plain = tok->text;
    QR_TRY(qr_tokenizer_read_decoder(json_object_get(root, "decoder"), tok, err));
    if (unigram)
        QR_TRY(read_unigram(json_object_get(root, "model"), vocab, tok, err));
    else
        QR_TRY(read_bpe(json_object_get(root, "model"), vocab, merges, tok, err));
    QR_TRY(qr_tokenizer_read_added(json_object_get(root, "added_tokens"), tok, err));
    return qr_tokenizer_read_post(json_object_get(root, "post_processor"), tok, err);
}

static enum qr_status read_tokenizer(const char *json, size_t n, struct qr_tokenizer *tok, struct qr_err *err)
{
    struct qr_json_span vocab, merges;
    json_t *root = NULL;
    struct qr_buf rest;
    enum qr_status status;

    qr_buf_init(&rest, 0);
    status = qr_tokenizer_cut(json, n, &rest, &vocab, &merges, err);
    if (status == QR_OK)
        status = qr_json_parse_file(rest.data, rest.len, "tokenizer.json", &root, err);
    qr_buf_free(&rest);
    if (status != QR_OK)
        return status;
    status = read_all(root, vocab, merges, tok, err);
    json_decref(root);
    return status == QR_OK ? QR_OK : qr_err_prefix(err, status, "tokenizer.json");
}

static enum qr_status read_config(const char *config, size_t n, struct qr_tokenizer *tok, struct qr_err *err)
{
    json_t *root;
    enum qr_status status;

    QR_TRY(qr_json_parse_file(config, n, "tokenizer_config.json", &root, err));
    status = qr_tokenizer_read_config(root, tok, err);
    json_decref(root);
    return status == QR_OK ? QR_OK : qr_err_prefix(err, status, "tokenizer_config.json");
}

enum qr_status qr_tokenizer_from_json(const char *json, size_t n_json, const char *config, size_t n_config,
                                      struct qr_tokenizer **tok, struct qr_err *err)
{
    enum qr_status status;

    QR_TRY(qr_tokenizer_alloc(tok, err));
    status = read_tokenizer(json, n_json, *tok, err);
    if (status == QR_OK && config)
        status = read_config(config, n_config, *tok, err);
    if (status == QR_OK)
        status = qr_tokenizer_finish(*tok, err);
    if (status != QR_OK) {
        qr_tokenizer_destroy(*tok);
        *tok = NULL;
    }
    return status;
}
