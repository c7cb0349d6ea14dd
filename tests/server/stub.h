/* stub.h - an executor without a model for tests of the server: what comes next depends on the position alone, a step
 * takes as long as asked for, and it can be made to hang or to work on without an end. */
#ifndef TESTS_SERVER_STUB_H
#define TESTS_SERVER_STUB_H
#include <stdatomic.h>
#include "engine/core.h"

struct stub {
    struct qr_exec head;
    int n_vocab, n_row;
    float *logits; /* [max_row, n_vocab] */
    atomic_int step_ms;
    atomic_bool hang; /* a step does not end while it is set */
    atomic_bool busy; /* the same, but the executor says that it works */
};

/* The id behind position p. */
int32_t stub_next(int position);
/* An engine on a stub with the model's tokenizer; it owns the stub. */
struct qr_engine *stub_engine(const struct qr_model *model, int max_seq, struct stub **stub);
#endif
