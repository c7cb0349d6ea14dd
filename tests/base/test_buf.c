/* test_buf.c - the growable buffer: contents, cap, failure that sticks, giving away; and checked arithmetic. */
#include "base/buf.h"
#include "base/checked.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "common/fault.h"

static void appends_in_order(void **state)
{
    struct qr_buf buf;

    (void)state;
    qr_buf_init(&buf, 0);
    assert_null(buf.data);
    assert_true(qr_buf_puts(&buf, "ab"));
    assert_true(qr_buf_putc(&buf, 'c'));
    assert_true(qr_buf_printf(&buf, "%d-%s", 42, "xyz"));
    assert_true(qr_buf_append(&buf, "\0!", 2));
    assert_true(qr_buf_append(&buf, NULL, 0));
    assert_int_equal(buf.len, 11);
    assert_memory_equal(buf.data, "abc42-xyz\0!", 12); /* with the NUL behind */
    qr_buf_clear(&buf);
    assert_int_equal(buf.len, 0);
    assert_string_equal(buf.data, "");
    for (int i = 0; i < 100000; i++)
        assert_true(qr_buf_putc(&buf, (char)('a' + i % 26)));
    for (int i = 0; i < 100000; i++)
        assert_int_equal(buf.data[i], 'a' + i % 26);
    assert_true(buf.room < 300000);
    qr_buf_free(&buf);
    assert_null(buf.data);
}

static void the_cap_holds_and_failure_sticks(void **state)
{
    struct qr_buf buf;

    (void)state;
    for (size_t cap = 1; cap < 200; cap++) {
        qr_buf_init(&buf, cap);
        for (size_t i = 0; i < cap; i++)
            assert_true(qr_buf_putc(&buf, 'x'));
        assert_true(buf.room <= cap + 1);
        assert_false(qr_buf_putc(&buf, 'y'));
        assert_true(buf.failed);
        assert_int_equal(buf.len, cap);
        assert_int_equal(buf.data[cap], 0);
        assert_false(qr_buf_append(&buf, "", 0)); /* refuses even nothing */
        qr_buf_clear(&buf);
        assert_true(qr_buf_putc(&buf, 'z'));
        assert_false(qr_buf_printf(&buf, "%*d", (int)cap, 1));
        assert_null(qr_buf_take(&buf, NULL));
        qr_buf_free(&buf);
    }
}

static void sizes_that_wrap_are_refused(void **state)
{
    struct qr_buf buf;

    (void)state;
    qr_buf_init(&buf, 0);
    assert_true(qr_buf_puts(&buf, "abc"));
    assert_false(qr_buf_reserve(&buf, SIZE_MAX - 2));
    assert_string_equal(buf.data, "abc");
    qr_buf_clear(&buf);
    assert_false(qr_buf_reserve(&buf, SIZE_MAX));
    qr_buf_free(&buf);
    qr_buf_init(&buf, SIZE_MAX);
    assert_false(qr_buf_reserve(&buf, SIZE_MAX));
    qr_buf_free(&buf);
}

static void take_gives_the_bytes_away(void **state)
{
    struct qr_buf buf;
    size_t n = 99;
    char *data;

    (void)state;
    qr_buf_init(&buf, 0);
    data = qr_buf_take(&buf, &n);
    assert_non_null(data);
    assert_int_equal(n, 0);
    assert_string_equal(data, "");
    free(data);
    qr_buf_puts(&buf, "hello");
    data = qr_buf_take(&buf, &n);
    assert_int_equal(n, 5);
    assert_string_equal(data, "hello");
    assert_null(buf.data);
    assert_int_equal(buf.len, 0);
    free(data);
}

static bool fill(void *ctx)
{
    struct qr_buf buf;
    size_t n;
    char *data;

    (void)ctx;
    qr_buf_init(&buf, 0);
    for (int i = 0; i < 1000; i++)
        qr_buf_printf(&buf, "%d,", i);
    data = qr_buf_take(&buf, &n);
    free(data);
    return data != NULL;
}

static void survives_every_failed_allocation(void **state)
{
    (void)state;
    if (!fault_works())
        skip();
    assert_true(fault_torture(fill, NULL, FAULT_ALLOC, 0) > 5);
}

static void checked_arithmetic(void **state)
{
    uint64_t r = 7;

    (void)state;
    assert_true(qr_mul_u64(1ull << 32, (1ull << 32) - 1, &r));
    assert_true(r == 0xFFFFFFFF00000000);
    assert_false(qr_mul_u64(1ull << 32, 1ull << 32, &r));
    assert_true(r == 0xFFFFFFFF00000000); /* left alone */
    assert_true(qr_mul_u64(0, UINT64_MAX, &r) && r == 0);
    assert_true(qr_add_u64(UINT64_MAX - 1, 1, &r) && r == UINT64_MAX);
    assert_false(qr_add_u64(UINT64_MAX, 1, &r));
    assert_true(qr_range_fits(0, 0, 0));
    assert_true(qr_range_fits(10, 0, 10));
    assert_true(qr_range_fits(3, 7, 10));
    assert_false(qr_range_fits(3, 8, 10));
    assert_false(qr_range_fits(11, 0, 10));
    assert_false(qr_range_fits(5, UINT64_MAX, 10));
    assert_false(qr_range_fits(UINT64_MAX, 2, UINT64_MAX));
    assert_true(qr_align_u64(0, 32, &r) && r == 0);
    assert_true(qr_align_u64(1, 32, &r) && r == 32);
    assert_true(qr_align_u64(64, 32, &r) && r == 64);
    assert_true(qr_align_u64(UINT64_MAX - 31, 32, &r) && r == UINT64_MAX - 31);
    assert_false(qr_align_u64(UINT64_MAX - 30, 32, &r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appends_in_order),
        cmocka_unit_test(the_cap_holds_and_failure_sticks),
        cmocka_unit_test(sizes_that_wrap_are_refused),
        cmocka_unit_test(take_gives_the_bytes_away),
        cmocka_unit_test(survives_every_failed_allocation),
        cmocka_unit_test(checked_arithmetic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
