/* http_half.c - a client that closed its sending half: it waits for its answer, or it is gone. Both look alike (RFC 9293,
 * 3.6) until something is sent, which who is gone answers by a reset. So a byte is sent that belongs to the answer in any
 * case: of its status line, or, within chunks, a zero in front of the next one's size. Then the socket is looked at, at
 * once for a client on this machine, later and later for others. */
#include <event2/buffer.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include "server/http_parts.h"

enum {
    ROUND = 6,    /* looks after a byte, 1 ms, 2 ms, 4 ms ... apart; one more after each further byte */
    MOST_ZERO = 4 /* in front of a chunk's size: readers take some 16 digits */
};

/* A byte of the answer that can be sent before the rest of it is known; NULL: there is none. */
static const char *next_byte(struct qr_http_conn *c)
{
    if (!c->begun && c->n_early < strlen(QR_HTTP_VERSION))
        return &QR_HTTP_VERSION[c->n_early];
    return c->chunked && c->n_zero < MOST_ZERO ? "0" : NULL;
}

static void probe(struct qr_http_conn *c)
{
    const char *byte = c->broken ? NULL : next_byte(c);
    if (!byte || evbuffer_get_length(bufferevent_get_output(c->bev))) /* what waits there does as well */
        return;
    if (send(bufferevent_getfd(c->bev), byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
        (*(c->begun ? &c->n_zero : &c->n_early))++;
}

static bool is_reset(const struct qr_http_conn *c)
{
    struct pollfd look = {.fd = bufferevent_getfd(c->bev)};
    return poll(&look, 1, 0) == 1 && look.revents & (POLLERR | POLLHUP | POLLNVAL);
}

void qr_http_half_watch(struct qr_http_conn *c)
{
    if (c->n_look == 0)
        probe(c);
    int last = ROUND + (int)c->n_early, ms = 1 << c->n_look; /* at most 2^15 */
    struct timeval wait = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    c->n_look = c->n_look < last ? c->n_look + 1 : 0;
    if (is_reset(c) || event_add(c->timer, &wait) != 0)
        qr_http_conn_close(c);
}
