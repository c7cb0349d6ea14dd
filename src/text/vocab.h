/* vocab.h - the tokens of a vocabulary by id and by their bytes. Immutable once filled. */
#ifndef QR_TEXT_VOCAB_H
#define QR_TEXT_VOCAB_H
#include <stdint.h>
#include "base/buf.h"
#include "base/err.h"

#define QR_MAX_VOCAB     (1 << 22) /* ids */
#define QR_MAX_TOKEN     (1 << 20) /* bytes of one token */
#define QR_TOKEN_PRESENT 1         /* the id has a token */
#define QR_TOKEN_SPECIAL 2         /* a control token: skipped when text is shown, parsed only when asked for */
#define QR_TOKEN_ADDED   4         /* matched as a whole in the text, before BPE */
#define QR_TOKEN_LITERAL 8         /* its text is no byte-level letters: BPE cannot make it */

struct qr_vocab {
    struct qr_token {
        uint32_t at, n; /* bytes.data + at */
        uint8_t kind;   /* QR_TOKEN_* */
    } * token;          /* [n] */
    size_t n, room;     /* highest id + 1 */
    struct qr_buf bytes;
    uint32_t *slot; /* [n_slot] id + 1 of the token with that hash, 0: free */
    size_t n_slot;  /* a power of two */
    size_t n_used;
    uint64_t seed; /* of the hash, so that no file can be made to collide */
    bool plain;    /* texts are what they say, no byte-level letters; literal are added tokens that the model has not */
};

void qr_vocab_init(struct qr_vocab *vocab);
void qr_vocab_free(struct qr_vocab *vocab);
/* Room for n tokens without growing. */
enum qr_status qr_vocab_reserve(struct qr_vocab *vocab, size_t n, struct qr_err *err);
/* Adds a token; text is how the file writes it: byte-level letters, unless kind says literal (letters that are none make
 * it literal too). Refuses an id out of range or taken, and a text that stands there already. */
enum qr_status qr_vocab_add(struct qr_vocab *vocab, int64_t id, const char *text, size_t n, int kind,
                            struct qr_err *err);
/* Id of the token with these bytes; literal: among those that are no letters. -1: none. */
int32_t qr_vocab_find(const struct qr_vocab *vocab, const char *bytes, size_t n, bool literal);
/* The same for a text as the file writes it. */
int32_t qr_vocab_find_text(const struct qr_vocab *vocab, const char *text, size_t n);

/* Ids of the tokens <0x00> to <0xFF>, -1 for those that there are not. */
void qr_byte_tokens(const struct qr_vocab *vocab, int32_t id[256]);

uint64_t qr_hash_bytes(const char *s, size_t n, uint64_t seed);

static inline uint64_t qr_hash_mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0x9E3779B97F4A7C15u; /* the golden ratio, Knuth vol. 3, 6.4 */
    return h ^ h >> 29;
}
#endif
