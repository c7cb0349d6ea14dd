/* http_listen.c - the listening socket. With no descriptor left it gives up the one in reserve for as long as it takes
 * to accept and close: the client learns of it, and the loop does not turn in vain. */
#include <errno.h>
#include <event2/buffer.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "server/http_parts.h"

enum { BACKLOG = 1024, AT_ONCE = 64 /* connections accepted before others get their turn */ };

void qr_http_limits_default(struct qr_http_limits *limits)
{
    *limits = (struct qr_http_limits){
        .max_head = 64 << 10,
        .max_body = 32 << 20,
        .max_unsent = 4 << 20,
        .max_field = 128,
        .max_conn = 4096,
        .head_ms = 10000,
        .body_ms = 120000,
        .idle_ms = 75000,
        .stall_ms = 30000,
    };
}

static void refuse_connection(int fd)
{
    static const char text[] = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n"
                               "Content-Type: text/plain\r\n\r\nthe server has no room for a further connection\n";
    ssize_t sent = send(fd, text, sizeof text - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)sent; /* who does not get it sees the close */
    shutdown(fd, SHUT_WR);
    close(fd);
}

static void rest(struct qr_http *h)
{
    struct timeval wait = {.tv_usec = 20000};
    event_del(h->listener);
    event_add(h->pause, &wait);
}

static void no_descriptor(struct qr_http *h)
{
    if (h->reserve >= 0)
        close(h->reserve);
    h->reserve = -1;
    int fd = accept4(h->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
        refuse_connection(fd);
    h->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (h->reserve < 0) /* another thread was faster */
        rest(h);
}

static void peer_name(const struct sockaddr_storage *address, socklen_t n, char *text, size_t room)
{
    if (getnameinfo((const struct sockaddr *)address, n, text, (socklen_t)room, NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(text, room, "?");
}

static void on_connection(evutil_socket_t listener, short what, void *arg)
{
    struct qr_http *h = arg;
    (void)what;
    for (int i = 0; i < AT_ONCE; i++) {
        struct sockaddr_storage address = {0};
        socklen_t n = sizeof address;
        char peer[48];
        int one = 1, fd = accept4(listener, (struct sockaddr *)&address, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE)
                no_descriptor(h);
            else if (errno == ENOMEM || errno == ENOBUFS)
                rest(h);
            return;
        }
        if (h->n_conn >= h->limits.max_conn) {
            refuse_connection(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        peer_name(&address, n, peer, sizeof peer);
        qr_http_conn_open(h, fd, peer);
    }
}

static void on_pause_over(evutil_socket_t fd, short what, void *arg)
{
    struct qr_http *h = arg;
    (void)fd;
    (void)what;
    if (h->reserve < 0)
        h->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    event_add(h->listener, NULL);
}

/* ---------------------------------------------------------------- creation */

static int listen_on(const struct addrinfo *a)
{
    int one = 1, fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int kept = errno;
    close(fd);
    errno = kept;
    return -1;
}

static enum qr_status open_socket(struct qr_http *h, const char *host, int port, struct qr_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *list;
    char service[12];
    snprintf(service, sizeof service, "%d", port);
    int code = getaddrinfo(host, service, &hints, &list);
    if (code != 0)
        return qr_fail(err, QR_INVALID, "the host '%s' has no address: %s", host, gai_strerror(code));
    for (const struct addrinfo *a = list; a && h->fd < 0; a = a->ai_next)
        h->fd = listen_on(a);
    freeaddrinfo(list);
    if (h->fd < 0)
        return qr_fail_errno(err, "cannot listen on %s port %d", host, port);
    struct sockaddr_storage address = {0};
    socklen_t n = sizeof address;
    getsockname(h->fd, (struct sockaddr *)&address, &n);
    h->port = ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                                  : ((struct sockaddr_in *)&address)->sin_port);
    return QR_OK;
}

enum qr_status qr_http_create(struct event_base *base, const char *host, int port, const struct qr_http_limits *limits,
                              const struct qr_http_handler *handler, struct qr_http **http, struct qr_err *err)
{
    struct qr_http *h = calloc(1, sizeof *h);
    *http = NULL;
    if (!h)
        return qr_fail(err, QR_NOMEM, "out of memory for the HTTP server");
    h->base = base;
    h->limits = *limits;
    h->handler = *handler;
    h->fd = -1;
    qr_http_parse_settings(&h->settings);
    h->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    enum qr_status status = open_socket(h, host, port, err);
    if (status == QR_OK) {
        h->listener = event_new(base, h->fd, EV_READ | EV_PERSIST, on_connection, h);
        h->pause = evtimer_new(base, on_pause_over, h);
        if (!h->listener || !h->pause || event_add(h->listener, NULL) != 0)
            status = qr_fail(err, QR_NOMEM, "out of memory for the HTTP server");
    }
    if (status != QR_OK) {
        qr_http_destroy(h);
        return status;
    }
    *http = h;
    return QR_OK;
}

void qr_http_destroy(struct qr_http *h)
{
    if (!h)
        return;
    while (h->first)
        qr_http_conn_close(h->first);
    if (h->listener)
        event_free(h->listener);
    if (h->pause)
        event_free(h->pause);
    if (h->fd >= 0)
        close(h->fd);
    if (h->reserve >= 0)
        close(h->reserve);
    free(h);
}

int qr_http_port(const struct qr_http *http)
{
    return http->port;
}

int qr_http_n_conn(const struct qr_http *http)
{
    return http->n_conn;
}

bool qr_http_has_unsent(const struct qr_http *http)
{
    for (const struct qr_http_conn *c = http->first; c; c = c->next)
        if (evbuffer_get_length(bufferevent_get_output(c->bev)))
            return true;
    return false;
}
