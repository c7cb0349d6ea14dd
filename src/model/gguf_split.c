/* gguf_split.c - a model in several GGUF files, NAME-00001-of-00003.gguf and so on (llama.cpp's gguf-split): any of them
 * opens all. Keys split.no, split.count and split.tensors.count stand in each; all other keys count in the first only. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "model/gguf_file.h"

#define MAX_PART 4096

struct split {
    const struct qr_gguf *gguf;
    int64_t no, count, n_tensor; /* this part's number from 0; parts; tensors in all of them, -1: not said */
};

static enum qr_status read_split(void *ctx, struct qr_err *err)
{
    struct split *split = ctx;
    bool found;

    split->no = 0;
    split->count = 1;
    split->n_tensor = -1;
    QR_TRY(qr_gguf_int(split->gguf, "split.count", &split->count, &found, err));
    QR_TRY(qr_gguf_int(split->gguf, "split.no", &split->no, &found, err));
    QR_TRY(qr_gguf_int(split->gguf, "split.tensors.count", &split->n_tensor, &found, err));
    if (split->count > MAX_PART)
        return qr_fail(err, QR_LIMIT, "split.count is %lld; quire reads up to %d parts", (long long)split->count,
                       MAX_PART);
    if (split->count > 1 && (split->no < 0 || split->no >= split->count))
        return qr_fail(err, QR_FORMAT, "split.no is %lld of %lld parts", (long long)split->no, (long long)split->count);
    return QR_OK;
}

static enum qr_status read_guarded(struct split *split, struct qr_err *err)
{
    enum qr_status status = qr_map_guard(&split->gguf->map, read_split, split, err);

    return status ? qr_err_prefix(err, status, "%s", split->gguf->map.path) : QR_OK;
}

/* The path of part i, from that of any part. */
static enum qr_status part_path(const struct split *split, int64_t i, char **out, struct qr_err *err)
{
    const char *path = split->gguf->map.path;
    char end[64];
    size_t n = strlen(path), m;

    snprintf(end, sizeof end, "-%05lld-of-%05lld.gguf", (long long)split->no + 1, (long long)split->count);
    m = strlen(end);
    if (n < m || strcmp(path + n - m, end) != 0)
        return qr_fail(
            err, QR_INVALID,
            "%s is part %lld of %lld of a model, but its name does not end in \"%s\", by which the others are "
            "found: give the files their names back",
            path, (long long)split->no + 1, (long long)split->count, end);
    if (asprintf(out, "%.*s-%05lld-of-%05lld.gguf", (int)(n - m), path, (long long)i + 1, (long long)split->count) < 0)
        return qr_fail(err, QR_NOMEM, "out of memory");
    return QR_OK;
}

static enum qr_status open_part(const struct split *split, int64_t i, struct qr_gguf **out, struct qr_err *err)
{
    struct split own = {0};
    enum qr_status status;
    char *path;

    QR_TRY(part_path(split, i, &path, err));
    if (access(path, F_OK) != 0 && errno == ENOENT)
        status = qr_fail(err, QR_NOTFOUND, "part %lld of %lld of the model is missing: put %s beside the others",
                         (long long)i + 1, (long long)split->count, path);
    else
        status = qr_gguf_open_one(path, out, err);
    free(path);
    QR_TRY(status);
    own.gguf = *out;
    QR_TRY(read_guarded(&own, err));
    if (own.no != i || own.count != split->count)
        return qr_fail(err, QR_FORMAT, "%s says that it is part %lld of %lld; part %lld of %lld belongs there",
                       own.gguf->map.path, (long long)own.no + 1, (long long)own.count, (long long)i + 1,
                       (long long)split->count);
    return QR_OK;
}

struct append {
    struct qr_gguf *first;
    const struct qr_gguf *part;
};

/* Names are copied: they would be read under the first file's guard later. */
static enum qr_status append_tensors(void *ctx, struct qr_err *err)
{
    const struct append *a = ctx;
    struct qr_gguf *first = a->first;

    for (uint64_t i = 0; i < a->part->n_tensor; i++) {
        struct qr_gguf_tensor *tensor = &first->tensor[first->n_tensor];
        char *name = qr_arena_alloc(first->arena, a->part->tensor[i].name.n + 1);

        if (!name)
            return qr_fail(err, QR_NOMEM, "out of memory for the names of tensors");
        *tensor = a->part->tensor[i];
        memcpy(name, tensor->name.s, tensor->name.n);
        tensor->name.s = name;
        first->tensor_name[first->n_tensor] = (struct qr_name){name, tensor->name.n, first->n_tensor};
        first->n_tensor++;
    }
    return QR_OK;
}

/* All tensors go into one list of the first part. */
static enum qr_status join(struct qr_gguf *const *part, const struct split *split, struct qr_err *err)
{
    struct qr_gguf *first = part[0];
    const struct qr_gguf own = *first;
    const struct qr_name *twice;
    uint64_t n = 0;

    for (int64_t i = 0; i < split->count; i++)
        n += part[i]->n_tensor;
    first->tensor = qr_arena_array(first->arena, n, sizeof *first->tensor);
    first->tensor_name = qr_arena_array(first->arena, n, sizeof *first->tensor_name);
    if (!first->tensor || !first->tensor_name)
        return qr_fail(err, QR_NOMEM, "out of memory for %llu tensors", (unsigned long long)n);
    first->n_tensor = 0;
    for (int64_t i = 0; i < split->count; i++) {
        struct append append = {first, i ? part[i] : &own};

        QR_TRY(qr_map_guard(&part[i]->map, append_tensors, &append, err));
    }
    if (split->n_tensor >= 0 && (uint64_t)split->n_tensor != n)
        return qr_fail(err, QR_FORMAT, "the %lld parts of %s hold %llu tensors; split.tensors.count says %lld",
                       (long long)split->count, first->map.path, (unsigned long long)n, (long long)split->n_tensor);
    qr_names_sort(first->tensor_name, n);
    twice = qr_names_duplicate(first->tensor_name, n);
    if (twice)
        return qr_fail(err, QR_FORMAT, "tensor \"%.*s\" stands in two parts of %s",
                       (int)(twice->n > 100 ? 100 : twice->n), twice->s, first->map.path);
    return QR_OK;
}

enum qr_status qr_gguf_open_parts(struct qr_gguf **gguf, struct qr_err *err)
{
    struct split split = {.gguf = *gguf};
    enum qr_status status = QR_OK;
    struct qr_gguf **part;

    QR_TRY(read_guarded(&split, err));
    if (split.count <= 1)
        return QR_OK;
    part = calloc((size_t)split.count, sizeof(struct qr_gguf *));
    if (!part)
        return qr_fail(err, QR_NOMEM, "out of memory for %lld parts", (long long)split.count);
    part[split.no] = *gguf;
    for (int64_t i = 0; i < split.count && status == QR_OK; i++)
        if (i != split.no)
            status = open_part(&split, i, &part[i], err);
    if (status == QR_OK)
        status = join(part, &split, err);
    if (status != QR_OK) {
        for (int64_t i = 0; i < split.count; i++)
            if (i != split.no)
                qr_gguf_close(part[i]);
        free(part);
        return status;
    }
    *gguf = part[0];
    part[0]->part = part + 1; /* closed with the first; its own pointer stands in front of them */
    part[0]->n_part = (uint64_t)split.count - 1;
    return QR_OK;
}
