/* ask.c - see ask.h. */
#include "ask.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct qr_request ask_request(const int32_t *prompt, size_t n, int max_tokens)
{
    struct qr_request r = {.prompt = prompt, .n_prompt = n};
    qr_sampling_defaults(NULL, &r.sampling);
    r.sampling.temperature = 0;
    r.sampling.max_tokens = max_tokens;
    return r;
}

uint64_t ask(struct qr_engine *engine, const struct qr_request *request)
{
    struct qr_err err;
    uint64_t id;
    if (qr_engine_submit(engine, request, &id, &err) != QR_OK)
        fail_msg("%s", err.message);
    return id;
}

static void *grown(void *p, int n, size_t size)
{
    p = realloc(p, (size_t)n * size);
    assert_non_null(p);
    return p;
}

static void take(struct answer *a, const struct qr_event *event)
{
    assert_false(a->done); /* nothing comes behind the last event */
    if (event->kind == QR_EVENT_DONE) {
        a->done = true;
        a->finish = event->finish;
        a->error = event->error;
        a->usage = event->usage;
    } else if (event->kind == QR_EVENT_PROMPT_LOGPROBS) {
        assert_int_equal(a->n, 0);
        a->n_slice++;
        for (size_t i = 0; i < event->n_logprobs; i++) {
            a->prompt = grown(a->prompt, ++a->n_prompt, sizeof *a->prompt);
            a->prompt_id = grown(a->prompt_id, a->n_prompt, sizeof *a->prompt_id);
            a->prompt[a->n_prompt - 1] = event->logprobs[i].logprob;
            a->prompt_id[a->n_prompt - 1] = event->logprobs[i].id;
        }
    } else {
        assert_int_equal(strlen(event->text), event->n_text);
        assert_true(qr_buf_append(&a->text, event->text, event->n_text));
        if (event->id < 0) {
            assert_true(event->n_text > 0);
            return;
        }
        a->id = grown(a->id, ++a->n, sizeof *a->id);
        a->id[a->n - 1] = event->id;
        if (event->n_logprobs) {
            assert_int_equal(event->logprobs[0].id, event->id);
            a->logprob = grown(a->logprob, a->n, sizeof *a->logprob);
            a->logprob[a->n - 1] = event->logprobs[0].logprob;
        }
    }
}

void await_answers(struct qr_engine *engine, struct answer *answers, int n)
{
    int left = 0;
    for (int i = 0; i < n; i++)
        left += !answers[i].done;
    while (left > 0) {
        struct qr_event event;
        struct qr_err err;
        bool got;
        if (qr_engine_next(engine, &event, 20000, &got, &err) != QR_OK)
            fail_msg("%s", err.message);
        assert_true(got);
        int i = 0;
        while (i < n && !(answers[i].request == event.request && answers[i].choice == event.choice))
            i++;
        assert_true(i < n);
        take(&answers[i], &event);
        left -= event.kind == QR_EVENT_DONE;
        qr_event_clear(&event);
    }
}

void ask_alone(struct qr_engine *engine, const struct qr_request *request, struct answer *answer)
{
    *answer = (struct answer){.request = ask(engine, request)};
    await_answers(engine, answer, 1);
}

void answer_free(struct answer *answer)
{
    free(answer->id);
    free(answer->logprob);
    free(answer->prompt);
    free(answer->prompt_id);
    qr_buf_free(&answer->text);
    *answer = (struct answer){0};
}

static void assert_same(const void *a, const void *b, size_t n)
{
    assert_int_equal(!a, !b);
    if (a && n)
        assert_memory_equal(a, b, n);
}

void assert_same_answer(const struct answer *a, const struct answer *b)
{
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->finish, b->finish);
    assert_int_equal(a->n_prompt, b->n_prompt);
    assert_same(a->id, b->id, (size_t)a->n * sizeof *a->id);
    assert_same(a->logprob, b->logprob, (size_t)a->n * sizeof *a->logprob);
    assert_same(a->prompt, b->prompt, (size_t)a->n_prompt * sizeof *a->prompt);
    assert_int_equal(a->text.len, b->text.len);
    assert_same(a->text.data, b->text.data, a->text.len);
}
