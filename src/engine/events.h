/* events.h - the queue between the engine thread and those who read its events.
 *
 * The engine takes a node, fills it, and publishes a chain of nodes once a step. Nodes are reused, so that a step
 * allocates nothing once enough of them exist; what a reader gets is copied on the reader's thread. Each choice
 * reserves the node of its last event when it is submitted: that one is never lost. */
#ifndef QR_ENGINE_EVENTS_H
#define QR_ENGINE_EVENTS_H
#include "base/buf.h"
#include "base/err.h"
#include "engine/sampler.h"

struct qr_event_node {
    struct qr_event_node *next;
    struct qr_event event;           /* text and logprobs are set from the fields below when it is read */
    struct qr_buf text;              /* TOKEN */
    struct qr_token_logprob logprob; /* TOKEN, when event.n_logprobs is 1 */
    struct qr_top top[QR_MAX_TOP];
    struct qr_token_logprob *slice; /* PROMPT_LOGPROBS: one malloc'ed piece with the arrays behind it */
};

struct qr_event_chain { /* nodes in order; zeroed: empty */
    struct qr_event_node *first, *last;
};
void qr_event_chain_add(struct qr_event_chain *chain, struct qr_event_node *node);

struct qr_events;
enum qr_status qr_events_create(struct qr_events **events, struct qr_err *err);
/* Wakes all readers with QR_CANCELLED, waits until they left, frees everything. */
void qr_events_destroy(struct qr_events *events);

/* A blank node; NULL when out of memory. Any thread. */
struct qr_event_node *qr_events_take(struct qr_events *events);
/* The same for one thread that takes many: from its own stock, which takes over all spare nodes when it is empty. */
struct qr_event_node *qr_events_take_from(struct qr_events *events, struct qr_event_node **stock);
void qr_events_give_stock(struct qr_events *events, struct qr_event_node **stock);
void qr_events_give_back(struct qr_events *events, struct qr_event_node *node); /* NULL is fine */
void qr_events_publish(struct qr_events *events, struct qr_event_chain *chain); /* empties the chain */
/* The contract of qr_engine_next. */
enum qr_status qr_events_next(struct qr_events *events, struct qr_event *event, int timeout_ms, bool *got,
                              struct qr_err *err);

/* An array of n logprobs with n_top each in one piece: every top points into it. NULL: out of memory. */
struct qr_token_logprob *qr_logprobs_alloc(size_t n, int n_top);
#endif
