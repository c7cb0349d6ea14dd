/* bpe.c - the table of merges, and merging short words in place; bpelong.c does long ones. */
#include "text/bpe.h"
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

void qr_bpe_set_bytes(struct qr_bpe *bpe, const struct qr_vocab *vocab)
{
    for (int b = 0; b < 256; b++)
        bpe->byte_id[b] = qr_vocab_find(vocab, &(char){(char)b}, 1, false);
    if (!bpe->chars)
        return;
    memcpy(bpe->ascii_id, bpe->byte_id, sizeof bpe->ascii_id);
    qr_byte_tokens(vocab, bpe->byte_id);
}

/* Ids of single bytes into out [n]; how many. */
static size_t byte_ids(const struct qr_bpe *bpe, const char *word, size_t n, int32_t *out)
{
    bool after_unk = false;
    size_t used = 0;

    for (size_t i = 0; i < n; i++) {
        int32_t id = bpe->byte_id[(unsigned char)word[i]];
        bool unknown = id < 0;

        if (unknown && (bpe->unk < 0 || (bpe->fuse_unk && after_unk)))
            continue;
        out[used++] = unknown ? bpe->unk : id;
        after_unk = unknown;
    }
    return used;
}

/* Merges id [n] in place by looking at all pairs for each merge; how many are left. */
static size_t merge_short(const struct qr_bpe *bpe, int32_t *id, size_t n)
{
    uint32_t slot[QR_SHORT_WORD]; /* the merge of (i, i + 1) */
    uint32_t rank[QR_SHORT_WORD];

    for (size_t i = 0; i + 1 < n; i++) {
        slot[i] = qr_bpe_find(bpe, (uint32_t)id[i], (uint32_t)id[i + 1]);
        rank[i] = slot[i] == QR_NO_MERGE ? UINT32_MAX : bpe->slot[slot[i]].rank;
    }
    while (n > 1) {
        size_t best = 0;

        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best])
                best = i;
        if (slot[best] == QR_NO_MERGE)
            break;
        id[best] = bpe->slot[slot[best]].id;
        n--;
        for (size_t i = best + 1; i < n; i++)
            id[i] = id[i + 1];
        for (size_t i = best + 1; i + 1 < n; i++) {
            slot[i] = slot[i + 1];
            rank[i] = rank[i + 1];
        }
        for (size_t i = best > 0 ? best - 1 : 0; i <= best && i + 1 < n; i++) {
            slot[i] = qr_bpe_find(bpe, (uint32_t)id[i], (uint32_t)id[i + 1]);
            rank[i] = slot[i] == QR_NO_MERGE ? UINT32_MAX : bpe->slot[slot[i]].rank;
        }
    }
    return n;
}

/* Ids of characters into out [n]; how many. A row of unknown ones is written where it ends, and bytes that stand for a
 * character do not end it: so the tokenizers package has it. */
static size_t char_ids(const struct qr_bpe *bpe, const struct qr_vocab *vocab, const char *word, size_t n, int32_t *out)
{
    bool unknown = false; /* one is waiting */
    size_t used = 0;

    for (size_t i = 0, len; i < n; i += len) {
        int32_t id;
        bool bytes = bpe->byte_fallback;

        qr_utf8_get(word + i, &len);
        id = bpe->ascii_id[(unsigned char)word[i] & 0x7F];
        if (len > 1)
            id = qr_vocab_find(vocab, word + i, len, false);
        if (id >= 0) {
            if (unknown)
                out[used++] = bpe->unk;
            unknown = false;
            out[used++] = id;
            continue;
        }
        for (size_t k = 0; bytes && k < len; k++)
            bytes = bpe->byte_id[(unsigned char)word[i + k]] >= 0;
        for (size_t k = 0; bytes && k < len; k++)
            out[used++] = bpe->byte_id[(unsigned char)word[i + k]];
        if (bytes || bpe->unk < 0)
            continue;
        if (unknown && !bpe->fuse_unk)
            out[used++] = bpe->unk;
        unknown = true;
    }
    if (unknown)
        out[used++] = bpe->unk;
    return used;
}

/* A word, or the part of one before a cut. */
static enum qr_status encode_part(const struct qr_bpe *bpe, const struct qr_vocab *vocab, const char *word, size_t n,
                                  struct qr_bpe_scratch *scratch, struct qr_ids *ids, struct qr_err *err)
{
    int32_t few[QR_SHORT_WORD], *id = few;
    size_t used;

    if (n > QR_SHORT_WORD) {
        if (scratch->room_id < n) {
            free(scratch->id);
            scratch->id = n > SIZE_MAX / sizeof *id ? NULL : malloc(n * sizeof *id);
            scratch->room_id = scratch->id ? n : 0;
            if (!scratch->id)
                return qr_fail(err, QR_NOMEM, "out of memory for a word of %zu bytes", n);
        }
        id = scratch->id;
    }
    used = bpe->chars ? char_ids(bpe, vocab, word, n, id) : byte_ids(bpe, word, n, id);
    if (used > QR_SHORT_WORD)
        return qr_bpe_merge_long(bpe, id, used, scratch, ids, err);
    used = merge_short(bpe, id, used);
    for (size_t i = 0; i < used; i++)
        qr_ids_push(ids, id[i]);
    return QR_OK;
}

static bool is_cut(const struct qr_bpe *bpe, const char *s, size_t n)
{
    return n >= bpe->n_cut && memcmp(s, bpe->cut, bpe->n_cut) == 0;
}

/* Where the part at the beginning of s ends: before a cut that stands behind something else. */
static size_t find_end(const struct qr_bpe *bpe, const char *s, size_t n)
{
    size_t at = 0;

    while (is_cut(bpe, s + at, n - at))
        at += bpe->n_cut;
    while (at < n) {
        const char *next = memchr(s + at, bpe->cut[0], n - at);

        if (!next)
            return n;
        at = (size_t)(next - s);
        if (is_cut(bpe, next, n - at))
            return at;
        at++;
    }
    return n;
}

enum qr_status qr_bpe_encode(const struct qr_bpe *bpe, const struct qr_vocab *vocab, const char *word, size_t n,
                             struct qr_bpe_scratch *scratch, struct qr_ids *ids, struct qr_err *err)
{
    int32_t whole;

    if (bpe->ignore_merges && (whole = qr_vocab_find(vocab, word, n, false)) >= 0) {
        qr_ids_push(ids, whole);
        return QR_OK;
    }
    while (bpe->n_cut > 0 && n > 0) {
        size_t end = find_end(bpe, word, n);

        QR_TRY(encode_part(bpe, vocab, word, end, scratch, ids, err));
        word += end;
        n -= end;
    }
    return n > 0 ? encode_part(bpe, vocab, word, n, scratch, ids, err) : QR_OK;
}

void qr_bpe_find_cut(struct qr_bpe *bpe, const struct qr_vocab *vocab, const char *text, size_t n)
{
    bpe->n_cut = 0;
    /* without a token of its own it would be unknown, and join a row of such */
    if (!bpe->chars || n == 0 || n > sizeof bpe->cut || qr_vocab_find(vocab, text, n, false) < 0)
        return;
    for (size_t i = 0; i < bpe->n_slot; i++) {
        const struct qr_token *token;
        const char *s;
        bool other = false; /* something else stands before */

        if (bpe->slot[i].id < 0)
            continue;
        token = &vocab->token[bpe->slot[i].id];
        s = vocab->bytes.data + token->at;
        for (size_t k = 0, len; k < token->n; k += len) {
            qr_utf8_get(s + k, &len);
            if (len != n || memcmp(s + k, text, n) != 0)
                other = true;
            else if (other)
                return;
        }
    }
    memcpy(bpe->cut, text, n);
    bpe->n_cut = n;
}
