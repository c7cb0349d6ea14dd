/* fuzz_jinja.c - a template and, behind a NUL byte, its variables as JSON. The budget is small, so that many runs are
 * done in a second; the default one is tests/text/test_jinja_hostile.c's. */
#include "base/json.h"
#include "fuzz/check.h"
#include "text/jinja.h"

/* Those of tests/conformance/jinja_cases.py, from whose templates the corpus begins, and what chat templates read. */
static const char usual[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"You are helpful.\"},{\"role\":\"user\",\""
    "content\":\"Hi there\"},{\"role\":\"assistant\",\"content\":\"Hello!\",\"n\":3},{\"role\":"
    "\"user\",\"content\":\"  two words\\n\"},{\"role\":\"assistant\",\"content\":\"<think>\\nx"
    "\\n</think>\\n\\nyo\",\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
    "\"arguments\":{\"x\":1}}}]}],\"name\":\"World\",\"empty\":\"\",\"uni\":\"Gr\\u00fc\\u00dfe"
    ", \\u0395\\u03bb\\u03bb\\u03ac\\u03b4\\u03b1 \\u65e5\\u672c\\u8a9e \\ud83d\\ude00!\",\"tex"
    "t\":\"  The quick brown fox jumps over the lazy dog.  \",\"lines\":\"one\\ntwo\\r\\nthree\\n"
    "\\nfive\",\"quotes\":\"it's \\\"quoted\\\" \\\\ and\\ttabbed\\n\",\"n\":42,\"zero\":0,\"ne"
    "g\":-7,\"pi\":3.14159,\"big\":12345678901234,\"half\":0.5,\"yes\":true,\"no\":false,\"noth"
    "ing\":null,\"nums\":[3,1,2,10,7],\"floats\":[1.5,2.25,0.1,1e+22,1e-07,100.0],\"words\":[\""
    "banana\",\"Apple\",\"cherry\",\"apple\"],\"nested\":[[1,2],[3,[4,5]],[]],\"d\":{\"b\":1,\""
    "a\":2,\"C\":3},\"deep\":{\"x\":{\"y\":{\"z\":\"found\"}},\"list\":[{\"k\":\"v0\"},{\"k\":\""
    "v1\"}]},\"users\":[{\"name\":\"Ann\",\"age\":30,\"city\":\"Oslo\",\"ok\":true},{\"name\":\""
    "bob\",\"age\":25,\"city\":\"rome\",\"ok\":false},{\"name\":\"Cid\",\"age\":35,\"city\":\"o"
    "slo\"},{\"name\":\"Dee\",\"age\":25,\"city\":\"Rome\",\"ok\":true}],\"odd_keys\":{\"items\""
    ":1,\"keys\":\"k\",\"get\":\"g\",\"update\":\"u\",\"a b\":2,\"class\":\"c\"},\"html\":\"<a "
    "href='x'>\\\"T&C\\\"</a>\",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
    "\"parameters\":{\"type\":\"object\"}}}],\"tree\":[{\"v\":1,\"c\":[{\"v\":2,\"c\":[]},{\"v\""
    ":3,\"c\":[{\"v\":4,\"c\":[]}]}]},{\"v\":5,\"c\":[]}],\"bos_token\":\"<s>\",\"eos_token\":\""
    "</s>\",\"add_generation_prompt\":true}";
static json_t *usual_variables;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    check(qr_json_parse(usual, sizeof usual - 1, "variables", &usual_variables, NULL) == QR_OK, "bad variables");
    return 0;
}

static json_t *variables(const struct parts *parts)
{
    json_t *vars = NULL;

    if (parts->rest && qr_json_parse(parts->rest, parts->n_rest, "variables", &vars, NULL) == QR_OK &&
        json_is_object(vars))
        return vars;
    json_decref(vars);
    return json_incref(usual_variables);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const struct qr_jinja_budget budget = {.steps = 20000, .output_bytes = 1 << 18};
    struct parts parts = parts_of(data, n);
    struct qr_jinja *jinja = NULL;
    struct qr_err err = {0};
    enum qr_status status = qr_jinja_parse(parts.first, parts.n_first, &jinja, &err);

    if (status == QR_OK) {
        struct qr_buf out;
        json_t *vars = variables(&parts);

        qr_buf_init(&out, 0);
        status = qr_jinja_render(jinja, vars, &budget, &out, &err);
        check(out.len <= budget.output_bytes, "more output than the budget");
        check(status == QR_OK || out.len == 0, "output in spite of an error");
        qr_buf_free(&out);
        json_decref(vars);
    }
    if (status != QR_OK)
        check(err.status == status && err.message[0] && status != QR_INTERNAL, "an error without words");
    qr_jinja_free(jinja);
    parts_free(&parts);
    return 0;
}
