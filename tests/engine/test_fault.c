/* test_fault.c - allocations: a decode step makes none, and when the k-th one of a run of requests fails, the request
 * it belongs to is refused or ends with an error, the others are right, and nothing is lost or leaked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "ask.h"
#include "common/fault.h"
#include "fake.h"
#include "mixed.h"

enum { N_REQUEST = 20 };

static const struct qr_exec_limits limits = {
    .max_token = 24, .max_seq = 8, .max_row = 16, .max_len = 160, .n_block = 13};

static void wait_steps(struct qr_engine *engine, uint64_t n_output)
{
    struct qr_engine_stats stats;
    do {
        usleep(1000);
        qr_engine_stats(engine, &stats);
    } while (stats.n_output < n_output || stats.n_running > 0);
}

/* Once there are nodes enough in the queue, generating allocates nothing until someone reads. */
static void a_step_allocates_nothing(void **state)
{
    struct fake *fake;
    int32_t ids[] = {1, 2, 3, 4};
    long before = 0, after = 0;
    (void)state;
    if (!fault_works())
        skip();
    struct qr_engine *engine = fake_engine(limits, &fake);
    struct qr_request r = ask_request(ids, 4, 100);
    r.sampling.temperature = 1;
    r.sampling.top_p = 0.9f;
    r.sampling.frequency_penalty = 0.5f;
    r.sampling.logprobs = 5;
    r.sampling.ignore_eos = true;
    for (int round = 0; round < 2; round++) {
        struct answer a[3];
        fake->hold = true;
        for (int i = 0; i < 3; i++)
            a[i] = (struct answer){.request = ask(engine, &r)};
        before = fault_allocations();
        fake->hold = false;
        wait_steps(engine, (uint64_t)(round + 1) * 300);
        after = fault_allocations();
        await_answers(engine, a, 3);
        for (int i = 0; i < 3; i++)
            answer_free(&a[i]);
    }
    assert_int_equal(after, before);
    qr_engine_destroy(engine);
}

struct outcome {
    uint64_t request;
    int left; /* choices that have not ended */
    enum qr_finish finish;
    int n;
    int32_t id[40];
};

static struct outcome right[N_REQUEST];
static bool have_right;

/* Twenty requests from the making of the engine to its end. True: all went well. */
static bool run_of_requests(void *ctx)
{
    struct outcome got[N_REQUEST] = {0};
    int32_t ids[30];
    struct fake *fake;
    int vocab = FAKE_VOCAB;
    struct qr_constraint thirds = mixed_constraint;
    bool well = true;
    int left = 0;
    (void)ctx;
    thirds.ctx = &vocab;
    struct qr_engine *engine = fake_try_engine(limits, &fake);
    if (!engine)
        return false;
    for (int i = 0; i < N_REQUEST; i++) {
        for (int k = 0; k < 30; k++)
            ids[k] = (i * 5 + k) % FAKE_VOCAB;
        struct qr_request r = ask_request(ids, (size_t)(1 + i), 3 + i % 30);
        r.sampling.repetition_penalty = i % 2 ? 1.1f : 1;
        r.sampling.prompt_logprobs = i % 3 ? -1 : 1;
        r.sampling.logprobs = i % 4 ? -1 : 2;
        r.constraint = i % 5 == 3 ? &thirds : NULL;
        r.n = i % 6 == 2 ? 2 : 1;
        r.key = (uint64_t)(i % 3);
        enum qr_status status = qr_engine_submit(engine, &r, &got[i].request, NULL);
        assert_true(status == QR_OK || status == QR_NOMEM);
        got[i].left = status == QR_OK ? r.n : 0;
        well = well && status == QR_OK;
        left += got[i].left;
    }
    while (left > 0) {
        struct qr_event event;
        bool any;
        enum qr_status status = qr_engine_next(engine, &event, 20000, &any, NULL);
        if (status == QR_NOMEM) /* the event is still there */
            continue;
        assert_int_equal(status, QR_OK);
        assert_true(any);
        int i = 0;
        while (got[i].request != event.request)
            i++;
        assert_true(got[i].left > 0);
        if (event.kind == QR_EVENT_TOKEN && event.choice == 0)
            got[i].id[got[i].n++] = event.id;
        if (event.kind == QR_EVENT_DONE) {
            got[i].left--;
            if (event.choice == 0)
                got[i].finish = event.finish;
            well = well && event.finish != QR_FINISH_ERROR;
            left--;
        }
        qr_event_clear(&event);
    }
    struct qr_engine_stats stats;
    qr_engine_stats(engine, &stats);
    assert_int_equal(fake->bad, 0);
    qr_engine_destroy(engine);
    for (int i = 0; have_right && i < N_REQUEST; i++)
        if (got[i].finish == QR_FINISH_STOP || got[i].finish == QR_FINISH_LENGTH) {
            assert_int_equal(got[i].n, right[i].n);
            assert_memory_equal(got[i].id, right[i].id, (size_t)got[i].n * sizeof *got[i].id);
        }
    if (!have_right)
        memcpy(right, got, sizeof right);
    have_right = true;
    return well;
}

static void every_allocation_fails_once(void **state)
{
    (void)state;
    if (!fault_works())
        skip();
    have_right = false;
    assert_true(run_of_requests(NULL));
    long n = fault_torture(run_of_requests, NULL, FAULT_ALLOC | FAULT_THREAD, 0);
    print_message("%ld fault points\n", n);
    assert_true(n > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_allocates_nothing),
        cmocka_unit_test(every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
