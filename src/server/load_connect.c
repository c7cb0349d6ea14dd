/* load_connect.c - a connection to a server by its name: the first of its addresses that is listened on. */
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include "server/load.h"

enum qr_status qr_load_connect(const char *host, int port, int *fd, struct qr_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    enum qr_status status = QR_NOTFOUND;
    char service[12];
    *fd = -1;
    snprintf(service, sizeof service, "%d", port);
    int code = getaddrinfo(host, service, &hints, &list);
    if (code != 0)
        return qr_fail(err, QR_NOTFOUND, "the host '%s' has no address: %s", host, gai_strerror(code));
    for (const struct addrinfo *a = list; a && status != QR_OK; a = a->ai_next) {
        int s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (s >= 0 && connect(s, a->ai_addr, a->ai_addrlen) == 0) {
            *fd = s;
            status = QR_OK;
            continue;
        }
        status = qr_fail_errno(err, "cannot connect to %s port %d", host, port);
        if (s >= 0)
            close(s);
    }
    freeaddrinfo(list);
    return status;
}
