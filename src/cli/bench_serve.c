/* bench_serve.c - a load of streamed requests on a running OpenAI server, any one, and what its clients saw of it. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include "base/rand.h"
#include "cli/batch_file.h"
#include "cli/bench.h"
#include "cli/session.h"
#include "cli/ui.h"
#include "server/load.h"
#include "server/openai_stream.h"

enum { MAX_LEN = 1 << 20, MAX_PROMPTS = 1 << 20, LINE_CAP = 64 << 20 };
enum { DRAW_INPUT, DRAW_OUTPUT, DRAW_WORD }; /* counters of qr_rand_uniform */

struct bench {
    const char *url, *model, *api_key, *dataset, *input_text, *output_text;
    int64_t n_prompt, concurrency, seed, timeout_s;
    double rate;
    struct bench_range input, output;
    bool chat, json, end_early;
    char host[256], path[128];
    int port;
    char name[256]; /* of the model */
    json_t **line;  /* [n_prompt] of the dataset */
    struct qr_load_result *result;
    struct qr_load_gaps gaps;
    double wall_s;
    struct cli_progress progress;
};

/* "http://host:port[/...]". */
static bool parse_url(struct bench *b)
{
    const char *at = b->url;
    if (strncmp(at, "http://", 7) == 0)
        at += 7;
    else if (strstr(at, "://"))
        return false;
    bool bracket = *at == '[';
    size_t n = bracket ? strcspn(++at, "]") : strcspn(at, ":/");
    if (n == 0 || n >= sizeof b->host)
        return false;
    memcpy(b->host, at, n);
    at += n + (bracket && at[n] == ']');
    b->port = 80;
    if (*at == ':') {
        char *end;
        long port = strtol(at + 1, &end, 10);
        if (port < 1 || port > 65535 || end == at + 1)
            return false;
        b->port = (int)port;
        at = end;
    }
    size_t n_path = strlen(at);
    while (n_path && at[n_path - 1] == '/')
        n_path--;
    if ((*at && *at != '/') || n_path > 60)
        return false;
    snprintf(b->path, sizeof b->path, "%.*s%s/%s", (int)n_path, at,
             n_path >= 3 && memcmp(at + n_path - 3, "/v1", 3) == 0 ? "" : "/v1",
             b->chat ? "chat/completions" : "completions");
    return true;
}

/* ---------------------------------------------------------------- requests */

/* Short words, most of which are one token of most tokenizers. */
static void random_text(const struct bench *b, size_t i, int64_t n, struct qr_buf *out)
{
    static const char *const words[] = {"the", "house", "of",    "a",     "river", "and",   "stone", "was", "found",
                                        "by",  "night", "when",  "seven", "men",   "went",  "out",   "to",  "see",
                                        "how", "far",   "light", "goes",  "under", "water", "in",    "old", "books"};
    for (int64_t k = 0; k < n; k++) {
        float u = qr_rand_uniform((uint64_t)b->seed, DRAW_WORD + (uint32_t)i, (uint32_t)k);
        qr_buf_puts(out, k ? " " : "");
        qr_buf_puts(out, words[(size_t)(u * (float)(sizeof words / sizeof *words))]);
    }
}

static json_t *random_body(const struct bench *b, size_t i)
{
    struct qr_buf text;
    qr_buf_init(&text, 0);
    random_text(b, i, bench_draw((uint64_t)b->seed, &b->input, DRAW_INPUT, i), &text);
    json_t *body = text.failed ? NULL
                   : b->chat   ? json_pack("{s:[{s:s, s:s}]}", "messages", "role", "user", "content", text.data)
                               : json_pack("{s:s}", "prompt", text.data);
    qr_buf_free(&text);
    if (body && !b->end_early)
        json_object_set_new(body, "ignore_eos", json_true());
    return body;
}

static bool make_body(void *ctx, size_t i, struct qr_buf *out)
{
    const struct bench *b = ctx;
    json_t *body = b->line ? json_deep_copy(b->line[i]) : random_body(b, i);
    if (!body)
        return false;
    if (!json_object_get(body, "max_tokens") && !json_object_get(body, "max_completion_tokens"))
        json_object_set_new(body, "max_tokens",
                            json_integer((json_int_t)bench_draw((uint64_t)b->seed, &b->output, DRAW_OUTPUT, i)));
    if (!json_object_get(body, "temperature"))
        json_object_set_new(body, "temperature", json_integer(0));
    json_object_set_new(body, "model", json_string(b->name));
    json_object_set_new(body, "stream", json_true());
    json_object_set_new(body, "stream_options", json_pack("{s:b}", "include_usage", 1));
    char *text = json_dumps(body, JSON_COMPACT);
    bool ok = text && qr_buf_puts(out, text);
    free(text);
    json_decref(body);
    return ok;
}

static int read_dataset(struct bench *b)
{
    struct cli_lines lines;
    struct qr_err err;
    bool got = true;
    if (cli_lines_open(&lines, b->dataset, LINE_CAP, &err) != QR_OK)
        return cli_fail(&err);
    int code = CLI_GO_ON;
    int64_t n = 0;
    b->line = calloc((size_t)b->n_prompt, sizeof *b->line);
    while (code == CLI_GO_ON && b->line && n < b->n_prompt) {
        json_t *line = NULL;
        if (cli_lines_next(&lines, &got, &err) != QR_OK || (got && cli_lines_parse(&lines, &line, &err) != QR_OK))
            code = cli_fail(&err);
        if (!got || code != CLI_GO_ON)
            break;
        json_t *body = json_object_get(line, "body");
        b->line[n++] = body ? json_incref(body) : json_incref(line);
        json_decref(line);
    }
    cli_lines_close(&lines);
    if (code == CLI_GO_ON && n == 0) {
        cli_error("%s has no requests", b->dataset);
        code = CLI_FAILED;
    }
    if (n)
        b->chat = json_object_get(b->line[0], "messages") != NULL;
    b->n_prompt = n;
    return code;
}

/* ---------------------------------------------------------------- results */

static int by_float(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

struct spread { /* ms */
    double mean, p50, p90, p99, most;
};

static struct spread spread_of(double *v, size_t n)
{
    struct spread s = {0};
    if (n == 0)
        return s;
    qsort(v, n, sizeof *v, bench_by_value);
    for (size_t i = 0; i < n; i++)
        s.mean += 1e3 * v[i] / (double)n;
    s.p50 = 1e3 * bench_percentile(v, n, 50);
    s.p90 = 1e3 * bench_percentile(v, n, 90);
    s.p99 = 1e3 * bench_percentile(v, n, 99);
    s.most = 1e3 * v[n - 1];
    return s;
}

static struct spread spread_of_gaps(struct qr_load_gaps *g)
{
    struct spread s = {0};
    if (g->n == 0)
        return s;
    qsort(g->gap, g->n, sizeof *g->gap, by_float);
    for (size_t i = 0; i < g->n; i++)
        s.mean += 1e3 * (double)g->gap[i] / (double)g->n;
    s.p50 = 1e3 * (double)g->gap[bench_rank(g->n, 50)];
    s.p90 = 1e3 * (double)g->gap[bench_rank(g->n, 90)];
    s.p99 = 1e3 * (double)g->gap[bench_rank(g->n, 99)];
    s.most = 1e3 * (double)g->gap[g->n - 1];
    return s;
}

static json_t *spread_json(const struct spread *s)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "mean", s->mean, "p50", s->p50, "p90", s->p90, "p99", s->p99, "max",
                     s->most);
}

static void print_spread(const char *what, const struct spread *s)
{
    printf("  %-18s %9.1f %9.1f %9.1f %9.1f %9.1f\n", what, s->mean, s->p50, s->p90, s->p99, s->most);
}

struct totals {
    size_t n_good, n_bad;
    int64_t prompt_tokens, output_tokens;
    double first_start, last_end;
    const char *error; /* the first one */
};

static int report(struct bench *b)
{
    size_t n = (size_t)b->n_prompt;
    struct totals t = {.first_start = 1e300};
    double *ttft = malloc((n + 1) * sizeof *ttft), *e2e = malloc((n + 1) * sizeof *e2e);
    if (!ttft || !e2e) {
        free(ttft);
        free(e2e);
        cli_error("out of memory for %zu results", n);
        return CLI_FAILED;
    }
    for (size_t i = 0; i < n; i++) {
        const struct qr_load_result *r = &b->result[i];
        t.first_start = r->start < t.first_start ? r->start : t.first_start;
        t.last_end = r->end > t.last_end ? r->end : t.last_end;
        if (r->status != 200 || !r->whole) {
            t.error = t.n_bad++ == 0 ? r->error : t.error;
            continue;
        }
        ttft[t.n_good] = r->first > 0 ? r->first - r->start : r->end - r->start;
        e2e[t.n_good++] = r->end - r->start;
        t.prompt_tokens += r->prompt_tokens > 0 ? r->prompt_tokens : 0;
        t.output_tokens += r->output_tokens >= 0 ? r->output_tokens : r->n_piece;
    }
    b->wall_s = t.last_end - t.first_start;
    struct spread first = spread_of(ttft, t.n_good), gap = spread_of_gaps(&b->gaps), whole = spread_of(e2e, t.n_good);
    double rate = (double)t.output_tokens / b->wall_s;
    free(ttft);
    free(e2e);
    if (b->json) {
        json_t *root = json_pack(
            "{s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:s?}", "requests", (json_int_t)n, "failed",
            (json_int_t)t.n_bad, "prompt_tokens", (json_int_t)t.prompt_tokens, "output_tokens",
            (json_int_t)t.output_tokens, "wall_s", b->wall_s, "requests_s", (double)t.n_good / b->wall_s,
            "output_tok_s", rate, "total_tok_s", (double)(t.prompt_tokens + t.output_tokens) / b->wall_s, "ttft_ms",
            spread_json(&first), "itl_ms", spread_json(&gap), "e2e_ms", spread_json(&whole), "error", t.error);
        json_dumpf(root, stdout, JSON_PRESERVE_ORDER);
        putchar('\n');
        json_decref(root);
    } else {
        printf("%s at %s:%d; %zu requests, %zu failed; %lld tokens in, %lld out, %.2f s\n", b->name, b->host, b->port,
               n, t.n_bad, (long long)t.prompt_tokens, (long long)t.output_tokens, b->wall_s);
        printf("  written       %9.1f tok/s\n  with prompts  %9.1f tok/s\n  answers       %9.2f a second\n\n", rate,
               (double)(t.prompt_tokens + t.output_tokens) / b->wall_s, (double)t.n_good / b->wall_s);
        printf("  ms                      mean    median       p90       p99      most\n");
        print_spread("first token", &first);
        print_spread("between two", &gap);
        print_spread("whole answer", &whole);
        if (t.error)
            printf("\nthe first error: %s\n", t.error);
    }
    return t.n_bad == 0 ? CLI_OK : CLI_FAILED;
}

/* ---------------------------------------------------------------- the run */

static bool on_progress(void *ctx, size_t n_done)
{
    struct bench *b = ctx;
    cli_progress_update(&b->progress, n_done, (uint64_t)b->n_prompt);
    return !cli_interrupted;
}

static int measure(const struct cli_command *command, struct bench *b)
{
    struct qr_err err;
    int code = b->dataset ? read_dataset(b) : CLI_GO_ON;
    if (code != CLI_GO_ON)
        return code;
    if (!parse_url(b))
        return cli_usage_error(command, "--url is '%s': it must read http://HOST:PORT", b->url);
    snprintf(b->name, sizeof b->name, "%s", b->model ? b->model : "");
    if (!b->model && qr_load_model_name(b->host, b->port, b->api_key, b->name, sizeof b->name, &err) != QR_OK)
        return cli_fail(&err);
    b->result = calloc((size_t)b->n_prompt, sizeof *b->result);
    if (!b->result) {
        cli_error("out of memory for %lld requests", (long long)b->n_prompt);
        return CLI_FAILED;
    }
    const struct qr_load_options options = {
        .host = b->host,
        .port = b->port,
        .path = b->path,
        .api_key = b->api_key,
        .n_request = (size_t)b->n_prompt,
        .concurrency = (int)b->concurrency,
        .rate = b->rate,
        .seed = (uint64_t)b->seed,
        .timeout_s = (double)b->timeout_s,
        .body = make_body,
        .progress = on_progress,
        .ctx = b,
    };
    cli_catch_interrupt();
    cli_progress_start(&b->progress, "asking", "requests");
    enum qr_status status = qr_load_run(&options, b->result, &b->gaps, &err);
    cli_progress_end(&b->progress);
    if (status != QR_OK)
        return cli_interrupted ? CLI_INTERRUPTED : cli_fail(&err);
    return report(b);
}

static void free_all(struct bench *b)
{
    for (int64_t i = 0; b->line && i < b->n_prompt; i++)
        json_decref(b->line[i]);
    free(b->line);
    free(b->result);
    free(b->gaps.gap);
}

int bench_serve(const struct cli_command *command, int argc, char **argv)
{
    struct bench b = {.url = "http://127.0.0.1:8000",
                      .n_prompt = 200,
                      .concurrency = 16,
                      .input_text = "100:1024",
                      .output_text = "100:1024",
                      .timeout_s = 600};
    struct cli_positional words;
    const struct cli_option own[] = {
        {"--url", NULL, CLI_TEXT, "URL", "the server (default: http://127.0.0.1:8000)", &b.url, 0, 0},
        {"--model", NULL, CLI_TEXT, "NAME", "the model's name there (default: the first of /v1/models)", &b.model, 0,
         0},
        {"--api-key", NULL, CLI_TEXT, "KEY", "that the server asks for", &b.api_key, 0, 0},
        {"--num-prompts", NULL, CLI_INT, "N", "requests (default: 200)", &b.n_prompt, 1, MAX_PROMPTS},
        {"--concurrency", NULL, CLI_INT, "N", "at once at most (default: 16)", &b.concurrency, 1, 65536},
        {"--rate", NULL, CLI_REAL, "X", "requests a second, at random intervals (default: as soon as there is room)",
         &b.rate, 0, 1e6},
        {"--input-len", NULL, CLI_TEXT, "A:B", "words of a prompt, about as many tokens (default: 100:1024)",
         &b.input_text, 0, 0},
        {"--output-len", NULL, CLI_TEXT, "A:B", "tokens to write (default: 100:1024)", &b.output_text, 0, 0},
        {"--dataset", NULL, CLI_TEXT, "FILE", "requests from lines {\"prompt\" or \"messages\", ...}", &b.dataset, 0,
         0},
        {"--chat", NULL, CLI_FLAG, NULL, "ask /v1/chat/completions", &b.chat, 0, 0},
        {"--end-early", NULL, CLI_FLAG, NULL, "do not ask the server to write on past the end of a text", &b.end_early,
         0, 0},
        {"--timeout", NULL, CLI_INT, "S", "that a server may be silent (default: 600)", &b.timeout_s, 1, 86400},
        {"--seed", NULL, CLI_INT, "N", "of lengths, words and intervals", &b.seed, 0, 9e18},
        {"--json", NULL, CLI_FLAG, NULL, "print one JSON object", &b.json, 0, 0},
        {0},
    };
    const struct cli_group groups[] = {{"bench serve", own}, {0}};
    int code = cli_parse(command, groups, argc, argv, &words, 0);
    if (code != CLI_GO_ON)
        return code;
    if (!bench_parse_range(b.input_text, MAX_LEN, &b.input) || !bench_parse_range(b.output_text, MAX_LEN, &b.output))
        return cli_usage_error(command, "--input-len and --output-len want N or A:B, 1 to %d, A not above B", MAX_LEN);
    code = measure(command, &b);
    free_all(&b);
    return code;
}
