/* serve.c - the server's loop, its states, and what it watches: the end of a drain, the engine's heartbeat. */
#include "server/serve.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/pool.h"
#include "server/serve_parts.h"

enum {
    TICK_MS = 200,
    FLUSH_MS = 2000, /* that a dead server gives its last words */
    FIRST_STEP_MS = 60000,
};

void qr_serve_options_default(struct qr_serve_options *o)
{
    int n_cpu = qr_cpu_count();
    *o = (struct qr_serve_options){
        .host = "127.0.0.1",
        .port = 8000,
        .max_body_bytes = 256 << 20,
        .n_worker = n_cpu < 4    ? 2
                    : n_cpu < 16 ? n_cpu / 2
                                 : 8,
        .max_waiting = 1024,
        .drain_ms = 30000,
        .heartbeat_ms = 2000,
    };
    qr_http_limits_default(&o->limits);
}

/* ---------------------------------------------------------------- states */

static void fail(struct qr_server *s)
{
    struct qr_openai_error error = {0};
    qr_openai_fail(&error, QR_INTERNAL, NULL, "the engine stopped working: no progress for %d ms",
                   s->options.heartbeat_ms);
    atomic_store(&s->state, QR_SERVE_FAILED);
    s->failed_ns = qr_now_ns();
    s->end = QR_SERVE_DEAD;
    qr_live_fail_all(&s->live, &error);
}

/* The first step may have to load a GPU's code first. */
static int64_t patience_ns(const struct qr_server *s)
{
    struct qr_engine_stats stats;
    qr_engine_stats(s->engine, &stats);
    return (int64_t)(stats.n_step == 0 ? FIRST_STEP_MS : s->options.heartbeat_ms) * 1000000;
}

/* An engine that works goes round its loop, or its executor's count of work done rises: a long prefill is no death. */
static void watch_engine(struct qr_server *s, int64_t now)
{
    uint64_t progress = (uint64_t)qr_engine_heartbeat_ns(s->engine) + qr_engine_progress(s->engine);
    if (progress != s->progress) {
        s->progress = progress;
        s->last_progress_ns = now;
    } else if (now - s->last_progress_ns > patience_ns(s)) {
        fail(s);
    }
}

static void watch_drain(struct qr_server *s, int64_t now)
{
    if (s->n_open == 0 && !qr_http_has_unsent(s->http)) {
        event_base_loopbreak(s->base);
    } else if (s->drain_until && now > s->drain_until) {
        struct qr_openai_error error = {0};
        qr_openai_fail(&error, QR_CANCELLED, NULL, "the server is shutting down and could wait no longer");
        s->drain_until = 0;
        s->failed_ns = now;
        qr_live_fail_all(&s->live, &error);
    } else if (s->failed_ns && now > s->failed_ns + (int64_t)FLUSH_MS * 1000000) {
        event_base_loopbreak(s->base);
    }
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct qr_server *s = arg;
    int64_t now = qr_now_ns();
    int state = atomic_load(&s->state);
    (void)fd;
    (void)what;
    if (atomic_load(&s->attached) && state != QR_SERVE_FAILED)
        watch_engine(s, now);
    if (state == QR_SERVE_DRAINING || state == QR_SERVE_FAILED)
        watch_drain(s, now);
}

static void on_control(evutil_socket_t fd, short what, void *arg)
{
    struct qr_server *s = arg;
    uint64_t n;
    (void)what;
    if (read(fd, &n, sizeof n) != sizeof n || s->drain_until || atomic_load(&s->state) >= QR_SERVE_DRAINING)
        return;
    atomic_store(&s->state, QR_SERVE_DRAINING);
    s->drain_until = qr_now_ns() + (int64_t)s->options.drain_ms * 1000000 + 1;
    on_tick(-1, 0, s);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct qr_server *s = arg;
    (void)fd;
    (void)what;
    qr_serve_replies(s);
    if (atomic_load(&s->state) >= QR_SERVE_DRAINING)
        on_tick(-1, 0, s);
}

static void *loop_main(void *arg)
{
    struct qr_server *s = arg;
    event_base_dispatch(s->base);
    return NULL;
}

/* ---------------------------------------------------------------- start and end */

static enum qr_status make_events(struct qr_server *s, struct qr_err *err)
{
    struct timeval tick = {.tv_usec = TICK_MS * 1000};
    s->control_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (s->control_fd < 0)
        return qr_fail_errno(err, "cannot make an eventfd");
    s->wake = event_new(s->base, s->outbox.wake_fd, EV_READ | EV_PERSIST, on_wake, s);
    s->control = event_new(s->base, s->control_fd, EV_READ | EV_PERSIST, on_control, s);
    s->tick = event_new(s->base, -1, EV_PERSIST, on_tick, s);
    if (!s->wake || !s->control || !s->tick || event_add(s->wake, NULL) || event_add(s->control, NULL) ||
        event_add(s->tick, &tick))
        return qr_fail(err, QR_NOMEM, "out of memory for the server's events");
    return QR_OK;
}

static enum qr_status start(struct qr_server *s, struct qr_err *err)
{
    const struct qr_http_handler handler = {
        .ctx = s,
        .head = qr_serve_head,
        .whole = qr_serve_whole,
        .gone = qr_serve_gone,
        .account = qr_serve_account,
    };
    QR_TRY(qr_outbox_init(&s->outbox, err));
    s->base = event_base_new();
    if (!s->base)
        return qr_fail(err, QR_NOMEM, "out of memory for the server's loop");
    QR_TRY(make_events(s, err));
    QR_TRY(qr_http_create(s->base, s->options.host, s->options.port, &s->options.limits, &handler, &s->http, err));
    if (pthread_create(&s->loop, NULL, loop_main, s) != 0)
        return qr_fail(err, QR_LIMIT, "the system refused the server's thread");
    return QR_OK;
}

enum qr_status qr_server_create(const struct qr_serve_options *options, struct qr_server **server, struct qr_err *err)
{
    struct qr_server *s = calloc(1, sizeof *s);
    *server = NULL;
    if (!s)
        return qr_fail(err, QR_NOMEM, "out of memory for a server");
    s->options = *options;
    s->outbox.wake_fd = s->control_fd = -1;
    s->started_unix = (int64_t)time(NULL);
    qr_metrics_init(&s->metrics);
    qr_live_init(&s->live, &s->metrics);
    enum qr_status status = start(s, err);
    if (status != QR_OK) {
        qr_server_destroy(s);
        return status;
    }
    *server = s;
    return QR_OK;
}

int qr_server_port(const struct qr_server *server)
{
    return qr_http_port(server->http);
}

enum qr_status qr_server_attach(struct qr_server *s, struct qr_model *model, struct qr_engine *engine,
                                struct qr_err *err)
{
    int loading = QR_SERVE_LOADING;
    s->model = model;
    s->engine = engine;
    s->last_progress_ns = qr_now_ns();
    QR_TRY(qr_workers_create(s->options.n_worker, s->options.max_waiting, qr_serve_task, s, &s->workers, err));
    QR_TRY(qr_live_start(&s->live, model, engine, err));
    atomic_store(&s->attached, true);
    atomic_compare_exchange_strong(&s->state, &loading, QR_SERVE_READY); /* else a drain came first */
    return QR_OK;
}

void qr_server_drain(struct qr_server *s)
{
    uint64_t one = 1;
    int kept = errno;
    if (write(s->control_fd, &one, sizeof one) < 0)
        errno = kept; /* full: it knows already */
    errno = kept;
}

enum qr_serve_end qr_server_wait(struct qr_server *s)
{
    pthread_join(s->loop, NULL);
    s->loop = 0;
    return s->end;
}

void qr_server_stop(struct qr_server *s)
{
    qr_workers_destroy(s->workers);
    qr_live_stop(&s->live);
    qr_http_destroy(s->http); /* tells qr_serve_gone of what is open */
    s->workers = NULL;
    s->http = NULL;
}

void qr_server_destroy(struct qr_server *s)
{
    if (!s)
        return;
    qr_server_stop(s);
    qr_live_free(&s->live);
    struct event *const events[] = {s->wake, s->control, s->tick};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            event_free(events[i]);
    if (s->base)
        event_base_free(s->base);
    if (s->outbox.wake_fd >= 0)
        qr_outbox_free(&s->outbox);
    if (s->control_fd >= 0)
        close(s->control_fd);
    qr_metrics_free(&s->metrics);
    free(s);
}
