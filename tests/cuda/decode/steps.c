/* steps.c - see steps.h. */
#include "cuda/decode/steps.h"
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/rand.h"
#include "engine/model.h"
#include "model/synth.h"
#include "plan/check.h"
#include "plan/fuse.h"

void steps_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static void check(cudaError_t e, const char *what)
{
    if (e != cudaSuccess)
        steps_fail("%s: %s", what, cudaGetErrorString(e));
}

/* ---------------------------------------------------------------- the command line */

static int number_of(const char *text, int least, int most, const char *name)
{
    char *end;
    long n = strtol(text, &end, 10);
    if (end == text || *end || n < least || n > most)
        steps_fail("--%s %s: it is a number from %d to %d", name, text, least, most);
    return (int)n;
}

static void parse_context(char *text, struct steps_options *o)
{
    o->n_seq = 0;
    for (char *next, *at = strtok_r(text, ",", &next); at; at = strtok_r(NULL, ",", &next)) {
        if (o->n_seq == QR_DECODE_TOKENS)
            steps_fail("--context: up to %d sequences", QR_DECODE_TOKENS);
        o->context[o->n_seq++] = number_of(at, 1, 1 << 20, "context");
    }
    if (o->n_seq == 0)
        steps_fail("--context: no number");
}

void steps_parse(int argc, char **argv, const char *usage, struct steps_options *o)
{
    static const struct option known[] = {{"quantization", required_argument, NULL, 'q'},
                                          {"context", required_argument, NULL, 'c'},
                                          {"steps", required_argument, NULL, 'n'},
                                          {"layer", required_argument, NULL, 'l'},
                                          {"stage", required_argument, NULL, 's'},
                                          {"chunk", required_argument, NULL, 'k'},
                                          {"convert", no_argument, NULL, 'b'},
                                          {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;)
        switch (c) {
        case 'q':
            o->quantization = optarg;
            break;
        case 'c':
            parse_context(optarg, o);
            break;
        case 'n':
            o->steps = number_of(optarg, 1, 100000, "steps");
            break;
        case 'l':
            o->layer = number_of(optarg, 0, QR_DECODE_LAYERS, "layer");
            break;
        case 's':
            o->stage = optarg;
            break;
        case 'k':
            o->chunk = number_of(optarg, 1, STEPS_CHUNK, "chunk");
            break;
        case 'b':
            o->convert = true;
            break;
        default:
            steps_fail("usage: %s", usage);
        }
    if (argc - optind > 1)
        steps_fail("usage: %s", usage);
    if (optind < argc)
        o->model = argv[optind];
}

/* ---------------------------------------------------------------- the model */

/* A file that is gone when the model is open. */
static void open_tiny(struct steps *s, const struct steps_shape *shape, const struct qr_model_options *options)
{
    char folder[] = "/tmp/quire-decode-XXXXXX", path[64];
    struct qr_config config;
    struct qr_err err;
    if (!mkdtemp(folder))
        steps_fail("%s cannot be made", folder);
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    if (qr_config_from_shape(shape->shape, &config, &err) != QR_OK)
        steps_fail("%s", err.message);
    config.n_embd = shape->n_embd;
    config.n_head = shape->n_head;
    config.n_kv_head = shape->n_kv_head;
    config.head_dim = shape->head_dim;
    enum qr_status status = qr_config_check(&config, &err);
    if (status == QR_OK)
        status = qr_synth_write(&config, 1, shape->type, path, 0, false, NULL, NULL, &err);
    if (status == QR_OK)
        status = qr_model_open(path, options, &s->model, &err);
    unlink(path);
    rmdir(folder);
    if (status != QR_OK)
        steps_fail("%s", err.message);
}

static void open_model(struct steps *s, const struct steps_options *o, const struct steps_shape *shape)
{
    struct qr_model_options options = {.seed = 1, .quantization = o->quantization};
    struct qr_err err;
    if (strcmp(o->model, "tiny") == 0)
        open_tiny(s, shape, &options);
    else if (qr_model_open(o->model, &options, &s->model, &err) != QR_OK)
        steps_fail("%s", err.message);
    if (qr_fuse(s->model->plan, QR_FUSE_ALL, &s->plan, &err) != QR_OK || qr_plan_check(s->plan, &err) != QR_OK ||
        qr_decode_match(s->plan, &s->found, &err) != QR_OK)
        steps_fail("%s: no kernel for a whole step: %s", o->model, err.message);
    s->n_vocab = (int)s->plan->n_vocab;
}

static void open_exec(struct steps *s, int room, bool convert)
{
    struct qr_exec_limits limits = {.max_token = STEPS_CHUNK,
                                    .max_seq = s->n_seq,
                                    .max_row = s->n_seq,
                                    .max_len = room,
                                    .n_block = s->n_seq * s->n_page,
                                    .kv_type = QR_BF16};
    struct qr_cuda_options options = {.logits = true, .few = QR_DECODE_TOKENS, .convert = convert};
    struct qr_exec *exec;
    struct qr_err err;
    if (qr_pool_create(0, &s->pool, &err) != QR_OK ||
        qr_cuda_exec_create(s->plan, &limits, &options, s->pool, &exec, &err) != QR_OK)
        steps_fail("%s", err.message);
    s->exec = (struct qr_cuda_exec *)exec;
    if (!s->exec->decode)
        steps_fail("no kernel for a whole step: %s", qr_cuda_no_decode(exec));
    for (int i = 0; i < s->plan->n_op; i++)
        s->exec->sizes.op[i].gates = false; /* each op by itself: SILU_MUL's result is where its own kernel puts it */
}

static int token_of(const struct steps *s, int sequence, int position)
{
    int n = s->n_vocab;
    return (int)(qr_rand_uniform(7, (uint32_t)sequence, (uint32_t)position) * (float)n) % n;
}

static int slot_of(const struct steps *s, int sequence, int position)
{
    return s->table[sequence * s->n_page + position / QR_PAGE] * QR_PAGE + position % QR_PAGE;
}

static const float *run(struct steps *s, const struct qr_step *step)
{
    struct qr_result result;
    struct qr_err err;
    if (qr_exec_submit(&s->exec->base, step, &err) != QR_OK ||
        qr_exec_collect(&s->exec->base, &result, NULL, &err) != QR_OK)
        steps_fail("%s", err.message);
    return result.logits;
}

static void put_token(struct steps *s, int i, int sequence, int position)
{
    s->token[i] = token_of(s, sequence, position);
    s->position[i] = position;
    s->slot[i] = slot_of(s, sequence, position);
}

static void prefill(struct steps *s, int sequence, int n, int chunk)
{
    for (int at = 0, m; at < n; at += m) {
        m = n - at < chunk ? n - at : chunk;
        for (int i = 0; i < m; i++)
            put_token(s, i, sequence, at + i);
        s->seq_begin[0] = 0;
        s->seq_begin[1] = m;
        s->seq_len[0] = at + m;
        s->row[0] = m - 1;
        struct qr_step step = {.n_token = m,
                               .n_seq = 1,
                               .n_row = 1,
                               .token = s->token,
                               .position = s->position,
                               .slot = s->slot,
                               .seq_begin = s->seq_begin,
                               .seq_len = s->seq_len,
                               .block_table = s->table + (size_t)sequence * (size_t)s->n_page,
                               .table_stride = s->n_page,
                               .row = s->row};
        s->exec->stream = true;
        run(s, &step);
        s->exec->stream = false;
    }
    s->length[sequence] = n;
}

void steps_open(struct steps *s, const struct steps_options *o, const struct steps_shape *shape)
{
    int most = 0;
    *s = (struct steps){.n_seq = o->n_seq};
    open_model(s, o, shape);
    for (int i = 0; i < o->n_seq; i++)
        most = o->context[i] > most ? o->context[i] : most;
    s->n_page = (most + o->steps + QR_PAGE - 1) / QR_PAGE;
    int n_block = s->n_seq * s->n_page;
    s->table = calloc((size_t)n_block, sizeof *s->table);
    if (!s->table)
        steps_fail("out of memory");
    for (int i = 0; i < n_block; i++) /* a sequence's pages lie apart, last ones first */
        s->table[i] = n_block - 1 - (i % s->n_page * s->n_seq + i / s->n_page);
    open_exec(s, s->n_page * QR_PAGE, o->convert);
    check(cudaMalloc((void **)&s->kv_before, s->exec->sizes.kv), "room for a copy of keys and values");
    for (int i = 0; i < s->n_seq; i++)
        prefill(s, i, o->context[i], o->chunk ? o->chunk : STEPS_CHUNK);
}

void steps_close(struct steps *s)
{
    cudaFree(s->kv_before);
    qr_exec_destroy(&s->exec->base);
    qr_pool_destroy(s->pool);
    qr_plan_free(s->plan);
    qr_model_close(s->model);
    free(s->table);
}

/* ---------------------------------------------------------------- steps */

void steps_keep(struct steps *s)
{
    check(cudaMemcpy(s->kv_before, s->exec->kv, s->exec->sizes.kv, cudaMemcpyDeviceToDevice),
          "keeping keys and values");
    check(cudaDeviceSynchronize(), "keeping keys and values");
}

void steps_restore(struct steps *s)
{
    check(cudaMemcpy(s->exec->kv, s->kv_before, s->exec->sizes.kv, cudaMemcpyDeviceToDevice), "restoring them");
    check(cudaDeviceSynchronize(), "restoring them");
}

static struct qr_step next_step(struct steps *s)
{
    for (int i = 0; i < s->n_seq; i++) {
        put_token(s, i, i, s->length[i]);
        s->seq_begin[i] = s->row[i] = i;
        s->seq_len[i] = s->length[i] + 1;
    }
    s->seq_begin[s->n_seq] = s->n_seq;
    return (struct qr_step){.n_token = s->n_seq,
                            .n_seq = s->n_seq,
                            .n_row = s->n_seq,
                            .token = s->token,
                            .position = s->position,
                            .slot = s->slot,
                            .seq_begin = s->seq_begin,
                            .seq_len = s->seq_len,
                            .block_table = s->table,
                            .table_stride = s->n_page,
                            .row = s->row};
}

const float *steps_by_ops(struct steps *s, int n_op)
{
    struct qr_plan part = *s->plan; /* the executor walks the ops that it finds there */
    struct qr_step step = next_step(s);
    part.n_op = n_op;
    s->exec->plan = &part;
    s->exec->stream = true;
    const float *logits = run(s, &step);
    s->exec->stream = false;
    s->exec->plan = s->plan;
    return logits;
}

const float *steps_by_kernel(struct steps *s, int last)
{
    struct qr_step step = next_step(s);
    struct qr_decode_args *a = &s->exec->decode->args;
    a->last = last;
    if (a->many_words && s->ended_early) { /* it has left some of decode_many.cuh's words as they were */
        check(cudaMemset(a->many_words, 0xFF, (size_t)a->many.set * QR_DECODE_SETS * 16), "clearing words");
        check(cudaDeviceSynchronize(), "clearing words"); /* the executor's stream does not wait for it */
    }
    s->ended_early = last != INT32_MAX;
    if (!qr_cuda_decode_takes(s->exec, &step))
        steps_fail("the kernel does not take a step of %d sequences of this model: it takes %d", s->n_seq,
                   s->exec->decode->few);
    return run(s, &step);
}

void steps_go_on(struct steps *s)
{
    for (int i = 0; i < s->n_seq; i++)
        s->length[i]++;
}

void *steps_fetch(const void *from, size_t bytes)
{
    void *to = malloc(bytes);
    if (!to)
        steps_fail("out of memory for %zu bytes", bytes);
    check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "fetching");
    return to;
}
