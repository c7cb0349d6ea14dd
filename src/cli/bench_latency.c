/* bench_latency.c - time to the first token, and tokens a second after it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/rand.h"
#include "cli/bench.h"
#include "cli/generate.h"
#include "cli/ui.h"
#include "cuda/bench.h"
#include "engine/model.h"
#include "plan/exec.h"

enum { MAX_BATCH = 256, MAX_REPEAT = 100 };

struct latency {
    struct cli_session session;
    int64_t input_len, output_len, batch, repeat;
    int64_t second; /* new tokens of a second turn; 0: none is measured */
    bool json, all_rows;
};

struct run { /* seconds */
    double ttft, prefill, decode;
    double second, second_cached; /* first token of the second turn; prompt tokens that the cache had */
};

/* Prompts of random ids: each run and each sequence has its own, so that no cache can answer. */
static void fill_prompt(int32_t *ids, size_t n, int vocab, int run, int sequence)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)(qr_rand_uniform((uint64_t)run, (uint32_t)sequence, (uint32_t)i) * (float)vocab) % vocab;
}

static int submit(struct latency *b, int run, int32_t *ids, uint64_t *request_id)
{
    struct qr_err err;
    struct qr_request request = {.prompt = ids, .n_prompt = (size_t)b->input_len, .n = 1};
    int vocab = qr_model_vocab_size(b->session.model);
    qr_sampling_defaults(NULL, &request.sampling);
    request.sampling.temperature = 0;
    request.sampling.max_tokens = (int)b->output_len;
    request.sampling.ignore_eos = true;
    request.sampling.prompt_logprobs = b->all_rows ? 0 : -1;
    for (int64_t s = 0; s < b->batch; s++) {
        fill_prompt(ids, (size_t)b->input_len, vocab, run, (int)s);
        if (qr_engine_submit(b->session.engine, &request, &request_id[s], &err) != QR_OK)
            return cli_fail(&err);
    }
    return CLI_GO_ON;
}

static int64_t index_of(const uint64_t *ids, int64_t n, uint64_t id)
{
    for (int64_t i = 0; i < n; i++)
        if (ids[i] == id)
            return i;
    return -1;
}

/* The first turn's tokens, its answer, and new ones: how long to the first token? */
static int second_turn(struct latency *b, int run, int32_t *ids, const int32_t *answer, struct run *out)
{
    size_t n = (size_t)(b->input_len + b->output_len);
    struct qr_err err;
    uint64_t id;
    struct qr_request request = {.prompt = ids, .n_prompt = n + (size_t)b->second, .n = 1};
    qr_sampling_defaults(NULL, &request.sampling);
    request.sampling.temperature = 0;
    request.sampling.max_tokens = 1;
    request.sampling.ignore_eos = true;
    memcpy(ids + b->input_len, answer, (size_t)b->output_len * sizeof *ids);
    fill_prompt(ids + n, (size_t)b->second, qr_model_vocab_size(b->session.model), run, MAX_BATCH);
    double start = qr_now_s();
    if (qr_engine_submit(b->session.engine, &request, &id, &err) != QR_OK)
        return cli_fail(&err);
    for (bool done = false; !done;) {
        struct qr_event event = {0};
        bool got;
        if (cli_interrupted)
            return CLI_INTERRUPTED;
        if (qr_engine_next(b->session.engine, &event, 100, &got, &err) != QR_OK)
            return cli_fail(&err);
        if (got && event.kind == QR_EVENT_TOKEN)
            out->second = qr_now_s() - start;
        if (got && event.kind == QR_EVENT_DONE) {
            done = true;
            out->second_cached = event.usage.cached_tokens;
        }
        qr_event_clear(&event);
    }
    return CLI_GO_ON;
}

static int measure(struct latency *b, int run, struct run *out)
{
    struct qr_err err;
    uint64_t id[MAX_BATCH];
    double first[MAX_BATCH] = {0}, sum = 0, last_first = 0;
    int64_t n_answer = 0, length = b->input_len + b->output_len + b->second;
    int32_t *ids = malloc((size_t)(length + b->output_len) * sizeof *ids), *answer = ids + length;
    if (!ids) {
        cli_error("out of memory");
        return CLI_FAILED;
    }
    double start = qr_now_s();
    int code = submit(b, run, ids, id);
    for (int64_t left = b->batch; left && code == CLI_GO_ON;) {
        struct qr_event event = {0};
        bool got;
        if (cli_interrupted) {
            free(ids);
            return CLI_INTERRUPTED;
        }
        if (qr_engine_next(b->session.engine, &event, 100, &got, &err) != QR_OK) {
            free(ids);
            return cli_fail(&err);
        }
        if (got && event.kind == QR_EVENT_TOKEN && n_answer < b->output_len)
            answer[n_answer++] = event.id;
        int64_t s = got ? index_of(id, b->batch, event.request) : -1;
        if (s >= 0 && event.kind == QR_EVENT_TOKEN && !first[s]) {
            first[s] = qr_now_s() - start;
            sum += first[s];
            last_first = first[s];
        }
        if (s >= 0 && event.kind == QR_EVENT_DONE) {
            left--;
            if (event.finish == QR_FINISH_ERROR)
                code = cli_fail(&event.error);
        }
        qr_event_clear(&event);
    }
    *out = (struct run){sum / (double)b->batch, last_first, qr_now_s() - start - last_first, 0, 0};
    if (b->second > 0 && code == CLI_GO_ON)
        code = second_turn(b, run, ids, answer, out);
    free(ids);
    return code;
}

static double median(const struct run *runs, int64_t n, size_t field)
{
    double v[MAX_REPEAT] = {0};
    for (int64_t i = 0; i < n; i++)
        memcpy(&v[i], (const char *)&runs[i] + field, sizeof v[i]);
    qsort(v, (size_t)n, sizeof *v, bench_by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void report(const struct latency *b, const struct run *runs)
{
    struct qr_bench_facts facts;
    qr_model_bench_facts(b->session.model, b->session.engine, &facts);
    double ttft = median(runs, b->repeat, offsetof(struct run, ttft));
    double prefill = median(runs, b->repeat, offsetof(struct run, prefill));
    double decode = median(runs, b->repeat, offsetof(struct run, decode));
    double second = median(runs, b->repeat, offsetof(struct run, second));
    double cached = median(runs, b->repeat, offsetof(struct run, second_cached));
    double steps = (double)(b->output_len - 1), batch = (double)b->batch;
    double step = steps > 0 ? decode / steps : 0;
    double context = (double)b->input_len + (double)b->output_len / 2; /* the mean over the run */
    double kv = (double)facts.kv_bytes_per_token * context * batch;
    double bandwidth = step > 0 ? ((double)facts.weight_bytes_per_step + kv) / step / 1e9 : 0;
    double peak =
        (strcmp(facts.device, "cuda") == 0 ? qr_cuda_bench_read(0) : bench_read_bandwidth((int)b->session.n_thread)) /
        1e9;
    double prefill_rate = prefill > 0 ? batch * (double)b->input_len / prefill : 0;
    double decode_rate = step > 0 ? batch / step : 0;
    if (b->json) {
        json_t *root = json_pack(
            "{s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:f}", "device", facts.device, "model",
            b->session.name, "dtype", facts.dtype, "batch", (json_int_t)b->batch, "prompt", (json_int_t)b->input_len,
            "output", (json_int_t)b->output_len, "ttft_ms", ttft * 1e3, "prefill_tok_s", prefill_rate, "decode_tok_s",
            decode_rate, "step_us", step * 1e6, "weight_bytes", (json_int_t)facts.weight_bytes_per_step, "kv_bytes",
            (json_int_t)kv, "bandwidth_gbs", bandwidth, "share_of_peak", peak > 0 ? bandwidth / peak : 0.0);
        if (b->second > 0) {
            json_object_set_new(root, "second_turn_ttft_ms", json_real(second * 1e3));
            json_object_set_new(root, "second_turn_cached_tokens", json_integer((json_int_t)cached));
        }
        json_dumpf(root, stdout, JSON_PRESERVE_ORDER);
        putchar('\n');
        json_decref(root);
        return;
    }
    printf("%s, %s, %s; %lld x (%lld in, %lld out), median of %lld\n", b->session.name, facts.dtype, facts.device,
           (long long)b->batch, (long long)b->input_len, (long long)b->output_len, (long long)b->repeat);
    printf("  first token   %9.2f ms\n  prefill       %9.1f tok/s\n  decode        %9.1f tok/s, %.0f us a step\n",
           ttft * 1e3, prefill_rate, decode_rate, step * 1e6);
    printf("  read a step   %9.1f MB weights + %.1f MB KV: %.1f GB/s", (double)facts.weight_bytes_per_step / 1e6,
           kv / 1e6, bandwidth);
    if (peak > 0)
        printf(", %.0f%% of the %.1f GB/s that reading reaches", bandwidth / peak * 100, peak);
    putchar('\n');
    if (b->second > 0)
        printf("  second turn   %9.2f ms to its first token, %.0f of %lld prompt tokens from the cache; the first turn "
               "took %.1f "
               "times as long\n",
               second * 1e3, cached, (long long)(b->input_len + b->output_len + b->second),
               second > 0 ? ttft / second : 0);
}

static int run_all(struct latency *b)
{
    struct run runs[MAX_REPEAT], warm;
    int64_t need = b->input_len + b->output_len + (b->second > 0 ? b->second + 1 : 0);
    if (need > qr_engine_max_len(b->session.engine)) {
        cli_error("--input-len + --output-len (+ --second-turn + 1) is %lld: this engine's context has %d tokens",
                  (long long)need, qr_engine_max_len(b->session.engine));
        return CLI_FAILED;
    }
    struct cli_progress progress;
    cli_progress_start(&progress, "measuring", "runs");
    int code = measure(b, 1000, &warm);
    for (int64_t r = 0; r < b->repeat && code == CLI_GO_ON; r++) {
        cli_progress_update(&progress, (uint64_t)r + 1, (uint64_t)b->repeat + 1);
        code = measure(b, (int)r, &runs[r]);
    }
    cli_progress_end(&progress);
    if (code != CLI_GO_ON)
        return code;
    report(b, runs);
    return CLI_OK;
}

int bench_latency(const struct cli_command *command, int argc, char **argv)
{
    struct latency b = {.input_len = 128, .output_len = 512, .batch = 1, .repeat = 3};
    struct cli_positional words;
    cli_session_init(&b.session);
    const struct cli_option own[] = {
        {"--input-len", NULL, CLI_INT, "N", "tokens of a prompt (default: 128)", &b.input_len, 1, 1 << 24},
        {"--output-len", NULL, CLI_INT, "N", "tokens to write (default: 512)", &b.output_len, 1, 1 << 24},
        {"--batch", NULL, CLI_INT, "N", "requests at once (default: 1)", &b.batch, 1, MAX_BATCH},
        {"--repeat", NULL, CLI_INT, "N", "runs, of which the median counts (default: 3)", &b.repeat, 1, MAX_REPEAT},
        {"--all-rows", NULL, CLI_FLAG, NULL,
         "compute the head for every token of the prompts, as for their log-probabilities", &b.all_rows, 0, 0},
        {"--second-turn", NULL, CLI_INT, "N",
         "measure a second turn, too: the first one, its answer and N new tokens (--batch 1)", &b.second, 1, 1 << 24},
        {"--json", NULL, CLI_FLAG, NULL, "print one JSON object", &b.json, 0, 0},
        {0},
    };
    const struct cli_group groups[] = {
        {"bench latency", own}, {"Model", b.session.model_options}, {"Engine", b.session.engine_options}, {0}};
    int code = cli_parse(command, groups, argc, argv, &words, 1);
    if (code != CLI_GO_ON)
        return code;
    if (b.session.max_num_seqs == 0 && b.batch > 16)
        b.session.max_num_seqs = b.batch;
    if (b.second > 0 && b.batch > 1)
        return cli_usage_error(command, "--second-turn measures one conversation: leave --batch out");
    int64_t length = b.input_len + b.output_len + (b.second > 0 ? b.second + 1 : 0);
    if (b.session.max_model_len == 0)
        b.session.max_model_len = length;
    if (b.session.kv_cache_tokens == 0) /* whole blocks for each sequence */
        b.session.kv_cache_tokens = (length + QR_PAGE) * b.batch;
    if (b.session.kv_cache_tokens < b.session.max_model_len)
        b.session.kv_cache_tokens = b.session.max_model_len;
    code = cli_open(command, &b.session, words.n ? words.arg[0] : NULL, CLI_NEED_ENGINE);
    if (code != CLI_GO_ON)
        return code;
    code = run_all(&b);
    cli_close(&b.session);
    return code;
}
