/* fake.h - an executor without a model: a row's logits are a pure function of the tokens of its sequence up to that
 * row, read back through the pages and the block table. A wrong slot, table, position or length changes them. */
#ifndef TESTS_ENGINE_FAKE_H
#define TESTS_ENGINE_FAKE_H
#include <stdatomic.h>
#include "engine/core.h"

enum { FAKE_VOCAB = 97, FAKE_POISON = 13 };

struct fake {
    struct qr_exec head;
    struct qr_exec_limits limits;
    int32_t *page; /* [n_block * QR_PAGE] the token that stands in each slot */
    float *logits; /* [max_row, FAKE_VOCAB] */
    int n_row;
    atomic_int n_step;
    atomic_int delay_us;   /* a step takes that long */
    atomic_int fail_step;  /* the step with that number (from 1) is refused; 0: none */
    atomic_bool hold;      /* a step waits while it is set */
    atomic_bool poison;    /* a context that ends with FAKE_POISON gives NaN */
    atomic_int to_prepare; /* preparations that are left */
    atomic_int n_prepared;
    atomic_int bad; /* promises of exec.h that were broken */
};

/* The logits after these tokens. */
void fake_logits(const int32_t *token, int n, float *logits);
/* The executor alone; NULL when out of memory. */
struct fake *fake_exec(struct qr_exec_limits limits);
/* What an engine on it, or on one that wraps it, is made from. */
struct qr_engine_parts fake_parts(struct qr_exec *exec, struct qr_exec_limits limits);
/* An engine on a fake executor, which it owns; limits.max_row etc. as given. */
struct qr_engine *fake_engine(struct qr_exec_limits limits, struct fake **fake);
/* The same; NULL where it fails. */
struct qr_engine *fake_try_engine(struct qr_exec_limits limits, struct fake **fake);
#endif
