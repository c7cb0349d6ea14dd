/* openai_echo.c - a prompt in its answer: "echo" puts its text and log-probabilities before each choice,
 * "prompt_logprobs" (vLLM's field) lists its tokens with the best ones at each place. */
#include <stdio.h>
#include <stdlib.h>
#include "server/openai_response.h"

/* {"id": {"logprob", "rank", "decoded_token"}, ...}; the first token, which nothing predicts, is null. */
static bool set_token(json_t *object, const struct qr_model *model, int32_t id, float logprob, int rank)
{
    char key[16];
    snprintf(key, sizeof key, "%d", (int)id);
    return json_object_set_new(object, key,
                               json_pack("{s:o, s:i, s:o}", "logprob", qr_openai_logprob_json(logprob), "rank", rank,
                                         "decoded_token", qr_openai_token_name(model, id))) == 0;
}

static json_t *position_json(const struct qr_model *model, const struct qr_token_logprob *l, int n_top)
{
    json_t *object = json_object();
    bool ok = object && set_token(object, model, l->id, l->logprob, l->rank + 1);
    for (int i = 0; i < l->n_top && i < n_top && ok; i++)
        ok = set_token(object, model, l->top[i].id, l->top[i].logprob, i + 1);
    if (ok)
        return object;
    json_decref(object);
    return NULL;
}

static bool add_position(struct qr_openai_echo *echo, const struct qr_model *model, const struct qr_token_logprob *l,
                         int n_top)
{
    if (!echo->prompt_logprobs)
        echo->prompt_logprobs = json_array();
    json_t *one = l->logprob == l->logprob ? position_json(model, l, n_top) : json_null();
    return json_array_append_new(echo->prompt_logprobs, one) == 0;
}

void qr_openai_echo_take(struct qr_openai_answer *a, const struct qr_model *model, size_t prompt,
                         const struct qr_event *event)
{
    struct qr_openai_echo *echo = &a->echo[prompt];
    for (size_t i = 0; i < event->n_logprobs; i++) {
        struct qr_token_logprob l = event->logprobs[i];
        if (a->prompt_top >= 0 && !add_position(echo, model, &l, a->prompt_top))
            a->no_memory = true;
        if (l.n_top > a->echo_top)
            l.n_top = a->echo_top;
        if (a->echo_top >= 0 && !qr_openai_add_logprobs(&echo->part, a->api, model, &l))
            a->no_memory = true;
    }
}

void qr_openai_echo_free(struct qr_openai_echo *echo, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        json_decref(echo[i].part.logprobs);
        json_decref(echo[i].prompt_logprobs);
    }
    free(echo);
}

json_t *qr_openai_echo_text(const struct qr_openai_answer *a, size_t i)
{
    const struct qr_buf *text = &a->choice[i].text;
    if (!a->prompt)
        return json_stringn(text->len ? text->data : "", text->len);
    const struct qr_openai_prompt *prompt = &a->prompt[i / (size_t)a->n];
    struct qr_buf both;
    qr_buf_init(&both, 0);
    qr_buf_append(&both, prompt->text, prompt->n_text);
    qr_buf_append(&both, text->len ? text->data : "", text->len);
    json_t *json = both.failed ? NULL : json_stringn(both.len ? both.data : "", both.len);
    qr_buf_free(&both);
    return json;
}

/* The lists of a choice appended to a copy of the prompt's; offsets move by the prompt's length. */
json_t *qr_openai_echo_logprobs(const struct qr_openai_answer *a, size_t i)
{
    static const char *const lists[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    const struct qr_openai_choice *c = &a->choice[i], *before = &a->echo[i / (size_t)a->n].part;
    if (!before->logprobs)
        return c->logprobs ? json_incref(c->logprobs) : json_null();
    json_t *all = json_object();
    for (size_t k = 0; k < sizeof lists / sizeof *lists && all; k++) {
        json_t *list = json_copy(json_object_get(before->logprobs, lists[k]));
        const json_t *own = json_object_get(c->logprobs, lists[k]);
        bool ok = list != NULL;
        for (size_t t = 0; t < json_array_size(own) && ok; t++) {
            json_t *value = json_array_get(own, t);
            ok = k == 3 ? json_array_append_new(
                              list, json_integer(json_integer_value(value) + (json_int_t)before->offset)) == 0
                        : json_array_append(list, value) == 0;
        }
        ok = json_object_set_new(all, lists[k], list) == 0 && ok;
        if (!ok) {
            json_decref(all);
            all = NULL;
        }
    }
    return all;
}
