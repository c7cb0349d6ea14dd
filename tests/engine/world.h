/* world.h - blocks and scheduler with a device that remembers what was written into each slot: a step "computes" by
 * writing down, for each token, what stands in front of it. What a sequence then reads through its block table must be
 * its own beginning. Steps land late, ids are known by place until then. */
#ifndef TESTS_ENGINE_WORLD_H
#define TESTS_ENGINE_WORLD_H
#include "engine/scheduler.h"

enum { WORLD_MAX_LEN = 200, WORLD_MAX_BLOCK = 64, WORLD_MAX_JOB = 40, WORLD_MAX_RING = 4 };

struct world_shape {
    int n_block, max_token, max_seq, max_row;
    int run_ahead;
    int drafts; /* proposed to each that decodes */
    bool no_cache;
};

struct world_slot {
    uint64_t print; /* of the token and all in front of it */
    int32_t token;
};

struct world {
    struct world_shape shape;
    struct qr_scheduler s;
    struct qr_batch ring[WORLD_MAX_RING];
    int n_ring, oldest, n_flight;
    struct world_slot slot[WORLD_MAX_BLOCK * QR_PAGE];
    struct {
        uint64_t order;
        int position;
    } place[WORLD_MAX_RING * 600]; /* whose token is to stand there */
    struct qr_job *job[WORLD_MAX_JOB];
    int n_job;
    uint64_t order, draw;
    uint64_t n_step, n_token, n_ended, n_stopped, n_surplus, n_copy, n_taken;
};

int world_below(struct world *w, int n); /* a number under n */
void world_make(struct world *w, struct world_shape shape);
void world_end(struct world *w); /* ends all that lives; every block must be free then */

struct world_ask {
    int family; /* prompts of one family begin alike */
    int n_prompt, max_output, n_choice, priority;
    bool logprobs, stops; /* stops: some of its tokens end it */
    uint64_t key, salt;
};
int32_t world_token(const struct qr_sequence *seq, int position); /* of the prompt, or what it will say */
struct qr_job *world_add(struct world *w, struct world_ask ask);
void world_cancel(struct world *w, struct qr_job *job);
/* Plans, launches, lands as the engine does; false: nothing was to be done. */
bool world_step(struct world *w);
/* What must always hold. */
void world_check(struct world *w);
#endif
