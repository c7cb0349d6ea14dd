/* stats.h - what an engine has done and what a token costs; for benchmarks and metrics. Any thread may ask. */
#ifndef QR_ENGINE_STATS_H
#define QR_ENGINE_STATS_H
#include "quire.h"

/* Upper ends of the classes in which steps are counted by their tokens; vLLM's, of vllm:iteration_tokens_total. */
#define QR_STEP_BOUNDS                                                                                                 \
    {                                                                                                                  \
        1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384                                                 \
    }
enum { QR_N_STEP_BOUND = 13 };

struct qr_engine_stats {
    uint64_t weight_bytes;   /* of weights that a decode step reads, the head included */
    uint64_t kv_token_bytes; /* of K and V that a token of context takes, over all layers */
    int n_block, n_free_block;
    int n_running, n_waiting, peak_running; /* sequences */
    uint64_t n_step, n_preempted;
    uint64_t step_class[QR_N_STEP_BOUND + 1]; /* steps by tokens, of each class alone; the last: above all bounds */
    uint64_t n_token;                         /* that went through the model */
    uint64_t n_output;                        /* that were generated */
    uint64_t n_asked, n_cached; /* prompt tokens of sequences that started; of these, found in the prefix cache */
    uint64_t n_draft, n_taken;  /* tokens that were proposed to steps; of these, taken */
    double plan_s;              /* wall seconds in planning steps: who runs, which blocks, the step's arrays */
    double follow_s;            /* in what follows a step: stops, events, the prefix cache */
    double step_s;              /* in the executor */
    double sample_s;            /* in sampling and log-probabilities */
};
void qr_engine_stats(struct qr_engine *engine, struct qr_engine_stats *stats);

/* When the engine thread last went round its loop, in qr_now_ns; at least every half second while it lives, but for
 * the length of a step. */
int64_t qr_engine_heartbeat_ns(const struct qr_engine *engine);
/* A count that rises within a step too, as the executor goes on. Neither rises: the engine hangs. */
uint64_t qr_engine_progress(const struct qr_engine *engine);
#endif
