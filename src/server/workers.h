/* workers.h - a few threads that read requests: JSON, templates, tokens. What waits for them is bounded. */
#ifndef QR_SERVER_WORKERS_H
#define QR_SERVER_WORKERS_H
#include "server/exchange.h"

struct qr_workers;
/* work is called with an exchange that it need not drop. */
enum qr_status qr_workers_create(int n_thread, int max_waiting, void (*work)(void *ctx, struct qr_exchange *exchange),
                                 void *ctx, struct qr_workers **workers, struct qr_err *err);
/* Ends the threads after what they are at; what waits is dropped unanswered. */
void qr_workers_destroy(struct qr_workers *workers);
bool qr_workers_push(struct qr_workers *workers, struct qr_exchange *exchange); /* false: too many wait */
#endif
