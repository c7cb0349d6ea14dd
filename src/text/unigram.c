/* unigram.c - Viterbi over the tokens that start at each character, as SentencePiece's EncodeOptimized. */
#include "text/unigram.h"
#include <stdlib.h>
#include <string.h>
#include "text/utf8.h"

#define UNK_PENALTY 10.0 /* below the worst token */
#define NO_START    UINT32_MAX

struct qr_unigram_node { /* the best way to cut the text up to here */
    double score;
    uint32_t start; /* of its last token */
    int32_t id;
    uint32_t next; /* the end of the token that starts here, on the best way */
};

enum qr_status qr_unigram_build(struct qr_unigram *unigram, const struct qr_vocab *vocab, double *score, size_t n,
                                int32_t unk, bool byte_fallback, struct qr_err *err)
{
    size_t bytes = 0;

    *unigram = (struct qr_unigram){.score = score, .n_score = n, .unk = unk, .byte_fallback = byte_fallback};
    qr_byte_tokens(vocab, unigram->byte_id);
    for (size_t i = 0; i < n; i++) {
        bytes += vocab->token[i].n;
        unigram->worst = i == 0 || score[i] < unigram->worst ? score[i] : unigram->worst;
    }
    if (!qr_trie_init(&unigram->trie, bytes))
        return qr_fail(err, QR_NOMEM, "out of memory for a vocabulary of %zu tokens", n);
    for (size_t i = 0; i < n; i++)
        if (!qr_trie_add(&unigram->trie, vocab->bytes.data + vocab->token[i].at, vocab->token[i].n, (int32_t)i))
            return qr_fail(err, QR_NOMEM, "out of memory for a vocabulary of %zu tokens", n);
    return QR_OK;
}

void qr_unigram_free(struct qr_unigram *unigram)
{
    free(unigram->score);
    qr_trie_free(&unigram->trie);
    *unigram = (struct qr_unigram){0};
}

void qr_unigram_scratch_free(struct qr_unigram_scratch *scratch)
{
    free(scratch->node);
    *scratch = (struct qr_unigram_scratch){0};
}

static void consider(struct qr_unigram_node *node, double score, size_t start, int32_t id)
{
    if (node->start == NO_START || score > node->score)
        *node = (struct qr_unigram_node){score, (uint32_t)start, id, 0};
}

static enum qr_status forward(const struct qr_unigram *u, const char *s, size_t n, struct qr_unigram_node *node,
                              struct qr_err *err)
{
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t at = 0;
        bool single = false;

        qr_utf8_get(s + i, &len);
        for (size_t k = i; k < n && (at = qr_trie_step(&u->trie, at, (uint8_t)s[k])) != QR_TRIE_END; k++) {
            int32_t id = u->trie.token[at];

            if (id < 0)
                continue;
            consider(&node[k + 1], u->score[id] + node[i].score, i, id);
            single = single || k + 1 - i == len;
        }
        if (single)
            continue;
        if (u->unk < 0)
            return qr_fail(err, QR_INVALID, "the text has a character that is no token, and the tokenizer has no unk");
        consider(&node[i + len], u->worst - UNK_PENALTY + node[i].score, i, u->unk);
    }
    return QR_OK;
}

/* Unknown characters in a row are one piece: a token all the same, its bytes, or unk. */
static void push_unknown(const struct qr_unigram *u, const struct qr_vocab *vocab, const char *s, size_t n,
                         struct qr_ids *ids)
{
    int32_t id = qr_vocab_find(vocab, s, n, false);
    bool all = u->byte_fallback && id < 0;

    if (id >= 0 && (size_t)id >= u->n_score) /* an added token is none of the model's */
        id = -1;
    for (size_t i = 0; all && i < n; i++)
        all = u->byte_id[(unsigned char)s[i]] >= 0;
    if (!all)
        qr_ids_push(ids, id >= 0 ? id : u->unk);
    for (size_t i = 0; all && i < n; i++)
        qr_ids_push(ids, u->byte_id[(unsigned char)s[i]]);
}

enum qr_status qr_unigram_encode(const struct qr_unigram *u, const struct qr_vocab *vocab, const char *word, size_t n,
                                 struct qr_unigram_scratch *scratch, struct qr_ids *ids, struct qr_err *err)
{
    struct qr_unigram_node *node;

    if (n >= NO_START)
        return qr_fail(err, QR_LIMIT, "a word of %zu bytes is longer than the limit of %u", n, NO_START - 1);
    if (scratch->room < n + 1) {
        free(scratch->node);
        scratch->room = n + 1 < 256 ? 256 : n + 1;
        scratch->node = malloc(scratch->room * sizeof *scratch->node);
        if (!scratch->node) {
            scratch->room = 0;
            return qr_fail(err, QR_NOMEM, "out of memory for a word of %zu bytes", n);
        }
    }
    node = scratch->node;
    for (size_t i = 0; i <= n; i++)
        node[i] = (struct qr_unigram_node){.start = NO_START};
    QR_TRY(forward(u, word, n, node, err));
    for (size_t at = n; at > 0; at = node[at].start)
        node[node[at].start].next = (uint32_t)at;
    for (size_t at = 0; at < n;) {
        size_t end = node[at].next;

        if (node[end].id != u->unk) {
            qr_ids_push(ids, node[end].id);
            at = end;
            continue;
        }
        while (end < n && node[node[end].next].id == u->unk)
            end = node[end].next;
        push_unknown(u, vocab, word + at, end - at, ids);
        at = end;
    }
    return QR_OK;
}
