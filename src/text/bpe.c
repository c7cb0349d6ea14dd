/* bpe.c - the table of merges; bpeword.c makes words ids by it. */
#include "text/bpe.h"
#include <stdlib.h>
#include <string.h>
#include "base/checked.h"
#include "base/rand.h"
#include "text/bpelong.h"
#include "text/utf8.h"

enum qr_status qr_bpe_init(struct qr_bpe *bpe, size_t n_merge, struct qr_err *err)
{
    size_t n_slot = 64;

    if (n_merge > QR_MAX_VOCAB)
        return qr_fail(err, QR_LIMIT, "%zu merges are more than the limit of %d", n_merge, QR_MAX_VOCAB);
    while (n_slot / 8 * 5 < n_merge)
        n_slot *= 2;
    *bpe = (struct qr_bpe){.n_slot = n_slot, .seed = qr_rand_fresh_seed(), .unk = -1};
    bpe->slot = malloc(n_slot * sizeof *bpe->slot);
    if (!bpe->slot)
        return qr_fail(err, QR_NOMEM, "out of memory for %zu merges", n_merge);
    for (size_t i = 0; i < n_slot; i++)
        bpe->slot[i].id = -1;
    for (int b = 0; b < 256; b++)
        bpe->byte_id[b] = -1;
    return QR_OK;
}

void qr_bpe_free(struct qr_bpe *bpe)
{
    free(bpe->slot);
    bpe->slot = NULL;
}

uint32_t qr_bpe_find(const struct qr_bpe *bpe, uint32_t left, uint32_t right)
{
    size_t i = qr_hash_mix(((uint64_t)left << 32 | right) ^ bpe->seed) & (bpe->n_slot - 1);

    for (; bpe->slot[i].id >= 0; i = (i + 1) & (bpe->n_slot - 1))
        if (bpe->slot[i].left == left && bpe->slot[i].right == right)
            return (uint32_t)i;
    return QR_NO_MERGE;
}

/* The token that two tokens make together, as the file writes them. */
static enum qr_status find_product(const struct qr_vocab *vocab, const char *left, size_t n_left, const char *right,
                                   size_t n_right, int32_t *id, struct qr_err *err)
{
    char small[256], *text;
    size_t n = n_left + n_right;

    if (n > QR_MAX_TOKEN)
        return qr_fail(err, QR_LIMIT, "a merge makes a token of %zu bytes, more than the limit of %d", n, QR_MAX_TOKEN);
    text = n <= sizeof small ? small : malloc(n);
    if (!text)
        return qr_fail(err, QR_NOMEM, "out of memory for a merge of %zu bytes", n);
    memcpy(text, left, n_left);
    memcpy(text + n_left, right, n_right);
    *id = qr_vocab_find_text(vocab, text, n);
    if (text != small)
        free(text);
    return QR_OK;
}

enum qr_status qr_bpe_add(struct qr_bpe *bpe, const struct qr_vocab *vocab, uint32_t rank, const char *left,
                          size_t n_left, const char *right, size_t n_right, bool keep_first, struct qr_err *err)
{
    int32_t left_id = qr_vocab_find_text(vocab, left, n_left), right_id = qr_vocab_find_text(vocab, right, n_right), id;
    const char *missing = left_id < 0 ? "left part" : right_id < 0 ? "right part" : "product";
    size_t i;

    QR_TRY(find_product(vocab, left, n_left, right, n_right, &id, err));
    if (left_id < 0 || right_id < 0 || id < 0)
        return qr_fail(err, QR_FORMAT, "merge %u (\"%.*s\" + \"%.*s\"): its %s is no token of the vocabulary", rank,
                       (int)(n_left < 60 ? n_left : 60), left, (int)(n_right < 60 ? n_right : 60), right, missing);
    if (n_left == 0 || n_right == 0)
        return qr_fail(err, QR_FORMAT, "merge %u has an empty part", rank);
    i = qr_bpe_find(bpe, (uint32_t)left_id, (uint32_t)right_id);
    if (i != QR_NO_MERGE && keep_first)
        return QR_OK;
    if (i == QR_NO_MERGE) {
        if (bpe->n_used + 1 >= bpe->n_slot)
            return qr_fail(err, QR_INTERNAL, "more merges than announced (%zu)", bpe->n_used);
        i = qr_hash_mix(((uint64_t)(uint32_t)left_id << 32 | (uint32_t)right_id) ^ bpe->seed) & (bpe->n_slot - 1);
        while (bpe->slot[i].id >= 0)
            i = (i + 1) & (bpe->n_slot - 1);
        bpe->n_used++;
    }
    bpe->slot[i] = (struct qr_merge){(uint32_t)left_id, (uint32_t)right_id, rank, id};
    return QR_OK;
}

static uint8_t last_key(const struct qr_bpe *bpe, const char *s, size_t n)
{
    size_t at = n - 1, len;

    while (bpe->chars && at > 0 && ((unsigned char)s[at] & 0xC0) == 0x80)
        at--;
    return bpe->chars ? qr_bpe_key(qr_utf8_get(s + at, &len)) : (uint8_t)s[at];
}

static uint8_t first_key(const struct qr_bpe *bpe, const char *s)
{
    size_t len;

    return bpe->chars ? qr_bpe_key(qr_utf8_get(s, &len)) : (uint8_t)s[0];
}

/* True when the token may stand for other text than its own: that of a byte or of something unknown; with bytes, one
 * that is written in letters that are none. */
static bool stands_for_other(const struct qr_bpe *bpe, const struct qr_vocab *vocab, uint32_t id)
{
    const struct qr_token *token = &vocab->token[id];

    if ((int32_t)id == bpe->unk || token->n == 0 || (!bpe->chars && (token->kind & QR_TOKEN_LITERAL)))
        return true;
    for (int b = 0; bpe->chars && token->n == 6 && memcmp(vocab->bytes.data + token->at, "<0x", 3) == 0 && b < 256; b++)
        if (bpe->byte_id[b] == (int32_t)id)
            return true;
    return false;
}

static void find_joins(struct qr_bpe *bpe, const struct qr_vocab *vocab)
{
    bpe->cuts = false;
    memset(bpe->joins, 0, sizeof bpe->joins);
    for (size_t i = 0; i < bpe->n_slot; i++) {
        const struct qr_merge *merge = &bpe->slot[i];
        const struct qr_token *left, *right;
        uint8_t a, b;

        if (merge->id < 0)
            continue;
        if (stands_for_other(bpe, vocab, merge->left) || stands_for_other(bpe, vocab, merge->right) ||
            stands_for_other(bpe, vocab, (uint32_t)merge->id))
            return;
        left = &vocab->token[merge->left];
        right = &vocab->token[merge->right];
        a = last_key(bpe, vocab->bytes.data + left->at, left->n);
        b = first_key(bpe, vocab->bytes.data + right->at);
        bpe->joins[a][b / 8] |= (uint8_t)(1 << b % 8);
    }
    bpe->cuts = true;
}

void qr_bpe_finish(struct qr_bpe *bpe, const struct qr_vocab *vocab)
{
    for (int b = 0; b < 256; b++)
        bpe->byte_id[b] = qr_vocab_find(vocab, &(char){(char)b}, 1, false);
    if (bpe->chars) {
        memcpy(bpe->ascii_id, bpe->byte_id, sizeof bpe->ascii_id);
        qr_byte_tokens(vocab, bpe->byte_id);
    }
    find_joins(bpe, vocab);
}
