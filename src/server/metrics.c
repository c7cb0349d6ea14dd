/* metrics.c - names and buckets are those of vllm/v1/metrics/loggers.py, so that its dashboards and the gateways that read
 * it work unchanged. */
#include "server/metrics.h"
#include <math.h>
#include <string.h>

static const double ttft_bound[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,   0.75,
                                    1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80., 160., 640.0, 2560.0};
static const double inter_token_bound[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                           0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
static const double latency_bound[] = {0.3,  0.5,  0.8,  1.0,  1.5,  2.0,   2.5,   5.0,   10.0,  15.0,  20.0,
                                       30.0, 40.0, 50.0, 60.0, 120., 240.0, 480.0, 960.0, 1920., 7680.0};
static const double token_bound[] = {1,    2,    5,    10,    20,    50,    100,    200,    500,
                                     1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000};

static const double step_bound[QR_N_STEP_BOUND] = QR_STEP_BOUNDS;

#define BOUNDS(array) array, sizeof(array) / sizeof *(array)
static const struct {
    const char *name, *help;
    const double *bound;
    int n_bound;
} kind[QR_N_HISTOGRAM] = {
    [QR_H_TTFT] = {"time_to_first_token_seconds", "Seconds from a request's arrival to its first token.",
                   BOUNDS(ttft_bound)},
    [QR_H_INTER_TOKEN] = {"inter_token_latency_seconds", "Seconds between two tokens of a choice.",
                          BOUNDS(inter_token_bound)},
    [QR_H_E2E] = {"e2e_request_latency_seconds", "Seconds from a request's arrival to its end.", BOUNDS(latency_bound)},
    [QR_H_QUEUE] = {"request_queue_time_seconds", "Seconds that a request waited.", BOUNDS(latency_bound)},
    [QR_H_PREFILL] = {"request_prefill_time_seconds", "Seconds from the first step to the first token.",
                      BOUNDS(latency_bound)},
    [QR_H_DECODE] = {"request_decode_time_seconds", "Seconds from the first token to the end.", BOUNDS(latency_bound)},
    [QR_H_INFERENCE] = {"request_inference_time_seconds", "Seconds from the first step to the end.",
                        BOUNDS(latency_bound)},
    [QR_H_PROMPT_TOKENS] = {"request_prompt_tokens", "Tokens of a request's prompt.", BOUNDS(token_bound)},
    [QR_H_GENERATION_TOKENS] = {"request_generation_tokens", "Tokens that a request generated.", BOUNDS(token_bound)},
};

void qr_metrics_init(struct qr_metrics *m)
{
    memset(m, 0, sizeof *m);
    pthread_mutex_init(&m->mutex, NULL);
    for (int i = 0; i < QR_N_HISTOGRAM; i++) {
        m->histogram[i].bound = kind[i].bound;
        m->histogram[i].n_bound = kind[i].n_bound;
    }
}

void qr_metrics_free(struct qr_metrics *m)
{
    pthread_mutex_destroy(&m->mutex);
}

static void add(struct qr_metrics *m, enum qr_histogram_id id, double value)
{
    struct qr_histogram *h = &m->histogram[id];
    int i = 0;
    while (i < h->n_bound && value > h->bound[i])
        i++;
    h->count[i]++;
    h->sum += value;
}

void qr_metrics_observe(struct qr_metrics *m, enum qr_histogram_id id, double value)
{
    pthread_mutex_lock(&m->mutex);
    add(m, id, value);
    pthread_mutex_unlock(&m->mutex);
}

void qr_metrics_token(struct qr_metrics *m, bool first, double seconds)
{
    pthread_mutex_lock(&m->mutex);
    m->generation_tokens++;
    add(m, first ? QR_H_TTFT : QR_H_INTER_TOKEN, seconds);
    pthread_mutex_unlock(&m->mutex);
}

void qr_metrics_done(struct qr_metrics *m, const struct qr_event *event, double e2e_s)
{
    const struct qr_usage *u = &event->usage;
    pthread_mutex_lock(&m->mutex);
    m->finished[event->finish]++;
    if (event->choice == 0) {
        m->prompt_tokens += (uint64_t)u->prompt_tokens;
        add(m, QR_H_PROMPT_TOKENS, u->prompt_tokens);
    }
    add(m, QR_H_GENERATION_TOKENS, u->output_tokens);
    add(m, QR_H_E2E, e2e_s);
    add(m, QR_H_QUEUE, u->queue_s);
    add(m, QR_H_PREFILL, u->prefill_s);
    add(m, QR_H_DECODE, u->decode_s);
    add(m, QR_H_INFERENCE, u->prefill_s + u->decode_s);
    pthread_mutex_unlock(&m->mutex);
}

void qr_metrics_http(struct qr_metrics *m, int status)
{
    int digit = status / 100;
    pthread_mutex_lock(&m->mutex);
    m->http[digit >= 1 && digit <= 5 ? digit : 0]++;
    pthread_mutex_unlock(&m->mutex);
}

/* ---------------------------------------------------------------- text */

/* model_name with what a label's value escapes. */
static void print_label(struct qr_buf *out, const char *name)
{
    qr_buf_puts(out, "engine=\"0\",model_name=\"");
    for (; *name; name++)
        if (*name == '"' || *name == '\\')
            qr_buf_printf(out, "\\%c", *name);
        else
            qr_buf_putc(out, *name == '\n' ? ' ' : *name);
    qr_buf_putc(out, '"');
}

struct page {
    struct qr_buf *out;
    struct qr_buf label;
};

static void head(struct page *p, const char *name, const char *type, const char *help)
{
    qr_buf_printf(p->out, "# HELP vllm:%s %s\n# TYPE vllm:%s %s\n", name, help, name, type);
}

static void one(struct page *p, const char *name, const char *type, const char *help, double value)
{
    head(p, name, type, help);
    qr_buf_printf(p->out, "vllm:%s{%s} %.17g\n", name, p->label.data, value);
}

static void print_histogram(struct page *p, const struct qr_histogram *h, const char *name, const char *help,
                            double last_bound)
{
    uint64_t below = 0;
    head(p, name, "histogram", help);
    for (int i = 0; i < h->n_bound && (i == 0 || h->bound[i] <= last_bound); i++) {
        below += h->count[i];
        /* a whole number has ".0": le is a label, and its spelling the one that Python's client library has */
        qr_buf_printf(p->out, "vllm:%s_bucket{%s,le=\"%.15g%s\"} %llu\n", name, p->label.data, h->bound[i],
                      h->bound[i] == floor(h->bound[i]) ? ".0" : "", (unsigned long long)below);
    }
    below = 0;
    for (int i = 0; i <= h->n_bound; i++)
        below += h->count[i];
    qr_buf_printf(p->out, "vllm:%s_bucket{%s,le=\"+Inf\"} %llu\nvllm:%s_sum{%s} %.17g\nvllm:%s_count{%s} %llu\n", name,
                  p->label.data, (unsigned long long)below, name, p->label.data, h->sum, name, p->label.data,
                  (unsigned long long)below);
}

static void print_engine(struct page *p, const struct qr_engine_stats *s)
{
    double used = s->n_block > 0 ? 1.0 - (double)s->n_free_block / s->n_block : 0;
    one(p, "num_requests_running", "gauge", "Sequences that are in the running batch.", s->n_running);
    one(p, "num_requests_waiting", "gauge", "Sequences that wait for room.", s->n_waiting);
    one(p, "kv_cache_usage_perc", "gauge", "Share of the KV blocks in use; 1 is all.", used);
    one(p, "num_preemptions_total", "counter", "Sequences put back for want of blocks.", (double)s->n_preempted);
    head(p, "cache_config_info", "gauge", "How the KV cache is made.");
    qr_buf_printf(p->out, "vllm:cache_config_info{%s,block_size=\"16\",num_gpu_blocks=\"%d\"} 1\n", p->label.data,
                  s->n_block);
    struct qr_histogram steps = {.bound = step_bound, .n_bound = QR_N_STEP_BOUND, .sum = (double)s->n_token};
    memcpy(steps.count, s->step_class, sizeof s->step_class);
    print_histogram(p, &steps, "iteration_tokens_total", "Tokens of a step.", step_bound[QR_N_STEP_BOUND - 1]);
}

static void print_finished(struct page *p, const struct qr_metrics *m)
{
    static const char *const reason[] = {
        [QR_FINISH_STOP] = "stop",
        [QR_FINISH_LENGTH] = "length",
        [QR_FINISH_CANCELLED] = "abort",
        [QR_FINISH_ERROR] = "error",
    };
    head(p, "request_success_total", "counter", "Choices by how they ended.");
    for (int i = QR_FINISH_STOP; i <= QR_FINISH_ERROR; i++)
        qr_buf_printf(p->out, "vllm:request_success_total{%s,finished_reason=\"%s\"} %llu\n", p->label.data, reason[i],
                      (unsigned long long)m->finished[i]);
}

bool qr_metrics_print(struct qr_metrics *m, const struct qr_metrics_scene *scene, struct qr_buf *out)
{
    struct page p = {.out = out};
    qr_buf_init(&p.label, 0);
    print_label(&p.label, scene->model_name);
    if (p.label.failed)
        return false;
    if (scene->stats)
        print_engine(&p, scene->stats);
    pthread_mutex_lock(&m->mutex);
    one(&p, "prompt_tokens_total", "counter", "Tokens of prompts.", (double)m->prompt_tokens);
    one(&p, "generation_tokens_total", "counter", "Tokens generated.", (double)m->generation_tokens);
    one(&p, "prefix_cache_queries_total", "counter", "Tokens of prompts that were looked up in the prefix cache.",
        scene->stats ? (double)scene->stats->n_asked : 0);
    one(&p, "prefix_cache_hits_total", "counter", "Tokens of prompts that were found there.",
        scene->stats ? (double)scene->stats->n_cached : 0);
    print_finished(&p, m);
    for (int i = 0; i < QR_N_HISTOGRAM; i++)
        print_histogram(&p, &m->histogram[i], kind[i].name, kind[i].help,
                        kind[i].bound == token_bound ? scene->max_model_len : 1e9);
    qr_buf_printf(out, "# HELP quire:http_responses_total Answers by the first digit of their status.\n"
                       "# TYPE quire:http_responses_total counter\n");
    for (int i = 2; i <= 5; i++)
        qr_buf_printf(out, "quire:http_responses_total{class=\"%dxx\"} %llu\n", i, (unsigned long long)m->http[i]);
    pthread_mutex_unlock(&m->mutex);
    qr_buf_printf(out,
                  "# TYPE quire:http_connections gauge\nquire:http_connections %d\n"
                  "# TYPE quire:http_body_bytes gauge\nquire:http_body_bytes %lld\n",
                  scene->n_conn, (long long)scene->body_bytes);
    qr_buf_free(&p.label);
    return !out->failed;
}
