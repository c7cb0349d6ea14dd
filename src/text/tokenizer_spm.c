/* tokenizer_spm.c - the SentencePiece tokenizers of GGUF files: "llama", BPE whose merges follow from the scores of the
 * tokens, and "t5", Unigram. Spaces are written as U+2581. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "text/tokenizer_impl.h"

#define SPACE "\xE2\x96\x81"
/* Bytes that are hashed to find merges, the square of each token's: real vocabularies take some 10^7. */
#define MAX_WORK (UINT64_C(1) << 32)

enum token_type { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

static int32_t type_of(const struct qr_vocab_spec *spec, size_t i)
{
    return spec->type ? spec->type[i] : NORMAL;
}

static enum qr_status read_tokens(const struct qr_vocab_spec *spec, struct qr_tokenizer *tok, struct qr_err *err)
{
    if (!spec->score)
        return qr_fail(err, QR_FORMAT, "tokenizer.ggml.model is \"%s\", but tokenizer.ggml.scores is missing",
                       spec->model);
    tok->text = tok->vocab.plain = true;
    QR_TRY(qr_vocab_reserve(&tok->vocab, spec->n_token, err));
    for (size_t i = 0; i < spec->n_token; i++) {
        const struct qr_vocab_piece *piece = &spec->token[i];

        if (type_of(spec, i) < NORMAL || type_of(spec, i) > BYTE)
            return qr_fail(err, QR_FORMAT, "tokenizer.ggml.token_type of token %zu is %d, which must be 1 to 6", i,
                           type_of(spec, i));
        if (qr_utf8_valid(piece->s, piece->n) < piece->n)
            return qr_fail(err, QR_FORMAT, "tokenizer.ggml.tokens: token %zu is not well-formed UTF-8", i);
        if (!isfinite(spec->score[i]))
            return qr_fail(err, QR_FORMAT, "tokenizer.ggml.scores: the score of token %zu is not finite", i);
        QR_TRY(qr_vocab_add(&tok->vocab, (int64_t)i, piece->s, piece->n, 0, err));
    }
    return QR_OK;
}

/* Tokens that are found in the text as a whole. */
static enum qr_status read_added(const struct qr_vocab_spec *spec, struct qr_tokenizer *tok, struct qr_err *err)
{
    for (size_t i = 0; i < spec->n_token; i++) {
        int32_t type = type_of(spec, i);
        struct qr_added_token how = {.id = (int32_t)i, .special = type != USER_DEFINED};

        if (type == CONTROL || type == USER_DEFINED || type == UNKNOWN)
            QR_TRY(qr_tokenizer_add_token(tok, &how, spec->token[i].s, spec->token[i].n, false, err));
    }
    return QR_OK;
}

/* ---------------------------------------------------------------- merges */

/* Token id is made of its first bytes and the rest. */
struct cut {
    float score;
    uint32_t id, bytes;
    uint16_t n_left, n_right; /* characters */
};

/* The best score first; of one score the longer left part, then the longer right part: so transformers orders the merges
 * that it makes of such a model (convert_slow_tokenizer.py, generate_merges). */
static int in_order(const void *a, const void *b)
{
    const struct cut *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->n_left != y->n_left)
        return x->n_left > y->n_left ? -1 : 1;
    if (x->n_right != y->n_right)
        return x->n_right > y->n_right ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The ways to cut token id into two tokens, appended to out unless that is NULL. Returns how many. */
static size_t find_cuts(const struct qr_vocab_spec *spec, const struct qr_vocab *vocab, size_t id, struct cut *out)
{
    const struct qr_vocab_piece *piece = &spec->token[id];
    size_t found = 0, n_char = 0, len, n_left = 0;

    if (type_of(spec, id) != NORMAL)
        return 0;
    for (size_t i = 0; i < piece->n; i += len, n_char++)
        qr_utf8_get(piece->s + i, &len);
    for (size_t i = 0; i < piece->n; i += len, n_left++) {
        qr_utf8_get(piece->s + i, &len);
        if (i == 0 || qr_vocab_find(vocab, piece->s, i, false) < 0 ||
            qr_vocab_find(vocab, piece->s + i, piece->n - i, false) < 0)
            continue;
        if (out)
            out[found] =
                (struct cut){spec->score[id], (uint32_t)id, (uint32_t)i, (uint16_t)n_left, (uint16_t)(n_char - n_left)};
        found++;
    }
    return found;
}

/* Two tokens merge where their texts together are a token (SentencePiece's bpe_model.cc). */
static enum qr_status make_merges(const struct qr_vocab_spec *spec, struct qr_tokenizer *tok, struct qr_err *err)
{
    enum qr_status status;
    struct cut *cut;
    size_t n = 0, used = 0;
    uint64_t work = 0;

    for (size_t i = 0; i < spec->n_token; i++) {
        work += (uint64_t)spec->token[i].n * spec->token[i].n; /* n: at most QR_MAX_TOKEN */
        if (work > MAX_WORK || spec->token[i].n > UINT16_MAX)
            return qr_fail(err, QR_LIMIT, "tokenizer.ggml.tokens: token %zu, of %zu bytes, makes merging take too long",
                           i, spec->token[i].n);
    }
    for (size_t i = 0; i < spec->n_token && n <= QR_MAX_VOCAB; i++)
        n += find_cuts(spec, &tok->vocab, i, NULL);
    QR_TRY(qr_bpe_init(&tok->bpe, n, err)); /* and n is below its limit */
    cut = malloc((n + 1) * sizeof *cut);
    if (!cut)
        return qr_fail(err, QR_NOMEM, "out of memory for %zu merges", n);
    for (size_t i = 0; i < spec->n_token; i++)
        used += find_cuts(spec, &tok->vocab, i, cut + used);
    qsort(cut, used, sizeof *cut, in_order);
    status = QR_OK;
    for (size_t i = 0; i < used && status == QR_OK; i++) {
        const struct qr_vocab_piece *piece = &spec->token[cut[i].id];

        status = qr_bpe_add(&tok->bpe, &tok->vocab, (uint32_t)i, piece->s, cut[i].bytes, piece->s + cut[i].bytes,
                            piece->n - cut[i].bytes, true, err);
    }
    free(cut);
    return status;
}

/* ---------------------------------------------------------------- around the model */

static enum qr_status add_replace(struct qr_normal_step *step, const char *text, const char *content,
                                  struct qr_err *err)
{
    *step = (struct qr_normal_step){
        .kind = QR_NORMAL_REPLACE, .text = strdup(text), .content = strdup(content), .n_text = strlen(text)};
    step->n_content = strlen(content);
    if (step->text && step->content)
        return QR_OK;
    free(step->text);
    free(step->content);
    return qr_fail(err, QR_NOMEM, "out of memory for a tokenizer");
}

static enum qr_status prepend_space(struct qr_tokenizer *tok, struct qr_err *err)
{
    struct qr_normal_step step = {.kind = QR_NORMAL_PREPEND, .content = strdup(SPACE), .n_content = strlen(SPACE)};

    if (!step.content)
        return qr_fail(err, QR_NOMEM, "out of memory for a tokenizer");
    return qr_normalizer_add(&tok->normalizer, &step, err);
}

/* As the tokenizer.json of such models has it: Prepend, Replace; Replace, ByteFallback, Fuse, Strip. */
static enum qr_status llama_steps(bool space, struct qr_tokenizer *tok, struct qr_err *err)
{
    struct qr_decode_step replace = {.kind = QR_DECODE_REPLACE}, bytes = {.kind = QR_DECODE_BYTE_FALLBACK};
    struct qr_decode_step fuse = {.kind = QR_DECODE_FUSE};
    struct qr_decode_step strip = {.kind = QR_DECODE_STRIP, .text = " ", .n_text = 1, .start = 1};
    struct qr_normal_step step;

    if (space)
        QR_TRY(prepend_space(tok, err));
    QR_TRY(add_replace(&step, " ", SPACE, err));
    QR_TRY(qr_normalizer_add(&tok->normalizer, &step, err));
    QR_TRY(add_replace(&replace.replace, SPACE, " ", err));
    QR_TRY(qr_decoder_add(&tok->decoder, &replace, err));
    QR_TRY(qr_decoder_add(&tok->decoder, &bytes, err));
    QR_TRY(qr_decoder_add(&tok->decoder, &fuse, err));
    return space ? qr_decoder_add(&tok->decoder, &strip, err) : QR_OK;
}

static enum qr_status find_unk(const struct qr_vocab_spec *spec, int32_t *unk, struct qr_err *err)
{
    *unk = spec->unk_known ? spec->unk : -1;
    for (size_t i = 0; *unk < 0 && i < spec->n_token; i++)
        if (type_of(spec, i) == UNKNOWN)
            *unk = (int32_t)i;
    if (*unk >= 0 && (size_t)*unk >= spec->n_token)
        return qr_fail(err, QR_FORMAT, "the unk token's id %d is outside the vocabulary of %zu", *unk, spec->n_token);
    return QR_OK;
}

enum qr_status qr_tokenizer_read_llama(const struct qr_vocab_spec *spec, struct qr_tokenizer *tok, struct qr_err *err)
{
    int32_t unk;

    QR_TRY(read_tokens(spec, tok, err));
    QR_TRY(find_unk(spec, &unk, err));
    QR_TRY(llama_steps(!spec->add_space_known || spec->add_space, tok, err));
    QR_TRY(make_merges(spec, tok, err));
    tok->bpe.chars = tok->bpe.byte_fallback = tok->bpe.fuse_unk = true;
    tok->bpe.unk = unk;
    return read_added(spec, tok, err);
}

/* As transformers converts such models: the map, white space at the end, rows of spaces. */
static enum qr_status t5_normalizer(const struct qr_vocab_spec *spec, struct qr_tokenizer *tok, struct qr_err *err)
{
    struct qr_normal_step map = {.kind = QR_NORMAL_CHARSMAP}, strip = {.kind = QR_NORMAL_STRIP, .right = true};
    struct qr_normal_step one = {.kind = QR_NORMAL_REPLACE, .content = NULL, .n_content = strlen(SPACE)};

    if (spec->charsmap) {
        enum qr_status status = qr_charsmap_read(spec->charsmap, spec->n_charsmap, &map.map, err);

        if (status != QR_OK)
            return qr_err_prefix(err, status, "tokenizer.ggml.precompiled_charsmap");
        QR_TRY(qr_normalizer_add(&tok->normalizer, &map, err));
    }
    if (!spec->remove_spaces)
        return QR_OK;
    QR_TRY(qr_normalizer_add(&tok->normalizer, &strip, err));
    one.content = strdup(SPACE);
    if (!one.content || qr_regex_compile(" {2,}", 5, &one.regex, err) != QR_OK) {
        free(one.content);
        return qr_fail(err, QR_NOMEM, "out of memory for a tokenizer");
    }
    return qr_normalizer_add(&tok->normalizer, &one, err);
}

enum qr_status qr_tokenizer_read_t5(const struct qr_vocab_spec *spec, struct qr_tokenizer *tok, struct qr_err *err)
{
    struct qr_decode_step decode = {
        .kind = QR_DECODE_METASPACE, .text = SPACE, .n_text = 3, .drop = !spec->add_space_known || spec->add_space};
    bool byte_fallback = false;
    double *score;
    int32_t unk;

    QR_TRY(read_tokens(spec, tok, err));
    QR_TRY(find_unk(spec, &unk, err));
    QR_TRY(t5_normalizer(spec, tok, err));
    QR_TRY(
        qr_pretok_add_metaspace(&tok->pretok, SPACE, 3, decode.drop ? QR_PREFIX_ALWAYS : QR_PREFIX_NEVER, true, err));
    QR_TRY(qr_decoder_add(&tok->decoder, &decode, err));
    for (size_t i = 0; i < spec->n_token; i++)
        byte_fallback = byte_fallback || type_of(spec, i) == BYTE;
    score = malloc((spec->n_token + 1) * sizeof *score);
    if (!score)
        return qr_fail(err, QR_NOMEM, "out of memory for a vocabulary of %zu tokens", spec->n_token);
    for (size_t i = 0; i < spec->n_token; i++)
        score[i] = (double)spec->score[i];
    QR_TRY(qr_unigram_build(&tok->unigram, &tok->vocab, score, spec->n_token, unk, byte_fallback, err));
    return read_added(spec, tok, err);
}
