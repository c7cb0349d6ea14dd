/* hub_http.c - see hub_http.h. */
#include "model/hub_http.h"
#define CURL_DISABLE_DEPRECATION /* CURLOPT_PROTOCOLS_STR is younger than what is to be supported */
#include <curl/curl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_REDIRECTS 10
#define CONNECT_S     20L
#define STALL_S       60L /* without a byte: the connection is given up */

/* The calls that are used, by their names in libcurl 7.62 and later. */
struct qr_http {
    void *library;
    CURL *handle;
    CURL *(*init)(void);
    void (*cleanup)(CURL *);
    void (*reset)(CURL *);
    CURLcode (*setopt)(CURL *, CURLoption, ...);
    CURLcode (*getinfo)(CURL *, CURLINFO, ...);
    CURLcode (*perform)(CURL *);
    const char *(*strerror)(CURLcode);
    struct curl_slist *(*slist_append)(struct curl_slist *, const char *);
    void (*slist_free)(struct curl_slist *);
    CURLU *(*url)(void);
    void (*url_cleanup)(CURLU *);
    CURLUcode (*url_set)(CURLU *, CURLUPart, const char *, unsigned int);
    CURLUcode (*url_get)(CURLU *, CURLUPart, char **, unsigned int);
    void (*free)(void *);
};

static bool find_calls(struct qr_http *h)
{
    const struct {
        const char *name;
        void *out; /* of a pointer to a function */
    } calls[] = {
        {"curl_easy_init", &h->init},
        {"curl_easy_cleanup", &h->cleanup},
        {"curl_easy_reset", &h->reset},
        {"curl_easy_setopt", &h->setopt},
        {"curl_easy_getinfo", &h->getinfo},
        {"curl_easy_perform", &h->perform},
        {"curl_easy_strerror", &h->strerror},
        {"curl_slist_append", &h->slist_append},
        {"curl_slist_free_all", &h->slist_free},
        {"curl_url", &h->url},
        {"curl_url_cleanup", &h->url_cleanup},
        {"curl_url_set", &h->url_set},
        {"curl_url_get", &h->url_get},
        {"curl_free", &h->free},
    };

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *symbol = dlsym(h->library, calls[i].name);

        if (!symbol)
            return false;
        memcpy(calls[i].out, &symbol, sizeof symbol);
    }
    return true;
}

enum qr_status qr_http_open(struct qr_http **http, struct qr_err *err)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    struct qr_http *h = calloc(1, sizeof *h);

    *http = NULL;
    if (!h)
        return qr_fail(err, QR_NOMEM, "out of memory");
    for (size_t i = 0; !h->library && i < sizeof names / sizeof *names; i++)
        h->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!h->library || !find_calls(h)) {
        enum qr_status status = qr_fail(err, QR_UNSUPPORTED,
                                        "downloading needs libcurl.so.4, version 7.62 or later, which is not "
                                        "installed: on Debian, apt-get install libcurl4 ca-certificates");

        qr_http_close(h);
        return status;
    }
    h->handle = h->init();
    if (!h->handle) {
        qr_http_close(h);
        return qr_fail(err, QR_NOMEM, "libcurl cannot start");
    }
    *http = h;
    return QR_OK;
}

/* The library stays: it may have left threads or handlers of its own. */
void qr_http_close(struct qr_http *http)
{
    if (!http)
        return;
    if (http->handle)
        http->cleanup(http->handle);
    free(http);
}

/* ---------------------------------------------------------------- the answer's header */

struct exchange {
    const struct qr_http_request *request;
    struct qr_http_reply *reply;
    bool began, refused, cancelled;
};

static void copy_value(char *to, size_t room, const char *s, size_t n)
{
    n = n < room ? n : room - 1;
    memcpy(to, s, n);
    to[n] = 0;
}

static bool read_number(const char *s, uint64_t *out)
{
    char *end;
    unsigned long long v;

    if (*s < '0' || *s > '9')
        return false;
    v = strtoull(s, &end, 10);
    *out = v;
    return v != UINT64_MAX;
}

/* "bytes 100-199/200" */
static void read_range(const char *s, struct qr_http_reply *reply)
{
    const char *slash = strchr(s, '/');

    reply->has_range = strncasecmp(s, "bytes ", 6) == 0 && read_number(s + 6, &reply->range_first) && slash &&
                       read_number(slash + 1, &reply->range_total);
}

static void read_etag(const char *s, size_t n, struct qr_http_reply *reply)
{
    if (n > 2 && strncmp(s, "W/", 2) == 0) {
        s += 2;
        n -= 2;
    }
    if (n >= 2 && s[0] == '"' && s[n - 1] == '"') {
        s++;
        n -= 2;
    }
    copy_value(reply->etag, sizeof reply->etag, s, n);
}

/* Another answer in the same request (100 Continue, a redirect) starts anew, but what the hub said of the file stays. */
static void start_reply(struct qr_http_reply *reply)
{
    reply->has_length = reply->has_range = false;
    reply->retry_after = -1;
    reply->message[0] = 0;
    if (!reply->linked)
        reply->etag[0] = 0;
}

static bool is_field(const char *line, const char *name)
{
    size_t n = strlen(name);

    return strncasecmp(line, name, n) == 0 && line[n] == ':';
}

static void read_field(const char *line, const char *value, size_t n, struct qr_http_reply *reply)
{
    uint64_t number;

    if (is_field(line, "content-length"))
        reply->has_length = read_number(value, &reply->length);
    else if (is_field(line, "content-range"))
        read_range(value, reply);
    else if (is_field(line, "retry-after"))
        reply->retry_after = read_number(value, &number) ? (int)(number < 3600 ? number : 3600) : -1;
    else if (is_field(line, "x-linked-size") && !reply->has_linked_size)
        reply->has_linked_size = read_number(value, &reply->linked_size);
    else if (is_field(line, "x-repo-commit") && !reply->commit[0])
        copy_value(reply->commit, sizeof reply->commit, value, n);
    else if (is_field(line, "x-error-message"))
        copy_value(reply->message, sizeof reply->message, value, n);
    else if (is_field(line, "x-linked-etag") && !reply->linked) {
        read_etag(value, n, reply);
        reply->linked = true;
    } else if (is_field(line, "etag") && !reply->linked)
        read_etag(value, n, reply);
}

static size_t on_header(char *data, size_t size, size_t n, void *ctx)
{
    struct exchange *x = ctx;
    char line[1024];
    size_t used = size * n, from;

    copy_value(line, sizeof line, data, used);
    for (from = strlen(line); from > 0 && strchr("\r\n \t", line[from - 1]); from--)
        line[from - 1] = 0;
    if (strncmp(line, "HTTP/", 5) == 0) {
        start_reply(x->reply);
        return used;
    }
    from = strcspn(line, ":");
    if (line[from] == ':') {
        const char *value = line + from + 1 + strspn(line + from + 1, " \t");

        read_field(line, value, strlen(value), x->reply);
    }
    return used;
}

/* ---------------------------------------------------------------- one request */

struct step { /* of a chain of redirects */
    struct exchange exchange;
    struct qr_http *http;
};

static size_t on_body(char *data, size_t size, size_t n, void *ctx)
{
    struct step *step = ctx;
    struct exchange *x = &step->exchange;
    size_t used = size * n;

    if (!x->began) {
        step->http->getinfo(step->http->handle, CURLINFO_RESPONSE_CODE, &x->reply->code);
        x->began = true;
        if (x->reply->code / 100 == 2 && x->request->begin && !x->request->begin(x->request->ctx, x->reply)) {
            x->refused = true;
            return 0;
        }
    }
    if (x->reply->code / 100 != 2 || !x->request->write) /* an error's page */
        return used;
    if (x->request->write(x->request->ctx, data, used))
        return used;
    x->refused = true;
    return 0;
}

static int on_tick(void *ctx, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
    struct step *step = ctx;

    (void)down_total, (void)down, (void)up_total, (void)up;
    if (step->exchange.request->tick && !step->exchange.request->tick(step->exchange.request->ctx))
        step->exchange.cancelled = true;
    return step->exchange.cancelled;
}

/* Do two URLs have the same scheme, host and port? By libcurl's own reading, which is the one that connects. */
static bool same_origin(struct qr_http *h, const char *a, const char *b)
{
    static const CURLUPart parts[] = {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT};
    CURLU *one = h->url(), *two = h->url();
    bool same = one && two && h->url_set(one, CURLUPART_URL, a, 0) == CURLUE_OK &&
                h->url_set(two, CURLUPART_URL, b, 0) == CURLUE_OK;

    for (size_t i = 0; same && i < sizeof parts / sizeof *parts; i++) {
        char *x = NULL, *y = NULL;

        same = h->url_get(one, parts[i], &x, CURLU_DEFAULT_PORT) == CURLUE_OK &&
               h->url_get(two, parts[i], &y, CURLU_DEFAULT_PORT) == CURLUE_OK && strcasecmp(x, y) == 0;
        h->free(x);
        h->free(y);
    }
    if (one)
        h->url_cleanup(one);
    if (two)
        h->url_cleanup(two);
    return same;
}

static struct curl_slist *make_fields(struct qr_http *h, const struct qr_http_request *r, const char *url, bool *ok)
{
    struct curl_slist *list = h->slist_append(NULL, "Accept-Encoding: identity");
    char *line = NULL;

    *ok = list != NULL;
    if (*ok && r->token && same_origin(h, r->home, url)) {
        *ok = asprintf(&line, "Authorization: Bearer %s", r->token) >= 0;
        if (*ok) {
            *ok = h->slist_append(list, line) != NULL;
            free(line);
        }
    }
    if (*ok && r->from > 0) {
        *ok = asprintf(&line, "Range: bytes=%llu-", (unsigned long long)r->from) >= 0;
        if (*ok) {
            *ok = h->slist_append(list, line) != NULL;
            free(line);
        }
    }
    return list;
}

static void set_options(struct qr_http *h, const struct qr_http_request *r, const char *url, struct step *step,
                        struct curl_slist *fields)
{
    h->reset(h->handle);
    h->setopt(h->handle, CURLOPT_URL, url);
    h->setopt(h->handle, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    h->setopt(h->handle, CURLOPT_NOSIGNAL, 1L);
    h->setopt(h->handle, CURLOPT_USERAGENT, "quire");
    h->setopt(h->handle, CURLOPT_NOBODY, r->head ? 1L : 0L);
    h->setopt(h->handle, CURLOPT_HTTPHEADER, fields);
    h->setopt(h->handle, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    h->setopt(h->handle, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
    h->setopt(h->handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
    h->setopt(h->handle, CURLOPT_LOW_SPEED_TIME, STALL_S);
    h->setopt(h->handle, CURLOPT_BUFFERSIZE, 256L << 10);
    h->setopt(h->handle, CURLOPT_HEADERFUNCTION, on_header);
    h->setopt(h->handle, CURLOPT_HEADERDATA, &step->exchange);
    h->setopt(h->handle, CURLOPT_WRITEFUNCTION, on_body);
    h->setopt(h->handle, CURLOPT_WRITEDATA, step);
    h->setopt(h->handle, CURLOPT_NOPROGRESS, 0L);
    h->setopt(h->handle, CURLOPT_XFERINFOFUNCTION, on_tick);
    h->setopt(h->handle, CURLOPT_XFERINFODATA, step);
}

static enum qr_status one_request(struct qr_http *h, const struct qr_http_request *r, const char *url,
                                  struct qr_http_reply *reply, struct qr_err *err)
{
    struct step step = {.exchange = {.request = r, .reply = reply}, .http = h};
    bool ok;
    struct curl_slist *fields = make_fields(h, r, url, &ok);
    CURLcode code = CURLE_OUT_OF_MEMORY;

    reply->code = 0;
    start_reply(reply);
    if (ok) {
        set_options(h, r, url, &step, fields);
        code = h->perform(h->handle);
        h->getinfo(h->handle, CURLINFO_RESPONSE_CODE, &reply->code);
    }
    h->slist_free(fields);
    if (step.exchange.cancelled)
        return qr_fail(err, QR_CANCELLED, "stopped");
    if (step.exchange.refused)
        return qr_fail(err, QR_CANCELLED, "the answer was not wanted");
    if (code == CURLE_OUT_OF_MEMORY)
        return qr_fail(err, QR_NOMEM, "out of memory for a request");
    if (code != CURLE_OK) {
        snprintf(reply->message, sizeof reply->message, "%s", h->strerror(code));
        return qr_fail(err, QR_IO, "%.200s: %s", url, reply->message);
    }
    return QR_OK;
}

static bool is_redirect(long code)
{
    return code == 301 || code == 302 || code == 303 || code == 307 || code == 308;
}

enum qr_status qr_http_do(struct qr_http *http, const struct qr_http_request *request, struct qr_http_reply *reply,
                          struct qr_err *err)
{
    char *url = strdup(request->url);
    enum qr_status status = url ? QR_OK : qr_fail(err, QR_NOMEM, "out of memory");

    *reply = (struct qr_http_reply){.retry_after = -1};
    for (int hop = 0; status == QR_OK; hop++) {
        const char *next = NULL;

        status = one_request(http, request, url, reply, err);
        if (status != QR_OK || !is_redirect(reply->code))
            break;
        http->getinfo(http->handle, CURLINFO_REDIRECT_URL, &next);
        /* the hub has said all about the file; its store need not be asked */
        if (request->head && reply->linked && next && !same_origin(http, url, next))
            break;
        if (!next || hop == MAX_REDIRECTS)
            status = qr_fail(err, QR_FORMAT, "%.200s: %s", request->url,
                             next ? "more than 10 redirects" : "a redirect to nowhere");
        else if (strncasecmp(next, "http", 4) != 0)
            status =
                qr_fail(err, QR_FORMAT, "%.200s redirects to \"%.100s\", which is no web address", request->url, next);
        else if (strncasecmp(url, "https:", 6) == 0 && strncasecmp(next, "https:", 6) != 0)
            status =
                qr_fail(err, QR_FORMAT, "%.200s redirects to an address without https, which is refused", request->url);
        else {
            free(url);
            url = strdup(next);
            if (!url)
                status = qr_fail(err, QR_NOMEM, "out of memory");
        }
    }
    free(url);
    return status;
}
