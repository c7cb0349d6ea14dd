/* serve.h - the OpenAI-compatible server. It listens at once and says "loading" until it is given a model and an engine.
 *
 * Threads: the loop moves bytes; workers read requests (JSON, template, tokens) and submit them; a reader brings the
 * engine's events back. None of them waits for a client. */
#ifndef QR_SERVER_SERVE_H
#define QR_SERVER_SERVE_H
#include "server/http.h"
#include "server/parts.h"

struct qr_serve_options {       /* strings and arrays must outlive the server */
    const char *host;           /* "127.0.0.1" */
    int port;                   /* 0: any */
    const char *const *api_key; /* [n_api_key] none: everybody may ask */
    size_t n_api_key;
    const char *const *model_name; /* [n_model_name] that requests may give; answers carry the first */
    size_t n_model_name;
    const char *const *allowed_host; /* [n_allowed_host] further names of this server; "*": any */
    size_t n_allowed_host;
    const char *const *allowed_origin; /* [n_allowed_origin] of pages that may ask (CORS); "*": any */
    size_t n_allowed_origin;
    struct qr_http_limits limits;
    int64_t max_body_bytes;    /* of all requests together that were not read yet */
    int n_worker, max_waiting; /* threads that read requests; requests that wait for them */
    int drain_ms;              /* the longest that running requests may take after qr_server_drain */
    int heartbeat_ms;          /* an engine that makes no progress for so long is dead */
    bool has_tools;            /* tools says how the model writes calls; else its template does */
    enum qr_tool_format tools;
    bool no_thoughts; /* think tags stay in the text */
    bool has_seed;    /* for requests without a seed of their own */
    uint64_t seed;
    bool has_temperature, has_top_p; /* for requests that name none, in place of the model's own */
    float temperature, top_p;
    /* One JSON object per answered request, without newline; NULL: none. Called by the loop: must not wait. */
    void (*log)(void *ctx, const char *line, size_t n);
    void *log_ctx;
};
void qr_serve_options_default(struct qr_serve_options *options);

enum qr_serve_end {
    QR_SERVE_DRAINED,
    QR_SERVE_DEAD /* the engine hangs: it cannot be destroyed, the process is to end */
};

struct qr_server;
enum qr_status qr_server_create(const struct qr_serve_options *options, struct qr_server **server, struct qr_err *err);
int qr_server_port(const struct qr_server *server);
/* From now on requests are answered. model and engine must outlive the server. */
enum qr_status qr_server_attach(struct qr_server *server, struct qr_model *model, struct qr_engine *engine,
                                struct qr_err *err);
/* No new requests; ends when the running ones have. May be called from a signal handler, and more than once. */
void qr_server_drain(struct qr_server *server);
enum qr_serve_end qr_server_wait(struct qr_server *server); /* until it ended */
void qr_server_stop(struct qr_server *server);    /* after wait: ends all its threads, closes every connection */
void qr_server_destroy(struct qr_server *server); /* after stop and after the engine was destroyed */
#endif
