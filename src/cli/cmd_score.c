/* cmd_score.c - log-likelihood and perplexity of a text, or of continuations of contexts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/session.h"
#include "cli/ui.h"
#include "engine/model.h"

struct score {
    struct cli_session session;
    int64_t ctx, stride;
    bool json, jsonl, bos;
    double sum;      /* of log-probabilities */
    uint64_t scored; /* tokens in it */
    bool greedy;     /* each scored token was the most probable one */
    long line;       /* of --jsonl that is scored; 0: none */
};

static int pair_error(long number, const struct qr_err *err)
{
    cli_error("line %ld: %s", number, err->message);
    return CLI_FAILED;
}

/* Runs ids through the model and adds up the log-probabilities of tokens [from, n). */
static int score_window(struct score *s, const int32_t *ids, size_t n, size_t from)
{
    struct qr_err err;
    uint64_t id;
    size_t at = from;
    struct qr_request request = {.prompt = ids, .n_prompt = n, .n = 1};
    qr_sampling_defaults(NULL, &request.sampling);
    request.sampling.temperature = 0;
    request.sampling.max_tokens = 0;
    request.sampling.prompt_logprobs = 0;
    request.sampling.prompt_logprobs_from = (int)from;
    if (qr_engine_submit(s->session.engine, &request, &id, &err) != QR_OK)
        return s->line ? pair_error(s->line, &err) : cli_fail(&err);
    for (bool done = false; !done;) {
        struct qr_event event = {0};
        bool got;
        if (cli_interrupted)
            return CLI_INTERRUPTED;
        if (qr_engine_next(s->session.engine, &event, 100, &got, &err) != QR_OK)
            return cli_fail(&err);
        if (!got)
            continue;
        for (size_t i = 0; event.kind == QR_EVENT_PROMPT_LOGPROBS && i < event.n_logprobs; i++, at++) {
            if (at == 0)
                continue;
            s->sum += (double)event.logprobs[i].logprob;
            s->scored++;
            s->greedy = s->greedy && event.logprobs[i].rank == 0;
        }
        done = event.kind == QR_EVENT_DONE;
        bool failed = done && event.finish == QR_FINISH_ERROR;
        if (failed && s->line)
            pair_error(s->line, &event.error);
        else if (failed)
            cli_fail(&event.error);
        qr_event_clear(&event);
        if (failed)
            return CLI_FAILED;
    }
    return CLI_GO_ON;
}

/* Windows that do not overlap; scored is the second half of each, as predictions of tokens ctx/2+1 .. ctx-1. */
static int score_halves(struct score *s, const int32_t *ids, size_t n, struct cli_progress *progress)
{
    size_t ctx = (size_t)s->ctx, n_window = n / ctx;
    if (!n) {
        cli_error("the text on standard input is empty");
        return CLI_FAILED;
    }
    if (!n_window) {
        cli_error("the text has %zu tokens: fewer than one window of %zu; give a smaller --ctx", n, ctx);
        return CLI_FAILED;
    }
    int code = CLI_GO_ON;
    for (size_t w = 0; w < n_window && code == CLI_GO_ON; w++) {
        code = score_window(s, ids + w * ctx, ctx, ctx / 2 + 1);
        cli_progress_update(progress, (w + 1) * ctx, n_window * ctx);
    }
    return code;
}

/* Windows that start `stride` apart; each scores the tokens that no window before it has scored (transformers'
 * documentation, "Perplexity of fixed-length models"). */
static int score_strides(struct score *s, const int32_t *ids, size_t n, struct cli_progress *progress)
{
    size_t ctx = (size_t)s->ctx, stride = (size_t)s->stride, scored_to = 0;
    int code = CLI_GO_ON;
    for (size_t begin = 0; code == CLI_GO_ON; begin += stride) {
        size_t end = begin + ctx < n ? begin + ctx : n;
        code = score_window(s, ids + begin, end - begin, scored_to - begin);
        scored_to = end;
        cli_progress_update(progress, end, n);
        if (end == n)
            break;
    }
    return code;
}

static void print_result(const struct score *s)
{
    double perplexity = exp(-s->sum / (double)s->scored);
    if (s->json)
        printf("{\"perplexity\": %.6f, \"tokens\": %llu, \"logprob\": %.6f}\n", perplexity,
               (unsigned long long)s->scored, s->sum);
    else
        printf("perplexity %.4f over %llu tokens, log-likelihood %.4f\n", perplexity, (unsigned long long)s->scored,
               s->sum);
}

static int score_text(struct score *s)
{
    struct qr_err err;
    struct cli_progress progress;
    int32_t *ids;
    size_t n, n_text;
    char *text = cli_read_stdin(&n_text);
    if (!text)
        return CLI_FAILED;
    enum qr_status status = qr_tokenize(s->session.model, text, n_text, false, s->bos, &ids, &n, &err);
    free(text);
    if (status != QR_OK)
        return cli_fail(&err);
    cli_progress_start(&progress, "scoring", "tokens");
    int code = s->stride ? score_strides(s, ids, n, &progress) : score_halves(s, ids, n, &progress);
    cli_progress_end(&progress);
    qr_free(ids);
    if (code != CLI_GO_ON)
        return code;
    if (!s->scored) {
        cli_error("nothing to score: the text has %zu tokens and the first one is predicted by nothing", n);
        return CLI_FAILED;
    }
    print_result(s);
    return CLI_OK;
}

/* An empty context leaves the continuation's first token without a prediction: the BOS token, or EOS where there is none,
 * goes in front, as lm-evaluation-harness does it. */
static bool put_prefix(const struct score *s, int32_t **ids, size_t *n, struct qr_err *err)
{
    const struct qr_tokenizer *tok = s->session.model->tok;
    int32_t prefix = qr_tokenizer_bos(tok) >= 0 ? qr_tokenizer_bos(tok) : qr_tokenizer_eos(tok);
    int32_t *more = realloc(*ids, (*n + 1) * sizeof *more);
    if (prefix < 0 || !more) {
        *ids = more ? more : *ids;
        qr_fail(err, QR_INVALID, "the context is empty and the tokenizer has no token to begin with: give a context");
        return false;
    }
    memmove(more + 1, more, *n * sizeof *more);
    more[0] = prefix;
    *ids = more;
    ++*n;
    return true;
}

/* Tokens that both begin with. */
static size_t common(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b)
{
    size_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n])
        n++;
    return n;
}

/* {"context", "continuation"}: the log-probability of the continuation's tokens. The seam is where the tokens of the context
 * alone end, as lm-evaluation-harness cuts it; where the whole has no more tokens than that, since they grew together
 * across the seam, it is where they begin to differ. */
static int score_pair(struct score *s, long number, const json_t *pair)
{
    struct qr_err err;
    const char *context = "", *continuation = NULL;
    int32_t *ids = NULL, *head = NULL;
    size_t n = 0, n_head = 0;
    if (!json_is_object(pair) || qr_json_string(pair, "context", &context, &err) != QR_OK ||
        qr_json_string(pair, "continuation", &continuation, &err) != QR_OK || !continuation) {
        cli_error("line %ld: expected {\"context\": string, \"continuation\": string}", number);
        return CLI_FAILED;
    }
    size_t n_context = strlen(context);
    char *whole = malloc(n_context + strlen(continuation) + 1);
    if (!whole) {
        cli_error("out of memory");
        return CLI_FAILED;
    }
    memcpy(whole, context, n_context);
    strcpy(whole + n_context, continuation);
    int code = CLI_GO_ON;
    if (qr_tokenize(s->session.model, whole, strlen(whole), true, s->bos, &ids, &n, &err) != QR_OK ||
        qr_tokenize(s->session.model, context, n_context, true, s->bos, &head, &n_head, &err) != QR_OK)
        code = pair_error(number, &err);
    if (code == CLI_GO_ON && n_head >= n)
        n_head = common(ids, n, head, n_head);
    if (code == CLI_GO_ON && n_head == 0) {
        code = put_prefix(s, &ids, &n, &err) ? CLI_GO_ON : pair_error(number, &err);
        n_head = 1;
    }
    s->sum = 0;
    s->scored = 0;
    s->greedy = true;
    s->line = number;
    if (code == CLI_GO_ON)
        code = score_window(s, ids, n, n_head);
    if (code == CLI_GO_ON)
        printf("{\"logprob\": %.6f, \"is_greedy\": %s, \"tokens\": %llu}\n", s->sum, s->greedy ? "true" : "false",
               (unsigned long long)s->scored);
    qr_free(ids);
    qr_free(head);
    free(whole);
    return code;
}

static int score_lines(struct score *s)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int code = CLI_GO_ON;
    for (long number = 1; code == CLI_GO_ON && (n = getline(&line, &room, stdin)) > 0; number++) {
        char what[32];
        struct qr_err err;
        json_t *pair = NULL;
        snprintf(what, sizeof what, "line %ld", number);
        if (qr_json_parse(line, (size_t)n, what, &pair, &err) != QR_OK)
            code = cli_fail(&err);
        else
            code = score_pair(s, number, pair);
        json_decref(pair);
        fflush(stdout);
    }
    free(line);
    return code == CLI_GO_ON ? CLI_OK : code;
}

int cmd_score(const struct cli_command *command, int argc, char **argv)
{
    struct score s = {.ctx = 512};
    struct cli_positional words;
    cli_session_init(&s.session);
    const struct cli_option own[] = {
        {"--ctx", NULL, CLI_INT, "N", "tokens of a window (default: 512)", &s.ctx, 4, 1 << 24},
        {"--stride", NULL, CLI_INT, "N", "tokens between the starts of windows", &s.stride, 1, 1 << 24},
        {"--json", NULL, CLI_FLAG, NULL, "print {\"perplexity\",\"tokens\",\"logprob\"}", &s.json, 0, 0},
        {"--jsonl", NULL, CLI_FLAG, NULL,
         "lines {\"context\",\"continuation\"} in, {\"logprob\",\"is_greedy\",\"tokens\"} out", &s.jsonl, 0, 0},
        {"--bos", NULL, CLI_FLAG, NULL, "add the tokens that the tokenizer adds of itself, once in front", &s.bos, 0,
         0},
        {0},
    };
    const struct cli_group groups[] = {
        {"Options", own}, {"Model", s.session.model_options}, {"Engine", s.session.engine_options}, {0}};
    int code = cli_parse(command, groups, argc, argv, &words, 1);
    if (code != CLI_GO_ON)
        return code;
    if (s.stride > s.ctx)
        return cli_usage_error(command,
                               "--stride %lld is over --ctx %lld: tokens between the windows would be left out",
                               (long long)s.stride, (long long)s.ctx);
    if (s.jsonl && (s.json || s.stride))
        return cli_usage_error(command, "--jsonl goes with neither --json nor --stride");
    code = cli_open(command, &s.session, words.n ? words.arg[0] : NULL, CLI_NEED_ENGINE);
    if (code != CLI_GO_ON)
        return code;
    if (!s.jsonl && s.ctx > qr_engine_max_len(s.session.engine)) {
        cli_error(
            "--ctx %lld is over this engine's context of %d tokens: give a smaller --ctx or a larger --max-model-len",
            (long long)s.ctx, qr_engine_max_len(s.session.engine));
        code = CLI_FAILED;
    } else {
        code = s.jsonl ? score_lines(&s) : score_text(&s);
    }
    cli_close(&s.session);
    return code;
}
