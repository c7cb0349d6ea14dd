/* batch.c - see batch.h. */
#include "engine/batch.h"
#include <stdlib.h>
#include <string.h>

enum qr_status qr_batch_init(struct qr_batch *batch, int max_token, int max_seq, int max_row, int max_block,
                             struct qr_err *err)
{
    size_t t = (size_t)max_token, s = (size_t)max_seq;
    *batch = (struct qr_batch){.max_token = max_token, .max_seq = max_seq, .max_row = max_row};
    batch->item = calloc(s, sizeof(*batch->item));
    batch->token = calloc(t, sizeof(int32_t));
    batch->position = calloc(t, sizeof(int32_t));
    batch->slot = calloc(t, sizeof(int32_t));
    batch->seq_begin = calloc(s + 1, sizeof(int32_t));
    batch->seq_len = calloc(s, sizeof(int32_t));
    batch->block_table = calloc(s * (size_t)max_block, sizeof(int32_t));
    batch->row = calloc((size_t)max_row, sizeof(int32_t));
    batch->copy_from = calloc(s, sizeof(int32_t));
    batch->copy_to = calloc(s, sizeof(int32_t));
    if (!batch->item || !batch->token || !batch->position || !batch->slot || !batch->seq_begin || !batch->seq_len ||
        !batch->block_table || !batch->row || !batch->copy_from || !batch->copy_to) {
        qr_batch_free(batch);
        return qr_fail(err, QR_NOMEM, "out of memory for steps of %d tokens and %d sequences", max_token, max_seq);
    }
    batch->step = (struct qr_step){
        .token = batch->token,
        .position = batch->position,
        .slot = batch->slot,
        .seq_begin = batch->seq_begin,
        .seq_len = batch->seq_len,
        .block_table = batch->block_table,
        .table_stride = max_block,
        .row = batch->row,
        .copy_from = batch->copy_from,
        .copy_to = batch->copy_to,
    };
    return QR_OK;
}

uint64_t qr_batch_bytes(int max_token, int max_seq, int max_row, int max_block)
{
    return sizeof(int32_t) * (3 * (uint64_t)max_token + 4 * (uint64_t)max_seq + 1 + (uint64_t)max_row +
                              (uint64_t)max_seq * (uint64_t)max_block) +
           sizeof(struct qr_batch_item) * (uint64_t)max_seq;
}

void qr_batch_free(struct qr_batch *batch)
{
    free(batch->item);
    free(batch->token);
    free(batch->position);
    free(batch->slot);
    free(batch->seq_begin);
    free(batch->seq_len);
    free(batch->block_table);
    free(batch->row);
    free(batch->copy_from);
    free(batch->copy_to);
    *batch = (struct qr_batch){0};
}

void qr_batch_clear(struct qr_batch *batch)
{
    batch->n_item = 0;
    batch->step.n_token = batch->step.n_seq = batch->step.n_row = batch->step.n_copy = 0;
}

void qr_batch_copy(struct qr_batch *batch, int32_t from, int32_t to)
{
    int i = batch->step.n_copy++;
    batch->copy_from[i] = from;
    batch->copy_to[i] = to;
}

void qr_batch_add(struct qr_batch *batch, struct qr_sequence *seq, int n)
{
    struct qr_step *step = &batch->step;
    int first = seq->n_computed, s = step->n_seq++, known = seq->n_token + seq->n_draft, lo;
    for (int i = 0; i < n; i++) {
        int at = step->n_token + i, position = first + i;
        batch->token[at] = position < known ? seq->token[position] : seq->ahead[position - known];
        batch->position[at] = position;
        batch->slot[at] = seq->block[position / QR_PAGE] * QR_PAGE + position % QR_PAGE;
    }
    int n_row = qr_sequence_rows(seq, first, n, &lo), n_given = seq->n_prompt - 1 - lo;
    n_given = n_given < 0 ? 0 : n_given < n_row ? n_given : n_row;
    batch->item[batch->n_item++] = (struct qr_batch_item){
        .seq = seq,
        .position = first,
        .n = n,
        .row = step->n_row,
        .n_row = n_row,
        .row_position = lo,
        .n_given = n_given,
        .n_logprob = seq->next_logprob < seq->n_prompt ? n_given + (seq->next_logprob == 0) : 0,
    };
    for (int i = 0; i < n_row; i++)
        batch->row[step->n_row++] = step->n_token + lo - first + i;
    batch->seq_begin[s] = step->n_token;
    step->n_token += n;
    batch->seq_begin[s + 1] = step->n_token;
    batch->seq_len[s] = first + n;
    memcpy(batch->block_table + (size_t)s * (size_t)step->table_stride, seq->block,
           (size_t)seq->n_block * sizeof(int32_t));
}
