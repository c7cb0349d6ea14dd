/* workers.c - see workers.h. The threads run at a lower priority than the engine's: reading a long prompt that is to come
 * must not hold up the texts that are being written. */
#include "server/workers.h"
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MAX_THREAD = 16, NICE = 5 };

struct qr_workers {
    pthread_mutex_t mutex;
    pthread_cond_t arrived;
    struct qr_exchange **ring; /* [room] */
    int room, first, n;
    bool stopping;
    void (*work)(void *ctx, struct qr_exchange *exchange);
    void *ctx;
    pthread_t thread[MAX_THREAD];
    int n_thread;
};

static struct qr_exchange *wait_for_one(struct qr_workers *w)
{
    struct qr_exchange *x = NULL;
    pthread_mutex_lock(&w->mutex);
    while (!w->n && !w->stopping)
        pthread_cond_wait(&w->arrived, &w->mutex);
    if (!w->stopping) {
        x = w->ring[w->first];
        w->first = (w->first + 1) % w->room;
        w->n--;
    }
    pthread_mutex_unlock(&w->mutex);
    return x;
}

static void *worker_main(void *arg)
{
    struct qr_workers *w = arg;
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* refused: as before */
    for (struct qr_exchange *x; (x = wait_for_one(w));) {
        w->work(w->ctx, x);
        qr_exchange_drop(x);
    }
    return NULL;
}

enum qr_status qr_workers_create(int n_thread, int max_waiting, void (*work)(void *ctx, struct qr_exchange *exchange),
                                 void *ctx, struct qr_workers **workers, struct qr_err *err)
{
    struct qr_workers *w = calloc(1, sizeof *w);
    *workers = NULL;
    if (w)
        w->ring = calloc((size_t)max_waiting, sizeof(struct qr_exchange *));
    if (!w || !w->ring) {
        free(w);
        return qr_fail(err, QR_NOMEM, "out of memory for a queue of %d requests", max_waiting);
    }
    w->room = max_waiting;
    w->work = work;
    w->ctx = ctx;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->arrived, NULL);
    for (; w->n_thread < n_thread && w->n_thread < MAX_THREAD; w->n_thread++)
        if (pthread_create(&w->thread[w->n_thread], NULL, worker_main, w) != 0) {
            qr_workers_destroy(w);
            return qr_fail(err, QR_LIMIT, "the system refused a thread");
        }
    *workers = w;
    return QR_OK;
}

void qr_workers_destroy(struct qr_workers *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->mutex);
    w->stopping = true;
    pthread_cond_broadcast(&w->arrived);
    pthread_mutex_unlock(&w->mutex);
    for (int i = 0; i < w->n_thread; i++)
        pthread_join(w->thread[i], NULL);
    for (; w->n; w->n--, w->first = (w->first + 1) % w->room)
        qr_exchange_drop(w->ring[w->first]);
    pthread_mutex_destroy(&w->mutex);
    pthread_cond_destroy(&w->arrived);
    free(w->ring);
    free(w);
}

bool qr_workers_push(struct qr_workers *w, struct qr_exchange *x)
{
    pthread_mutex_lock(&w->mutex);
    bool room = w->n < w->room;
    if (room) {
        qr_exchange_hold(x);
        w->ring[(w->first + w->n++) % w->room] = x;
        pthread_cond_signal(&w->arrived);
    }
    pthread_mutex_unlock(&w->mutex);
    return room;
}
