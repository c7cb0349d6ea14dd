/* test_expected.c - the default model against answers from outside (shared/expected/smollm2_greedy.json): prompt text,
 * prompt ids, every id of every greedy answer, and the five best log-probabilities at each position within 0.02. All
 * requests run at once and, beside the first, once alone. Skips where the model or the file is missing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>
#include "ask.h"
#include "common/tmp.h"

enum { MAX_CASE = 64, N_EXPECTED = 5, N_TOP = 10 }; /* near ties may push one of the five out of our five */
#define TOLERANCE      0.02
#define TOLERANCE_BF16 0.1 /* 8 significant bits in K and V: what a user who asks for it accepts */

static struct qr_model *model;
static json_t *root;

static size_t ids_of(const json_t *array, int32_t **out)
{
    size_t n = json_array_size(array);
    *out = malloc((n + 1) * sizeof **out);
    assert_non_null(*out);
    for (size_t i = 0; i < n; i++)
        (*out)[i] = (int32_t)json_integer_value(json_array_get(array, i));
    return n;
}

static json_t *result(size_t i)
{
    return json_array_get(json_object_get(root, "results"), i);
}

static size_t n_result(void)
{
    size_t n = json_array_size(json_object_get(root, "results"));
    assert_true(n > 0 && n <= MAX_CASE);
    return n;
}

static int setup(void **state)
{
    const char *values = shared_path("expected/smollm2_greedy.json"), *path = default_model_path();
    struct qr_err err;
    (void)state;
    if (!values || !path)
        return 0;
    root = json_load_file(values, 0, NULL);
    if (qr_model_open(path, NULL, &model, &err) != QR_OK)
        fail_msg("%s", err.message);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    qr_model_close(model);
    json_decref(root);
    return 0;
}

static void skip_without_model(void)
{
    if (model && root)
        return;
    print_message("skipped: no default model or no shared/expected\n");
    skip();
}

static void prompts(void **state)
{
    struct qr_err err;
    (void)state;
    skip_without_model();
    for (size_t i = 0; i < n_result(); i++) {
        int32_t *expected, *ids;
        char *text, *request;
        size_t n_text, n, n_expected = ids_of(json_object_get(result(i), "prompt_ids"), &expected);
        json_t *r =
            json_pack("{s:[{s:s, s:O}]}", "messages", "role", "user", "content", json_object_get(result(i), "user"));
        request = json_dumps(r, 0);
        if (qr_chat_prompt(model, request, &text, &n_text, &err) != QR_OK)
            fail_msg("%s", err.message);
        assert_string_equal(text, json_string_value(json_object_get(result(i), "prompt_text")));
        if (qr_tokenize(model, text, n_text, true, false, &ids, &n, &err) != QR_OK)
            fail_msg("%s", err.message);
        assert_int_equal(n, n_expected);
        assert_memory_equal(ids, expected, n * sizeof *ids);
        free(expected);
        free(request);
        json_decref(r);
        qr_free(text);
        qr_free(ids);
    }
}

struct seen { /* one answer */
    int n;
    int32_t id[1024];
    struct qr_top top[1024][N_TOP];
    struct qr_buf text;
    enum qr_finish finish;
};

static void note(struct seen *s, const struct qr_event *event)
{
    if (event->kind == QR_EVENT_DONE)
        s->finish = event->finish;
    if (event->kind != QR_EVENT_TOKEN)
        return;
    qr_buf_append(&s->text, event->text, event->n_text);
    if (event->id < 0)
        return;
    assert_true(s->n < 1024);
    assert_int_equal(event->n_logprobs, 1);
    assert_int_equal(event->logprobs[0].n_top, N_TOP);
    s->id[s->n] = event->id;
    memcpy(s->top[s->n], event->logprobs[0].top, sizeof s->top[0]);
    s->n++;
}

/* The largest difference of a log-probability. */
static double compare(const struct seen *s, const json_t *expected)
{
    double worst = 0;
    json_t *ids = json_object_get(expected, "output_ids"), *positions = json_object_get(expected, "positions");
    for (int i = 0; i < s->n && i < (int)json_array_size(ids); i++) {
        json_t *top = json_object_get(json_array_get(positions, (size_t)i), "top5");
        for (size_t k = 0; k < N_EXPECTED; k++) {
            int32_t id = (int32_t)json_integer_value(json_array_get(json_array_get(top, k), 0));
            double p = json_number_value(json_array_get(json_array_get(top, k), 2)), difference = INFINITY;
            for (int j = 0; j < N_TOP; j++)
                if (s->top[i][j].id == id)
                    difference = fabs((double)s->top[i][j].logprob - p);
            worst = difference > worst ? difference : worst;
        }
        if (s->id[i] != json_integer_value(json_array_get(ids, (size_t)i)))
            fail_msg("%s: token %d is %d, not %d", json_string_value(json_object_get(expected, "user")), i, s->id[i],
                     (int)json_integer_value(json_array_get(ids, (size_t)i)));
    }
    assert_int_equal(s->n, json_array_size(ids));
    bool eos = strcmp(json_string_value(json_object_get(expected, "stop")), "eos") == 0;
    assert_int_equal(s->finish, eos ? QR_FINISH_STOP : QR_FINISH_LENGTH);
    assert_string_equal(s->text.data, json_string_value(json_object_get(expected, "output_text")));
    return worst;
}

static void run_all(const char *kv, size_t first, size_t n, double tolerance)
{
    static struct seen seen[MAX_CASE];
    struct qr_engine_options options = {.kv_cache_dtype = kv, .fuse_mask = -1, .max_model_len = 1024};
    struct qr_engine *engine;
    struct qr_err err;
    uint64_t base = 0;
    double worst = 0;
    if (qr_engine_create(model, &options, &engine, &err) != QR_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < n; i++) {
        int32_t *ids;
        size_t n_ids = ids_of(json_object_get(result(first + i), "prompt_ids"), &ids);
        struct qr_request r =
            ask_request(ids, n_ids, (int)json_array_size(json_object_get(result(first + i), "output_ids")));
        r.sampling.logprobs = N_TOP;
        uint64_t id = ask(engine, &r);
        base = i == 0 ? id : base;
        assert_int_equal(id, base + i);
        seen[i] = (struct seen){0};
        free(ids);
    }
    for (size_t left = n; left > 0;) {
        struct qr_event event;
        bool got;
        if (qr_engine_next(engine, &event, 60000, &got, &err) != QR_OK)
            fail_msg("%s", err.message);
        assert_true(got);
        note(&seen[event.request - base], &event);
        left -= event.kind == QR_EVENT_DONE;
        qr_event_clear(&event);
    }
    for (size_t i = 0; i < n; i++) {
        double d = compare(&seen[i], result(first + i));
        worst = d > worst ? d : worst;
        qr_buf_free(&seen[i].text);
    }
    print_message("KV %s: log-probabilities differ by at most %.5f\n", kv, worst);
    assert_true(worst < tolerance);
    qr_engine_destroy(engine);
}

static void answers_all_at_once(void **state)
{
    (void)state;
    skip_without_model();
    run_all("auto", 0, n_result(), TOLERANCE);
}

static void answers_with_every_kv_type(void **state)
{
    (void)state;
    skip_without_model();
    run_all("f32", 0, n_result(), TOLERANCE);
    run_all("bf16", 0, 1, TOLERANCE_BF16);
}

static void paris_alone(void **state)
{
    (void)state;
    skip_without_model();
    run_all("auto", 0, 1, TOLERANCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts),
        cmocka_unit_test(paris_alone),
        cmocka_unit_test(answers_all_at_once),
        cmocka_unit_test(answers_with_every_kv_type),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
