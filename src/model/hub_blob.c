/* hub_blob.c - one file of a repository into the cache: bytes into blobs/ETAG.incomplete, from where an earlier try
 * broke off, checked by size and SHA-256, renamed, and linked from the snapshot. */
#include <errno.h>
#include <fcntl.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "model/hub_parts.h"

#define MAX_TRIES 5 /* in a row that bring nothing */

struct blob {
    struct qr_hub *hub;
    const char *commit;
    const struct qr_hub_file *file;
    char *path, *part, *lock, *link; /* blobs/ETAG, blobs/ETAG.incomplete, .locks/..., snapshots/COMMIT/PATH */
    int fd, lock_fd;                 /* -1: closed */
    uint64_t at;                     /* bytes in part */
    bool hashed;                     /* the etag is a SHA-256 */
    SHA2_CTX sha;
    struct qr_err *err;
    struct qr_err failure; /* of begin or write; status QR_OK: they did not fail */
};

/* LFS files are named by their SHA-256; others by a hash of git, which says nothing of a part of them. */
static bool is_sha256(const char *etag)
{
    return strlen(etag) == 64 && strspn(etag, "0123456789abcdef") == 64;
}

static bool exists(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

/* ---------------------------------------------------------------- what has come */

/* Hands on what a callback said. */
static enum qr_status failed(struct blob *b)
{
    if (b->err)
        *b->err = b->failure;
    return b->failure.status;
}

static bool start_anew(struct blob *b)
{
    b->hub->done -= b->at < b->hub->done ? b->at : b->hub->done;
    b->at = 0;
    SHA256Init(&b->sha);
    if (ftruncate(b->fd, 0) == 0)
        return true;
    qr_fail_errno(&b->failure, "cannot empty %s", b->part);
    return false;
}

/* Takes up what an earlier try left. */
static enum qr_status take_up(struct blob *b)
{
    static const size_t room = 1 << 18;
    uint8_t *chunk;
    ssize_t n = 0;

    SHA256Init(&b->sha);
    b->at = 0;
    if (!b->hashed)
        return start_anew(b) ? QR_OK : failed(b);
    chunk = malloc(room);
    if (!chunk)
        return qr_fail(b->err, QR_NOMEM, "out of memory");
    while ((n = pread(b->fd, chunk, room, (off_t)b->at)) > 0 || (n < 0 && errno == EINTR)) {
        if (n < 0)
            continue;
        SHA256Update(&b->sha, chunk, (size_t)n);
        b->at += (uint64_t)n;
    }
    free(chunk);
    if (n < 0)
        return qr_fail_errno(b->err, "cannot read %s", b->part);
    b->hub->done += b->at;
    if (b->file->sized && b->at > b->file->size && !start_anew(b))
        return failed(b);
    return QR_OK;
}

static bool begin(void *ctx, const struct qr_http_reply *reply)
{
    struct blob *b = ctx;
    const struct qr_hub_file *f = b->file;

    if (reply->code == 206 && (!reply->has_range || reply->range_first != b->at)) {
        qr_fail(&b->failure, QR_FORMAT, "%.200s: the server was asked for bytes from %llu on and sends others", f->path,
                (unsigned long long)b->at);
        return false;
    }
    if (reply->code != 206 && b->at > 0 && !start_anew(b)) /* the server knows no ranges */
        return false;
    if (f->sized && reply->has_length && b->at + reply->length != f->size) {
        qr_fail(&b->failure, QR_FORMAT, "%.200s: the server sends %llu bytes, but the list of files says %llu", f->path,
                (unsigned long long)(b->at + reply->length), (unsigned long long)f->size);
        return false;
    }
    return true;
}

static bool write_bytes(void *ctx, const char *data, size_t n)
{
    struct blob *b = ctx;

    if (b->file->sized && n > b->file->size - b->at) {
        qr_fail(&b->failure, QR_FORMAT, "%.200s: the server sends more than the %llu bytes that it announced",
                b->file->path, (unsigned long long)b->file->size);
        return false;
    }
    SHA256Update(&b->sha, (const uint8_t *)data, n);
    while (n > 0) {
        ssize_t put = pwrite(b->fd, data, n, (off_t)b->at);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            qr_fail_errno(&b->failure, "cannot write %s", b->part);
            return false;
        }
        data += put;
        n -= (size_t)put;
        b->at += (uint64_t)put;
        b->hub->done += (uint64_t)put;
    }
    return true;
}

static bool tick(void *ctx)
{
    const struct qr_hub *hub = ((const struct blob *)ctx)->hub;

    return !hub->options->progress || hub->options->progress(hub->options->ctx, hub->done, hub->total);
}

/* ---------------------------------------------------------------- downloading */

/* One request; *again: a further one may do better. */
static enum qr_status try_once(struct blob *b, const char *url, struct qr_http_reply *reply, bool *again)
{
    const struct qr_hub_file *f = b->file;
    struct qr_http_request request = {.url = url,
                                      .home = b->hub->endpoint,
                                      .token = b->hub->token,
                                      .from = b->at,
                                      .begin = begin,
                                      .write = write_bytes,
                                      .tick = tick,
                                      .ctx = b};
    enum qr_status status;

    b->failure.status = QR_OK;
    status = qr_http_do(b->hub->http, &request, reply, b->err);
    *again = false;
    if (b->failure.status != QR_OK)
        return failed(b);
    *again = qr_hub_may_pass(reply, status);
    if (status != QR_OK)
        return status;
    if (reply->code == 416 && b->at > 0) {
        *again = true;
        return start_anew(b) ? qr_hub_refused(b->hub, f->path, reply, b->err) : failed(b);
    }
    if (reply->code / 100 != 2)
        return qr_hub_refused(b->hub, f->path, reply, b->err);
    if (!f->sized || b->at == f->size)
        return QR_OK;
    *again = true;
    snprintf(reply->message, sizeof reply->message, "the answer ended too early");
    return qr_fail(b->err, QR_IO, "%.150s: %s", f->path, reply->message);
}

static enum qr_status gave_up(struct blob *b, enum qr_status status, const struct qr_http_reply *reply)
{
    if (status != QR_IO || reply->code / 100 > 2)
        return status;
    return qr_fail(b->err, QR_IO,
                   "%.150s: the connection broke off at byte %llu of %llu (%.80s), and %d more tries brought nothing; "
                   "call it again and it goes on from there",
                   b->file->path, (unsigned long long)b->at, (unsigned long long)b->file->size, reply->message,
                   MAX_TRIES - 1);
}

static enum qr_status download(struct blob *b)
{
    struct qr_buf url;
    struct qr_http_reply reply = {0};
    enum qr_status status = QR_OK;
    bool again = true;

    qr_buf_init(&url, 0);
    if (!qr_hub_file_url(b->hub, b->commit, b->file->path, &url))
        status = qr_fail(b->err, QR_NOMEM, "out of memory");
    for (int n = 1; status == QR_OK && again && !(b->file->sized && b->at == b->file->size && b->at > 0);) {
        uint64_t before = b->at;

        status = try_once(b, url.data, &reply, &again);
        if (status == QR_OK || !again)
            break;
        n = b->at > before ? 1 : n + 1;
        if (n > MAX_TRIES) {
            status = gave_up(b, status, &reply);
            break;
        }
        status = qr_hub_wait(b->hub, qr_hub_pause(&reply, n - 1)) ? QR_OK : qr_fail(b->err, QR_CANCELLED, "stopped");
    }
    qr_buf_free(&url);
    return status;
}

static bool sum_is_right(struct blob *b)
{
    uint8_t sum[SHA256_DIGEST_LENGTH];
    char hex[2 * SHA256_DIGEST_LENGTH + 1];

    if (!b->hashed)
        return true;
    SHA256Final(sum, &b->sha);
    for (size_t i = 0; i < sizeof sum; i++)
        snprintf(hex + 2 * i, 3, "%02x", sum[i]);
    return strcmp(hex, b->file->etag) == 0;
}

static enum qr_status check_space(const struct blob *b)
{
    struct statvfs fs;
    uint64_t left, needed = b->file->size - b->at;

    if (!b->file->sized || fstatvfs(b->fd, &fs) != 0)
        return QR_OK;
    left = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (needed <= left)
        return QR_OK;
    return qr_fail(b->err, QR_LIMIT, "%.150s needs %.1f MB, but the disk of %.200s has %.1f MB left", b->file->path,
                   (double)needed / 1e6, b->hub->cache, (double)left / 1e6);
}

/* Holding the lock: the whole blob, checked, under its name. */
static enum qr_status get_blob(struct blob *b)
{
    b->fd = open(b->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (b->fd < 0)
        return qr_fail_errno(b->err, "cannot write %s", b->part);
    QR_TRY(take_up(b));
    QR_TRY(check_space(b));
    for (int n = 0;; n++) {
        bool taken_up = b->at > 0;

        QR_TRY(download(b));
        if (sum_is_right(b))
            break;
        if (!start_anew(b))
            return failed(b);
        /* what was taken up may have been another's; what came in one piece will not change */
        if (n > 0 || !taken_up)
            return qr_fail(b->err, QR_FORMAT, "%.200s: what came has another SHA-256 than the repository says (%s)",
                           b->file->path, b->file->etag);
        qr_hub_note(b->hub->options, "%s: the part that was there does not fit; fetching it anew", b->file->path);
    }
    if (fdatasync(b->fd) != 0 || rename(b->part, b->path) != 0)
        return qr_fail_errno(b->err, "cannot put %s in place", b->path);
    return QR_OK;
}

/* ---------------------------------------------------------------- the lock and the link */

static enum qr_status take_lock(struct blob *b)
{
    struct stat held, named;

    for (;;) {
        b->lock_fd = open(b->lock, O_RDWR | O_CREAT | O_CLOEXEC, 0664);
        if (b->lock_fd < 0)
            return qr_fail_errno(b->err, "cannot open the lock %s", b->lock);
        while (flock(b->lock_fd, LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK && errno != EINTR) /* a file system without locks: only speed is lost */
                return QR_OK;
            if (!qr_hub_wait(b->hub, 200))
                return qr_fail(b->err, QR_CANCELLED, "stopped");
        }
        /* who held it may have removed the file */
        if (fstat(b->lock_fd, &held) == 0 && stat(b->lock, &named) == 0 && held.st_ino == named.st_ino)
            return QR_OK;
        close(b->lock_fd);
        b->lock_fd = -1;
    }
}

/* snapshots/COMMIT/a/b -> ../../../blobs/ETAG, relative, so that the cache can be moved. */
static enum qr_status make_link(struct blob *b)
{
    struct qr_buf target, fresh;
    enum qr_status status = QR_OK;

    qr_buf_init(&target, 0);
    qr_buf_init(&fresh, 0);
    qr_buf_puts(&target, "../../");
    for (const char *p = b->file->path; (p = strchr(p, '/')); p++)
        qr_buf_puts(&target, "../");
    qr_buf_printf(&target, "blobs/%s", b->file->etag);
    qr_buf_printf(&fresh, "%s.new-%d", b->link, (int)getpid());
    if (target.failed || fresh.failed)
        status = qr_fail(b->err, QR_NOMEM, "out of memory");
    else if (symlink(target.data, fresh.data) != 0 || rename(fresh.data, b->link) != 0)
        status = qr_fail_errno(b->err, "cannot make the link %s", b->link);
    qr_buf_free(&target);
    qr_buf_free(&fresh);
    return status;
}

static enum qr_status name_paths(struct blob *b)
{
    const char *home = b->hub->home, *etag = b->file->etag;

    if (asprintf(&b->path, "%s/blobs/%s", home, etag) < 0)
        b->path = NULL;
    if (asprintf(&b->part, "%s/blobs/%s.incomplete", home, etag) < 0)
        b->part = NULL;
    if (asprintf(&b->lock, "%s/.locks/%s/%s.lock", b->hub->cache, strrchr(home, '/') + 1, etag) < 0)
        b->lock = NULL;
    if (asprintf(&b->link, "%s/snapshots/%s/%s", home, b->commit, b->file->path) < 0)
        b->link = NULL;
    if (!b->path || !b->part || !b->lock || !b->link)
        return qr_fail(b->err, QR_NOMEM, "out of memory");
    QR_TRY(qr_hub_make_dirs(b->path, b->err));
    QR_TRY(qr_hub_make_dirs(b->lock, b->err));
    return qr_hub_make_dirs(b->link, b->err);
}

/* Does the snapshot have the file, with this content? */
static bool is_linked(const struct blob *b)
{
    char target[512];
    ssize_t n = readlink(b->link, target, sizeof target - 1);
    const char *slash;

    if (n < 0) /* a file in place of a link: where huggingface_hub found no links to be possible */
        return exists(b->link);
    target[n] = 0;
    slash = strrchr(target, '/');
    return slash && strcmp(slash + 1, b->file->etag) == 0 && exists(b->link);
}

static enum qr_status get(struct blob *b)
{
    QR_TRY(name_paths(b));
    if (is_linked(b)) {
        b->hub->done += b->file->size;
        return QR_OK;
    }
    QR_TRY(take_lock(b));
    if (exists(b->path))
        b->hub->done += b->file->size;
    else
        QR_TRY(get_blob(b));
    return make_link(b);
}

enum qr_status qr_hub_get_file(struct qr_hub *hub, const char *commit, const struct qr_hub_file *file,
                               struct qr_err *err)
{
    struct blob b = {.hub = hub,
                     .commit = commit,
                     .file = file,
                     .fd = -1,
                     .lock_fd = -1,
                     .hashed = is_sha256(file->etag),
                     .err = err};
    enum qr_status status = get(&b);

    if (b.fd >= 0)
        close(b.fd);
    if (b.lock_fd >= 0)
        close(b.lock_fd);
    free(b.path);
    free(b.part);
    free(b.lock);
    free(b.link);
    return status;
}
