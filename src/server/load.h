/* load.h - an HTTP client that puts a load of streamed requests on an OpenAI server, any one: one thread, an event loop,
 * a connection for each request. It measures what a client sees. */
#ifndef QR_SERVER_LOAD_H
#define QR_SERVER_LOAD_H
#include "base/buf.h"
#include "base/err.h"

struct qr_load_result {       /* of one request; seconds, monotonic */
    int status;               /* HTTP; 0: no answer */
    bool whole;               /* [DONE] came, and no error event */
    double start, first, end; /* sent; first token's text; last byte */
    double widest_gap;        /* between two pieces of text */
    int64_t n_piece;          /* pieces of text: tokens, where the server sends each in a chunk of its own */
    int64_t prompt_tokens, output_tokens; /* of the usage; -1: the server told none */
    char error[160];                      /* the server's words, or what happened to the connection; "" */
};

struct qr_load_options {
    const char *host;
    int port;
    const char *path;    /* "/v1/completions" */
    const char *api_key; /* NULL: none */
    size_t n_request;
    int concurrency; /* requests at once at most */
    double rate;     /* requests a second, at random intervals (a Poisson process); 0: as soon as there is room */
    uint64_t seed;
    double timeout_s; /* of a request */
    /* The body of request i, appended to out; "stream" must be true in it. False: out of memory. */
    bool (*body)(void *ctx, size_t i, struct qr_buf *out);
    /* A piece of text came, choice by choice; NULL: nobody cares. */
    void (*text)(void *ctx, size_t i, const char *text, size_t n);
    /* Called now and then with the number of requests that ended; false ends the run. */
    bool (*progress)(void *ctx, size_t n_done);
    void *ctx;
};

struct qr_load_gaps { /* all gaps between pieces of text, seconds */
    float *gap;       /* [n] malloc'ed */
    size_t n, room;
};

/* Fills result [n_request], and *gaps unless it is NULL. Errors of single requests stand in their results. */
enum qr_status qr_load_run(const struct qr_load_options *options, struct qr_load_result *result,
                           struct qr_load_gaps *gaps, struct qr_err *err);
/* A connected socket in *fd, the caller's to close; -1 where there is none. */
enum qr_status qr_load_connect(const char *host, int port, int *fd, struct qr_err *err);
/* The first name of the server's /v1/models. */
enum qr_status qr_load_model_name(const char *host, int port, const char *api_key, char *name, size_t room,
                                  struct qr_err *err);
#endif
