/* exchange.c - see exchange.h. */
#include "server/exchange.h"
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---------------------------------------------------------------- outbox */

enum qr_status qr_outbox_init(struct qr_outbox *outbox, struct qr_err *err)
{
    *outbox = (struct qr_outbox){.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    if (outbox->wake_fd < 0)
        return qr_fail_errno(err, "cannot make an eventfd");
    pthread_mutex_init(&outbox->mutex, NULL);
    return QR_OK;
}

void qr_outbox_free(struct qr_outbox *outbox)
{
    for (struct qr_exchange *x = qr_outbox_take(outbox), *next; x; x = next) {
        next = x->next;
        qr_exchange_drop(x);
    }
    close(outbox->wake_fd);
    pthread_mutex_destroy(&outbox->mutex);
}

/* Under the exchange's mutex. */
static void post(struct qr_exchange *x)
{
    if (x->queued)
        return;
    struct qr_outbox *box = x->outbox;
    x->queued = true;
    x->next = NULL;
    qr_exchange_hold(x);
    pthread_mutex_lock(&box->mutex);
    bool first = !box->first;
    if (first)
        box->first = x;
    else
        box->last->next = x;
    box->last = x;
    pthread_mutex_unlock(&box->mutex);
    uint64_t one = 1;
    if (first && write(box->wake_fd, &one, sizeof one) < 0)
        return; /* full: the loop will wake in any case */
}

struct qr_exchange *qr_outbox_take(struct qr_outbox *outbox)
{
    uint64_t n;
    ssize_t got = read(outbox->wake_fd, &n, sizeof n);
    (void)got; /* nothing there: fine */
    pthread_mutex_lock(&outbox->mutex);
    struct qr_exchange *first = outbox->first;
    outbox->first = outbox->last = NULL;
    pthread_mutex_unlock(&outbox->mutex);
    return first;
}

/* ---------------------------------------------------------------- life */

struct qr_exchange *qr_exchange_create(struct qr_outbox *outbox)
{
    struct qr_exchange *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    atomic_init(&x->refs, 1);
    x->outbox = outbox;
    x->finish = "none";
    qr_buf_init(&x->extra, 4096);
    qr_buf_init(&x->out, 0);
    pthread_mutex_init(&x->mutex, NULL);
    return x;
}

void qr_exchange_hold(struct qr_exchange *x)
{
    atomic_fetch_add(&x->refs, 1);
}

void qr_exchange_drop(struct qr_exchange *x)
{
    if (!x || atomic_fetch_sub(&x->refs, 1) != 1)
        return;
    pthread_mutex_destroy(&x->mutex);
    qr_buf_free(&x->extra);
    qr_buf_free(&x->out);
    free(x->engine_id);
    free(x->body);
    free(x);
}

bool qr_exchange_gone(struct qr_exchange *x)
{
    pthread_mutex_lock(&x->mutex);
    bool gone = x->gone;
    pthread_mutex_unlock(&x->mutex);
    return gone;
}

/* ---------------------------------------------------------------- answers */

void qr_exchange_extra(struct qr_exchange *x, const char *name, const char *value)
{
    pthread_mutex_lock(&x->mutex);
    qr_buf_printf(&x->extra, "%s: %s\r\n", name, value);
    pthread_mutex_unlock(&x->mutex);
}

void qr_exchange_begin(struct qr_exchange *x, int status, const char *type, bool stream)
{
    pthread_mutex_lock(&x->mutex);
    if (!x->begun) {
        x->begun = true;
        x->status = status;
        x->type = type;
        x->stream = stream;
        if (stream)
            post(x);
    }
    pthread_mutex_unlock(&x->mutex);
}

void qr_exchange_write(struct qr_exchange *x, const char *data, size_t n)
{
    pthread_mutex_lock(&x->mutex);
    if (!x->gone && !x->ended && n) {
        qr_buf_append(&x->out, data, n); /* failed: seen by the loop, which cuts the connection */
        if (x->stream)
            post(x);
    }
    pthread_mutex_unlock(&x->mutex);
}

void qr_exchange_end(struct qr_exchange *x)
{
    pthread_mutex_lock(&x->mutex);
    x->ended = true;
    post(x);
    pthread_mutex_unlock(&x->mutex);
}

void qr_exchange_json(struct qr_exchange *x, int status, json_t *json)
{
    static const char no_memory[] = "{\"error\": {\"message\": \"out of memory for the answer\", \"type\": "
                                    "\"server_error\", \"param\": null, \"code\": \"out of memory\"}}";
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    qr_exchange_begin(x, text ? status : 500, "application/json", false);
    qr_exchange_write(x, text ? text : no_memory, text ? strlen(text) : sizeof no_memory - 1);
    free(text);
    qr_exchange_end(x);
}

void qr_exchange_error(struct qr_exchange *x, const struct qr_openai_error *error)
{
    int status = qr_openai_http_status(error->err.status);
    if (status == 429 || status == 503)
        qr_exchange_extra(x, "Retry-After", "1");
    qr_exchange_json(x, status, qr_openai_error_json(error));
}
