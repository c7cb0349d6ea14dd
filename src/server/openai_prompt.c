/* openai_prompt.c - from "prompt" or "messages" to token ids. */
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "engine/model.h"
#include "server/openai_parse.h"

static enum qr_status make_room(struct qr_openai_parse *p, const char *key, size_t n)
{
    p->request->prompt = calloc(n, sizeof *p->request->prompt);
    return p->request->prompt ? QR_OK : qr_openai_no_memory(p, key);
}

/* Text that is too long whatever its tokens are is refused before it is tokenized, which would take seconds. Unicode's
 * normal forms may make it shorter, by a third at most: four leaves room. */
static enum qr_status check_size(struct qr_openai_parse *p, const char *key, size_t n_text)
{
    size_t longest = 1, n;
    if (!p->model->tok || n_text / 64 <= (size_t)p->max_len)
        return QR_OK;
    for (int32_t id = 0; id < qr_model_vocab_size(p->model); id++)
        if (qr_tokenizer_bytes(p->model->tok, id, &n) && n > longest)
            longest = n;
    if (n_text / 4 / longest <= (size_t)p->max_len)
        return QR_OK;
    return qr_openai_fail(
        p->error, QR_LIMIT, key,
        "\"%s\" has %zu bytes, more than the maximum context length of %d tokens can hold: shorten it", key, n_text,
        p->max_len);
}

/* ---------------------------------------------------------------- /v1/completions */

/* What "echo" puts in front of the answer: the string that came, or the text of the ids that came. */
static enum qr_status keep_text(struct qr_openai_parse *p, const json_t *one, struct qr_openai_prompt *prompt)
{
    char *text = NULL;
    if (!json_is_string(one)) {
        enum qr_status status =
            qr_detokenize(p->model, prompt->ids, prompt->n, false, &text, &prompt->n_text, &p->error->err);
        prompt->text = text;
        return qr_openai_blame(p, "prompt", status);
    }
    prompt->n_text = json_string_length(one);
    prompt->text = malloc(prompt->n_text + 1);
    if (!prompt->text)
        return qr_openai_no_memory(p, "prompt");
    memcpy(prompt->text, json_string_value(one), prompt->n_text + 1);
    return QR_OK;
}

/* A string, or a list of ids, as the next prompt. */
static enum qr_status add_prompt(struct qr_openai_parse *p, const json_t *one)
{
    struct qr_openai_request *r = p->request;
    struct qr_openai_prompt *prompt = &r->prompt[r->n_prompt++];
    if (json_is_string(one))
        QR_TRY(check_size(p, "prompt", json_string_length(one)));
    if (json_is_string(one))
        QR_TRY(qr_openai_blame(p, "prompt",
                               qr_tokenize(p->model, json_string_value(one), json_string_length(one), true, true,
                                           &prompt->ids, &prompt->n, &p->error->err)));
    else
        QR_TRY(qr_openai_read_ids(p, "prompt", one, SIZE_MAX / sizeof(int32_t) - 1, &prompt->ids, &prompt->n));
    return r->echo ? keep_text(p, one, prompt) : QR_OK;
}

static enum qr_status read_completion_prompts(struct qr_openai_parse *p)
{
    const json_t *prompt = qr_openai_field(p, "prompt"), *first = json_array_get(prompt, 0);
    if (!json_is_string(prompt) && !json_is_string(first) && !json_is_array(first) && !json_is_integer(first))
        return qr_openai_fail(p->error, QR_INVALID, "prompt",
                              "\"prompt\" must be a string, a list of strings, a list of token ids, or a list of such "
                              "lists, and not empty");
    if (json_is_string(prompt) || json_is_integer(first)) {
        QR_TRY(make_room(p, "prompt", 1));
        return add_prompt(p, prompt);
    }
    size_t n = json_array_size(prompt);
    if (n > QR_OPENAI_MAX_CHOICES)
        return qr_openai_fail(p->error, QR_LIMIT, "prompt", "\"prompt\" has %zu entries: at most %d are allowed", n,
                              QR_OPENAI_MAX_CHOICES);
    QR_TRY(make_room(p, "prompt", n));
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(prompt, i);
        if (!json_is_string(one) && !json_is_array(one))
            return qr_openai_fail(p->error, QR_INVALID, "prompt",
                                  "\"prompt\" entry %zu must be a string or a list of token ids, as the first one is",
                                  i);
        QR_TRY(add_prompt(p, one));
    }
    return QR_OK;
}

/* ---------------------------------------------------------------- /v1/chat/completions */

/* {"type": "function", "function": {"name": ...}} must name one of the tools. */
static enum qr_status read_named_tool(struct qr_openai_parse *p, const json_t *choice)
{
    const char *name = json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
    size_t i;
    const json_t *tool;
    json_array_foreach(qr_openai_field(p, "tools"), i, tool)
    {
        const char *known = json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
        if (name && known && strcmp(name, known) == 0) {
            p->request->tools = QR_TOOLS_NAMED;
            p->request->named = known;
            return QR_OK;
        }
    }
    return qr_openai_fail(p->error, QR_INVALID, "tool_choice",
                          "\"tool_choice\" must be \"auto\", \"none\", \"required\", or name one of \"tools\"");
}

static enum qr_status read_tool_choice(struct qr_openai_parse *p, bool *show_tools)
{
    const json_t *choice = qr_openai_field(p, "tool_choice");
    const char *word = json_string_value(choice);
    *show_tools = !word || strcmp(word, "none") != 0;
    if (!choice || !*show_tools || (word && strcmp(word, "auto") == 0))
        return QR_OK;
    if (!word || strcmp(word, "required") != 0)
        return read_named_tool(p, choice);
    if (json_array_size(qr_openai_field(p, "tools")) == 0)
        return qr_openai_fail(p->error, QR_INVALID, "tool_choice", "\"tool_choice\" is \"required\" without \"tools\"");
    p->request->tools = QR_TOOLS_FORCED;
    return QR_OK;
}

/* Clients send the arguments of earlier calls as a string with JSON in it; templates are written for objects. A message that
 * only calls has no content; some templates want a string all the same. */
static json_t *with_objects(const json_t *messages)
{
    json_t *copy = json_deep_copy(messages), *message, *call;
    size_t i, k;
    json_array_foreach(copy, i, message)
    {
        const json_t *content = json_object_get(message, "content");
        if (json_object_get(message, "tool_calls") && (!content || json_is_null(content)))
            json_object_set_new(message, "content", json_string(""));
        json_array_foreach(json_object_get(message, "tool_calls"), k, call)
        {
            json_t *function = json_object_get(call, "function");
            const json_t *text = json_object_get(function, "arguments");
            json_t *object = NULL;
            enum qr_status status =
                !json_is_string(text)
                    ? QR_OK
                    : qr_json_parse_lax(json_string_value(text), json_string_length(text), "arguments", &object, NULL);
            bool ok =
                status != QR_NOMEM && !(json_is_object(object) && json_object_set(function, "arguments", object) != 0);
            json_decref(object);
            if (!ok) {
                json_decref(copy);
                return NULL;
            }
        }
    }
    return copy;
}

static bool calls_tools(const json_t *messages)
{
    size_t i;
    const json_t *message;
    json_array_foreach(messages, i, message)
    {
        if (json_array_size(json_object_get(message, "tool_calls")))
            return true;
    }
    return false;
}

/* The fields that the template may see, in an object of their own; NULL after an error. */
static json_t *template_request(struct qr_openai_parse *p, bool show_tools)
{
    static const char *const keys[] = {"messages", "documents", "add_generation_prompt", "chat_template_kwargs",
                                       "tools"};
    json_t *request = json_object();
    for (size_t i = 0; i < sizeof keys / sizeof *keys && request; i++) {
        json_t *value = json_object_get(p->body, keys[i]);
        bool wanted = value && (show_tools || strcmp(keys[i], "tools") != 0) && !json_is_null(value) &&
                      !(strcmp(keys[i], "tools") == 0 && json_is_array(value) && json_array_size(value) == 0);
        json_t *given = wanted && i == 0 && calls_tools(value) ? with_objects(value) : json_incref(value);
        if (!wanted) {
            json_decref(given);
        } else if (json_object_set_new(request, keys[i], given) != 0) {
            json_decref(request);
            request = NULL;
        }
    }
    return request;
}

/* Some templates open the think tag themselves. */
static bool ends_in_thought(const char *text, size_t n)
{
    static const char tag[] = "<think>";
    while (n && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    return n >= sizeof tag - 1 && memcmp(text + n - (sizeof tag - 1), tag, sizeof tag - 1) == 0;
}

/* How this model writes calls and thoughts, by the words of its template. */
static void choose_parts(struct qr_openai_parse *p, bool tools)
{
    const struct qr_chat *chat = p->model->chat;
    struct qr_openai_request *r = p->request;
    if (!chat)
        return;
    bool forced = r->tools != QR_TOOLS_NONE;
    r->thinks = !forced && qr_chat_mentions(chat, "</think>");
    if (!tools || forced)
        return;
    if (!qr_chat_mentions(chat, "tools") && r->n_ignored < QR_OPENAI_MAX_IGNORED)
        r->ignored[r->n_ignored++] =
            "tools"; /* the model is not told of them; calls that it writes all the same are read */
    r->tools = QR_TOOLS_HERMES;
    if (qr_chat_mentions(chat, "[TOOL_CALLS]"))
        r->tools = QR_TOOLS_MISTRAL;
    else if (!qr_chat_mentions(chat, "<tool_call>") &&
             (qr_chat_mentions(chat, "<|python_tag|>") || qr_chat_mentions(chat, "\"parameters\"")))
        r->tools = QR_TOOLS_LLAMA3;
}

static enum qr_status render(struct qr_openai_parse *p, const char *request)
{
    struct qr_openai_prompt *out = &p->request->prompt[p->request->n_prompt++];
    char *text;
    size_t n;
    QR_TRY(qr_openai_blame(p, "messages", qr_chat_prompt(p->model, request, &text, &n, &p->error->err)));
    p->request->in_thought = p->request->thinks && ends_in_thought(text, n);
    enum qr_status status = check_size(p, "messages", n);
    if (status == QR_OK)
        status = qr_openai_blame(p, "messages",
                                 qr_tokenize(p->model, text, n, true, false, &out->ids, &out->n, &p->error->err));
    qr_free(text);
    return status;
}

static enum qr_status read_messages(struct qr_openai_parse *p)
{
    static const char *const optional[] = {"tools", "documents"};
    bool show_tools;
    QR_TRY(read_tool_choice(p, &show_tools));
    for (size_t i = 0; i < 2; i++) {
        const json_t *list = qr_openai_field(p, optional[i]);
        if (list && !json_is_array(list))
            return qr_openai_fail(p->error, QR_INVALID, optional[i], "\"%s\" must be a list", optional[i]);
    }
    const json_t *kwargs = qr_openai_field(p, "chat_template_kwargs");
    if (kwargs && !json_is_object(kwargs))
        return qr_openai_fail(p->error, QR_INVALID, "chat_template_kwargs",
                              "\"chat_template_kwargs\" must be an object");
    bool parallel = true;
    QR_TRY(qr_openai_blame(p, "parallel_tool_calls",
                           qr_json_bool(p->body, "parallel_tool_calls", &parallel, &p->error->err)));
    p->request->one_call = !parallel;
    choose_parts(p, show_tools && json_array_size(qr_openai_field(p, "tools")) > 0);
    QR_TRY(make_room(p, "messages", 1));
    json_t *object = template_request(p, show_tools);
    char *request = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    enum qr_status status = request ? render(p, request) : qr_openai_no_memory(p, "messages");
    free(request);
    return status;
}

enum qr_status qr_openai_read_prompts(struct qr_openai_parse *p)
{
    const char *model;
    QR_TRY(qr_openai_blame(p, "model", qr_json_string(p->body, "model", &model, &p->error->err)));
    return p->request->api == QR_OPENAI_CHAT ? read_messages(p) : read_completion_prompts(p);
}
