/* stub.c - see stub.h. */
#include "stub.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#include "engine/model.h"

enum { MAX_LEN = 512, FIRST_ID = 60, N_ID = 50 };

int32_t stub_next(int position)
{
    return FIRST_ID + position * 7 % N_ID;
}

static void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static enum qr_status submit(struct qr_exec *exec, const struct qr_step *step, struct qr_err *err)
{
    struct stub *s = (struct stub *)exec;
    (void)err;
    sleep_ms(atomic_load(&s->step_ms));
    while (atomic_load(&s->hang) || atomic_load(&s->busy)) {
        if (atomic_load(&s->busy))
            qr_exec_went_on(exec);
        sleep_ms(5);
    }
    s->n_row = step->n_row;
    for (int r = 0; r < step->n_row; r++) {
        float *row = s->logits + (size_t)r * (size_t)s->n_vocab;
        memset(row, 0, (size_t)s->n_vocab * sizeof *row);
        row[stub_next(step->position[step->row[r]])] = 20;
    }
    return QR_OK;
}

static enum qr_status collect(struct qr_exec *exec, struct qr_result *result, struct qr_picked *picked,
                              struct qr_err *err)
{
    struct stub *s = (struct stub *)exec;
    (void)picked;
    (void)err;
    *result = (struct qr_result){.n_row = s->n_row, .logits = s->logits};
    return QR_OK;
}

static void destroy(struct qr_exec *exec)
{
    struct stub *s = (struct stub *)exec;
    free(s->logits);
    free(s);
}

static const struct qr_exec_ops ops = {.name = "stub", .submit = submit, .collect = collect, .destroy = destroy};

struct qr_engine *stub_engine(const struct qr_model *model, int max_seq, struct stub **stub)
{
    static const int32_t eos[] = {0};
    struct stub *s = calloc(1, sizeof *s);
    struct qr_engine *engine;
    struct qr_err err;
    assert_non_null(s);
    s->head.ops = &ops;
    s->n_vocab = qr_model_vocab_size(model);
    s->logits = calloc((size_t)max_seq * (size_t)s->n_vocab, sizeof *s->logits);
    assert_non_null(s->logits);
    struct qr_engine_parts parts = {
        .exec = &s->head,
        .limits = {.max_token = 2 * max_seq + 64,
                   .max_seq = max_seq,
                   .max_row = max_seq,
                   .max_len = MAX_LEN,
                   .n_block = max_seq * 8 + MAX_LEN / QR_PAGE},
        .n_vocab = s->n_vocab,
        .eos = eos,
        .n_eos = 1,
        .tok = model->tok,
        .device = "stub",
    };
    if (qr_engine_start(&parts, &engine, &err) != QR_OK)
        fail_msg("%s", err.message);
    *stub = s;
    return engine;
}
