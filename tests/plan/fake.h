/* fake.h - a small model made in memory, recorded as the families record theirs, for testing passes without arch/. */
#ifndef TESTS_PLAN_FAKE_H
#define TESTS_PLAN_FAKE_H
#include "plan/op.h"

enum {
    FAKE_LAYERS = 3,
    FAKE_EMBD = 32,
    FAKE_HEADS = 4,
    FAKE_KV_HEADS = 2,
    FAKE_HEAD_DIM = 16,
    FAKE_FF = 48,
    FAKE_VOCAB = 40
};

struct fake {
    struct qr_arena *arena; /* owns the weights */
    bool bias;              /* on q, k, v */
    bool qk_norm;
    struct qr_weight embd, q[FAKE_LAYERS], k[FAKE_LAYERS], v[FAKE_LAYERS], o[FAKE_LAYERS], gate[FAKE_LAYERS],
        up[FAKE_LAYERS], down[FAKE_LAYERS];
    struct qr_vector norm[2 * FAKE_LAYERS + 1], q_norm[FAKE_LAYERS], k_norm[FAKE_LAYERS];
};

/* Random F32 weights. */
void fake_create(struct fake *fake, bool bias, bool qk_norm);
void fake_destroy(struct fake *fake);
/* The canonical unfused plan; NULL when out of memory. */
struct qr_plan *fake_plan(const struct fake *fake);
/* The ops' opcodes as text, "EMBED MEAN_SQUARE ...", of one layer. */
const char *fake_codes(const struct qr_plan *plan, int layer, char text[1024]);

/* Runs a plan over one sequence of n tokens, plain fp32, every row wanted. buffers: where values lie (of n rows, 4
 * bytes an element); NULL: every value for itself. Returns the logits [n, FAKE_VOCAB], malloc'ed. */
struct qr_buffers;
float *fake_run(const struct qr_plan *plan, const struct qr_buffers *buffers, const int *token, int n);
#endif
