/* synth.c - a random model at a path: written beside it under a name of this process, put in its place when whole. */
#include "model/synth.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "model/synth_parts.h"

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* A file that qr_synth_hf makes; only these are ever deleted. */
static bool own_file(const char *name)
{
    static const char *const fixed[] = {"config.json", "generation_config.json", "tokenizer.json",
                                        "tokenizer_config.json", "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        if (strcmp(name, fixed[i]) == 0)
            return true;
    return strncmp(name, "model", 5) == 0 && ends_in(name, ".safetensors");
}

/* Every file of the directory that synth could have made is removed, then the directory when nothing else is there. */
static void remove_dir(const char *dir)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        if (own_file(e->d_name) || strstr(e->d_name, ".tmp-"))
            unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    rmdir(dir);
}

static void remove_any(const char *path, bool gguf)
{
    if (gguf)
        unlink(path);
    else
        remove_dir(path);
}

/* What stands at path may be replaced: a regular file by a file, a directory of synth's own files by a directory. */
static enum qr_status check_replaceable(const char *path, bool gguf, struct qr_err *err)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return qr_fail_errno(err, "cannot look at %s", path);
    if (gguf)
        return S_ISREG(st.st_mode) ? QR_OK
                                   : qr_fail(err, QR_INVALID, "%s is no regular file: remove it yourself", path);
    DIR *d = S_ISDIR(st.st_mode) ? opendir(path) : NULL;
    if (!d)
        return qr_fail(err, QR_INVALID, "%s is no directory that can be read: remove it yourself", path);
    enum qr_status status = QR_OK;
    for (struct dirent *e = readdir(d); e && status == QR_OK; e = readdir(d))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && !own_file(e->d_name))
            status = qr_fail(err, QR_INVALID, "%s holds %.100s, which is no part of a random model: remove it yourself",
                             path, e->d_name);
    closedir(d);
    return status;
}

/* The finished thing takes the path; what an overwrite replaces is deleted after. */
static enum qr_status put_in_place(const char *temporary, const char *path, bool gguf, bool overwrite,
                                   struct qr_err *err)
{
    if (renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
        return QR_OK;
    if (errno == EINVAL && access(path, F_OK) != 0) /* a file system that cannot tell */
        return rename(temporary, path) == 0 ? QR_OK : qr_fail_errno(err, "cannot rename %s to %s", temporary, path);
    if (errno == EEXIST && !overwrite)
        return qr_fail(err, QR_INVALID, "%s exists already: choose another path, or overwrite it (--overwrite)", path);
    if (errno != EEXIST && errno != EINVAL)
        return qr_fail_errno(err, "cannot rename %s to %s", temporary, path);
    QR_TRY(check_replaceable(path, gguf, err));
    if (gguf)
        return rename(temporary, path) == 0 ? QR_OK : qr_fail_errno(err, "cannot rename %s to %s", temporary, path);
    if (renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_EXCHANGE) == 0) {
        remove_dir(temporary);
        return QR_OK;
    }
    remove_dir(path);
    return rename(temporary, path) == 0 ? QR_OK : qr_fail_errno(err, "cannot rename %s to %s", temporary, path);
}

static enum qr_status check_arguments(const char *path, enum qr_dtype type, bool gguf, bool overwrite,
                                      struct qr_err *err)
{
    struct stat st;
    bool plain = type == QR_F32 || type == QR_F16 || type == QR_BF16;
    if (!plain && (!gguf || (type != QR_Q8_0 && type != QR_Q4_0 && type != QR_Q4_1)))
        return qr_fail(err, QR_UNSUPPORTED,
                       "type %s cannot be written %s: choose F32, F16 or BF16 (Q8_0, Q4_0, Q4_1 for GGUF)",
                       qr_dtype_info(type)->name, gguf ? "here" : "to a Hugging Face directory");
    if (lstat(path, &st) == 0) {
        if (!overwrite)
            return qr_fail(err, QR_INVALID, "%s exists already: choose another path, or overwrite it (--overwrite)",
                           path);
        return check_replaceable(path, gguf, err);
    }
    return QR_OK;
}

static enum qr_status write_at(struct qr_synth *s, uint64_t seed, const char *temporary, bool gguf, struct qr_err *err)
{
    struct qr_source *source;
    QR_TRY(qr_source_random(s->config, seed, s->type, &source, err));
    s->source = source;
    for (uint64_t i = 0; i < qr_source_n_tensor(source); i++)
        s->total += qr_source_at(source, i)->bytes;
    enum qr_status status = qr_pool_create(0, &s->pool, err);
    if (status == QR_OK) {
        if (gguf)
            status = qr_synth_gguf(s, temporary, err);
        else if (mkdir(temporary, 0777) != 0)
            status = qr_fail_errno(err, "cannot make %s", temporary);
        else
            status = qr_synth_hf(s, temporary, err);
    }
    qr_pool_destroy(s->pool);
    qr_source_close(source);
    return status;
}

enum qr_status qr_synth_write(const struct qr_config *config, uint64_t seed, enum qr_dtype type, const char *path,
                              uint64_t shard_bytes, bool overwrite,
                              bool (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx, struct qr_err *err)
{
    bool gguf = ends_in(path, ".gguf");
    char clean[4096], temporary[sizeof(clean) + 32];
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    if (n == 0 || n >= sizeof(clean) - 32)
        return qr_fail(err, QR_INVALID, "a path of %zu bytes cannot be written; 1 to 4000 can", strlen(path));
    snprintf(clean, sizeof(clean), "%.*s", (int)n, path);
    snprintf(temporary, sizeof(temporary), "%s.tmp-%ld", clean, (long)getpid());
    QR_TRY(qr_config_check(config, err));
    QR_TRY(check_arguments(clean, type, gguf, overwrite, err));
    struct qr_synth synth = {
        .config = config, .type = type, .shard_bytes = shard_bytes, .progress = progress, .ctx = ctx};
    remove_any(temporary, gguf); /* left by a process of the same number that died */
    enum qr_status status = write_at(&synth, seed, temporary, gguf, err);
    if (status == QR_OK)
        status = put_in_place(temporary, clean, gguf, overwrite, err);
    if (status != QR_OK)
        remove_any(temporary, gguf);
    return status;
}
