/* test_openai_response.c - events gathered into chat.completion and text_completion objects: their fields as OpenAI's API
 * reference lists them, choices in order, usage added up, log-probabilities in both forms, errors. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "common/fault.h"
#include "common/tmp.h"
#include "server/openai_response.h"
#include "model.h"

static struct qr_model *model;

static int setup(void **state)
{
    model = server_model(state);
    return 0;
}

static int teardown(void **state)
{
    qr_model_close(model);
    return tmp_teardown(state);
}

static void token(struct qr_openai_answer *a, size_t prompt, int choice, const char *text,
                  struct qr_token_logprob *logprob)
{
    struct qr_event event = {.choice = choice,
                             .kind = QR_EVENT_TOKEN,
                             .id = 1,
                             .text = (char *)text,
                             .n_text = strlen(text),
                             .logprobs = logprob,
                             .n_logprobs = logprob ? 1 : 0};
    qr_openai_answer_take(a, model, prompt, &event);
}

static void done(struct qr_openai_answer *a, size_t prompt, int choice, enum qr_finish finish, int n_prompt, int n_out)
{
    struct qr_event event = {.choice = choice, .kind = QR_EVENT_DONE, .finish = finish};
    event.usage = (struct qr_usage){.prompt_tokens = n_prompt, .cached_tokens = 1, .output_tokens = n_out};
    if (finish == QR_FINISH_ERROR)
        event.error = (struct qr_err){QR_INTERNAL, "logits are NaN"};
    qr_openai_answer_take(a, model, prompt, &event);
}

static json_t *at(json_t *root, const char *path)
{
    char part[32];
    while (*path && root) {
        size_t n = strcspn(path, ".");
        snprintf(part, sizeof part, "%.*s", (int)n, path);
        root = json_is_array(root) ? json_array_get(root, (size_t)strtol(part, NULL, 10)) : json_object_get(root, part);
        path += n + (path[n] == '.');
    }
    return root;
}

static const char *text_at(json_t *root, const char *path)
{
    const char *text = json_string_value(at(root, path));
    return text ? text : "(none)";
}

static long long int_at(json_t *root, const char *path)
{
    return json_integer_value(at(root, path));
}

static struct qr_openai_answer start(enum qr_openai_api api, size_t n_prompt, int n)
{
    struct qr_openai_answer a;
    struct qr_openai_request r = {.api = api, .n = n, .n_prompt = n_prompt};
    assert_int_equal(qr_openai_answer_init(&a, &r, NULL), QR_OK);
    return a;
}

static void chat_completion(void **state)
{
    struct qr_openai_answer a = start(QR_OPENAI_CHAT, 1, 2);
    (void)state;
    token(&a, 0, 1, "b", NULL);
    token(&a, 0, 0, "Gr\xc3\xbc\xc3\x9f", NULL);
    token(&a, 0, 0, "e", NULL);
    done(&a, 0, 1, QR_FINISH_LENGTH, 7, 1);
    assert_false(qr_openai_answer_done(&a));
    done(&a, 0, 0, QR_FINISH_STOP, 7, 3);
    assert_true(qr_openai_answer_done(&a));
    assert_int_equal(qr_openai_answer_status(&a, NULL), QR_OK);
    json_t *j = qr_openai_answer_json(&a, "m", 0xabc, 1700000000);
    assert_string_equal(text_at(j, "id"), "chatcmpl-0000000000000abc");
    assert_string_equal(text_at(j, "object"), "chat.completion");
    assert_string_equal(text_at(j, "model"), "m");
    assert_int_equal(int_at(j, "created"), 1700000000);
    assert_int_equal(json_array_size(at(j, "choices")), 2);
    assert_string_equal(text_at(j, "choices.0.message.content"), "Gr\xc3\xbc\xc3\x9f"
                                                                 "e");
    assert_string_equal(text_at(j, "choices.0.message.role"), "assistant");
    assert_string_equal(text_at(j, "choices.0.finish_reason"), "stop");
    assert_string_equal(text_at(j, "choices.1.message.content"), "b");
    assert_string_equal(text_at(j, "choices.1.finish_reason"), "length");
    assert_int_equal(int_at(j, "choices.1.index"), 1);
    assert_true(json_is_null(at(j, "choices.0.logprobs")));
    assert_int_equal(int_at(j, "usage.prompt_tokens"), 7);
    assert_int_equal(int_at(j, "usage.completion_tokens"), 4);
    assert_int_equal(int_at(j, "usage.total_tokens"), 11);
    assert_int_equal(int_at(j, "usage.prompt_tokens_details.cached_tokens"), 1);
    json_decref(j);
    qr_openai_answer_free(&a);
}

static void text_completion_of_two_prompts(void **state)
{
    static const char *const expected[] = {"A", "B", "C", ""};
    struct qr_openai_answer a = start(QR_OPENAI_COMPLETIONS, 2, 2);
    (void)state;
    token(&a, 1, 0, "C", NULL);
    token(&a, 0, 1, "B", NULL);
    token(&a, 0, 0, "A", NULL);
    done(&a, 1, 1, QR_FINISH_STOP, 5, 0);
    done(&a, 1, 0, QR_FINISH_LENGTH, 5, 1);
    done(&a, 0, 0, QR_FINISH_LENGTH, 3, 1);
    done(&a, 0, 1, QR_FINISH_LENGTH, 3, 1);
    json_t *j = qr_openai_answer_json(&a, "m", 1, 2);
    assert_string_equal(text_at(j, "object"), "text_completion");
    for (int i = 0; i < 4; i++) {
        char path[32];
        snprintf(path, sizeof path, "choices.%d.text", i);
        assert_string_equal(text_at(j, path), expected[i]);
    }
    assert_int_equal(int_at(j, "usage.prompt_tokens"), 8); /* each prompt once */
    assert_int_equal(int_at(j, "usage.completion_tokens"), 3);
    json_decref(j);
    qr_openai_answer_free(&a);
}

/* The id of a text that is one token. */
static int32_t id_of(const char *text)
{
    int32_t *ids;
    size_t n;
    assert_int_equal(qr_tokenize(model, text, strlen(text), false, false, &ids, &n, NULL), QR_OK);
    assert_int_equal(n, 1);
    int32_t id = ids[0];
    qr_free(ids);
    return id;
}

static int32_t lone_byte(void) /* 0xc3: the first byte of u-umlaut, no text of its own */
{
    int32_t *ids;
    size_t n;
    assert_int_equal(qr_tokenize(model, "\xc3\xbc", 2, false, false, &ids, &n, NULL), QR_OK);
    assert_int_equal(n, 2);
    int32_t id = ids[0];
    qr_free(ids);
    return id;
}

static void log_probabilities(void **state)
{
    struct qr_top top[2] = {{id_of("a"), -0.25f}, {lone_byte(), -INFINITY}};
    struct qr_token_logprob one = {.id = id_of("b"), .logprob = -1.5f, .rank = 1, .n_top = 2, .top = top};
    (void)state;
    for (int api = 0; api < 2; api++) {
        struct qr_openai_answer a = start((enum qr_openai_api)api, 1, 1);
        token(&a, 0, 0, "b", &one);
        token(&a, 0, 0, "b", &one);
        done(&a, 0, 0, QR_FINISH_STOP, 1, 2);
        json_t *j = qr_openai_answer_json(&a, "m", 1, 2), *l = at(j, "choices.0.logprobs");
        if (api == QR_OPENAI_CHAT) {
            assert_int_equal(json_array_size(at(l, "content")), 2);
            assert_string_equal(text_at(l, "content.1.token"), "b");
            assert_int_equal(int_at(l, "content.1.bytes.0"), 'b');
            assert_true(json_real_value(at(l, "content.1.logprob")) == -1.5);
            assert_string_equal(text_at(l, "content.0.top_logprobs.0.token"), "a");
            assert_string_equal(text_at(l, "content.0.top_logprobs.1.token"), "bytes:\\xc3");
            assert_int_equal(int_at(l, "content.0.top_logprobs.1.bytes.0"), 0xc3);
            assert_true(json_real_value(at(l, "content.0.top_logprobs.1.logprob")) == -9999.0);
        } else {
            assert_string_equal(text_at(l, "tokens.1"), "b");
            assert_true(json_real_value(at(l, "token_logprobs.0")) == -1.5);
            assert_true(json_real_value(at(l, "top_logprobs.0.a")) == -0.25);
            assert_true(json_real_value(at(l, "top_logprobs.1.b")) == -1.5); /* the chosen one, not among the best */
            assert_int_equal(int_at(l, "text_offset.0"), 0);
            assert_int_equal(int_at(l, "text_offset.1"), 1);
        }
        json_decref(j);
        qr_openai_answer_free(&a);
    }
}

/* Many readers of JSON, jansson among them, refuse a key with a NUL in it. */
static void nul_in_no_key(void **state)
{
    int32_t *ids;
    size_t n;
    struct qr_openai_answer a = start(QR_OPENAI_COMPLETIONS, 1, 1);
    (void)state;
    assert_int_equal(qr_tokenize(model, "\0", 1, false, false, &ids, &n, NULL), QR_OK);
    struct qr_token_logprob one = {.id = ids[0], .logprob = -1};
    token(&a, 0, 0, "", &one);
    json_t *j = qr_openai_answer_json(&a, "m", 1, 2);
    assert_string_equal(text_at(j, "choices.0.logprobs.tokens.0"), "bytes:\\x00");
    json_decref(j);
    qr_free(ids);
    qr_openai_answer_free(&a);
}

static void errors(void **state)
{
    struct qr_openai_answer a = start(QR_OPENAI_CHAT, 1, 2);
    struct qr_openai_error error = {.param = "n"};
    (void)state;
    done(&a, 0, 0, QR_FINISH_STOP, 1, 1);
    done(&a, 0, 1, QR_FINISH_ERROR, 1, 1);
    assert_int_equal(qr_openai_answer_status(&a, &error.err), QR_INTERNAL);
    assert_int_equal(qr_openai_http_status(error.err.status), 500);
    json_t *j = qr_openai_error_json(&error);
    assert_string_equal(text_at(j, "error.message"), "logits are NaN");
    assert_string_equal(text_at(j, "error.type"), "server_error");
    assert_string_equal(text_at(j, "error.param"), "n");
    json_decref(j);
    qr_openai_answer_free(&a);
    a = start(QR_OPENAI_CHAT, 1, 1);
    done(&a, 0, 0, QR_FINISH_CANCELLED, 1, 1);
    assert_int_equal(qr_openai_answer_status(&a, NULL), QR_CANCELLED);
    qr_openai_answer_free(&a);
    /* a message that its buffer cut within a character */
    qr_openai_fail(&error, QR_INVALID, NULL, "caf\xc3");
    j = qr_openai_error_json(&error);
    assert_string_equal(text_at(j, "error.message"), "caf");
    assert_true(json_is_null(at(j, "error.param")));
    json_decref(j);
    assert_int_equal(qr_openai_http_status(QR_BUSY), 429);
    assert_int_equal(qr_openai_http_status(QR_LIMIT), 400);
}

static bool gather(void *ctx)
{
    struct qr_top top = {2, -1};
    struct qr_token_logprob one = {.id = 1, .logprob = -1, .n_top = 1, .top = &top};
    struct qr_openai_request r = {.api = *(enum qr_openai_api *)ctx, .n = 1, .n_prompt = 1};
    struct qr_openai_answer a;
    if (qr_openai_answer_init(&a, &r, NULL) != QR_OK)
        return false;
    token(&a, 0, 0, "text", &one);
    done(&a, 0, 0, QR_FINISH_STOP, 1, 1);
    json_t *j = qr_openai_answer_json(&a, "m", 1, 2);
    bool ok = j && qr_openai_answer_status(&a, NULL) == QR_OK;
    json_decref(j);
    qr_openai_answer_free(&a);
    return ok;
}

static void every_allocation_fails(void **state)
{
    enum qr_openai_api api[] = {QR_OPENAI_COMPLETIONS, QR_OPENAI_CHAT};
    (void)state;
    for (int i = 0; i < 2 && fault_works(); i++)
        assert_true(fault_torture(gather, &api[i], FAULT_ALLOC, 0) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chat_completion),   cmocka_unit_test(text_completion_of_two_prompts),
        cmocka_unit_test(log_probabilities), cmocka_unit_test(errors),
        cmocka_unit_test(nul_in_no_key),     cmocka_unit_test(every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
