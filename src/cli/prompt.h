/* prompt.h - a line from the user: with editing and history on a terminal (libedit), plain lines from a pipe. */
#ifndef QR_CLI_PROMPT_H
#define QR_CLI_PROMPT_H
#include <stdbool.h>
#include <stddef.h>

struct cli_prompt;
struct cli_prompt *cli_prompt_create(void);         /* NULL: out of memory */
void cli_prompt_destroy(struct cli_prompt *prompt); /* writes the history */
bool cli_prompt_interactive(const struct cli_prompt *prompt);
/* The next line without its end, "" after Ctrl-C; NULL at the end of input. Valid until the next call. A line that ends in a
 * backslash goes on in the next one. */
char *cli_prompt_read(struct cli_prompt *prompt, size_t *n);
#endif
