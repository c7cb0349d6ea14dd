/* input.h - files that the command line names, standard input, and lists of ids. Each prints its error. */
#ifndef QR_CLI_INPUT_H
#define QR_CLI_INPUT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLI_TEXT_CAP ((size_t)1 << 30) /* bytes of a text */

/* All of a file or pipe, at most cap bytes, NUL behind it; malloc'ed. NULL after an error or Ctrl-C. */
char *cli_read_file(const char *path, size_t cap, size_t *n);
/* The same of standard input, up to CLI_TEXT_CAP. */
char *cli_read_stdin(size_t *n);
/* "1,2,3" or "1 2 3" into malloc'ed ids; false after an error. */
bool cli_parse_ids(const char *text, int32_t **ids, size_t *n);
#endif
