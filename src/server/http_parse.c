/* http_parse.c - http-parser's callbacks: the request's line, fields and body within their limits, and what is refused
 * although the parser would take it. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/checked.h"
#include "server/http_parts.h"

#define FIRST_BODY 65536 /* bytes allocated for a body of unknown length */

/* What a body took is there for others from now on. */
static void drop_body(struct qr_http_conn *c)
{
    free(c->request.body);
    c->request.body = NULL;
    c->request.n_body = c->body_room = 0;
    if (c->accounted)
        c->http->handler.account(c->http->handler.ctx, -c->accounted);
    c->accounted = 0;
}

static int refuse(struct qr_http_conn *c, int status, const char *message)
{
    if (!c->refuse_status) {
        c->refuse_status = status;
        c->refuse_message = message;
        drop_body(c);
    }
    return -1;
}

static int on_url(http_parser *parser, const char *at, size_t n)
{
    struct qr_http_conn *c = parser->data;
    return qr_buf_append(&c->url, at, n) ? 0 : refuse(c, 503, "out of memory for the request's path");
}

static int on_field(http_parser *parser, const char *at, size_t n)
{
    struct qr_http_conn *c = parser->data;
    if (c->phase != QR_HTTP_HEAD)
        return 0; /* a trailer: nobody asks for it */
    if (c->in_value || !c->n_field) {
        if (c->n_field == c->http->limits.max_field)
            return refuse(c, 431, "the request has too many header fields: send fewer");
        if (c->n_field)
            qr_buf_putc(&c->head, 0);
        c->field[c->n_field++] = (struct qr_http_span){.name = c->head.len};
        c->in_value = false;
    }
    return qr_buf_append(&c->head, at, n) ? 0 : refuse(c, 503, "out of memory for the request's header fields");
}

static int on_value(http_parser *parser, const char *at, size_t n)
{
    struct qr_http_conn *c = parser->data;
    if (c->phase != QR_HTTP_HEAD)
        return 0;
    if (!c->in_value) {
        qr_buf_putc(&c->head, 0);
        c->field[c->n_field - 1].value = c->head.len;
        c->in_value = true;
    }
    return qr_buf_append(&c->head, at, n) ? 0 : refuse(c, 503, "out of memory for the request's header fields");
}

const char *qr_http_field(const struct qr_http_request *request, const char *name)
{
    const struct qr_http_conn *c = request->conn;
    for (int i = 0; i < c->n_field; i++)
        if (strcasecmp(c->head.data + c->field[i].name, name) == 0)
            return c->head.data + c->field[i].value;
    return NULL;
}

static int count(const struct qr_http_conn *c, const char *name)
{
    int n = 0;
    for (int i = 0; i < c->n_field; i++)
        n += strcasecmp(c->head.data + c->field[i].name, name) == 0;
    return n;
}

/* RFC 9110, 5.6.2. The parser takes blanks in names, behind which another reader may find another field. */
static bool is_token(const char *name)
{
    static const char allowed[] = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    return *name && name[strspn(name, allowed)] == 0;
}

static int check_names(struct qr_http_conn *c)
{
    for (int i = 0; i < c->n_field; i++)
        if (!is_token(c->head.data + c->field[i].name))
            return refuse(c, 400, "the name of a header field is malformed");
    return 0;
}

/* RFC 9112, 6.3: a message that two readers could cut in different places is refused. */
static int check_framing(struct qr_http_conn *c)
{
    const char *length = qr_http_field(&c->request, "Content-Length");
    const char *coding = qr_http_field(&c->request, "Transfer-Encoding");
    if (count(c, "Content-Length") > 1)
        return refuse(c, 400, "Content-Length is given more than once");
    if (length && (!*length || strspn(length, "0123456789") != strlen(length)))
        return refuse(c, 400, "Content-Length must be a whole number");
    if (length && coding)
        return refuse(c, 400, "Content-Length and Transfer-Encoding are both given");
    if (coding && (count(c, "Transfer-Encoding") > 1 || strcasecmp(coding, "chunked") != 0))
        return refuse(c, 501, "only the transfer coding chunked is known here");
    if (coding && c->http_1_0)
        return refuse(c, 400, "HTTP/1.0 has no Transfer-Encoding");
    if (qr_http_field(&c->request, "Content-Encoding") &&
        strcasecmp(qr_http_field(&c->request, "Content-Encoding"), "identity") != 0)
        return refuse(c, 415, "a compressed body is not taken: send it as it is");
    if (length && c->parser.content_length > c->http->limits.max_body)
        return refuse(c, 413, "the request's body is too long");
    return 0;
}

/* The path without query; of an absolute URL the part behind its authority (RFC 9112, 3.2.2). */
static int check_target(struct qr_http_conn *c)
{
    char *url = c->url.data;
    if (!url || memchr(url, 0, c->url.len))
        return refuse(c, 400, "the request's path is malformed");
    if (strncasecmp(url, "http://", 7) == 0) {
        char *slash = strchr(url + 7, '/');
        url = slash ? slash : url + strlen(url);
    }
    url[strcspn(url, "?#")] = 0;
    c->request.path = *url ? url : "/";
    return 0;
}

static int on_head_done(http_parser *parser)
{
    struct qr_http_conn *c = parser->data;
    c->http_1_0 = parser->http_major < 1 || (parser->http_major == 1 && parser->http_minor == 0);
    c->is_head = parser->method == HTTP_HEAD;
    c->keep_alive = http_should_keep_alive(parser);
    parser->upgrade = 0; /* an offer that is not taken up */
    c->request.method = http_method_str((enum http_method)parser->method);
    if (c->head.failed || c->url.failed)
        return refuse(c, 503, "out of memory for the request");
    if (check_target(c) != 0 || check_names(c) != 0 || check_framing(c) != 0)
        return -1;
    if (parser->http_major != 1)
        return refuse(c, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    if (parser->method == HTTP_CONNECT)
        return refuse(c, 405, "CONNECT is not served");
    if (count(c, "Host") > 1 || (!c->http_1_0 && !count(c, "Host")))
        return refuse(c, 400, "the request must have one Host field");
    qr_http_conn_phase(c, QR_HTTP_BODY);
    bool has_body = (parser->flags & F_CHUNKED) || (parser->content_length > 0 && parser->content_length != UINT64_MAX);
    if (!has_body)
        return 0;
    if (!c->http->handler.head(c->http->handler.ctx, &c->request))
        return -1; /* answered */
    const char *expect = qr_http_field(&c->request, "Expect");
    if (expect && strcasecmp(expect, "100-continue") == 0 && !c->http_1_0)
        bufferevent_write(c->bev, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    return 0;
}

static bool grow_body(struct qr_http_conn *c, size_t need)
{
    uint64_t room = c->body_room ? c->body_room : FIRST_BODY;
    if (!(c->parser.flags & F_CHUNKED)) /* its length is known; memory is given when it is written */
        room = c->request.n_body + need + c->parser.content_length;
    while (room < c->request.n_body + need)
        room *= 2;
    if (room <= c->body_room)
        return true;
    char *body = realloc(c->request.body, room + 1);
    if (!body)
        return false;
    c->request.body = body;
    c->body_room = room;
    return true;
}

static int on_body(http_parser *parser, const char *at, size_t n)
{
    struct qr_http_conn *c = parser->data;
    struct qr_http *h = c->http;
    if (n > h->limits.max_body - c->request.n_body)
        return refuse(c, 413, "the request's body is too long");
    if (!h->handler.account(h->handler.ctx, (int64_t)n))
        return refuse(c, 429, "the server holds as many bytes of requests as it may: try again later");
    c->accounted += (int64_t)n;
    if (c->request.n_body + n > c->body_room && !grow_body(c, n))
        return refuse(c, 503, "out of memory for the request's body");
    memcpy(c->request.body + c->request.n_body, at, n);
    c->request.n_body += n;
    c->request.body[c->request.n_body] = 0;
    return 0;
}

static int on_whole(http_parser *parser)
{
    struct qr_http_conn *c = parser->data;
    qr_http_conn_phase(c, QR_HTTP_ANSWER);
    http_parser_pause(parser, 1); /* what follows is the next request */
    return 0;
}

void qr_http_parse_settings(http_parser_settings *settings)
{
    http_parser_settings_init(settings);
    settings->on_url = on_url;
    settings->on_header_field = on_field;
    settings->on_header_value = on_value;
    settings->on_headers_complete = on_head_done;
    settings->on_body = on_body;
    settings->on_message_complete = on_whole;
}

void qr_http_parse_reset(struct qr_http_conn *c)
{
    http_parser_init(&c->parser, HTTP_REQUEST);
    c->parser.data = c;
    drop_body(c);
    qr_buf_clear(&c->url);
    qr_buf_clear(&c->head);
    c->n_field = c->refuse_status = 0;
    c->n_head = 0;
    c->in_value = c->broken = c->begun = c->chunked = c->http_1_0 = c->is_head = false;
    c->keep_alive = false;
    c->n_early = c->n_zero = 0;
    c->request = (struct qr_http_request){.conn = c, .peer = c->peer, .method = "", .path = ""};
}

/* The parser's own complaint, for a request that none of the callbacks refused. */
static void blame_parser(struct qr_http_conn *c)
{
    switch (HTTP_PARSER_ERRNO(&c->parser)) {
    case HPE_HEADER_OVERFLOW:
        refuse(c, 431, "the request's header fields are too long");
        break;
    case HPE_INVALID_VERSION:
        refuse(c, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
        break;
    case HPE_INVALID_METHOD:
        refuse(c, 501, "the request's method is unknown");
        break;
    case HPE_UNEXPECTED_CONTENT_LENGTH:
        refuse(c, 400, "Content-Length is given more than once, or along with Transfer-Encoding");
        break;
    case HPE_INVALID_TRANSFER_ENCODING:
        refuse(c, 501, "only the transfer coding chunked is known here");
        break;
    default:
        refuse(c, 400, "the request is not well-formed HTTP/1.1");
    }
}

size_t qr_http_parse(struct qr_http_conn *c, const char *data, size_t n)
{
    size_t max_head = c->http->limits.max_head;
    if (c->phase == QR_HTTP_HEAD && n > max_head - c->n_head + 1)
        n = max_head - c->n_head + 1;
    bool in_head = c->phase == QR_HTTP_HEAD;
    size_t taken = http_parser_execute(&c->parser, &c->http->settings, data, n);
    enum http_errno error = HTTP_PARSER_ERRNO(&c->parser);
    if (error != HPE_OK && error != HPE_PAUSED && c->phase != QR_HTTP_REFUSED && c->phase != QR_HTTP_LAST)
        blame_parser(c);
    if (in_head && c->phase == QR_HTTP_HEAD) {
        c->n_head += taken;
        if (c->n_head > max_head)
            refuse(c, 431, "the request's line and header fields are too long: at most 64 KB are taken");
    }
    return taken;
}
