/* hub_http.h - one HTTP request by libcurl, which is opened at run time: who fetches nothing needs no libcurl.
 * Redirects are followed here, so that a token never reaches another host than the one that it was made for. */
#ifndef QR_MODEL_HUB_HTTP_H
#define QR_MODEL_HUB_HTTP_H
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

struct qr_http;
/* QR_UNSUPPORTED, with what to install, where there is no libcurl. */
enum qr_status qr_http_open(struct qr_http **http, struct qr_err *err);
void qr_http_close(struct qr_http *http);

struct qr_http_reply {
    long code;       /* 0: no answer came */
    bool has_length; /* Content-Length */
    uint64_t length;
    bool has_range; /* Content-Range: bytes FIRST-.../TOTAL */
    uint64_t range_first, range_total;
    int retry_after;  /* seconds; -1: not said */
    char etag[136];   /* X-Linked-ETag, else ETag, without quotes and W/ */
    bool linked;      /* it was X-Linked-ETag */
    char commit[136]; /* X-Repo-Commit */
    bool has_linked_size;
    uint64_t linked_size; /* X-Linked-Size */
    char message[200];    /* X-Error-Message, or why no whole answer came */
};

struct qr_http_request {
    const char *url;
    const char *home;  /* the token's host is that of this URL */
    const char *token; /* NULL: none */
    bool head;
    uint64_t from; /* above 0: Range: bytes=FROM- */
    /* begin: before the first byte of a 2xx body; false ends the request. write: bytes of the body; false ends it.
     * tick: some times a second; false cancels. err is the request's. */
    bool (*begin)(void *ctx, const struct qr_http_reply *reply);
    bool (*write)(void *ctx, const char *data, size_t n);
    bool (*tick)(void *ctx);
    void *ctx;
};

/* QR_OK whenever a whole answer came, with any status code. QR_IO: the connection failed, or broke off; what came was
 * written. QR_CANCELLED: a callback said no. */
enum qr_status qr_http_do(struct qr_http *http, const struct qr_http_request *request, struct qr_http_reply *reply,
                          struct qr_err *err);
#endif
