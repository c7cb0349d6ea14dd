/* fake.c - see fake.h. */
#include "fake.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/rand.h"

static uint64_t hash_step(uint64_t hash, int32_t token)
{
    return (hash ^ (uint64_t)(uint32_t)token) * 0x9E3779B97F4A7C15u + (hash >> 29);
}

static void row_of(uint64_t hash, float *logits)
{
    for (int v = 0; v < FAKE_VOCAB; v++)
        logits[v] = 8 * qr_rand_uniform(hash, 0, (uint32_t)v);
}

void fake_logits(const int32_t *token, int n, float *logits)
{
    uint64_t hash = 1;
    for (int i = 0; i < n; i++)
        hash = hash_step(hash, token[i]);
    row_of(hash, logits);
}

static void check_step(struct fake *f, const struct qr_step *step)
{
    const struct qr_exec_limits *l = &f->limits;
    f->bad += step->n_token < 1 || step->n_token > l->max_token || step->n_seq < 1 || step->n_seq > l->max_seq ||
              step->n_row < 0 || step->n_row > l->max_row;
    for (int t = 0; t < step->n_token; t++)
        f->bad += step->slot[t] < 0 || step->slot[t] >= l->n_block * QR_PAGE || step->position[t] >= l->max_len;
    for (int r = 1; r < step->n_row; r++)
        f->bad += step->row[r] <= step->row[r - 1];
}

static enum qr_status submit(struct qr_exec *exec, const struct qr_step *step, struct qr_err *err)
{
    struct fake *f = (struct fake *)exec;
    int number = ++f->n_step;
    if (f->delay_us > 0)
        usleep((unsigned)f->delay_us);
    while (f->hold)
        usleep(500);
    if (number == f->fail_step)
        return qr_fail(err, QR_IO, "the fake device fell over in step %d", number);
    check_step(f, step);
    for (int i = 0; i < step->n_copy; i++)
        memcpy(&f->page[step->copy_to[i] * QR_PAGE], &f->page[step->copy_from[i] * QR_PAGE], QR_PAGE * sizeof *f->page);
    for (int t = 0; t < step->n_token; t++)
        f->page[step->slot[t]] = step->token[t];
    f->n_row = step->n_row;
    int r = 0;
    for (int s = 0; s < step->n_seq; s++) {
        const int32_t *table = step->block_table + (size_t)s * (size_t)step->table_stride;
        uint64_t hash = 1;
        int begin = step->seq_begin[s], first = step->seq_len[s] - (step->seq_begin[s + 1] - begin);
        for (int p = 0; p < step->seq_len[s]; p++) {
            int32_t token = f->page[table[p / QR_PAGE] * QR_PAGE + p % QR_PAGE];
            hash = hash_step(hash, token);
            if (p < first || r >= step->n_row || step->row[r] != begin + p - first)
                continue;
            row_of(hash, f->logits + (size_t)r * FAKE_VOCAB);
            if (f->poison && token == FAKE_POISON)
                f->logits[(size_t)r * FAKE_VOCAB + 50] = NAN;
            r++;
        }
    }
    f->bad += r != step->n_row;
    return QR_OK;
}

static enum qr_status collect(struct qr_exec *exec, struct qr_result *result, struct qr_picked *picked,
                              struct qr_err *err)
{
    (void)picked;
    struct fake *f = (struct fake *)exec;
    (void)err;
    *result = (struct qr_result){f->n_row, f->logits};
    return QR_OK;
}

static bool prepare(struct qr_exec *exec)
{
    struct fake *f = (struct fake *)exec;
    usleep(200);
    f->n_prepared++;
    return --f->to_prepare > 0;
}

static void destroy(struct qr_exec *exec)
{
    struct fake *f = (struct fake *)exec;
    free(f->page);
    free(f->logits);
    free(f);
}

static const struct qr_exec_ops ops = {
    .name = "fake", .submit = submit, .collect = collect, .prepare = prepare, .destroy = destroy};

struct fake *fake_exec(struct qr_exec_limits limits)
{
    struct fake *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->head.ops = &ops;
    f->limits = limits;
    f->page = calloc((size_t)limits.n_block * QR_PAGE, sizeof *f->page);
    f->logits = calloc((size_t)limits.max_row * FAKE_VOCAB, sizeof *f->logits);
    if (f->page && f->logits)
        return f;
    destroy(&f->head);
    return NULL;
}

struct qr_engine_parts fake_parts(struct qr_exec *exec, struct qr_exec_limits limits)
{
    static const int32_t eos[] = {0};
    return (struct qr_engine_parts){
        .exec = exec, .limits = limits, .n_vocab = FAKE_VOCAB, .eos = eos, .n_eos = 1, .device = "fake"};
}

struct qr_engine *fake_try_engine(struct qr_exec_limits limits, struct fake **fake)
{
    struct fake *f = fake_exec(limits);
    struct qr_engine *engine;
    if (!f)
        return NULL;
    struct qr_engine_parts parts = fake_parts(&f->head, limits);
    if (qr_engine_start(&parts, &engine, NULL) != QR_OK) {
        destroy(&f->head);
        return NULL;
    }
    *fake = f;
    return engine;
}

struct qr_engine *fake_engine(struct qr_exec_limits limits, struct fake **fake)
{
    struct qr_engine *engine = fake_try_engine(limits, fake);
    assert_non_null(engine);
    return engine;
}
