/* test_form.c - answers kept to a form: a schema, a pattern, choices, over the default model's vocabulary and logits. */
#include <jansson.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "ask.h"
#include "common/tmp.h"

static struct qr_model *model;
static struct qr_engine *engine;

static const char schema[] = "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":12},"
                             "\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":120},"
                             "\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"b\"]},\"maxItems\":3}},"
                             "\"required\":[\"name\",\"age\",\"tags\"],\"additionalProperties\":false}";

static struct qr_request request_with(const struct qr_constraint *constraint, const int32_t *ids, int n)
{
    struct qr_request r = ask_request(ids, (size_t)n, 120);
    r.sampling.temperature = 1;
    r.sampling.has_seed = true;
    r.constraint = constraint;
    return r;
}

/* Ten seeds, two choices each; the constraint is freed while they run. */
static void ask_with(enum qr_form form, const char *const *text, size_t n_text, struct answer a[20])
{
    static const int32_t ids[] = {504, 3575, 282};
    struct qr_constraint constraint;
    struct qr_err err;
    if (qr_constraint_create(model, form, text, n_text, &constraint, &err) != QR_OK)
        fail_msg("%s", err.message);
    for (int i = 0; i < 10; i++) {
        struct qr_request r = request_with(&constraint, ids, 3);
        r.sampling.seed = (uint64_t)i;
        r.n = 2;
        uint64_t id = ask(engine, &r);
        a[2 * i] = (struct answer){.request = id};
        a[2 * i + 1] = (struct answer){.request = id, .choice = 1};
    }
    qr_constraint_free(&constraint);
    await_answers(engine, a, 20);
    for (int i = 0; i < 20; i++)
        qr_buf_append(&a[i].text, "", 1);
}

static void a_schema_is_kept(void **state)
{
    static struct answer a[20];
    const char *text[] = {schema};
    int n_whole = 0;
    (void)state;
    ask_with(QR_FORM_JSON_SCHEMA, text, 1, a);
    for (int i = 0; i < 20; i++) {
        if (a[i].finish == QR_FINISH_STOP) {
            json_error_t error;
            json_t *value = json_loads((const char *)a[i].text.data, JSON_REJECT_DUPLICATES, &error);
            if (!value)
                fail_msg("%s: %s", error.text, (const char *)a[i].text.data);
            json_int_t age = json_integer_value(json_object_get(value, "age"));
            assert_true(json_is_string(json_object_get(value, "name")) && age >= 0 && age <= 120);
            assert_true(json_array_size(json_object_get(value, "tags")) <= 3);
            assert_int_equal(json_object_size(value), 3);
            json_decref(value);
            n_whole++;
        }
        answer_free(&a[i]);
    }
    assert_true(n_whole >= 15);
}

static void a_pattern_and_choices_are_kept(void **state)
{
    static struct answer a[20];
    const char *pattern[] = {"[A-Z]{2}-[0-9]{3,5}(x|yy)"}, *words[] = {"left", "right", "straight on"};
    regex_t whole;
    bool seen[3] = {0};
    (void)state;
    assert_int_equal(regcomp(&whole, "^[A-Z]{2}-[0-9]{3,5}(x|yy)$", REG_EXTENDED | REG_NOSUB), 0);
    ask_with(QR_FORM_REGEX, pattern, 1, a);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(a[i].finish, QR_FINISH_STOP);
        if (regexec(&whole, (const char *)a[i].text.data, 0, NULL, 0) != 0)
            fail_msg("'%s' does not match", (const char *)a[i].text.data);
        answer_free(&a[i]);
    }
    regfree(&whole);
    ask_with(QR_FORM_CHOICE, words, 3, a);
    for (int i = 0; i < 20; i++) {
        int which = 0;
        while (which < 3 && strcmp(words[which], (const char *)a[i].text.data) != 0)
            which++;
        assert_true(which < 3);
        seen[which] = true;
        answer_free(&a[i]);
    }
    assert_true(seen[0] + seen[1] + seen[2] >= 2);
}

static void what_is_no_form_is_refused(void **state)
{
    static const struct {
        enum qr_form form;
        const char *text, *word;
    } bad[] = {
        {QR_FORM_JSON_SCHEMA, "{\"type\":", "schema"},
        {QR_FORM_JSON_SCHEMA, "{\"not\":{\"type\":\"string\"}}", "not"},
        {QR_FORM_JSON_SCHEMA, NULL, "text"},
        {QR_FORM_REGEX, "(", "pattern"},
        {QR_FORM_CHOICE, NULL, "text"},
        {(enum qr_form)17, "x", "form"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct qr_constraint constraint;
        struct qr_err err = {0};
        assert_int_not_equal(
            qr_constraint_create(model, bad[i].form, &bad[i].text, bad[i].text != NULL, &constraint, &err), QR_OK);
        if (!strstr(err.message, bad[i].word))
            fail_msg("'%s' does not name %s", err.message, bad[i].word);
        assert_null(constraint.ctx);
        qr_constraint_free(&constraint);
    }
}

static int set_up(void **state)
{
    struct qr_err err;
    const char *path = default_model_path();
    struct qr_engine_options options = {.fuse_mask = -1, .max_model_len = 256, .kv_cache_tokens = 4096};
    (void)state;
    if (!path) {
        print_message("skipped: the default model is not here (QUIRE_MODEL)\n");
        return 0;
    }
    if (qr_model_open(path, NULL, &model, &err) != QR_OK || qr_engine_create(model, &options, &engine, &err) != QR_OK) {
        print_message("%s\n", err.message);
        return 1;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    qr_engine_destroy(engine);
    qr_model_close(model);
    return 0;
}

static int need_model(void **state)
{
    (void)state;
    if (!model)
        skip();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_schema_is_kept, need_model),
        cmocka_unit_test_setup(a_pattern_and_choices_are_kept, need_model),
        cmocka_unit_test_setup(what_is_no_form_is_refused, need_model),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
