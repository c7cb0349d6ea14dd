/* sample.h - the choice of tokens on the device, for rows of logits that lie there.
 *
 * The host packs what is wanted of each row (struct qr_pick) into one flat buffer of 32-bit words, which goes to the
 * device in one copy; one launch answers all rows. The order of the filters is engine/sampler.h's; weights are the same
 * floats as the CPU's, sums differ in the last bits of a double. A row's answer does not depend on how many rows there
 * are. Included by C and by CUDA. */
#ifndef QR_CUDA_SAMPLE_H
#define QR_CUDA_SAMPLE_H
#include "plan/pick.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QR_SAMPLE_MAX_PENDING 64 /* tokens behind the known ones, at most */

/* What is wanted of one row. Lists are places in the packed buffer, in words from its start. */
struct qr_sample_row {
    int32_t samples, id, n_top;
    int32_t top_k; /* 0: off */
    float temperature, top_p, min_p, repetition, presence, frequency;
    uint32_t seed[2], choice, position;
    int32_t adjusts;            /* any of the lists below changes a logit */
    int32_t n_bias, bias;       /* [n][2] id, float; ascending ids, equal ones in the order given */
    int32_t n_count, count;     /* [n][2] id, times generated */
    int32_t n_pending, pending; /* [n] ids, or -1 - place */
    int32_t n_end, end;         /* [n] ids that cannot come */
    int32_t mask;               /* [(n_vocab + 31) / 32] bits; 0: none */
};

/* The head of a packed buffer, followed by the rows and then by their lists. */
struct qr_sample_head {
    int32_t n_row, place; /* the id of row r goes to places[place + r] */
    int32_t reserved[2];
    struct qr_sample_row row[];
};

/* What came out for one row. What is under logprob is filled where the pick's n_top is 0 or more. */
struct qr_sampled {
    int32_t id, status; /* status as in struct qr_picked */
    float logprob;
    int32_t rank, n_top;
    struct qr_top top[QR_MAX_TOP];
};

/* Bytes that the picks take, packed; they fit in an int. */
size_t qr_sample_packed_bytes(const struct qr_pick *pick, int n_row, int n_vocab);
/* An upper bound for one row with these lengths of its lists: for a buffer that is made at load. */
size_t qr_sample_row_bound(int n_vocab, int max_count, int max_bias, int max_end);
/* Packs rows from the first on for as long as they fit into `bytes`; returns how many did. Ids are valid, the lists are
 * within 2^31 words, n_pending within QR_SAMPLE_MAX_PENDING. *used: bytes to copy. */
int qr_sample_pack(const struct qr_pick *pick, int n_row, int n_vocab, int place, void *to, size_t bytes, size_t *used);
/* Picked rows of what came out. */
void qr_sample_unpack(const struct qr_sampled *from, int n_row, struct qr_picked *to);

struct CUstream_st;
/* All pointers are of the device. Every field stays the same from step to step where its owner wants to capture the
 * launch: only n_row shapes it. */
struct qr_sample_args {
    const float *logits; /* [n_row, stride] fp32 */
    size_t stride;       /* floats from row to row, at least n_vocab; a multiple of 4 is read faster */
    int n_vocab, n_row;
    /* Packed, 16-byte aligned. May be mapped host memory: it is read before the kernels in front have ended. */
    const struct qr_sample_head *pick;
    int32_t *place;         /* ids of earlier steps; those of this one are written */
    struct qr_sampled *out; /* [n_row]; may be mapped host memory */
    float *work;            /* qr_sample_work_bytes */
};
/* Scratch for at most n_row rows: none on devices of compute capability 9 and later for vocabularies to 400,000. */
size_t qr_sample_work_bytes(int n_row, int n_vocab, int major);
/* Returns a cudaError_t. */
int qr_sample_launch(const struct qr_sample_args *args, int major, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
#endif
