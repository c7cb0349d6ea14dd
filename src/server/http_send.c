/* http_send.c - answers: status line, fields, a body of known length or in chunks. */
#include <event2/buffer.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "server/http_parts.h"

static const char *reason(int status)
{
    static const struct {
        int status;
        const char *text;
    } known[] = {
        {200, "OK"},
        {204, "No Content"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {421, "Misdirected Request"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].status == status)
            return known[i].text;
    return "Error";
}

/* The lines of an answer's head into out. */
static void write_head(struct qr_http_conn *c, int status, const char *type, const char *fields, int64_t length,
                       struct qr_buf *out)
{
    char date[40];
    time_t now = time(NULL);
    struct tm parts;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &parts));
    qr_buf_printf(out, QR_HTTP_VERSION "%d %s\r\nDate: %s\r\nServer: quire\r\n", status, reason(status), date);
    if (type)
        qr_buf_printf(out, "Content-Type: %s\r\n", type);
    if (length >= 0 && status != 204)
        qr_buf_printf(out, "Content-Length: %lld\r\n", (long long)length);
    else if (c->chunked)
        qr_buf_puts(out, "Transfer-Encoding: chunked\r\n");
    if (!c->keep_alive)
        qr_buf_puts(out, "Connection: close\r\n");
    else if (c->http_1_0)
        qr_buf_puts(out, "Connection: keep-alive\r\n");
    qr_buf_puts(out, fields);
    qr_buf_puts(out, "\r\n");
}

/* Puts bytes behind what is unsent and has them written. libevent would do so by itself; but where bufferevent_socket_new (2.1)
 * had no memory for its callback on the output, or that one none for its event, it says nothing, and the answer would lie
 * there until the connection times out. */
static bool add(struct qr_http_conn *c, const void *data, size_t n)
{
    struct evbuffer *out = bufferevent_get_output(c->bev);
    bool was_empty = evbuffer_get_length(out) == 0;
    return evbuffer_add(out, data, n) == 0 && (!was_empty || bufferevent_enable(c->bev, EV_WRITE) == 0);
}

void qr_http_begin(struct qr_http_request *request, int status, const char *type, const char *fields, int64_t length)
{
    struct qr_http_conn *c = request->conn;
    struct qr_buf head;
    if (c->dead || c->broken)
        return;
    if (c->phase != QR_HTTP_ANSWER)
        c->keep_alive = false; /* the rest of the request is unknown */
    if (length < 0 && c->http_1_0)
        c->keep_alive = false; /* its end is the connection's */
    c->begun = true;
    c->chunked = length < 0 && !c->http_1_0;
    qr_buf_init(&head, 0);
    write_head(c, status, type, fields, length, &head);
    if (head.failed || !add(c, head.data + c->n_early, head.len - c->n_early))
        c->broken = true; /* no memory: what follows must not be taken for an answer */
    qr_buf_free(&head);
}

bool qr_http_send(struct qr_http_request *request, const char *data, size_t n)
{
    struct qr_http_conn *c = request->conn;
    if (c->dead)
        return false;
    if (c->broken) {
        qr_http_conn_close(c);
        return false;
    }
    if (n == 0 || c->is_head)
        return true;
    /* What waited before counts, not this piece: one alone may be longer than the cap (log-probabilities of a prompt). */
    bool late = c->chunked && evbuffer_get_length(bufferevent_get_output(c->bev)) > c->http->limits.max_unsent;
    char size[24];
    c->n_zero = 0;
    bool ok = !late && (!c->chunked || add(c, size, (size_t)snprintf(size, sizeof size, "%zx\r\n", n)));
    ok = ok && add(c, data, n) && (!c->chunked || add(c, "\r\n", 2));
    /* Without memory the bytes sent would have a gap: better none; and who reads too slowly is cut. */
    if (!ok) {
        qr_http_conn_close(c);
        return false;
    }
    return true;
}

void qr_http_end(struct qr_http_request *request)
{
    struct qr_http_conn *c = request->conn;
    if (c->dead)
        return;
    if (c->chunked && !c->is_head && !add(c, "0\r\n\r\n", 5))
        c->broken = true;
    qr_http_conn_enter(c);
    if (c->broken) {
        c->phase = QR_HTTP_LAST; /* the handler is done with it */
        qr_http_conn_close(c);
    } else {
        qr_http_conn_answered(c);
    }
    qr_http_conn_leave(c);
}

void qr_http_abort(struct qr_http_request *request)
{
    qr_http_conn_close(request->conn);
}

void qr_http_answer(struct qr_http_request *request, int status, const char *type, const char *fields, const char *data,
                    size_t n)
{
    qr_http_begin(request, status, type, fields, (int64_t)n);
    if (qr_http_send(request, data, n))
        qr_http_end(request);
}

void qr_http_refuse(struct qr_http_request *request, int status, const char *message)
{
    struct qr_http_conn *c = request->conn;
    char body[512];
    const char *type = status == 429 ? "rate_limit_error" : status >= 500 ? "server_error" : "invalid_request_error";
    int n = snprintf(body, sizeof body,
                     "{\"error\": {\"message\": \"%s\", \"type\": \"%s\", \"param\": null, \"code\": %d}}", message,
                     type, status);
    c->keep_alive = false;
    qr_http_answer(request, status, "application/json", status == 429 || status == 503 ? "Retry-After: 1\r\n" : "",
                   body, (size_t)n);
}
