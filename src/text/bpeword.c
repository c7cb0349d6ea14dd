/* bpeword.c - a word to ids: cut into parts that no merge reaches over, short parts merged in place; bpelong.c merges long
 * ones. */
#include <stdlib.h>
#include <string.h>
#include "text/bpelong.h"
#include "text/utf8.h"

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

/* A word on its way to ids: a part of it is held until it may be cut. */
struct word {
    const struct qr_bpe *bpe;
    struct qr_bpe_scratch *scratch; /* id [n] is the part */
    size_t n;
    struct qr_ids *ids;
    struct qr_err *err;
};

static enum qr_status flush(struct word *word)
{
    int32_t *id = word->scratch->id;
    size_t n = word->n;

    word->n = 0;
    if (n > QR_SHORT_WORD)
        return qr_bpe_merge_long(word->bpe, id, n, word->scratch, word->ids, word->err);
    n = merge_short(word->bpe, id, n);
    for (size_t i = 0; i < n; i++)
        qr_ids_push(word->ids, id[i]);
    return QR_OK;
}

/* Room for n more ids. */
static inline enum qr_status make_room(struct word *word, size_t n)
{
    struct qr_bpe_scratch *scratch = word->scratch;
    size_t room = scratch->room_id ? scratch->room_id * 2 : 1024;
    int32_t *id;

    if (scratch->room_id - word->n >= n)
        return QR_OK;
    id = room > SIZE_MAX / sizeof *id ? NULL : realloc(scratch->id, room * sizeof *id);
    if (!id)
        return qr_fail(word->err, QR_NOMEM, "out of memory for a word of more than %zu tokens", word->n);
    scratch->id = id;
    scratch->room_id = room;
    return QR_OK;
}

static inline bool is_cut(const struct qr_bpe *bpe, uint8_t left, uint8_t right)
{
    return !(bpe->joins[left][right / 8] >> right % 8 & 1);
}

static enum qr_status encode_bytes(struct word *word, const char *s, size_t n)
{
    const struct qr_bpe *bpe = word->bpe;
    bool unknown = false; /* the byte before */
    uint8_t left = 0;

    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)s[i];
        int32_t id = bpe->byte_id[byte];

        if (id < 0 && bpe->unk < 0)
            continue; /* left out: its neighbours may merge */
        if (bpe->cuts && word->n > 0 && is_cut(bpe, left, byte))
            QR_TRY(flush(word));
        left = byte;
        QR_TRY(make_room(word, 1));
        if (id >= 0)
            word->scratch->id[word->n++] = id;
        else if (bpe->unk >= 0 && !(bpe->fuse_unk && unknown))
            word->scratch->id[word->n++] = bpe->unk;
        unknown = id < 0;
    }
    return flush(word);
}

/* Has each of a character's bytes a token? */
static bool have_bytes(const struct qr_bpe *bpe, const char *s, size_t n)
{
    bool all = bpe->byte_fallback;

    for (size_t k = 0; all && k < n; k++)
        all = bpe->byte_id[(unsigned char)s[k]] >= 0;
    return all;
}

/* A row of unknown characters is written where it ends, and bytes that stand for a character do not end it: so the
 * tokenizers package has it. */
static enum qr_status encode_chars(struct word *word, const struct qr_vocab *vocab, const char *s, size_t n)
{
    const struct qr_bpe *bpe = word->bpe;
    bool unknown = false; /* one is waiting */
    bool known = false;   /* the character before is a token; left stands for it */
    uint8_t left = 0;

    for (size_t i = 0, len; i < n; i += len) {
        int32_t cp = qr_utf8_get(s + i, &len);
        int32_t id = cp < 0x80 ? bpe->ascii_id[cp] : qr_vocab_find(vocab, s + i, len, false);
        bool bytes = id < 0 && have_bytes(bpe, s + i, len);
        uint8_t right = qr_bpe_key(cp);

        if (id < 0 && !bytes && bpe->unk < 0)
            continue; /* left out: its neighbours may merge */
        if (bpe->cuts && word->n > 0 && (!known || is_cut(bpe, left, right)))
            QR_TRY(flush(word));
        QR_TRY(make_room(word, 8));
        known = id >= 0;
        left = right;
        if (unknown && (known || (!bytes && !bpe->fuse_unk)))
            word->scratch->id[word->n++] = bpe->unk;
        if (known)
            word->scratch->id[word->n++] = id;
        for (size_t k = 0; bytes && k < len; k++)
            word->scratch->id[word->n++] = bpe->byte_id[(unsigned char)s[i + k]];
        unknown = !known && (unknown || !bytes);
    }
    if (unknown) {
        QR_TRY(make_room(word, 1));
        word->scratch->id[word->n++] = bpe->unk;
    }
    return flush(word);
}

enum qr_status qr_bpe_encode(const struct qr_bpe *bpe, const struct qr_vocab *vocab, const char *s, size_t n,
                             struct qr_bpe_scratch *scratch, struct qr_ids *ids, struct qr_err *err)
{
    struct word word = {.bpe = bpe, .scratch = scratch, .ids = ids, .err = err};
    int32_t whole;

    if (bpe->ignore_merges && (whole = qr_vocab_find(vocab, s, n, false)) >= 0) {
        qr_ids_push(ids, whole);
        return QR_OK;
    }
    return bpe->chars ? encode_chars(&word, vocab, s, n) : encode_bytes(&word, s, n);
}
