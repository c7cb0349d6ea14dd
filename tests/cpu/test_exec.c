/* test_exec.c - the executor on a small plan made by hand: weights in segments of several types seen through views,
 * any number of threads, and every lie that a step may tell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "cpu/cpu.h"
#include "cpu/data.h"
#include "cpu/exec.h"
#include "plan/check.h"

enum { VOCAB = 40, EMBD = 64, WIDE = 53, MAX_TOKEN = 24, MAX_SEQ = 3, MAX_ROW = 4, N_BLOCK = 8 };

/* x = embed; h = x W^T + b with W rows 16 .. 68 of a storage of 3 segments; logits = gather(h) V^T. */
struct model {
    struct test_weight embd, head, part[3];
    struct qr_segment segment[3];
    struct qr_storage storage;
    struct qr_weight weight;
    float bias[WIDE];
    struct qr_plan *plan;
};

static void model_make(struct model *m)
{
    static const enum qr_dtype types[3] = {QR_Q8_0, QR_F32, QR_Q4_1};
    static const int rows[3] = {32, 16, 21};
    struct qr_recorder *rec;
    struct qr_err err;
    uint32_t row = 0;
    test_weight_make(&m->embd, QR_F16, 1, VOCAB, EMBD);
    test_weight_make(&m->head, QR_BF16, 2, VOCAB, WIDE);
    for (int i = 0; i < 3; i++) {
        test_weight_make(&m->part[i], types[i], 3 + (uint64_t)i, rows[i], EMBD);
        m->segment[i] = m->part[i].segment;
        m->segment[i].row = row;
        row += (uint32_t)rows[i];
    }
    fill_normal(9, m->bias, WIDE);
    m->storage = (struct qr_storage){.name = "s", .n_row = row, .n_col = EMBD, .n_segment = 3, .segment = m->segment};
    m->weight = (struct qr_weight){
        .name = "w", .storage = &m->storage, .row = 16, .n_row = WIDE, .n_col = EMBD, .bias = m->bias};
    assert_int_equal(qr_plan_begin("small", &rec, &err), QR_OK);
    int x = qr_rec_value(rec, "x", QR_ROWS_T, EMBD), h = qr_rec_value(rec, "h", QR_ROWS_T, WIDE);
    int g = qr_rec_value(rec, "g", QR_ROWS_R, WIDE), logits = qr_rec_value(rec, "logits", QR_ROWS_R, VOCAB);
    struct qr_op *op = qr_rec_op(rec, QR_OP_EMBED, -1);
    op->n_out = 1;
    op->out[0] = x;
    op->weight = &m->embd.weight;
    const struct {
        enum qr_opcode code;
        int in, out;
        const struct qr_weight *weight;
    } rest[] = {
        {QR_OP_LINEAR, x, h, &m->weight}, {QR_OP_GATHER, h, g, NULL}, {QR_OP_LINEAR, g, logits, &m->head.weight}};
    for (int i = 0; i < 3; i++) {
        op = qr_rec_op(rec, rest[i].code, -1);
        op->n_in = op->n_out = 1;
        op->in[0] = rest[i].in;
        op->out[0] = rest[i].out;
        op->weight = rest[i].weight;
    }
    struct qr_plan *plan = qr_rec_plan(rec);
    plan->logits = logits;
    plan->n_vocab = VOCAB;
    plan->n_embd = EMBD;
    plan->n_layer = 1;
    plan->n_kv_head = 1;
    plan->head_dim = 16;
    assert_int_equal(qr_plan_finish(rec, &m->plan, &err), QR_OK);
    if (qr_plan_check(m->plan, &err) != QR_OK)
        fail_msg("%s", err.message);
}

static void model_free(struct model *m)
{
    qr_plan_free(m->plan);
    test_weight_free(&m->embd);
    test_weight_free(&m->head);
    for (int i = 0; i < 3; i++)
        test_weight_free(&m->part[i]);
}

static const struct qr_exec_limits limits = {.max_token = MAX_TOKEN,
                                             .max_seq = MAX_SEQ,
                                             .max_row = MAX_ROW,
                                             .max_len = 64,
                                             .n_block = N_BLOCK,
                                             .kv_type = QR_F16};

/* A step of MAX_TOKEN tokens of one sequence that is right in every way. */
struct data {
    int32_t token[MAX_TOKEN], position[MAX_TOKEN], slot[MAX_TOKEN], seq_begin[MAX_SEQ + 1], seq_len[MAX_SEQ];
    int32_t table[MAX_SEQ * 4], row[MAX_ROW + 1];
    struct qr_step step;
};

static void data_make(struct data *d)
{
    *d = (struct data){.seq_begin = {0, MAX_TOKEN}, .seq_len = {MAX_TOKEN}, .table = {3, 5}, .row = {0, 7, 23}};
    for (int t = 0; t < MAX_TOKEN; t++) {
        d->token[t] = t * 7 % VOCAB;
        d->position[t] = t;
        d->slot[t] = d->table[t / 16] * 16 + t % 16;
    }
    d->step = (struct qr_step){.n_token = MAX_TOKEN,
                               .n_seq = 1,
                               .n_row = 3,
                               .token = d->token,
                               .position = d->position,
                               .slot = d->slot,
                               .seq_begin = d->seq_begin,
                               .seq_len = d->seq_len,
                               .block_table = d->table,
                               .table_stride = 4,
                               .row = d->row};
}

/* logits [VOCAB] of one token in double. */
static void expect(const struct model *m, int token, double *logits)
{
    double h[WIDE];
    for (int r = 0; r < WIDE; r++) {
        int at = r + 16, part = at < 32 ? 0 : at < 48 ? 1 : 2, row = at - (part == 0 ? 0 : part == 1 ? 32 : 48);
        h[r] = (double)m->bias[r];
        for (int c = 0; c < EMBD; c++)
            h[r] += (double)m->part[part].dense[row * EMBD + c] * (double)m->embd.dense[token * EMBD + c];
    }
    for (int v = 0; v < VOCAB; v++) {
        logits[v] = 0;
        for (int r = 0; r < WIDE; r++)
            logits[v] += h[r] * (double)m->head.dense[v * WIDE + r];
    }
}

static void runs(void **state)
{
    struct model m;
    struct data d;
    float first[3 * VOCAB];
    (void)state;
    model_make(&m);
    data_make(&d);
    for (int isa = 0; isa < QR_N_ISA; isa++) {
        for (int n_thread = 1; qr_isa_runs_here(isa) && n_thread <= 4; n_thread++) {
            struct qr_pool *pool;
            struct qr_exec *exec;
            struct qr_err err;
            struct qr_result result;
            assert_int_equal(qr_pool_create(n_thread, &pool, &err), QR_OK);
            if (qr_cpu_exec_create(m.plan, &limits, isa, pool, &exec, &err) != QR_OK)
                fail_msg("%s", err.message);
            for (int again = 0; again < 20; again++) {
                assert_int_equal(qr_exec_submit(exec, &d.step, &err), QR_OK);
                assert_int_equal(qr_exec_collect(exec, &result, NULL, &err), QR_OK);
                assert_int_equal(result.n_row, 3);
                for (int r = 0; r < 3 && again == 0; r++) {
                    double want[VOCAB];
                    expect(&m, d.token[d.row[r]], want);
                    for (int v = 0; v < VOCAB; v++)
                        assert_true(fabs((double)result.logits[r * VOCAB + v] - want[v]) < 2e-2);
                }
                if (n_thread == 1 && again == 0)
                    memcpy(first, result.logits, sizeof first);
                assert_memory_equal(result.logits, first, sizeof first);
            }
            d.step.n_row = 0;
            assert_int_equal(qr_exec_submit(exec, &d.step, &err), QR_OK);
            assert_int_equal(qr_exec_collect(exec, &result, NULL, &err), QR_OK);
            assert_int_equal(result.n_row, 0);
            d.step.n_row = 3;
            qr_exec_destroy(exec);
            qr_pool_destroy(pool);
        }
    }
    model_free(&m);
}

static void refuse(struct qr_exec *exec, const struct data *d, enum qr_status want)
{
    struct qr_err err = {0};
    enum qr_status got = qr_exec_submit(exec, &d->step, &err);
    if (got != want)
        fail_msg("status %s, not %s: %s", qr_status_name(got), qr_status_name(want), err.message);
    assert_true(err.message[0]);
}

static void refuses_bad_steps(void **state)
{
    struct model m;
    struct data d;
    struct qr_pool *pool;
    struct qr_exec *exec;
    struct qr_err err;
    (void)state;
    model_make(&m);
    assert_int_equal(qr_pool_create(2, &pool, &err), QR_OK);
    assert_int_equal(qr_cpu_exec_create(m.plan, &limits, QR_ISA_C, pool, &exec, &err), QR_OK);
#define BAD(change, status)                                                                                            \
    data_make(&d);                                                                                                     \
    change;                                                                                                            \
    refuse(exec, &d, status)
    BAD(d.step.n_token = 0, QR_INVALID);
    BAD(d.step.n_token = MAX_TOKEN + 1, QR_LIMIT);
    BAD(d.step.n_seq = 0, QR_INVALID);
    BAD(d.step.n_seq = MAX_SEQ + 1, QR_LIMIT);
    BAD(d.step.n_row = -1, QR_INVALID);
    BAD(d.step.n_row = MAX_ROW + 1, QR_LIMIT);
    BAD(d.token[3] = -1, QR_INVALID);
    BAD(d.token[3] = VOCAB, QR_INVALID);
    BAD(d.position[4] = -1, QR_LIMIT);
    BAD(d.position[4] = 64, QR_LIMIT);
    BAD(d.position[4] = MAX_TOKEN, QR_INVALID); /* not in the sequence */
    BAD(d.slot[5] = -2, QR_LIMIT);
    BAD(d.slot[5] = N_BLOCK * 16, QR_LIMIT);
    BAD(d.row[1] = 0, QR_INVALID);
    BAD(d.row[2] = MAX_TOKEN, QR_INVALID);
    BAD(d.row[0] = -1, QR_INVALID);
    BAD(d.seq_begin[0] = 1, QR_INVALID);
    BAD(d.seq_begin[1] = MAX_TOKEN - 1, QR_INVALID);
    BAD(d.seq_begin[1] = MAX_TOKEN + 1, QR_INVALID);
    BAD(d.seq_len[0] = -1, QR_INVALID);
    BAD(d.seq_len[0] = 65, QR_INVALID); /* the table has 4 blocks */
    BAD(d.seq_len[0] = INT32_MAX, QR_INVALID);
    BAD(d.table[1] = -1, QR_INVALID);
    BAD(d.table[1] = N_BLOCK, QR_INVALID);
    data_make(&d);
    assert_int_equal(qr_exec_submit(exec, &d.step, &err), QR_OK); /* still fit for use */
    d.slot[5] = -1;                                               /* padding is no fault */
    assert_int_equal(qr_exec_submit(exec, &d.step, &err), QR_OK);
    qr_exec_destroy(exec);
    qr_pool_destroy(pool);
    model_free(&m);
}

static void refuses_bad_limits(void **state)
{
    struct model m;
    struct qr_cpu_memory memory;
    struct qr_err err;
    (void)state;
    model_make(&m);
    const struct {
        struct qr_exec_limits limits;
        enum qr_status status;
    } bad[] = {
        {{0, 1, 1, 1, 1, QR_F16, 0}, QR_INVALID},         {{1, 0, 1, 1, 1, QR_F16, 0}, QR_INVALID},
        {{1, 1, 0, 1, 1, QR_F16, 0}, QR_INVALID},         {{1, 1, 1, 0, 1, QR_F16, 0}, QR_INVALID},
        {{1, 1, 1, 1, 0, QR_F16, 0}, QR_INVALID},         {{1, 1, 1, 1, 1, QR_Q8_0, 0}, QR_UNSUPPORTED},
        {{INT32_MAX, 1, 1, 1, 1, QR_F16, 0}, QR_INVALID}, {{1, 1, 1, INT32_MAX, 1, QR_F16, 0}, QR_INVALID},
        {{1, 1, 1, 1, INT32_MAX, QR_F16, 0}, QR_INVALID},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(qr_cpu_memory(m.plan, &bad[i].limits, 2, &memory, &err), bad[i].status);
    assert_int_equal(qr_cpu_memory(m.plan, &limits, 0, &memory, &err), QR_INVALID);
    assert_int_equal(qr_cpu_memory(m.plan, &limits, 2, &memory, &err), QR_OK);
    assert_int_equal(memory.kv, N_BLOCK * qr_cpu_block_bytes(m.plan, QR_F16));
    assert_int_equal(qr_cpu_block_bytes(m.plan, QR_F16), 16 * (16 + 16) * 2);
    assert_int_equal(memory.tables, 2 * 64 * 8 * 4);
    m.segment[1].data = NULL; /* headers only: a size can be told, but nothing run */
    struct qr_pool *pool;
    struct qr_exec *exec;
    assert_int_equal(qr_cpu_memory(m.plan, &limits, 2, &memory, &err), QR_OK);
    assert_int_equal(qr_pool_create(1, &pool, &err), QR_OK);
    assert_int_equal(qr_cpu_exec_create(m.plan, &limits, QR_ISA_C, pool, &exec, &err), QR_INTERNAL);
    assert_null(exec);
    m.segment[1].data = m.part[1].segment.data;
    m.segment[0].bytes -= 1; /* too short for its rows */
    assert_int_equal(qr_cpu_exec_create(m.plan, &limits, QR_ISA_C, pool, &exec, &err), QR_INTERNAL);
    m.segment[0].bytes += 1;
    m.segment[0].packing = QR_ROWS;
    assert_int_equal(qr_cpu_exec_create(m.plan, &limits, QR_ISA_C, pool, &exec, &err), QR_INTERNAL);
    qr_pool_destroy(pool);
    model_free(&m);
}

/* Pages of [p, p + n) that are in memory. */
static size_t count_resident(void *p, size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n_page = n / page, sum = 0;
    unsigned char *here = calloc(n_page, 1);
    assert_non_null(here);
    assert_int_equal(mincore(p, n, here), 0);
    for (size_t i = 0; i < n_page; i++)
        sum += here[i] & 1;
    free(here);
    return sum;
}

/* Pages of keys and values come when a step stores there, or while nothing waits; what was stored stays. */
static void pages_come_late(void **state)
{
    struct model m;
    struct qr_pool *pool;
    struct qr_exec *exec;
    struct qr_err err;
    struct qr_exec_limits many = limits;
    (void)state;
    model_make(&m);
    many.n_block = 65536; /* 64 MiB: a mapping of its own */
    assert_int_equal(qr_pool_create(2, &pool, &err), QR_OK);
    assert_int_equal(qr_cpu_exec_create(m.plan, &many, qr_isa_best(), pool, &exec, &err), QR_OK);
    struct qr_kv kv = ((struct qr_cpu_exec *)exec)->kv;
    size_t bytes = (size_t)many.n_block * kv.block_bytes, all = bytes / (size_t)sysconf(_SC_PAGESIZE), n = 1;
    assert_true(count_resident(kv.data, bytes) < all / 8);
    memset(kv.data + bytes / 2, 7, 5000);
    assert_true(qr_exec_prepare(exec));
    assert_true(count_resident(kv.data, bytes) < all / 8); /* a little at a time */
    for (; qr_exec_prepare(exec); n++)
        assert_true(n < 10000);
    assert_int_equal(count_resident(kv.data, bytes), all);
    for (size_t i = 0; i < 5000; i++)
        assert_int_equal(kv.data[bytes / 2 + i], 7);
    assert_false(qr_exec_prepare(exec));
    qr_exec_destroy(exec);
    qr_pool_destroy(pool);
    model_free(&m);
}

static void isa_choice(void **state)
{
    struct qr_err err;
    (void)state;
    assert_true(qr_isa_runs_here(QR_ISA_C));
    assert_string_equal(qr_isa_name(QR_ISA_AVX512), "avx512");
    enum qr_isa isa = QR_N_ISA, best = qr_isa_best();
    assert_int_equal(qr_isa_choose(NULL, &isa, &err), QR_OK);
    assert_int_equal(isa, best);
    assert_int_equal(qr_isa_choose("auto", &isa, &err), QR_OK);
    assert_int_equal(isa, best);
    for (int i = 0; i < QR_N_ISA; i++) {
        enum qr_status status = qr_isa_choose(qr_isa_name(i), &isa, &err);
        assert_int_equal(status, qr_isa_runs_here(i) ? QR_OK : QR_UNSUPPORTED);
        assert_int_equal(isa, qr_isa_runs_here(i) ? (enum qr_isa)i : best);
        assert_false(qr_isa_runs_here(i) && (enum qr_isa)i > best);
    }
    assert_int_equal(qr_isa_choose("sse9", &isa, &err), QR_INVALID);
    assert_non_null(strstr(err.message, "sse9"));
    assert_true(qr_isa_runs_here(qr_isa_best()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs),
        cmocka_unit_test(refuses_bad_steps),
        cmocka_unit_test(refuses_bad_limits),
        cmocka_unit_test(pages_come_late),
        cmocka_unit_test(isa_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
