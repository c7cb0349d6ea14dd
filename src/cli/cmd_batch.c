/* cmd_batch.c - a file of OpenAI requests through the engine, many at once; the run may be broken off and started again. */
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "cli/batch.h"
#include "cli/commands.h"

/* Reads the whole input once: how many lines, and no custom_id twice, for then nobody could tell the answers apart. */
static int check_input(struct cli_batch *b, const char *in)
{
    struct qr_err err;
    struct cli_lines lines;
    bool got = true;
    json_t *seen = json_object();
    int code = seen ? CLI_GO_ON : CLI_FAILED;
    if (cli_lines_open(&lines, in, CLI_BATCH_LINE_CAP, &err) != QR_OK)
        code = cli_fail(&err);
    while (code == CLI_GO_ON && !cli_interrupted) {
        json_t *line = NULL;
        if (cli_lines_next(&lines, &got, &err) != QR_OK)
            code = cli_fail(&err);
        if (code != CLI_GO_ON || !got)
            break;
        b->n_line++;
        const char *id = cli_lines_parse(&lines, &line, &err) == QR_OK ? cli_custom_id(line) : NULL;
        json_int_t before = id ? json_integer_value(json_object_get(seen, id)) : 0;
        if (before) {
            cli_error("%s line %lld: custom_id '%.200s' was used by line %lld already: each request needs its own", in,
                      (long long)lines.number, id, (long long)before);
            code = CLI_FAILED;
        } else if (id && json_object_set_new(seen, id, json_integer((json_int_t)lines.number)) != 0) {
            cli_error("out of memory for the custom_ids of %s", in);
            code = CLI_FAILED;
        }
        json_decref(line);
    }
    cli_lines_close(&lines);
    json_decref(seen);
    return code == CLI_GO_ON && cli_interrupted ? CLI_INTERRUPTED : code;
}

static void print_summary(const struct cli_batch *b, int code)
{
    if (code == CLI_INTERRUPTED)
        fprintf(stderr, "interrupted: %lld of %lld requests are in %s; start again to go on\n",
                (long long)(b->n_skipped + b->n_answered + b->n_failed), (long long)b->n_line, b->results.path);
    else if (code == CLI_GO_ON)
        fprintf(stderr, "%lld requests: %lld answered, %lld with an error, %lld were there before\n",
                (long long)b->n_line, (long long)b->n_answered, (long long)b->n_failed, (long long)b->n_skipped);
    int64_t n_read = b->n_answered + b->n_failed + b->n_skipped;
    if (code == CLI_GO_ON && n_read != b->n_line)
        cli_error("the input had %lld requests when the batch began and %lld when it was read again: start again",
                  (long long)b->n_line, (long long)n_read);
}

static int run(const struct cli_command *command, struct cli_batch *b, const char *model, const char *in,
               const char *out)
{
    struct qr_err err;
    cli_catch_interrupt();
    int code = check_input(b, in);
    if (code != CLI_GO_ON)
        return code;
    if (cli_results_open(&b->results, out, in, &err) != QR_OK)
        return cli_fail(&err);
    code = cli_open(command, &b->session, model, CLI_NEED_ENGINE);
    if (code == CLI_GO_ON && cli_lines_open(&b->lines, in, CLI_BATCH_LINE_CAP, &err) != QR_OK)
        code = cli_fail(&err);
    if (code == CLI_GO_ON)
        code = cli_batch_run(b);
    cli_lines_close(&b->lines);
    print_summary(b, code);
    if (code == CLI_GO_ON && b->n_answered + b->n_failed + b->n_skipped != b->n_line)
        code = CLI_FAILED;
    if (cli_results_close(&b->results, &err) != QR_OK && code == CLI_GO_ON)
        code = cli_fail(&err);
    cli_close(&b->session);
    return code == CLI_GO_ON ? CLI_OK : code;
}

int cmd_batch(const struct cli_command *command, int argc, char **argv)
{
    struct cli_batch b = {.results.fd = -1};
    const char *in = NULL, *out = NULL;
    struct cli_positional words;
    cli_session_init(&b.session);
    const struct cli_option own[] = {
        {"--input", "-i", CLI_TEXT, "FILE", "requests, one JSON object a line", &in, 0, 0},
        {"--output", "-o", CLI_TEXT, "FILE", "answers, in the order in which they end; appended to", &out, 0, 0},
        {0},
    };
    const struct cli_group groups[] = {
        {"Options", own}, {"Model", b.session.model_options}, {"Engine", b.session.engine_options}, {0}};
    int code = cli_parse(command, groups, argc, argv, &words, 1);
    if (code != CLI_GO_ON)
        return code;
    if (!in || !out)
        return cli_usage_error(command, "give -i IN.jsonl and -o OUT.jsonl");
    return run(command, &b, words.n ? words.arg[0] : NULL, in, out);
}
