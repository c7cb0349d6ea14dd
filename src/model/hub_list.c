/* hub_list.c - the files of a repository, as the hub or a snapshot on disk has them. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "model/hub_parts.h"

#define MAX_FILES 100000
#define MAX_DEPTH 8

void qr_hub_list_free(struct qr_hub_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->file[i].path);
    free(list->file);
    *list = (struct qr_hub_list){0};
}

/* Relative, every part of it a name, no control characters. */
static bool is_inside(const char *path)
{
    size_t n = strlen(path), depth = 0;

    if (n == 0 || n > 1000)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)path[i] < 0x20 || path[i] == '\\' || path[i] == 0x7F)
            return false;
    for (const char *part = path;; part += strcspn(part, "/") + 1) {
        size_t length = strcspn(part, "/");

        if (length == 0 || length > 255 || ++depth > MAX_DEPTH || (length == 1 && part[0] == '.') ||
            (length == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        if (!part[length])
            return true;
    }
}

enum qr_status qr_hub_list_add(struct qr_hub_list *list, const char *path, struct qr_hub_file **file,
                               struct qr_err *err)
{
    if (!is_inside(path))
        return qr_fail(err, QR_FORMAT, "the repository names a file \"%.100s\", which could lie outside the cache",
                       path);
    if (list->n >= MAX_FILES)
        return qr_fail(err, QR_LIMIT, "the repository has more than the limit of %d files", MAX_FILES);
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        struct qr_hub_file *more = realloc(list->file, room * sizeof *more);

        if (!more)
            return qr_fail(err, QR_NOMEM, "out of memory for %zu files", room);
        list->file = more;
        list->room = room;
    }
    *file = &list->file[list->n];
    **file = (struct qr_hub_file){.path = strdup(path)};
    if (!(*file)->path)
        return qr_fail(err, QR_NOMEM, "out of memory for a file's name");
    list->n++;
    return QR_OK;
}

/* root/inside; inside ends in a slash, or is empty. */
static enum qr_status walk(const char *root, const char *inside, int depth, struct qr_hub_list *list,
                           struct qr_err *err);

static enum qr_status visit(const char *root, const char *path, int depth, struct qr_hub_list *list, struct qr_err *err)
{
    struct qr_hub_file *file;
    struct stat st;
    struct qr_buf text;
    enum qr_status status = QR_OK;

    qr_buf_init(&text, 0);
    if (!qr_buf_printf(&text, "%s/%s", root, path)) {
        status = qr_fail(err, QR_NOMEM, "out of memory");
    } else if (stat(text.data, &st) == 0 && S_ISREG(st.st_mode) && is_inside(path)) {
        status = qr_hub_list_add(list, path, &file, err);
        if (status == QR_OK) {
            file->size = (uint64_t)st.st_size;
            file->sized = true;
        }
    } else if (stat(text.data, &st) == 0 && S_ISDIR(st.st_mode) && depth < MAX_DEPTH) {
        qr_buf_clear(&text);
        status = qr_buf_printf(&text, "%s/", path) ? walk(root, text.data, depth + 1, list, err)
                                                   : qr_fail(err, QR_NOMEM, "out of memory");
    }
    qr_buf_free(&text);
    return status;
}

static enum qr_status walk(const char *root, const char *inside, int depth, struct qr_hub_list *list,
                           struct qr_err *err)
{
    struct qr_buf path;
    DIR *stream;
    const struct dirent *entry;
    enum qr_status status = QR_OK;

    qr_buf_init(&path, 0);
    stream = qr_buf_printf(&path, "%s/%s", root, inside) ? opendir(path.data) : NULL;
    if (!stream)
        status = qr_fail_errno(err, "cannot read the directory %s/%s", root, inside);
    while (status == QR_OK && (entry = readdir(stream))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        qr_buf_clear(&path);
        status = qr_buf_printf(&path, "%s%s", inside, entry->d_name) ? visit(root, path.data, depth, list, err)
                                                                     : qr_fail(err, QR_NOMEM, "out of memory");
    }
    if (stream)
        closedir(stream);
    qr_buf_free(&path);
    return status;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct qr_hub_file *)a)->path, ((const struct qr_hub_file *)b)->path);
}

enum qr_status qr_hub_list_local(const char *dir, struct qr_hub_list *list, struct qr_err *err)
{
    QR_TRY(walk(dir, "", 1, list, err));
    if (list->n > 0)
        qsort(list->file, list->n, sizeof *list->file, by_path);
    return QR_OK;
}
