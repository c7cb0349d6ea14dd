/* added.c - added tokens: where they stand in a text, by the rules of the tokenizers package
 * (AddedVocabulary: leftmost-longest, options checked afterwards, no second try inside a match). */
#include "text/added.h"
#include <stdlib.h>
#include <string.h>
#include "base/rand.h"
#include "text/trie.h"
#include "text/utf8.h"
#include "text/vocab.h"

#define MAX_BYTES (1u << 26) /* of all added tokens */

void qr_added_init(struct qr_added *added)
{
    *added = (struct qr_added){.seed = qr_rand_fresh_seed()};
    qr_buf_init(&added->bytes, MAX_BYTES);
}

void qr_added_free(struct qr_added *added)
{
    free(added->token);
    free(added->slot);
    qr_buf_free(&added->bytes);
    qr_trie_free(&added->raw);
    qr_trie_free(&added->normal);
    *added = (struct qr_added){0};
}

/* Slot of a text, or the free one where it would go. */
static size_t probe(const struct qr_added *added, const char *text, size_t n)
{
    size_t mask = 2 * added->room - 1, i = qr_hash_bytes(text, n, added->seed) & mask;

    for (; added->slot[i]; i = (i + 1) & mask) {
        const struct qr_added_token *token = &added->token[added->slot[i] - 1];

        if (token->n == n && memcmp(added->bytes.data + token->at, text, n) == 0)
            break;
    }
    return i;
}

const struct qr_added_token *qr_added_find(const struct qr_added *added, const char *text, size_t n)
{
    uint32_t index = added->room ? added->slot[probe(added, text, n)] : 0;

    return index ? &added->token[index - 1] : NULL;
}

static enum qr_status grow(struct qr_added *added, struct qr_err *err)
{
    size_t room = added->room ? added->room * 2 : 64;
    struct qr_added_token *token = calloc(room, sizeof *token);
    uint32_t *slot = calloc(2 * room, sizeof *slot);

    if (!token || !slot) {
        free(token);
        free(slot);
        return qr_fail(err, QR_NOMEM, "out of memory for %zu added tokens", room);
    }
    if (added->token)
        memcpy(token, added->token, added->n * sizeof *token);
    free(added->token);
    free(added->slot);
    added->token = token;
    added->slot = slot;
    added->room = room;
    for (size_t i = 0; i < added->n; i++)
        slot[probe(added, added->bytes.data + token[i].at, token[i].n)] = (uint32_t)i + 1;
    return QR_OK;
}

/* Stores what is looked for. */
static enum qr_status store_key(struct qr_added *added, struct qr_added_token *token, const char *text, size_t n,
                                const struct qr_normalizer *normalizer, struct qr_err *err)
{
    size_t before = added->bytes.len;
    bool moved;

    token->key = token->at;
    token->nk = token->n;
    if (!token->normalized || qr_normalizer_idle(normalizer, text, n))
        return QR_OK;
    QR_TRY(qr_normalizer_run(normalizer, text, n, NULL, &added->bytes, &moved, err));
    token->key = (uint32_t)before;
    token->nk = (uint32_t)(added->bytes.len - before);
    return QR_OK;
}

enum qr_status qr_added_add(struct qr_added *added, const struct qr_added_token *how, const char *text, size_t n,
                            const struct qr_normalizer *normalizer, struct qr_err *err)
{
    struct qr_added_token *token, *known = (struct qr_added_token *)qr_added_find(added, text, n);

    if (n == 0)
        return QR_OK;
    if (n > QR_MAX_ADDED)
        return qr_fail(err, QR_LIMIT, "the added token %d has %zu bytes, more than the limit of %d", how->id, n,
                       QR_MAX_ADDED);
    if (known) {
        uint32_t at = known->at;

        *known = *how;
        known->at = at;
        known->n = (uint32_t)n;
        return store_key(added, known, text, n, normalizer, err);
    }
    if (!added->token || added->n == added->room)
        QR_TRY(grow(added, err));
    token = &added->token[added->n];
    *token = *how;
    token->at = (uint32_t)added->bytes.len;
    token->n = (uint32_t)n;
    if (!qr_buf_append(&added->bytes, text, n))
        return qr_fail(err, QR_LIMIT, "the added tokens take more than the limit of %u bytes", MAX_BYTES);
    added->slot[probe(added, text, n)] = (uint32_t)++added->n;
    return store_key(added, token, text, n, normalizer, err);
}

enum qr_status qr_added_finish(struct qr_added *added, struct qr_err *err)
{
    bool ok = qr_trie_init(&added->raw, added->bytes.len) && qr_trie_init(&added->normal, added->bytes.len);

    for (size_t i = 0; ok && i < added->n; i++) {
        const struct qr_added_token *token = &added->token[i];

        ok = qr_trie_add(token->normalized ? &added->normal : &added->raw, added->bytes.data + token->key, token->nk,
                         (int32_t)i);
    }
    return ok ? QR_OK : qr_fail(err, QR_NOMEM, "out of memory for %zu added tokens", added->n);
}

/* Code point that ends at s[at - 1]. */
static int32_t before(const char *s, size_t at, size_t *len)
{
    size_t start = at - 1;

    while (start > 0 && ((unsigned char)s[start] & 0xC0) == 0x80)
        start--;
    return qr_utf8_get(s + start, len);
}

static bool beside_word(const char *s, size_t n, size_t start, size_t end)
{
    size_t len;

    return (start > 0 && qr_cp_is_word(before(s, start, &len))) ||
           (end < n && qr_cp_is_word(qr_utf8_get(s + end, &len)));
}

const struct qr_added_token *qr_added_next(const struct qr_added *added, const struct qr_trie *trie, const char *s,
                                           size_t n, size_t done, bool parse_special, size_t *at, size_t *start,
                                           size_t *end)
{
    int32_t index;
    size_t len;

    while ((index = qr_trie_search(trie, s, n, *at, start, end)) >= 0) {
        const struct qr_added_token *token = &added->token[index];

        *at = *end;
        if ((token->special && !parse_special) || (token->single_word && beside_word(s, n, *start, *end)))
            continue;
        if (token->lstrip)
            while (*start > done && qr_cp_is_space(before(s, *start, &len)))
                *start -= len;
        if (token->rstrip)
            while (*end < n && qr_cp_is_space(qr_utf8_get(s + *end, &len)))
                *end += len;
        /* white space that the token before took along is a token all the same, but for one that would strip it */
        if (token->lstrip && *start < done)
            *start = done;
        if (*start < *end)
            return token;
    }
    return NULL;
}
