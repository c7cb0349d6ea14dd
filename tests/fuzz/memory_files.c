/* memory_files.c - see memory_files.h. The __wrap_ names are the linker's. */
#include "fuzz/memory_files.h"
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/mapfile.h"

enum { MAX_FILE = 4 };
static struct memory {
    const char *name;
    const void *data;
    size_t n;
} files[MAX_FILE];

void memory_file(const char *name, const void *data, size_t n)
{
    for (int i = 0; i < MAX_FILE; i++) {
        if (files[i].name && strcmp(files[i].name, name) != 0)
            continue;
        files[i] = (struct memory){name, data, n};
        return;
    }
    abort();
}

static const struct memory *find(const char *path)
{
    const char *name = strrchr(path, '/');

    name = name ? name + 1 : path;
    for (int i = 0; i < MAX_FILE; i++)
        if (files[i].name && files[i].data && strcmp(files[i].name, name) == 0)
            return &files[i];
    return NULL;
}

enum qr_status __wrap_qr_map_open(const char *path, struct qr_map *map, struct qr_err *err);
enum qr_status __wrap_qr_map_open(const char *path, struct qr_map *map, struct qr_err *err)
{
    const struct memory *file = find(path);
    uint8_t *copy;

    *map = (struct qr_map){0};
    if (!file)
        return qr_fail(err, QR_NOTFOUND, "cannot open %s", path);
    copy = malloc(file->n + !file->n);
    map->path = strdup(path);
    if (!copy || !map->path)
        abort();
    memcpy(copy, file->data, file->n);
    map->data = copy;
    map->size = file->n;
    return QR_OK;
}

void __wrap_qr_map_close(struct qr_map *map);
void __wrap_qr_map_close(struct qr_map *map)
{
    free((void *)(uintptr_t)map->data);
    free(map->path);
    *map = (struct qr_map){0};
}

void __wrap_qr_map_forget(const struct qr_map *map, uint64_t offset, uint64_t n);
void __wrap_qr_map_forget(const struct qr_map *map, uint64_t offset, uint64_t n)
{
    (void)map;
    (void)offset;
    (void)n;
}

enum qr_status __wrap_qr_map_guard(const struct qr_map *map, enum qr_status (*fn)(void *ctx, struct qr_err *err),
                                   void *ctx, struct qr_err *err);
enum qr_status __wrap_qr_map_guard(const struct qr_map *map, enum qr_status (*fn)(void *ctx, struct qr_err *err),
                                   void *ctx, struct qr_err *err)
{
    (void)map;
    return fn(ctx, err);
}

enum qr_status __wrap_qr_json_file(const char *path, uint64_t cap, json_t **out, struct qr_err *err);
enum qr_status __wrap_qr_json_file(const char *path, uint64_t cap, json_t **out, struct qr_err *err)
{
    const struct memory *file = find(path);

    (void)cap;
    *out = NULL;
    return file ? qr_json_parse_file(file->data, file->n, path, out, err)
                : qr_fail(err, QR_NOTFOUND, "cannot open %s", path);
}

int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode)
{
    (void)mode;
    return find(path) ? 0 : -1;
}
