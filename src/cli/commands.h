/* commands.h - the commands, one file each. */
#ifndef QR_CLI_COMMANDS_H
#define QR_CLI_COMMANDS_H
#include "cli/args.h"
int cmd_chat(const struct cli_command *command, int argc, char **argv);
int cmd_complete(const struct cli_command *command, int argc, char **argv);
int cmd_batch(const struct cli_command *command, int argc, char **argv);
int cmd_serve(const struct cli_command *command, int argc, char **argv);
int cmd_bench(const struct cli_command *command, int argc, char **argv);
int cmd_plan(const struct cli_command *command, int argc, char **argv);
int cmd_info(const struct cli_command *command, int argc, char **argv);
int cmd_tokenize(const struct cli_command *command, int argc, char **argv);
int cmd_detokenize(const struct cli_command *command, int argc, char **argv);
int cmd_template(const struct cli_command *command, int argc, char **argv);
int cmd_score(const struct cli_command *command, int argc, char **argv);
int cmd_fetch(const struct cli_command *command, int argc, char **argv);
int cmd_synth(const struct cli_command *command, int argc, char **argv);
int cmd_version(const struct cli_command *command, int argc, char **argv);
#endif
