/* http.h - an HTTP/1.1 server on libevent's bufferevents and http-parser: connections, limits and deadlines; it knows no
 * route. One loop, one thread: every function here is called on the thread that runs the event base.
 *
 * Why not evhttp (2.1.12)? Asked with raw sockets it took two different Content-Length fields, "+3" as a length and
 * "gzip, chunked" as a coding, let a sender of one byte a second go on for ever, and turned in a busy loop without
 * file descriptors. Here each of these is refused and the connection closed, RFC 9112 section 6.3. */
#ifndef QR_SERVER_HTTP_H
#define QR_SERVER_HTTP_H
#include <event2/event.h>
#include "base/err.h"

struct qr_http_limits {
    size_t max_head;   /* bytes of a request's first line and fields */
    size_t max_body;   /* bytes */
    size_t max_unsent; /* bytes of a stream that wait for a reader; more: it is cut */
    int max_field;     /* header fields of a request */
    int max_conn;
    int head_ms;  /* from a request's first byte to its last field */
    int body_ms;  /* from there to its last byte */
    int idle_ms;  /* between two requests of a connection */
    int stall_ms; /* a reader that takes nothing for so long is cut */
};
void qr_http_limits_default(struct qr_http_limits *limits);

struct qr_http_request {
    struct qr_http_conn *conn;
    const char *method; /* "POST" */
    const char *path;   /* "/v1/models", without the query */
    char *body;         /* [n_body], NUL behind; the handler may take it by setting it to NULL */
    size_t n_body;
    const char *peer; /* the client's address: "127.0.0.1" */
    void *user;       /* the handler's own */
};
/* The value of a field, without regard to case; NULL: absent. Where a name stands twice: the first. */
const char *qr_http_field(const struct qr_http_request *request, const char *name);

struct qr_http_handler {
    void *ctx;
    /* The head of a request with a body has come. False: it was answered, the body is not wanted. */
    bool (*head)(void *ctx, struct qr_http_request *request);
    /* All of it has come. It is answered now or later. */
    void (*whole)(void *ctx, struct qr_http_request *request);
    /* The client went away, or was cut, before its answer was complete: request is gone after this call. Called only
     * for requests that `whole` saw. */
    void (*gone)(void *ctx, struct qr_http_request *request);
    /* Bytes of bodies: more (n > 0; false: there is no room), or given back. */
    bool (*account)(void *ctx, int64_t n);
};

struct qr_http;
/* Listens on host ("127.0.0.1", "::", a name) and port (0: any). handler and limits are copied. */
enum qr_status qr_http_create(struct event_base *base, const char *host, int port, const struct qr_http_limits *limits,
                              const struct qr_http_handler *handler, struct qr_http **http, struct qr_err *err);
void qr_http_destroy(struct qr_http *http); /* closes every connection */
int qr_http_port(const struct qr_http *http);
int qr_http_n_conn(const struct qr_http *http);
bool qr_http_has_unsent(const struct qr_http *http); /* does a connection have bytes that its reader has not taken? */

/* An answer: begin, any number of sends, end. After end the request is gone.
 * fields: whole lines "Name: value\r\n", or "". length < 0: unknown, sent in chunks. */
void qr_http_begin(struct qr_http_request *request, int status, const char *type, const char *fields, int64_t length);
/* False: the reader was too slow; it was cut, `gone` was called. */
bool qr_http_send(struct qr_http_request *request, const char *data, size_t n);
void qr_http_end(struct qr_http_request *request);
void qr_http_abort(struct qr_http_request *request); /* cuts the connection; `gone` is called */
/* The three at once. */
void qr_http_answer(struct qr_http_request *request, int status, const char *type, const char *fields, const char *data,
                    size_t n);
/* {"error": ...} with a message that needs no escapes; the connection is closed after it. */
void qr_http_refuse(struct qr_http_request *request, int status, const char *message);
#endif
