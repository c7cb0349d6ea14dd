/* cmd_complete.c - continue a text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/commands.h"
#include "cli/generate.h"
#include "cli/input.h"
#include "cli/ui.h"

struct complete {
    struct cli_session session;
    const char *prompt, *file, *ids_text, *system;
    bool json, chat;
    int32_t *ids;
    size_t n_ids;
};

/* The text to continue: -p, -f or standard input. malloc'ed; NULL after an error. */
static char *read_text(const struct complete *c, size_t *n)
{
    if (c->prompt) {
        *n = strlen(c->prompt);
        char *text = strdup(c->prompt);
        if (!text)
            cli_error("out of memory");
        return text;
    }
    if (!c->file || strcmp(c->file, "-") == 0)
        return cli_read_stdin(n);
    return cli_read_file(c->file, CLI_TEXT_CAP, n);
}

/* Text wrapped by the chat template as one user message. malloc'ed; takes text. */
static char *wrap_chat(const struct complete *c, char *text, size_t *n)
{
    struct qr_err err;
    json_t *messages = json_array();
    char *prompt = NULL, *request = NULL;
    if (c->system)
        json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "system", "content", c->system));
    json_t *user = json_stringn(text, *n);
    if (!user)
        cli_error("the prompt is not valid UTF-8");
    json_array_append_new(messages, json_pack("{s:s, s:o*}", "role", "user", "content", user));
    json_t *root = json_pack("{s:o}", "messages", messages);
    if (user && root && (request = json_dumps(root, 0)) != NULL)
        if (qr_chat_prompt(c->session.model, request, &prompt, n, &err) != QR_OK)
            cli_fail(&err);
    json_decref(root);
    free(request);
    free(text);
    return prompt;
}

static bool make_ids(struct complete *c)
{
    struct qr_err err;
    size_t n;
    if (c->ids_text)
        return cli_parse_ids(c->ids_text, &c->ids, &c->n_ids);
    char *text = read_text(c, &n);
    if (text && c->chat)
        text = wrap_chat(c, text, &n);
    if (!text)
        return false;
    enum qr_status status = qr_tokenize(c->session.model, text, n, true, !c->chat, &c->ids, &c->n_ids, &err);
    if (status != QR_OK)
        cli_fail(&err);
    qr_free(text);
    return status == QR_OK;
}

static json_t *ids_json(const int32_t *ids, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(array, json_integer(ids[i]));
    return array;
}

static void print_json(const struct complete *c, const struct cli_answer *a)
{
    const struct qr_usage *u = &a->usage;
    double fresh = u->prompt_tokens - u->cached_tokens, rest = u->output_tokens > 1 ? u->output_tokens - 1 : 0;
    json_t *root = json_object();
    json_object_set_new(root, "text", json_stringn(a->text.data ? a->text.data : "", a->text.len));
    json_object_set_new(root, "token_ids", ids_json(a->ids, a->n_ids));
    json_object_set_new(root, "prompt_token_ids", ids_json(c->ids, c->n_ids));
    json_object_set_new(root, "finish_reason", json_string(cli_finish_name(a->finish)));
    if (a->logprobs)
        json_object_set(root, "logprobs", a->logprobs);
    json_object_set_new(root, "timings",
                        json_pack("{s:f, s:f, s:f, s:f, s:f}", "load_s", c->session.load_s, "prefill_s", u->prefill_s,
                                  "decode_s", u->decode_s, "prefill_tok_s",
                                  u->prefill_s > 0 ? fresh / u->prefill_s : 0.0, "decode_tok_s",
                                  u->decode_s > 0 ? rest / u->decode_s : 0.0));
    json_dumpf(root, stdout, JSON_PRESERVE_ORDER | JSON_ENCODE_ANY);
    putchar('\n');
    json_decref(root);
}

static int complete(const struct cli_command *command, struct complete *c)
{
    struct qr_sampling sampling;
    struct cli_answer answer;
    int code = cli_sampling(command, &c->session, &sampling);
    if (code != CLI_GO_ON)
        return code;
    if (c->session.max_tokens == INT64_MIN)
        sampling.max_tokens = c->chat ? -1 : 512;
    if (!make_ids(c))
        return cli_interrupted ? CLI_INTERRUPTED : CLI_FAILED;
    code = cli_generate(&c->session, c->ids, c->n_ids, &sampling, !c->json, &answer);
    if (code == CLI_GO_ON) {
        if (c->json)
            print_json(c, &answer);
        else
            putchar('\n');
        if (c->session.verbose)
            cli_print_timings(&answer);
        code = answer.finish == QR_FINISH_CANCELLED && cli_interrupted ? CLI_INTERRUPTED : CLI_OK;
    }
    cli_answer_free(&answer);
    return code;
}

int cmd_complete(const struct cli_command *command, int argc, char **argv)
{
    struct complete c = {0};
    struct cli_positional words;
    cli_session_init(&c.session);
    const struct cli_option prompt[] = {
        {"--prompt", "-p", CLI_TEXT, "TEXT", "the text to continue", &c.prompt, 0, 0},
        {"--file", "-f", CLI_TEXT, "FILE", "read it from a file or pipe; -: standard input", &c.file, 0, 0},
        {"--prompt-ids", NULL, CLI_TEXT, "1,2,3", "token ids in place of text", &c.ids_text, 0, 0},
        {"--chat", NULL, CLI_FLAG, NULL, "the text is a user's message: wrap it in the model's chat template", &c.chat,
         0, 0},
        {"--system", NULL, CLI_TEXT, "TEXT", "system message for --chat", &c.system, 0, 0},
        {"--json", NULL, CLI_FLAG, NULL, "print one JSON object: text, token_ids, logprobs, timings ...", &c.json, 0,
         0},
        {0},
    };
    const struct cli_group groups[] = {{"Prompt", prompt},
                                       {"Sampling", c.session.sampling_options},
                                       {"Model", c.session.model_options},
                                       {"Engine", c.session.engine_options},
                                       {0}};
    int code = cli_parse(command, groups, argc, argv, &words, 1);
    if (code != CLI_GO_ON)
        return code;
    if (!!c.prompt + !!c.file + !!c.ids_text > 1)
        return cli_usage_error(command, "give one of -p, -f and --prompt-ids");
    if (c.ids_text && c.chat)
        return cli_usage_error(command, "--chat wraps text: it does not go with --prompt-ids");
    if (c.system && !c.chat)
        return cli_usage_error(command, "--system needs --chat");
    if (c.session.logprobs >= 0 && !c.json)
        return cli_usage_error(command, "--logprobs needs --json");
    code = cli_open(command, &c.session, words.n ? words.arg[0] : NULL, CLI_NEED_ENGINE);
    if (code != CLI_GO_ON)
        return code;
    code = complete(command, &c);
    free(c.ids);
    cli_close(&c.session);
    return code;
}
