/* openai_request.c - a request's body as a whole: which fields there are, which are refused, what the engine will say. */
#include "server/openai_request.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "engine/model.h"
#include "engine/request.h"
#include "server/openai_parse.h"

enum treatment { READ, IGNORED, REFUSED };
enum { IN_COMPLETIONS = 1, IN_CHAT = 2, IN_BOTH = 3 };

/* What a field does to the answer decides: REFUSED ones would change it, IGNORED ones would not. */
static const struct field {
    const char *name;
    int where;
    enum treatment treatment;
} fields[] = {
    {"model", IN_BOTH, READ},
    {"prompt", IN_COMPLETIONS, READ},
    {"messages", IN_CHAT, READ},
    {"tools", IN_CHAT, READ},
    {"tool_choice", IN_CHAT, READ},
    {"documents", IN_CHAT, READ},
    {"add_generation_prompt", IN_CHAT, READ},
    {"chat_template_kwargs", IN_CHAT, READ},
    {"max_tokens", IN_BOTH, READ},
    {"max_completion_tokens", IN_BOTH, READ},
    {"temperature", IN_BOTH, READ},
    {"top_p", IN_BOTH, READ},
    {"top_k", IN_BOTH, READ},
    {"min_p", IN_BOTH, READ},
    {"n", IN_BOTH, READ},
    {"stop", IN_BOTH, READ},
    {"stop_token_ids", IN_BOTH, READ},
    {"ignore_eos", IN_BOTH, READ},
    {"min_tokens", IN_BOTH, READ},
    {"seed", IN_BOTH, READ},
    {"presence_penalty", IN_BOTH, READ},
    {"frequency_penalty", IN_BOTH, READ},
    {"repetition_penalty", IN_BOTH, READ},
    {"logit_bias", IN_BOTH, READ},
    {"logprobs", IN_BOTH, READ},
    {"top_logprobs", IN_CHAT, READ},
    {"priority", IN_BOTH, READ},
    {"cache_salt", IN_BOTH, READ},
    {"stream", IN_BOTH, READ},
    {"stream_options", IN_BOTH, READ},
    {"user", IN_BOTH, IGNORED},
    {"metadata", IN_BOTH, IGNORED},
    {"store", IN_BOTH, IGNORED},
    {"service_tier", IN_BOTH, IGNORED},
    {"safety_identifier", IN_BOTH, IGNORED},
    {"prompt_cache_key", IN_BOTH, IGNORED},
    {"prompt_cache_retention", IN_BOTH, IGNORED},
    {"best_of", IN_BOTH, REFUSED},
    {"echo", IN_BOTH, READ},
    {"suffix", IN_BOTH, REFUSED},
    {"prompt_logprobs", IN_BOTH, READ},
    {"response_format", IN_BOTH, READ},
    {"structured_outputs", IN_BOTH, READ},
    {"guided_json", IN_BOTH, READ},
    {"guided_regex", IN_BOTH, READ},
    {"guided_choice", IN_BOTH, READ},
    {"functions", IN_CHAT, REFUSED},
    {"function_call", IN_CHAT, REFUSED},
    {"parallel_tool_calls", IN_CHAT, READ},
    {"modalities", IN_CHAT, REFUSED},
    {"audio", IN_CHAT, REFUSED},
    {"prediction", IN_CHAT, REFUSED},
    {"reasoning_effort", IN_CHAT, REFUSED},
    {"verbosity", IN_CHAT, REFUSED},
    {"web_search_options", IN_CHAT, REFUSED},
};
enum { N_FIELD = sizeof fields / sizeof *fields };

static const char *const api_path[] = {
    [QR_OPENAI_COMPLETIONS] = "/v1/completions", [QR_OPENAI_CHAT] = "/v1/chat/completions"};

bool qr_openai_api_of(const char *path, enum qr_openai_api *api)
{
    for (int i = 0; i < 2; i++)
        if (strcmp(path, api_path[i]) == 0) {
            *api = (enum qr_openai_api)i;
            return true;
        }
    return false;
}

const json_t *qr_openai_field(const struct qr_openai_parse *p, const char *key)
{
    const json_t *value = json_object_get(p->body, key);
    return json_is_null(value) ? NULL : value;
}

enum qr_status qr_openai_blame(struct qr_openai_parse *p, const char *key, enum qr_status status)
{
    size_t n = strlen(key) < sizeof p->error->param ? strlen(key) : sizeof p->error->param - 1;
    if (status != QR_OK) {
        memcpy(p->error->param, key, n);
        p->error->param[n] = 0;
    }
    return status;
}

enum qr_status qr_openai_no_memory(struct qr_openai_parse *p, const char *key)
{
    return qr_openai_fail(p->error, QR_NOMEM, key, "out of memory while \"%s\" was read", key);
}

/* Does this value of a refused field ask for nothing, so that there is nothing to refuse? */
static bool is_neutral(const char *key, const json_t *value)
{
    const char *text = json_string_value(value);
    if (strcmp(key, "modalities") == 0)
        text = json_array_size(value) == 1 ? json_string_value(json_array_get(value, 0)) : NULL;
    if (strcmp(key, "best_of") == 0)
        return json_is_integer(value) && json_integer_value(value) == 1;
    if (strcmp(key, "functions") == 0)
        return json_is_array(value) && json_array_size(value) == 0;
    return text && ((strcmp(key, "suffix") == 0 && !*text) ||
                    (strcmp(key, "function_call") == 0 && strcmp(text, "none") == 0) ||
                    (strcmp(key, "modalities") == 0 && strcmp(text, "text") == 0));
}

static const struct field *find_field(const char *key)
{
    for (size_t i = 0; i < N_FIELD; i++)
        if (strcmp(fields[i].name, key) == 0)
            return &fields[i];
    return NULL;
}

static enum qr_status check_field(struct qr_openai_parse *p, const char *key, const json_t *value)
{
    struct qr_openai_request *r = p->request;
    const struct field *field = find_field(key);
    const char *path = api_path[r->api];
    if (!field || !(field->where & (r->api == QR_OPENAI_CHAT ? IN_CHAT : IN_COMPLETIONS)))
        return qr_openai_fail(p->error, QR_INVALID, key, "\"%.60s\" is no field of %s: leave it out", key, path);
    if (field->treatment == REFUSED && !is_neutral(key, value))
        return qr_openai_fail(p->error, QR_UNSUPPORTED, key,
                              "\"%s\" would change the answer and is not supported here: leave it out", key);
    if (field->treatment != READ && r->n_ignored < QR_OPENAI_MAX_IGNORED)
        r->ignored[r->n_ignored++] = field->name;
    return QR_OK;
}

static enum qr_status check_fields(struct qr_openai_parse *p)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)p->body, key, value)
    {
        if (!json_is_null(value))
            QR_TRY(check_field(p, key, value));
    }
    return QR_OK;
}

/* The field that an error of qr_request_check speaks of: its messages start with the name. */
static void blame_by_message(struct qr_openai_parse *p)
{
    const char *message = p->error->err.message;
    qr_openai_blame(p, p->request->api == QR_OPENAI_CHAT ? "messages" : "prompt", p->error->err.status);
    for (size_t i = 0; i < N_FIELD; i++) {
        size_t n = strlen(fields[i].name);
        if (strncmp(message, fields[i].name, n) == 0 && !isalnum((unsigned char)message[n]) && message[n] != '_' &&
            strcmp(fields[i].name, "prompt") != 0)
            qr_openai_blame(p, fields[i].name, p->error->err.status);
    }
}

/* What the engine would say on submission, for every prompt, before the first one is sent. */
static enum qr_status check_as_engine(struct qr_openai_parse *p, int max_len)
{
    struct qr_openai_request *r = p->request;
    const struct qr_request_limits limits = {
        .n_vocab = qr_model_vocab_size(p->model), .max_len = max_len, .tok = p->model->tok};
    if (r->n_prompt * (size_t)r->n > QR_OPENAI_MAX_CHOICES)
        return qr_openai_fail(p->error, QR_LIMIT, r->n > 1 ? "n" : "prompt",
                              "%zu prompts with n = %d are %zu choices: at most %d are allowed in a request",
                              r->n_prompt, r->n, r->n_prompt * (size_t)r->n, QR_OPENAI_MAX_CHOICES);
    for (size_t i = 0; i < r->n_prompt; i++) {
        struct qr_request request = qr_openai_engine_request(r, i);
        enum qr_status status = qr_request_check(&request, &limits, &p->error->err);
        if (status != QR_OK) {
            blame_by_message(p);
            return status;
        }
    }
    return QR_OK;
}

static enum qr_status read_all(struct qr_openai_parse *p, int max_len)
{
    if (!json_is_object(p->body))
        return qr_openai_fail(p->error, QR_INVALID, NULL, "the request's body must be a JSON object");
    QR_TRY(check_fields(p));
    QR_TRY(qr_openai_read_sampling(p));
    QR_TRY(qr_openai_read_prompts(p));
    QR_TRY(check_as_engine(p, max_len));
    return qr_openai_read_format(p);
}

enum qr_status qr_openai_request_read(struct qr_model *model, int max_len, enum qr_openai_api api, json_t *body,
                                      struct qr_openai_request *request, struct qr_openai_error *error)
{
    struct qr_openai_parse p = {.model = model, .max_len = max_len, .body = body, .request = request, .error = error};
    *request = (struct qr_openai_request){.api = api, .body = json_incref(body), .n = 1, .prompt_logprobs = -1};
    *error = (struct qr_openai_error){0};
    enum qr_status status = read_all(&p, max_len);
    if (status != QR_OK)
        qr_openai_request_free(request);
    return status;
}

void qr_openai_request_slim(struct qr_openai_request *request)
{
    json_object_del(request->body, "prompt");
    json_object_del(request->body, "messages");
    for (size_t i = 0; i < request->n_prompt; i++) {
        qr_free(request->prompt[i].ids);
        request->prompt[i].ids = NULL;
    }
}

void qr_openai_request_free(struct qr_openai_request *request)
{
    for (size_t i = 0; i < request->n_prompt; i++) {
        qr_free(request->prompt[i].ids);
        free(request->prompt[i].text);
    }
    free(request->prompt);
    free(request->bias);
    free(request->stop);
    free(request->stop_ids);
    qr_constraint_free(&request->constraint);
    json_decref(request->body);
    *request = (struct qr_openai_request){0};
}

struct qr_request qr_openai_engine_request(const struct qr_openai_request *request, size_t i)
{
    return (struct qr_request){
        .prompt = request->prompt[i].ids,
        .n_prompt = request->prompt[i].n,
        .sampling = request->sampling,
        .n = request->n,
        .priority = request->priority,
        .cache_salt = request->cache_salt,
        .keep_special = request->tools == QR_TOOLS_MISTRAL || request->tools == QR_TOOLS_LLAMA3, /* their tags */
        .constraint = request->constrained ? &request->constraint : NULL,
    };
}
