/* batch_out.c - the results of a batch: appended line by line, taken up again after a crash. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/json.h"
#include "cli/batch_file.h"

#define LINE_START    "{\"id\": \"batch_req_" /* of every line that quire batch writes */
#define SYNC_EVERY_NS 1000000000

/* "c:ID" or "n:12" into *key, malloc'ed. */
static char *key_of(const char *custom_id, int64_t number)
{
    struct qr_buf buf;
    qr_buf_init(&buf, 0);
    if (custom_id)
        qr_buf_printf(&buf, "c:%s", custom_id);
    else
        qr_buf_printf(&buf, "n:%lld", (long long)number);
    if (!buf.failed)
        return qr_buf_take(&buf, &(size_t){0});
    qr_buf_free(&buf);
    return NULL;
}

static enum qr_status remember(struct cli_results *r, const char *custom_id, int64_t number, struct qr_err *err)
{
    char *key = key_of(custom_id, number);
    bool ok = key && json_object_set_new(r->done, key, json_true()) == 0;
    free(key);
    return ok ? QR_OK : qr_fail(err, QR_NOMEM, "out of memory for the list of requests that are answered");
}

bool cli_results_has(const struct cli_results *results, const char *custom_id, int64_t number)
{
    char *key = key_of(custom_id, number);
    bool has = key && json_object_get(results->done, key);
    free(key);
    return has;
}

static bool looks_like_ours(const struct qr_buf *line)
{
    size_t n = strlen(LINE_START) < line->len ? strlen(LINE_START) : line->len;
    return memcmp(line->data, LINE_START, n) == 0;
}

/* One line of the file. *broken: it is ours but does not parse, which only a last line may be. */
static enum qr_status take_line(struct cli_results *r, const struct cli_lines *lines, bool *broken, struct qr_err *err)
{
    json_t *line;
    *broken = false;
    if (!lines->too_long && !looks_like_ours(&lines->line))
        return qr_fail(err, QR_FORMAT, "%s line %lld was not written by quire batch: name another output file", r->path,
                       (long long)lines->number);
    if (cli_lines_parse(lines, &line, err) != QR_OK) {
        *broken = true;
        return QR_OK;
    }
    const char *custom_id = cli_custom_id(line);
    json_int_t number = json_integer_value(json_object_get(line, "input_line"));
    enum qr_status status = QR_OK;
    if (custom_id || number > 0)
        status = remember(r, custom_id, number, err);
    json_decref(line);
    return status;
}

/* Reads what is there; *keep is where the last whole line ends. */
static enum qr_status read_results(struct cli_results *r, struct cli_lines *lines, off_t *keep, struct qr_err *err)
{
    struct stat st;
    bool got, broken = false;
    for (;;) {
        QR_TRY(cli_lines_next(lines, &got, err));
        if (!got)
            return QR_OK;
        if (broken)
            return qr_fail(err, QR_FORMAT, "%s is damaged at line %lld: repair it or name another output file", r->path,
                           (long long)lines->number - 1);
        off_t end = ftello(lines->file);
        QR_TRY(take_line(r, lines, &broken, err));
        if (fstat(r->fd, &st) != 0)
            return qr_fail_errno(err, "%s cannot be read", r->path);
        char last = '\n';
        if (end == st.st_size && pread(r->fd, &last, 1, end - 1) != 1)
            return qr_fail_errno(err, "%s cannot be read", r->path);
        if (last != '\n')
            broken = true; /* written in part, though it may parse: what follows would join it */
        if (!broken)
            *keep = end;
    }
}

static enum qr_status restore(struct cli_results *r, struct qr_err *err)
{
    struct cli_lines lines;
    off_t keep = 0;
    enum qr_status status = cli_lines_open(&lines, r->path, 0, err);
    if (status == QR_OK)
        status = read_results(r, &lines, &keep, err);
    cli_lines_close(&lines);
    QR_TRY(status);
    if (ftruncate(r->fd, keep) != 0 || lseek(r->fd, keep, SEEK_SET) < 0)
        return qr_fail_errno(err, "%s cannot be cut to its last whole line", r->path);
    return QR_OK;
}

static enum qr_status open_file(struct cli_results *r, const char *in, struct qr_err *err)
{
    struct stat a, b;
    r->fd = open(r->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (r->fd < 0)
        return qr_fail_errno(err, "%s cannot be opened for writing", r->path);
    if (fstat(r->fd, &a) != 0 || !S_ISREG(a.st_mode))
        return qr_fail(err, QR_INVALID, "%s is no regular file: results are read again after a restart", r->path);
    if (stat(in, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return qr_fail(err, QR_INVALID, "%s is the input too: name another output file", r->path);
    if (flock(r->fd, LOCK_EX | LOCK_NB) != 0)
        return qr_fail(err, QR_BUSY, "%s is being written by another quire batch: wait for its end", r->path);
    return restore(r, err);
}

enum qr_status cli_results_open(struct cli_results *results, const char *path, const char *in, struct qr_err *err)
{
    *results = (struct cli_results){.fd = -1, .path = path, .done = json_object(), .synced_ns = qr_now_ns()};
    if (!results->done)
        return qr_fail(err, QR_NOMEM, "out of memory for the list of requests that are answered");
    enum qr_status status = open_file(results, in, err);
    if (status != QR_OK)
        cli_results_close(results, NULL);
    return status;
}

enum qr_status cli_results_close(struct cli_results *results, struct qr_err *err)
{
    enum qr_status status = QR_OK;
    struct stat now;
    if (results->fd >= 0 && fstat(results->fd, &now) == 0 && now.st_nlink == 0)
        status = qr_fail(err, QR_IO, "%s was deleted while it was written: the answers are lost", results->path);
    if (results->fd >= 0 && results->dirty && fsync(results->fd) != 0)
        status = qr_fail_errno(err, "%s cannot be written", results->path);
    if (results->fd >= 0 && close(results->fd) != 0 && status == QR_OK)
        status = qr_fail_errno(err, "%s cannot be written", results->path);
    json_decref(results->done);
    *results = (struct cli_results){.fd = -1};
    return status;
}

static enum qr_status write_all(struct cli_results *r, const char *data, size_t n, struct qr_err *err)
{
    while (n > 0) {
        ssize_t wrote = write(r->fd, data, n);
        if (wrote < 0 && errno != EINTR)
            return qr_fail_errno(err, "%s cannot be written: start again to go on when there is room", r->path);
        data += wrote > 0 ? wrote : 0;
        n -= wrote > 0 ? (size_t)wrote : 0;
    }
    return QR_OK;
}

enum qr_status cli_results_append(struct cli_results *results, const json_t *line, struct qr_err *err)
{
    /* ASCII, for readers that take U+2028 or U+0085 inside a string for the end of the line. */
    char *text = json_dumps(line, JSON_ENSURE_ASCII);
    size_t n = text ? strlen(text) : 0;
    if (!text)
        return qr_fail(err, QR_NOMEM, "out of memory for a result");
    text[n] = '\n'; /* in place of the NUL: the line and its end go in one write */
    enum qr_status status = write_all(results, text, n + 1, err);
    free(text);
    QR_TRY(status);
    results->dirty = true;
    int64_t now = qr_now_ns();
    if (now - results->synced_ns < SYNC_EVERY_NS)
        return QR_OK;
    if (fdatasync(results->fd) != 0)
        return qr_fail_errno(err, "%s cannot be written", results->path);
    results->synced_ns = now;
    results->dirty = false;
    return QR_OK;
}
