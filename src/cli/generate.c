/* generate.c - one request from its ids to an answer. */
#include "cli/generate.h"
#include <math.h>
#include <stdlib.h>
#include "cli/ui.h"

enum { POLL_MS = 50 };

const char *cli_finish_name(enum qr_finish finish)
{
    static const char *const name[] = {"none", "stop", "length", "cancelled", "error"};
    return name[finish];
}

static json_t *number(float x)
{
    return isfinite(x) ? json_real((double)x) : json_null();
}

static json_t *logprob_json(const struct qr_token_logprob *l)
{
    json_t *top = json_array(), *out = json_object();
    for (int i = 0; i < l->n_top; i++) {
        json_t *one = json_object();
        json_object_set_new(one, "id", json_integer(l->top[i].id));
        json_object_set_new(one, "logprob", number(l->top[i].logprob));
        json_array_append_new(top, one);
    }
    json_object_set_new(out, "id", json_integer(l->id));
    json_object_set_new(out, "logprob", number(l->logprob));
    json_object_set_new(out, "top", top);
    return out;
}

static bool keep_id(struct cli_answer *answer, int32_t id)
{
    if (answer->n_ids == answer->room) {
        size_t room = answer->room ? answer->room * 2 : 256;
        int32_t *more = realloc(answer->ids, room * sizeof *more);
        if (!more)
            return false;
        answer->ids = more;
        answer->room = room;
    }
    answer->ids[answer->n_ids++] = id;
    return true;
}

static bool take_token(struct cli_answer *answer, const struct qr_event *event, bool stream)
{
    if (event->id >= 0 && !keep_id(answer, event->id))
        return false;
    if (!qr_buf_append(&answer->text, event->text, event->n_text))
        return false;
    for (size_t i = 0; i < event->n_logprobs; i++) {
        if (!answer->logprobs)
            answer->logprobs = json_array();
        json_array_append_new(answer->logprobs, logprob_json(&event->logprobs[i]));
    }
    if (stream && event->n_text) {
        fwrite(event->text, 1, event->n_text, stdout);
        fflush(stdout);
    }
    return true;
}

/* Reads events until the request ended. */
static enum qr_status follow(struct qr_engine *engine, uint64_t id, bool stream, struct cli_answer *answer,
                             struct qr_err *err)
{
    bool cancelled = false;
    for (;;) {
        struct qr_event event = {0};
        bool got;
        if ((cli_interrupted || (stream && ferror(stdout))) && !cancelled) {
            qr_engine_cancel(engine, id);
            cancelled = true;
        }
        enum qr_status status = qr_engine_next(engine, &event, POLL_MS, &got, err);
        if (status != QR_OK)
            return status;
        if (!got)
            continue;
        bool done = event.request == id && event.kind == QR_EVENT_DONE, kept = true;
        if (event.request == id && event.kind == QR_EVENT_TOKEN)
            kept = take_token(answer, &event, stream);
        if (done) {
            answer->finish = event.finish;
            answer->usage = event.usage;
            *err = event.error;
        }
        qr_event_clear(&event);
        if (done)
            return answer->finish == QR_FINISH_ERROR ? err->status : QR_OK;
        if (!kept && !cancelled) {
            qr_engine_cancel(engine, id);
            cancelled = true;
        }
    }
}

/* The engine ends an answer where the context is full; whoever asked for more hears of it before. */
static void note_short_context(const struct cli_session *session, size_t n_prompt, int max_tokens)
{
    int64_t room = (int64_t)qr_engine_max_len(session->engine) - (int64_t)n_prompt;
    if (session->max_tokens != INT64_MIN && room > 0 && max_tokens > room)
        fprintf(stderr, "note: --max-tokens %d is more than the context of %d tokens has left after the prompt: %lld\n",
                max_tokens, qr_engine_max_len(session->engine), (long long)room);
}

int cli_generate(struct cli_session *session, const int32_t *prompt, size_t n_prompt,
                 const struct qr_sampling *sampling, bool stream, struct cli_answer *answer)
{
    struct qr_err err;
    uint64_t id;
    *answer = (struct cli_answer){0};
    qr_buf_init(&answer->text, 0);
    struct qr_request request = {
        .prompt = prompt, .n_prompt = n_prompt, .sampling = *sampling, .n = 1, .constraint = &session->constraint};
    if (!session->constraint.ctx)
        request.constraint = NULL;
    note_short_context(session, n_prompt, sampling->max_tokens);
    if (qr_engine_submit(session->engine, &request, &id, &err) != QR_OK)
        return cli_fail(&err);
    if (follow(session->engine, id, stream, answer, &err) != QR_OK)
        return cli_fail(&err);
    return CLI_GO_ON;
}

void cli_answer_free(struct cli_answer *answer)
{
    qr_buf_free(&answer->text);
    free(answer->ids);
    json_decref(answer->logprobs);
    *answer = (struct cli_answer){0};
}

static double rate(double n, double seconds)
{
    return seconds > 0 ? n / seconds : 0;
}

void cli_print_timings(const struct cli_answer *answer)
{
    const struct qr_usage *u = &answer->usage;
    int rest = u->output_tokens > 0 ? u->output_tokens - 1 : 0; /* the first one comes with the prompt */
    char cached[64] = "";
    if (u->cached_tokens > 0)
        snprintf(cached, sizeof cached, ", %d of them from the cache,", u->cached_tokens);
    fprintf(stderr, "%d tokens in %.2f s (%.1f tok/s); prompt of %d tokens%s in %.2f s (%.1f tok/s); ended by %s\n",
            u->output_tokens, u->prefill_s + u->decode_s, rate(rest, u->decode_s), u->prompt_tokens, cached,
            u->prefill_s, rate(u->prompt_tokens - u->cached_tokens, u->prefill_s), cli_finish_name(answer->finish));
}
