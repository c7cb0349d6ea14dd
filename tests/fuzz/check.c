/* check.c - see check.h. */
#include "fuzz/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

void check_error(enum qr_status status, const struct qr_err *err)
{
    size_t n = strlen(err->message);

    if (status == QR_OK)
        return;
    if (getenv("FUZZ_SHOW"))
        fprintf(stderr, "error: %s\n", err->message);
    if (status != err->status || status == QR_INTERNAL || status == QR_NOMEM || n == 0 || n >= 400 ||
        strchr(err->message, '\n')) {
        fprintf(stderr, "fuzz: status %d, error of status %d with %zu bytes: %s\n", (int)status, (int)err->status, n,
                err->message);
        abort();
    }
}

static char *copy(const uint8_t *data, size_t n)
{
    char *out = malloc(n + !n);

    check(out != NULL, "no memory");
    memcpy(out, data, n);
    return out;
}

struct parts parts_of(const uint8_t *data, size_t n)
{
    const uint8_t *end = n ? memchr(data, 0, n) : NULL;
    struct parts parts = {.n_first = end ? (size_t)(end - data) : n};

    parts.first = copy(data, parts.n_first);
    if (end) {
        parts.n_rest = n - parts.n_first - 1;
        parts.rest = copy(end + 1, parts.n_rest);
    }
    return parts;
}

void parts_free(struct parts *parts)
{
    free(parts->first);
    free(parts->rest);
}
