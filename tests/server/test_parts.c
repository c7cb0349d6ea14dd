/* test_parts.c - answers taken apart: each format as its models write it, cut at every place, gives the same parts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "server/parts.h"

/* Parts as one line: T(text) H(thought) C(name:arguments); neighbours of one kind joined. */
static bool write_down(void *ctx, const struct qr_part *part)
{
    static const char letter[] = {'T', 'H', 'C'};
    struct qr_buf *out = ctx;
    if (part->kind == QR_PART_CALL)
        return qr_buf_printf(out, "C(%s:%.*s)", part->name, (int)part->n, part->text);
    size_t n = out->len;
    char kind = letter[part->kind];
    /* the last group is of this kind: go on within it */
    char *open = n ? strrchr(out->data, '\1') : NULL;
    if (n && out->data[n - 1] == ')' && open && open[-1] == kind && out->data[n - 2] != '\2')
        out->len--;
    else
        qr_buf_printf(out, "%c\1(", kind);
    qr_buf_append(out, part->text, part->n);
    return qr_buf_putc(out, ')');
}

static void check(enum qr_tool_format tools, bool thinks, bool in_thought, const char *text, const char *want)
{
    size_t n = strlen(text);
    for (size_t cut = 1; cut <= n; cut = cut < 9 ? cut + 1 : cut < n ? n : n + 1) {
        struct qr_parts parts;
        struct qr_buf out, plain;
        qr_buf_init(&out, 0);
        qr_buf_init(&plain, 0);
        qr_parts_init(&parts, tools, thinks, in_thought);
        parts.named = "the_tool";
        parts.emit = write_down;
        parts.ctx = &out;
        for (size_t at = 0; at < n; at += cut)
            qr_parts_feed(&parts, text + at, n - at < cut ? n - at : cut);
        qr_parts_end(&parts);
        qr_parts_free(&parts);
        for (size_t i = 0; i < out.len; i++)
            if (out.data[i] != '\1')
                qr_buf_putc(&plain, out.data[i]);
        if (strcmp(plain.len ? plain.data : "", want) != 0)
            fail_msg("'%s' in pieces of %zu: %s, not %s", text, cut, plain.data ? plain.data : "", want);
        qr_buf_free(&out);
        qr_buf_free(&plain);
    }
}

static void thoughts(void **state)
{
    (void)state;
    check(QR_TOOLS_NONE, true, false, "<think>\nhm, 1 < 2\n</think>\n\nYes.", "H(hm, 1 < 2)T(Yes.)");
    check(QR_TOOLS_NONE, true, true, "hm\n</think>\n\nYes.", "H(hm)T(Yes.)");
    check(QR_TOOLS_NONE, true, false, "<think>\n\n</think>\n\nYes. </think>", "T(Yes. </think>)");
    check(QR_TOOLS_NONE, true, false, "No <think> here", "T(No <think> here)");
    check(QR_TOOLS_NONE, true, false, "<think>never ends", "H(never ends)");
    check(QR_TOOLS_NONE, true, false, "<thin", "T(<thin)");
    check(QR_TOOLS_NONE, false, false, "  <think>x</think>", "T(  <think>x</think>)");
}

static void hermes(void **state)
{
    (void)state;
    check(QR_TOOLS_HERMES, false, false, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
          "C(f:{\"a\": 1})");
    check(
        QR_TOOLS_HERMES, true, false,
        "<think>\nuse f\n</think>\n\nLet me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"}<\\\"\"}}\n"
        "</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
        "H(use f)T(Let me see.)C(f:{\"s\": \"}<\\\"\"})C(g:{})");
    check(QR_TOOLS_HERMES, false, false, "<tool_call>{\"name\": \"f\"}", "C(f:{})"); /* cut short by an end token */
    check(QR_TOOLS_HERMES, false, false, "<tool_call>{\"name\": \"f\", \"arg", "T(<tool_call>{\"name\": \"f\", \"arg)");
    check(QR_TOOLS_HERMES, false, false, "<tool_call>{\"nome\": 1}</tool_call>",
          "T(<tool_call>{\"nome\": 1}</tool_call>)");
    check(QR_TOOLS_HERMES, false, false, "a <tool_callx> b", "T(a <tool_callx> b)");
    check(QR_TOOLS_NONE, false, false, "<tool_call>{}</tool_call>", "T(<tool_call>{}</tool_call>)");
}

static void llama(void **state)
{
    (void)state;
    check(QR_TOOLS_LLAMA3, false, false, "{\"name\": \"f\", \"parameters\": {\"a\": [1, 2]}}", "C(f:{\"a\": [1, 2]})");
    check(QR_TOOLS_LLAMA3, false, false,
          "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", "
          "\"parameters\": {\"x\": null}}",
          "C(f:{})C(g:{\"x\": null})");
    check(QR_TOOLS_LLAMA3, false, false, "{\"temperature\": 20}", "T({\"temperature\": 20})");
    check(QR_TOOLS_LLAMA3, false, false, "Plain {\"name\": \"f\"}", "T(Plain {\"name\": \"f\"})");
}

static void mistral(void **state)
{
    (void)state;
    check(QR_TOOLS_MISTRAL, false, false,
          "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": \"]\"}}, {\"name\": \"g\", \"arguments\": {}}]",
          "C(f:{\"a\": \"]\"})C(g:{})");
    check(QR_TOOLS_MISTRAL, false, false, "[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[ARGS]{}",
          "C(f:{\"a\": 1})C(g:{})");
    check(QR_TOOLS_MISTRAL, false, false, "[TOOL_CALLS]f{\"a\": 1}", "C(f:{\"a\": 1})");
    check(QR_TOOLS_MISTRAL, false, false, "[TOOL", "T([TOOL)");
    check(QR_TOOLS_MISTRAL, false, false, "[TOOL_CALLS][1]", "T([TOOL_CALLS][1])");
}

static void forced(void **state)
{
    (void)state;
    check(QR_TOOLS_NAMED, false, false, "{\"a\": 1}", "C(the_tool:{\"a\": 1})");
    check(QR_TOOLS_NAMED, false, false, "{\"a\": ", "C(the_tool:{\"a\": )");
    check(QR_TOOLS_FORCED, false, false, "[{\"name\": \"f\", \"parameters\": {\"a\": 1}}]", "C(f:{\"a\": 1})");
    check(QR_TOOLS_FORCED, false, false,
          "[ {\"name\": \"f\", \"parameters\": {}} , {\"name\": \"g\", \"parameters\": {\"a\": 1}}\n]",
          "C(f:{})C(g:{\"a\": 1})");
    /* cut off by the limit of tokens */
    check(QR_TOOLS_FORCED, false, false, "[{\"name\": \"f\", \"parameters\": {\"a\": \"x}\\\"",
          "C(f:{\"a\": \"x}\\\")");
    check(QR_TOOLS_FORCED, false, false, "[{\"name\": \"f\", \"parameters\": {\"a\": {\"b\": 1}",
          "C(f:{\"a\": {\"b\": 1})");
    check(QR_TOOLS_FORCED, false, false, "[{\"name\": \"f\", \"parameters\": {}}, {\"name\": \"g\",\"parameters\":{",
          "C(f:{})C(g:{)");
    check(QR_TOOLS_FORCED, false, false, "[{\"name\":\"\\u0066\", \"parameters\"", "C(f:)");
    check(QR_TOOLS_FORCED, false, false, "[{\"name\": \"f\", ", "C(f:)");
    check(QR_TOOLS_FORCED, false, false, "[{\"name\": \"f\\\"g\", \"parameters\": {", "C(f\"g:{)");
    check(QR_TOOLS_FORCED, false, false, "[{\"name\": \"f\"}", "C(f:{})");
    for (const char *text = "[{\"name\": \"f"; *text; text++) { /* what is left out at the end, the name is not whole */
        char cut[32];
        snprintf(cut, sizeof cut, "%.*s", (int)strlen(text), "[{\"name\": \"f");
        check(QR_TOOLS_FORCED, false, false, cut, "");
    }
    check(QR_TOOLS_FORCED, false, false, "[{\"name\": \"f\", \"parameters\": {}}", "C(f:{})");
    check(QR_TOOLS_FORCED, false, false, "[1]", "T([1])");
    check(QR_TOOLS_FORCED, false, false, "so", "T(so)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(thoughts), cmocka_unit_test(hermes), cmocka_unit_test(llama),
                                       cmocka_unit_test(mistral), cmocka_unit_test(forced)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
