/* input.c - files that the command line names, standard input, and lists of ids. */
#include "cli/input.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "cli/args.h"
#include "cli/ui.h"

/* Read to its end rather than by its size, so that a pipe does as well; Ctrl-C ends a wait for what never comes. */
static char *read_all(FILE *file, const char *name, size_t cap, size_t *n)
{
    struct qr_buf buf;
    char chunk[65536], *data = NULL;
    size_t got;
    qr_buf_init(&buf, cap);
    while ((got = fread(chunk, 1, sizeof chunk, file)) > 0)
        if (!qr_buf_append(&buf, chunk, got))
            break;
    if (ferror(file) && !cli_interrupted)
        cli_error("%s cannot be read: %s", name, strerror(errno));
    else if (buf.over)
        cli_error("%s holds more than %zu bytes, the most that is read of it", name, cap);
    else if (!cli_interrupted && !(data = qr_buf_take(&buf, n)))
        cli_error("out of memory while reading %s", name);
    qr_buf_free(&buf);
    return data;
}

char *cli_read_stdin(size_t *n)
{
    return read_all(stdin, "standard input", CLI_TEXT_CAP, n);
}

char *cli_read_file(const char *path, size_t cap, size_t *n)
{
    FILE *file = fopen(path, "re");
    if (!file) {
        if (!cli_interrupted)
            cli_error("%s cannot be opened: %s", path, strerror(errno));
        return NULL;
    }
    char *data = read_all(file, path, cap, n);
    fclose(file);
    return data;
}

bool cli_parse_ids(const char *text, int32_t **ids, size_t *n)
{
    size_t room = strlen(text) / 2 + 1;
    *n = 0;
    *ids = malloc(room * sizeof **ids);
    if (!*ids) {
        cli_error("out of memory");
        return false;
    }
    for (const char *p = text + strspn(text, " \t\r\n,"); *p; p += strspn(p, " \t\r\n,")) {
        char *end;
        errno = 0;
        long id = strtol(p, &end, 10);
        if (end == p || errno || id < 0 || id > INT32_MAX || (*end && !strchr(" \t\r\n,", *end))) {
            cli_error("'%.*s' is no token id: ids are whole numbers from 0, with blanks or commas between",
                      (int)strcspn(p, " \t\r\n,"), p);
            free(*ids);
            *ids = NULL;
            return false;
        }
        (*ids)[(*n)++] = (int32_t)id;
        p = end;
    }
    return true;
}
