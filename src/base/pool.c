/* pool.c - a fork-join thread pool.
 *
 * A run is published by one counter that workers watch; the last worker to finish bumps another one that the
 * caller watches. The barrier is the same thing among all. Watching means: spin, then sleep on a futex. */
#include "base/pool.h"
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/clock.h"

#define MAX_THREAD 256
#define SPIN_NS    50000
#define CACHE_LINE 64

/* A number that only grows (mod 2^32), and how many threads sleep until it changes. */
struct gate {
    _Alignas(CACHE_LINE) atomic_uint number;
    atomic_uint n_sleeper;
};

struct worker {
    struct qr_pool *pool;
    int index;
    pthread_t thread;
};

struct qr_pool {
    int n_thread;
    int64_t spin_ns; /* 0 when there are more threads than CPUs: who spins keeps another from its work */
    void (*fn)(void *ctx, int worker, int n_worker); /* NULL: end */
    void *ctx;
    struct worker *worker; /* [n_thread]; [0] is the caller's and has no thread */

    struct gate start; /* runs published */
    struct gate done;  /* runs finished */
    struct gate pass;  /* barriers passed */
    _Alignas(CACHE_LINE) atomic_int n_running;
    _Alignas(CACHE_LINE) atomic_int n_arrived;
    _Alignas(CACHE_LINE) atomic_int counter;
};

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

static void futex_wait(atomic_uint *word, unsigned value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

/* Until the gate's number is no longer seen. */
static void gate_wait(struct gate *gate, unsigned seen, int64_t spin_ns)
{
    int64_t end = 0;

    if (spin_ns > 0) {
        for (unsigned i = 0;; i++) {
            if (atomic_load_explicit(&gate->number, memory_order_acquire) != seen)
                return;
            pause_cpu();
            if (i % 64 == 63) { /* a look at the clock costs as much as some pauses */
                int64_t now = qr_now_ns();

                if (end == 0)
                    end = now + spin_ns;
                else if (now >= end)
                    break;
            }
        }
    }
    /* Sequentially consistent on both sides: either the opener sees the sleeper, or the sleeper the new number. */
    atomic_fetch_add(&gate->n_sleeper, 1);
    while (atomic_load(&gate->number) == seen)
        futex_wait(&gate->number, seen);
    atomic_fetch_sub(&gate->n_sleeper, 1);
}

static void gate_open(struct gate *gate)
{
    atomic_fetch_add(&gate->number, 1);
    if (atomic_load(&gate->n_sleeper) > 0)
        syscall(SYS_futex, &gate->number, FUTEX_WAKE_PRIVATE, MAX_THREAD, NULL, NULL, 0);
}

static void *work(void *arg)
{
    const struct worker *self = arg;
    struct qr_pool *pool = self->pool;

    for (unsigned seen = 0;; seen++) {
        gate_wait(&pool->start, seen, pool->spin_ns);
        if (!pool->fn)
            return NULL;
        pool->fn(pool->ctx, self->index, pool->n_thread);
        if (atomic_fetch_sub(&pool->n_running, 1) == 1)
            gate_open(&pool->done);
    }
}

/* Signals meant for the process go to the threads of the program, not to the pool's; faults stay with who
 * causes them. */
static void block_signals(sigset_t *before)
{
    sigset_t set;

    sigfillset(&set);
    sigdelset(&set, SIGBUS);
    sigdelset(&set, SIGSEGV);
    sigdelset(&set, SIGFPE);
    sigdelset(&set, SIGILL);
    sigdelset(&set, SIGTRAP);
    pthread_sigmask(SIG_SETMASK, &set, before);
}

/* Ends and joins workers 1 .. n - 1 and frees everything. */
static void destroy(struct qr_pool *pool, int n)
{
    pool->fn = NULL;
    gate_open(&pool->start);
    for (int i = 1; i < n; i++)
        pthread_join(pool->worker[i].thread, NULL);
    free(pool->worker);
    free(pool);
}

enum qr_status qr_pool_create(int n_thread, struct qr_pool **out, struct qr_err *err)
{
    int n_cpu = qr_cpu_count();
    struct qr_pool *pool;
    sigset_t before;
    int failed = 0;

    *out = NULL;
    if (n_thread < 0 || n_thread > MAX_THREAD)
        return qr_fail(err, QR_INVALID, "the number of threads is %d but must be 0 (all CPUs) to %d", n_thread,
                       MAX_THREAD);
    if (n_thread == 0)
        n_thread = n_cpu < MAX_THREAD ? n_cpu : MAX_THREAD;
    pool = aligned_alloc(CACHE_LINE, sizeof *pool);
    if (!pool)
        return qr_fail(err, QR_NOMEM, "out of memory for a pool of %d threads", n_thread);
    *pool = (struct qr_pool){.n_thread = n_thread, .spin_ns = n_thread <= n_cpu ? SPIN_NS : 0};
    pool->worker = calloc((size_t)n_thread, sizeof *pool->worker);
    if (!pool->worker) {
        free(pool);
        return qr_fail(err, QR_NOMEM, "out of memory for a pool of %d threads", n_thread);
    }
    block_signals(&before);
    for (int i = 1; i < n_thread && !failed; i++) {
        pool->worker[i] = (struct worker){.pool = pool, .index = i};
        failed = pthread_create(&pool->worker[i].thread, NULL, work, &pool->worker[i]) ? i : 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        destroy(pool, failed);
        return qr_fail(err, QR_NOMEM, "the system refused thread %d of %d: ask for fewer threads", failed + 1,
                       n_thread);
    }
    *out = pool;
    return QR_OK;
}

void qr_pool_destroy(struct qr_pool *pool)
{
    if (pool)
        destroy(pool, pool->n_thread);
}

int qr_pool_size(const struct qr_pool *pool)
{
    return pool->n_thread;
}

void qr_pool_run(struct qr_pool *pool, void (*fn)(void *ctx, int worker, int n_worker), void *ctx)
{
    unsigned seen = atomic_load(&pool->done.number);

    atomic_store_explicit(&pool->counter, 0, memory_order_relaxed);
    if (pool->n_thread == 1) {
        fn(ctx, 0, 1);
        return;
    }
    pool->fn = fn;
    pool->ctx = ctx;
    atomic_store_explicit(&pool->n_running, pool->n_thread - 1, memory_order_relaxed);
    gate_open(&pool->start);
    fn(ctx, 0, pool->n_thread);
    gate_wait(&pool->done, seen, pool->spin_ns);
}

void qr_pool_barrier(struct qr_pool *pool)
{
    unsigned seen;

    if (pool->n_thread == 1)
        return;
    /* read before arriving: after the last arrival it may change */
    seen = atomic_load(&pool->pass.number);
    if (atomic_fetch_add(&pool->n_arrived, 1) == pool->n_thread - 1) {
        atomic_store_explicit(&pool->n_arrived, 0, memory_order_relaxed);
        gate_open(&pool->pass);
    } else {
        gate_wait(&pool->pass, seen, pool->spin_ns);
    }
}

int qr_pool_next(struct qr_pool *pool)
{
    return atomic_fetch_add_explicit(&pool->counter, 1, memory_order_relaxed);
}

void qr_pool_reset_counter(struct qr_pool *pool)
{
    atomic_store_explicit(&pool->counter, 0, memory_order_relaxed);
}
