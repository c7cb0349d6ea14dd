/* test_pool.c - the thread pool: every worker once, barriers, dynamic splitting, sleep when idle, many threads. */
#include "base/pool.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <cmocka.h>
#include "base/clock.h"
#include "common/fault.h"

static struct qr_pool *pool_of(int n)
{
    struct qr_pool *pool;
    struct qr_err err;

    if (qr_pool_create(n, &pool, &err) != QR_OK)
        fail_msg("%s", err.message);
    return pool;
}

static void count_only(void *ctx, int worker, int n_worker)
{
    int *count = ctx; /* no atomics, so that ThreadSanitizer sees a missing order */

    (void)n_worker;
    count[worker]++;
}

static void every_worker_runs_once(void **state)
{
    static const int sizes[] = {1, 2, 3, 8, 64, 256};

    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct qr_pool *pool = pool_of(sizes[s]);
        int count[256] = {0};
        int runs = sizes[s] <= 3 ? 3000 : 50;

        assert_int_equal(qr_pool_size(pool), sizes[s]);
        for (int run = 1; run <= runs; run++) {
            qr_pool_run(pool, count_only, count);
            for (int i = 0; i < 256; i++)
                assert_int_equal(count[i], i < sizes[s] ? run : 0);
        }
        qr_pool_destroy(pool);
    }
}

struct stages {
    struct qr_pool *pool;
    int n_stage;
    int *value; /* [n_worker] */
    atomic_int wrong;
};

/* In each stage a worker reads its neighbour's value of the stage before, then all write. */
static void run_stages(void *ctx, int worker, int n_worker)
{
    struct stages *stages = ctx;

    for (int stage = 0; stage < stages->n_stage; stage++) {
        int seen = stages->value[(worker + 1) % n_worker];

        if (seen != stage)
            atomic_fetch_add(&stages->wrong, 1);
        qr_pool_barrier(stages->pool);
        stages->value[worker] = stage + 1;
        qr_pool_barrier(stages->pool);
    }
}

static void barriers_order_the_stages(void **state)
{
    static const int sizes[] = {1, 2, 5, 32};

    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        int value[32] = {0};
        struct stages stages = {.pool = pool_of(sizes[s]), .n_stage = sizes[s] <= 2 ? 5000 : 100, .value = value};

        qr_pool_run(stages.pool, run_stages, &stages);
        assert_int_equal(stages.wrong, 0);
        assert_int_equal(value[0], stages.n_stage);
        qr_pool_destroy(stages.pool);
    }
}

struct split {
    struct qr_pool *pool;
    int n;
    atomic_int taken[2][1000];
};

static void take_all(void *ctx, int worker, int n_worker)
{
    struct split *split = ctx;

    (void)n_worker;
    for (int i; (i = qr_pool_next(split->pool)) < split->n;)
        atomic_fetch_add(&split->taken[0][i], 1);
    qr_pool_barrier(split->pool);
    if (worker == 0)
        qr_pool_reset_counter(split->pool);
    qr_pool_barrier(split->pool);
    for (int i; (i = qr_pool_next(split->pool)) < split->n;)
        atomic_fetch_add(&split->taken[1][i], 1);
}

static void the_counter_gives_each_number_once(void **state)
{
    static struct split split;

    (void)state;
    split.pool = pool_of(4);
    split.n = 1000;
    for (int run = 1; run <= 20; run++) { /* and starts anew in each run */
        qr_pool_run(split.pool, take_all, &split);
        for (int i = 0; i < split.n; i++) {
            assert_int_equal(split.taken[0][i], run);
            assert_int_equal(split.taken[1][i], run);
        }
    }
    qr_pool_destroy(split.pool);
}

static double cpu_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void an_idle_pool_costs_no_cpu_time(void **state)
{
    struct qr_pool *pool = pool_of(2);
    struct timespec pause = {.tv_nsec = 200000000};
    int count[2] = {0};
    double before;

    (void)state;
    qr_pool_run(pool, count_only, count);
    before = cpu_seconds();
    nanosleep(&pause, NULL);
    assert_true(cpu_seconds() - before < 0.02);
    qr_pool_run(pool, count_only, count); /* and wakes again */
    assert_int_equal(count[1], 2);
    qr_pool_destroy(pool);
}

static void nap(void *ctx, int worker, int n_worker)
{
    struct timespec pause = {.tv_nsec = 300000};

    (void)n_worker;
    if (worker % 2 == *(int *)ctx)
        nanosleep(&pause, NULL);
}

/* Some arrive while others sleep already, on both sides of the join. */
static void sleeping_and_waking(void **state)
{
    struct qr_pool *pool = pool_of(4);

    (void)state;
    for (int run = 0; run < 200; run++) {
        int who = run % 2;

        qr_pool_run(pool, nap, &who);
    }
    qr_pool_destroy(pool);
}

static void sizes_out_of_range_are_refused(void **state)
{
    struct qr_pool *pool;
    struct qr_err err;

    (void)state;
    assert_int_equal(qr_pool_create(-1, &pool, &err), QR_INVALID);
    assert_null(pool);
    assert_int_equal(qr_pool_create(257, &pool, &err), QR_INVALID);
    assert_string_equal(err.message, "the number of threads is 257 but must be 0 (all CPUs) to 256");
    assert_true(qr_cpu_count() >= 1);
    pool = pool_of(0);
    assert_int_equal(qr_pool_size(pool), qr_cpu_count() < 256 ? qr_cpu_count() : 256);
    qr_pool_destroy(pool);
    qr_pool_destroy(NULL);
}

static bool create_and_run(void *ctx)
{
    struct qr_pool *pool;
    struct qr_err err;
    int count[6] = {0};

    (void)ctx;
    if (qr_pool_create(6, &pool, &err) != QR_OK) {
        assert_null(pool);
        return false;
    }
    qr_pool_run(pool, count_only, count);
    qr_pool_destroy(pool);
    return count[5] == 1;
}

static void survives_refused_memory_and_threads(void **state)
{
    (void)state;
    if (!fault_works())
        skip();
    assert_true(fault_torture(create_and_run, NULL, FAULT_ALLOC | FAULT_THREAD, 0) >= 7);
}

static void a_run_allocates_nothing(void **state)
{
    struct qr_pool *pool = pool_of(2);
    int count[2] = {0};
    long before;

    (void)state;
    qr_pool_run(pool, count_only, count); /* a sanitizer allocates when a thread starts */
    before = fault_allocations();
    for (int i = 0; i < 100; i++)
        qr_pool_run(pool, count_only, count);
    assert_int_equal(fault_allocations(), before);
    qr_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_worker_runs_once),
        cmocka_unit_test(barriers_order_the_stages),
        cmocka_unit_test(the_counter_gives_each_number_once),
        cmocka_unit_test(an_idle_pool_costs_no_cpu_time),
        cmocka_unit_test(sleeping_and_waking),
        cmocka_unit_test(sizes_out_of_range_are_refused),
        cmocka_unit_test(survives_refused_memory_and_threads),
        cmocka_unit_test(a_run_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
