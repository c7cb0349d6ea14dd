/* test_fault.c - the fault harness itself: a test tool that catches nothing would make every torture test pass. */
#include "common/fault.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

static void *nothing(void *ctx)
{
    return ctx;
}

static void the_kth_allocation_fails(void **state)
{
    void *p[4];

    (void)state;
    fault_arm(3, FAULT_ALLOC);
    p[0] = malloc(10);
    p[1] = calloc(2, 10);
    p[2] = realloc(NULL, 10);
    p[3] = malloc(10);
    assert_true(fault_disarm());
    assert_non_null(p[0]);
    assert_non_null(p[1]);
    assert_null(p[2]);
    assert_non_null(p[3]);
    for (int i = 0; i < 4; i++)
        free(p[i]);
}

/* asprintf allocates inside the C library. */
static void calls_from_libraries_are_seen(void **state)
{
    long before = fault_allocations();
    char *text = NULL;

    (void)state;
    assert_int_equal(asprintf(&text, "%d", 5), 1);
    assert_true(fault_allocations() > before);
    free(text);
    fault_arm(1, FAULT_ALLOC);
    assert_int_equal(asprintf(&text, "%d", 5), -1);
    assert_true(fault_disarm());
}

static void every_kind_fails(void **state)
{
    pthread_t thread;
    char byte;
    int fd;

    (void)state;
    fault_arm(1, FAULT_MAP);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), MAP_FAILED);
    assert_true(fault_disarm());
    fault_arm(1, FAULT_FILE);
    assert_int_equal(open("/dev/zero", O_RDONLY), -1);
    assert_int_equal(errno, EMFILE);
    assert_true(fault_disarm());
    fd = open("/dev/zero", O_RDONLY);
    assert_true(fd >= 0);
    fault_arm(1, FAULT_FILE);
    assert_int_equal(read(fd, &byte, 1), -1);
    assert_int_equal(read(fd, &byte, 1), 1);
    assert_true(fault_disarm());
    close(fd);
    fault_arm(1, FAULT_THREAD);
    assert_int_equal(pthread_create(&thread, NULL, nothing, NULL), EAGAIN);
    assert_true(fault_disarm());
    assert_int_equal(pthread_create(&thread, NULL, nothing, NULL), 0);
    pthread_join(thread, NULL);
}

static bool two_allocations(void *ctx)
{
    char *a = strdup("a"), *b = malloc(100);
    bool ok = a && b;

    (void)ctx;
    free(a);
    free(b);
    return ok;
}

static void torture_counts_fault_points(void **state)
{
    (void)state;
    assert_int_equal(fault_torture(two_allocations, NULL, FAULT_ANY, 0), 2);
}

static void live_blocks_are_counted(void **state)
{
    long before = fault_live();
    void *(*volatile allocate)(size_t) = malloc; /* volatile: or the compiler drops the call */
    void *p;

    (void)state;
    p = allocate(16);
    if (fault_live() == 0) {
        free(p);
        skip(); /* under a sanitizer, whose own leak check stands in */
    }
    assert_int_equal(fault_live(), before + 1);
    free(p);
    assert_int_equal(fault_live(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kth_allocation_fails), cmocka_unit_test(calls_from_libraries_are_seen),
        cmocka_unit_test(every_kind_fails),         cmocka_unit_test(torture_counts_fault_points),
        cmocka_unit_test(live_blocks_are_counted),
    };

    if (!fault_works()) {
        printf("[  SKIPPED ] no fault injection in this build\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
