/* load_name.c - asks a server for the name of its first model: one GET, waited for. */
#include <jansson.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "server/load.h"

enum { MOST = 1 << 20, WAIT_S = 10 };

/* A connected descriptor; -1: err says why there is none. */
static int connect_to(const char *host, int port, struct qr_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    struct timeval wait = {.tv_sec = WAIT_S};
    char service[12];
    int fd = -1;
    snprintf(service, sizeof service, "%d", port);
    int code = getaddrinfo(host, service, &hints, &list);
    if (code != 0) {
        qr_fail(err, QR_NOTFOUND, "the host '%s' has no address: %s", host, gai_strerror(code));
        return -1;
    }
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) != 0 ||
                        connect(fd, a->ai_addr, a->ai_addrlen) != 0)) {
            qr_fail_errno(err, "cannot connect to %s port %d", host, port);
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

/* HTTP/1.0, so that the answer comes in one piece and ends with the connection. */
static bool ask(int fd, const char *host, int port, const char *api_key, struct qr_buf *answer)
{
    struct qr_buf text;
    char piece[4096];
    ssize_t n;
    qr_buf_init(&text, 0);
    qr_buf_printf(&text, "GET /v1/models HTTP/1.0\r\nHost: %s:%d\r\n", host, port);
    if (api_key)
        qr_buf_printf(&text, "Authorization: Bearer %s\r\n", api_key);
    qr_buf_puts(&text, "\r\n");
    bool ok = !text.failed && send(fd, text.data, text.len, MSG_NOSIGNAL) == (ssize_t)text.len;
    while (ok && (n = recv(fd, piece, sizeof piece, 0)) > 0)
        ok = qr_buf_append(answer, piece, (size_t)n);
    qr_buf_free(&text);
    return ok;
}

enum qr_status qr_load_model_name(const char *host, int port, const char *api_key, char *name, size_t room,
                                  struct qr_err *err)
{
    struct qr_buf answer;
    int fd = connect_to(host, port, err);
    if (fd < 0)
        return QR_IO;
    qr_buf_init(&answer, MOST);
    bool ok = ask(fd, host, port, api_key, &answer);
    close(fd);
    const char *body = ok && answer.len ? strstr(answer.data, "\r\n\r\n") : NULL;
    const char *start = body ? strchr(body, '{') : NULL; /* behind a chunk's size, should there be one */
    json_t *root = start ? json_loads(start, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    const char *id = json_string_value(json_object_get(json_array_get(json_object_get(root, "data"), 0), "id"));
    enum qr_status status = QR_OK;
    if (id && strlen(id) < room)
        memcpy(name, id, strlen(id) + 1);
    else
        status = qr_fail(err, QR_FORMAT, "%s:%d/v1/models names no model: give --model", host, port);
    json_decref(root);
    qr_buf_free(&answer);
    return status;
}
