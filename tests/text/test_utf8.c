/* test_utf8.c - repair as Python's bytes.decode(errors="replace") does it, and normalization in bounded time. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "text/utf8.h"

#define R "\xEF\xBF\xBD"

static void repairs_like_python(void **state)
{
    /* from Python 3.11: b"...".decode("utf-8", "replace") */
    static const char *const cases[][2] = {
        {"plain", "plain"},
        {"a\xFF"
         "b",
         "a" R "b"},
        {"\xC0\x80", R R},
        {"\xE2\x82", R},
        {"\xE2\x82"
         "A",
         R "A"},
        {"\xE2\x28\xA1", R "(" R},
        {"\xF0\x9F\x98", R},
        {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
        {"\xF0\x80\x80\x41", R R R "A"},
        {"\xED\xA0\x80", R R R},
        {"\xF4\x90\x80\x80", R R R R},
        {"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},
        {"\x80\xBF", R R},
        {"\xE0\x9F\x80", R R R},
        {"\xC2", R},
        {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", R R R R "A"}, /* Unicode, table 3-11 */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct qr_buf out;

        qr_buf_init(&out, 0);
        assert_true(qr_utf8_repair(cases[i][0], strlen(cases[i][0]), &out));
        assert_string_equal(out.data, cases[i][1]);
        assert_int_equal(qr_utf8_valid(out.data, out.len), out.len);
        qr_buf_free(&out);
    }
}

static void assert_nfc(const char *text, const char *want)
{
    struct qr_buf out;

    qr_buf_init(&out, 0);
    assert_int_equal(qr_nfc(text, strlen(text), &out, NULL), QR_OK);
    assert_string_equal(out.data, want);
    qr_buf_free(&out);
}

static void normalizes(void **state)
{
    (void)state;
    /* examples of UAX #15 */
    assert_nfc("A\u030A", "\u00C5");
    assert_nfc("\u212B", "\u00C5");
    assert_nfc("o\u0302\u0323", "\u1ED9"); /* marks change places: dot below first */
    assert_nfc("\u1E0B\u0323", "\u1E0D\u0307");
    assert_nfc("\u1112\u1161\u11AB", "\uD55C");
    assert_nfc("\u0958", "\u0915\u093C"); /* excluded from composition */
    /* the rules of Unicode 9: U+08CF, of 2019, is no mark yet and keeps the accent from its letter */
    assert_nfc("e\u08CF\u0301", "e\u08CF\u0301");
    assert_nfc("e\u0301\u08CF", "\u00E9\u08CF");
}

static void many_marks(void **state)
{
    size_t n = 65536, at = 0;
    char *text = malloc(n * 2 + 1);
    struct qr_buf out;
    clock_t start = clock();

    (void)state;
    text[at++] = 'a';
    for (size_t i = 0; i < n; i++) { /* classes 230 and 220 in turn: each pair is out of order */
        memcpy(text + at, i % 2 ? "\u0323" : "\u0302", 2);
        at += 2;
    }
    qr_buf_init(&out, 0);
    assert_int_equal(qr_nfc(text, at, &out, NULL), QR_OK);
    assert_memory_equal(out.data, "\u1EAD", 3); /* a with both */
    assert_memory_equal(out.data + 3, "\u0323\u0323", 4);
    assert_memory_equal(out.data + out.len - 4, "\u0302\u0302", 4);
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 1);
    qr_buf_free(&out);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repairs_like_python),
        cmocka_unit_test(normalizes),
        cmocka_unit_test(many_marks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
