/* test_serve_fault.c - the k-th allocation of a short session fails, for every k: the client gets an answer, an error or a
 * closed connection, at once, and the request after it the right text. Descriptors and blocks come back. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/clock.h"
#include "common/fault.h"
#include "common/tmp.h"
#include "engine/stats.h"
#include "server/serve.h"
#include "model.h"
#include "stub.h"

static const char *const names[] = {"stub"};
static struct qr_model *model;

static int setup(void **state)
{
    signal(SIGPIPE, SIG_IGN);
    model = server_model(state);
    return 0;
}

static int teardown(void **state)
{
    qr_model_close(model);
    return tmp_teardown(state);
}

/* Sends a request with these bytes, reads until the server closes; allocates nothing. Returns the HTTP status, 0: none. */
static int ask(int port, const char *path, const char *body, char *answer, size_t room)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct timeval wait = {.tv_sec = 5};
    char head[256];
    size_t n = 0;
    ssize_t got = 1;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    int n_head = snprintf(head, sizeof head,
                          "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
                          body ? "POST" : "GET", path, body ? strlen(body) : 0);
    if (send(fd, head, (size_t)n_head, MSG_NOSIGNAL) == n_head && body)
        got = send(fd, body, strlen(body), MSG_NOSIGNAL);
    while (got > 0 && n + 1 < room && (got = recv(fd, answer + n, room - 1 - n, 0)) > 0)
        n += (size_t)got;
    answer[n] = 0;
    bool late = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    close(fd);
    if (late)
        return -1;
    return n > 12 && memcmp(answer, "HTTP/1.1 ", 9) == 0 ? atoi(answer + 9) : 0;
}

static const struct {
    const char *path, *body;
} sessions[] = {
    {"/v1/completions", "{\"prompt\": [1, 2, 3], \"max_tokens\": 4, \"temperature\": 0}"},
    {"/v1/completions", "{\"prompt\": [1, 2, 3], \"max_tokens\": 4, \"stream\": true, \"n\": 2, \"logprobs\": 1}"},
    {"/v1/chat/completions", "{\"messages\": [{\"role\": \"user\", \"content\": \"a question of more than sixteen "
                             "bytes, and of more than thirty-two\"}], "
                             "\"max_completion_tokens\": 3, \"user\": \"u\"}"},
    {"/v1/chat/completions",
     "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"max_tokens\": 3, \"response_format\": {\"type\": "
     "\"json_schema\", \"json_schema\": {\"name\": \"x\", \"schema\": {\"enum\": [\"a rather long choice\", 1]}}}}"},
    {"/v1/completions", "{\"prompt\": [1], \"max_tokens\": 2, \"echo\": true, \"stop\": [\"zz\"], \"logprobs\": 1}"},
    {"/tokenize", "{\"prompt\": \"some words\"}"},
    {"/v1/completions", "{\"prompt\": 1}"},
    {"/metrics", NULL},
    {"/v1/models", NULL},
    {"/", NULL},
};

static void every_allocation_of_a_session(void **state)
{
    enum { MOST = 2000, LIMIT_MS = 4500 };
    static char answer[1 << 20], good[1 << 16];
    struct stub *stub;
    struct qr_server *server;
    struct qr_serve_options options;
    struct qr_engine_stats stats;
    struct qr_err err;
    long points = 0;
    (void)state;
    if (!fault_works())
        skip();
    struct qr_engine *engine = stub_engine(model, 8, &stub);
    qr_serve_options_default(&options);
    options.port = 0;
    options.model_name = names;
    options.n_model_name = 1;
    options.limits.head_ms = options.limits.body_ms = options.limits.stall_ms = options.limits.idle_ms = LIMIT_MS;
    if (qr_server_create(&options, &server, &err) != QR_OK || qr_server_attach(server, model, engine, &err) != QR_OK)
        fail_msg("%s", err.message);
    int port = qr_server_port(server);
    assert_int_equal(ask(port, sessions[0].path, sessions[0].body, good, sizeof good), 200);
    const char *text = strstr(good, "\"text\":");
    assert_non_null(text);
    for (size_t s = 0; s < sizeof sessions / sizeof *sessions; s++) {
        bool fired = true;
        for (long k = 1; fired && k < MOST; k++) {
            double start = qr_now_s();
            fault_arm(k, FAULT_ALLOC | FAULT_EVERYWHERE);
            int status = ask(port, sessions[s].path, sessions[s].body, answer, sizeof answer);
            fired = fault_disarm();
            points += fired;
            if (qr_now_s() - start > LIMIT_MS / 1500.0) /* an answer that nobody sends ends with the time limit */
                fail_msg("%s, allocation %ld: no end for %.1f s", sessions[s].path, k, qr_now_s() - start);
            if (status != 0 && status != 200 && status != 400 && status != 429 && status != 500 && status != 503)
                fail_msg("%s, allocation %ld: status %d", sessions[s].path, k, status);
            if (k % 8 == 0 || !fired) {
                assert_int_equal(ask(port, sessions[0].path, sessions[0].body, answer, sizeof answer), 200);
                const char *now = strstr(answer, "\"text\":");
                if (!now || strncmp(now, text, strcspn(text, "}")) != 0)
                    fail_msg("after %s, allocation %ld: %s", sessions[s].path, k, answer);
            }
        }
    }
    print_message("%ld allocations failed\n", points);
    assert_true(points > 300);
    for (int i = 0; i < 100; i++) {
        qr_engine_stats(engine, &stats);
        if (stats.n_running + stats.n_waiting == 0)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    assert_int_equal(stats.n_running + stats.n_waiting, 0);
    qr_server_drain(server);
    assert_int_equal(qr_server_wait(server), QR_SERVE_DRAINED);
    qr_server_stop(server);
    qr_engine_destroy(engine);
    qr_server_destroy(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_of_a_session)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
