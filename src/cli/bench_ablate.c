/* bench_ablate.c - what each fusion is worth on the GPU: decoding with none, all, each alone and each left out, launched one
 * by one and as graphs, what one kernel for a whole step is worth, and where the device's time goes. Steps go straight to the executor, as the engine gives them: the next
 * one is submitted before the last one's ids are read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/rand.h"
#include "cli/bench.h"
#include "cli/session.h"
#include "cli/ui.h"
#include "cuda/cuda.h"
#include "engine/model.h"
#include "plan/check.h"
#include "plan/fuse.h"

enum { CHUNK = 4096, MAX_BATCH = 512, WARM = 16, WINDOWS = 3 };

struct ablate {
    struct cli_session session;
    int64_t context, steps, batch;
    struct qr_pool *pool;
};

/* Arrays of one step; there are two, since one is planned while the other runs. */
struct arrays {
    int32_t token[CHUNK], position[CHUNK], slot[CHUNK], row[MAX_BATCH], seq_begin[MAX_BATCH + 1], seq_len[MAX_BATCH];
};

/* An executor in the middle of decoding. */
struct decoding {
    const struct ablate *ablate;
    struct qr_plan *plan;
    struct qr_exec *exec;
    struct arrays *arrays; /* [2] */
    int32_t *table;        /* [batch, n_page] */
    int n_page, length;    /* pages of a sequence; tokens that each has */
    struct qr_pick *pick;  /* [batch] */
    struct qr_picked *picked;
    struct qr_sampling greedy;
    int turn, n_flight;
};

struct figures {
    double seconds, launches; /* of a step */
    char why_not[256];        /* there is no kernel for a whole step; else "" */
};

enum way { BY_STREAM, BY_GRAPH, WHOLE };

static enum qr_status make_decoding(struct decoding *d, uint32_t mask, enum way way, struct qr_err *err)
{
    const struct ablate *a = d->ablate;
    int batch = (int)a->batch, max_len = (int)(a->context + WARM + WINDOWS * a->steps) + 1;
    d->n_page = (max_len + QR_PAGE - 1) / QR_PAGE;
    struct qr_exec_limits limits = {.max_token = CHUNK,
                                    .max_seq = batch,
                                    .max_row = batch,
                                    .max_len = max_len,
                                    .n_block = batch * d->n_page,
                                    .kv_type = QR_BF16,
                                    .n_place = 2 * batch};
    struct qr_cuda_options options = {.stream = way == BY_STREAM, .graphs = way == BY_GRAPH};
    d->arrays = calloc(2, sizeof *d->arrays);
    d->table = calloc((size_t)batch * (size_t)d->n_page, sizeof *d->table);
    d->pick = calloc((size_t)batch, sizeof *d->pick);
    d->picked = calloc((size_t)batch, sizeof *d->picked);
    if (!d->arrays || !d->table || !d->pick || !d->picked)
        return qr_fail(err, QR_NOMEM, "out of memory for a step of %d sequences", batch);
    for (int i = 0; i < batch * d->n_page; i++)
        d->table[i] = (int32_t)((int64_t)i * 7919 % (batch * d->n_page)); /* a prime: scattered, no two alike */
    if (batch * d->n_page % 7919 == 0)
        for (int i = 0; i < batch * d->n_page; i++)
            d->table[i] = i;
    QR_TRY(qr_fuse(a->session.model->plan, mask, &d->plan, err));
    QR_TRY(qr_plan_check(d->plan, err));
    qr_sampling_defaults(NULL, &d->greedy);
    d->greedy.temperature = 0;
    return qr_cuda_exec_create(d->plan, &limits, &options, a->pool, &d->exec, err);
}

static void free_decoding(struct decoding *d)
{
    qr_exec_destroy(d->exec);
    qr_plan_free(d->plan);
    free(d->arrays);
    free(d->table);
    free(d->pick);
    free(d->picked);
}

static enum qr_status collect(struct decoding *d, struct qr_err *err)
{
    struct qr_result result;
    d->n_flight--;
    return qr_exec_collect(d->exec, &result, d->picked, err);
}

static enum qr_status launch(struct decoding *d, struct qr_step *step, struct qr_err *err)
{
    step->place = d->turn % 2 * (int)d->ablate->batch;
    d->turn++;
    QR_TRY(qr_exec_submit(d->exec, step, err));
    for (int r = 0; r < step->n_row; r++)
        d->pick[r] =
            (struct qr_pick){.samples = true, .n_top = -1, .params = &d->greedy, .position = (uint32_t)d->length + 1};
    QR_TRY(d->exec->ops->sample(d->exec, d->pick, err));
    d->n_flight++;
    return d->n_flight > 1 ? collect(d, err) : QR_OK;
}

static int32_t slot_of(const struct decoding *d, int sequence, int position)
{
    return d->table[sequence * d->n_page + position / QR_PAGE] * QR_PAGE + position % QR_PAGE;
}

static struct qr_step step_of(const struct decoding *d, struct arrays *s, int n_token, int n_seq)
{
    return (struct qr_step){.n_token = n_token,
                            .n_seq = n_seq,
                            .n_row = n_seq,
                            .token = s->token,
                            .position = s->position,
                            .slot = s->slot,
                            .seq_begin = s->seq_begin,
                            .seq_len = s->seq_len,
                            .block_table = d->table,
                            .table_stride = d->n_page,
                            .row = s->row};
}

/* Random tokens, a sequence and a chunk at a time. */
static enum qr_status prefill(struct decoding *d, struct qr_err *err)
{
    int context = (int)d->ablate->context;
    uint32_t n_vocab = d->plan->n_vocab;
    for (int q = 0; q < (int)d->ablate->batch; q++)
        for (int at = 0, n; at < context; at += n) {
            struct arrays *s = &d->arrays[d->turn % 2];
            n = context - at < CHUNK ? context - at : CHUNK;
            for (int i = 0; i < n; i++) {
                float u = qr_rand_uniform(7, (uint32_t)q, (uint32_t)(at + i));
                s->token[i] = (int32_t)(u * (float)n_vocab) % (int32_t)n_vocab;
                s->position[i] = at + i;
                s->slot[i] = slot_of(d, q, at + i);
            }
            s->seq_begin[0] = 0;
            s->seq_begin[1] = n;
            s->seq_len[0] = at + n;
            s->row[0] = n - 1;
            struct qr_step step = step_of(d, s, n, 1);
            step.block_table += (size_t)q * (size_t)d->n_page;
            QR_TRY(launch(d, &step, err));
        }
    d->length = context;
    return QR_OK;
}

/* One token more of every sequence: the one that the last step picked. */
static enum qr_status decode(struct decoding *d, bool first, struct qr_err *err)
{
    int batch = (int)d->ablate->batch;
    struct arrays *s = &d->arrays[d->turn % 2];
    for (int q = 0; q < batch; q++) {
        s->token[q] = first ? q + 1 : -1 - ((d->turn + 1) % 2 * batch + q);
        s->position[q] = d->length;
        s->slot[q] = slot_of(d, q, d->length);
        s->seq_begin[q] = s->row[q] = q;
        s->seq_len[q] = d->length + 1;
    }
    s->seq_begin[batch] = batch;
    struct qr_step step = step_of(d, s, batch, batch);
    QR_TRY(launch(d, &step, err));
    d->length++;
    return QR_OK;
}

static enum qr_status run_steps(struct decoding *d, int n, struct qr_err *err)
{
    for (int i = 0; i < n; i++)
        QR_TRY(decode(d, false, err));
    return d->n_flight > 0 ? collect(d, err) : QR_OK;
}

/* seconds, count: by opcode, from a run with marks; NULL: not wanted. */
static enum qr_status measure(const struct ablate *a, uint32_t mask, enum way way, struct figures *out, double *seconds,
                              uint64_t *count, struct qr_err *err)
{
    struct decoding d = {.ablate = a};
    double window[WINDOWS] = {0};
    *out = (struct figures){0};
    enum qr_status status = make_decoding(&d, mask, way, err);
    if (status == QR_OK && way == WHOLE && qr_cuda_no_decode(d.exec)) {
        snprintf(out->why_not, sizeof out->why_not, "%s", qr_cuda_no_decode(d.exec));
        free_decoding(&d);
        return QR_OK;
    }
    if (status == QR_OK)
        status = prefill(&d, err);
    if (status == QR_OK)
        status = decode(&d, true, err);
    if (status == QR_OK)
        status = run_steps(&d, WARM - 1, err);
    uint64_t before = status == QR_OK ? qr_cuda_launches(d.exec) : 0;
    for (int w = 0; w < WINDOWS && status == QR_OK; w++) {
        bool marked = seconds && count && w == WINDOWS - 1;
        if (marked)
            status = qr_cuda_profile(d.exec, true, err);
        double start = qr_now_s();
        if (status == QR_OK)
            status = run_steps(&d, (int)a->steps, err);
        window[w] = marked ? window[0] : (qr_now_s() - start) / (double)a->steps;
        if (marked && status == QR_OK)
            qr_cuda_profile_read(d.exec, seconds, count);
    }
    if (status == QR_OK) {
        out->launches = (double)(qr_cuda_launches(d.exec) - before) / (double)(WINDOWS * a->steps);
        qsort(window, WINDOWS, sizeof *window, bench_by_value);
        out->seconds = window[WINDOWS / 2];
    }
    free_decoding(&d);
    return status;
}

/* ---------------------------------------------------------------- the table */

static uint32_t needs_of(int bit)
{
    switch (1 << bit) {
    case QR_FUSE_ADD_RMSNORM:
        return QR_FUSE_RMSNORM;
    case QR_FUSE_QK_NORM:
        return QR_FUSE_RMSNORM | QR_FUSE_ROPE_STORE;
    default:
        return 0;
    }
}

static int print_row(const struct ablate *a, const char *name, uint32_t mask, const struct figures *all)
{
    struct figures stream, graph;
    struct qr_err err;
    if (cli_interrupted)
        return CLI_INTERRUPTED;
    if (measure(a, mask, BY_STREAM, &stream, NULL, NULL, &err) != QR_OK ||
        measure(a, mask, BY_GRAPH, &graph, NULL, NULL, &err) != QR_OK)
        return cli_fail(&err);
    double batch = (double)a->batch;
    printf("%-24s 0x%02x %9.1f %8.0f %9.1f %8.0f %+8.1f%% %7.0f\n", name, mask, batch / stream.seconds,
           stream.seconds * 1e6, batch / graph.seconds, graph.seconds * 1e6,
           all ? (all->seconds / graph.seconds - 1) * 100 : 0.0, graph.launches);
    fflush(stdout);
    return CLI_GO_ON;
}

static int print_masks(const struct ablate *a, const struct figures *all)
{
    char name[64];
    printf("%-24s %-4s %9s %8s %9s %8s %9s %7s\n", "fusions", "mask", "stream/s", "us", "graph/s", "us", "against all",
           "kernels");
    int code = print_row(a, "none", 0, all);
    if (code == CLI_GO_ON)
        code = print_row(a, "all", QR_FUSE_ALL, all);
    for (int i = 0; i < QR_N_FUSE && code == CLI_GO_ON; i++) {
        snprintf(name, sizeof name, "%s%s", qr_fuse_name(i), needs_of(i) ? " and its needs" : " alone");
        code = print_row(a, name, UINT32_C(1) << i | needs_of(i), all);
    }
    for (int i = 0; i < QR_N_FUSE && code == CLI_GO_ON; i++) {
        snprintf(name, sizeof name, "all but %s", qr_fuse_name(i));
        code = print_row(a, name, QR_FUSE_ALL & ~(UINT32_C(1) << i), all);
    }
    return code;
}

static void print_shares(const double *seconds, const uint64_t *count, double steps)
{
    double total = 0;
    for (int i = 0; i < QR_N_OPCODE; i++)
        total += seconds[i];
    for (int i = 0; i < QR_N_OPCODE; i++)
        if (count[i])
            printf("  %-12s %4.0f x %7.2f us = %8.1f us  %5.1f%%\n", qr_opcode_name((enum qr_opcode)i),
                   (double)count[i] / steps, seconds[i] / (double)count[i] * 1e6, seconds[i] / steps * 1e6,
                   seconds[i] / total * 100);
    printf("  %-12s %4s   %10s   %8.1f us\n", "together", "", "", total / steps * 1e6);
}

static int print_ops(const struct ablate *a, uint32_t mask, const char *name, struct figures *out)
{
    double seconds[QR_N_OPCODE] = {0};
    uint64_t count[QR_N_OPCODE] = {0};
    struct qr_err err;
    if (measure(a, mask, BY_GRAPH, out, seconds, count, &err) != QR_OK)
        return cli_fail(&err);
    printf("\ndevice time of a step with every op by itself, fusions %s; %.0f us as it runs\n", name,
           out->seconds * 1e6);
    print_shares(seconds, count, (double)a->steps);
    return CLI_GO_ON;
}

/* Decoding as the engine does it: by one kernel a step, where that is there and faster. */
static int print_whole(const struct ablate *a, const struct figures *graphs)
{
    enum { MOST_LAUNCHES = 8 }; /* of a step that is one kernel: it, and the choice of tokens */
    struct figures whole;
    struct qr_err err;
    if (measure(a, QR_FUSE_ALL, WHOLE, &whole, NULL, NULL, &err) != QR_OK)
        return cli_fail(&err);
    if (whole.why_not[0])
        printf("\none kernel a step: none for this model, %s\n", whole.why_not);
    else if (whole.launches > MOST_LAUNCHES)
        printf("\none kernel a step: not for %lld sequences, graphs are faster\n", (long long)a->batch);
    else
        printf("\none kernel a step: %.0f us, %.1f tok/s, %+.1f%% against graphs\n", whole.seconds * 1e6,
               (double)a->batch / whole.seconds, (graphs->seconds / whole.seconds - 1) * 100);
    return CLI_GO_ON;
}

/* The prompt's steps of up to CHUNK tokens, the second time they run. */
static int print_prefill(const struct ablate *a)
{
    struct decoding d = {.ablate = a};
    double seconds[QR_N_OPCODE] = {0}, wall = 0;
    uint64_t count[QR_N_OPCODE] = {0};
    struct qr_err err;
    enum qr_status status = make_decoding(&d, QR_FUSE_ALL, BY_GRAPH, &err);
    for (int i = 0; i < 3 && status == QR_OK; i++) {
        double start = qr_now_s();
        if (i == 2)
            status = qr_cuda_profile(d.exec, true, &err);
        if (status == QR_OK)
            status = prefill(&d, &err);
        if (status == QR_OK)
            status = run_steps(&d, 0, &err);
        if (i == 1)
            wall = qr_now_s() - start;
    }
    if (status == QR_OK) {
        qr_cuda_profile_read(d.exec, seconds, count);
        printf("\ndevice time of the prompts, %lld tokens each; %.2f ms a prompt as they run\n", (long long)a->context,
               wall / (double)a->batch * 1e3);
        print_shares(seconds, count, (double)a->batch);
    }
    free_decoding(&d);
    return status == QR_OK ? CLI_GO_ON : cli_fail(&err);
}

static int run_all(struct ablate *a, bool ops_only)
{
    struct figures all, none;
    struct qr_cuda_device gpu;
    struct qr_err err;
    if (qr_cuda_device_get(0, false, &gpu, &err) != QR_OK ||
        qr_pool_create((int)a->session.n_thread, &a->pool, &err) != QR_OK)
        return cli_fail(&err);
    printf("%s on %s; %lld x context %lld, %d windows of %lld steps\n", a->session.name, gpu.name, (long long)a->batch,
           (long long)a->context, WINDOWS, (long long)a->steps);
    int code = print_ops(a, QR_FUSE_ALL, "all", &all);
    if (code == CLI_GO_ON)
        code = print_ops(a, 0, "none", &none);
    if (code == CLI_GO_ON)
        code = print_prefill(a);
    if (code == CLI_GO_ON)
        code = print_whole(a, &all);
    if (code == CLI_GO_ON && !ops_only) {
        printf("\n");
        code = print_masks(a, &all);
    }
    qr_pool_destroy(a->pool);
    return code == CLI_GO_ON ? CLI_OK : code;
}

int bench_ablate(const struct cli_command *command, int argc, char **argv)
{
    struct ablate a = {.context = 512, .steps = 100, .batch = 1};
    struct cli_positional words;
    bool ops_only = false;
    cli_session_init(&a.session);
    const struct cli_option own[] = {
        {"--context", NULL, CLI_INT, "N", "tokens of each sequence before it decodes (default: 512)", &a.context, 1,
         1 << 20},
        {"--steps", NULL, CLI_INT, "N", "of a window; the median of three counts (default: 100)", &a.steps, 1, 1 << 16},
        {"--batch", NULL, CLI_INT, "N", "sequences (default: 1)", &a.batch, 1, MAX_BATCH},
        {"--ops", NULL, CLI_FLAG, NULL, "only the device's time by op", &ops_only, 0, 0},
        {0},
    };
    const struct cli_group groups[] = {{"bench ablate", own}, {"Model", a.session.model_options}, {0}};
    int code = cli_parse(command, groups, argc, argv, &words, 1);
    if (code != CLI_GO_ON)
        return code;
    code = cli_open(command, &a.session, words.n ? words.arg[0] : NULL, CLI_NEED_WEIGHTS);
    if (code != CLI_GO_ON)
        return code;
    code = run_all(&a, ops_only);
    cli_close(&a.session);
    return code;
}
