/* test_expected.c - the default model on the GPU against answers from outside (shared/expected/smollm2_greedy.json): every id where the
 * two most probable ones lie more than 0.05 nat apart. An answer that takes the other way at a near tie is asked again from
 * behind it. Skips where there is no GPU, no model or no file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <jansson.h>
#include "common/tmp.h"
#include "cuda/gpu.h"
#include "engine/ask.h"

enum { MAX_ID = 2048 };
static const double NEAR = 0.05;

static int ids_of(const json_t *array, int32_t *out)
{
    size_t n = json_array_size(array);
    assert_true(n <= MAX_ID);
    for (size_t i = 0; i < n; i++)
        out[i] = (int32_t)json_integer_value(json_array_get(array, i));
    return (int)n;
}

/* How far the two best ids of a position are apart, in nat. */
static double gap_of(const json_t *position)
{
    const json_t *top = json_object_get(position, "top5");
    return json_number_value(json_array_get(json_array_get(top, 0), 2)) -
           json_number_value(json_array_get(json_array_get(top, 1), 2));
}

/* Counts the answer's ids and the near ties that went the other way. */
static void follow(struct qr_engine *engine, const json_t *result, int *n_id, int *n_near)
{
    int32_t text[2 * MAX_ID], want[MAX_ID];
    const json_t *positions = json_object_get(result, "positions");
    int n = ids_of(json_object_get(result, "output_ids"), want);
    int n_prompt = ids_of(json_object_get(result, "prompt_ids"), text);
    for (int i = 0; i < n; i++)
        text[n_prompt + i] = want[i];
    for (int at = 0; at < n;) {
        struct qr_request request = ask_request(text, (size_t)(n_prompt + at), n - at);
        struct answer answer = {0};
        int same = 0;
        ask_alone(engine, &request, &answer);
        while (same < answer.n && answer.id[same] == want[at + same])
            same++;
        at += same;
        if (at < n) {
            double gap = gap_of(json_array_get(positions, (size_t)at));
            if (gap > NEAR)
                fail_msg("%s: token %d is %d, not %d, %.3f nat behind",
                         json_string_value(json_object_get(result, "user")), at, same < answer.n ? answer.id[same] : -1,
                         want[at], gap);
            ++*n_near;
            at++;
        }
        answer_free(&answer);
    }
    *n_id += n;
}

static void answers(void **state)
{
    const char *values = shared_path("expected/smollm2_greedy.json"), *path = default_model_path();
    struct qr_engine_options options = {.device = "cuda", .fuse_mask = -1, .max_model_len = 2048};
    struct qr_model *model;
    struct qr_engine *engine;
    struct qr_err err;
    int n_id = 0, n_near = 0;
    (void)state;
    need_gpu();
    if (!values || !path) {
        print_message("skipped: no default model or no shared/expected\n");
        skip();
    }
    if (qr_model_open(path, NULL, &model, &err) != QR_OK || qr_engine_create(model, &options, &engine, &err) != QR_OK)
        fail_msg("%s", err.message);
    json_t *root = json_load_file(values, 0, NULL), *results = json_object_get(root, "results");
    assert_true(json_array_size(results) > 0);
    for (size_t i = 0; i < json_array_size(results); i++)
        follow(engine, json_array_get(results, i), &n_id, &n_near);
    print_message("%d ids, %d of them near ties that went the other way\n", n_id, n_near);
    json_decref(root);
    qr_engine_destroy(engine);
    qr_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
