/* test_jinja.c - the Jinja engine without Python at hand: one line for each kind of statement and the rules that chat templates
 * lean on (texts from jinja2 3.1.6), the default model's template against shared/expected, and renders in parallel. The wide
 * comparison with jinja2 is tests/conformance/test_jinja.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "common/tmp.h"
#include "text/jinja.h"

static const char variables[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"Be kind.\"},{\"role\":\"user\",\"content\":\"H\\u00e9!\"},"
    "{\"role\":\"assistant\",\"content\":\"<think>\\nhm\\n</think>\\n\\nYo\"}],\"n\":3,\"x\":1.0,\"yes\":true,"
    "\"d\":{\"b\":[1,2.5,null],\"a\":\"q'\"}}";

static const struct {
    const char *template, *text;
} cases[] = {
    {"a\n{% if yes %}\nb\n{% endif %}\nc\n", "a\nb\nc"},
    {"a\n  {%- if yes -%}  b  {%- endif %}\n", "ab"},
    {"  {# x #}\ny", "y"},
    {"{% raw %}{{ a }}{% endraw %}", "{{ a }}"},
    {"{{ n / 2 }} {{ 7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ x }} {{ n * 'ab' }}", "1.5 3 2 1024 1.0 ababab"},
    {"{{ d }}", "{'b': [1, 2.5, None], 'a': \"q'\"}"},
    {"{{ d | tojson }}", "{\"b\": [1, 2.5, null], \"a\": \"q'\"}"},
    {"{{ missing }}|{{ d.zzz }}|{{ missing is defined }}", "||False"},
    {"{{ 1 < 2 < 3 }} {{ 'a' in d }} {{ 0 or 'z' }} {{ not [] }} {{ 'y' if yes else 'n' }}", "True True z True y"},
    {"{% for m in messages %}{{ loop.index }}{{ m.role[0] }}{{ ',' if not loop.last }}{% endfor %}", "1s,2u,3a"},
    {"{% for m in messages[::-1] %}{{ m.role }} {% endfor %}", "assistant user system "},
    {"{% for i in range(9) if i is odd %}{% if i == 7 %}{% break %}{% endif %}{{ i }}{% endfor %}", "135"},
    {"{% set ns = namespace(k=0) %}{% for m in messages %}{% set ns.k = ns.k + 1 %}{% endfor %}{{ ns.k }}", "3"},
    {"{% set v = 1 %}{% for i in [1] %}{% set v = 2 %}{% endfor %}{{ v }}", "1"},
    {"{% macro m(a, b='B') %}<{{ a }}{{ b }}>{% endmacro %}{{ m(1) }}{{ m(b=2, a=3) }}", "<1B><32>"},
    {"{% macro w() %}[{{ caller() }}]{% endmacro %}{% call w() %}in{% endcall %}", "[in]"},
    {"{% set t %}  s  {% endset %}{{ t | trim }}{% filter upper %}u{% endfilter %}", "sU"},
    {"{{ messages[2].content.split('</think>')[-1].lstrip('\\n') }}", "Yo"},
    {"{{ messages | selectattr('role', 'ne', 'system') | map(attribute='role') | join('/') }}", "user/assistant"},
    {"{{ messages[1].content | length }}{{ messages[1].content[::-1] }}{{ messages[1].content | upper }}",
     "3!\xc3\xa9HH\xc3\x89!"},
    {"{% generation %}g{% endgeneration %}", "g"},
};

static enum qr_status render(const char *template, const json_t *context, struct qr_buf *out, struct qr_err *err)
{
    struct qr_jinja *jinja = NULL;
    enum qr_status status = qr_jinja_parse(template, strlen(template), &jinja, err);
    if (status == QR_OK)
        status = qr_jinja_render(jinja, context, NULL, out, err);
    qr_jinja_free(jinja);
    return status;
}

static void test_cases(void **state)
{
    json_t *context = json_loads(variables, 0, NULL);
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct qr_buf out;
        struct qr_err err = {0};
        qr_buf_init(&out, 0);
        if (render(cases[i].template, context, &out, &err) != QR_OK)
            fail_msg("%s: %s", cases[i].template, err.message);
        assert_string_equal(out.data ? out.data : "", cases[i].text);
        qr_buf_free(&out);
    }
    json_decref(context);
}

/* What the default model's file holds under tokenizer.chat_template. */
static const char smollm2[] = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
                              "'<|im_start|>system\nYou are a helpful AI "
                              "assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif "
                              "%}{{'<|im_start|>' + message['role'] + '\n' + "
                              "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
                              "'<|im_start|>assistant\n' }}{% endif %}";

static void test_default_model(void **state)
{
    const char *path = shared_path("expected/smollm2_greedy.json");
    json_t *expected = NULL, *result;
    size_t i;
    (void)state;
    if (!path) {
        print_message("shared/expected is not here\n");
        skip();
    }
    assert_int_equal(qr_json_file(path, (uint64_t)16 << 20, &expected, NULL), QR_OK);
    assert_true(json_array_size(json_object_get(expected, "results")) > 0);
    json_array_foreach(json_object_get(expected, "results"), i, result)
    {
        struct qr_buf out;
        struct qr_err err = {0};
        json_t *context = json_pack("{s:[{s:s, s:O}], s:b}", "messages", "role", "user", "content",
                                    json_object_get(result, "user"), "add_generation_prompt", 1);
        qr_buf_init(&out, 0);
        if (render(smollm2, context, &out, &err) != QR_OK)
            fail_msg("%s", err.message);
        assert_string_equal(out.data, json_string_value(json_object_get(result, "prompt_text")));
        qr_buf_free(&out);
        json_decref(context);
    }
    json_decref(expected);
}

struct worker {
    const struct qr_jinja *jinja;
    int good;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    for (int i = 0; i < 200; i++) {
        struct qr_buf out;
        json_t *context = json_loads(variables, 0, NULL);
        qr_buf_init(&out, 0);
        w->good += qr_jinja_render(w->jinja, context, NULL, &out, NULL) == QR_OK &&
                   strcmp(out.data, "\xc3\xa9 4 H\xc3\xa9! kéx") == 0;
        qr_buf_free(&out);
        json_decref(context);
    }
    return NULL;
}

/* One template, many renders at once: constants of the template are shared. */
static void test_parallel(void **state)
{
    static const char template[] =
        "{{ 'h\xc3\xa9llo'[1] }} {{ 'caf\xc3\xa9'|length }} {{ messages[1].content }} {{ {'k\xc3\xa9x': 1}|first }}";
    struct qr_jinja *jinja = NULL;
    struct worker w[4];
    pthread_t thread[4];
    (void)state;
    assert_int_equal(qr_jinja_parse(template, sizeof template - 1, &jinja, NULL), QR_OK);
    for (int i = 0; i < 4; i++) {
        w[i] = (struct worker){jinja, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(w[i].good, 200);
    }
    qr_jinja_free(jinja);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_default_model),
                                       cmocka_unit_test(test_parallel)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
