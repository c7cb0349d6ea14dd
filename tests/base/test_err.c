/* test_err.c - error messages: format, prefix, errno, length, and bytes that must not reach a terminal. */
#include "base/err.h"
#include "base/clock.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

static void fills_status_and_message(void **state)
{
    struct qr_err err = {0};

    (void)state;
    assert_int_equal(qr_fail(&err, QR_LIMIT, "n is %d, at most %d", 5, 3), QR_LIMIT);
    assert_int_equal(err.status, QR_LIMIT);
    assert_string_equal(err.message, "n is 5, at most 3");
    assert_int_equal(qr_err_prefix(&err, QR_FORMAT, "file %s", "x"), QR_FORMAT);
    assert_string_equal(err.message, "file x: n is 5, at most 3");
    assert_int_equal(qr_fail(NULL, QR_BUSY, "%s", "nobody listens"), QR_BUSY);
    assert_int_equal(qr_err_prefix(NULL, QR_BUSY, "x"), QR_BUSY);
}

static void errno_becomes_a_status(void **state)
{
    struct qr_err err;

    (void)state;
    errno = ENOENT;
    assert_int_equal(qr_fail_errno(&err, "open %s", "f"), QR_NOTFOUND);
    assert_string_equal(err.message, "open f: No such file or directory");
    errno = ENOMEM;
    assert_int_equal(qr_fail_errno(&err, "map"), QR_NOMEM);
    errno = EACCES;
    assert_int_equal(qr_fail_errno(&err, "open"), QR_IO);
    errno = EACCES;
    assert_int_equal(qr_fail_errno(NULL, "open"), QR_IO);
}

static void long_messages_lose_their_middle(void **state)
{
    struct qr_err err;
    char text[1200];

    (void)state;
    for (int shift = 0; shift < 4; shift++) {
        size_t n = 0;
        char *dots;

        memset(text, 0, sizeof text);
        memset(text, 'x', (size_t)shift);
        for (n = (size_t)shift; n < 1000; n += 4)
            memcpy(text + n, "\xF0\x9F\x98\x80", 4);
        qr_fail(&err, QR_FORMAT, "%s: is wrong", text);
        n = strlen(err.message);
        assert_true(n > 390 && n < 400);
        assert_string_equal(err.message + n - 10, ": is wrong");
        dots = strstr(err.message, "...");
        assert_non_null(dots);
        assert_int_equal((dots - err.message - shift) % 4, 0); /* between code points on both sides */
        assert_memory_equal(dots + 3, "\xF0\x9F\x98\x80", 4);
        qr_err_prefix(&err, QR_FORMAT, "%s", "outer");
        assert_memory_equal(err.message, "outer: ", 7);
        assert_true(strlen(err.message) < 400);
    }
    memset(text, 'y', 399);
    text[399] = 0;
    qr_fail(&err, QR_FORMAT, "%s", text);
    assert_string_equal(err.message, text); /* as long as one may be */
}

static void hostile_bytes_are_masked(void **state)
{
    struct qr_err err;

    (void)state;
    qr_fail(&err, QR_FORMAT, "a\033[2Jb\nc\x7F\xFF\xC0\x80\xED\xA0\x80 \xC2\x9B d\xC3\xA4\xE2\x82\xAC\xE2\x82");
    assert_string_equal(err.message, "a?[2Jb?c???????"
                                     " ?? d\xC3\xA4\xE2\x82\xAC??");
    /* longer than needed, beyond U+10FFFF; the shortest of three bytes is fine */
    qr_fail(&err, QR_FORMAT, "\xE0\x80\x80 \xF4\x90\x80\x80 \xF0\x80\x80\x80 \xE0\xA0\x80");
    assert_string_equal(err.message, "??? ???? ???? \xE0\xA0\x80");
}

static void every_status_has_a_name(void **state)
{
    (void)state;
    for (int i = QR_OK; i <= QR_INTERNAL; i++)
        for (int k = QR_OK; k < i; k++)
            assert_string_not_equal(qr_status_name((enum qr_status)i), qr_status_name((enum qr_status)k));
    assert_string_equal(qr_status_name(QR_NOMEM), "out of memory");
    assert_string_equal(qr_status_name(QR_INVALID), "invalid");
    assert_non_null(qr_status_name((enum qr_status)999));
    assert_non_null(strstr(qr_version(), "(commit "));
    qr_free(NULL);
}

static void the_clock_runs_forward_at_one_second_a_second(void **state)
{
    int64_t a = qr_now_ns();
    double s = qr_now_s();
    struct timespec pause = {.tv_nsec = 20000000};

    (void)state;
    nanosleep(&pause, NULL);
    assert_in_range(qr_now_ns() - a, 20000000, 20000000000);
    assert_true(qr_now_s() - s >= 0.0199 && qr_now_s() - s < 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_status_and_message),
        cmocka_unit_test(errno_becomes_a_status),
        cmocka_unit_test(long_messages_lose_their_middle),
        cmocka_unit_test(hostile_bytes_are_masked),
        cmocka_unit_test(every_status_has_a_name),
        cmocka_unit_test(the_clock_runs_forward_at_one_second_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
