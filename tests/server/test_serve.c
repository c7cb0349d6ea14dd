/* test_serve.c - the server on an engine without a model: a thousand streams at once, clients that vanish, an engine that
 * hangs and one that only takes long, a full queue, a drain, a reader that stops. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <dirent.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "common/tmp.h"
#include "server/load.h"
#include "server/serve.h"
#include "model.h"
#include "stub.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { SLOW = 1 };
#else
enum { SLOW = 0 };
#endif

static const char *const names[] = {"stub"};
static struct qr_model *model;

static int setup(void **state)
{
    struct rlimit limit;
    signal(SIGPIPE, SIG_IGN);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    model = server_model(state);
    return 0;
}

static int teardown(void **state)
{
    qr_model_close(model);
    return tmp_teardown(state);
}

struct place { /* a server and its engine */
    struct qr_engine *engine;
    struct stub *stub;
    struct qr_server *server;
    struct qr_serve_options options;
    int max_waiting;   /* requests that wait for a worker; 0: as usual */
    int stall_ms;      /* 0: as usual */
    size_t max_unsent; /* 0: as usual */
};

static void open_place(struct place *p, int max_seq, int step_ms)
{
    struct qr_err err;
    p->engine = stub_engine(model, max_seq, &p->stub);
    atomic_store(&p->stub->step_ms, step_ms);
    qr_serve_options_default(&p->options);
    p->options.port = 0;
    p->options.model_name = names;
    p->options.n_model_name = 1;
    p->options.drain_ms = 5000;
    if (p->stall_ms)
        p->options.limits.stall_ms = p->stall_ms;
    if (p->max_unsent)
        p->options.limits.max_unsent = p->max_unsent;
    if (p->max_waiting) {
        p->options.max_waiting = p->max_waiting;
        p->options.n_worker = 1;
    }
    if (qr_server_create(&p->options, &p->server, &err) != QR_OK ||
        qr_server_attach(p->server, model, p->engine, &err) != QR_OK)
        fail_msg("%s", err.message);
}

static void close_place(struct place *p, enum qr_serve_end end)
{
    qr_server_drain(p->server);
    assert_int_equal(qr_server_wait(p->server), end);
    qr_server_stop(p->server);
    qr_engine_destroy(p->engine);
    qr_server_destroy(p->server);
}

/* ---------------------------------------------------------------- a load */

struct crowd {
    struct place *place;
    int n_prompt, n_token;
    struct qr_buf *text; /* [n] that each client got */
    double stop_at;      /* seconds; 0: never */
    const char *more;    /* fields */
};

static bool body(void *ctx, size_t i, struct qr_buf *out)
{
    struct crowd *c = ctx;
    qr_buf_puts(out,
                "{\"stream\": true, \"stream_options\": {\"include_usage\": true}, \"temperature\": 0, \"prompt\": [1");
    for (int k = 1; k < c->n_prompt + (int)(i % 7); k++) /* so that positions differ from client to client */
        qr_buf_printf(out, ", %d", k % 50 + 1);
    return qr_buf_printf(out, "], \"max_tokens\": %d%s}", c->n_token, c->more ? c->more : "");
}

static void take_text(void *ctx, size_t i, const char *text, size_t n)
{
    struct crowd *c = ctx;
    qr_buf_append(&c->text[i], text, n);
}

static bool go_on(void *ctx, size_t n_done)
{
    struct crowd *c = ctx;
    (void)n_done;
    return c->stop_at == 0 || qr_now_s() < c->stop_at;
}

static enum qr_status run(struct crowd *c, size_t n, int at_once, struct qr_load_result *result,
                          struct qr_load_gaps *gaps)
{
    struct qr_err err;
    const struct qr_load_options options = {
        .host = "127.0.0.1",
        .port = qr_server_port(c->place->server),
        .path = "/v1/completions",
        .n_request = n,
        .concurrency = at_once,
        .timeout_s = 120,
        .body = body,
        .text = take_text,
        .progress = go_on,
        .ctx = c,
    };
    c->text = calloc(n, sizeof *c->text);
    assert_non_null(c->text);
    enum qr_status status = qr_load_run(&options, result, gaps, &err);
    if (status != QR_OK && status != QR_CANCELLED)
        fail_msg("%s", err.message);
    return status;
}

static void free_texts(struct crowd *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        qr_buf_free(&c->text[i]);
    free(c->text);
}

/* The text that client i must get, by the stub's rule. */
static void check_text(const struct crowd *c, size_t i)
{
    int32_t id[512];
    char *text;
    size_t n;
    int first = c->n_prompt + (int)(i % 7);
    for (int k = 0; k < c->n_token; k++)
        id[k] = stub_next(first - 1 + k);
    assert_int_equal(qr_detokenize(model, id, (size_t)c->n_token, true, &text, &n, NULL), QR_OK);
    if (c->text[i].len != n || memcmp(c->text[i].data, text, n) != 0)
        fail_msg("client %zu got '%s', not '%s'", i, c->text[i].data ? c->text[i].data : "", text);
    qr_free(text);
}

static int by_float(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}
static int n_descriptor(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* ---------------------------------------------------------------- tests */

/* None lost, none out of order. Gaps are judged where nothing slows the machine: QUIRE_LONG. */
static void many_streams(void **state)
{
    enum { N = SLOW ? 100 : 1000, TOKENS = 20 };
    static struct qr_load_result result[N];
    struct place p = {0};
    struct qr_load_gaps gaps = {0};
    struct rusage usage;
    (void)state;
    open_place(&p, N, 100);
    struct crowd c = {.place = &p, .n_prompt = 3, .n_token = TOKENS};
    assert_int_equal(run(&c, N, N, result, &gaps), QR_OK);
    for (size_t i = 0; i < N; i++) {
        if (!result[i].whole || result[i].status != 200)
            fail_msg("stream %zu: status %d, %s", i, result[i].status, result[i].error);
        assert_int_equal(result[i].output_tokens, TOKENS);
        check_text(&c, i);
    }
    qsort(gaps.gap, gaps.n, sizeof *gaps.gap, by_float);
    double p99 = 1e3 * (double)gaps.gap[(gaps.n - 1) * 99 / 100];
    getrusage(RUSAGE_SELF, &usage);
    print_message("%d streams of 10 tokens a second: gap median %.0f ms, p99 %.0f ms; clients and server: %ld MB\n", N,
                  1e3 * (double)gaps.gap[gaps.n / 2], p99, usage.ru_maxrss >> 10);
    if (getenv("QUIRE_LONG") && !SLOW)
        assert_true(p99 < 150);
    free_texts(&c, N);
    free(gaps.gap);
    close_place(&p, QR_SERVE_DRAINED);
}

struct poster { /* sends one large body again and again, which is refused */
    int port;
    const char *body;
    size_t n;
    double until;
    int n_refused, n_busy, n_other;
};

static void *post_large(void *arg)
{
    struct poster *p = arg;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)p->port)};
    char text[1024];
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    while (qr_now_s() < p->until) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0) {
            int n_head = snprintf(text, sizeof text,
                                  "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                  "Content-Length: %zu\r\n\r\n",
                                  p->n);
            ssize_t sent = send(fd, text, (size_t)n_head, MSG_NOSIGNAL);
            for (size_t at = 0; sent > 0 && at < p->n; at += (size_t)(sent > 0 ? sent : 0))
                sent = send(fd, p->body + at, p->n - at, MSG_NOSIGNAL);
            ssize_t got = recv(fd, text, sizeof text - 1, 0);
            text[got > 0 ? got : 0] = 0;
            int status = got > 12 ? atoi(text + 9) : 0;
            p->n_refused += status == 400;
            p->n_busy += status == 429;
            p->n_other += status != 400 && status != 429;
        }
        close(fd);
    }
    return NULL;
}

/* Twenty clients post 30 MB, texts and lists of ids, beside 200 streams: the loop only moves bytes. */
static void streams_beside_posters(void **state)
{
    enum { N = SLOW ? 20 : 200, TOKENS = 40, POSTERS = SLOW ? 4 : 20, BYTES = 30 << 20 };
    static struct qr_load_result result[N];
    static char text[BYTES], ids[BYTES];
    struct place p = {0};
    struct qr_load_gaps gaps = {0};
    struct poster poster[POSTERS];
    pthread_t thread[POSTERS];
    int n_refused = 0;
    (void)state;
    memset(text, 'a', BYTES);
    memcpy(text, "{\"prompt\": \"", 12);
    memcpy(text + BYTES - 2, "\"}", 2);
    memset(ids, ' ', BYTES);
    for (size_t i = 16; i < BYTES - 16; i += 16) /* 1.9 million */
        memcpy(ids + i, "1,", 2);
    memcpy(ids, "{\"prompt\": [", 12);
    memcpy(ids + BYTES - 4, "1]}", 3);
    open_place(&p, N, 100);
    for (int i = 0; i < POSTERS; i++) {
        poster[i] =
            (struct poster){qr_server_port(p.server), i % 2 ? ids : text, BYTES, qr_now_s() + TOKENS * 0.1, 0, 0, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, post_large, &poster[i]), 0);
    }
    struct crowd c = {.place = &p, .n_prompt = 3, .n_token = TOKENS};
    assert_int_equal(run(&c, N, N, result, &gaps), QR_OK);
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(poster[i].n_other, 0);
        n_refused += poster[i].n_refused;
    }
    for (size_t i = 0; i < N; i++) {
        if (!result[i].whole)
            fail_msg("stream %zu: status %d, %s", i, result[i].status, result[i].error);
        check_text(&c, i);
    }
    qsort(gaps.gap, gaps.n, sizeof *gaps.gap, by_float);
    double p99 = 1e3 * (double)gaps.gap[(gaps.n - 1) * 99 / 100];
    print_message("%d streams of 10 tokens a second beside %d posters of 30 MB (%d bodies read): gap median %.0f ms, "
                  "p99 %.0f ms\n",
                  N, POSTERS, n_refused, 1e3 * (double)gaps.gap[gaps.n / 2], p99);
    assert_true(n_refused > 0);
    if (getenv("QUIRE_LONG") && !SLOW)
        assert_true(p99 < 150);
    free_texts(&c, N);
    free(gaps.gap);
    close_place(&p, QR_SERVE_DRAINED);
}

/* Two hundred clients leave at random points: blocks back, descriptors back. */
static void clients_vanish(void **state)
{
    enum { N = SLOW ? 60 : 200 };
    static struct qr_load_result result[N];
    struct qr_engine_stats stats;
    struct place p = {0};
    (void)state;
    open_place(&p, 64, 2);
    int before = n_descriptor();
    for (int k = 0; k < 4; k++) {
        struct crowd c = {.place = &p, .n_prompt = 40, .n_token = 200, .stop_at = qr_now_s() + 0.05 + 0.2 * k};
        run(&c, N, N, result, NULL);
        free_texts(&c, N);
    }
    double until = qr_now_s() + 20;
    do {
        qr_engine_stats(p.engine, &stats);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    } while ((stats.n_running || stats.n_waiting || n_descriptor() > before) && qr_now_s() < until);
    assert_int_equal(stats.n_running + stats.n_waiting, 0);
    assert_int_equal(stats.n_free_block, stats.n_block);
    assert_int_equal(n_descriptor(), before);
    struct crowd c = {.place = &p, .n_prompt = 4, .n_token = 5};
    run(&c, 1, 1, result, NULL);
    check_text(&c, 0);
    free_texts(&c, 1);
    close_place(&p, QR_SERVE_DRAINED);
}

/* Who asks for a lot and then takes nothing is cut after a while; the server does not hold what it had to say for ever. */
static void a_reader_that_stops(void **state)
{
    static const char get[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct place p = {.stall_ms = 500};
    struct sockaddr_in to = {.sin_family = AF_INET};
    int small = 4096;
    (void)state;
    open_place(&p, 8, 1);
    int before = n_descriptor();
    to.sin_port = htons((uint16_t)qr_server_port(p.server));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    for (int i = 0; i < 200; i++) /* pages of 50 KB: more than the system buffers */
        (void)!send(fd, get, sizeof get - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    double start = qr_now_s();
    while (n_descriptor() != before + 2 && qr_now_s() < start + 5) /* this one's and the server's */
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    while (n_descriptor() != before + 1 && qr_now_s() < start + 20)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    assert_int_equal(n_descriptor(), before + 1);
    assert_in_range((int)(10 * (qr_now_s() - start)), 4, SLOW ? 150 : 50);
    close(fd);
    close_place(&p, QR_SERVE_DRAINED);
}

/* The log-probabilities of a prompt are one piece of a stream: longer than what may wait for a reader, it is sent all the
 * same to one who reads. */
static void a_piece_over_the_cap(void **state)
{
    struct place p = {.max_unsent = 10000};
    struct qr_load_result result = {0};
    (void)state;
    open_place(&p, 8, 15);
    struct crowd c = {.place = &p, .n_prompt = 100, .n_token = 5, .more = ", \"echo\": true, \"logprobs\": 20"};
    run(&c, 1, 1, &result, NULL);
    if (!result.whole)
        fail_msg("%s", result.error);
    free_texts(&c, 1);
    close_place(&p, QR_SERVE_DRAINED);
}

/* Who reads slowly, but reads, gets all of a large answer: it takes six times as long as a reader may stop. */
static void a_reader_that_is_slow(void **state)
{
    enum { N = 200 };
    static const char get[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const char last[] = "GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    struct place p = {.stall_ms = 500};
    struct sockaddr_in to = {.sin_family = AF_INET};
    int small = 65536;
    char *piece = malloc((size_t)small), end[8] = "";
    size_t all = 0, rest = 0;
    (void)state;
    open_place(&p, 8, 1);
    to.sin_port = htons((uint16_t)qr_server_port(p.server));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(send(fd, get, sizeof get - 1, MSG_NOSIGNAL), sizeof get - 1);
    assert_int_equal(send(fd, last, sizeof last - 1, MSG_NOSIGNAL), sizeof last - 1);
    double start = qr_now_s();
    for (ssize_t n; (n = recv(fd, piece, (size_t)small, MSG_WAITALL)) > 0; all += (size_t)n) {
        rest = (size_t)n < sizeof end - 1 ? (size_t)n : sizeof end - 1;
        memcpy(end, piece + (size_t)n - rest, rest);
        while (qr_now_s() < start + 3 * (double)all / (N * 50e3)) /* 50 KB a page */
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    assert_true(all > (size_t)N * 10000);
    assert_string_equal(end + (rest > 2 ? rest - 2 : 0), "\"}"); /* the last answer is whole */
    free(piece);
    close(fd);
    close_place(&p, QR_SERVE_DRAINED);
}

struct later { /* does something to a stub after a while */
    struct stub *stub;
    int after_ms, for_ms;
    bool busy;
};

static void *hold_later(void *arg)
{
    struct later *l = arg;
    nanosleep(&(struct timespec){.tv_nsec = l->after_ms * 1000000L}, NULL);
    atomic_store(l->busy ? &l->stub->busy : &l->stub->hang, true);
    if (l->for_ms) {
        nanosleep(&(struct timespec){.tv_sec = l->for_ms / 1000, .tv_nsec = l->for_ms % 1000 * 1000000L}, NULL);
        atomic_store(&l->stub->busy, false);
    }
    return NULL;
}

/* The loop stops inside a step: streams end with an error event and [DONE], the server ends as dead. */
static void an_engine_that_hangs(void **state)
{
    enum { N = 5 };
    static struct qr_load_result result[N];
    struct place p = {0};
    pthread_t thread;
    (void)state;
    open_place(&p, 8, 20);
    struct later later = {.stub = p.stub, .after_ms = 300};
    assert_int_equal(pthread_create(&thread, NULL, hold_later, &later), 0);
    struct crowd c = {.place = &p, .n_prompt = 4, .n_token = 300};
    double start = qr_now_s();
    run(&c, N, N, result, NULL);
    for (int i = 0; i < N; i++) {
        assert_int_equal(result[i].status, 200);
        assert_false(result[i].whole);
        if (!strstr(result[i].error, "engine stopped working"))
            fail_msg("stream %d: %s", i, result[i].error);
        assert_true(result[i].n_piece > 0);
        assert_true(result[i].end - start < (SLOW ? 10 : 4));
    }
    pthread_join(thread, NULL);
    assert_int_equal(qr_server_wait(p.server), QR_SERVE_DEAD);
    atomic_store(&p.stub->hang, false); /* so that this process can go on, unlike a real one */
    free_texts(&c, N);
    qr_server_stop(p.server);
    qr_engine_destroy(p.engine);
    qr_server_destroy(p.server);
}

/* A step that takes twice the limit, in an executor that works all the time, is no death. */
static void a_step_that_takes_long(void **state)
{
    static struct qr_load_result result[1];
    struct place p = {0};
    pthread_t thread;
    (void)state;
    open_place(&p, 8, 20);
    struct later later = {.stub = p.stub, .after_ms = 300, .for_ms = 4500, .busy = true};
    assert_int_equal(pthread_create(&thread, NULL, hold_later, &later), 0);
    struct crowd c = {.place = &p, .n_prompt = 4, .n_token = 50};
    run(&c, 1, 1, result, NULL);
    pthread_join(thread, NULL);
    if (!result[0].whole)
        fail_msg("%s", result[0].error);
    assert_true(result[0].widest_gap > 4);
    check_text(&c, 0);
    free_texts(&c, 1);
    close_place(&p, QR_SERVE_DRAINED);
}

/* More than the queue holds: 429 for some, the right text for the others, none without an answer. */
static void a_full_queue(void **state)
{
    enum { N = SLOW ? 64 : 600 };
    static struct qr_load_result result[N];
    struct place p = {.max_waiting = 4};
    int n_good = 0, n_busy = 0;
    (void)state;
    open_place(&p, 4, 1);
    struct crowd c = {.place = &p, .n_prompt = 3, .n_token = 8, .more = ", \"n\": 1"};
    run(&c, N, N, result, NULL);
    for (size_t i = 0; i < N; i++) {
        n_busy += result[i].status == 429;
        n_good += result[i].whole;
        if (result[i].whole)
            check_text(&c, i);
    }
    assert_int_equal(n_good + n_busy, N);
    assert_true(n_good >= 4 && (SLOW || n_busy > 0));
    free_texts(&c, N);
    close_place(&p, QR_SERVE_DRAINED);
}

static void *drain_later(void *arg)
{
    struct place *p = arg;
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    qr_server_drain(p->server);
    return NULL;
}

/* Requests that run when a drain begins are finished, within its limit. */
static void a_drain(void **state)
{
    enum { N = 6 };
    static struct qr_load_result result[N];
    (void)state;
    for (int limited = 0; limited < 2; limited++) {
        struct place p = {0};
        pthread_t thread;
        open_place(&p, 8, limited ? 100 : 15);
        struct crowd c = {.place = &p, .n_prompt = 3, .n_token = 100};
        assert_int_equal(pthread_create(&thread, NULL, drain_later, &p), 0);
        double start = qr_now_s();
        run(&c, N, N, result, NULL);
        for (size_t i = 0; i < N; i++) {
            assert_int_equal(result[i].whole, !limited);
            if (!limited)
                check_text(&c, i);
            else if (!strstr(result[i].error, "shutting down"))
                fail_msg("%s", result[i].error);
        }
        assert_true(!limited || qr_now_s() - start < 8);
        pthread_join(thread, NULL);
        free_texts(&c, N);
        close_place(&p, QR_SERVE_DRAINED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_streams),          cmocka_unit_test(clients_vanish),
        cmocka_unit_test(an_engine_that_hangs),  cmocka_unit_test(a_step_that_takes_long),
        cmocka_unit_test(a_full_queue),          cmocka_unit_test(a_drain),
        cmocka_unit_test(a_reader_that_is_slow), cmocka_unit_test(a_reader_that_stops),
        cmocka_unit_test(a_piece_over_the_cap),  cmocka_unit_test(streams_beside_posters),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
