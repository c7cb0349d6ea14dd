/* args.c - parsing of options. */
#include "cli/args.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/help.h"
#include "cli/input.h"

enum { MAX_NAMES = 128, CONFIG_CAP = 1 << 20 };

void cli_error(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fflush(stdout);
    fputs("error: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
}

int cli_usage_error(const struct cli_command *command, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("error: ", stderr);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\nsee: quire %s -h\n", command->name);
    va_end(ap);
    return CLI_USAGE;
}

static const struct cli_option *find(const struct cli_group *groups, const char *name, size_t n)
{
    for (; groups->title; groups++) {
        for (const struct cli_option *o = groups->option; o->name; o++) {
            if (strlen(o->name) == n && memcmp(o->name, name, n) == 0)
                return o;
            if (o->brief && strlen(o->brief) == n && memcmp(o->brief, name, n) == 0)
                return o;
        }
    }
    return NULL;
}

/* where: "", or the place in a file, with a colon and a blank behind it. */
static int unknown_option(const struct cli_command *command, const struct cli_group *groups, const char *where,
                          const char *name, size_t n)
{
    const char *names[MAX_NAMES];
    size_t n_names = 0;
    for (; groups->title; groups++)
        for (const struct cli_option *o = groups->option; o->name && n_names < MAX_NAMES; o++)
            names[n_names++] = o->name;
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(n < 63 ? n : 63), name);
    const char *near = cli_nearest(word, names, n_names);
    if (near)
        return cli_usage_error(command, "%sunknown option %s: did you mean %s?", where, word, near);
    if (strcmp(word, "--model") == 0 || strcmp(word, "-m") == 0)
        return cli_usage_error(command, "%sthere is no option %s: MODEL is a word of its own, or QUIRE_MODEL names it",
                               where, word);
    return cli_usage_error(command, "%sunknown option %s", where, word);
}

static int store_number(const struct cli_command *command, const struct cli_option *o, const char *value)
{
    char *end;
    errno = 0;
    if (o->kind == CLI_INT) {
        if (strcmp(value, "auto") == 0 && o->min <= 0) {
            *(int64_t *)o->out = 0;
            return CLI_GO_ON;
        }
        long long v = strtoll(value, &end, 10);
        if (end == value || *end)
            return cli_usage_error(command, "%s wants a whole number, not '%s'", o->name, value);
        if (errno || (double)v < o->min || (double)v > o->max)
            return cli_usage_error(command, "%s is %s: it must lie between %.0f and %.0f", o->name, value, o->min,
                                   o->max);
        *(int64_t *)o->out = v;
        return CLI_GO_ON;
    }
    double v = strtod(value, &end);
    if (end == value || *end || isnan(v))
        return cli_usage_error(command, "%s wants a number, not '%s'", o->name, value);
    if (v < o->min || v > o->max)
        return cli_usage_error(command, "%s is %s: it must lie between %g and %g", o->name, value, o->min, o->max);
    *(double *)o->out = v;
    return CLI_GO_ON;
}

static int store(const struct cli_command *command, const struct cli_option *o, const char *value)
{
    struct cli_list *list = o->out;
    switch (o->kind) {
    case CLI_FLAG:
        *(bool *)o->out = true;
        return CLI_GO_ON;
    case CLI_NOFLAG:
        *(bool *)o->out = false;
        return CLI_GO_ON;
    case CLI_TEXT:
        *(const char **)o->out = value;
        return CLI_GO_ON;
    case CLI_LIST:
        if (list->n == CLI_LIST_MAX)
            return cli_usage_error(command, "%s may be given at most %d times", o->name, CLI_LIST_MAX);
        list->item[list->n++] = value;
        return CLI_GO_ON;
    case CLI_INT:
    case CLI_REAL:
        break;
    }
    return store_number(command, o, value);
}

/* One line `key: value` of a --config file; keys without the dashes, # starts a comment, flags take true or false. */
static int config_line(const struct cli_command *command, const struct cli_group *groups, char *line, const char *path,
                       int number)
{
    char *hash = line;
    while ((hash = strchr(hash, '#')) && hash != line && hash[-1] != ' ')
        hash++;
    if (hash)
        *hash = 0;
    line += strspn(line, " \t\r");
    for (size_t n = strlen(line); n && strchr(" \t\r", line[n - 1]); n--)
        line[n - 1] = 0;
    if (!*line)
        return CLI_GO_ON;
    char *colon = strchr(line, ':');
    if (!colon)
        return cli_usage_error(command, "%s line %d: expected 'key: value', found '%s'", path, number, line);
    char name[64];
    snprintf(name, sizeof name, "--%.*s", (int)(colon - line < 60 ? colon - line : 60), line);
    for (char *c = name; *c; c++)
        if (*c == '_')
            *c = '-';
    char *value = colon + 1 + strspn(colon + 1, " \t");
    size_t n_value = strlen(value);
    if (n_value >= 2 && (*value == '"' || *value == '\'') && value[n_value - 1] == *value) {
        value[n_value - 1] = 0;
        value++;
    }
    const struct cli_option *o = find(groups, name, strlen(name));
    if (!o) {
        char where[300];
        snprintf(where, sizeof where, "%.250s line %d: ", path, number);
        return unknown_option(command, groups, where, name, strlen(name));
    }
    if (o->kind == CLI_FLAG || o->kind == CLI_NOFLAG) {
        if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
            return cli_usage_error(command, "%s line %d: %s takes true or false, not '%s'", path, number, name + 2,
                                   value);
        *(bool *)o->out = (strcmp(value, "true") == 0) == (o->kind == CLI_FLAG);
        return CLI_GO_ON;
    }
    return store(command, o, value);
}

static int read_config(const struct cli_command *command, const struct cli_group *groups, const char *path)
{
    static char *kept; /* values point into it */
    size_t n;
    if (kept)
        return cli_usage_error(command, "--config is given twice");
    char *data = cli_read_file(path, CONFIG_CAP, &n);
    if (!data)
        return CLI_FAILED;
    kept = data;
    int number = 0;
    for (char *line = data, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        int code = config_line(command, groups, line, path, ++number);
        if (code != CLI_GO_ON)
            return code;
    }
    return CLI_GO_ON;
}

/* --config is read before all else, so that words of the command line win. */
static int config_first(const struct cli_command *command, const struct cli_group *groups, int argc, char **argv)
{
    for (int i = 0; i < argc && argv[i] && strcmp(argv[i], "--") != 0; i++) {
        const char *path = NULL;
        if (strncmp(argv[i], "--config=", 9) == 0)
            path = argv[i] + 9;
        else if (strcmp(argv[i], "--config") == 0 && i + 1 < argc)
            path = argv[i + 1];
        int code = path ? read_config(command, groups, path) : CLI_GO_ON;
        if (code != CLI_GO_ON)
            return code;
    }
    return CLI_GO_ON;
}

static int one_option(const struct cli_command *command, const struct cli_group *groups, int argc, char **argv, int *i)
{
    const char *word = argv[*i], *equal = word[1] == '-' ? strchr(word, '=') : NULL;
    size_t n = equal ? (size_t)(equal - word) : strlen(word);
    bool is_config = n == 8 && memcmp(word, "--config", 8) == 0;
    const struct cli_option *o = is_config ? NULL : find(groups, word, n);
    if (!o && !is_config)
        return unknown_option(command, groups, "", word, n);
    if (o && (o->kind == CLI_FLAG || o->kind == CLI_NOFLAG)) {
        if (equal)
            return cli_usage_error(command, "%s takes no value", o->name);
        return store(command, o, NULL);
    }
    const char *value = equal ? equal + 1 : NULL;
    if (!value) {
        if (*i + 1 >= argc)
            return cli_usage_error(command, "%.*s wants a value", (int)n, word);
        value = argv[++*i];
    }
    return is_config ? CLI_GO_ON : store(command, o, value);
}

int cli_parse(const struct cli_command *command, const struct cli_group *groups, int argc, char **argv,
              struct cli_positional *positional, int max_positional)
{
    positional->n = 0;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
            cli_help_command(command, groups);
            return CLI_OK;
        }
    }
    int code = config_first(command, groups, argc, argv);
    bool options = true;
    for (int i = 0; i < argc && code == CLI_GO_ON; i++) {
        if (options && strcmp(argv[i], "--") == 0)
            options = false;
        else if (options && argv[i][0] == '-' && argv[i][1])
            code = one_option(command, groups, argc, argv, &i);
        else if (positional->n == max_positional)
            code = cli_usage_error(command, "'%s' is one word too many", argv[i]);
        else
            positional->arg[positional->n++] = argv[i];
    }
    return code;
}
