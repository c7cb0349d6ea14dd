/* exchange.h - a request on its way through the threads. The loop makes it, a worker reads and submits it, the reader of
 * events answers it; what they have to say goes through its mutex into `out`, and from there the loop takes it.
 *
 * It is counted: the loop, a worker and the table of live generations each hold a reference. */
#ifndef QR_SERVER_EXCHANGE_H
#define QR_SERVER_EXCHANGE_H
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include "base/buf.h"
#include "server/http.h"
#include "server/openai_error.h"

enum qr_route {
    QR_ROUTE_NONE,
    QR_ROUTE_PAGE,
    QR_ROUTE_HEALTH,
    QR_ROUTE_READY,
    QR_ROUTE_METRICS,
    QR_ROUTE_VERSION,
    QR_ROUTE_MODELS,
    QR_ROUTE_TOKENIZER_INFO,
    QR_ROUTE_COMPLETIONS, /* from here on: POST with a JSON body, for the workers */
    QR_ROUTE_CHAT,
    QR_ROUTE_TOKENIZE,
    QR_ROUTE_DETOKENIZE,
};

struct qr_outbox;

struct qr_exchange {
    atomic_int refs;
    struct qr_outbox *outbox;
    /* Set by the loop, then only read. */
    enum qr_route route;
    uint64_t number;    /* of the request, random */
    uint64_t client;    /* a hash of its key or address, for fairness */
    int64_t arrived_ns; /* qr_now_ns */
    char peer[48];
    char *body; /* [n_body] the worker frees it */
    size_t n_body;
    int64_t accounted; /* of the budget over all bodies */
    char fields[256];  /* header lines of every answer */

    struct qr_http_request *http; /* the loop's; NULL: the client is gone */

    pthread_mutex_t mutex; /* guards what follows */
    bool gone, queued, begun, begun_sent, ended, stream, dropped;
    int status;
    const char *type;
    struct qr_buf extra; /* header lines of this answer */
    struct qr_buf out;   /* bytes of the body that the loop has not taken */
    uint64_t *engine_id; /* [n_engine_id] requests of the engine that end when the client goes */
    size_t n_engine_id;
    struct qr_exchange *next; /* in the outbox */
    /* For the log; written before `ended`. */
    int64_t prompt_tokens, output_tokens;
    int64_t first_ns; /* first token; 0: none */
    const char *finish;
};

/* What waits for the loop. */
struct qr_outbox {
    pthread_mutex_t mutex;
    struct qr_exchange *first, *last;
    int wake_fd; /* eventfd; readable when something waits */
};
enum qr_status qr_outbox_init(struct qr_outbox *outbox, struct qr_err *err);
void qr_outbox_free(struct qr_outbox *outbox);
struct qr_exchange *qr_outbox_take(struct qr_outbox *outbox); /* the loop: all of them, linked by next */

struct qr_exchange *qr_exchange_create(struct qr_outbox *outbox); /* NULL: out of memory */
void qr_exchange_hold(struct qr_exchange *exchange);
void qr_exchange_drop(struct qr_exchange *exchange);

/* Any thread. An answer: begin, any number of writes, end. Nothing happens any more once the client is gone. */
void qr_exchange_begin(struct qr_exchange *exchange, int status, const char *type, bool stream);
void qr_exchange_write(struct qr_exchange *exchange, const char *data, size_t n);
void qr_exchange_end(struct qr_exchange *exchange);
void qr_exchange_extra(struct qr_exchange *exchange, const char *name, const char *value); /* before begin */
/* A whole answer; takes json (NULL: out of memory). */
void qr_exchange_json(struct qr_exchange *exchange, int status, json_t *json);
void qr_exchange_error(struct qr_exchange *exchange, const struct qr_openai_error *error);
bool qr_exchange_gone(struct qr_exchange *exchange);
#endif
