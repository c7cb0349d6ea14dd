/* metrics.h - counters and histograms under vLLM's names, as Prometheus reads them. Any thread. */
#ifndef QR_SERVER_METRICS_H
#define QR_SERVER_METRICS_H
#include <pthread.h>
#include "base/buf.h"
#include "engine/stats.h"

#define QR_MAX_BUCKET 24

struct qr_histogram {
    const double *bound; /* [n_bound] upper ends, ascending */
    int n_bound;
    uint64_t count[QR_MAX_BUCKET + 1]; /* of each bucket alone; the last: above all */
    double sum;
};

enum qr_histogram_id {
    QR_H_TTFT,
    QR_H_INTER_TOKEN,
    QR_H_E2E,
    QR_H_QUEUE,
    QR_H_PREFILL,
    QR_H_DECODE,
    QR_H_INFERENCE,
    QR_H_PROMPT_TOKENS,
    QR_H_GENERATION_TOKENS,
    QR_N_HISTOGRAM
};

struct qr_metrics {
    pthread_mutex_t mutex;
    struct qr_histogram histogram[QR_N_HISTOGRAM];
    uint64_t finished[QR_FINISH_ERROR + 1]; /* choices by how they ended */
    uint64_t prompt_tokens, generation_tokens;
    uint64_t http[6]; /* answers by the first digit of their status */
};

void qr_metrics_init(struct qr_metrics *metrics);
void qr_metrics_free(struct qr_metrics *metrics);
void qr_metrics_observe(struct qr_metrics *metrics, enum qr_histogram_id id, double value);
/* A choice ended; e2e_s: seconds since its request came. */
void qr_metrics_done(struct qr_metrics *metrics, const struct qr_event *event, double e2e_s);
void qr_metrics_token(struct qr_metrics *metrics, bool first,
                      double seconds); /* since the request, or the last token */
void qr_metrics_http(struct qr_metrics *metrics, int status);

struct qr_metrics_scene {
    const char *model_name;
    const struct qr_engine_stats *stats; /* NULL: no engine yet */
    int max_model_len;
    int n_conn;
    int64_t body_bytes;
};
bool qr_metrics_print(struct qr_metrics *metrics, const struct qr_metrics_scene *scene, struct qr_buf *out);
#endif
