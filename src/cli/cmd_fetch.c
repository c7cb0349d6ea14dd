/* cmd_fetch.c - a repository of the Hugging Face hub into the cache. */
#include <stdio.h>
#include <stdlib.h>
#include "cli/commands.h"
#include "cli/hub.h"

int cmd_fetch(const struct cli_command *command, int argc, char **argv)
{
    struct cli_positional words;
    const struct cli_option own[] = {{0}};
    const struct cli_group groups[] = {{"Options", own}, {0}};
    char *path;
    int code = cli_parse(command, groups, argc, argv, &words, 1);
    if (code != CLI_GO_ON)
        return code;
    if (words.n < 1)
        return cli_usage_error(command, "give a repository, such as: quire fetch Qwen/Qwen2.5-0.5B-Instruct");
    code = cli_hub_fetch(words.arg[0], &path);
    if (code != CLI_GO_ON)
        return code;
    printf("%s\n", path);
    free(path);
    return CLI_OK;
}
