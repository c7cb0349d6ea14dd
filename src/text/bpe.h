/* bpe.h - byte-pair encoding (Sennrich et al. 2016), on bytes as GPT-2 does it or on characters. Immutable once filled. */
#ifndef QR_TEXT_BPE_H
#define QR_TEXT_BPE_H
#include "text/ids.h"
#include "text/vocab.h"

struct qr_merge {
    uint32_t left, right; /* ids */
    uint32_t rank;        /* the smaller goes first */
    int32_t id;           /* of the two together; -1: a free slot of the table */
};

struct qr_bpe {
    struct qr_merge *slot; /* [n_slot] by hash of (left, right) */
    size_t n_slot;         /* a power of two */
    size_t n_used;
    uint64_t seed;
    bool chars;            /* words begin as characters, else as bytes */
    int32_t byte_id[256];  /* -1: no token for that byte; with chars: the tokens <0x00> to <0xFF> */
    int32_t ascii_id[128]; /* with chars */
    bool byte_fallback;    /* characters without a token become their bytes' tokens */
    int32_t unk;           /* stands for such bytes; -1: they are left out */
    bool fuse_unk;         /* one for a row of them */
    bool ignore_merges;    /* a word that is a token is taken whole */
    /* Words are cut where no merge reaches over: bit joins[left][right] is set when some merge has the one character (or
     * byte) at the end of its left part and the other one at the beginning of its right part; characters share places, so a bit may be set for nothing. */
    bool cuts;
    uint8_t joins[256][32];
};

enum qr_status qr_bpe_init(struct qr_bpe *bpe, size_t n_merge, struct qr_err *err);
void qr_bpe_free(struct qr_bpe *bpe);
/* Adds the merge of two tokens, written as in the file. Repeated merges: the last one counts, or with keep_first the
 * first. Refuses tokens that the vocabulary lacks. */
enum qr_status qr_bpe_add(struct qr_bpe *bpe, const struct qr_vocab *vocab, uint32_t rank, const char *left,
                          size_t n_left, const char *right, size_t n_right, bool keep_first, struct qr_err *err);
/* Looks up the bytes' tokens, and where words may be cut: after the vocabulary and the options are complete. */
void qr_bpe_finish(struct qr_bpe *bpe, const struct qr_vocab *vocab);

/* Memory of one encoding thread. */
struct qr_bpe_scratch {
    int32_t *id; /* a part of a word before it is merged */
    size_t room_id;
    struct qr_symbol *symbol;
    size_t room_symbol;
    struct qr_candidate *heap;
    size_t n_heap, room_heap;
};
void qr_bpe_scratch_free(struct qr_bpe_scratch *scratch);

/* Appends the ids of one word of n bytes. O(n log n). */
enum qr_status qr_bpe_encode(const struct qr_bpe *bpe, const struct qr_vocab *vocab, const char *word, size_t n,
                             struct qr_bpe_scratch *scratch, struct qr_ids *ids, struct qr_err *err);
#endif
