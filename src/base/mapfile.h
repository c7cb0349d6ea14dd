/* mapfile.h - a file mapped read only, or read whole. Regular files only: a FIFO, device or directory
 * is refused. A file that shrinks while mapped raises SIGBUS; qr_map_guard turns that into an error. */
#ifndef QR_BASE_MAPFILE_H
#define QR_BASE_MAPFILE_H
#include <stdint.h>
#include "base/err.h"

struct qr_map {
    const uint8_t *data; /* NULL when the file is empty */
    uint64_t size;
    char *path;
};

enum qr_status qr_map_open(const char *path, struct qr_map *map, struct qr_err *err);
void qr_map_close(struct qr_map *map); /* a zeroed struct is fine */
/* Lets the kernel drop the pages of [offset, offset + n): they were copied elsewhere. */
void qr_map_forget(const struct qr_map *map, uint64_t offset, uint64_t n);
/* Runs fn(ctx) on this thread; if it touches a page that the file lost meanwhile, returns QR_IO. fn must
 * hold no lock and own nothing that would leak. */
enum qr_status qr_map_guard(const struct qr_map *map, enum qr_status (*fn)(void *ctx, struct qr_err *err), void *ctx,
                            struct qr_err *err);

/* A whole file, NUL behind it, at most cap bytes (else QR_LIMIT). *data is malloc'ed. */
enum qr_status qr_read_file(const char *path, uint64_t cap, char **data, size_t *n, struct qr_err *err);
/* What often lies where a file should be, by its beginning: "a pointer of Git LFS, not the file: ...", "a web page"; NULL: neither. */
const char *qr_file_mistaken(const void *data, uint64_t n);
/* Writes path.tmp-PID and renames it, so that a reader sees the old file or the new one. */
enum qr_status qr_write_file(const char *path, const void *data, size_t n, struct qr_err *err);
#endif
