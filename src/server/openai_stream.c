/* openai_stream.c - chunks. They are written by hand: a busy server makes tens of thousands a second. */
#include "server/openai_stream.h"
#include <stdlib.h>
#include <string.h>

bool qr_json_quote(struct qr_buf *out, const char *text, size_t n)
{
    size_t from = 0;
    qr_buf_putc(out, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
            continue;
        qr_buf_append(out, text + from, i - from);
        from = i + 1;
        if (c == '"' || c == '\\')
            qr_buf_printf(out, "\\%c", c);
        else if (c == '\n')
            qr_buf_puts(out, "\\n");
        else
            qr_buf_printf(out, "\\u%04x", c);
    }
    qr_buf_append(out, text + from, n - from);
    return qr_buf_putc(out, '"');
}

enum qr_status qr_openai_stream_init(struct qr_openai_stream *s, const struct qr_model *model,
                                     const struct qr_openai_request *request, const char *model_name, uint64_t id,
                                     int64_t created, struct qr_err *err)
{
    bool chat = request->api == QR_OPENAI_CHAT;
    struct qr_buf head;
    qr_buf_init(&head, 0);
    *s = (struct qr_openai_stream){
        .model = model, .request = request, .n_choice = request->n_prompt * (size_t)request->n};
    qr_buf_printf(
        &head, "data: {\"id\":\"%s-%016llx\",\"object\":\"%s\",\"created\":%lld,\"model\":", chat ? "chatcmpl" : "cmpl",
        (unsigned long long)id, chat ? "chat.completion.chunk" : "text_completion", (long long)created);
    qr_json_quote(&head, model_name, strlen(model_name));
    s->head = qr_buf_take(&head, &s->n_head);
    qr_buf_free(&head);
    s->spoke = calloc(s->n_choice, sizeof *s->spoke);
    s->choice = calloc(s->n_choice, sizeof *s->choice);
    if (s->head && s->spoke && s->choice)
        return QR_OK;
    qr_openai_stream_free(s);
    return qr_fail(err, QR_NOMEM, "out of memory for a stream");
}

void qr_openai_stream_free(struct qr_openai_stream *s)
{
    for (size_t i = 0; s->choice && i < s->n_choice; i++)
        json_decref(s->choice[i].logprobs);
    free(s->choice);
    free(s->spoke);
    free(s->head);
    *s = (struct qr_openai_stream){0};
}

/* ---------------------------------------------------------------- chunks */

static void open_chunk(struct qr_openai_stream *s, size_t choice, struct qr_buf *out)
{
    qr_buf_append(out, s->head, s->n_head);
    qr_buf_printf(out, ",\"choices\":[{\"index\":%zu,", choice);
}

/* logprobs: JSON text or NULL. */
static void close_chunk(struct qr_openai_stream *s, const char *logprobs, const char *finish, struct qr_buf *out)
{
    qr_buf_puts(out, ",\"logprobs\":");
    qr_buf_puts(out, logprobs ? logprobs : "null");
    qr_buf_puts(out, finish ? ",\"finish_reason\":\"" : ",\"finish_reason\":null");
    if (finish) {
        qr_buf_puts(out, finish);
        qr_buf_putc(out, '"');
    }
    qr_buf_puts(out, s->request->include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n");
}

static bool is_chat(const struct qr_openai_stream *s)
{
    return s->request->api == QR_OPENAI_CHAT;
}

static void role_chunk(struct qr_openai_stream *s, size_t choice, struct qr_buf *out)
{
    if (s->spoke[choice])
        return;
    s->spoke[choice] = true;
    if (!is_chat(s))
        return;
    open_chunk(s, choice, out);
    qr_buf_puts(out, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}");
    close_chunk(s, NULL, NULL, out);
}

static void text_chunk(struct qr_openai_stream *s, size_t choice, const char *text, size_t n, const char *logprobs,
                       struct qr_buf *out)
{
    open_chunk(s, choice, out);
    qr_buf_puts(out, is_chat(s) ? "\"delta\":{\"content\":" : "\"text\":");
    qr_json_quote(out, text, n);
    if (is_chat(s))
        qr_buf_putc(out, '}');
    close_chunk(s, logprobs, NULL, out);
}

static bool add_logprobs(struct qr_openai_stream *s, size_t choice, const struct qr_event *event)
{
    for (size_t k = 0; k < event->n_logprobs; k++)
        if (!qr_openai_add_logprobs(&s->choice[choice], s->request->api, s->model, &event->logprobs[k]))
            return false;
    return true;
}

/* The log-probabilities that came since the last chunk as JSON text, malloc'ed; *text NULL without any. */
static bool take_logprobs(struct qr_openai_stream *s, size_t choice, char **text)
{
    struct qr_openai_choice *c = &s->choice[choice];
    *text = NULL;
    if (!c->logprobs)
        return true;
    *text = json_dumps(c->logprobs, JSON_COMPACT);
    json_decref(c->logprobs);
    c->logprobs = NULL;
    return *text != NULL;
}

/* The prompt, before the first words of a choice. */
static bool send_echo(struct qr_openai_stream *s, size_t prompt, size_t choice, struct qr_buf *out)
{
    char *logprobs;
    if (!s->request->echo || s->spoke[choice])
        return true;
    s->spoke[choice] = true;
    if (!take_logprobs(s, choice, &logprobs))
        return false;
    text_chunk(s, choice, s->request->prompt[prompt].text, s->request->prompt[prompt].n_text, logprobs, out);
    free(logprobs);
    return true;
}

static void end_chunk(struct qr_openai_stream *s, size_t choice, enum qr_finish finish, struct qr_buf *out)
{
    open_chunk(s, choice, out);
    qr_buf_puts(out, is_chat(s) ? "\"delta\":{}" : "\"text\":\"\"");
    close_chunk(s, NULL, finish == QR_FINISH_STOP ? "stop" : "length", out);
}

bool qr_openai_stream_event(struct qr_openai_stream *s, size_t prompt, const struct qr_event *event, struct qr_buf *out)
{
    size_t choice = prompt * (size_t)s->request->n + (size_t)event->choice;
    char *logprobs;
    if (choice >= s->n_choice)
        return true;
    if (event->kind == QR_EVENT_PROMPT_LOGPROBS) /* they wait for the chunk with the prompt's text */
        return add_logprobs(s, choice, event);
    if (!send_echo(s, prompt, choice, out))
        return false;
    if (event->kind == QR_EVENT_DONE) {
        if (event->finish != QR_FINISH_STOP && event->finish != QR_FINISH_LENGTH)
            return true;
        role_chunk(s, choice, out);
        end_chunk(s, choice, event->finish, out);
        return !out->failed;
    }
    if (!add_logprobs(s, choice, event) || !take_logprobs(s, choice, &logprobs))
        return false;
    if (event->n_text || logprobs) {
        role_chunk(s, choice, out);
        text_chunk(s, choice, event->n_text ? event->text : "", event->n_text, logprobs, out);
    }
    free(logprobs);
    return !out->failed;
}

bool qr_openai_stream_usage(struct qr_openai_stream *s, const struct qr_openai_answer *a, struct qr_buf *out)
{
    qr_buf_append(out, s->head, s->n_head);
    return qr_buf_printf(out,
                         ",\"choices\":[],\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,"
                         "\"total_tokens\":%lld,\"prompt_tokens_details\":{\"cached_tokens\":%lld}}}\n\n",
                         (long long)a->prompt_tokens, (long long)a->output_tokens,
                         (long long)(a->prompt_tokens + a->output_tokens), (long long)a->cached_tokens);
}

bool qr_openai_stream_error(const struct qr_openai_error *error, struct qr_buf *out)
{
    json_t *json = qr_openai_error_json(error);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    qr_buf_puts(out, "data: ");
    qr_buf_puts(out, text ? text : "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\"}}");
    free(text);
    return qr_buf_puts(out, "\n\n");
}

bool qr_openai_stream_done(struct qr_buf *out)
{
    return qr_buf_puts(out, "data: [DONE]\n\n");
}
