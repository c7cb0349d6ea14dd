/* routes.c - the loop's part of a request: which route, who may, how much; what needs no model is answered here. */
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/rand.h"
#include "engine/model.h"
#include "server/guard.h"
#include "server/page.h"
#include "server/serve_parts.h"

enum { GET = 1, POST = 2 };

static const struct {
    const char *path;
    enum qr_route route;
    int method;
    bool open; /* without a key */
} routes[] = {
    {"/", QR_ROUTE_PAGE, GET, true},
    {"/health", QR_ROUTE_HEALTH, GET, true},
    {"/ready", QR_ROUTE_READY, GET, true},
    {"/metrics", QR_ROUTE_METRICS, GET, true},
    {"/version", QR_ROUTE_VERSION, GET, true},
    {"/v1/models", QR_ROUTE_MODELS, GET, false},
    {"/v1/completions", QR_ROUTE_COMPLETIONS, POST, false},
    {"/v1/chat/completions", QR_ROUTE_CHAT, POST, false},
    {"/tokenize", QR_ROUTE_TOKENIZE, POST, false},
    {"/detokenize", QR_ROUTE_DETOKENIZE, POST, false},
    {"/tokenizer_info", QR_ROUTE_TOKENIZER_INFO, GET, false},
};
enum { N_ROUTE = sizeof routes / sizeof *routes };

struct verdict { /* on a request's head */
    int status;  /* 0: go on */
    const char *message, *code;
    int route; /* index */
    char fields[256];
};

static int find_route(const char *path)
{
    for (int i = 0; i < N_ROUTE; i++)
        if (strcmp(routes[i].path, path) == 0 ||
            (routes[i].route == QR_ROUTE_MODELS && strncmp(path, "/v1/models/", 11) == 0))
            return i;
    return -1;
}

static int method_bit(const char *method)
{
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
        return GET;
    return strcmp(method, "POST") == 0 ? POST : 0;
}

static void cors_fields(const struct qr_server *s, const struct qr_http_request *r, struct verdict *v)
{
    const char *origin = qr_http_field(r, "Origin");
    if (origin && strlen(origin) < 128 && qr_guard_origin_listed(&s->options, origin))
        snprintf(v->fields, sizeof v->fields, "Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n", origin);
}

static struct verdict refuse(struct verdict v, int status, const char *code, const char *message)
{
    v.status = status;
    v.code = code;
    v.message = message;
    return v;
}

static struct verdict judge(const struct qr_server *s, const struct qr_http_request *r)
{
    struct verdict v = {.route = find_route(r->path)};
    const char *host = qr_http_field(r, "Host");
    if (!qr_guard_host(&s->options, host))
        return refuse(v, 403, "forbidden",
                      "the Host field names another server: start this one with --allowed-host to let that name in");
    if (!qr_guard_origin(&s->options, qr_http_field(r, "Origin"), host))
        return refuse(v, 403, "forbidden",
                      "a page of another site may not ask: start the server with --allowed-origin to let it");
    cors_fields(s, r, &v);
    if (strcmp(r->method, "OPTIONS") == 0 && *v.fields)
        return refuse(v, 204, NULL, NULL);
    if (v.route < 0)
        return refuse(v, 404, "not_found",
                      "there is no such path here: there are /v1/chat/completions, /v1/completions, /v1/models, "
                      "/tokenize, /detokenize, /tokenizer_info, "
                      "/health, /ready, /metrics, /version, and the chat page at /");
    if (!(routes[v.route].method & method_bit(r->method)))
        return refuse(v, 405, "method_not_allowed",
                      routes[v.route].method == GET ? "this path is asked with GET" : "this path is asked with POST");
    if (!routes[v.route].open && !qr_guard_key(&s->options, qr_http_field(r, "Authorization")))
        return refuse(v, 401, "invalid_api_key", "the API key is missing or wrong: send Authorization: Bearer KEY");
    if (routes[v.route].method == POST)
        switch (atomic_load(&s->state)) {
        case QR_SERVE_LOADING:
            return refuse(v, 503, "loading", "the model is still being loaded: try again later");
        case QR_SERVE_DRAINING:
            return refuse(v, 503, "draining", "the server is shutting down");
        case QR_SERVE_FAILED:
            return refuse(v, 503, "engine_dead", "the engine stopped working");
        }
    return v;
}

static void answer_text(struct qr_server *s, struct qr_http_request *r, int status, const char *type,
                        const char *fields, const char *text, size_t n)
{
    qr_metrics_http(&s->metrics, status);
    qr_http_answer(r, status, type, fields, text, n);
}

static void answer_json(struct qr_server *s, struct qr_http_request *r, int status, const char *fields, json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (text)
        answer_text(s, r, status, "application/json", fields, text, strlen(text));
    else
        answer_text(s, r, 500, "application/json", fields, "{}", 2);
    free(text);
}

static void answer_refusal(struct qr_server *s, struct qr_http_request *r, const struct verdict *v)
{
    char fields[512];
    const char *more = "";
    if (v->status == 204)
        more = "Access-Control-Allow-Methods: GET, POST, OPTIONS\r\nAccess-Control-Allow-Headers: authorization, "
               "content-type\r\nAccess-Control-Max-Age: 600\r\n";
    else if (v->status == 405)
        more = routes[v->route].method == GET ? "Allow: GET, HEAD\r\n" : "Allow: POST\r\n";
    else if (v->status == 401)
        more = "WWW-Authenticate: Bearer\r\n";
    else if (v->status == 503 || v->status == 429)
        more = "Retry-After: 1\r\n";
    snprintf(fields, sizeof fields, "%s%s", v->fields, more);
    if (v->status == 204) {
        answer_text(s, r, 204, NULL, fields, "", 0);
        return;
    }
    const char *type = v->status == 429                       ? "rate_limit_error"
                       : v->status >= 500                     ? "server_error"
                       : v->status == 401 || v->status == 403 ? "authentication_error"
                                                              : "invalid_request_error";
    answer_json(
        s, r, v->status, fields,
        json_pack("{s:{s:s, s:s, s:n, s:s}}", "error", "message", v->message, "type", type, "param", "code", v->code));
}

bool qr_serve_head(void *ctx, struct qr_http_request *r)
{
    struct qr_server *s = ctx;
    struct verdict v = judge(s, r);
    if (!v.status)
        return true;
    answer_refusal(s, r, &v);
    return false;
}

/* ---------------------------------------------------------------- GET */

static json_t *model_json(const struct qr_server *s, const char *name)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:n, s:i}", "id", name, "object", "model", "created",
                     (json_int_t)s->started_unix, "owned_by", "quire", "root", s->options.model_name[0], "parent",
                     "max_model_len", qr_engine_max_len(s->engine));
}

bool qr_serve_knows_model(const struct qr_server *s, const char *name)
{
    for (size_t i = 0; i < s->options.n_model_name; i++)
        if (strcmp(name, s->options.model_name[i]) == 0)
            return true;
    return false;
}

static void answer_models(struct qr_server *s, struct qr_http_request *r, const struct verdict *v)
{
    struct verdict missing = *v;
    bool ready = atomic_load(&s->attached);
    if (strlen(r->path) > 11) {
        if (ready && qr_serve_knows_model(s, r->path + 11)) {
            answer_json(s, r, 200, v->fields, model_json(s, r->path + 11));
            return;
        }
        missing = refuse(missing, 404, "model_not_found", "there is no such model here: see /v1/models");
        answer_refusal(s, r, &missing);
        return;
    }
    json_t *list = json_array();
    for (size_t i = 0; ready && i < s->options.n_model_name; i++)
        json_array_append_new(list, model_json(s, s->options.model_name[i]));
    answer_json(s, r, 200, v->fields, json_pack("{s:s, s:o}", "object", "list", "data", list));
}

/* A token's text; null: there is none. */
static json_t *token_text(const struct qr_tokenizer *tok, int32_t id)
{
    size_t n;
    const char *text = id >= 0 ? qr_tokenizer_bytes(tok, id, &n) : NULL;
    return text ? json_stringn(text, n) : json_null();
}

/* vLLM's path, of which lm-eval asks the special tokens. */
static void answer_tokenizer_info(struct qr_server *s, struct qr_http_request *r, const struct verdict *v)
{
    const struct qr_tokenizer *tok = atomic_load(&s->attached) ? s->model->tok : NULL;
    if (!tok) {
        struct verdict none = atomic_load(&s->attached)
                                  ? refuse(*v, 404, "not_found", "this model came without a tokenizer")
                                  : refuse(*v, 503, "loading", "the model is still being loaded: try again later");
        answer_refusal(s, r, &none);
        return;
    }
    json_t *bos = token_text(tok, qr_tokenizer_bos(tok)), *eos = token_text(tok, qr_tokenizer_eos(tok));
    json_t *template = s->model->chat ? json_string(qr_chat_default_text(s->model->chat)) : json_null();
    answer_json(s, r, 200, v->fields,
                json_pack("{s:s, s:o, s:o, s:i, s:i, s:o}", "tokenizer_class", "quire", "bos_token", bos, "eos_token",
                          eos, "vocab_size", qr_tokenizer_n_vocab(tok), "model_max_length",
                          qr_engine_max_len(s->engine), "chat_template", template));
}

static void answer_metrics(struct qr_server *s, struct qr_http_request *r, const struct verdict *v)
{
    struct qr_engine_stats stats;
    struct qr_buf out;
    bool attached = atomic_load(&s->attached);
    struct qr_metrics_scene scene = {
        .model_name = s->options.model_name[0],
        .n_conn = qr_http_n_conn(s->http),
        .body_bytes = atomic_load(&s->body_bytes),
    };
    if (attached) {
        qr_engine_stats(s->engine, &stats);
        scene.stats = &stats;
        scene.max_model_len = qr_engine_max_len(s->engine);
    }
    qr_buf_init(&out, 1 << 20);
    bool ok = qr_metrics_print(&s->metrics, &scene, &out);
    answer_text(s, r, ok ? 200 : 500, "text/plain; version=0.0.4; charset=utf-8", v->fields, ok ? out.data : "",
                ok ? out.len : 0);
    qr_buf_free(&out);
}

static void answer_state(struct qr_server *s, struct qr_http_request *r, const struct verdict *v, bool ready_asked)
{
    static const char *const word[] = {"loading", "ok", "draining", "engine dead"};
    int state = atomic_load(&s->state);
    bool good = state == QR_SERVE_READY || (state == QR_SERVE_DRAINING && !ready_asked);
    char fields[300];
    snprintf(fields, sizeof fields, "%s%s", v->fields, good ? "" : "Retry-After: 1\r\n");
    answer_json(s, r, good ? 200 : 503, fields, json_pack("{s:s}", "status", word[state]));
}

static void answer_page(struct qr_server *s, struct qr_http_request *r)
{
    size_t n;
    const char *html = qr_page_html(&n);
    answer_text(s, r, 200, "text/html; charset=utf-8", qr_page_fields(), html, n);
}

static void answer_get(struct qr_server *s, struct qr_http_request *r, const struct verdict *v)
{
    switch (routes[v->route].route) {
    case QR_ROUTE_HEALTH:
    case QR_ROUTE_READY:
        answer_state(s, r, v, routes[v->route].route == QR_ROUTE_READY);
        return;
    case QR_ROUTE_PAGE:
        answer_page(s, r);
        return;
    case QR_ROUTE_METRICS:
        answer_metrics(s, r, v);
        return;
    case QR_ROUTE_MODELS:
        answer_models(s, r, v);
        return;
    case QR_ROUTE_TOKENIZER_INFO:
        answer_tokenizer_info(s, r, v);
        return;
    default:
        answer_json(s, r, 200, v->fields, json_pack("{s:s}", "version", qr_version()));
    }
}

/* ---------------------------------------------------------------- POST */

/* FNV-1a (Fowler, Noll, Vo), of the key or else the address: requests of one client share their turns. */
static uint64_t hash_client(const struct qr_http_request *r)
{
    const char *text = qr_http_field(r, "Authorization");
    uint64_t hash = 14695981039346656037u;
    for (text = text ? text : r->peer; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash;
}

static void to_workers(struct qr_server *s, struct qr_http_request *r, struct verdict *v)
{
    struct qr_exchange *x = qr_exchange_create(&s->outbox);
    if (!x) {
        *v = refuse(*v, 503, "out_of_memory", "out of memory for a request: try again later");
        answer_refusal(s, r, v);
        return;
    }
    x->route = routes[v->route].route;
    x->number = qr_rand_fresh_seed();
    x->client = hash_client(r);
    x->arrived_ns = qr_now_ns();
    snprintf(x->peer, sizeof x->peer, "%s", r->peer);
    snprintf(x->fields, sizeof x->fields, "%s", v->fields);
    x->body = r->body;
    x->n_body = r->n_body;
    x->accounted = (int64_t)r->n_body;
    x->http = r;
    if (!qr_workers_push(s->workers, x)) {
        x->body = NULL;
        qr_exchange_drop(x);
        *v = refuse(*v, 429, "busy", "too many requests wait to be read: try again later");
        answer_refusal(s, r, v);
        return;
    }
    r->body = NULL; /* the exchange has it */
    r->user = x;    /* with the loop's reference */
    s->n_open++;
}

void qr_serve_whole(void *ctx, struct qr_http_request *r)
{
    struct qr_server *s = ctx;
    struct verdict v = judge(s, r);
    if (v.status)
        answer_refusal(s, r, &v);
    else if (routes[v.route].method == GET)
        answer_get(s, r, &v);
    else
        to_workers(s, r, &v);
}

void qr_serve_gone(void *ctx, struct qr_http_request *r)
{
    struct qr_server *s = ctx;
    struct qr_exchange *x = r->user;
    if (!x)
        return;
    r->user = NULL;
    x->http = NULL;
    qr_live_cancel(&s->live, x);
    qr_exchange_drop(x);
    s->n_open--;
}

bool qr_serve_account(void *ctx, int64_t n)
{
    struct qr_server *s = ctx;
    int64_t before = atomic_fetch_add(&s->body_bytes, n);
    if (n <= 0 || before + n <= s->options.max_body_bytes)
        return true;
    atomic_fetch_sub(&s->body_bytes, n);
    return false;
}
