/* pick.h - what is to be made of a row of logits, and what was made of it.
 *
 * Where the choice is made belongs to the executor: a GPU picks on the device and feeds the id to its next step, the
 * CPU hands the logits out and the engine's sampler picks. Both read this and follow the order of filters of
 * engine/sampler.h, so that the same request gives the same tokens on both. Everything that a pick points to is read
 * during the call that gets it, and not later. */
#ifndef QR_PLAN_PICK_H
#define QR_PLAN_PICK_H
#include "quire.h"

#define QR_MAX_TOP 20 /* the most log-probabilities beside the chosen one */

/* A distinct token of a sequence, for the penalties. */
struct qr_count {
    int32_t id;
    int32_t n_output; /* times generated; 0: it stands in the prompt only */
};

struct qr_pick {
    bool samples; /* else the token is given: only its log-probability is wanted */
    int32_t id;   /* the given token */
    int n_top;    /* log-probabilities beside the token's own; -1: none wanted at all */

    /* What follows is for those that sample. */
    const struct qr_sampling *params; /* values in range */
    uint64_t seed;
    uint32_t choice;
    uint32_t position;            /* of the token that is picked, in its sequence */
    const struct qr_count *count; /* [n_count] the sequence's known tokens; NULL: no penalty is on */
    int n_count;
    const int32_t *pending; /* [n_pending] tokens behind the known ones, before position: ids, or places as in
                             * qr_step.token. They count as generated. */
    int n_pending;
    const int32_t *end_id; /* [n_end] EOS and stop ids: impossible before min_tokens */
    int n_end;
    int n_output;         /* tokens generated before this one, the pending ones among them */
    const uint32_t *mask; /* [(n_vocab + 31) / 32] bit v % 32 of word v / 32: may id v come? NULL: every id may */
};

/* On failure id is 0, so that a step that feeds on it does no harm: QR_INTERNAL when the logits hold NaN or +inf,
 * QR_INVALID when filters and mask leave no token. */
struct qr_picked {
    int32_t id;
    enum qr_status status;
    struct qr_token_logprob logprob; /* of the model, before bias, penalties and filters; .top is the array below */
    struct qr_top top[QR_MAX_TOP];
};
#endif
