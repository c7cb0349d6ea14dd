/* input.c - standard input and lists of ids. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "cli/session.h"
#include "cli/ui.h"

char *cli_read_stdin(size_t *n)
{
    struct qr_buf buf;
    char chunk[65536];
    size_t got;
    qr_buf_init(&buf, (size_t)1 << 30);
    while ((got = fread(chunk, 1, sizeof chunk, stdin)) > 0)
        if (!qr_buf_append(&buf, chunk, got))
            break;
    if (ferror(stdin) && !cli_interrupted)
        cli_error("standard input cannot be read: %s", strerror(errno));
    else if (buf.failed)
        cli_error("standard input is over 1 GB, or memory ran out");
    else if (!cli_interrupted) {
        char *data = qr_buf_take(&buf, n);
        if (data)
            return data;
        cli_error("out of memory");
    }
    qr_buf_free(&buf);
    return NULL;
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
