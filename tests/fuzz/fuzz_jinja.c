/* fuzz_jinja.c - a template and, behind a NUL byte, its variables as JSON. The budget is small, so that many runs are
 * done in a second; the default one is tests/text/test_jinja_hostile.c's. */
#include "base/json.h"
#include "fuzz/check.h"
#include "text/jinja.h"

static json_t *variables(const struct parts *parts)
{
    json_t *vars = NULL;

    if (parts->rest && qr_json_parse(parts->rest, parts->n_rest, "variables", &vars, NULL) == QR_OK &&
        json_is_object(vars))
        return vars;
    json_decref(vars);
    return json_pack("{s:[{s:s,s:s},{s:s,s:s,s:[{s:s,s:{s:s,s:{s:i}}}]}],s:s,s:s,s:[i,i,i],s:n,s:b,s:f,s:[{s:s}]}",
                     "messages", "role", "user", "content", "Hi \xC3\xB6", "role", "assistant", "content",
                     "<think>\nx\n</think>\n\nyo", "tool_calls", "type", "function", "function", "name", "f",
                     "arguments", "x", 1, "bos_token", "<s>", "eos_token", "</s>", "nums", 3, 1, 2, "none",
                     "add_generation_prompt", 1, "f", 1.5, "tools", "type", "function");
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
