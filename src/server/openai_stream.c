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
    if (s->head && s->spoke && s->choice) {
        for (size_t i = 0; i < s->n_choice && qr_openai_is_parted(request); i++) {
            qr_parts_init(&s->choice[i].parts, request->tools, request->thinks, request->in_thought);
            s->choice[i].parts.named = request->named;
        }
        return QR_OK;
    }
    qr_openai_stream_free(s);
    return qr_fail(err, QR_NOMEM, "out of memory for a stream");
}

void qr_openai_stream_free(struct qr_openai_stream *s)
{
    for (size_t i = 0; s->choice && i < s->n_choice; i++) {
        json_decref(s->choice[i].logprobs);
        qr_parts_free(&s->choice[i].parts);
    }
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
    const char *reason = finish != QR_FINISH_STOP ? "length" : s->choice[choice].n_call ? "tool_calls" : "stop";
    close_chunk(s, NULL, reason, out);
}

/* A part of a chat answer that is taken apart. */
static bool part_chunk(void *ctx, const struct qr_part *part)
{
    struct qr_openai_stream *s = ctx;
    struct qr_openai_choice *c = &s->choice[s->now];
    char id[32];
    if (part->kind == QR_PART_CALL && c->n_call && s->request->one_call)
        return true;
    role_chunk(s, s->now, s->out);
    open_chunk(s, s->now, s->out);
    if (part->kind == QR_PART_CALL) {
        qr_openai_call_id(s->request->tools, id);
        qr_buf_printf(s->out,
                      "\"delta\":{\"tool_calls\":[{\"index\":%d,\"id\":\"%s\",\"type\":\"function\","
                      "\"function\":{\"name\":",
                      c->n_call++, id);
        qr_json_quote(s->out, part->name, strlen(part->name));
        qr_buf_puts(s->out, ",\"arguments\":");
        qr_json_quote(s->out, part->text, part->n);
        qr_buf_puts(s->out, "}}]}");
    } else {
        qr_buf_puts(s->out,
                    part->kind == QR_PART_THOUGHT ? "\"delta\":{\"reasoning_content\":" : "\"delta\":{\"content\":");
        qr_json_quote(s->out, part->text, part->n);
        qr_buf_putc(s->out, '}');
    }
    close_chunk(s, s->logprobs, NULL, s->out);
    free(s->logprobs);
    s->logprobs = NULL;
    return !s->out->failed;
}

/* Text and log-probabilities of a token; text NULL: the end. */
static bool take_apart(struct qr_openai_stream *s, size_t choice, const char *text, size_t n, struct qr_buf *out)
{
    struct qr_parts *parts = &s->choice[choice].parts;
    s->out = out;
    s->now = choice;
    parts->emit = part_chunk;
    parts->ctx = s;
    if (text)
        qr_parts_feed(parts, text, n);
    else
        qr_parts_end(parts);
    if (s->logprobs) { /* nothing was said */
        role_chunk(s, choice, out);
        text_chunk(s, choice, "", 0, s->logprobs, out);
    }
    free(s->logprobs);
    s->logprobs = NULL;
    return !parts->no_memory && !out->failed;
}

static bool end_choice(struct qr_openai_stream *s, size_t choice, enum qr_finish finish, struct qr_buf *out)
{
    if (finish != QR_FINISH_STOP && finish != QR_FINISH_LENGTH)
        return true;
    if (qr_openai_is_parted(s->request) && !take_apart(s, choice, NULL, 0, out))
        return false;
    role_chunk(s, choice, out);
    end_chunk(s, choice, finish, out);
    return !out->failed;
}

bool qr_openai_stream_event(struct qr_openai_stream *s, size_t prompt, const struct qr_event *event, struct qr_buf *out)
{
    size_t choice = prompt * (size_t)s->request->n + (size_t)event->choice;
    if (choice >= s->n_choice)
        return true;
    if (event->kind == QR_EVENT_PROMPT_LOGPROBS) { /* they wait for each choice's chunk with the prompt's text */
        for (int i = 0; i < s->request->n; i++)
            if (!add_logprobs(s, prompt * (size_t)s->request->n + (size_t)i, event))
                return false;
        return true;
    }
    if (!send_echo(s, prompt, choice, out))
        return false;
    if (event->kind == QR_EVENT_DONE)
        return end_choice(s, choice, event->finish, out);
    if (!add_logprobs(s, choice, event) || !take_logprobs(s, choice, &s->logprobs))
        return false;
    const char *text = event->n_text ? event->text : "";
    if (qr_openai_is_parted(s->request))
        return take_apart(s, choice, text, event->n_text, out);
    if (event->n_text || s->logprobs) {
        role_chunk(s, choice, out);
        text_chunk(s, choice, text, event->n_text, s->logprobs, out);
    }
    free(s->logprobs);
    s->logprobs = NULL;
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
