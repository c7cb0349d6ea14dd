/* ask.h - requests to an engine and what became of them, gathered. */
#ifndef TESTS_ENGINE_ASK_H
#define TESTS_ENGINE_ASK_H
#include "base/buf.h"
#include "quire.h"

struct answer {
    uint64_t request;
    int choice;
    int32_t *id; /* [n] generated */
    int n;
    float *logprob;     /* [n] when asked for */
    float *prompt;      /* [n_prompt] log-probabilities of the prompt, in order */
    int32_t *prompt_id; /* [n_prompt] */
    int n_prompt, n_slice;
    struct qr_buf text;
    bool done;
    enum qr_finish finish;
    struct qr_err error;
    struct qr_usage usage;
};

/* A request on these ids, greedy, max_tokens as given. */
struct qr_request ask_request(const int32_t *prompt, size_t n, int max_tokens);
/* Submits; fails the test when it is refused. The answer is one of `choice` (a request with n has n answers). */
uint64_t ask(struct qr_engine *engine, const struct qr_request *request);
/* Takes events until all n answers, whose request and choice are set, are done. (A test's own `listen` would take the place of the
 * system's in every library that the process loads, the GPU's driver among them.) */
void await_answers(struct qr_engine *engine, struct answer *answers, int n);
/* ask, and wait for one. */
void ask_alone(struct qr_engine *engine, const struct qr_request *request, struct answer *answer);
void answer_free(struct answer *answer);
/* The same ids, log-probabilities bit for bit, text and end? */
void assert_same_answer(const struct answer *a, const struct answer *b);
#endif
