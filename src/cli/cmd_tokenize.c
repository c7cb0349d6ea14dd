/* cmd_tokenize.c - text to ids and back, and a conversation to its prompt. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/session.h"
#include "cli/ui.h"

struct convert {
    struct cli_session session;
    bool json, special, bos, skip_special;
    long line; /* of the input, from 1; 0: not read by lines */
};

static int fail(const struct convert *c, struct qr_err *err)
{
    if (c->line > 0)
        qr_err_prefix(err, err->status, "line %ld", c->line);
    return cli_fail(err);
}

static int encode(const struct convert *c, const char *text, size_t n)
{
    struct qr_err err;
    int32_t *ids;
    size_t n_ids;
    if (qr_tokenize(c->session.model, text, n, c->special, c->bos, &ids, &n_ids, &err) != QR_OK)
        return fail(c, &err);
    if (c->json)
        putchar('[');
    for (size_t i = 0; i < n_ids; i++)
        printf("%s%d", i ? (c->json ? "," : " ") : "", ids[i]);
    fputs(c->json ? "]\n" : "\n", stdout);
    qr_free(ids);
    return CLI_OK;
}

static int decode(const struct convert *c, const int32_t *ids, size_t n)
{
    struct qr_err err;
    char *text;
    size_t n_text;
    if (qr_detokenize(c->session.model, ids, n, c->skip_special, &text, &n_text, &err) != QR_OK)
        return fail(c, &err);
    if (c->json) {
        json_t *s = json_stringn(text, n_text);
        json_dumpf(s, stdout, JSON_ENCODE_ANY);
        json_decref(s);
        putchar('\n');
    } else {
        fwrite(text, 1, n_text, stdout);
    }
    qr_free(text);
    return CLI_OK;
}

static int encode_value(const struct convert *c, const json_t *value)
{
    if (!json_is_string(value)) {
        cli_error("line %ld: expected a JSON string", c->line);
        return CLI_FAILED;
    }
    return encode(c, json_string_value(value), json_string_length(value));
}

static int decode_value(const struct convert *c, const json_t *value)
{
    size_t n = json_array_size(value);
    int32_t *ids = json_is_array(value) ? malloc((n + 1) * sizeof *ids) : NULL;
    int code = CLI_OK;
    if (!ids) {
        cli_error("line %ld: %s", c->line, json_is_array(value) ? "out of memory" : "expected a JSON array of ids");
        return CLI_FAILED;
    }
    for (size_t i = 0; i < n && code == CLI_OK; i++) {
        const json_t *item = json_array_get(value, i);
        json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id > INT32_MAX) {
            cli_error("line %ld: element %zu is no token id", c->line, i);
            code = CLI_FAILED;
        }
        ids[i] = (int32_t)id;
    }
    if (code == CLI_OK)
        code = decode(c, ids, n);
    free(ids);
    return code;
}

/* One JSON value a line in, one a line out; an error names the line. */
static int each_line(struct convert *c, int (*fn)(const struct convert *c, const json_t *value))
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int code = CLI_OK;
    for (long number = 1; code == CLI_OK && (n = getline(&line, &room, stdin)) > 0; number++) {
        json_error_t error;
        json_t *value = json_loadb(line, (size_t)n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
        if (!value) {
            cli_error("line %ld is no JSON: %s", number, error.text);
            code = CLI_FAILED;
            break;
        }
        c->line = number;
        code = fn(c, value);
        json_decref(value);
        fflush(stdout);
    }
    free(line);
    return code;
}

static int parse(const struct cli_command *command, struct convert *c, const struct cli_option *own, int argc,
                 char **argv)
{
    struct cli_positional words;
    const struct cli_group groups[] = {{"Options", own}, {"Model", c->session.model_options}, {0}};
    int code = cli_parse(command, groups, argc, argv, &words, 1);
    if (code != CLI_GO_ON)
        return code;
    return cli_open(command, &c->session, words.n ? words.arg[0] : NULL, CLI_NEED_TOKENIZER);
}

int cmd_tokenize(const struct cli_command *command, int argc, char **argv)
{
    struct convert c = {0};
    cli_session_init(&c.session);
    const struct cli_option own[] = {
        {"--json", NULL, CLI_FLAG, NULL, "one JSON string a line in, one JSON array a line out", &c.json, 0, 0},
        {"--special", NULL, CLI_FLAG, NULL, "text such as <|im_end|> becomes its one token", &c.special, 0, 0},
        {"--bos", NULL, CLI_FLAG, NULL, "add the tokens that the tokenizer adds of itself", &c.bos, 0, 0},
        {0},
    };
    int code = parse(command, &c, own, argc, argv);
    if (code != CLI_GO_ON)
        return code;
    size_t n;
    char *text = c.json ? NULL : cli_read_stdin(&n);
    if (c.json)
        code = each_line(&c, encode_value);
    else
        code = text ? encode(&c, text, n) : CLI_FAILED;
    free(text);
    cli_close(&c.session);
    return code;
}

int cmd_detokenize(const struct cli_command *command, int argc, char **argv)
{
    struct convert c = {0};
    cli_session_init(&c.session);
    const struct cli_option own[] = {
        {"--json", NULL, CLI_FLAG, NULL, "one JSON array a line in, one JSON string a line out", &c.json, 0, 0},
        {"--skip-special", NULL, CLI_FLAG, NULL, "leave special tokens out", &c.skip_special, 0, 0},
        {0},
    };
    int code = parse(command, &c, own, argc, argv);
    if (code != CLI_GO_ON)
        return code;
    int32_t *ids = NULL;
    size_t n;
    char *text = c.json ? NULL : cli_read_stdin(&n);
    code = CLI_FAILED;
    if (c.json)
        code = each_line(&c, decode_value);
    else if (text && strlen(text) != n)
        cli_error("standard input holds a NUL byte");
    else
        code = text && cli_parse_ids(text, &ids, &n) ? decode(&c, ids, n) : CLI_FAILED;
    free(ids);
    free(text);
    cli_close(&c.session);
    return code;
}

int cmd_template(const struct cli_command *command, int argc, char **argv)
{
    struct convert c = {0};
    struct qr_err err;
    cli_session_init(&c.session);
    const struct cli_option own[] = {{0}};
    int code = parse(command, &c, own, argc, argv);
    if (code != CLI_GO_ON)
        return code;
    size_t n;
    char *request = cli_read_stdin(&n), *prompt;
    code = CLI_FAILED;
    if (request && strlen(request) != n)
        cli_error("standard input holds a NUL byte");
    else if (request && qr_chat_prompt(c.session.model, request, &prompt, &n, &err) != QR_OK)
        cli_fail(&err);
    else if (request) {
        fwrite(prompt, 1, n, stdout);
        qr_free(prompt);
        code = CLI_OK;
    }
    free(request);
    cli_close(&c.session);
    return code;
}
