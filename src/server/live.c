/* live.c - see live.h. Lock order: this mutex, an exchange's, the outbox's. */
#include "server/live.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/clock.h"

enum { READ_MS = 200 /* between two looks at whether to end */ };

/* ---------------------------------------------------------------- the table */

static struct qr_live_entry **place_of(struct qr_live *live, uint64_t id)
{
    struct qr_live_entry **at = &live->bucket[id % QR_LIVE_BUCKET];
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

static void put(struct qr_live *live, struct qr_live_entry *entry, uint64_t id)
{
    struct qr_live_entry **at = &live->bucket[id % QR_LIVE_BUCKET];
    entry->id = id;
    entry->next = *at;
    *at = entry;
}

static void take_out(struct qr_live *live, struct qr_live_entry *entry)
{
    if (!entry->id)
        return;
    *place_of(live, entry->id) = entry->next;
    entry->id = 0;
}

static void link_generation(struct qr_live *live, struct qr_generation *g)
{
    g->next = live->first;
    if (g->next)
        g->next->prev = g;
    live->first = g;
}

static void unlink_generation(struct qr_live *live, struct qr_generation *g)
{
    for (size_t i = 0; i < g->request.n_prompt; i++)
        take_out(live, &g->entry[i]);
    *(g->prev ? &g->prev->next : &live->first) = g->next;
    if (g->next)
        g->next->prev = g->prev;
}

static void free_generation(struct qr_generation *g)
{
    if (!g)
        return;
    qr_openai_stream_free(&g->stream);
    qr_openai_answer_free(&g->answer);
    qr_openai_request_free(&g->request);
    qr_exchange_drop(g->exchange);
    free(g->entry);
    free(g->last_ns);
    free(g);
}

/* ---------------------------------------------------------------- from the engine to the client */

/* All choices ended, or error says why not. The generation is in no table any more. */
static void finish(struct qr_generation *g, const struct qr_openai_error *error)
{
    struct qr_exchange *x = g->exchange;
    struct qr_openai_error own = {0};
    if (!error && qr_openai_answer_status(&g->answer, &own.err) != QR_OK)
        error = &own;
    x->prompt_tokens = g->answer.prompt_tokens;
    x->output_tokens = g->answer.output_tokens;
    x->finish = error ? "error" : g->answer.choice[0].finish == QR_FINISH_STOP ? "stop" : "length";
    if (g->request.stream) {
        struct qr_buf out;
        qr_buf_init(&out, 0);
        if (error)
            qr_openai_stream_error(error, &out);
        else if (g->request.include_usage)
            qr_openai_stream_usage(&g->stream, &g->answer, &out);
        qr_openai_stream_done(&out);
        qr_exchange_write(x, out.data, out.len);
        qr_buf_free(&out);
        qr_exchange_end(x);
    } else if (error) {
        qr_exchange_error(x, error);
    } else {
        qr_exchange_json(x, 200, qr_openai_answer_json(&g->answer, g->model_name, x->number, g->created));
    }
    free_generation(g);
}

static void count_token(struct qr_live *live, struct qr_generation *g, size_t choice, int64_t now)
{
    bool first = !g->last_ns[choice];
    int64_t since = first ? g->exchange->arrived_ns : g->last_ns[choice];
    qr_metrics_token(live->metrics, first, (double)(now - since) * 1e-9);
    g->last_ns[choice] = now;
    if (!g->exchange->first_ns)
        g->exchange->first_ns = now;
}

static void stream_event(struct qr_live *live, struct qr_generation *g, size_t prompt, const struct qr_event *event)
{
    qr_buf_clear(&live->scratch);
    if (!qr_openai_stream_event(&g->stream, prompt, event, &live->scratch))
        g->answer.no_memory = true;
    else
        qr_exchange_write(g->exchange, live->scratch.data, live->scratch.len);
}

static void deliver(struct qr_live *live, const struct qr_event *event)
{
    int64_t now = qr_now_ns();
    pthread_mutex_lock(&live->mutex);
    struct qr_live_entry *entry = *place_of(live, event->request);
    struct qr_generation *g = entry ? entry->generation : NULL;
    if (g) {
        size_t prompt = (size_t)(entry - g->entry);
        if (event->kind == QR_EVENT_TOKEN && event->id >= 0)
            count_token(live, g, prompt * (size_t)g->request.n + (size_t)event->choice, now);
        if (event->kind == QR_EVENT_DONE)
            qr_metrics_done(live->metrics, event, (double)(now - g->exchange->arrived_ns) * 1e-9);
        if (g->request.stream)
            stream_event(live, g, prompt, event);
        if (!g->request.stream || event->kind == QR_EVENT_DONE)
            qr_openai_answer_take(&g->answer, live->model, prompt, event);
        if (event->kind == QR_EVENT_DONE && ++entry->n_done == g->request.n)
            take_out(live, entry);
        if (qr_openai_answer_done(&g->answer))
            unlink_generation(live, g);
        else
            g = NULL;
    }
    pthread_mutex_unlock(&live->mutex);
    if (g)
        finish(g, NULL);
}

static void *reader_main(void *arg)
{
    struct qr_live *live = arg;
    while (!atomic_load(&live->stopping)) {
        struct qr_event event = {0};
        bool got = false;
        enum qr_status status = qr_engine_next(live->engine, &event, READ_MS, &got, NULL);
        if (status == QR_CANCELLED)
            break;
        if (status != QR_OK) { /* out of memory: others may give some back */
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            continue;
        }
        if (got)
            deliver(live, &event);
        qr_event_clear(&event);
    }
    return NULL;
}

/* ---------------------------------------------------------------- from the client to the engine */

static struct qr_generation *make(struct qr_live *live, struct qr_exchange *x, struct qr_openai_request *request,
                                  const char *model_name, struct qr_openai_error *error)
{
    struct qr_generation *g = calloc(1, sizeof *g);
    size_t n_prompt = request->n_prompt, n_choice = n_prompt * (size_t)request->n;
    if (!g) {
        qr_openai_request_free(request);
        qr_openai_fail(error, QR_NOMEM, NULL, "out of memory for a request");
        return NULL;
    }
    g->request = *request;
    g->model_name = model_name;
    g->created = (int64_t)time(NULL);
    g->exchange = x;
    qr_exchange_hold(x);
    g->entry = calloc(n_prompt, sizeof *g->entry);
    g->last_ns = calloc(n_choice, sizeof *g->last_ns);
    enum qr_status status = g->entry && g->last_ns
                                ? QR_OK
                                : qr_openai_fail(error, QR_NOMEM, NULL, "out of memory for %zu choices", n_choice);
    if (status == QR_OK)
        status = qr_openai_answer_init(&g->answer, &g->request, &error->err);
    if (status == QR_OK && g->request.stream)
        status =
            qr_openai_stream_init(&g->stream, live->model, &g->request, model_name, x->number, g->created, &error->err);
    if (status == QR_OK)
        return g;
    free_generation(g);
    return NULL;
}

/* The exchange learns what to cancel. False: its client went away meanwhile. */
static bool note_id(struct qr_exchange *x, uint64_t id)
{
    pthread_mutex_lock(&x->mutex);
    bool there = !x->gone;
    x->engine_id[x->n_engine_id++] = id;
    pthread_mutex_unlock(&x->mutex);
    return there;
}

static enum qr_status submit_all(struct qr_live *live, struct qr_generation *g, struct qr_openai_error *error)
{
    struct qr_exchange *x = g->exchange;
    uint64_t *ids = calloc(g->request.n_prompt, sizeof *ids);
    enum qr_status status = ids ? QR_OK : qr_openai_fail(error, QR_NOMEM, NULL, "out of memory for a request");
    pthread_mutex_lock(&x->mutex);
    x->engine_id = ids;
    pthread_mutex_unlock(&x->mutex);
    for (size_t i = 0; i < g->request.n_prompt && status == QR_OK; i++) {
        struct qr_request request = qr_openai_engine_request(&g->request, i);
        uint64_t id;
        request.key = x->client;
        status = qr_engine_submit(live->engine, &request, &id, &error->err);
        if (status != QR_OK)
            break;
        g->entry[i].generation = g;
        put(live, &g->entry[i], id);
        if (!note_id(x, id))
            qr_engine_cancel(live->engine, id);
    }
    for (size_t i = 0; i < g->request.n_prompt && status != QR_OK; i++)
        if (g->entry[i].id)
            qr_engine_cancel(live->engine, g->entry[i].id);
    return status;
}

static void list_ignored(struct qr_exchange *x, const struct qr_openai_request *request)
{
    struct qr_buf list;
    if (!request->n_ignored)
        return;
    qr_buf_init(&list, 2048);
    for (size_t i = 0; i < request->n_ignored; i++) {
        qr_buf_puts(&list, i ? ", " : "");
        qr_buf_puts(&list, request->ignored[i]);
    }
    if (!list.failed)
        qr_exchange_extra(x, "x-quire-ignored-fields", list.data);
    qr_buf_free(&list);
}

enum qr_status qr_live_submit(struct qr_live *live, struct qr_exchange *x, struct qr_openai_request *request,
                              const char *model_name, struct qr_openai_error *error)
{
    struct qr_generation *g = make(live, x, request, model_name, error);
    if (!g)
        return error->err.status;
    list_ignored(x, &g->request);
    pthread_mutex_lock(&live->mutex); /* until its entries are in the table no event may be looked up */
    link_generation(live, g);
    enum qr_status status = submit_all(live, g, error);
    if (status != QR_OK) {
        unlink_generation(live, g);
        pthread_mutex_unlock(&live->mutex);
        free_generation(g);
        return status;
    }
    qr_openai_request_slim(&g->request);
    if (g->request.stream)
        qr_exchange_begin(x, 200, "text/event-stream; charset=utf-8", true);
    pthread_mutex_unlock(&live->mutex);
    return QR_OK;
}

void qr_live_cancel(struct qr_live *live, struct qr_exchange *x)
{
    pthread_mutex_lock(&x->mutex);
    x->gone = true;
    for (size_t i = 0; i < x->n_engine_id; i++)
        qr_engine_cancel(live->engine, x->engine_id[i]);
    qr_buf_free(&x->out);
    pthread_mutex_unlock(&x->mutex);
}

void qr_live_fail_all(struct qr_live *live, const struct qr_openai_error *error)
{
    for (;;) {
        pthread_mutex_lock(&live->mutex);
        struct qr_generation *g = live->first;
        if (g) {
            for (size_t i = 0; i < g->request.n_prompt; i++)
                if (g->entry[i].id)
                    qr_engine_cancel(live->engine, g->entry[i].id);
            unlink_generation(live, g);
        }
        pthread_mutex_unlock(&live->mutex);
        if (!g)
            return;
        finish(g, error);
    }
}

bool qr_live_is_empty(struct qr_live *live)
{
    pthread_mutex_lock(&live->mutex);
    bool empty = !live->first;
    pthread_mutex_unlock(&live->mutex);
    return empty;
}

/* ---------------------------------------------------------------- start and end */

void qr_live_init(struct qr_live *live, struct qr_metrics *metrics)
{
    memset(live, 0, sizeof *live);
    live->metrics = metrics;
    qr_buf_init(&live->scratch, 0);
    pthread_mutex_init(&live->mutex, NULL);
}

enum qr_status qr_live_start(struct qr_live *live, const struct qr_model *model, struct qr_engine *engine,
                             struct qr_err *err)
{
    live->model = model;
    live->engine = engine;
    if (pthread_create(&live->reader, NULL, reader_main, live) != 0)
        return qr_fail(err, QR_LIMIT, "the system refused the thread that reads the engine's events");
    atomic_store(&live->reading, true);
    return QR_OK;
}

void qr_live_stop(struct qr_live *live)
{
    atomic_store(&live->stopping, true);
    if (atomic_exchange(&live->reading, false))
        pthread_join(live->reader, NULL);
}

void qr_live_free(struct qr_live *live)
{
    while (live->first) {
        struct qr_generation *g = live->first;
        unlink_generation(live, g);
        free_generation(g);
    }
    qr_buf_free(&live->scratch);
    pthread_mutex_destroy(&live->mutex);
}
