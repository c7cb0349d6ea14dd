/* load.c - see load.h. */
#include "server/load.h"
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <http_parser.h>
#include <jansson.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "base/rand.h"

enum { PROGRESS_MS = 100, MAX_LINE = 16 << 20 };

struct load;

struct load_conn { /* one request */
    struct load *load;
    struct load_conn *prev, *next;
    size_t i;
    struct bufferevent *bev;
    struct event *end; /* makes it end from the loop */
    http_parser parser;
    struct qr_buf line; /* of server-sent events, not whole yet; of an error: the body */
    double last;        /* piece of text */
    bool failed;
};

struct load {
    const struct qr_load_options *options;
    struct qr_load_result *result;
    struct qr_load_gaps *gaps;
    struct load_conn *first; /* those that are open */
    struct event_base *base;
    struct event *next, *progress;
    http_parser_settings settings;
    struct sockaddr_storage address;
    int n_address;
    size_t n_sent, n_done;
    int n_open;
    double due; /* when the next request is to be sent */
    bool broken, no_memory;
};

static void start_some(struct load *l);

/* ---------------------------------------------------------------- what comes */

static void note_gap(struct load *l, double gap)
{
    struct qr_load_gaps *g = l->gaps;
    if (!g)
        return;
    if (g->n == g->room) {
        size_t room = g->room ? g->room * 2 : 4096;
        float *more = realloc(g->gap, room * sizeof *more);
        if (!more) {
            l->no_memory = true;
            return;
        }
        g->gap = more;
        g->room = room;
    }
    g->gap[g->n++] = (float)gap;
}

static void take_text(struct load_conn *c, const char *text, size_t n)
{
    struct qr_load_result *r = &c->load->result[c->i];
    double now = qr_now_s();
    if (n == 0)
        return;
    if (r->n_piece++ == 0) {
        r->first = now;
    } else {
        double gap = now - c->last;
        note_gap(c->load, gap);
        if (gap > r->widest_gap)
            r->widest_gap = gap;
    }
    c->last = now;
    if (c->load->options->text)
        c->load->options->text(c->load->options->ctx, c->i, text, n);
}

static void take_error(struct qr_load_result *r, const json_t *root)
{
    const json_t *error = json_object_get(root, "error");
    const char *message = json_string_value(json_is_object(error) ? json_object_get(error, "message") : error);
    if (error && !*r->error)
        snprintf(r->error, sizeof r->error, "%s", message ? message : "an error without words");
}

static void take_chunk(struct load_conn *c, const char *data, size_t n)
{
    struct qr_load_result *r = &c->load->result[c->i];
    size_t k;
    const json_t *choice;
    if (n == 6 && memcmp(data, "[DONE]", 6) == 0) {
        r->whole = !*r->error;
        return;
    }
    json_t *root = json_loadb(data, n, JSON_ALLOW_NUL, NULL); /* models write any character */
    if (!root)
        snprintf(r->error, sizeof r->error, "an event is no JSON: %.*s", (int)(n < 80 ? n : 80), data);
    take_error(r, root);
    const json_t *usage = json_object_get(root, "usage");
    if (json_is_object(usage)) {
        r->prompt_tokens = json_integer_value(json_object_get(usage, "prompt_tokens"));
        r->output_tokens = json_integer_value(json_object_get(usage, "completion_tokens"));
    }
    json_array_foreach(json_object_get(root, "choices"), k, choice)
    {
        const json_t *delta = json_object_get(choice, "delta");
        const json_t *text = json_object_get(delta ? delta : choice, delta ? "content" : "text");
        take_text(c, json_string_value(text), json_string_length(text));
    }
    json_decref(root);
}

/* Whole lines of the events; a line's end may be in the next piece. */
static void take_lines(struct load_conn *c)
{
    char *at = c->line.data, *end = at + c->line.len, *stop;
    while (at < end && (stop = memchr(at, '\n', (size_t)(end - at)))) {
        size_t n = (size_t)(stop - at);
        if (n && at[n - 1] == '\r')
            n--;
        if (n > 5 && memcmp(at, "data:", 5) == 0) {
            size_t skip = at[5] == ' ' ? 6 : 5;
            take_chunk(c, at + skip, n - skip);
        }
        at = stop + 1;
    }
    c->line.len = (size_t)(end - at);
    memmove(c->line.data, at, c->line.len);
}

static int on_body(http_parser *parser, const char *at, size_t n)
{
    struct load_conn *c = parser->data;
    if (!qr_buf_append(&c->line, at, n))
        return -1;
    if (parser->status_code == 200)
        take_lines(c);
    return 0;
}

static int on_whole(http_parser *parser)
{
    struct load_conn *c = parser->data;
    struct qr_load_result *r = &c->load->result[c->i];
    r->status = (int)parser->status_code;
    r->end = qr_now_s();
    if (r->status != 200) {
        json_t *root = c->line.len ? json_loadb(c->line.data, c->line.len, 0, NULL) : NULL;
        take_error(r, root);
        json_decref(root);
    } else if (!r->whole && !*r->error) {
        snprintf(r->error, sizeof r->error, "the stream ended without [DONE]");
    }
    event_active(c->end, EV_TIMEOUT, 0);
    return 0;
}

/* ---------------------------------------------------------------- a connection */

static void free_conn(struct load_conn *c)
{
    *(c->prev ? &c->prev->next : &c->load->first) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    if (c->bev)
        bufferevent_free(c->bev);
    if (c->end)
        event_free(c->end);
    qr_buf_free(&c->line);
    free(c);
}

static void on_end(evutil_socket_t fd, short what, void *arg)
{
    struct load_conn *c = arg;
    struct load *l = c->load;
    (void)fd;
    (void)what;
    free_conn(c);
    l->n_open--;
    l->n_done++;
    start_some(l);
}

static void fail_conn(struct load_conn *c, const char *why)
{
    struct qr_load_result *r = &c->load->result[c->i];
    if (c->failed || r->end > 0)
        return;
    c->failed = true;
    r->whole = false;
    r->end = qr_now_s();
    if (!*r->error)
        snprintf(r->error, sizeof r->error, "%s", why);
    event_active(c->end, EV_TIMEOUT, 0);
}

static void on_read(struct bufferevent *bev, void *arg)
{
    struct load_conn *c = arg;
    struct evbuffer *in = bufferevent_get_input(bev);
    struct evbuffer_iovec piece;
    while (!c->failed && evbuffer_peek(in, -1, NULL, &piece, 1) > 0 && piece.iov_len) {
        size_t n = http_parser_execute(&c->parser, &c->load->settings, piece.iov_base, piece.iov_len);
        if (HTTP_PARSER_ERRNO(&c->parser) != HPE_OK)
            fail_conn(c, "the answer is no HTTP");
        evbuffer_drain(in, n);
    }
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct load_conn *c = arg;
    (void)bev;
    if (what & BEV_EVENT_TIMEOUT)
        fail_conn(c, "the server took too long");
    else if (what & BEV_EVENT_EOF)
        http_parser_execute(&c->parser, &c->load->settings, NULL, 0); /* a body that ends with the connection */
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        fail_conn(c, what & BEV_EVENT_EOF ? "the server closed the connection" : strerror(errno));
}

static bool write_request(struct load_conn *c)
{
    const struct qr_load_options *o = c->load->options;
    struct qr_buf body;
    struct evbuffer *out = bufferevent_get_output(c->bev);
    qr_buf_init(&body, 0);
    bool ok = o->body(o->ctx, c->i, &body);
    evbuffer_add_printf(out,
                        "POST %s HTTP/1.1\r\nHost: %s:%d\r\nConnection: close\r\nContent-Type: application/json\r\n",
                        o->path, o->host, o->port);
    if (o->api_key)
        evbuffer_add_printf(out, "Authorization: Bearer %s\r\n", o->api_key);
    evbuffer_add_printf(out, "Content-Length: %zu\r\n\r\n", body.len);
    ok = ok && evbuffer_add(out, body.data, body.len) == 0;
    qr_buf_free(&body);
    return ok;
}

static bool open_conn(struct load *l, size_t i)
{
    struct load_conn *c = calloc(1, sizeof *c);
    struct timeval limit = {.tv_sec = (time_t)l->options->timeout_s};
    int one = 1;
    if (!c)
        return false;
    c->load = l;
    c->i = i;
    c->next = l->first;
    if (c->next)
        c->next->prev = c;
    l->first = c;
    qr_buf_init(&c->line, MAX_LINE);
    http_parser_init(&c->parser, HTTP_RESPONSE);
    c->parser.data = c;
    c->bev = bufferevent_socket_new(l->base, -1, BEV_OPT_CLOSE_ON_FREE);
    c->end = event_new(l->base, -1, 0, on_end, c);
    if (!c->bev || !c->end) {
        free_conn(c);
        return false;
    }
    l->result[i] = (struct qr_load_result){.start = qr_now_s(), .prompt_tokens = -1, .output_tokens = -1};
    l->n_open++;
    bufferevent_setcb(c->bev, on_read, NULL, on_event, c);
    bufferevent_set_timeouts(c->bev, &limit, &limit);
    if (!write_request(c) || bufferevent_socket_connect(c->bev, (struct sockaddr *)&l->address, l->n_address) != 0) {
        fail_conn(c, "the connection could not be made");
        return true;
    }
    setsockopt(bufferevent_getfd(c->bev), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    bufferevent_enable(c->bev, EV_READ | EV_WRITE);
    return true;
}

/* ---------------------------------------------------------------- the run */

static double wait_for_next(struct load *l)
{
    double u = (double)qr_rand_uniform(l->options->seed, 0, (uint32_t)l->n_sent);
    return -log(1 - u) / l->options->rate;
}

static void start_some(struct load *l)
{
    const struct qr_load_options *o = l->options;
    while (!l->broken && l->n_sent < o->n_request && l->n_open < o->concurrency) {
        double now = qr_now_s();
        if (o->rate > 0 && now < l->due) {
            double wait = l->due - now;
            struct timeval until = {.tv_sec = (time_t)wait, .tv_usec = (suseconds_t)((wait - floor(wait)) * 1e6)};
            event_add(l->next, &until);
            return;
        }
        if (!open_conn(l, l->n_sent)) {
            l->no_memory = l->broken = true;
            break;
        }
        l->n_sent++;
        if (o->rate > 0)
            l->due += wait_for_next(l);
    }
    if (l->broken || (l->n_done == o->n_request))
        event_base_loopbreak(l->base);
}

static void on_next(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    start_some(arg);
}

static void on_progress(evutil_socket_t fd, short what, void *arg)
{
    struct load *l = arg;
    (void)fd;
    (void)what;
    if (l->options->progress && !l->options->progress(l->options->ctx, l->n_done)) {
        l->broken = true;
        event_base_loopbreak(l->base);
    }
}

/* Of a connection that is closed again: each request makes its own. */
static enum qr_status find_address(struct load *l, struct qr_err *err)
{
    socklen_t n = sizeof l->address;
    enum qr_status status = QR_OK;
    int fd;
    QR_TRY(qr_load_connect(l->options->host, l->options->port, &fd, err));
    if (getpeername(fd, (struct sockaddr *)&l->address, &n) != 0)
        status = qr_fail_errno(err, "cannot connect to %s port %d", l->options->host, l->options->port);
    l->n_address = (int)n;
    evutil_closesocket(fd);
    return status;
}

enum qr_status qr_load_run(const struct qr_load_options *options, struct qr_load_result *result,
                           struct qr_load_gaps *gaps, struct qr_err *err)
{
    struct load l = {.options = options, .result = result, .gaps = gaps};
    struct timeval often = {.tv_usec = PROGRESS_MS * 1000};
    http_parser_settings_init(&l.settings);
    l.settings.on_body = on_body;
    l.settings.on_message_complete = on_whole;
    memset(result, 0, options->n_request * sizeof *result);
    QR_TRY(find_address(&l, err));
    l.base = event_base_new();
    l.next = l.base ? evtimer_new(l.base, on_next, &l) : NULL;
    l.progress = l.base ? event_new(l.base, -1, EV_PERSIST, on_progress, &l) : NULL;
    enum qr_status status = QR_OK;
    if (l.next && l.progress && event_add(l.progress, &often) == 0) {
        l.due = qr_now_s();
        start_some(&l);
        if (!l.broken)
            event_base_dispatch(l.base);
    } else {
        l.no_memory = true;
    }
    if (l.no_memory)
        status = qr_fail(err, QR_NOMEM, "out of memory for the load");
    else if (l.broken)
        status = qr_fail(err, QR_CANCELLED, "the run was broken off");
    while (l.first)
        free_conn(l.first);
    if (l.next)
        event_free(l.next);
    if (l.progress)
        event_free(l.progress);
    if (l.base)
        event_base_free(l.base);
    return status;
}
