/* hub_ask.c - questions to the hub: again when a failure may pass, and in a sentence when it will not. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "model/hub_parts.h"

#define MAX_TRIES   5
#define FIRST_PAUSE 500   /* ms; doubled each time */
#define MAX_PAUSE   60000 /* ms that Retry-After may ask for */

void qr_hub_note(const struct qr_hub_options *options, const char *fmt, ...)
{
    char line[512];
    va_list args;

    if (!options->note)
        return;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    options->note(options->ctx, line);
}

bool qr_hub_wait(const struct qr_hub *hub, int ms)
{
    for (; ms > 0; ms -= 100) {
        struct timespec t = {.tv_nsec = (ms < 100 ? ms : 100) * 1000000L};

        if (hub->options->progress && !hub->options->progress(hub->options->ctx, hub->done, hub->total))
            return false;
        nanosleep(&t, NULL);
    }
    return true;
}

bool qr_hub_may_pass(const struct qr_http_reply *reply, enum qr_status status)
{
    return status == QR_OK ? reply->code == 408 || reply->code == 429 || reply->code >= 500 : status == QR_IO;
}

int qr_hub_pause(const struct qr_http_reply *reply, int n)
{
    int ms = FIRST_PAUSE << (n < 1 ? 0 : n < 5 ? n - 1 : 4);

    if (reply->retry_after > 0)
        ms = reply->retry_after < MAX_PAUSE / 1000 ? reply->retry_after * 1000 : MAX_PAUSE;
    return ms;
}

enum qr_status qr_hub_refused(const struct qr_hub *hub, const char *what, const struct qr_http_reply *reply,
                              struct qr_err *err)
{
    const char *advice = "";
    enum qr_status status = QR_IO;

    if (reply->code == 401)
        advice = hub->token ? ": the repository does not exist, or the token may not read it"
                            : ": the repository does not exist, or it is private and HF_TOKEN is not set";
    else if (reply->code == 403)
        advice = hub->token ? ": the token may not read it; gated models are asked for on the repository's page"
                            : ": it is gated: ask for it on the repository's page and set HF_TOKEN";
    else if (reply->code == 404)
        advice = ": there is no such repository, revision or file";
    else if (reply->code == 429)
        advice = ": too many requests; try again later";
    else if (reply->code >= 500)
        advice = ": the server has a problem; try again later";
    if (reply->code == 404)
        status = QR_NOTFOUND;
    return qr_fail(err, status, "%.200s: %.100s answers with HTTP status %ld%s%s%.100s%s", what, hub->endpoint,
                   reply->code, advice, reply->message[0] ? " (" : "", reply->message, reply->message[0] ? ")" : "");
}

static bool tick(void *ctx)
{
    const struct qr_hub *hub = ctx;

    return !hub->options->progress || hub->options->progress(hub->options->ctx, hub->done, hub->total);
}

struct answer {
    struct qr_hub *hub;
    struct qr_buf *out;
};

static bool tick_answer(void *ctx)
{
    return tick(((struct answer *)ctx)->hub);
}

static bool begin_answer(void *ctx, const struct qr_http_reply *reply)
{
    struct answer *a = ctx;

    (void)reply;
    qr_buf_clear(a->out);
    return true;
}

static bool write_answer(void *ctx, const char *data, size_t n)
{
    struct answer *a = ctx;

    return qr_buf_append(a->out, data, n);
}

/* Asks until an answer comes that no second try would better. */
static enum qr_status ask(struct qr_hub *hub, struct qr_http_request *request, struct qr_http_reply *reply,
                          struct qr_err *err)
{
    for (int n = 1;; n++) {
        enum qr_status status = qr_http_do(hub->http, request, reply, err);

        if (n >= MAX_TRIES || !qr_hub_may_pass(reply, status))
            return status;
        if (!qr_hub_wait(hub, qr_hub_pause(reply, n)))
            return qr_fail(err, QR_CANCELLED, "stopped");
    }
}

enum qr_status qr_hub_get_json(struct qr_hub *hub, const char *path, struct qr_buf *out, struct qr_err *err)
{
    struct answer answer = {hub, out};
    struct qr_http_reply reply;
    struct qr_http_request request = {.home = hub->endpoint,
                                      .token = hub->token,
                                      .begin = begin_answer,
                                      .write = write_answer,
                                      .tick = tick_answer,
                                      .ctx = &answer};
    enum qr_status status;
    char *url;

    if (asprintf(&url, "%s%s", hub->endpoint, path) < 0)
        return qr_fail(err, QR_NOMEM, "out of memory");
    request.url = url;
    status = ask(hub, &request, &reply, err);
    free(url);
    if (out->failed)
        return qr_fail(err, QR_LIMIT, "%.200s: the list of files is longer than the limit of %zu bytes", hub->name.repo,
                       out->cap);
    if (status == QR_OK && reply.code != 200)
        return qr_hub_refused(hub, hub->name.repo, &reply, err);
    return status;
}

bool qr_hub_file_url(const struct qr_hub *hub, const char *commit, const char *path, struct qr_buf *out)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";

    qr_buf_printf(out, "%s/%s/resolve/%s/", hub->endpoint, hub->name.repo, commit);
    for (; *path; path++)
        if (strchr(plain, *path))
            qr_buf_putc(out, *path);
        else
            qr_buf_printf(out, "%%%02X", (unsigned char)*path);
    return !out->failed;
}

enum qr_status qr_hub_get_head(struct qr_hub *hub, const char *commit, struct qr_hub_file *file, struct qr_err *err)
{
    struct qr_http_reply reply;
    struct qr_http_request request = {
        .home = hub->endpoint, .token = hub->token, .head = true, .tick = tick, .ctx = hub};
    enum qr_status status = QR_OK;
    struct qr_buf url;

    qr_buf_init(&url, 0);
    if (!qr_hub_file_url(hub, commit, file->path, &url)) {
        qr_buf_free(&url);
        return qr_fail(err, QR_NOMEM, "out of memory");
    }
    request.url = url.data;
    status = ask(hub, &request, &reply, err);
    qr_buf_free(&url);
    if (status != QR_OK)
        return status;
    if (reply.code / 100 != 2 && !(reply.code / 100 == 3 && reply.linked))
        return qr_hub_refused(hub, file->path, &reply, err);
    if (!qr_hub_plain(reply.etag, strlen(reply.etag)))
        return qr_fail(err, QR_FORMAT, "%.200s: the server names no ETag that could name a blob (\"%.80s\")",
                       file->path, reply.etag);
    snprintf(file->etag, sizeof file->etag, "%s", reply.etag);
    if (reply.has_linked_size || (reply.code / 100 == 2 && reply.has_length)) {
        uint64_t size = reply.has_linked_size ? reply.linked_size : reply.length;

        if (file->sized && file->size != size)
            return qr_fail(err, QR_FORMAT, "%.200s: the server says %llu bytes, but the list of files says %llu",
                           file->path, (unsigned long long)size, (unsigned long long)file->size);
        file->size = size;
        file->sized = true;
    }
    return QR_OK;
}
