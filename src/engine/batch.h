/* batch.h - one step: which sequence brings how many tokens, and the arrays that the executor reads. Allocated once
 * for the largest step. */
#ifndef QR_ENGINE_BATCH_H
#define QR_ENGINE_BATCH_H
#include "engine/request.h"
#include "plan/exec.h"

struct qr_batch_item {
    struct qr_sequence *seq;
    int position;     /* of its first token in this step */
    int n;            /* tokens */
    int row, n_row;   /* its rows of the result */
    int row_position; /* position of its first row; the others follow */
    int n_logprob;    /* prompt tokens whose log-probabilities come out; the prompt's first one needs no row */
    int n_given;      /* rows in front that ask for a prompt token's log-probability; the others pick a token */
};

struct qr_batch {
    int max_token, max_seq, max_row;
    int n_item;
    struct qr_batch_item *item; /* [max_seq] */
    struct qr_step step;        /* points to the arrays below */
    int32_t *token, *position, *slot;
    int32_t *seq_begin, *seq_len, *block_table, *row, *copy_from, *copy_to;
};

/* max_block: entries of a block table. */
enum qr_status qr_batch_init(struct qr_batch *batch, int max_token, int max_seq, int max_row, int max_block,
                             struct qr_err *err);
void qr_batch_free(struct qr_batch *batch); /* a zeroed struct is fine */
uint64_t qr_batch_bytes(int max_token, int max_seq, int max_row, int max_block);

void qr_batch_clear(struct qr_batch *batch);
/* Asks for a block to be copied before the step; at most once a sequence. */
void qr_batch_copy(struct qr_batch *batch, int32_t from, int32_t to);
/* Adds the next n tokens of a sequence; its block table must cover them. */
void qr_batch_add(struct qr_batch *batch, struct qr_sequence *seq, int n);
#endif
