/* test_decode_long.c - the persistent kernel at long contexts against graphs: the same logits, bit for bit, where cuts of attention
 * are merged by one, two and more lots, where a block has several, and where sequences of all lengths are in a step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "common/tmp.h"
#include "cuda/gpu.h"
#include "plan/check.h"
#include "plan/fuse.h"

enum { WIDTH = 320, CHUNK = 2048, MOST = 3, ROOM = 33024, STEPS = 6, N_PAGE = ROOM / QR_PAGE };

/* An executor whose sequences have ROOM tokens each in their pages; a step may be of any length up to that. */
struct decoding {
    struct qr_plan *plan;
    struct qr_pool *pool;
    struct qr_exec *exec;
    int32_t token[CHUNK], position[CHUNK], slot[CHUNK];
    int32_t table[MOST * N_PAGE];
};

static int32_t token_of(const struct model *model, int sequence, int position)
{
    int32_t token;
    random_tokens(&token, 1, model->n_vocab, (uint64_t)sequence * ROOM + (uint64_t)position + 1);
    return token;
}

/* Takes tokens [at, at + n) of a sequence as row i of the step on. */
static void put_tokens(struct decoding *d, const struct model *model, int sequence, int at, int n, int i)
{
    for (int k = 0; k < n; k++, at++, i++) {
        d->token[i] = token_of(model, sequence, at);
        d->position[i] = at;
        d->slot[i] = d->table[sequence * N_PAGE + at / QR_PAGE] * QR_PAGE + at % QR_PAGE;
    }
}

/* Logits of each sequence's last token, [n_seq, n_vocab], till the next step. */
static const float *run(struct decoding *d, const int32_t *begin, const int32_t *length, int n_seq, int first)
{
    int32_t row[MOST];
    for (int s = 0; s < n_seq; s++)
        row[s] = begin[s + 1] - 1;
    struct qr_step step = {.n_token = begin[n_seq],
                           .n_seq = n_seq,
                           .n_row = n_seq,
                           .token = d->token,
                           .position = d->position,
                           .slot = d->slot,
                           .seq_begin = begin,
                           .seq_len = length,
                           .block_table = d->table + first * N_PAGE,
                           .table_stride = N_PAGE,
                           .row = row};
    struct qr_result result;
    struct qr_err err;
    if (qr_exec_submit(d->exec, &step, &err) != QR_OK || qr_exec_collect(d->exec, &result, NULL, &err) != QR_OK)
        fail_msg("%s", err.message);
    return result.logits;
}

static struct decoding *open_decoding(const struct model *model, bool graphs)
{
    struct qr_exec_limits limits = {.max_token = CHUNK,
                                    .max_seq = MOST,
                                    .max_row = MOST,
                                    .max_len = ROOM,
                                    .n_block = MOST * N_PAGE,
                                    .kv_type = QR_BF16};
    struct qr_cuda_options options = {.graphs = graphs, .few = MOST, .logits = true};
    struct decoding *d = calloc(1, sizeof *d);
    struct qr_err err;
    assert_non_null(d);
    if (qr_fuse(model->plan, QR_FUSE_ALL, &d->plan, &err) != QR_OK || qr_plan_check(d->plan, &err) != QR_OK ||
        qr_pool_create(2, &d->pool, &err) != QR_OK ||
        qr_cuda_exec_create(d->plan, &limits, &options, d->pool, &d->exec, &err) != QR_OK)
        fail_msg("%s", err.message);
    for (int i = 0; i < MOST * N_PAGE; i++)
        d->table[i] = (int32_t)((int64_t)i * 7919 % (MOST * N_PAGE)); /* a prime: scattered, no two alike */
    for (int s = 0; s < MOST; s++)
        for (int at = 0; at < ROOM; at += CHUNK) {
            int32_t n = ROOM - at < CHUNK ? ROOM - at : CHUNK, begin[] = {0, n}, length = at + n;
            put_tokens(d, model, s, at, n, 0);
            run(d, begin, &length, 1, s);
        }
    return d;
}

static void close_decoding(struct decoding *d)
{
    qr_exec_destroy(d->exec);
    qr_pool_destroy(d->pool);
    qr_plan_free(d->plan);
    free(d);
}

/* STEPS steps of one token of each sequence, from their contexts on. A token is written again where it was. */
static void compare(struct decoding *const d[2], const struct model *model, const int *context, int n_seq)
{
    size_t n = (size_t)n_seq * model->n_vocab;
    for (int i = 0; i < STEPS; i++) {
        int32_t begin[MOST + 1] = {0}, length[MOST];
        const float *logits[2];
        uint64_t before = qr_cuda_launches(d[1]->exec);
        for (int k = 0; k < 2; k++) {
            for (int s = 0; s < n_seq; s++) {
                put_tokens(d[k], model, s, context[s] + i, 1, s);
                begin[s + 1] = s + 1;
                length[s] = context[s] + i + 1;
            }
            logits[k] = run(d[k], begin, length, n_seq, 0);
        }
        assert_int_equal(qr_cuda_launches(d[1]->exec) - before, 1); /* it was one kernel */
        norm_error(logits[1], logits[0], n);                        /* all are finite */
        if (memcmp(logits[1], logits[0], n * sizeof(float)) != 0)
            fail_msg("%d sequences, the first at %d: logits differ from those of graphs", n_seq, context[0] + i);
    }
}

/* Borders of 1, 8, 16, 64 and 94 cuts of 256 tokens; never more in a step than a tiny model's 12 blocks hold, 16 each of 2 KV heads',
 * as else it is a graph. */
static void compare_shape(void **state, const char *shape, int n_head, int n_kv_head, int head_dim)
{
    static const int alone[] = {253, 2045, 4093, 16381, 24061};
    static const int some[][MOST] = {{12285, 253, 8189}, {12, 20000, 2045}, {4093, 4092, 4091}};
    struct model model;
    need_gpu();
    const char *path = tmp_path(state, "model.gguf");
    heads_write(shape, WIDTH, n_head, n_kv_head, head_dim, path);
    model_open(&model, path);
    struct decoding *d[] = {open_decoding(&model, true), open_decoding(&model, false)};
    const char *why = qr_cuda_no_decode(d[1]->exec);
    if (why)
        print_message("skipped: no kernel for a whole step: %s\n", why);
    for (size_t i = 0; !why && i < sizeof alone / sizeof *alone; i++)
        compare(d, &model, &alone[i], 1);
    for (size_t i = 0; !why && i < sizeof some / sizeof *some; i++)
        for (int n = 2; n <= MOST; n++)
            compare(d, &model, some[i], n);
    close_decoding(d[0]);
    close_decoding(d[1]);
    model_close(&model);
}

static void heads_of_128(void **state)
{
    compare_shape(state, "tiny-qwen3", 12, 2, 128);
}

static void heads_of_64(void **state)
{
    compare_shape(state, "tiny-qwen2", 8, 1, 64);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, tmp_setup, tmp_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {WITH_FOLDER(heads_of_128), WITH_FOLDER(heads_of_64)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
