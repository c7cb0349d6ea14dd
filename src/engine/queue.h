/* queue.h - the sequences that wait, in the order in which they are served: lower priority numbers first; among equals
 * the key that was served least; within a key by arrival.
 *
 * A key is whatever the caller tells requests apart by (an API key, a user). What a key was served is counted in
 * tokens, one for a prompt's and two for a generated one (the virtual token counter of Sheng et al., Fairness in
 * Serving Large Language Models, OSDI 2024): a key with a thousand requests delays another one's single request by
 * about one of its own. A key that comes (back) starts at the least that a present one was served, so that nobody
 * saves up time by being away.
 *
 * Each job brings the memory for one flow and takes one away when it goes, so that nothing is allocated here. Not
 * thread safe: the engine thread owns it. */
#ifndef QR_ENGINE_QUEUE_H
#define QR_ENGINE_QUEUE_H
#include <stdbool.h>
#include <stdint.h>

struct qr_job;
struct qr_sequence;

/* One key's jobs. */
struct qr_flow {
    uint64_t key;
    uint64_t served;                  /* tokens, weighted */
    int n_job, n_running;             /* jobs that live; sequences that hold blocks */
    struct qr_sequence *first, *last; /* waiting, by (priority, order) */
    struct qr_flow *next;
};

struct qr_queue {
    struct qr_flow *flow;  /* those with jobs */
    struct qr_flow *spare; /* memory that present jobs brought and nobody uses */
    int n_waiting;
};

void qr_queue_free(struct qr_queue *queue); /* flows; jobs are the caller's */

/* A job's sequences may wait from now on. Takes job->own_flow. */
void qr_queue_join(struct qr_queue *queue, struct qr_job *job);
/* The job goes; none of its sequences waits. Gives it a flow's memory back as job->own_flow. */
void qr_queue_leave(struct qr_queue *queue, struct qr_job *job);

void qr_queue_add(struct qr_queue *queue, struct qr_sequence *seq);
void qr_queue_remove(struct qr_queue *queue, struct qr_sequence *seq);
struct qr_sequence *qr_queue_first(const struct qr_queue *queue); /* who is next; NULL: nobody waits */
/* Tokens of a sequence went through the model. */
void qr_queue_charge(struct qr_sequence *seq, int n_prompt, int n_output);

/* The order of arrival under priorities: also that in which running ones are kept. */
bool qr_sequence_before(const struct qr_sequence *a, const struct qr_sequence *b);
#endif
