/* session.c - options that most commands share, and opening a model. */
#include "cli/session.h"
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/clock.h"
#include "base/rand.h"
#include "cli/hub.h"
#include "cli/ui.h"
#include "cuda/cuda.h"
#include "engine/model.h"
#include "model/names.h"
#include "plan/fuse.h"

#define DEFAULT_MODEL "SmolLM2-135M-Instruct.Q4_1.gguf"

int cli_fail(const struct qr_err *err)
{
    cli_error("%s", err->message);
    return CLI_FAILED;
}

static void init_model_options(struct cli_session *s)
{
    struct cli_option table[] = {
        {"--threads", "-t", CLI_INT, "N", "CPU threads (default: all CPUs)", &s->n_thread, 0, 256},
        {"--quantization", NULL, CLI_TEXT, "TYPE", "fp8: weights of 16 bits become 8 bits as they are loaded",
         &s->quantization, 0, 0},
        {"--chat-template", NULL, CLI_TEXT, "FILE", "a Jinja template in place of the model's own", &s->chat_template,
         0, 0},
        {"--seed", NULL, CLI_INT, "N", "of sampling, and of random weights for dummy:SHAPE", &s->seed, 0, 9e18},
        {"--verbose", "-v", CLI_FLAG, NULL, "say on standard error what takes how long", &s->verbose, 0, 0},
        {0},
    };
    memcpy(s->model_options, table, sizeof table);
}

static void init_engine_options(struct cli_session *s)
{
    struct cli_option table[] = {
        {"--device", NULL, CLI_TEXT, "NAME", "cpu, cuda or auto (default)", &s->device, 0, 0},
        {"--isa", NULL, CLI_TEXT, "NAME",
         "of the CPU's kernels: avx512, avx2, c or auto, the best that runs here (default)", &s->isa, 0, 0},
        {"--max-model-len", NULL, CLI_INT, "N|auto", "tokens that a sequence may reach (default: what fits)",
         &s->max_model_len, 0, 1 << 24},
        {"--kv-cache-dtype", NULL, CLI_TEXT, "TYPE", "auto (default), bf16, f16, f32 (CPU) or fp8 (GPU)",
         &s->kv_cache_dtype, 0, 0},
        {"--max-num-seqs", NULL, CLI_INT, "N", "sequences in one step (default: 16)", &s->max_num_seqs, 0, 4096},
        {"--max-num-batched-tokens", NULL, CLI_INT, "N", "tokens in one step (default: 512)",
         &s->max_num_batched_tokens, 0, 65536},
        {"--kv-cache-tokens", NULL, CLI_INT, "N",
         "tokens that the KV cache holds, over all sequences (default: one sequence; on a GPU what fits)",
         &s->kv_cache_tokens, 0, 1 << 30},
        {"--gpu-memory-utilization", NULL, CLI_REAL, "X",
         "share of the GPU's memory for weights, KV cache and the rest (default: 0.9)", &s->gpu_memory_utilization, 0,
         1},
        {"--enable-prefix-caching", NULL, CLI_FLAG, NULL,
         "keep the KV of what was computed and use it where a prompt begins alike (default)", &s->prefix_cache, 0, 0},
        {"--no-enable-prefix-caching", NULL, CLI_FLAG, NULL, "compute every prompt from its first token",
         &s->no_prefix_cache, 0, 0},
        {"--fuse", NULL, CLI_TEXT, "MASK",
         "fusion passes: default, all, none, a number, or names with commas; see quire plan", &s->fuse, 0, 0},
        {0},
    };
    memcpy(s->engine_options, table, sizeof table);
}

static void init_sampling_options(struct cli_session *s)
{
    struct cli_option table[] = {
        {"--temperature", NULL, CLI_REAL, "X", "0: always the most probable token (default: the model's, else 1)",
         &s->temperature, 0, 100},
        {"--top-p", NULL, CLI_REAL, "X", "from the smallest set with that probability (default: the model's, else 1)",
         &s->top_p, 0, 1},
        {"--top-k", NULL, CLI_INT, "N", "from the N most probable; 0: off (default: the model's, else 0)", &s->top_k,
         -1, 1 << 24},
        {"--min-p", NULL, CLI_REAL, "X", "at least that share of the best one's probability", &s->min_p, 0, 1},
        {"--repetition-penalty", NULL, CLI_REAL, "X",
         "above 1: seldom repeat prompt or answer (default: the model's, else 1)", &s->repetition_penalty, 1e-3, 100},
        {"--presence-penalty", NULL, CLI_REAL, "X", "taken once from tokens in the answer so far", &s->presence_penalty,
         -2, 2},
        {"--frequency-penalty", NULL, CLI_REAL, "X", "taken for each time a token is in the answer",
         &s->frequency_penalty, -2, 2},
        {"--max-tokens", "-n", CLI_INT, "N", "the most tokens to write; -1: up to the context's end", &s->max_tokens,
         -1, 1 << 24},
        {"--min-tokens", NULL, CLI_INT, "N", "do not end before", &s->min_tokens, 0, 1 << 24},
        {"--stop", NULL, CLI_LIST, "TEXT", "end before this text; may be given again", &s->stop, 0, 0},
        {"--stop-token-id", NULL, CLI_LIST, "ID", "end at this token; may be given again", &s->stop_token_ids, 0, 0},
        {"--ignore-eos", NULL, CLI_FLAG, NULL, "go on past the end-of-text token", &s->ignore_eos, 0, 0},
        {"--logprobs", NULL, CLI_INT, "N", "log-probability of each token and of the N best (with --json)",
         &s->logprobs, 0, 20},
        {"--json-schema", NULL, CLI_TEXT, "TEXT|@FILE", "the answer is JSON that is valid by this schema",
         &s->json_schema, 0, 0},
        {"--json-object", NULL, CLI_FLAG, NULL, "the answer is a JSON object", &s->json_object, 0, 0},
        {"--regex", NULL, CLI_TEXT, "PATTERN", "the whole answer matches the pattern", &s->regex, 0, 0},
        {"--choice", NULL, CLI_LIST, "TEXT", "the answer is one of these texts; may be given again", &s->choice, 0, 0},
        {0},
    };
    memcpy(s->sampling_options, table, sizeof table);
}

void cli_session_init(struct cli_session *s)
{
    memset(s, 0, sizeof *s);
    s->temperature = s->top_p = s->min_p = NAN;
    s->repetition_penalty = s->presence_penalty = s->frequency_penalty = NAN;
    s->top_k = s->max_tokens = s->min_tokens = INT64_MIN;
    s->logprobs = s->seed = -1;
    init_model_options(s);
    init_engine_options(s);
    init_sampling_options(s);
}

bool cli_default_model(char *path, size_t room)
{
    const char *env = getenv("QUIRE_MODEL"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (env && *env)
        snprintf(path, room, "%s", env);
    else if (cache && *cache)
        snprintf(path, room, "%s/quire/" DEFAULT_MODEL, cache);
    else
        snprintf(path, room, "%s/.cache/quire/" DEFAULT_MODEL, home ? home : "");
    if ((env && *env) || access(path, R_OK) == 0)
        return true;
    cli_error("no MODEL was named and the default one is not at %s: run `make run` once, or name a model", path);
    return false;
}

void cli_model_name(const char *path, char name[CLI_NAME])
{
    size_t end = strlen(path), begin;
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && path[begin - 1] != '/';)
        begin--;
    qr_name_copy(name, CLI_NAME, path + begin, end - begin); /* with ? for what is no UTF-8: it goes into JSON */
    if (!name[0])
        strcpy(name, "model");
}

static bool on_progress(void *ctx, uint64_t done, uint64_t total)
{
    cli_progress_update(ctx, done, total);
    return !cli_interrupted;
}

int cli_engine_options(const struct cli_command *command, const struct cli_session *s,
                       struct qr_engine_options *options)
{
    uint32_t mask;
    struct qr_err err;
    *options = (struct qr_engine_options){
        .device = s->device,
        .isa = s->isa,
        .kv_cache_dtype = s->kv_cache_dtype,
        .n_thread = (int)s->n_thread,
        .max_model_len = (int)s->max_model_len,
        .max_num_seqs = (int)s->max_num_seqs,
        .max_num_batched_tokens = (int)s->max_num_batched_tokens,
        .kv_cache_tokens = s->kv_cache_tokens,
        .gpu_memory_utilization = s->gpu_memory_utilization,
        .fuse_mask = -1,
        .no_prefix_cache = s->no_prefix_cache,
    };
    if (s->prefix_cache && s->no_prefix_cache)
        return cli_usage_error(command, "--enable-prefix-caching and --no-enable-prefix-caching: give one of them");
    if (s->fuse) {
        if (qr_fuse_parse(s->fuse, &mask, &err) != QR_OK)
            return cli_usage_error(command, "--fuse: %s", err.message);
        options->fuse_mask = mask;
    }
    return CLI_GO_ON;
}

/* Why it is not the GPU, when quire chose. */
static void report_device(const struct cli_session *s)
{
    struct qr_err err;
    int n;
    if ((!s->device || strcmp(s->device, "auto") == 0) && qr_cuda_built() && qr_cuda_count(&n, &err) != QR_OK)
        fprintf(stderr, "on the CPU: %s\n", err.message);
    struct qr_bench_facts facts;
    qr_model_bench_facts(s->model, s->engine, &facts);
    if (facts.no_decode)
        fprintf(stderr, "no kernel for a whole decode step, graphs instead: %s\n", facts.no_decode);
}

int cli_open(const struct cli_command *command, struct cli_session *s, const char *path, enum cli_need need)
{
    static char fallback[PATH_MAX];
    struct qr_err err;
    struct qr_engine_options engine_options;
    int code = cli_engine_options(command, s, &engine_options);
    if (code != CLI_GO_ON)
        return code;
    if (!path && !cli_default_model(fallback, sizeof fallback))
        return CLI_FAILED;
    s->path = path ? path : fallback;
    cli_model_name(s->path, s->name);
    code = cli_hub_resolve(s->path, s->device, need == CLI_NEED_TOKENIZER, &s->resolved);
    if (code != CLI_GO_ON)
        return code;
    struct cli_progress progress;
    struct qr_model_options options = {
        .chat_template = s->chat_template,
        .quantization = s->quantization,
        .seed = s->seed >= 0 ? (uint64_t)s->seed : 0,
        .n_thread = (int)s->n_thread,
        .tokenizer_only = need == CLI_NEED_TOKENIZER,
        .config_only = need == CLI_NEED_HEADERS,
        .engine = need == CLI_NEED_ENGINE ? &engine_options : NULL,
        .progress = on_progress,
        .progress_ctx = &progress,
    };
    cli_catch_interrupt();
    cli_progress_start(&progress, "loading", "B");
    double start = qr_now_s();
    enum qr_status status = qr_model_open(s->resolved ? s->resolved : s->path, &options, &s->model, &err);
    cli_progress_end(&progress);
    if (status != QR_OK)
        cli_close(s);
    if (status == QR_CANCELLED)
        return CLI_INTERRUPTED;
    if (status != QR_OK)
        return cli_fail(&err);
    double opened = qr_now_s();
    if (need == CLI_NEED_ENGINE) {
        engine_options.progress = on_progress;
        engine_options.progress_ctx = &progress;
        cli_progress_start(&progress, "sending to the GPU", "B");
        status = qr_engine_create(s->model, &engine_options, &s->engine, &err);
        cli_progress_end(&progress);
        if (status != QR_OK)
            cli_close(s);
        if (status != QR_OK)
            return status == QR_CANCELLED ? CLI_INTERRUPTED : cli_fail(&err);
    }
    s->load_s = qr_now_s() - start;
    if (s->verbose && need == CLI_NEED_ENGINE)
        report_device(s);
    if (s->verbose)
        fprintf(stderr, "model opened in %.3f s, engine made in %.3f s\n", opened - start, qr_now_s() - opened);
    return CLI_GO_ON;
}

void cli_close(struct cli_session *s)
{
    qr_constraint_free(&s->constraint);
    qr_engine_destroy(s->engine);
    qr_model_close(s->model);
    free(s->resolved);
    s->engine = NULL;
    s->model = NULL;
    s->resolved = NULL;
}

int cli_sampling(const struct cli_command *command, struct cli_session *s, struct qr_sampling *p)
{
    struct {
        double given;
        float *out;
    } real[] = {
        {s->temperature, &p->temperature},
        {s->top_p, &p->top_p},
        {s->min_p, &p->min_p},
        {s->repetition_penalty, &p->repetition_penalty},
        {s->presence_penalty, &p->presence_penalty},
        {s->frequency_penalty, &p->frequency_penalty},
    };
    struct {
        int64_t given;
        int *out;
    } whole[] = {
        {s->top_k, &p->top_k},
        {s->max_tokens, &p->max_tokens},
        {s->min_tokens, &p->min_tokens},
    };
    qr_sampling_defaults(s->model, p);
    for (size_t i = 0; i < sizeof real / sizeof *real; i++)
        if (!isnan(real[i].given))
            *real[i].out = (float)real[i].given;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (whole[i].given != INT64_MIN)
            *whole[i].out = (int)whole[i].given;
    if (p->top_p == 0)
        return cli_usage_error(command, "--top-p is 0: it must be above 0 and at most 1");
    p->has_seed = s->seed >= 0;
    p->seed = p->has_seed ? (uint64_t)s->seed : qr_rand_fresh_seed();
    p->ignore_eos = s->ignore_eos;
    p->logprobs = (int)s->logprobs;
    p->stop = s->stop.item;
    p->n_stop = s->stop.n;
    for (size_t i = 0; i < s->stop_token_ids.n; i++) {
        char *end;
        long id = strtol(s->stop_token_ids.item[i], &end, 10);
        if (*end || end == s->stop_token_ids.item[i] || id < 0 || id > INT32_MAX)
            return cli_usage_error(command, "--stop-token-id wants a token id, not '%s'", s->stop_token_ids.item[i]);
        s->stop_ids[i] = (int32_t)id;
    }
    p->stop_token_ids = s->stop_ids;
    p->n_stop_token_ids = s->stop_token_ids.n;
    return cli_form(command, s);
}
