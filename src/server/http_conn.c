/* http_conn.c - a connection's life: phases with a deadline each, bytes in, and the ways in which it ends. */
#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "server/http_parts.h"

enum {
    READ_CHUNK = 65536, /* bytes taken from a socket at a time */
    MAX_EARLY = 65536,  /* bytes of further requests that are kept while one is answered */
    LINGER_MS = 2000,
};

/* ---------------------------------------------------------------- its end */

static void free_conn(struct qr_http_conn *c)
{
    struct qr_http *h = c->http;
    *(c->prev ? &c->prev->next : &h->first) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    h->n_conn--;
    if (c->bev)
        bufferevent_free(c->bev);
    if (c->timer)
        event_free(c->timer);
    free(c->request.body);
    if (c->accounted)
        h->handler.account(h->handler.ctx, -c->accounted);
    qr_buf_free(&c->url);
    qr_buf_free(&c->head);
    free(c->field);
    free(c);
}

void qr_http_conn_close(struct qr_http_conn *c)
{
    if (c->dead)
        return;
    c->dead = true;
    if (c->phase == QR_HTTP_ANSWER) {
        c->depth++; /* the handler may look at it */
        c->http->handler.gone(c->http->handler.ctx, &c->request);
        c->depth--;
    }
    if (c->depth == 0)
        free_conn(c);
}

void qr_http_conn_enter(struct qr_http_conn *c)
{
    c->depth++;
}

void qr_http_conn_leave(struct qr_http_conn *c)
{
    if (--c->depth == 0 && c->dead)
        free_conn(c);
}

/* ---------------------------------------------------------------- phases */

static int deadline_ms(const struct qr_http_conn *c, enum qr_http_phase phase)
{
    const struct qr_http_limits *l = &c->http->limits;
    switch (phase) {
    case QR_HTTP_IDLE:
        return l->idle_ms;
    case QR_HTTP_HEAD:
        return l->head_ms;
    case QR_HTTP_BODY:
        return l->body_ms;
    case QR_HTTP_ANSWER:
        return 0; /* the engine takes what it takes; readers that stall are cut by the write timeout */
    case QR_HTTP_LAST:
    case QR_HTTP_REFUSED:
        return l->stall_ms;
    case QR_HTTP_LINGER:
        return LINGER_MS;
    }
    return 0;
}

void qr_http_conn_phase(struct qr_http_conn *c, enum qr_http_phase phase)
{
    int ms = deadline_ms(c, phase);
    c->phase = phase;
    c->unsent = evbuffer_get_length(bufferevent_get_output(c->bev));
    if (ms) {
        struct timeval wait = {.tv_sec = ms / 1000, .tv_usec = (ms % 1000) * 1000};
        if (event_add(c->timer, &wait) != 0) /* no memory: nobody would ever end it */
            qr_http_conn_close(c);
    } else {
        event_del(c->timer);
    }
}

/* Is there still something to send, and was enough of it taken? A large answer to a slow reader takes longer than any
 * deadline; who takes less than a 32nd of it in the meantime is not worth its memory. */
static bool is_read(const struct qr_http_conn *c)
{
    size_t unsent = evbuffer_get_length(bufferevent_get_output(c->bev));
    return (c->phase == QR_HTTP_LAST || c->phase == QR_HTTP_REFUSED || c->phase == QR_HTTP_IDLE) && unsent &&
           unsent < c->unsent - c->unsent / 32;
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
    struct qr_http_conn *c = arg;
    (void)fd;
    (void)what;
    qr_http_conn_enter(c);
    if (c->phase == QR_HTTP_ANSWER)
        qr_http_half_watch(c);
    else if (c->phase == QR_HTTP_HEAD || c->phase == QR_HTTP_BODY)
        qr_http_refuse(&c->request, 408, "the request took too long to arrive");
    else if (is_read(c))
        qr_http_conn_phase(c, c->phase);
    else
        qr_http_conn_close(c);
    qr_http_conn_leave(c);
}

/* The last bytes were handed to the system: close, or let a client that still sends read the answer first. */
static void all_sent(struct qr_http_conn *c)
{
    if (c->phase == QR_HTTP_LAST) {
        qr_http_conn_close(c);
    } else if (c->phase == QR_HTTP_REFUSED) {
        shutdown(bufferevent_getfd(c->bev), SHUT_WR);
        qr_http_conn_phase(c, QR_HTTP_LINGER);
    }
}

/* Nothing more is read: what is written goes out, then it is closed. */
static void finish(struct qr_http_conn *c)
{
    qr_http_conn_phase(c, QR_HTTP_LAST);
    if (!c->dead && evbuffer_get_length(bufferevent_get_output(c->bev)) == 0)
        all_sent(c);
}

void qr_http_conn_answered(struct qr_http_conn *c)
{
    bool whole = c->phase == QR_HTTP_ANSWER;
    if (whole && c->keep_alive) {
        qr_http_parse_reset(c);
        qr_http_conn_phase(c, QR_HTTP_IDLE);
        /* A request that came early: looked at from the loop, not from within the answer to the one before. */
        if (evbuffer_get_length(bufferevent_get_input(c->bev)))
            bufferevent_trigger(c->bev, EV_READ, BEV_TRIG_IGNORE_WATERMARKS | BEV_TRIG_DEFER_CALLBACKS);
        return;
    }
    qr_http_conn_phase(c, whole ? QR_HTTP_LAST : QR_HTTP_REFUSED);
    if (evbuffer_get_length(bufferevent_get_output(c->bev)) == 0)
        all_sent(c);
}

/* ---------------------------------------------------------------- bytes */

/* Of a client that sends nothing more: is it still there to be answered? */
static void watch(struct qr_http_conn *c)
{
    c->n_look = 0;
    qr_http_half_watch(c);
}

/* Is what the client sends at an end with this request? */
static bool is_last(const struct qr_http_conn *c)
{
    return c->half && evbuffer_get_length(bufferevent_get_input(c->bev)) == 0;
}

static void hand_over(struct qr_http_conn *c)
{
    c->keep_alive = c->keep_alive && !is_last(c);
    c->http->handler.whole(c->http->handler.ctx, &c->request);
    if (!c->request.body) /* the handler took it, and gives its bytes back */
        c->accounted = 0;
    if (!c->dead && c->half && c->phase == QR_HTTP_ANSWER)
        watch(c);
}

static void feed(struct qr_http_conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);
    struct evbuffer_iovec piece;
    while (!c->dead && (c->phase == QR_HTTP_HEAD || c->phase == QR_HTTP_BODY) &&
           evbuffer_peek(in, -1, NULL, &piece, 1) > 0 && piece.iov_len > 0) {
        size_t taken = qr_http_parse(c, piece.iov_base, piece.iov_len);
        evbuffer_drain(in, taken);
        if (!c->dead && c->refuse_status)
            qr_http_refuse(&c->request, c->refuse_status, c->refuse_message);
        else if (!c->dead && c->phase == QR_HTTP_ANSWER)
            hand_over(c);
    }
}

static void on_input(struct qr_http_conn *c)
{
    struct evbuffer *in = bufferevent_get_input(c->bev);
    if (c->phase == QR_HTTP_IDLE && evbuffer_get_length(in))
        qr_http_conn_phase(c, QR_HTTP_HEAD);
    feed(c);
    if (c->dead)
        return;
    if (c->half && (c->phase == QR_HTTP_HEAD || c->phase == QR_HTTP_BODY))
        finish(c);
    else if (c->phase == QR_HTTP_ANSWER && evbuffer_get_length(in) > MAX_EARLY)
        qr_http_conn_close(c);
    else if (c->phase == QR_HTTP_LAST || c->phase == QR_HTTP_REFUSED || c->phase == QR_HTTP_LINGER)
        evbuffer_drain(in, evbuffer_get_length(in));
}

static void on_read(struct bufferevent *bev, void *arg)
{
    struct qr_http_conn *c = arg;
    (void)bev;
    qr_http_conn_enter(c);
    if (!c->dead)
        on_input(c);
    qr_http_conn_leave(c);
}

static void on_written(struct bufferevent *bev, void *arg)
{
    struct qr_http_conn *c = arg;
    (void)bev;
    qr_http_conn_enter(c);
    if (!c->dead)
        all_sent(c);
    qr_http_conn_leave(c);
}

/* The client sends nothing more. What it asked for it gets; what has not come as a whole it does not want. */
static void on_half(struct qr_http_conn *c)
{
    c->half = true;
    if (c->phase == QR_HTTP_ANSWER) {
        c->keep_alive = c->keep_alive && !is_last(c);
        watch(c);
    } else if (c->phase != QR_HTTP_LAST && (c->phase != QR_HTTP_IDLE || is_last(c))) {
        finish(c); /* else it is sent already, or the next request lies there */
    }
}

/* The client closed, an error, or a reader that takes nothing. */
static void on_end(struct bufferevent *bev, short what, void *arg)
{
    struct qr_http_conn *c = arg;
    (void)bev;
    qr_http_conn_enter(c);
    if (!c->dead && (what & BEV_EVENT_EOF) && (what & BEV_EVENT_READING))
        on_half(c);
    else
        qr_http_conn_close(c); /* nothing, where it is dead */
    qr_http_conn_leave(c);
}

void qr_http_conn_open(struct qr_http *h, int fd, const char *peer)
{
    struct qr_http_conn *c = calloc(1, sizeof *c);
    if (!c) {
        close(fd);
        return;
    }
    c->http = h;
    c->next = h->first;
    if (c->next)
        c->next->prev = c;
    h->first = c;
    h->n_conn++;
    memcpy(c->peer, peer, strnlen(peer, sizeof c->peer - 1));
    qr_buf_init(&c->url, h->limits.max_head + 1);
    qr_buf_init(&c->head, 0);
    c->field = malloc((size_t)h->limits.max_field * sizeof *c->field);
    c->timer = evtimer_new(h->base, on_deadline, c);
    c->bev = bufferevent_socket_new(h->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (!c->bev)
        close(fd);
    if (!c->field || !c->timer || !c->bev) {
        free_conn(c);
        return;
    }
    struct timeval stall = {.tv_sec = h->limits.stall_ms / 1000, .tv_usec = (h->limits.stall_ms % 1000) * 1000};
    bufferevent_setcb(c->bev, on_read, on_written, on_end, c);
    bufferevent_set_timeouts(c->bev, NULL, &stall);
    bufferevent_set_max_single_read(c->bev, READ_CHUNK);
    qr_http_conn_enter(c);
    qr_http_parse_reset(c);
    qr_http_conn_phase(c, QR_HTTP_HEAD); /* who connects is to say something within the deadline of a head */
    c->phase = QR_HTTP_IDLE;
    if (bufferevent_enable(c->bev, EV_READ | EV_WRITE) != 0)
        qr_http_conn_close(c);
    qr_http_conn_leave(c);
}
