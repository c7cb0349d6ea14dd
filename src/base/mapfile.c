/* mapfile.c - whole files, mapped or read, and written atomically. */
#include "base/mapfile.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/buf.h"

/* Opens a regular file. O_NONBLOCK: opening a FIFO must not wait for a writer. */
static enum qr_status open_regular(const char *path, int *fd, uint64_t *size, struct qr_err *err)
{
    struct stat st;
    enum qr_status status = QR_OK;

    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return qr_fail_errno(err, "cannot open %s", path);
    if (fstat(*fd, &st) != 0)
        status = qr_fail_errno(err, "cannot read the size of %s", path);
    else if (!S_ISREG(st.st_mode))
        status = qr_fail(err, QR_IO, "%s is not a regular file but a %s", path,
                         S_ISDIR(st.st_mode)    ? "directory"
                         : S_ISFIFO(st.st_mode) ? "FIFO"
                                                : "device or socket");
    if (status != QR_OK) {
        close(*fd);
        return status;
    }
    *size = (uint64_t)st.st_size;
    return QR_OK;
}

enum qr_status qr_map_open(const char *path, struct qr_map *map, struct qr_err *err)
{
    enum qr_status status = QR_OK;
    void *data = NULL;
    uint64_t size = 0;
    int fd = -1;

    *map = (struct qr_map){0};
    QR_TRY(open_regular(path, &fd, &size, err));
    if (size > SIZE_MAX)
        status =
            qr_fail(err, QR_LIMIT, "%s has %llu bytes, more than this machine can map", path, (unsigned long long)size);
    else if (size > 0 && (data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
        status = qr_fail_errno(err, "cannot map %s (%llu bytes)", path, (unsigned long long)size);
    close(fd);
    if (status != QR_OK)
        return status;
    map->path = strdup(path);
    if (!map->path) {
        if (data)
            munmap(data, size);
        return qr_fail(err, QR_NOMEM, "out of memory while opening %s", path);
    }
    map->data = data;
    map->size = size;
    return QR_OK;
}

void qr_map_close(struct qr_map *map)
{
    if (map->data)
        munmap((void *)(uintptr_t)map->data, map->size);
    free(map->path);
    *map = (struct qr_map){0};
}

/* The mapping is read only, so a page dropped too much is only read again: round outwards. */
void qr_map_forget(const struct qr_map *map, uint64_t offset, uint64_t n)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t first = offset & ~(page - 1);

    if (!map->data || offset >= map->size || n == 0)
        return;
    if (n > map->size - offset)
        n = map->size - offset;
    madvise((void *)(uintptr_t)(map->data + first), offset + n - first, MADV_DONTNEED);
}

/* Reads fd up to its end; st_size was only a hint, the file may change meanwhile. */
static enum qr_status read_all(int fd, const char *path, uint64_t cap, struct qr_buf *buf, struct qr_err *err)
{
    for (;;) {
        ssize_t got;

        if (buf->room < buf->len + 2 && !qr_buf_reserve(buf, buf->len < 4096 ? 4096 : buf->len))
            return qr_fail(err, QR_NOMEM, "out of memory while reading %s", path);
        got = read(fd, buf->data + buf->len, buf->room - buf->len - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return qr_fail_errno(err, "cannot read %s", path);
        if (got == 0)
            break;
        buf->len += (size_t)got;
        if (buf->len > cap)
            return qr_fail(err, QR_LIMIT, "%s is larger than %llu bytes, the limit for such a file", path,
                           (unsigned long long)cap);
    }
    buf->data[buf->len] = 0;
    return QR_OK;
}

enum qr_status qr_read_file(const char *path, uint64_t cap, char **data, size_t *n, struct qr_err *err)
{
    enum qr_status status;
    struct qr_buf buf;
    uint64_t size = 0;
    int fd = -1;

    *data = NULL;
    *n = 0;
    QR_TRY(open_regular(path, &fd, &size, err));
    qr_buf_init(&buf, 0);
    if (size > cap)
        status = qr_fail(err, QR_LIMIT, "%s has %llu bytes; the limit for such a file is %llu", path,
                         (unsigned long long)size, (unsigned long long)cap);
    else if (!qr_buf_reserve(&buf, (size_t)size + 1)) /* one more: the read that finds the end */
        status = qr_fail(err, QR_NOMEM, "out of memory while reading %s (%llu bytes)", path, (unsigned long long)size);
    else
        status = read_all(fd, path, cap, &buf, err);
    close(fd);
    if (status == QR_OK && !(*data = qr_buf_take(&buf, n)))
        status = qr_fail(err, QR_NOMEM, "out of memory while reading %s", path);
    qr_buf_free(&buf);
    return status;
}

static bool write_all(int fd, const char *data, size_t n)
{
    while (n > 0) {
        ssize_t put = write(fd, data, n);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        data += put;
        n -= (size_t)put;
    }
    return true;
}

enum qr_status qr_write_file(const char *path, const void *data, size_t n, struct qr_err *err)
{
    enum qr_status status = QR_OK;
    char *temporary;
    int fd;

    if (asprintf(&temporary, "%s.tmp-%ld", path, (long)getpid()) < 0)
        return qr_fail(err, QR_NOMEM, "out of memory while writing %s", path);
    unlink(temporary); /* left by a process of the same number that died; O_EXCL then follows no link */
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        status = qr_fail_errno(err, "cannot create %s", temporary);
        free(temporary);
        return status;
    }
    if (!write_all(fd, data, n) || fsync(fd) != 0)
        status = qr_fail_errno(err, "cannot write %s (%zu bytes)", path, n);
    if (close(fd) != 0 && status == QR_OK)
        status = qr_fail_errno(err, "cannot write %s (%zu bytes)", path, n);
    if (status == QR_OK && rename(temporary, path) != 0)
        status = qr_fail_errno(err, "cannot rename %s to %s", temporary, path);
    if (status != QR_OK)
        unlink(temporary);
    free(temporary);
    return status;
}

const char *qr_file_mistaken(const void *data, uint64_t n)
{
    static const char lfs[] = "version https://git-lfs";
    static const char *const page[] = {"<!doctype html", "<html"};

    if (n >= sizeof lfs - 1 && memcmp(data, lfs, sizeof lfs - 1) == 0)
        return "a pointer of Git LFS, not the file itself: fetch that with git lfs pull, or with quire fetch";
    for (int i = 0; i < 2; i++)
        if (n >= strlen(page[i]) && strncasecmp(data, page[i], strlen(page[i])) == 0)
            return "a web page, not the file itself: download it again";
    return NULL;
}
