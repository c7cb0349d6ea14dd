/* test_arena.c - the arena: alignment, zeroes, cap, overflow, failed allocations. */
#include "base/arena.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "common/fault.h"

static void aligned_zeroed_and_apart(void **state)
{
    enum { N = 2000 };
    struct qr_arena *arena = qr_arena_create(0);
    static unsigned char *p[N];
    static size_t n[N];
    size_t sum = 0;

    (void)state;
    assert_non_null(arena);
    for (int i = 0; i < N; i++) {
        n[i] = i % 97 == 0 ? 50000 : (size_t)(i * 7 % 300);
        p[i] = qr_arena_alloc(arena, n[i]);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % 16, 0);
        for (size_t k = 0; k < n[i]; k++)
            assert_int_equal(p[i][k], 0);
        memset(p[i], i & 0xFF, n[i]);
        sum += n[i];
    }
    for (int i = 0; i < N; i++)
        for (size_t k = 0; k < n[i]; k++)
            assert_int_equal(p[i][k], i & 0xFF);
    assert_true(qr_arena_used(arena) >= sum);
    assert_true(qr_arena_used(arena) <= sum + 16 * N);
    qr_arena_destroy(arena);
    qr_arena_destroy(NULL);
}

static void the_cap_holds(void **state)
{
    struct qr_arena *arena = qr_arena_create(160);

    (void)state;
    assert_non_null(arena);
    assert_null(qr_arena_alloc(arena, 161));
    for (int i = 0; i < 10; i++)
        assert_non_null(qr_arena_alloc(arena, 16));
    assert_null(qr_arena_alloc(arena, 1));
    assert_null(qr_arena_alloc(arena, 0));
    assert_int_equal(qr_arena_used(arena), 160);
    qr_arena_destroy(arena);
}

static void sizes_that_wrap_are_refused(void **state)
{
    struct qr_arena *arena = qr_arena_create(0);

    (void)state;
    assert_null(qr_arena_array(arena, SIZE_MAX / 2, 3));
    assert_null(qr_arena_array(arena, (size_t)1 << 33, (size_t)1 << 33));
    assert_null(qr_arena_alloc(arena, SIZE_MAX));
    assert_null(qr_arena_alloc(arena, SIZE_MAX - 15));
    assert_null(qr_arena_memdup(arena, "", SIZE_MAX));
    assert_non_null(qr_arena_array(arena, 3, 5));
    assert_non_null(qr_arena_array(arena, 0, 5));
    qr_arena_destroy(arena);
}

static void copies_of_strings(void **state)
{
    struct qr_arena *arena = qr_arena_create(0);
    char text[] = "hello";
    char *copy = qr_arena_strdup(arena, text);
    char *part = qr_arena_memdup(arena, text, 3);

    (void)state;
    text[0] = 'J';
    assert_string_equal(copy, "hello");
    assert_string_equal(part, "hel");
    assert_string_equal(qr_arena_memdup(arena, NULL, 0), "");
    qr_arena_destroy(arena);
}

static bool fill(void *ctx)
{
    struct qr_arena *arena = qr_arena_create(0);
    bool ok = arena != NULL;

    (void)ctx;
    for (int i = 0; ok && i < 100; i++)
        ok = qr_arena_alloc(arena, (size_t)i * 100) != NULL;
    qr_arena_destroy(arena);
    return ok;
}

static void survives_every_failed_allocation(void **state)
{
    (void)state;
    if (!fault_works())
        skip();
    assert_true(fault_torture(fill, NULL, FAULT_ALLOC, 0) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aligned_zeroed_and_apart),         cmocka_unit_test(the_cap_holds),
        cmocka_unit_test(sizes_that_wrap_are_refused),      cmocka_unit_test(copies_of_strings),
        cmocka_unit_test(survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
