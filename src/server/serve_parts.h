/* serve_parts.h - what the files of the server share. */
#ifndef QR_SERVER_SERVE_PARTS_H
#define QR_SERVER_SERVE_PARTS_H
#include "server/live.h"
#include "server/serve.h"
#include "server/workers.h"

enum qr_serve_state { QR_SERVE_LOADING, QR_SERVE_READY, QR_SERVE_DRAINING, QR_SERVE_FAILED };

struct qr_server {
    struct qr_serve_options options;
    struct event_base *base;
    struct qr_http *http;
    struct event *wake, *tick, *control;
    int control_fd; /* eventfd: drain */
    struct qr_outbox outbox;
    pthread_t loop;
    atomic_int state;     /* enum qr_serve_state */
    atomic_bool attached; /* from then on what follows is set */
    struct qr_model *model;
    struct qr_engine *engine;
    size_t max_token_bytes; /* of the longest token: text longer than all the context's tokens is not tokenized */
    struct qr_workers *workers;
    struct qr_live live;
    struct qr_metrics metrics;
    _Atomic int64_t body_bytes; /* of requests that were not read yet */
    int64_t started_unix;
    /* The loop's own. */
    int n_open; /* exchanges */
    int64_t drain_until, last_progress_ns, failed_ns;
    uint64_t progress;
    enum qr_serve_end end;
};

/* routes.c: what the loop does with a request. */
bool qr_serve_head(void *server, struct qr_http_request *request);
void qr_serve_whole(void *server, struct qr_http_request *request);
void qr_serve_gone(void *server, struct qr_http_request *request);
bool qr_serve_account(void *server, int64_t n);
/* replies.c: what other threads said, to the connections. */
void qr_serve_replies(struct qr_server *server);
/* tasks.c: what a worker does with a request. */
void qr_serve_task(void *server, struct qr_exchange *exchange);
bool qr_serve_knows_model(const struct qr_server *server, const char *name);
#endif
