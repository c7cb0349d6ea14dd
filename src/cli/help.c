/* help.c - help texts, laid out from the option tables. */
#include "cli/help.h"
#include <stdio.h>
#include <string.h>

enum { COLUMN = 34, WIDTH = 100 };

/* Prints text from column COLUMN on, broken at blanks before WIDTH. */
static void print_wrapped(const char *text)
{
    size_t room = WIDTH - COLUMN;
    while (strlen(text) > room) {
        size_t n = room;
        while (n && text[n] != ' ')
            n--;
        if (!n)
            n = room;
        printf("%.*s\n%*s", (int)n, text, COLUMN, "");
        text += n + (text[n] == ' ');
    }
    printf("%s\n", text);
}

static void print_option(const struct cli_option *o)
{
    char left[96];
    int n = snprintf(left, sizeof left, "  %s%s%s%s%s", o->brief ? o->brief : "", o->brief ? ", " : "", o->name,
                     o->arg ? " " : "", o->arg ? o->arg : "");
    printf("%s", left);
    if (n > COLUMN - 2)
        printf("\n%*s", COLUMN, "");
    else
        printf("%*s", COLUMN - n, "");
    print_wrapped(o->help);
}

void cli_help_command(const struct cli_command *command, const struct cli_group *groups)
{
    printf("usage: quire %s %s\n\n%s\n", command->name, command->usage, command->summary);
    if (command->details)
        printf("\n%s\n", command->details);
    for (; groups->title; groups++) {
        if (!groups->option->name)
            continue;
        printf("\n%s\n", groups->title);
        for (const struct cli_option *o = groups->option; o->name; o++)
            print_option(o);
    }
    printf("\nEvery command\n");
    const struct cli_option common[] = {
        {"--config", NULL, CLI_TEXT, "FILE", "read options from lines 'key: value', keys without dashes", NULL, 0, 0},
        {"--help", "-h", CLI_FLAG, NULL, "this text", NULL, 0, 0},
    };
    print_option(&common[0]);
    print_option(&common[1]);
}

void cli_help_all(const struct cli_command *commands, size_t n)
{
    printf("quire - from a prompt to text: runs open-weight language models.\n\n"
           "usage: quire COMMAND [MODEL] [options]\n\n");
    for (size_t i = 0; i < n; i++)
        printf("  %-12s %s\n", commands[i].name, commands[i].summary);
    printf("\nMODEL is a .gguf file, a directory in Hugging Face layout, a repository such as Org/Name or\n"
           "Org/Name:Q4_K_M (from the Hugging Face cache, else downloaded), or dummy:SHAPE (random weights).\n"
           "Left out: the default model that `make run` fetched, or the one that QUIRE_MODEL names.\n\n"
           "  quire chat                              talk to the default model\n"
           "  quire complete -p 'Once upon a time'    continue a text\n"
           "  quire COMMAND -h                        all options of a command\n");
}
