/* The memory account: sums, table, JSON, and what happens when it is full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "model/ledger.h"

/* Does a line of the table start with name and hold both forms of the size, in this order? */
static bool has_line(const char *table, const char *name, const char *human, const char *exact)
{
    for (const char *line = table; line && *line;) {
        const char *end = strchr(line, '\n'), *a = strstr(line, human),
                   *b = a ? strstr(a + strlen(human), exact) : NULL;
        if (strncmp(line, name, strlen(name)) == 0 && b && b < end)
            return true;
        line = end ? end + 1 : NULL;
    }
    return false;
}

static void table(void **state)
{
    struct qr_ledger ledger = {0};
    struct qr_buf out;
    (void)state;
    qr_buf_init(&out, 0);
    qr_ledger_add(&ledger, 3221225472u, "weights", "%d layers", 28);
    qr_ledger_add(&ledger, 999, "scratch", NULL);
    qr_ledger_add(&ledger, 1023, "nearly one KiB", NULL);
    qr_ledger_add(&ledger, 123456789, "KV pages", "block of %d", 16);
    assert_int_equal(ledger.total, 3221225472u + 999 + 1023 + 123456789);
    qr_ledger_print(&ledger, 4294967296u, &out);
    assert_false(out.failed);
    assert_true(has_line(out.data, "weights", "3.00 GiB", "3,221,225,472  28 layers"));
    assert_true(has_line(out.data, "scratch", "999 B", "999"));
    assert_true(has_line(out.data, "nearly one KiB", "1.00 KiB", "1,023"));
    assert_true(has_line(out.data, "KV pages", "118 MiB", "123,456,789  block of 16")); /* 117.7 */
    assert_true(has_line(out.data, "total", "3.11 GiB", "3,344,684,283"));
    assert_true(has_line(out.data, "available", "4.00 GiB", "4,294,967,296"));
    assert_null(strstr(out.data, "too little"));

    qr_buf_clear(&out);
    qr_ledger_print(&ledger, 1 << 20, &out);
    assert_non_null(strstr(out.data, "too little"));
    qr_buf_clear(&out);
    qr_ledger_print(&ledger, 0, &out); /* not known */
    assert_null(strstr(out.data, "available"));
    qr_buf_free(&out);
}

/* The numbers of a column end at the same place in every line. */
static void columns_are_aligned(void **state)
{
    struct qr_ledger ledger = {0};
    struct qr_buf out;
    int at = -1;
    (void)state;
    qr_buf_init(&out, 0);
    qr_ledger_add(&ledger, 5, "a", NULL);
    qr_ledger_add(&ledger, 50000000000u, "a rather long name of a line", NULL);
    qr_ledger_print(&ledger, 60000000000u, &out);
    for (char *line = strtok(out.data, "\n"); line; line = strtok(NULL, "\n")) {
        assert_true(at < 0 || (int)strlen(line) == at);
        at = (int)strlen(line);
    }
    qr_buf_free(&out);
}

static void json(void **state)
{
    struct qr_ledger ledger = {0};
    (void)state;
    qr_ledger_add(&ledger, 100, "weights", "%s", "Q8_0");
    qr_ledger_add(&ledger, 7, "rest", NULL);
    json_t *o = qr_ledger_json(&ledger, 1000);
    char *text = json_dumps(o, JSON_SORT_KEYS | JSON_COMPACT);
    assert_string_equal(text, "{\"available\":1000,\"lines\":[{\"bytes\":100,\"name\":\"weights\",\"note\":\"Q8_0\"},"
                              "{\"bytes\":7,\"name\":\"rest\",\"note\":\"\"}],\"total\":107}");
    free(text);
    json_decref(o);
}

static void a_full_ledger_keeps_its_total(void **state)
{
    struct qr_ledger ledger = {0};
    uint64_t lines = 0;
    char name[200];
    (void)state;
    memset(name, 'n', sizeof(name));
    name[199] = '\0';
    for (int i = 0; i < QR_LEDGER_MAX + 10; i++)
        qr_ledger_add(&ledger, 10, name, "%s", name); /* too long: cut */
    assert_int_equal(ledger.n, QR_LEDGER_MAX);
    assert_int_equal(ledger.total, 10 * (QR_LEDGER_MAX + 10));
    for (int i = 0; i < ledger.n; i++)
        lines += ledger.line[i].bytes;
    assert_int_equal(lines, ledger.total);
    qr_ledger_add(&ledger, UINT64_MAX, "absurd", NULL); /* the sum stays at the top, it does not wrap */
    assert_true(ledger.total == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(columns_are_aligned),
        cmocka_unit_test(json),
        cmocka_unit_test(a_full_ledger_keeps_its_total),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
