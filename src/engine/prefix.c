/* prefix.c - see prefix.h. */
#include "engine/prefix.h"

static const int32_t *tokens_of(const struct qr_sequence *seq, int block)
{
    return seq->token + block * QR_PAGE;
}

/* The n < QR_PAGE tokens behind `from` as an index entry has them. */
static void pad(const struct qr_sequence *seq, int from, int n, int32_t padded[QR_PAGE])
{
    for (int i = 0; i < QR_PAGE; i++)
        padded[i] = i < n ? seq->token[from + i] : -1;
}

/* The block that is indexed with the most of the tokens behind `have`, which it is not filled up with. */
static int take_rest(struct qr_blocks *blocks, struct qr_sequence *seq, int have)
{
    int left = seq->n_token - have;
    for (int n = left < QR_PAGE ? left : QR_PAGE - 1; n > 0; n--) {
        int32_t padded[QR_PAGE];
        pad(seq, have, n, padded);
        int32_t id = qr_blocks_find(blocks, seq->parent, padded);
        if (id < 0)
            continue;
        qr_blocks_ref(blocks, id);
        seq->block[seq->n_block++] = id;
        return n;
    }
    return 0;
}

/* The first choice's blocks hold the prompt's K and V up to its last token, or will once submitted steps have run. */
static bool first_has_prompt(const struct qr_sequence *seq)
{
    const struct qr_sequence *first = &seq->job->choice[0];
    return seq->choice > 0 && (first->state == QR_SEQ_RUNNING || first->state == QR_SEQ_LEAVING) &&
           first->n_computed >= seq->n_prompt - 1;
}

void qr_prefix_share(struct qr_blocks *blocks, bool use_index, struct qr_sequence *seq)
{
    int most = qr_sequence_first_row(seq), have = 0;
    seq->parent = QR_BLOCKS_ROOT(seq->job->salt);
    while (use_index && have < most && have + QR_PAGE <= seq->n_token) {
        int32_t id = qr_blocks_find(blocks, seq->parent, tokens_of(seq, seq->n_block));
        if (id < 0)
            break;
        qr_blocks_ref(blocks, id);
        seq->block[seq->n_block++] = id;
        seq->parent = blocks->block[id].serial;
        have += QR_PAGE;
    }
    seq->n_indexed = seq->n_block;
    if (have < seq->n_prompt - 1 && first_has_prompt(seq)) {
        have = seq->n_prompt - 1;
        for (; seq->n_block < qr_blocks_for(have); seq->n_block++) {
            seq->block[seq->n_block] = seq->job->choice[0].block[seq->n_block];
            qr_blocks_ref(blocks, seq->block[seq->n_block]);
        }
    } else if (use_index && have < most) {
        have += take_rest(blocks, seq, have);
    }
    seq->n_computed = have < most ? have : most;
}

/* One that it fills up alone needs no copy, even if it is indexed: what is written behind the indexed tokens does not
 * change them, and what is written there again is the same, bit for bit. */
bool qr_prefix_writes_shared(const struct qr_blocks *blocks, const struct qr_sequence *seq)
{
    return seq->n_computed % QR_PAGE != 0 && blocks->block[seq->block[seq->n_computed / QR_PAGE]].refs > 1;
}

void qr_prefix_copy(struct qr_blocks *blocks, struct qr_sequence *seq, struct qr_batch *batch)
{
    int at = seq->n_computed / QR_PAGE;
    int32_t shared = seq->block[at], own = qr_blocks_take(blocks);
    if (seq->n_indexed > at) { /* the copy is not: the chain goes on behind the block before it */
        seq->n_indexed = at;
        seq->parent = blocks->block[shared].parent;
    }
    qr_batch_copy(batch, shared, own);
    qr_blocks_drop(blocks, shared);
    seq->block[at] = own;
}

void qr_prefix_index(struct qr_blocks *blocks, struct qr_sequence *seq, int n)
{
    for (; (seq->n_indexed + 1) * QR_PAGE <= n; seq->n_indexed++) {
        int32_t *own = &seq->block[seq->n_indexed];
        int32_t there = qr_blocks_index(blocks, *own, seq->parent, tokens_of(seq, seq->n_indexed));
        if (there != *own) { /* another sequence computed the same: one copy is enough */
            qr_blocks_ref(blocks, there);
            qr_blocks_drop(blocks, *own);
            *own = there;
        }
        seq->parent = blocks->block[there].serial;
    }
}

void qr_prefix_keep(struct qr_blocks *blocks, struct qr_sequence *seq)
{
    int valid = seq->n_computed < seq->n_token ? seq->n_computed : seq->n_token;
    int32_t padded[QR_PAGE];
    qr_prefix_index(blocks, seq, valid);
    int from = seq->n_indexed * QR_PAGE, n = valid - from;
    if (n <= 0 || blocks->block[seq->block[seq->n_indexed]].refs > 1)
        return;
    pad(seq, from, n, padded);
    qr_blocks_index(blocks, seq->block[seq->n_indexed], seq->parent, padded);
}
