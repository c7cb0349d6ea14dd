/* replies.c - takes what workers and the reader of events said, and hands it to the connections. */
#include <stdio.h>
#include <time.h>
#include "base/clock.h"
#include "server/serve_parts.h"

static const char *const route_path[] = {
    [QR_ROUTE_COMPLETIONS] = "/v1/completions",
    [QR_ROUTE_CHAT] = "/v1/chat/completions",
    [QR_ROUTE_TOKENIZE] = "/tokenize",
    [QR_ROUTE_DETOKENIZE] = "/detokenize",
};

static void log_answer(struct qr_server *s, const struct qr_exchange *x, int status)
{
    char line[512];
    struct timespec now;
    if (!s->options.log)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    double first = x->first_ns ? (double)(x->first_ns - x->arrived_ns) * 1e-6 : 0;
    int n = snprintf(line, sizeof line,
                     "{\"time\":%lld.%03ld,\"id\":\"%016llx\",\"peer\":\"%s\",\"path\":\"%s\",\"status\":%d,"
                     "\"prompt_tokens\":%lld,\"output_tokens\":%lld,\"ttft_ms\":%.1f,\"total_ms\":%.1f,"
                     "\"finish\":\"%s\"}",
                     (long long)now.tv_sec, now.tv_nsec / 1000000, (unsigned long long)x->number, x->peer,
                     route_path[x->route], status, (long long)x->prompt_tokens, (long long)x->output_tokens, first,
                     (double)(qr_now_ns() - x->arrived_ns) * 1e-6, x->finish);
    s->options.log(s->options.log_ctx, line, (size_t)n);
}

struct said { /* since the loop last looked */
    bool begun, ended, stream;
    int status;
    const char *type;
    struct qr_buf out;
    char fields[4608];
};

static void listen_to(struct qr_exchange *x, struct said *said)
{
    pthread_mutex_lock(&x->mutex);
    x->queued = false;
    said->begun = x->begun && !x->begun_sent;
    x->begun_sent = x->begun;
    said->ended = x->ended;
    said->stream = x->stream;
    said->status = x->status;
    said->type = x->type;
    said->out = x->out;
    qr_buf_init(&x->out, 0);
    if (said->begun)
        snprintf(said->fields, sizeof said->fields, "X-Request-Id: %016llx\r\n%s%s%s", (unsigned long long)x->number,
                 x->stream ? "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n" : "", x->fields,
                 x->extra.len ? x->extra.data : "");
    pthread_mutex_unlock(&x->mutex);
}

static void reply(struct qr_server *s, struct qr_exchange *x)
{
    struct said said = {0};
    listen_to(x, &said);
    struct qr_http_request *r = x->http;
    if (r && said.begun)
        qr_http_begin(r, said.status, said.type, said.fields, said.stream ? -1 : (int64_t)said.out.len);
    if (r && said.out.failed) { /* a gap in the text is worse than an end */
        qr_http_abort(r);
        r = NULL;
    }
    if (r && said.out.len && !qr_http_send(r, said.out.data, said.out.len))
        r = NULL; /* cut: qr_serve_gone was called */
    if (r && said.ended) {
        x->http = NULL;
        r->user = NULL;
        qr_http_end(r);
        qr_metrics_http(&s->metrics, said.status);
        log_answer(s, x, said.status);
        qr_exchange_drop(x);
        s->n_open--;
    }
    qr_buf_free(&said.out);
}

void qr_serve_replies(struct qr_server *s)
{
    for (struct qr_exchange *x = qr_outbox_take(&s->outbox), *next; x; x = next) {
        next = x->next;
        reply(s, x);
        qr_exchange_drop(x);
    }
}
