/* grammar_vocab.c - the tokens of a vocabulary as a trie over their bytes, flat and in preorder. */
#include <stdlib.h>
#include <string.h>
#include "base/checked.h"
#include "text/grammar_internal.h"
#include "text/tokenizer.h"

struct key {
    const unsigned char *s;
    uint32_t n;
    int32_t id;
};

static int by_bytes(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    int c = memcmp(x->s, y->s, x->n < y->n ? x->n : y->n);

    if (c)
        return c;
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static uint32_t common(const struct key *x, const struct key *y)
{
    uint32_t n = 0;

    while (n < x->n && n < y->n && x->s[n] == y->s[n])
        n++;
    return n;
}

static void *take(struct qr_grammar_vocab *v, size_t n, size_t size)
{
    uint64_t bytes;
    void *p;

    if (!qr_mul_u64(n ? n : 1, size, &bytes))
        return NULL;
    p = calloc(1, bytes);
    if (p)
        v->memory += bytes;
    return p;
}

/* Copies the bytes of every id that may stand in a text. Returns the number of tokens for the trie. */
static enum qr_status copy_bytes(struct qr_grammar_vocab *v, const struct qr_tokenizer *tok, struct key *key,
                                 size_t *n_key)
{
    int n_vocab = qr_tokenizer_n_vocab(tok);
    size_t total = 0, n;

    for (int id = 0; id < n_vocab; id++)
        if (qr_tokenizer_bytes(tok, id, &n))
            total += n;
    if (total > UINT32_MAX)
        return QR_LIMIT;
    v->bytes = take(v, total, 1);
    if (!v->bytes)
        return QR_NOMEM;
    total = 0;
    *n_key = 0;
    for (uint32_t id = 0; id < v->n_bits; id++) {
        const char *s = (int)id < n_vocab ? qr_tokenizer_bytes(tok, (int32_t)id, &n) : NULL;

        v->at[id] = (uint32_t)total;
        v->same[id] = -1;
        if (!s || !n || n > QR_GR_MAX_TOKEN || qr_tokenizer_is_special(tok, (int32_t)id))
            continue;
        memcpy(v->bytes + total, s, n);
        for (size_t i = 0; i < v->n_end; i++)
            if (v->end[i] == (int32_t)id)
                n = 0;
        if (!n)
            continue;
        v->spelled[id] = 1;
        key[(*n_key)++] = (struct key){(unsigned char *)v->bytes + total, (uint32_t)n, (int32_t)id};
        total += n;
    }
    v->at[v->n_bits] = (uint32_t)total;
    return QR_OK;
}

/* Nodes of the sorted keys; with v->byte NULL they are only counted. */
static uint32_t lay_out(struct qr_grammar_vocab *v, const struct key *key, size_t n_key)
{
    uint32_t open[QR_GR_MAX_TOKEN + 1], n_open = 0, n = 0; /* nodes of the path to the last key */

    for (size_t i = 0; i < n_key; i++) {
        uint32_t shared = i ? common(&key[i - 1], &key[i]) : 0;

        if (i && shared == key[i].n && shared == key[i - 1].n) { /* the same bytes: one node, a list of ids */
            if (v->byte)
                v->same[key[i - 1].id] = key[i].id;
            continue;
        }
        while (n_open > shared) {
            n_open--;
            if (v->byte)
                v->skip[open[n_open]] = n;
        }
        for (uint32_t d = shared; d < key[i].n; d++, n++) {
            open[n_open++] = n;
            if (v->byte) {
                v->byte[n] = key[i].s[d];
                v->depth[n] = (uint16_t)(d + 1);
                v->token[n] = d + 1 == key[i].n ? key[i].id : -1;
            }
        }
        if (key[i].n > v->max_token)
            v->max_token = key[i].n;
    }
    while (n_open > 0) {
        n_open--;
        if (v->byte)
            v->skip[open[n_open]] = n;
    }
    return n;
}

static enum qr_status fill(struct qr_grammar_vocab *v, const struct qr_tokenizer *tok, struct key *key)
{
    size_t n_key;
    uint8_t *byte;

    QR_TRY(copy_bytes(v, tok, key, &n_key));
    qsort(key, n_key, sizeof *key, by_bytes);
    v->n_node = lay_out(v, key, n_key);
    byte = take(v, v->n_node, 1);
    v->depth = take(v, v->n_node, sizeof *v->depth);
    v->skip = take(v, v->n_node, sizeof *v->skip);
    v->token = take(v, v->n_node, sizeof *v->token);
    v->byte = byte;
    if (!byte || !v->depth || !v->skip || !v->token)
        return QR_NOMEM;
    lay_out(v, key, n_key);
    return qr_gr_texts_make(v);
}

enum qr_status qr_grammar_vocab_create(const struct qr_tokenizer *tok, int n_bits, const int32_t *end, size_t n_end,
                                       struct qr_grammar_vocab **vocab, struct qr_err *err)
{
    int n_vocab = qr_tokenizer_n_vocab(tok), width = n_bits ? n_bits : n_vocab;
    struct qr_grammar_vocab *v;
    struct key *key;
    enum qr_status status;

    *vocab = NULL;
    if (width < 1)
        return qr_fail(err, QR_INVALID, "a token mask of %d bits holds nothing; widen it", width);
    for (size_t i = 0; i < n_end; i++)
        if (end[i] < 0 || end[i] >= width)
            return qr_fail(err, QR_INVALID, "end id %d lies outside the mask of %d bits", end[i], width);
    v = calloc(1, sizeof *v);
    if (!v)
        return qr_fail(err, QR_NOMEM, "out of memory for the vocabulary of grammars");
    v->memory = sizeof *v;
    v->n_bits = (uint32_t)width;
    v->n_word = ((uint32_t)width + 31) / 32;
    v->n_end = n_end;
    v->end = take(v, n_end, sizeof *v->end);
    v->same = take(v, v->n_bits, sizeof *v->same);
    v->at = take(v, (size_t)v->n_bits + 1, sizeof *v->at);
    v->spelled = take(v, v->n_bits, 1);
    key = calloc(v->n_bits, sizeof *key);
    status = v->end && v->same && v->at && v->spelled && key ? QR_OK : QR_NOMEM;
    if (status == QR_OK) {
        if (n_end)
            memcpy(v->end, end, n_end * sizeof *end);
        status = fill(v, tok, key);
    }
    free(key);
    if (status != QR_OK) {
        qr_grammar_vocab_destroy(v);
        return qr_fail(err, status, "%s for the vocabulary of grammars (%d tokens)",
                       status == QR_NOMEM ? "out of memory" : "too many bytes", n_vocab);
    }
    *vocab = v;
    return QR_OK;
}

void qr_grammar_vocab_destroy(struct qr_grammar_vocab *v)
{
    if (!v)
        return;
    qr_gr_texts_free(&v->texts);
    free(v->byte);
    free(v->depth);
    free(v->skip);
    free(v->token);
    free(v->same);
    free(v->at);
    free(v->bytes);
    free(v->spelled);
    free(v->end);
    free(v);
}

size_t qr_grammar_vocab_words(const struct qr_grammar_vocab *vocab)
{
    return vocab->n_word;
}

size_t qr_grammar_vocab_bytes(const struct qr_grammar_vocab *vocab)
{
    return vocab->memory;
}
