/* late.h - a device that answers late: it wraps an executor that gives logits into one that samples, takes ids by
 * place, and does its work at random moments between a step's submission and the latest one possible, its collection.
 * A spy beside it remembers the logits' bits of every text that was ever computed and compares. */
#ifndef TESTS_ENGINE_LATE_H
#define TESTS_ENGINE_LATE_H
#include "plan/exec.h"

/* For each text (all tokens up to a row, and a salt) the hash of its logits' bits; shared by several executors. */
struct spy {
    struct {
        uint64_t text, logits;
    } seen[1 << 17];
    int n_text, n_again, n_differ;
};

/* Failures to come and what was seen; read it after the engine's end. */
struct late_hooks {
    int fail_submit, fail_sample, fail_collect; /* the call with that number, from 1, is refused; 0: none */
    int n_submit, n_sample, n_collect;
    int max_flight;    /* steps submitted and not collected, that one included, the most */
    int n_late_sample; /* steps that were submitted while others were in flight and sampled once these had landed */
};

/* inner is owned by the result from now on. seed: of the moments; spy and hooks may be NULL. */
struct qr_exec *late_exec(struct qr_exec *inner, struct qr_exec_limits limits, int n_vocab, uint64_t seed,
                          struct spy *spy, struct late_hooks *hooks);
/* Only the spy: gives logits, as inner does. */
struct qr_exec *spied_exec(struct qr_exec *inner, struct qr_exec_limits limits, int n_vocab, struct spy *spy);
#endif
