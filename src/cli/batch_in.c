/* batch_in.c - the lines of a batch's input. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include "base/json.h"
#include "cli/batch_file.h"

enum qr_status cli_lines_open(struct cli_lines *lines, const char *path, size_t cap, struct qr_err *err)
{
    struct stat st;
    *lines = (struct cli_lines){.path = path};
    qr_buf_init(&lines->line, cap);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return qr_fail(err, QR_INVALID, "%s is no regular file: a batch is read twice, so it cannot be a pipe", path);
    lines->file = fopen(path, "re");
    return lines->file ? QR_OK : qr_fail_errno(err, "%s cannot be opened", path);
}

void cli_lines_close(struct cli_lines *lines)
{
    if (lines->file)
        fclose(lines->file);
    qr_buf_free(&lines->line);
    *lines = (struct cli_lines){0};
}

/* One line up to its end; false at the end of the file. What goes over the cap is dropped. */
static bool read_line(struct cli_lines *l)
{
    int c = 0;
    size_t n = 0;
    char part[4096];
    qr_buf_clear(&l->line);
    while ((c = getc_unlocked(l->file)) != EOF && c != '\n') {
        part[n++] = (char)c;
        if (n == sizeof part) {
            qr_buf_append(&l->line, part, n);
            n = 0;
        }
    }
    bool got = c == '\n' || n > 0 || l->line.len > 0 || l->line.failed;
    qr_buf_append(&l->line, part, n);
    l->too_long = l->line.failed;
    l->number += got;
    return got;
}

static bool is_blank(const struct qr_buf *line)
{
    for (size_t i = 0; i < line->len; i++)
        if (!strchr(" \t\r", line->data[i]) || !line->data[i])
            return false;
    return !line->failed;
}

/* Some editors put a mark of UTF-8 before the first line. */
static void drop_mark(struct cli_lines *l)
{
    if (l->number == 1 && l->line.len >= 3 && memcmp(l->line.data, "\xef\xbb\xbf", 3) == 0) {
        memmove(l->line.data, l->line.data + 3, l->line.len - 3);
        l->line.len -= 3;
    }
}

enum qr_status cli_lines_next(struct cli_lines *lines, bool *got, struct qr_err *err)
{
    do {
        *got = read_line(lines);
        drop_mark(lines);
    } while (*got && is_blank(&lines->line));
    if (ferror(lines->file))
        return qr_fail_errno(err, "%s cannot be read", lines->path);
    return QR_OK;
}

enum qr_status cli_lines_parse(const struct cli_lines *lines, json_t **out, struct qr_err *err)
{
    char what[32];
    *out = NULL;
    snprintf(what, sizeof what, "line %lld", (long long)lines->number);
    if (lines->too_long)
        return qr_fail(err, QR_LIMIT, "%s is over %zu MB, or memory ran out", what, lines->line.cap >> 20);
    QR_TRY(qr_json_parse(lines->line.data, lines->line.len, what, out, err));
    if (json_is_object(*out))
        return QR_OK;
    json_decref(*out);
    *out = NULL;
    return qr_fail(err, QR_INVALID, "%s must be a JSON object", what);
}

const char *cli_custom_id(const json_t *line)
{
    const json_t *id = json_object_get(line, "custom_id");
    const char *text = json_string_value(id);
    return text && *text && strlen(text) == json_string_length(id) ? text : NULL;
}
