/* runner.c - see runner.h. */
#include "whole/runner.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "arch/arch.h"
#include "base/rand.h"
#include "model/synth.h"
#include "plan/check.h"
#include "plan/fuse.h"

enum { TABLE_STRIDE = RUNNER_MAX_LEN / QR_PAGE, N_BLOCK = RUNNER_MAX_SEQ * TABLE_STRIDE };

static void must(enum qr_status status, const struct qr_err *err, const char *what)
{
    if (status)
        fail_msg("%s: %s", what, err->message);
}

void model_open(struct model *model, const char *path)
{
    model_open_as(model, path, NULL);
}

void model_open_as(struct model *model, const char *path, const char *quantization)
{
    struct qr_err err;
    memset(model, 0, sizeof *model);
    must(qr_source_open(path, 1, &model->source, &err), &err, path);
    must(qr_source_quantise(model->source, quantization, &err), &err, path);
    must(qr_weights_load(model->source, false, NULL, NULL, NULL, &model->weights, &err), &err, path);
    must(qr_arch_record(model->weights, &model->plan, &err), &err, path);
    model->n_vocab = model->plan->n_vocab;
}

void model_close(struct model *model)
{
    qr_plan_free(model->plan);
    qr_weights_free(model->weights);
    qr_source_close(model->source);
}

void model_write(const char *shape, enum qr_dtype type, const char *path)
{
    struct qr_config config;
    struct qr_err err;
    must(qr_config_from_shape(shape, &config, &err), &err, shape);
    must(qr_synth_write(&config, 1, type, path, 0, false, NULL, NULL, &err), &err, path);
}

void runner_open(struct runner *r, const struct model *model, struct setting setting)
{
    struct qr_err err;
    struct qr_exec_limits limits = {.max_token = RUNNER_MAX_TOKEN,
                                    .max_seq = RUNNER_MAX_SEQ,
                                    .max_row = RUNNER_MAX_TOKEN,
                                    .max_len = RUNNER_MAX_LEN,
                                    .n_block = N_BLOCK,
                                    .kv_type = setting.kv_type};
    memset(r, 0, sizeof *r);
    r->model = model;
    must(qr_fuse(model->plan, setting.mask, &r->plan, &err), &err, "fuse");
    must(qr_plan_check(r->plan, &err), &err, "check");
    must(qr_pool_create(setting.n_thread, &r->pool, &err), &err, "pool");
    must(qr_cpu_exec_create(r->plan, &limits, setting.isa, r->pool, &r->exec, &err), &err, "executor");
}

void runner_close(struct runner *r)
{
    for (int s = 0; s < r->n_sequence; s++)
        free(r->sequence[s].logits);
    qr_exec_destroy(r->exec);
    qr_pool_destroy(r->pool);
    qr_plan_free(r->plan);
}

int runner_add(struct runner *r, const int32_t *token, int n)
{
    assert_true(r->n_sequence < RUNNER_MAX_SEQ && n <= RUNNER_MAX_LEN);
    struct sequence *s = &r->sequence[r->n_sequence];
    *s = (struct sequence){.token = token, .n = n};
    s->logits = calloc((size_t)n * r->model->n_vocab, sizeof *s->logits);
    assert_non_null(s->logits);
    return r->n_sequence++;
}

/* The j-th block of sequence s: scattered, no two alike, so that a kernel which takes blocks as neighbours is found. */
static int32_t block_of(int s, int j)
{
    return (s * TABLE_STRIDE + j) * 29 % N_BLOCK; /* 29 and 320 have no common factor */
}
_Static_assert(N_BLOCK == 320, "29 must have no common factor with it");

/* Copies the rows that came back to where their sequences keep them. */
static void keep_logits(struct runner *r, const struct qr_result *result, int n_row, const int *owner)
{
    size_t n_vocab = r->model->n_vocab;
    for (int i = 0; i < n_row; i++) {
        struct sequence *q = &r->sequence[owner[i]];
        memcpy(q->logits + (size_t)r->position[r->row[i]] * n_vocab, result->logits + (size_t)i * n_vocab,
               n_vocab * sizeof *q->logits);
    }
}

/* Puts the next `count` tokens of sequence s into the step's arrays from token n on. */
static void put_tokens(struct runner *r, int s, int count, int n)
{
    const struct sequence *q = &r->sequence[s];
    assert_true(n + count <= RUNNER_MAX_TOKEN);
    for (int i = 0; i < count; i++) {
        int position = q->done + i;
        r->token[n + i] = q->token[position];
        r->position[n + i] = position;
        r->slot[n + i] = block_of(s, position / QR_PAGE) * QR_PAGE + position % QR_PAGE;
    }
}

void runner_step(struct runner *r, const int *take)
{
    int32_t seq_begin[RUNNER_MAX_SEQ + 1] = {0}, seq_len[RUNNER_MAX_SEQ];
    int owner[RUNNER_MAX_TOKEN], n_seq = 0, n = 0, n_row = 0;
    for (int s = 0; s < r->n_sequence; s++) {
        struct sequence *q = &r->sequence[s];
        int count = take[s] < q->n - q->done ? take[s] : q->n - q->done;
        if (count <= 0)
            continue;
        for (int j = 0; j < TABLE_STRIDE; j++)
            r->table[n_seq * TABLE_STRIDE + j] = block_of(s, j);
        put_tokens(r, s, count, n);
        for (int i = r->wanted == WANT_ALL ? 0 : count - 1; i < count && r->wanted != WANT_NONE; i++) {
            owner[n_row] = s;
            r->row[n_row++] = n + i;
        }
        n += count;
        q->done += count;
        seq_len[n_seq] = q->done;
        seq_begin[++n_seq] = n;
    }
    struct qr_step step = {.n_token = n,
                           .n_seq = n_seq,
                           .n_row = n_row,
                           .token = r->token,
                           .position = r->position,
                           .slot = r->slot,
                           .seq_begin = seq_begin,
                           .seq_len = seq_len,
                           .block_table = r->table,
                           .table_stride = TABLE_STRIDE,
                           .row = r->row};
    struct qr_result result;
    struct qr_err err;
    must(qr_exec_submit(r->exec, &step, &err), &err, "submit");
    must(qr_exec_collect(r->exec, &result, NULL, &err), &err, "collect");
    assert_int_equal(result.n_row, n_row);
    keep_logits(r, &result, n_row, owner);
}

void runner_finish(struct runner *r, int s, int chunk)
{
    int take[RUNNER_MAX_SEQ] = {0};
    take[s] = chunk;
    while (r->sequence[s].done < r->sequence[s].n)
        runner_step(r, take);
}

float *run_logits(const struct model *model, struct setting setting, const int32_t *token, int n, int chunk)
{
    struct runner *r = malloc(sizeof *r);
    assert_non_null(r);
    runner_open(r, model, setting);
    int s = runner_add(r, token, n);
    runner_finish(r, s, chunk);
    float *logits = r->sequence[s].logits;
    r->sequence[s].logits = NULL;
    runner_close(r);
    free(r);
    return logits;
}

void random_tokens(int32_t *token, int n, uint32_t n_vocab, uint64_t seed)
{
    for (int i = 0; i < n; i++)
        token[i] = (int32_t)(qr_rand_uniform(seed, 0, (uint32_t)i) * (float)n_vocab);
}

double relative_error(const float *a, const float *b, size_t n)
{
    double most = 0, error = 0;
    for (size_t i = 0; i < n; i++) {
        double e = fabs((double)a[i] - (double)b[i]);
        if (!isfinite(e))
            fail_msg("number %zu is %g, the oracle's %g", i, (double)a[i], (double)b[i]);
        error = e > error ? e : error;
        most = fabs((double)b[i]) > most ? fabs((double)b[i]) : most;
    }
    return most > 0 ? error / most : error;
}
