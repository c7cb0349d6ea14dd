/* test_openai_request.c - bodies of requests: every field at and beyond the ends of its range, with the field named in the
 * error; what is refused, what is ignored; prompts in all forms. The ranges are those of OpenAI's API reference and of
 * vLLM's sampling parameters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/json.h"
#include "common/fault.h"
#include "common/tmp.h"
#include "server/openai_request.h"
#include "model.h"

enum { N_VOCAB = 320, MAX_LEN = 256 }; /* of tiny-llama; of the engine that the requests are for */

static struct qr_model *model;

static int setup(void **state)
{
    model = server_model(state);
    assert_int_equal(qr_model_vocab_size(model), N_VOCAB);
    return 0;
}

static int teardown(void **state)
{
    qr_model_close(model);
    return tmp_teardown(state);
}

static enum qr_status read_text(enum qr_openai_api api, const char *text, struct qr_openai_request *r,
                                struct qr_openai_error *error)
{
    struct qr_err err;
    json_t *body;
    if (qr_json_parse(text, strlen(text), "body", &body, &err) != QR_OK)
        fail_msg("%s: %s", text, err.message);
    enum qr_status status = qr_openai_request_read(model, MAX_LEN, api, body, r, error);
    json_decref(body);
    return status;
}

/* A completion on ids with these further fields, which must be read. */
static struct qr_openai_request accept(const char *more)
{
    struct qr_openai_request r;
    struct qr_openai_error error;
    char text[4096];
    snprintf(text, sizeof text, "{\"prompt\": [1, 2, 3]%s%s}", *more ? ", " : "", more);
    if (read_text(QR_OPENAI_COMPLETIONS, text, &r, &error) != QR_OK)
        fail_msg("%s: %s", text, error.err.message);
    return r;
}

static void refuse_body(enum qr_openai_api api, const char *body, const char *param)
{
    struct qr_openai_request r;
    struct qr_openai_error error;
    if (read_text(api, body, &r, &error) == QR_OK)
        fail_msg("%s was read", body);
    assert_int_equal(qr_openai_http_status(error.err.status), 400);
    assert_string_equal(error.param, param);
    if (*param && !strstr(error.err.message, param))
        fail_msg("%s: the message does not name the field: %s", body, error.err.message);
    assert_null(r.body);
}

static void refuse(const char *more, const char *param)
{
    char text[4096];
    snprintf(text, sizeof text, "{\"prompt\": [1, 2, 3], %s}", more);
    refuse_body(QR_OPENAI_COMPLETIONS, text, param);
}

/* ---------------------------------------------------------------- fields */

static void ranges(void **state)
{
    static const struct {
        const char *name, *good[4], *bad[8]; /* values */
    } fields[] = {
        {"temperature", {"0", "2", "0.5", "100"}, {"-0.1", "100.1", "\"1\"", "[]", "true", "1e300"}},
        {"top_p", {"1", "0.001"}, {"0", "-1", "1.01", "1e-300", "\"x\""}},
        {"min_p", {"0", "1"}, {"-0.01", "1.5", "{}"}},
        {"top_k", {"-1", "0", "1", "2147483647"}, {"-2", "2147483648", "1.5", "9223372036854775807"}},
        {"n", {"1", "2", "128"}, {"0", "-1", "129", "2147483648", "1.0", "\"2\""}},
        {"max_tokens", {"0", "1", "2147483647"}, {"-1", "2147483648", "-9223372036854775808", "1.5"}},
        {"max_completion_tokens", {"0", "7"}, {"-1", "9223372036854775807", "false"}},
        {"min_tokens", {"0", "16"}, {"-1", "17", "2147483648"}}, /* 16: the default of max_tokens */
        {"seed", {"0", "-1", "9223372036854775807", "-9223372036854775808"}, {"1.5", "\"1\"", "true"}},
        {"presence_penalty", {"-2", "2"}, {"-2.1", "2.1", "\"0\""}},
        {"frequency_penalty", {"-2", "2"}, {"-2.1", "2.1", "[0]"}},
        {"repetition_penalty", {"1", "0.5", "100"}, {"0", "-1", "101"}},
        {"logprobs", {"0", "20"}, {"-1", "21", "true", "1.5"}},
        {"priority", {"-5", "5"}, {"2147483648", "0.5"}},
        {"ignore_eos", {"true", "false"}, {"0", "\"true\""}},
        {"stream", {"true", "false"}, {"1", "\"\""}},
        {"stop", {"\"a\"", "[\"a\", \"b\"]", "[]"}, {"\"\"", "[\"a\", \"\"]", "[1]", "1", "{}", "\"a\\u0000b\""}},
        {"stop_token_ids", {"[]", "[0, 319]"}, {"[-1]", "[320]", "[1.5]", "[\"1\"]", "1", "[9223372036854775807]"}},
        {"logit_bias",
         {"{}", "{\"0\": -100, \"319\": 100}"},
         {"{\"320\": 1}", "{\"-1\": 1}", "{\" 1\": 1}", "{\"1\": 101}", "{\"1\": \"1\"}", "{\"\": 1}", "[]",
          "{\"4294967297\": 1}"}},
        {"model", {"\"any\""}, {"1", "[]"}},
    };
    char text[256];
    (void)state;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        for (size_t k = 0; k < 4 && fields[i].good[k]; k++) {
            snprintf(text, sizeof text, "\"%s\": %s", fields[i].name, fields[i].good[k]);
            struct qr_openai_request r = accept(text);
            qr_openai_request_free(&r);
        }
        for (size_t k = 0; k < 8 && fields[i].bad[k]; k++) {
            snprintf(text, sizeof text, "\"%s\": %s", fields[i].name, fields[i].bad[k]);
            refuse(text, fields[i].name);
        }
        snprintf(text, sizeof text, "\"%s\": null", fields[i].name); /* as if it were absent */
        struct qr_openai_request r = accept(text);
        qr_openai_request_free(&r);
    }
}

static void values_arrive(void **state)
{
    (void)state;
    struct qr_openai_request r =
        accept("\"temperature\": 0.25, \"top_p\": 0.5, \"top_k\": 7, \"min_p\": 0.125, \"n\": 3,"
               "\"max_tokens\": 9, \"min_tokens\": 2, \"seed\": -1, \"presence_penalty\": 0.5,"
               "\"frequency_penalty\": -0.5, \"repetition_penalty\": 1.5, \"ignore_eos\": true,"
               "\"stop\": [\"x\", \"yz\"], \"stop_token_ids\": [5, 6], \"logit_bias\": {\"4\": 2.5},"
               "\"logprobs\": 4, \"priority\": -3");
    const struct qr_request q = qr_openai_engine_request(&r, 0);
    const struct qr_sampling *s = &q.sampling;
    assert_true(s->temperature == 0.25f && s->top_p == 0.5f && s->top_k == 7 && s->min_p == 0.125f);
    assert_true(s->presence_penalty == 0.5f && s->frequency_penalty == -0.5f && s->repetition_penalty == 1.5f);
    assert_true(q.n == 3 && q.priority == -3 && s->max_tokens == 9 && s->min_tokens == 2 && s->ignore_eos);
    assert_true(s->has_seed && s->seed == UINT64_MAX && s->logprobs == 4);
    assert_true(s->n_stop == 2 && strcmp(s->stop[0], "x") == 0 && strcmp(s->stop[1], "yz") == 0);
    assert_true(s->n_stop_token_ids == 2 && s->stop_token_ids[1] == 6);
    assert_true(s->n_logit_bias == 1 && s->logit_bias[0].id == 4 && s->logit_bias[0].bias == 2.5f);
    assert_true(q.n_prompt == 3 && q.prompt[0] == 1 && q.prompt[2] == 3);
    qr_openai_request_free(&r);
    r = accept("");
    assert_true(r.sampling.max_tokens == 16 && r.n == 1 && !r.sampling.has_seed && r.sampling.logprobs == -1);
    assert_true(r.n_ignored == 0);
    qr_openai_request_free(&r);
    r = accept("\"max_tokens\": 9, \"max_completion_tokens\": 8");
    assert_int_equal(r.sampling.max_tokens, 8);
    qr_openai_request_free(&r);
}

/* "key": [item, item, ...] with n items, or {...}; malloc'ed. */
static char *repeated(const char *key, char open, const char *item, size_t n, char close)
{
    struct qr_buf buf;
    qr_buf_init(&buf, 0);
    qr_buf_printf(&buf, "{\"prompt\": [1], \"%s\": %c", key, open);
    for (size_t i = 0; i < n; i++) {
        qr_buf_puts(&buf, i ? "," : "");
        if (open == '{')
            qr_buf_printf(&buf, "\"%zu\":%s", i, item);
        else
            qr_buf_puts(&buf, item);
    }
    qr_buf_printf(&buf, "%c}", close);
    assert_false(buf.failed);
    return buf.data;
}

static void too_many(void **state)
{
    static const struct {
        const char *key, *item;
        size_t n;
        char open, close;
    } lists[] = {
        {"stop", "\"a\"", 100000, '[', ']'},
        {"stop_token_ids", "1", 100000, '[', ']'},
        {"logit_bias", "1", 100000, '{', '}'},
    };
    struct qr_openai_request r;
    struct qr_openai_error error;
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char *text = repeated(lists[i].key, lists[i].open, lists[i].item, lists[i].n, lists[i].close);
        refuse_body(QR_OPENAI_COMPLETIONS, text, lists[i].key);
        free(text);
    }
    char *text = repeated("prompt_cache_key", '[', "1", 3, ']'); /* ignored, whatever it holds */
    assert_int_equal(read_text(QR_OPENAI_COMPLETIONS, text, &r, &error), QR_OK);
    assert_int_equal(r.n_ignored, 1);
    assert_string_equal(r.ignored[0], "prompt_cache_key");
    qr_openai_request_free(&r);
    free(text);
    char *long_stop = malloc(2048);
    memset(long_stop, 'a', 2047);
    memcpy(long_stop, "\"stop\": \"", 9);
    strcpy(long_stop + 2046, "\"");
    refuse(long_stop, "stop");
    free(long_stop);
}

static void refused_and_ignored(void **state)
{
    static const char *const refused[] = {
        "\"best_of\": 2",
        "\"echo\": 1",
        "\"suffix\": \"x\"",
        "\"prompt_logprobs\": 21",
        "\"temprature\": 1",
        "\"tools\": [{}]",
        "\"top_logprobs\": 1",
        "\"messages\": []",
        "\"response_format\": {\"type\": \"yaml\"}",
        "\"guided_regex\": \"(\"",
        "\"structured_outputs\": {\"grammar\": \"x\"}",
    };
    static const char *const neutral[] = {"\"echo\": false",     "\"suffix\": \"\"",
                                          "\"best_of\": null",   "\"response_format\": {\"type\": \"text\"}",
                                          "\"user\": \"u\"",     "\"metadata\": {\"a\": \"b\"}",
                                          "\"unheard_of\": null"};
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char param[64];
        snprintf(param, sizeof param, "%.*s", (int)strcspn(refused[i] + 1, "\""), refused[i] + 1);
        refuse(refused[i], param);
    }
    for (size_t i = 0; i < sizeof neutral / sizeof *neutral; i++) {
        struct qr_openai_request r = accept(neutral[i]);
        qr_openai_request_free(&r);
    }
    refuse("\"stream_options\": {\"include_usage\": true}", "stream_options");
    struct qr_openai_request r = accept("\"stream\": true, \"stream_options\": {\"include_usage\": true}");
    assert_true(r.stream && r.include_usage);
    qr_openai_request_free(&r);
}

/* ---------------------------------------------------------------- prompts */

static void completion_prompts(void **state)
{
    static const char *const bad[] = {
        "{}",
        "{\"prompt\": null}",
        "{\"prompt\": 5}",
        "{\"prompt\": []}",
        "{\"prompt\": [[]]}",
        "{\"prompt\": [[1], \"a\", 2]}",
        "{\"prompt\": [1, \"a\"]}",
        "{\"prompt\": [\"a\", null]}",
        "{\"prompt\": [1, -1]}",
        "{\"prompt\": [320]}",
        "{\"prompt\": [[1], [320]]}",
        "{\"prompt\": [1.5]}",
        "{\"prompt\": [true]}",
        "{\"prompt\": [9223372036854775807]}",
        "{\"prompt\": {\"a\": 1}}",
    };
    struct qr_openai_request r;
    struct qr_openai_error error;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse_body(QR_OPENAI_COMPLETIONS, bad[i], "prompt");
    assert_int_equal(read_text(QR_OPENAI_COMPLETIONS, "{\"prompt\": [\"ab\", [7, 8, 9], \"c\"], \"n\": 2}", &r, &error),
                     QR_OK);
    assert_int_equal(r.n_prompt, 3);
    assert_true(r.prompt[1].n == 3 && r.prompt[1].ids[2] == 9);
    int32_t *ids;
    size_t n;
    assert_int_equal(qr_tokenize(model, "ab", 2, true, true, &ids, &n, NULL), QR_OK);
    assert_int_equal(r.prompt[0].n, n);
    assert_memory_equal(r.prompt[0].ids, ids, n * sizeof *ids);
    qr_free(ids);
    qr_openai_request_free(&r);
}

static void list_of_prompts(const char *item, size_t n, const char *more, const char *param)
{
    struct qr_openai_request r;
    struct qr_openai_error error;
    struct qr_buf buf;
    qr_buf_init(&buf, 0);
    qr_buf_puts(&buf, "{\"prompt\": [");
    for (size_t i = 0; i < n; i++)
        qr_buf_printf(&buf, "%s%s", i ? "," : "", item);
    qr_buf_printf(&buf, "]%s}", more);
    if (param) {
        refuse_body(QR_OPENAI_COMPLETIONS, buf.data, param);
    } else {
        if (read_text(QR_OPENAI_COMPLETIONS, buf.data, &r, &error) != QR_OK)
            fail_msg("%s", error.err.message);
        qr_openai_request_free(&r);
    }
    qr_buf_free(&buf);
}

static void long_prompts(void **state)
{
    struct qr_openai_request r;
    struct qr_openai_error error;
    struct qr_buf buf;
    (void)state;
    list_of_prompts("\"a\"", QR_OPENAI_MAX_CHOICES, "", NULL);
    list_of_prompts("\"a\"", QR_OPENAI_MAX_CHOICES + 1, "", "prompt");
    list_of_prompts("\"a\"", 100000, "", "prompt");
    list_of_prompts("[1]", 128, ", \"n\": 2", NULL);
    list_of_prompts("[1]", 129, ", \"n\": 2", "n");
    list_of_prompts("1", MAX_LEN - 1, "", NULL); /* one token is left for the answer */
    list_of_prompts("1", MAX_LEN, ", \"max_tokens\": 0", NULL);
    list_of_prompts("1", MAX_LEN, "", "prompt");
    qr_buf_init(&buf, 0);
    qr_buf_puts(&buf, "{\"prompt\": [[1], [1");
    for (int i = 0; i < 1000000; i++)
        qr_buf_puts(&buf, ",1");
    qr_buf_puts(&buf, "]]}");
    assert_int_not_equal(read_text(QR_OPENAI_COMPLETIONS, buf.data, &r, &error), QR_OK);
    assert_non_null(strstr(error.err.message, "maximum context length"));
    qr_buf_free(&buf);
}

#define HI "\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]"

static void chat(void **state)
{
    static const struct {
        const char *body, *param;
    } bad[] = {
        {"[]", ""},
        {"\"x\"", ""},
        {"{}", "messages"},
        {"{\"messages\": []}", "messages"},
        {"{\"messages\": [1]}", "messages"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": 5}]}", "messages"},
        {"{\"messages\": [{\"content\": \"hi\"}]}", "messages"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]}", "messages"},
        {"{" HI ", \"prompt\": \"a\"}", "prompt"},
        {"{" HI ", \"tools\": 5}", "tools"},
        {"{" HI ", \"tool_choice\": \"required\"}", "tool_choice"},
        {"{" HI ", \"tool_choice\": {\"type\": \"function\"}}", "tool_choice"},
        {"{" HI ", \"chat_template_kwargs\": []}", "chat_template_kwargs"},
        {"{" HI ", \"logprobs\": 1}", "logprobs"},
        {"{" HI ", \"top_logprobs\": 1}", "top_logprobs"},
        {"{" HI ", \"logprobs\": true, \"top_logprobs\": 21}", "top_logprobs"},
        {"{" HI ", \"max_tokens\": 0}", "max_tokens"},
        {"{" HI ", \"functions\": [{}]}", "functions"},
        {"{" HI ", \"parallel_tool_calls\": true, \"reasoning_effort\": \"low\"}", "reasoning_effort"},
    };
    struct qr_openai_request r;
    struct qr_openai_error error;
    char *text;
    int32_t *ids;
    size_t n_text, n;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse_body(QR_OPENAI_CHAT, bad[i].body, bad[i].param);
    if (read_text(QR_OPENAI_CHAT, "{" HI ", \"logprobs\": true, \"top_logprobs\": 3, \"tool_choice\": \"auto\"}", &r,
                  &error) != QR_OK)
        fail_msg("%s", error.err.message);
    assert_int_equal(qr_chat_prompt(model, "{" HI "}", &text, &n_text, NULL), QR_OK);
    assert_int_equal(qr_tokenize(model, text, n_text, true, false, &ids, &n, NULL), QR_OK);
    assert_int_equal(r.prompt[0].n, n);
    assert_memory_equal(r.prompt[0].ids, ids, n * sizeof *ids);
    assert_true(r.sampling.logprobs == 3 && r.sampling.max_tokens == -1);
    qr_openai_request_free(&r);
    qr_free(text);
    qr_free(ids);
}

/* ---------------------------------------------------------------- memory */

static bool read_everything(void *ctx)
{
    struct qr_openai_request r;
    struct qr_openai_error error;
    bool ok = qr_openai_request_read(model, MAX_LEN, QR_OPENAI_COMPLETIONS, ctx, &r, &error) == QR_OK;
    if (!ok)
        assert_int_equal(error.err.status, QR_NOMEM);
    qr_openai_request_free(&r);
    return ok;
}

static void every_allocation_fails(void **state)
{
    static const char body[] = "{\"prompt\": [\"a b\", [1, 2]], \"stop\": [\"x\"], \"stop_token_ids\": [1],"
                               "\"logit_bias\": {\"4\": 1}}";
    json_t *json = json_loads(body, 0, NULL);
    (void)state;
    assert_non_null(json);
    if (fault_works())
        assert_true(fault_torture(read_everything, json, FAULT_ALLOC, 0) >= 5);
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges),
        cmocka_unit_test(values_arrive),
        cmocka_unit_test(too_many),
        cmocka_unit_test(refused_and_ignored),
        cmocka_unit_test(completion_prompts),
        cmocka_unit_test(long_prompts),
        cmocka_unit_test(chat),
        cmocka_unit_test(every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
