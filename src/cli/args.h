/* args.h - options of the commands: parsing, help, and the nearest name for one that is unknown. */
#ifndef QR_CLI_ARGS_H
#define QR_CLI_ARGS_H
#include <stdbool.h>
#include <stddef.h>

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 }; /* exit codes */
enum { CLI_GO_ON = -1 };                                                   /* cli_parse: nothing ended the run */

enum cli_kind {
    CLI_FLAG,   /* bool *: set to true */
    CLI_NOFLAG, /* bool *: set to false */
    CLI_INT,    /* int64_t * in [min, max]; the word "auto" gives 0 where min <= 0 */
    CLI_REAL,   /* double * in [min, max] */
    CLI_TEXT,   /* const char ** */
    CLI_LIST    /* struct cli_list *: may be given many times */
};

#define CLI_LIST_MAX 64
struct cli_list {
    const char *item[CLI_LIST_MAX];
    size_t n;
};

struct cli_option {
    const char *name;  /* "--top-p"; NULL ends a group */
    const char *brief; /* "-p" or NULL */
    enum cli_kind kind;
    const char *arg; /* "N"; NULL for flags */
    const char *help;
    void *out;
    double min, max;
};

struct cli_group {
    const char *title;
    const struct cli_option *option; /* ends with a NULL name */
};

struct cli_command {
    const char *name;    /* "complete" */
    const char *usage;   /* "[MODEL] -p TEXT [options]" */
    const char *summary; /* one line for `quire help` */
    const char *details; /* more lines for `quire NAME -h`, may be NULL */
    int (*run)(const struct cli_command *command, int argc, char **argv);
};

#define CLI_MAX_POSITIONAL 4
struct cli_positional {
    const char *arg[CLI_MAX_POSITIONAL];
    int n;
};

/* Parses argv[0 .. argc) (the words behind the command). groups end with a NULL title. `--config FILE` is known everywhere:
 * lines `key: value` are taken as if they stood in front. Returns CLI_GO_ON, or the exit code after it printed help or an error.
 * Strings of a --config file are never freed: they live as long as the program. */
int cli_parse(const struct cli_command *command, const struct cli_group *groups, int argc, char **argv,
              struct cli_positional *positional, int max_positional);

/* "error: ..." on standard error. */
void cli_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* An error of usage, with a pointer to the command's help; returns CLI_USAGE. */
int cli_usage_error(const struct cli_command *command, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The name nearest to word by edit distance among n names; NULL when none is near. */
const char *cli_nearest(const char *word, const char *const *names, size_t n);
#endif
