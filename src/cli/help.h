/* help.h - help texts. */
#ifndef QR_CLI_HELP_H
#define QR_CLI_HELP_H
#include "cli/args.h"
void cli_help_command(const struct cli_command *command, const struct cli_group *groups);
/* The page of `quire help`. */
void cli_help_all(const struct cli_command *commands, size_t n);
#endif
