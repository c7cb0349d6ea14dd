/* buf.c - a growable byte buffer with a cap. */
#include "base/buf.h"
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 64

void qr_buf_init(struct qr_buf *buf, size_t cap)
{
    *buf = (struct qr_buf){.cap = cap};
}

void qr_buf_free(struct qr_buf *buf)
{
    free(buf->data);
    qr_buf_init(buf, buf->cap);
}

void qr_buf_clear(struct qr_buf *buf)
{
    buf->len = 0;
    buf->failed = buf->over = false;
    if (buf->data)
        buf->data[0] = 0;
}

static bool fail(struct qr_buf *buf)
{
    buf->failed = true;
    return false;
}

bool qr_buf_reserve(struct qr_buf *buf, size_t more)
{
    size_t most = buf->cap && buf->cap < SIZE_MAX - 1 ? buf->cap : SIZE_MAX - 1;
    size_t need, room;
    char *data;

    if (buf->failed)
        return false;
    if (buf->len > most || more > most - buf->len) {
        buf->over = true;
        return fail(buf);
    }
    need = buf->len + more + 1; /* and the NUL */
    if (need <= buf->room)
        return true;
    room = buf->room > SIZE_MAX / 2 ? SIZE_MAX : buf->room * 2;
    if (room > most)
        room = most + 1;
    if (room < FIRST_ROOM && most >= FIRST_ROOM)
        room = FIRST_ROOM;
    if (room < need)
        room = need;
    data = realloc(buf->data, room);
    if (!data)
        return fail(buf);
    data[buf->len] = 0;
    buf->data = data;
    buf->room = room;
    return true;
}

bool qr_buf_append(struct qr_buf *buf, const void *data, size_t n)
{
    if (!qr_buf_reserve(buf, n))
        return false;
    if (n)
        memcpy(buf->data + buf->len, data, n);
    buf->len += n;
    buf->data[buf->len] = 0;
    return true;
}

bool qr_buf_puts(struct qr_buf *buf, const char *s)
{
    return qr_buf_append(buf, s, strlen(s));
}

bool qr_buf_putc(struct qr_buf *buf, char c)
{
    return qr_buf_append(buf, &c, 1);
}

bool qr_buf_printf(struct qr_buf *buf, const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0)
        return fail(buf);
    if (!qr_buf_reserve(buf, (size_t)n))
        return false;
    va_start(args, fmt);
    vsnprintf(buf->data + buf->len, (size_t)n + 1, fmt, args);
    va_end(args);
    buf->len += (size_t)n;
    return true;
}

char *qr_buf_take(struct qr_buf *buf, size_t *n)
{
    char *data;

    if (!qr_buf_reserve(buf, 0)) { /* an empty buffer still gives a string */
        qr_buf_free(buf);
        return NULL;
    }
    data = buf->data;
    if (n)
        *n = buf->len;
    qr_buf_init(buf, buf->cap);
    return data;
}
