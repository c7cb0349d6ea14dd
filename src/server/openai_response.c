/* openai_response.c - what choices said, and the response object made of it. */
#include "server/openai_response.h"
#include <stdio.h>
#include <stdlib.h>

enum qr_status qr_openai_answer_init(struct qr_openai_answer *answer, const struct qr_openai_request *request,
                                     struct qr_err *err)
{
    *answer = (struct qr_openai_answer){
        .api = request->api,
        .n = request->n,
        .n_choice = request->n_prompt * (size_t)request->n,
        .prompt = request->echo ? request->prompt : NULL,
        .echo_top = request->echo ? request->sampling.logprobs : -1,
        .prompt_top = request->prompt_logprobs,
    };
    answer->choice = calloc(answer->n_choice, sizeof *answer->choice);
    answer->echo = calloc(request->n_prompt, sizeof *answer->echo);
    if (!answer->choice || !answer->echo) {
        size_t n = answer->n_choice;
        free(answer->choice);
        free(answer->echo);
        *answer = (struct qr_openai_answer){0};
        return qr_fail(err, QR_NOMEM, "out of memory for %zu choices", n);
    }
    qr_openai_parts_init(answer, request);
    return QR_OK;
}

void qr_openai_answer_free(struct qr_openai_answer *answer)
{
    for (size_t i = 0; i < answer->n_choice; i++) {
        qr_buf_free(&answer->choice[i].text);
        qr_buf_free(&answer->choice[i].thought);
        qr_parts_free(&answer->choice[i].parts);
        json_decref(answer->choice[i].logprobs);
        json_decref(answer->choice[i].calls);
    }
    free(answer->choice);
    if (answer->echo)
        qr_openai_echo_free(answer->echo, answer->n_choice / (size_t)answer->n);
    *answer = (struct qr_openai_answer){0};
}

static void take_done(struct qr_openai_answer *a, struct qr_openai_choice *choice, const struct qr_event *event)
{
    choice->finish = event->finish;
    a->n_done++;
    if (a->parted) {
        qr_parts_end(&choice->parts);
        a->no_memory = a->no_memory || choice->parts.no_memory;
    }
    a->output_tokens += event->usage.output_tokens;
    if (event->choice == 0) { /* each choice tells of the same prompt */
        a->prompt_tokens += event->usage.prompt_tokens;
        a->cached_tokens += event->usage.cached_tokens;
    }
    if (event->finish == QR_FINISH_CANCELLED)
        a->cancelled = true;
    if (event->finish == QR_FINISH_ERROR && a->error.status == QR_OK)
        a->error = event->error;
}

void qr_openai_answer_take(struct qr_openai_answer *answer, const struct qr_model *model, size_t prompt,
                           const struct qr_event *event)
{
    size_t i = prompt * (size_t)answer->n + (size_t)event->choice;
    if (i >= answer->n_choice)
        return;
    struct qr_openai_choice *choice = &answer->choice[i];
    if (event->kind == QR_EVENT_DONE)
        take_done(answer, choice, event);
    if (event->kind == QR_EVENT_PROMPT_LOGPROBS)
        qr_openai_echo_take(answer, model, prompt, event);
    if (event->kind != QR_EVENT_TOKEN)
        return;
    if (event->n_text && answer->parted)
        qr_parts_feed(&choice->parts, event->text, event->n_text);
    else if (event->n_text && !qr_buf_append(&choice->text, event->text, event->n_text))
        answer->no_memory = true;
    for (size_t k = 0; k < event->n_logprobs; k++)
        if (!qr_openai_add_logprobs(choice, answer->api, model, &event->logprobs[k]))
            answer->no_memory = true;
}

bool qr_openai_answer_done(const struct qr_openai_answer *answer)
{
    return answer->n_done == answer->n_choice;
}

enum qr_status qr_openai_answer_status(const struct qr_openai_answer *answer, struct qr_err *err)
{
    if (answer->cancelled)
        return qr_fail(err, QR_CANCELLED, "the request was cancelled");
    if (answer->error.status != QR_OK)
        return qr_fail(err, answer->error.status, "%s", answer->error.message);
    if (answer->no_memory)
        return qr_fail(err, QR_NOMEM, "out of memory for the answer's text");
    return QR_OK;
}

static json_t *choice_json(const struct qr_openai_answer *a, size_t i)
{
    const struct qr_openai_choice *c = &a->choice[i];
    json_t *text = qr_openai_echo_text(a, i), *logprobs = qr_openai_echo_logprobs(a, i);
    const json_t *of_prompt = a->echo[i / (size_t)a->n].prompt_logprobs;
    const char *finish = c->finish != QR_FINISH_STOP ? "length" : c->n_call ? "tool_calls" : "stop";
    if (a->api == QR_OPENAI_CHAT)
        return json_pack("{s:I, s:o, s:o, s:s}", "index", (json_int_t)i, "message", qr_openai_message_json(c, text),
                         "logprobs", logprobs, "finish_reason", finish);
    json_t *json = json_pack("{s:I, s:o, s:o, s:s}", "index", (json_int_t)i, "text", text, "logprobs", logprobs,
                             "finish_reason", finish);
    if (json && of_prompt && json_object_set(json, "prompt_logprobs", (json_t *)of_prompt) != 0) {
        json_decref(json);
        return NULL;
    }
    return json;
}

static json_t *choices_json(const struct qr_openai_answer *a)
{
    json_t *list = json_array();
    for (size_t i = 0; i < a->n_choice && list; i++)
        if (json_array_append_new(list, choice_json(a, i)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

json_t *qr_openai_answer_json(const struct qr_openai_answer *a, const char *model_name, uint64_t id, int64_t created)
{
    char id_text[40];
    snprintf(id_text, sizeof id_text, "%s-%016llx", a->api == QR_OPENAI_CHAT ? "chatcmpl" : "cmpl",
             (unsigned long long)id);
    json_t *usage =
        json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)a->prompt_tokens, "completion_tokens",
                  (json_int_t)a->output_tokens, "total_tokens", (json_int_t)(a->prompt_tokens + a->output_tokens),
                  "prompt_tokens_details", "cached_tokens", (json_int_t)a->cached_tokens);
    json_t *json = json_pack("{s:s, s:s, s:I, s:s, s:o, s:o}", "id", id_text, "object",
                             a->api == QR_OPENAI_CHAT ? "chat.completion" : "text_completion", "created",
                             (json_int_t)created, "model", model_name, "choices", choices_json(a), "usage", usage);
    if (json && a->api == QR_OPENAI_CHAT && a->echo[0].prompt_logprobs &&
        json_object_set(json, "prompt_logprobs", a->echo[0].prompt_logprobs) != 0) {
        json_decref(json);
        return NULL;
    }
    return json;
}
