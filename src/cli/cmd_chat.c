/* cmd_chat.c - talk in the terminal. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mapfile.h"
#include "cli/commands.h"
#include "cli/conversation.h"
#include "cli/prompt.h"
#include "cli/ui.h"

struct chat {
    struct cli_session session;
    struct qr_sampling sampling;
    struct cli_conversation talk;
    const char *system, *first;
    bool stats; /* print timings after each answer */
    bool colour;
};

/* One turn: the user's text in, the answer streamed and kept. */
static int turn(struct chat *c, const char *text, size_t n)
{
    struct cli_answer answer = {0};
    int32_t *ids = NULL;
    size_t n_ids = 0;
    struct qr_err err;
    if (!cli_conversation_add(&c->talk, "user", text, n))
        return CLI_FAILED;
    int code =
        cli_conversation_ids(&c->talk, c->session.model, &ids, &n_ids, &err) == QR_OK ? CLI_GO_ON : cli_fail(&err);
    cli_interrupted = 0;
    cli_end_key(false); /* typed while an answer comes, it is for the prompt behind it */
    if (code == CLI_GO_ON)
        code = cli_generate(&c->session, ids, n_ids, &c->sampling, true, &answer);
    cli_end_key(true);
    qr_free(ids);
    if (code != CLI_GO_ON) {
        cli_conversation_drop_last(&c->talk); /* the question can be asked again, shorter */
        cli_answer_free(&answer);
        return code;
    }
    printf("\n");
    fflush(stdout);
    if (answer.finish == QR_FINISH_CANCELLED)
        fprintf(stderr, "%s(stopped)%s\n", c->colour ? "\033[2m" : "", c->colour ? "\033[0m" : "");
    cli_interrupted = 0;
    if (c->stats)
        cli_print_timings(&answer);
    cli_conversation_add(&c->talk, "assistant", answer.text.data ? answer.text.data : "", answer.text.len);
    c->talk.last = answer.usage;
    cli_answer_free(&answer);
    return CLI_OK;
}

static void print_help(void)
{
    fputs("/reset          forget the conversation\n"
          "/system TEXT    set the system message, and forget the conversation\n"
          "/save FILE      write the conversation as JSON\n"
          "/stats          timings after each answer, on or off\n"
          "/quit           end (also Ctrl-D); Ctrl-C stops an answer\n",
          stderr);
}

/* A line that starts with a slash. Returns false to end the program. */
static bool slash(struct chat *c, char *line)
{
    char *argument = line + strcspn(line, " ");
    if (*argument)
        *argument++ = 0;
    argument += strspn(argument, " ");
    if (strcmp(line, "/quit") == 0 || strcmp(line, "/exit") == 0)
        return false;
    if (strcmp(line, "/reset") == 0) {
        cli_conversation_reset(&c->talk, NULL);
        fputs("(forgotten)\n", stderr);
    } else if (strcmp(line, "/system") == 0) {
        if (!cli_conversation_reset(&c->talk, argument))
            cli_error("the system message is not valid UTF-8");
    } else if (strcmp(line, "/save") == 0) {
        struct qr_err err;
        if (!*argument)
            cli_error("/save wants a file name");
        else if (cli_conversation_save(&c->talk, argument, &err) != QR_OK)
            cli_fail(&err);
        else
            fprintf(stderr, "(saved to %s)\n", argument);
    } else if (strcmp(line, "/stats") == 0) {
        c->stats = !c->stats;
        fprintf(stderr, "(%zu messages, %d tokens of %d in the context; timings %s)\n",
                json_array_size(c->talk.messages), c->talk.last.prompt_tokens + c->talk.last.output_tokens,
                qr_engine_max_len(c->session.engine), c->stats ? "on" : "off");
    } else {
        if (strcmp(line, "/help") != 0)
            cli_error("unknown command %s", line);
        print_help();
    }
    return true;
}

static int loop(struct chat *c)
{
    struct cli_prompt *prompt = cli_prompt_create();
    int code = CLI_OK;
    if (!prompt) {
        cli_error("out of memory");
        return CLI_FAILED;
    }
    for (;;) {
        size_t n;
        cli_interrupted = 0;
        char *line = cli_prompt_read(prompt, &n);
        if (!line)
            break;
        if (*line == '/') {
            if (!slash(c, line))
                break;
        } else if (n) {
            code = turn(c, line, n);
            if (!cli_prompt_interactive(prompt) && code != CLI_OK)
                break;
        }
    }
    cli_prompt_destroy(prompt);
    return code;
}

static int open_chat(const struct cli_command *command, struct chat *c, const char *path)
{
    int code = cli_open(command, &c->session, path, CLI_NEED_ENGINE);
    if (code != CLI_GO_ON)
        return code;
    code = cli_sampling(command, &c->session, &c->sampling);
    if (c->session.max_tokens == INT64_MIN)
        c->sampling.max_tokens = -1;
    if (code == CLI_GO_ON && !cli_conversation_init(&c->talk, c->system)) {
        cli_error("the system message is not valid UTF-8");
        code = CLI_FAILED;
    }
    return code;
}

int cmd_chat(const struct cli_command *command, int argc, char **argv)
{
    struct chat c = {0};
    struct cli_positional words;
    cli_session_init(&c.session);
    const struct cli_option own[] = {
        {"--system", NULL, CLI_TEXT, "TEXT", "the system message", &c.system, 0, 0},
        {"--prompt", "-p", CLI_TEXT, "TEXT", "the first message, as if typed", &c.first, 0, 0},
        {"--stats", NULL, CLI_FLAG, NULL, "timings after each answer", &c.stats, 0, 0},
        {0},
    };
    const struct cli_group groups[] = {{"Chat", own},
                                       {"Sampling", c.session.sampling_options},
                                       {"Model", c.session.model_options},
                                       {"Engine", c.session.engine_options},
                                       {0}};
    int code = cli_parse(command, groups, argc, argv, &words, 1);
    if (code != CLI_GO_ON)
        return code;
    if (c.session.logprobs >= 0)
        return cli_usage_error(command, "--logprobs needs complete --json");
    code = open_chat(command, &c, words.n ? words.arg[0] : NULL);
    if (code == CLI_GO_ON) {
        c.colour = cli_fancy(stderr);
        if (c.colour)
            fprintf(stderr, "%s, context of %d tokens. /help lists commands.\n", c.session.name,
                    qr_engine_max_len(c.session.engine));
        code = c.first ? turn(&c, c.first, strlen(c.first)) : CLI_OK;
        if (code == CLI_OK)
            code = loop(&c);
    }
    cli_conversation_free(&c.talk);
    cli_close(&c.session);
    return code;
}
