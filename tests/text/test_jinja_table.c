/* test_jinja_table.c - renders a table of templates and compares with what jinja2 made of them. The table is a file of JSON
 * lines that tests/conformance/test_jinja.py writes: {"name", "template", "context", "expected"} or, where jinja2 raised an
 * error, "error": true. QUIRE_JINJA_TABLE names it; without it there is nothing to compare. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "text/jinja.h"

/* false, with a report, when the case does not come out as jinja2's. */
static bool check_case(const json_t *row)
{
    const char *name = json_string_value(json_object_get(row, "name"));
    const json_t *template = json_object_get(row, "template"), *expected = json_object_get(row, "expected");
    struct qr_jinja *jinja = NULL;
    struct qr_err err = {0};
    struct qr_buf out;
    bool ok;
    qr_buf_init(&out, 0);
    enum qr_status status = qr_jinja_parse(json_string_value(template), json_string_length(template), &jinja, &err);
    if (status == QR_OK)
        status = qr_jinja_render(jinja, json_object_get(row, "context"), NULL, &out, &err);
    if (!expected)
        ok = status != QR_OK && err.message[0];
    else
        ok = status == QR_OK && out.len == json_string_length(expected) &&
             (out.len == 0 || memcmp(out.data, json_string_value(expected), out.len) == 0);
    if (!ok)
        print_error("%s\n  template: %s\n  expected: %s\n  got:      %s\n", name, json_string_value(template),
                    expected ? json_string_value(expected) : "(an error)",
                    status != QR_OK ? err.message
                    : out.data      ? out.data
                                    : "");
    qr_buf_free(&out);
    qr_jinja_free(jinja);
    return ok;
}

static void test_table(void **state)
{
    const char *path = getenv("QUIRE_JINJA_TABLE");
    char *line = NULL;
    size_t room = 0;
    int n = 0, bad = 0;
    (void)state;
    if (!path) {
        print_message("QUIRE_JINJA_TABLE is not set: tests/conformance/test_jinja.py makes the table and runs this\n");
        skip();
    }
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (getline(&line, &room, f) > 0) {
        json_error_t error;
        json_t *row = json_loads(line, JSON_ALLOW_NUL, &error);
        if (!row)
            print_error("line %d of the table: %s\n", n + 1, error.text);
        assert_non_null(row);
        bad += !check_case(row);
        n++;
        json_decref(row);
    }
    free(line);
    fclose(f);
    print_message("%d cases, %d differ\n", n, bad);
    assert_true(n > 0);
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
