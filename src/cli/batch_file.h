/* batch_file.h - the two files of `quire batch`: lines in, and lines out that survive a crash. */
#ifndef QR_CLI_BATCH_FILE_H
#define QR_CLI_BATCH_FILE_H
#include <jansson.h>
#include <stdio.h>
#include "base/buf.h"
#include "base/err.h"

/* ---------------------------------------------------------------- in */

struct cli_lines {
    FILE *file;
    const char *path;
    struct qr_buf line; /* the current one, without its end */
    int64_t number;     /* from 1 */
    bool too_long;      /* over the limit: line holds its start */
};
#define CLI_BATCH_LINE_CAP ((size_t)64 << 20)
/* cap: bytes of a line; 0: no limit. */
enum qr_status cli_lines_open(struct cli_lines *lines, const char *path, size_t cap, struct qr_err *err);
void cli_lines_close(struct cli_lines *lines); /* a zeroed struct is fine */
/* The next line that is not blank; *got is false at the end of the file. */
enum qr_status cli_lines_next(struct cli_lines *lines, bool *got, struct qr_err *err);
/* The current line as JSON; an error that names the line. */
enum qr_status cli_lines_parse(const struct cli_lines *lines, json_t **out, struct qr_err *err);
/* NULL: the line has no custom_id that could name it. */
const char *cli_custom_id(const json_t *line);

/* ---------------------------------------------------------------- out */

struct cli_results {
    int fd;
    const char *path;
    json_t *done; /* a set: custom_ids, as "c:ID", and numbers of lines that have none, as "n:12" */
    int64_t synced_ns;
    bool dirty;
};
/* Opens or makes the file, locks it, reads which requests are answered, and cuts off a last line that was written in
 * part. Refuses a file that holds anything else. in: the input's path, which may not be the same file. */
enum qr_status cli_results_open(struct cli_results *results, const char *path, const char *in, struct qr_err *err);
enum qr_status cli_results_close(struct cli_results *results,
                                 struct qr_err *err); /* syncs; a zeroed struct with fd -1 */
bool cli_results_has(const struct cli_results *results, const char *custom_id, int64_t number);
/* Appends one line in one piece and, now and then, makes sure that it is on the disk. */
enum qr_status cli_results_append(struct cli_results *results, const json_t *line, struct qr_err *err);
#endif
