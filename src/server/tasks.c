/* tasks.c - a worker's part of a request: the body parsed, checked, templated, tokenized, and handed to the engine. */
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "server/serve_parts.h"

/* At least as many values as the body has: one, and one more behind every comma outside of strings. */
static size_t count_values(const char *text, size_t n)
{
    size_t count = 1;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else
            count += !quoted && (text[i] == ',' || text[i] == '[' || text[i] == '{');
    }
    return count;
}

static enum qr_status parse_body(struct qr_exchange *x, json_t **body, struct qr_openai_error *error)
{
    size_t n = count_values(x->body ? x->body : "", x->n_body);
    *body = NULL;
    if (x->n_body == 0)
        return qr_openai_fail(error, QR_INVALID, NULL, "the request has no body: send a JSON object");
    if (n > QR_OPENAI_MAX_VALUES)
        return qr_openai_fail(error, QR_LIMIT, NULL,
                              "the request's body has about %zu JSON values: at most %d are taken", n,
                              QR_OPENAI_MAX_VALUES);
    return qr_json_parse(x->body, x->n_body, "the request's body", body, &error->err);
}

static void free_body(struct qr_server *s, struct qr_exchange *x)
{
    free(x->body);
    x->body = NULL;
    qr_serve_account(s, -x->accounted);
    x->accounted = 0;
}

/* 404, for OpenAI's clients have an exception for it. */
static bool refuse_model(struct qr_server *s, struct qr_exchange *x, const json_t *body)
{
    const char *name = json_string_value(json_object_get(body, "model"));
    if (!name || qr_serve_knows_model(s, name))
        return false;
    char message[256];
    snprintf(message, sizeof message, "The model `%.100s` does not exist here: the name is `%.100s`", name,
             s->options.model_name[0]);
    json_t *text = json_string(message);
    if (!text)
        text = json_string("The model does not exist here: see /v1/models");
    qr_exchange_json(x, 404,
                     json_pack("{s:{s:o, s:s, s:s, s:s}}", "error", "message", text, "type", "invalid_request_error",
                               "param", "model", "code", "model_not_found"));
    return true;
}

/* What the server's options say in place of what the request left out. */
static void take_defaults(const struct qr_serve_options *o, const json_t *body, struct qr_sampling *sampling)
{
    const json_t *temperature = json_object_get(body, "temperature"), *top_p = json_object_get(body, "top_p");
    if (o->has_seed && !sampling->has_seed) {
        sampling->has_seed = true;
        sampling->seed = o->seed;
    }
    if (o->has_temperature && (!temperature || json_is_null(temperature)))
        sampling->temperature = o->temperature;
    if (o->has_top_p && (!top_p || json_is_null(top_p)))
        sampling->top_p = o->top_p;
}

static void generate(struct qr_server *s, struct qr_exchange *x, json_t *body)
{
    struct qr_openai_request request = {0};
    struct qr_openai_error error = {0};
    enum qr_openai_api api = x->route == QR_ROUTE_CHAT ? QR_OPENAI_CHAT : QR_OPENAI_COMPLETIONS;
    enum qr_status status = qr_openai_request_read(s->model, qr_engine_max_len(s->engine), api, body, &request, &error);
    bool chosen = request.tools != QR_TOOLS_NONE && request.tools != QR_TOOLS_NAMED && request.tools != QR_TOOLS_FORCED;
    if (chosen && s->options.has_tools)
        request.tools = s->options.tools;
    request.thinks = request.thinks && !s->options.no_thoughts;
    if (status == QR_OK) {
        take_defaults(&s->options, body, &request.sampling);
        status = qr_live_submit(&s->live, x, &request, s->options.model_name[0], &error);
    }
    if (status != QR_OK)
        qr_exchange_error(x, &error);
}

/* ---------------------------------------------------------------- /tokenize and /detokenize */

static json_t *ids_json(const int32_t *ids, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n && list; i++)
        if (json_array_append_new(list, json_integer(ids[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* The ids of "prompt", or of "messages" through the chat template; the fields are those of vLLM's /tokenize. */
static enum qr_status tokenize(struct qr_server *s, const json_t *body, int32_t **ids, size_t *n,
                               struct qr_openai_error *error)
{
    const json_t *prompt = json_object_get(body, "prompt");
    bool chat = json_object_get(body, "messages"), special = !chat, strings = false;
    QR_TRY(qr_json_bool(body, "add_special_tokens", &special, &error->err));
    QR_TRY(qr_json_bool(body, "return_token_strs", &strings, &error->err));
    if (strings)
        return qr_openai_fail(error, QR_UNSUPPORTED, "return_token_strs",
                              "\"return_token_strs\" is not supported here: ask /detokenize for each id's text");
    if (!chat && !json_is_string(prompt))
        return qr_openai_fail(error, QR_INVALID, "prompt", "give \"prompt\", a string, or \"messages\", a list");
    if (!chat)
        return qr_tokenize(s->model, json_string_value(prompt), json_string_length(prompt), true, special, ids, n,
                           &error->err);
    char *request = json_dumps(body, JSON_COMPACT), *text;
    size_t n_text;
    if (!request)
        return qr_openai_fail(error, QR_NOMEM, NULL, "out of memory for the messages");
    enum qr_status status = qr_chat_prompt(s->model, request, &text, &n_text, &error->err);
    free(request);
    QR_TRY(status);
    status = qr_tokenize(s->model, text, n_text, true, special, ids, n, &error->err);
    qr_free(text);
    return status;
}

static void answer_tokenize(struct qr_server *s, struct qr_exchange *x, const json_t *body)
{
    struct qr_openai_error error = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    if (!json_is_object(body))
        qr_openai_fail(&error, QR_INVALID, NULL, "the request's body must be a JSON object");
    else
        tokenize(s, body, &ids, &n, &error);
    if (error.err.status != QR_OK)
        qr_exchange_error(x, &error);
    else
        qr_exchange_json(x, 200,
                         json_pack("{s:I, s:i, s:o}", "count", (json_int_t)n, "max_model_len",
                                   qr_engine_max_len(s->engine), "tokens", ids_json(ids, n)));
    qr_free(ids);
}

static enum qr_status detokenize(struct qr_server *s, const json_t *body, char **text, size_t *n_text,
                                 struct qr_openai_error *error)
{
    const json_t *list = json_object_get(body, "tokens");
    size_t n = json_array_size(list);
    int n_vocab = qr_model_vocab_size(s->model);
    if (!json_is_array(list))
        return qr_openai_fail(error, QR_INVALID, "tokens", "\"tokens\" must be a list of token ids");
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    if (!ids)
        return qr_openai_fail(error, QR_NOMEM, "tokens", "out of memory for %zu ids", n);
    enum qr_status status = QR_OK;
    for (size_t i = 0; i < n && status == QR_OK; i++) {
        const json_t *one = json_array_get(list, i);
        json_int_t id = json_is_integer(one) ? json_integer_value(one) : -1;
        if (id < 0 || id >= n_vocab)
            status = qr_openai_fail(error, QR_INVALID, "tokens", "\"tokens\" entry %zu must be a token id, 0 to %d", i,
                                    n_vocab - 1);
        ids[i] = (int32_t)id;
    }
    if (status == QR_OK)
        status = qr_detokenize(s->model, ids, n, false, text, n_text, &error->err);
    free(ids);
    return status;
}

static void answer_detokenize(struct qr_server *s, struct qr_exchange *x, const json_t *body)
{
    struct qr_openai_error error = {0};
    char *text = NULL;
    size_t n = 0;
    if (detokenize(s, body, &text, &n, &error) != QR_OK)
        qr_exchange_error(x, &error);
    else
        qr_exchange_json(x, 200, json_pack("{s:o}", "prompt", json_stringn(text, n)));
    qr_free(text);
}

void qr_serve_task(void *ctx, struct qr_exchange *x)
{
    struct qr_server *s = ctx;
    struct qr_openai_error error = {0};
    json_t *body = NULL;
    if (qr_exchange_gone(x)) {
        free_body(s, x);
        return;
    }
    enum qr_status status = parse_body(x, &body, &error);
    free_body(s, x);
    if (status != QR_OK)
        qr_exchange_error(x, &error);
    else if (refuse_model(s, x, body))
        ; /* answered */
    else if (x->route == QR_ROUTE_TOKENIZE)
        answer_tokenize(s, x, body);
    else if (x->route == QR_ROUTE_DETOKENIZE)
        answer_detokenize(s, x, body);
    else
        generate(s, x, body);
    json_decref(body);
}
