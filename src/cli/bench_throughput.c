/* bench_throughput.c - a set of requests, all handed over as fast as the engine takes them: tokens a second over all, and
 * how long each request waited for its first token and between tokens.
 *
 * The random set is that of nano-vllm's bench.py: lengths uniform in two ranges, prompts of random ids, temperature 0.6,
 * no end before the length. --dataset takes requests from a file in place of it. */
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/json.h"
#include "base/rand.h"
#include "cli/batch_file.h"
#include "cli/bench.h"
#include "cli/session.h"
#include "cli/ui.h"
#include "engine/model.h"
#include "engine/stats.h"
#include "plan/exec.h"
#include "server/openai_request.h"

enum { MAX_LEN = 1 << 24, MAX_PROMPTS = 1 << 20, DEFAULT_SEQS = 16 /* qr_engine_options */, WARM_TOKENS = 4 };

/* Counters of qr_rand_uniform, so that lengths and ids are drawn apart. */
enum { DRAW_INPUT, DRAW_OUTPUT, DRAW_IDS };

struct item {
    struct qr_openai_request from_file; /* empty for random ones */
    int64_t input_len, output_len;      /* of random ones */
    double submitted, last;             /* seconds; last: 0 before the first token */
};

struct throughput {
    struct cli_session session;
    int64_t n_prompt;
    const char *input_len, *output_len, *dataset;
    bool json;
    struct bench_range input, output;
    uint64_t seed;
    struct item *item; /* [n_item] */
    size_t n_item, n_submitted, n_done;
    uint64_t first_id;
    int64_t tokens_wanted;
    double *ttft, *itl; /* seconds; [n_item], [tokens_wanted] */
    size_t n_ttft, n_itl;
    int64_t prompt_tokens, output_tokens;
    double wall_s;
};

/* ---------------------------------------------------------------- the requests */

static int no_memory(size_t n)
{
    cli_error("out of memory for %zu requests", n);
    return CLI_FAILED;
}

static int make_random(struct throughput *t)
{
    t->item = calloc((size_t)t->n_prompt, sizeof *t->item);
    if (!t->item)
        return no_memory((size_t)t->n_prompt);
    for (t->n_item = 0; t->n_item < (size_t)t->n_prompt; t->n_item++) {
        struct item *item = &t->item[t->n_item];
        item->input_len = bench_draw(t->seed, &t->input, DRAW_INPUT, t->n_item);
        item->output_len = bench_draw(t->seed, &t->output, DRAW_OUTPUT, t->n_item);
        t->tokens_wanted += item->output_len;
    }
    return CLI_GO_ON;
}

/* A line of --dataset: a request's body, or a line of an OpenAI batch file. */
static int read_item(struct throughput *t, const json_t *line, int64_t number)
{
    struct item *item = &t->item[t->n_item];
    struct qr_openai_request *r = &item->from_file;
    struct qr_openai_error error;
    json_t *body = json_object_get(line, "body") ? json_object_get(line, "body") : (json_t *)line;
    enum qr_openai_api api = json_object_get(body, "messages") ? QR_OPENAI_CHAT : QR_OPENAI_COMPLETIONS;
    bool length_given = json_object_get(body, "max_tokens") || json_object_get(body, "max_completion_tokens");
    int max_len = qr_engine_max_len(t->session.engine);
    enum qr_status status = qr_openai_request_read(t->session.model, max_len, api, body, r, &error);
    if (status == QR_OK && (r->n_prompt != 1 || r->n != 1))
        status = qr_openai_fail(&error, QR_INVALID, "n", "each request must have one prompt and one choice");
    if (status != QR_OK) {
        cli_error("%s line %lld: %s", t->dataset, (long long)number, error.err.message);
        return CLI_FAILED;
    }
    if (!length_given)
        r->sampling.max_tokens = (int)bench_draw(t->seed, &t->output, DRAW_OUTPUT, t->n_item);
    int64_t room = max_len - (int64_t)r->prompt[0].n;
    bool short_answer = r->sampling.max_tokens >= 0 && r->sampling.max_tokens < room;
    t->tokens_wanted += short_answer ? r->sampling.max_tokens : room;
    t->n_item++;
    return CLI_GO_ON;
}

static int read_dataset(struct throughput *t)
{
    struct cli_lines lines;
    struct qr_err err;
    bool got = true;
    int code = CLI_GO_ON;
    t->item = calloc((size_t)t->n_prompt, sizeof *t->item);
    if (!t->item)
        return no_memory((size_t)t->n_prompt);
    if (cli_lines_open(&lines, t->dataset, CLI_BATCH_LINE_CAP, &err) != QR_OK)
        return cli_fail(&err);
    while (code == CLI_GO_ON && t->n_item < (size_t)t->n_prompt) {
        json_t *line = NULL;
        enum qr_status status = cli_lines_next(&lines, &got, &err);
        if (status == QR_OK && !got)
            break;
        if (status == QR_OK)
            status = cli_lines_parse(&lines, &line, &err);
        code = status == QR_OK ? read_item(t, line, lines.number) : cli_fail(&err);
        json_decref(line);
    }
    cli_lines_close(&lines);
    if (code == CLI_GO_ON && !t->n_item) {
        cli_error("%s holds no request", t->dataset);
        return CLI_FAILED;
    }
    return code;
}

static enum qr_status submit_random(struct throughput *t, size_t i, int64_t n_in, int64_t n_out, uint64_t *id,
                                    struct qr_err *err)
{
    int vocab = qr_model_vocab_size(t->session.model);
    int32_t *ids = malloc((size_t)n_in * sizeof *ids);
    if (!ids)
        return qr_fail(err, QR_NOMEM, "out of memory for a prompt of %lld tokens", (long long)n_in);
    for (int64_t k = 0; k < n_in; k++) {
        int32_t one = (int32_t)((double)qr_rand_uniform(t->seed, DRAW_IDS + (uint32_t)i, (uint32_t)k) * vocab);
        ids[k] = one < vocab ? one : vocab - 1;
    }
    struct qr_request request = {.prompt = ids, .n_prompt = (size_t)n_in, .n = 1};
    qr_sampling_defaults(NULL, &request.sampling);
    request.sampling.temperature = 0.6f;
    request.sampling.max_tokens = (int)n_out;
    request.sampling.ignore_eos = true;
    request.sampling.has_seed = true;
    request.sampling.seed = t->seed + i;
    enum qr_status status = qr_engine_submit(t->session.engine, &request, id, err);
    free(ids);
    return status;
}

/* ---------------------------------------------------------------- the run */

/* Hands over the next request; *busy when the queue has no room now. */
static enum qr_status submit_next(struct throughput *t, bool *busy, struct qr_err *err)
{
    struct item *item = &t->item[t->n_submitted];
    uint64_t id;
    enum qr_status status;
    double now = qr_now_s();
    if (t->dataset) {
        struct qr_request request = qr_openai_engine_request(&item->from_file, 0);
        status = qr_engine_submit(t->session.engine, &request, &id, err);
    } else {
        status = submit_random(t, t->n_submitted, item->input_len, item->output_len, &id, err);
    }
    *busy = status == QR_BUSY;
    if (*busy)
        return QR_OK;
    QR_TRY(status);
    item->submitted = now;
    if (t->n_submitted++ == 0)
        t->first_id = id;
    return QR_OK;
}

static enum qr_status take_event(struct throughput *t, const struct qr_event *event, struct qr_err *err)
{
    struct item *item = &t->item[event->request - t->first_id]; /* nobody else submits: ids follow each other */
    double now = qr_now_s();
    if (event->kind == QR_EVENT_TOKEN && event->id >= 0) {
        if (item->last == 0)
            t->ttft[t->n_ttft++] = now - item->submitted;
        else if (t->n_itl < (size_t)t->tokens_wanted)
            t->itl[t->n_itl++] = now - item->last;
        item->last = now;
    }
    if (event->kind != QR_EVENT_DONE)
        return QR_OK;
    t->n_done++;
    t->prompt_tokens += event->usage.prompt_tokens;
    t->output_tokens += event->usage.output_tokens;
    if (event->finish == QR_FINISH_ERROR)
        return qr_fail(err, event->error.status, "%s", event->error.message);
    return QR_OK;
}

static enum qr_status run_all(struct throughput *t, struct qr_err *err)
{
    struct cli_progress progress;
    enum qr_status status = QR_OK;
    bool busy = false;
    double start = qr_now_s();
    cli_progress_start(&progress, "measuring", "tokens");
    while (status == QR_OK && t->n_done < t->n_item && !cli_interrupted) {
        struct qr_event event = {0};
        bool got = false, more = t->n_submitted < t->n_item;
        if (more)
            status = submit_next(t, &busy, err);
        if (status == QR_OK)
            status = qr_engine_next(t->session.engine, &event, more && !busy ? 0 : 100, &got, err);
        if (status == QR_OK && got)
            status = take_event(t, &event, err);
        qr_event_clear(&event);
        cli_progress_update(&progress, (uint64_t)(t->n_ttft + t->n_itl), (uint64_t)t->tokens_wanted);
    }
    t->wall_s = qr_now_s() - start;
    cli_progress_end(&progress);
    return status;
}

/* Pages, caches and threads are touched once before the clock runs. */
static enum qr_status warm_up(struct throughput *t, struct qr_err *err)
{
    uint64_t id;
    QR_TRY(submit_random(t, t->n_item, 1, WARM_TOKENS, &id, err));
    for (bool done = false; !done && !cli_interrupted;) {
        struct qr_event event = {0};
        bool got;
        QR_TRY(qr_engine_next(t->session.engine, &event, 100, &got, err));
        done = got && event.kind == QR_EVENT_DONE;
        qr_event_clear(&event);
    }
    return QR_OK;
}

/* ---------------------------------------------------------------- the report */

static double percentile_ms(const double *sorted, size_t n, int percent)
{
    return 1e3 * bench_percentile(sorted, n, percent);
}

static void report(struct throughput *t)
{
    struct qr_engine_stats stats;
    struct qr_bench_facts facts;
    qr_engine_stats(t->session.engine, &stats);
    qr_model_bench_facts(t->session.model, t->session.engine, &facts);
    qsort(t->ttft, t->n_ttft, sizeof *t->ttft, bench_by_value);
    qsort(t->itl, t->n_itl, sizeof *t->itl, bench_by_value);
    double output_rate = (double)t->output_tokens / t->wall_s;
    double total_rate = (double)(t->prompt_tokens + t->output_tokens) / t->wall_s;
    double n_step = stats.n_step > 0 ? (double)stats.n_step : 1;
    double plan_us = stats.plan_s / n_step * 1e6, follow_us = stats.follow_s / n_step * 1e6;
    double ttft[2] = {percentile_ms(t->ttft, t->n_ttft, 50), percentile_ms(t->ttft, t->n_ttft, 99)};
    double itl[2] = {percentile_ms(t->itl, t->n_itl, 50), percentile_ms(t->itl, t->n_itl, 99)};
    if (t->json) {
        json_t *root = json_pack(
            "{s:I, s:I, s:I, s:f, s:f, s:f, s:{s:f, s:f}, s:{s:f, s:f}, s:I, s:i, s:I, s:I, s:f, s:f, s:s, s:s, s:s}",
            "requests", (json_int_t)t->n_done, "prompt_tokens", (json_int_t)t->prompt_tokens, "output_tokens",
            (json_int_t)t->output_tokens, "wall_s", t->wall_s, "output_tok_s", output_rate, "total_tok_s", total_rate,
            "ttft_ms", "p50", ttft[0], "p99", ttft[1], "itl_ms", "p50", itl[0], "p99", itl[1], "preemptions",
            (json_int_t)stats.n_preempted, "peak_running", stats.peak_running, "cached_tokens",
            (json_int_t)stats.n_cached, "steps", (json_int_t)stats.n_step, "plan_us", plan_us, "follow_us", follow_us,
            "device", facts.device, "model", t->session.name, "dtype", facts.dtype);
        json_dumpf(root, stdout, JSON_PRESERVE_ORDER);
        putchar('\n');
        json_decref(root);
        return;
    }
    printf("%s, %s, %s; %zu requests, %lld tokens in, %lld out, %.2f s\n", t->session.name, facts.dtype, facts.device,
           t->n_done, (long long)t->prompt_tokens, (long long)t->output_tokens, t->wall_s);
    printf("  written       %9.1f tok/s\n  with prompts  %9.1f tok/s\n", output_rate, total_rate);
    printf("  first token   %9.1f ms median, %.1f ms p99\n  between two   %9.2f ms median, %.2f ms p99\n", ttft[0],
           ttft[1], itl[0], itl[1]);
    printf("  at once       %9d sequences at most, %llu preemptions\n", stats.peak_running,
           (unsigned long long)stats.n_preempted);
    printf("  a step        %9.1f us to plan it, %.1f us for what follows it; %llu steps\n", plan_us, follow_us,
           (unsigned long long)stats.n_step);
}

static int measure(struct throughput *t)
{
    struct qr_err err;
    int code = t->dataset ? read_dataset(t) : make_random(t);
    if (code != CLI_GO_ON)
        return code;
    t->ttft = malloc(t->n_item * sizeof *t->ttft);
    t->itl = malloc(((size_t)t->tokens_wanted + 1) * sizeof *t->itl);
    if (!t->ttft || !t->itl)
        return no_memory(t->n_item);
    if (warm_up(t, &err) != QR_OK || run_all(t, &err) != QR_OK)
        return cli_fail(&err);
    if (cli_interrupted)
        return CLI_INTERRUPTED;
    report(t);
    return CLI_OK;
}

static void free_all(struct throughput *t)
{
    for (size_t i = 0; i < t->n_item; i++)
        qr_openai_request_free(&t->item[i].from_file);
    free(t->item);
    free(t->ttft);
    free(t->itl);
    cli_close(&t->session);
}

/* Room for the longest request, and for as many of mean length as run at once. */
static void size_cache(struct throughput *t)
{
    struct cli_session *s = &t->session;
    int64_t seqs = s->max_num_seqs ? s->max_num_seqs : DEFAULT_SEQS;
    int64_t mean = (t->input.low + t->input.high + t->output.low + t->output.high) / 2;
    if (s->max_model_len == 0)
        s->max_model_len = t->input.high + t->output.high;
    if (s->kv_cache_tokens == 0)
        s->kv_cache_tokens = (mean + QR_PAGE) * (seqs < t->n_prompt ? seqs : t->n_prompt);
    if (s->kv_cache_tokens < s->max_model_len)
        s->kv_cache_tokens = s->max_model_len;
}

int bench_throughput(const struct cli_command *command, int argc, char **argv)
{
    struct throughput t = {.n_prompt = 256, .input_len = "100:1024", .output_len = "100:1024"};
    struct cli_positional words;
    cli_session_init(&t.session);
    const struct cli_option own[] = {
        {"--num-prompts", NULL, CLI_INT, "N", "requests (default: 256)", &t.n_prompt, 1, MAX_PROMPTS},
        {"--input-len", NULL, CLI_TEXT, "A:B", "tokens of a prompt, drawn from A to B (default: 100:1024)",
         &t.input_len, 0, 0},
        {"--output-len", NULL, CLI_TEXT, "A:B", "tokens to write, drawn from A to B (default: 100:1024)", &t.output_len,
         0, 0},
        {"--dataset", NULL, CLI_TEXT, "FILE", "requests from lines {\"prompt\" or \"messages\", \"max_tokens\", ...}",
         &t.dataset, 0, 0},
        {"--json", NULL, CLI_FLAG, NULL, "print one JSON object", &t.json, 0, 0},
        {0},
    };
    const struct cli_group groups[] = {
        {"bench throughput", own}, {"Model", t.session.model_options}, {"Engine", t.session.engine_options}, {0}};
    int code = cli_parse(command, groups, argc, argv, &words, 1);
    if (code != CLI_GO_ON)
        return code;
    if (!bench_parse_range(t.input_len, MAX_LEN, &t.input) || !bench_parse_range(t.output_len, MAX_LEN, &t.output))
        return cli_usage_error(command, "--input-len and --output-len want N or A:B, 1 to %d, A not above B", MAX_LEN);
    t.seed = t.session.seed >= 0 ? (uint64_t)t.session.seed : 0;
    if (!t.dataset)
        size_cache(&t);
    code = cli_open(command, &t.session, words.n ? words.arg[0] : NULL, CLI_NEED_ENGINE);
    if (code != CLI_GO_ON)
        return code;
    code = measure(&t);
    free_all(&t);
    return code;
}
