/* load_name.c - asks a server for the name of its first model: one GET, waited for. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "server/load.h"

enum { MOST = 1 << 20, WAIT_S = 10 };

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
    const struct timeval wait = {.tv_sec = WAIT_S};
    int fd;
    QR_TRY(qr_load_connect(host, port, &fd, err));
    qr_buf_init(&answer, MOST);
    bool ok = setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) == 0 && ask(fd, host, port, api_key, &answer);
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
