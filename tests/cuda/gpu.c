/* gpu.c - see gpu.h. */
#include "cuda/gpu.h"
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <cmocka.h>
#include "model/synth.h"
#include "plan/fuse.h"

/* One test program at a time: some look at what memory is available, and an engine takes most of it. Till the program's end. */
static void wait_for_turn(void)
{
    static int lock = -1;
    if (lock < 0)
        lock = open("/tmp/quire-gpu-tests.lock", O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    if (lock >= 0)
        flock(lock, LOCK_EX);
}

void need_gpu(void)
{
    struct qr_err err;
    int n;

    if (qr_cuda_count(&n, &err) == QR_OK) {
        wait_for_turn();
        return;
    }
    if (getenv("QUIRE_GPU"))
        fail_msg("QUIRE_GPU is set, but %s", err.message);
    print_message("skipped: %s\n", err.message);
    skip();
}

struct qr_exec_limits gpu_limits(enum qr_dtype kv_type)
{
    return (struct qr_exec_limits){.max_token = RUNNER_MAX_TOKEN,
                                   .max_seq = RUNNER_MAX_SEQ,
                                   .max_row = RUNNER_MAX_TOKEN,
                                   .max_len = RUNNER_MAX_LEN,
                                   .n_block = RUNNER_MAX_SEQ * RUNNER_MAX_LEN / QR_PAGE,
                                   .kv_type = kv_type};
}

void gpu_open_as(struct runner *r, const struct model *model, struct setting setting,
                 const struct qr_cuda_options *options)
{
    struct qr_err err;
    struct setting host = setting;
    host.isa = QR_ISA_C;
    host.kv_type = QR_F32;
    runner_open(r, model, host);
    qr_exec_destroy(r->exec);
    r->exec = NULL;
    struct qr_exec_limits limits = gpu_limits(setting.kv_type);
    if (qr_cuda_exec_create(r->plan, &limits, options, r->pool, &r->exec, &err) != QR_OK)
        fail_msg("CUDA executor: %s", err.message);
}

static struct qr_cuda_options options_of(enum way way)
{
    return (struct qr_cuda_options){.stream = way == BY_STREAM, .plain = way == PLAINLY, .logits = true};
}

void gpu_open(struct runner *r, const struct model *model, struct setting setting, enum way way)
{
    struct qr_cuda_options options = options_of(way);
    gpu_open_as(r, model, setting, &options);
}

float *gpu_logits_as(const struct model *model, struct setting setting, const struct qr_cuda_options *options,
                     const int32_t *token, int n, int n_decode, int chunk)
{
    struct runner *r = malloc(sizeof *r);
    assert_non_null(r);
    gpu_open_as(r, model, setting, options);
    int s = runner_add(r, token, n), take[RUNNER_MAX_SEQ] = {0};
    while (r->sequence[s].done < n) {
        int left = n - n_decode - r->sequence[s].done;
        take[s] = left <= 0 ? 1 : left < chunk ? left : chunk;
        runner_step(r, take);
    }
    float *logits = r->sequence[s].logits;
    r->sequence[s].logits = NULL;
    runner_close(r);
    free(r);
    return logits;
}

float *gpu_logits(const struct model *model, struct setting setting, enum way way, const int32_t *token, int n,
                  int n_decode, int chunk)
{
    struct qr_cuda_options options = options_of(way);
    return gpu_logits_as(model, setting, &options, token, n, n_decode, chunk);
}

void gpu_errors(const struct model *model, const int32_t *token, int n, int n_decode, const float *want,
                double error[2])
{
    struct setting setting = {.mask = QR_FUSE_ALL, .n_thread = qr_cpu_count(), .kv_type = QR_BF16};
    float *got = gpu_logits(model, setting, BY_GRAPH, token, n, n_decode, RUNNER_MAX_TOKEN);
    size_t prompt = (size_t)(n - n_decode) * model->n_vocab, decode = (size_t)n_decode * model->n_vocab;
    error[0] = norm_error(got, want, prompt);
    error[1] = norm_error(got + prompt, want + prompt, decode);
    free(got);
}

void heads_write(const char *shape, int n_embd, int n_head, int n_kv_head, int head_dim, const char *path)
{
    heads_write_as(shape, n_embd, n_head, n_kv_head, head_dim, QR_BF16, path);
}

void heads_write_as(const char *shape, int n_embd, int n_head, int n_kv_head, int head_dim, enum qr_dtype type,
                    const char *path)
{
    struct qr_config config;
    struct qr_err err;
    if (qr_config_from_shape(shape, &config, &err) != QR_OK)
        fail_msg("%s", err.message);
    config.n_embd = n_embd ? n_embd : config.n_embd;
    config.n_head = n_head;
    config.n_kv_head = n_kv_head;
    config.head_dim = head_dim;
    if (qr_config_check(&config, &err) != QR_OK ||
        qr_synth_write(&config, 1, type, path, 0, false, NULL, NULL, &err) != QR_OK)
        fail_msg("%s", err.message);
}

double norm_error(const float *a, const float *b, size_t n)
{
    double error = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        double e = (double)a[i] - (double)b[i];
        if (!isfinite(e))
            fail_msg("number %zu is %g, the oracle's %g", i, (double)a[i], (double)b[i]);
        error += e * e;
        all += (double)b[i] * (double)b[i];
    }
    return all > 0 ? sqrt(error / all) : sqrt(error);
}
