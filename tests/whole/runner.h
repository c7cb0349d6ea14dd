/* runner.h - a model from a file to logits through the CPU executor, without the engine: sequences, the blocks that they
 * own, and steps that take some tokens of each. */
#ifndef TESTS_WHOLE_RUNNER_H
#define TESTS_WHOLE_RUNNER_H
#include "cpu/cpu.h"
#include "model/source.h"
#include "model/weights.h"
#include "plan/exec.h"

enum { RUNNER_MAX_LEN = 640, RUNNER_MAX_SEQ = 8, RUNNER_MAX_TOKEN = 256 };

struct model {
    struct qr_source *source;
    struct qr_weights *weights;
    struct qr_plan *plan; /* unfused */
    uint32_t n_vocab;
};

/* Failing to open is a failed test. */
void model_open(struct model *model, const char *path);
void model_open_as(struct model *model, const char *path, const char *quantization);
void model_close(struct model *model);
/* Writes shape ("tiny-llama") with random weights to path, a directory or a .gguf file. */
void model_write(const char *shape, enum qr_dtype type, const char *path);

struct setting {
    uint32_t mask; /* fusion passes */
    enum qr_isa isa;
    int n_thread;
    enum qr_dtype kv_type;
};

struct sequence {
    const int32_t *token; /* [n] */
    int n, done;
    float *logits; /* [n, n_vocab], of the positions done so far whose logits were wanted; 0 elsewhere */
};

/* Which logits a step asks for. */
enum wanted { WANT_ALL, WANT_LAST /* of each sequence's tokens */, WANT_NONE };

struct runner {
    const struct model *model;
    struct qr_plan *plan;
    struct qr_pool *pool;
    struct qr_exec *exec;
    struct sequence sequence[RUNNER_MAX_SEQ];
    int n_sequence;
    enum wanted wanted; /* may be changed between steps */
    /* of one step; too large for the stack of a test */
    int32_t token[RUNNER_MAX_TOKEN], position[RUNNER_MAX_TOKEN], slot[RUNNER_MAX_TOKEN], row[RUNNER_MAX_TOKEN];
    int32_t table[RUNNER_MAX_SEQ * RUNNER_MAX_LEN / QR_PAGE];
};

void runner_open(struct runner *runner, const struct model *model, struct setting setting);
void runner_close(struct runner *runner);
/* A new sequence of n tokens; token must stay. Returns its number. */
int runner_add(struct runner *runner, const int32_t *token, int n);
/* One step that takes take[s] more tokens of each sequence s, cut to what is left. */
void runner_step(struct runner *runner, const int *take);
/* Steps of at most chunk tokens until sequence s is through. */
void runner_finish(struct runner *runner, int s, int chunk);

/* Logits [n, n_vocab] of one sequence in chunks, malloc'ed. */
float *run_logits(const struct model *model, struct setting setting, const int32_t *token, int n, int chunk);
/* n ids below n_vocab, of a fixed random stream. */
void random_tokens(int32_t *token, int n, uint32_t n_vocab, uint64_t seed);
/* Largest |a - b| over largest |b|; fails the test on NaN. */
double relative_error(const float *a, const float *b, size_t n);
#endif
