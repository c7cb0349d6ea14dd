/* live.h - requests that the engine is working on, and the thread that brings its events to them. One mutex guards all. */
#ifndef QR_SERVER_LIVE_H
#define QR_SERVER_LIVE_H
#include "server/exchange.h"
#include "server/metrics.h"
#include "server/openai_stream.h"

#define QR_LIVE_BUCKET 1024

struct qr_generation;

struct qr_live_entry { /* one request of the engine: one prompt */
    uint64_t id;       /* 0: not in the table */
    int n_done;        /* choices that ended */
    struct qr_generation *generation;
    struct qr_live_entry *next; /* in its bucket */
};

struct qr_generation { /* one request of a client */
    struct qr_exchange *exchange;
    struct qr_openai_request request;
    struct qr_openai_answer answer; /* of a stream: how many choices ended, and the usage */
    struct qr_openai_stream stream;
    const char *model_name;
    int64_t created;
    struct qr_live_entry *entry; /* [request.n_prompt] */
    int64_t *last_ns;            /* [choices] when the last token came; 0: none yet */
    struct qr_generation *prev, *next;
};

struct qr_live {
    const struct qr_model *model;
    struct qr_engine *engine;
    struct qr_metrics *metrics;
    pthread_mutex_t mutex; /* guards what follows, and the generations */
    struct qr_live_entry *bucket[QR_LIVE_BUCKET];
    struct qr_generation *first;
    struct qr_buf scratch; /* the reader's */
    pthread_t reader;
    atomic_bool stopping, reading;
};

void qr_live_init(struct qr_live *live, struct qr_metrics *metrics);
enum qr_status qr_live_start(struct qr_live *live, const struct qr_model *model, struct qr_engine *engine,
                             struct qr_err *err);
void qr_live_stop(struct qr_live *live); /* ends the reader */
void qr_live_free(struct qr_live *live);

/* Submits every prompt of *request, which it takes over, and starts the answer; or fails, with *request freed. */
enum qr_status qr_live_submit(struct qr_live *live, struct qr_exchange *exchange, struct qr_openai_request *request,
                              const char *model_name, struct qr_openai_error *error);
/* The client of this exchange is gone. */
void qr_live_cancel(struct qr_live *live, struct qr_exchange *exchange);
/* Ends every generation with this error: streams get an error event and [DONE]. */
void qr_live_fail_all(struct qr_live *live, const struct qr_openai_error *error);
bool qr_live_is_empty(struct qr_live *live);
#endif
