/* pool.h - a fork-join thread pool. The calling thread is worker 0. Workers wait by spinning for some
 * 50 us and then sleep on a futex, so that an idle pool costs no CPU time.
 *
 * One thread at a time may call qr_pool_run. */
#ifndef QR_BASE_POOL_H
#define QR_BASE_POOL_H
#include "base/err.h"

struct qr_pool;

/* n_thread 0: as many as this process may run on (sched_getaffinity, cgroup quota). At most 256. */
enum qr_status qr_pool_create(int n_thread, struct qr_pool **pool, struct qr_err *err);
void qr_pool_destroy(struct qr_pool *pool);
int qr_pool_size(const struct qr_pool *pool);

/* Runs fn(ctx, worker, n_worker) once on every worker and returns when all are done. */
void qr_pool_run(struct qr_pool *pool, void (*fn)(void *ctx, int worker, int n_worker), void *ctx);
/* Inside fn: waits until every worker came here. */
void qr_pool_barrier(struct qr_pool *pool);
/* Inside fn: a shared counter for dynamic splitting. Returns the next value from 0; every worker sees
 * every value once. qr_pool_reset_counter may be called by one worker between two barriers. */
int qr_pool_next(struct qr_pool *pool);
void qr_pool_reset_counter(struct qr_pool *pool);

int qr_cpu_count(void); /* CPUs that this process may use, at least 1 */
#endif
