/* mixed.h - requests of every kind: lengths, sampling, log-probabilities, choices, constraints, beginnings in common. */
#ifndef TESTS_ENGINE_MIXED_H
#define TESTS_ENGINE_MIXED_H
#include "ask.h"

enum { MIXED_MAX_LEN = 160 };

struct mixed {
    int32_t prompt[MIXED_MAX_LEN];
    struct qr_request request;
};

/* Request number i, of at most 91 prompt and 60 generated tokens. */
void mixed_make(struct mixed *m, int i, int n_vocab);
int mixed_choices(const struct mixed *m);

/* Allows the ids v with (v + the id before) % 3 != 0; the first is behind 0. */
extern const struct qr_constraint mixed_constraint;
#endif
