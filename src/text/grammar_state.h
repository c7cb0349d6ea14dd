/* grammar_state.h - between grammar_state.c and grammar_mask.c. */
#ifndef QR_TEXT_GRAMMAR_STATE_H
#define QR_TEXT_GRAMMAR_STATE_H
#include "text/grammar_internal.h"

struct qr_grammar_state {
    struct qr_grammar *g;
    bool ended; /* an end id was accepted */
    uint32_t n_thread, n_frame;
    struct qr_gr_thread thread[QR_GR_THREADS];
    struct qr_gr_thread step[2][QR_GR_THREADS]; /* while a token is being accepted */
    struct qr_gr_frame frame[QR_GR_POOL];       /* parents stand in front of what lies on them */
    uint32_t moved[QR_GR_POOL];                 /* while frames are compacted */
};

enum qr_status qr_gr_cache_init(struct qr_grammar *g);
void qr_gr_cache_warm(struct qr_grammar *g);
void qr_gr_cache_free(struct qr_grammar *g);
#endif
