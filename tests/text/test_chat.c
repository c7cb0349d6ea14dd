/* test_chat.c - chat requests: what is checked, which variables a template sees, which template is taken. The prompts for
 * the default model's and Qwen2.5's templates come from transformers (shared/expected) or follow from the format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "common/fault.h"
#include "common/tmp.h"
#include "text/chat.h"

static struct qr_chat *chat_of(const char *text, const char *bos, const char *eos)
{
    struct qr_chat_template t = {"default", text, strlen(text)};
    struct qr_chat *chat = NULL;
    struct qr_err err = {0};
    if (qr_chat_create(&t, 1, bos, eos, &chat, &err) != QR_OK)
        fail_msg("%s", err.message);
    return chat;
}

/* The prompt of a request in JSON, or the error's message; the caller frees. */
static char *render(const struct qr_chat *chat, const char *request, enum qr_status *status)
{
    json_t *json = json_loads(request, JSON_DECODE_ANY, NULL);
    struct qr_buf out;
    struct qr_err err = {0};
    assert_non_null(json);
    qr_buf_init(&out, 0);
    *status = qr_chat_render(chat, json, &out, &err);
    json_decref(json);
    if (*status == QR_OK)
        return qr_buf_take(&out, NULL);
    qr_buf_free(&out);
    return strdup(err.message);
}

static void expect(const struct qr_chat *chat, const char *request, const char *prompt)
{
    enum qr_status status;
    char *got = render(chat, request, &status);
    assert_string_equal(got, prompt);
    assert_int_equal(status, QR_OK);
    free(got);
}

static void expect_error(const struct qr_chat *chat, const char *request, enum qr_status want, const char *part)
{
    enum qr_status status;
    char *got = render(chat, request, &status);
    assert_int_equal(status, want);
    if (!strstr(got, part))
        fail_msg("'%s' does not contain '%s'", got, part);
    free(got);
}

#define ONE "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"

static void test_variables(void **state)
{
    (void)state;
    struct qr_chat *chat =
        chat_of("{{ bos_token }}|{{ eos_token }}|{{ tools }}|{{ documents }}|{{ add_generation_prompt }}|"
                "{{ extra }}|{{ chat_template_kwargs is defined }}|{{ messages[0].content }}",
                "<s>", "</s>");
    expect(chat, "{" ONE "}", "<s>|</s>|None|None|True||False|Hi");
    expect(chat, "{" ONE ",\"add_generation_prompt\":false,\"extra\":[1]}", "<s>|</s>|None|None|False|[1]|False|Hi");
    expect(chat, "{" ONE ",\"add_generation_prompt\":null}", "<s>|</s>|None|None|True||False|Hi");
    expect(chat,
           "{" ONE
           ",\"extra\":1,\"chat_template_kwargs\":{\"extra\":2,\"bos_token\":\"B\",\"add_generation_prompt\":false}}",
           "B|</s>|None|None|False|2|False|Hi");
    expect(chat, "{" ONE ",\"tools\":[{\"a\":1}],\"documents\":[]}", "<s>|</s>|[{'a': 1}]|[]|True||False|Hi");
    qr_chat_destroy(chat);
    chat = chat_of("{{ bos_token is defined }}{{ eos_token is defined }}", NULL, NULL);
    expect(chat, "{" ONE "}", "FalseFalse");
    qr_chat_destroy(chat);
}

static void test_refusals(void **state)
{
    (void)state;
    struct qr_chat *chat = chat_of(
        "{{ messages|length }}{% if messages[0].role == 'bad' %}{{ raise_exception('No bad roles!') }}{% endif %}",
        NULL, NULL);
    expect_error(chat, "[]", QR_INVALID, "must be a JSON object, not an array");
    expect_error(chat, "{}", QR_INVALID, "\"messages\" must be a list with at least one message, and is missing");
    expect_error(chat, "{\"messages\":[]}", QR_INVALID, "is empty");
    expect_error(chat, "{\"messages\":\"Hi\"}", QR_INVALID, "a string");
    expect_error(chat, "{\"messages\":[1]}", QR_INVALID, "messages[0] must be an object, not a number");
    expect_error(chat, "{\"messages\":[{\"content\":\"x\"}]}", QR_INVALID,
                 "messages[0].role must be a string, and is missing");
    expect_error(chat, "{\"messages\":[{\"role\":1}]}", QR_INVALID, "messages[0].role");
    expect_error(chat, "{\"messages\":[{\"role\":\"user\",\"content\":5}]}", QR_INVALID, "messages[0].content");
    expect_error(chat, "{\"messages\":[{\"role\":\"user\",\"content\":[5]}]}", QR_INVALID,
                 "messages[0].content[0] must be an object");
    expect_error(chat, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}", QR_UNSUPPORTED,
                 "\"image_url\"");
    expect_error(chat, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":1}]}]}", QR_INVALID,
                 "content[0].text");
    expect_error(chat, "{" ONE ",\"tools\":{}}", QR_INVALID, "\"tools\" must be a list, not an object");
    expect_error(chat, "{" ONE ",\"tools\":[1]}", QR_INVALID, "tools[0] must be an object");
    expect_error(chat, "{" ONE ",\"documents\":1}", QR_INVALID, "\"documents\"");
    expect_error(chat, "{" ONE ",\"add_generation_prompt\":1}", QR_INVALID, "\"add_generation_prompt\"");
    expect_error(chat, "{" ONE ",\"chat_template_kwargs\":[]}", QR_INVALID, "\"chat_template_kwargs\"");
    expect_error(chat, "{\"messages\":[{\"role\":\"bad\"}]}", QR_INVALID, "No bad roles!");
    expect(chat, "{\"messages\":[{\"role\":\"x\",\"content\":null},{\"role\":\"y\"}]}", "2");
    qr_chat_destroy(chat);
}

#define PARTS                                                                                                          \
    "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":"   \
    "\"b\"}]}]}"

static void test_content_parts(void **state)
{
    static const char *const strings[] = {
        "{% for m in messages %}{{ m.content }}{% endfor %}",
        "{% for m in messages %}{{ '' + m['content'] }}{% endfor %}",
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% endif %}{% endfor %}", /* drops other content */
        "{% for m in messages %}{% for p in (m.content if m.content is mapping else [m.content]) %}{{ p }}{% endfor "
        "%}{% endfor %}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
        struct qr_chat *chat = chat_of(strings[i], NULL, NULL);
        expect(chat, PARTS, "a\nb");
        qr_chat_destroy(chat);
    }
    struct qr_chat *chat = chat_of(
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
        "{% if p.type == 'text' %}<{{ p.text }}>{% else %}[{{ p.type }}]{% endif %}{% endfor %}{% endif %}{% endfor %}",
        NULL, NULL);
    expect(chat, PARTS, "<a><b>");
    expect(chat, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}", "[image]");
    expect(chat, "{" ONE "}", "Hi");
    qr_chat_destroy(chat);
}

static void test_named_templates(void **state)
{
    struct qr_chat_template t[] = {{"tool_use", "T{{ tools|length }}", 19}, {"default", "D", 1}};
    struct qr_chat *chat = NULL;
    struct qr_err err = {0};
    (void)state;
    assert_int_equal(qr_chat_create(t, 2, NULL, NULL, &chat, &err), QR_OK);
    expect(chat, "{" ONE "}", "D");
    expect(chat, "{" ONE ",\"tools\":[]}", "D");
    expect(chat, "{" ONE ",\"tools\":[{}]}", "T1");
    qr_chat_destroy(chat);
    assert_int_equal(qr_chat_create(t, 0, NULL, NULL, &chat, &err), QR_NOTFOUND);
    assert_null(chat);
    t[0].text = "{% if %}";
    t[0].n = 8;
    assert_int_equal(qr_chat_create(t, 2, NULL, NULL, &chat, &err), QR_FORMAT);
    assert_null(chat);
    assert_non_null(strstr(err.message, "template 'tool_use'"));
    assert_non_null(strstr(err.message, "line 1"));
}

/* Qwen2.5's own template, over a conversation with tools; the text as transformers gives it. */
static void test_qwen25(void **state)
{
    const char *path = shared_path("tokenizers/qwen2.5/tokenizer_config.json");
    json_t *config = NULL;
    (void)state;
    if (!path) {
        print_message("shared/tokenizers/qwen2.5 is not here\n");
        skip();
    }
    assert_int_equal(qr_json_file(path, 1 << 20, &config, NULL), QR_OK);
    struct qr_chat *chat = chat_of(json_string_value(json_object_get(config, "chat_template")), NULL, "<|im_end|>");
    expect(chat, "{" ONE "}",
           "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
           "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    expect(
        chat,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"w?\"},{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":"
        "[{\"function\":"
        "{\"name\":\"f\",\"arguments\":{\"c\":\"\\u00e9\",\"n\":1.0}}}]},{\"role\":\"tool\",\"content\":\"r1\"},{"
        "\"role\":\"tool\","
        "\"content\":\"r2\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"add_generation_"
        "prompt\":false}",
        "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.\n\n# Tools\n\nYou "
        "may call "
        "one or more functions to assist with the user query.\n\nYou are provided with function signatures within "
        "<tools></tools> XML tags:\n<tools>\n{\"type\": \"function\", \"function\": {\"name\": "
        "\"f\"}}\n</tools>\n\nFor each "
        "function call, return a json object with function name and arguments within <tool_call></tool_call> XML "
        "tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n"
        "<|im_start|>user\nw?<|im_end|>\n<|im_start|>assistant\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"c\": "
        "\"\xc3\xa9\", "
        "\"n\": "
        "1.0}}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\nr1\n</tool_response>\n<tool_response>\nr2\n"
        "</tool_response><|im_end|>\n");
    qr_chat_destroy(chat);
    json_decref(config);
}

static bool create_and_render(void *ctx)
{
    static const char text[] = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}{{ tools|tojson }}";
    struct qr_chat_template t[] = {{"default", text, sizeof text - 1}, {"tool_use", text, sizeof text - 1}};
    struct qr_chat *chat = NULL;
    struct qr_buf out;
    qr_buf_init(&out, 0);
    bool ok =
        qr_chat_create(t, 2, "<s>", "</s>", &chat, NULL) == QR_OK && qr_chat_render(chat, ctx, &out, NULL) == QR_OK;
    if (ok)
        assert_string_equal(out.data, "<s>a\nb[{\"x\": 1}]");
    qr_buf_free(&out);
    qr_chat_destroy(chat);
    return ok;
}

/* Every allocation failing in turn. */
static void test_torture(void **state)
{
    json_t *request = json_loads(PARTS, 0, NULL);
    (void)state;
    json_object_set_new(request, "tools", json_pack("[{s:i}]", "x", 1));
    json_object_set_new(request, "chat_template_kwargs", json_pack("{s:i}", "k", 1));
    if (fault_works())
        assert_true(fault_torture(create_and_render, request, FAULT_ALLOC, 0) > 50);
    json_decref(request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variables),       cmocka_unit_test(test_refusals), cmocka_unit_test(test_content_parts),
        cmocka_unit_test(test_named_templates), cmocka_unit_test(test_qwen25),   cmocka_unit_test(test_torture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
