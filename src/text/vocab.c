/* vocab.c - tokens by id, and an open-addressing table of ids by bytes. */
#include "text/vocab.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/rand.h"
#include "text/bytelevel.h"
#include "text/utf8.h"

#define MAX_BYTES  (1u << 30) /* of all tokens together: offsets are 32 bits */
#define FIRST_SLOT 1024

uint64_t qr_hash_bytes(const char *s, size_t n, uint64_t seed)
{
    uint64_t h = seed ^ n, word;

    for (; n >= 8; s += 8, n -= 8) {
        memcpy(&word, s, 8);
        h = qr_hash_mix(h ^ word);
    }
    word = 0;
    memcpy(&word, s, n);
    return qr_hash_mix(qr_hash_mix(h ^ word));
}

void qr_vocab_init(struct qr_vocab *vocab)
{
    *vocab = (struct qr_vocab){.seed = qr_rand_fresh_seed()};
    qr_buf_init(&vocab->bytes, MAX_BYTES);
}

void qr_vocab_free(struct qr_vocab *vocab)
{
    free(vocab->token);
    free(vocab->slot);
    qr_buf_free(&vocab->bytes);
    *vocab = (struct qr_vocab){0};
}

static enum qr_status out_of_memory(size_t n, struct qr_err *err)
{
    return qr_fail(err, QR_NOMEM, "out of memory for a vocabulary of %zu tokens", n);
}

static size_t first_slot(const struct qr_vocab *vocab, const char *bytes, size_t n, bool literal)
{
    return qr_hash_bytes(bytes, n, vocab->seed + literal) & (vocab->n_slot - 1);
}

/* Slot of the token with these bytes, or the free one where it would go. */
static size_t probe(const struct qr_vocab *vocab, const char *bytes, size_t n, bool literal)
{
    size_t i = first_slot(vocab, bytes, n, literal);

    for (; vocab->slot[i]; i = (i + 1) & (vocab->n_slot - 1)) {
        const struct qr_token *token = &vocab->token[vocab->slot[i] - 1];

        if (token->n == n && !(token->kind & QR_TOKEN_LITERAL) == !literal &&
            memcmp(vocab->bytes.data + token->at, bytes, n) == 0)
            break;
    }
    return i;
}

static enum qr_status resize_table(struct qr_vocab *vocab, size_t n_slot, struct qr_err *err)
{
    uint32_t *old = vocab->slot, *slot = calloc(n_slot, sizeof *slot);
    size_t n_old = vocab->n_slot;

    if (!slot)
        return out_of_memory(vocab->n, err);
    vocab->slot = slot;
    vocab->n_slot = n_slot;
    for (size_t i = 0; i < n_old; i++) {
        const struct qr_token *token = old[i] ? &vocab->token[old[i] - 1] : NULL;

        if (token)
            slot[probe(vocab, vocab->bytes.data + token->at, token->n, token->kind & QR_TOKEN_LITERAL)] = old[i];
    }
    free(old);
    return QR_OK;
}

static enum qr_status grow_tokens(struct qr_vocab *vocab, size_t n, struct qr_err *err)
{
    size_t room = vocab->room ? vocab->room : 256;
    struct qr_token *token;

    if (n <= vocab->room)
        return QR_OK;
    while (room < n)
        room *= 2;
    token = realloc(vocab->token, room * sizeof *token);
    if (!token)
        return out_of_memory(n, err);
    memset(token + vocab->room, 0, (room - vocab->room) * sizeof *token);
    vocab->token = token;
    vocab->room = room;
    return QR_OK;
}

enum qr_status qr_vocab_reserve(struct qr_vocab *vocab, size_t n, struct qr_err *err)
{
    size_t n_slot = vocab->n_slot ? vocab->n_slot : FIRST_SLOT;

    if (n > QR_MAX_VOCAB)
        return qr_fail(err, QR_LIMIT, "%zu tokens are more than the limit of %d", n, QR_MAX_VOCAB);
    while (n_slot / 4 * 3 < n)
        n_slot *= 2;
    QR_TRY(grow_tokens(vocab, n, err));
    return n_slot > vocab->n_slot ? resize_table(vocab, n_slot, err) : QR_OK;
}

enum qr_status qr_vocab_add(struct qr_vocab *vocab, int64_t id, const char *text, size_t n, int kind,
                            struct qr_err *err)
{
    int shown = n < 60 ? (int)n : 60;
    struct qr_token *token;
    size_t slot, n_bytes;
    char *at;

    if (id < 0 || id >= QR_MAX_VOCAB)
        return qr_fail(err, QR_FORMAT, "token \"%.*s\" has the id %lld, which must be 0 to %d", shown, text,
                       (long long)id, QR_MAX_VOCAB - 1);
    if (n > QR_MAX_TOKEN)
        return qr_fail(err, QR_LIMIT, "token %lld has %zu bytes, more than the limit of %d", (long long)id, n,
                       QR_MAX_TOKEN);
    QR_TRY(qr_vocab_reserve(vocab, vocab->n_used + 1, err));
    QR_TRY(grow_tokens(vocab, (size_t)id + 1, err));
    token = &vocab->token[id];
    if (token->kind & QR_TOKEN_PRESENT)
        return qr_fail(err, QR_FORMAT, "the tokens \"%.*s\" and \"%.*s\" have the same id %lld",
                       (int)(token->n < 60 ? token->n : 60), vocab->bytes.data + token->at, shown, text, (long long)id);
    if (!qr_buf_reserve(&vocab->bytes, n + 1))
        return out_of_memory(vocab->n_used, err);
    at = vocab->bytes.data + vocab->bytes.len;
    n_bytes = n;
    if (vocab->plain) {
        memcpy(at, text, n);
    } else if ((kind & QR_TOKEN_LITERAL) || !qr_letters_to_bytes(text, n, at, &n_bytes)) {
        kind |= QR_TOKEN_LITERAL;
        memcpy(at, text, n);
        n_bytes = n;
    }
    slot = probe(vocab, at, n_bytes, kind & QR_TOKEN_LITERAL);
    if (vocab->slot[slot])
        return qr_fail(err, QR_FORMAT, "the token \"%.*s\" stands there twice, with the ids %lld and %lld", shown, text,
                       (long long)vocab->slot[slot] - 1, (long long)id);
    vocab->slot[slot] = (uint32_t)id + 1;
    vocab->n_used++;
    *token = (struct qr_token){(uint32_t)vocab->bytes.len, (uint32_t)n_bytes, (uint8_t)(kind | QR_TOKEN_PRESENT)};
    vocab->bytes.len += n_bytes;
    if ((size_t)id >= vocab->n)
        vocab->n = (size_t)id + 1;
    return QR_OK;
}

int32_t qr_vocab_find(const struct qr_vocab *vocab, const char *bytes, size_t n, bool literal)
{
    if (vocab->n_slot == 0)
        return -1;
    return (int32_t)vocab->slot[probe(vocab, bytes, n, literal)] - 1;
}

int32_t qr_vocab_find_text(const struct qr_vocab *vocab, const char *text, size_t n)
{
    char small[256], *bytes;
    int32_t id = -1;
    size_t n_bytes;

    if (vocab->plain) {
        id = qr_vocab_find(vocab, text, n, false);
        return id >= 0 ? id : qr_vocab_find(vocab, text, n, true);
    }
    bytes = n <= sizeof small ? small : malloc(n);
    if (bytes && qr_letters_to_bytes(text, n, bytes, &n_bytes)) {
        id = qr_vocab_find(vocab, bytes, n_bytes, false);
        if (id < 0) /* GGUF files hold added tokens as plain text, also those that merges make */
            id = qr_vocab_find(vocab, bytes, n_bytes, true);
    }
    if (bytes != small)
        free(bytes);
    return id >= 0 ? id : qr_vocab_find(vocab, text, n, true);
}

void qr_byte_tokens(const struct qr_vocab *vocab, int32_t id[256])
{
    for (int b = 0; b < 256; b++) {
        char name[8];
        int n = snprintf(name, sizeof name, "<0x%02X>", b);

        id[b] = qr_vocab_find(vocab, name, (size_t)n, false);
    }
}
