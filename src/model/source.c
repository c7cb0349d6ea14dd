/* source.c - opening a source by its path, and what every kind of source answers alike. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "model/hub.h"
#include "model/source_parts.h"

/* dummy:SHAPE[:TYPE] */
static enum qr_status open_dummy(struct qr_source *source, const char *spec, struct qr_err *err)
{
    const char *colon = strchr(spec, ':');
    enum qr_dtype type = QR_BF16;
    char shape[64];
    int n = colon ? (int)(colon - spec) : (int)strlen(spec);

    if (colon && !qr_dtype_from_name(colon + 1, &type))
        return qr_fail(err, QR_INVALID,
                       "dummy:%.80s: there is no type \"%.20s\"; random weights can be F32 F16 BF16 Q8_0 Q4_0 Q4_1",
                       spec, colon + 1);
    snprintf(shape, sizeof shape, "%.*s", n > 63 ? 63 : n, spec);
    QR_TRY(qr_config_from_shape(shape, &source->config, err));
    return qr_source_fill_random(source, type, err);
}

static enum qr_status open_from_hub(struct qr_source *source, const char *repo, struct qr_err *err)
{
    enum qr_status status;
    char *dir;

    QR_TRY(qr_hub_find(repo, &dir, err));
    status = qr_source_open_dir(source, dir, err);
    free(dir);
    if (status == QR_OK && !source->gguf) /* the directory's own name is a hash */
        snprintf(source->config.name, sizeof source->config.name, "%s", repo);
    return status;
}

static enum qr_status open_path(struct qr_source *source, const char *path, struct qr_err *err)
{
    struct stat st;

    if (strncmp(path, "dummy:", 6) == 0)
        return open_dummy(source, path + 6, err);
    if (stat(path, &st) != 0) {
        if (errno == ENOENT && qr_hub_is_repo(path))
            return open_from_hub(source, path, err);
        return qr_fail_errno(err, "cannot open model %s", path);
    }
    if (S_ISDIR(st.st_mode))
        return qr_source_open_dir(source, path, err);
    return qr_source_open_gguf(source, path, err);
}

enum qr_status qr_source_open(const char *path, uint64_t seed, struct qr_source **out, struct qr_err *err)
{
    struct qr_source *source = calloc(1, sizeof *source);
    enum qr_status status;

    *out = NULL;
    if (!source)
        return qr_fail(err, QR_NOMEM, "out of memory while opening %s", path);
    source->seed = seed;
    status = open_path(source, path, err);
    if (status != QR_OK) {
        qr_source_close(source);
        return status;
    }
    *out = source;
    return QR_OK;
}

enum qr_status qr_source_random(const struct qr_config *config, uint64_t seed, enum qr_dtype type,
                                struct qr_source **out, struct qr_err *err)
{
    struct qr_source *source;
    enum qr_status status;

    *out = NULL;
    QR_TRY(qr_config_check(config, err));
    source = calloc(1, sizeof *source);
    if (!source)
        return qr_fail(err, QR_NOMEM, "out of memory for a random model");
    source->config = *config;
    source->seed = seed;
    status = qr_source_fill_random(source, type, err);
    if (status != QR_OK) {
        qr_source_close(source);
        return status;
    }
    *out = source;
    return QR_OK;
}

void qr_source_close(struct qr_source *source)
{
    if (!source)
        return;
    for (uint64_t i = 0; i < source->n_st; i++)
        qr_safetensors_close(source->st[i]);
    free(source->st);
    free(source->derived);
    qr_gguf_close(source->gguf);
    free(source->tensor);
    free(source->map);
    free(source->name);
    free(source->dir);
    free(source);
}

const struct qr_config *qr_source_config(const struct qr_source *source)
{
    return &source->config;
}

const struct qr_gguf *qr_source_gguf(const struct qr_source *source)
{
    return source->gguf;
}

const char *qr_source_dir(const struct qr_source *source)
{
    return source->dir;
}

uint64_t qr_source_n_tensor(const struct qr_source *source)
{
    return source->n_tensor;
}

const struct qr_source_tensor *qr_source_at(const struct qr_source *source, uint64_t i)
{
    return &source->tensor[i];
}

/* What is not there, as the file would name it. */
static enum qr_status missing(const struct qr_source *source, const char *name, struct qr_err *err)
{
    char buf[160];

    if (!source->dir)
        return qr_fail(err, QR_NOTFOUND, "the model has no tensor \"%s\"", name);
    return qr_fail(err, QR_NOTFOUND, "%s: the model has no tensor \"%s\"%s", source->dir,
                   qr_tensor_name_to_hf(source->config.arch, name, buf, sizeof buf),
                   strcmp(name, "output.weight") == 0 ? ", and tie_word_embeddings of its config is false" : "");
}

static enum qr_status bad_shape(const struct qr_source *source, const struct qr_source_tensor *tensor, uint64_t n_row,
                                uint64_t n_col, struct qr_err *err)
{
    char buf[160];
    const char *name =
        source->dir ? qr_tensor_name_to_hf(source->config.arch, tensor->name, buf, sizeof buf) : tensor->name;

    return qr_fail(err, QR_FORMAT, "%s%stensor \"%s\" has %llu rows of %llu; the config wants %llu rows of %llu",
                   source->dir ? source->dir : "", source->dir ? ": " : "", name, (unsigned long long)tensor->n_row,
                   (unsigned long long)tensor->n_col, (unsigned long long)n_row, (unsigned long long)n_col);
}

enum qr_status qr_source_find(const struct qr_source *source, const char *name, uint64_t n_row, uint64_t n_col,
                              const struct qr_source_tensor **out, struct qr_err *err)
{
    const struct qr_name *found = qr_names_find(source->name, source->n_tensor, name, strlen(name));

    *out = NULL;
    if (!found)
        return missing(source, name, err);
    if (source->tensor[found->id].n_row != n_row || source->tensor[found->id].n_col != n_col)
        return bad_shape(source, &source->tensor[found->id], n_row, n_col, err);
    *out = &source->tensor[found->id];
    return QR_OK;
}

struct copy {
    void *dst;
    const uint8_t *src;
    uint64_t bytes;
};

static enum qr_status copy_bytes(void *ctx, struct qr_err *err)
{
    const struct copy *copy = ctx;

    (void)err;
    memcpy(copy->dst, copy->src, copy->bytes);
    return QR_OK;
}

enum qr_status qr_source_rows(const struct qr_source *source, const struct qr_source_tensor *tensor, uint64_t row,
                              uint64_t n, void *dst, struct qr_err *err)
{
    uint64_t row_bytes = qr_row_bytes(tensor->type, tensor->n_col);
    struct copy copy;

    if (row > tensor->n_row || n > tensor->n_row - row)
        return qr_fail(err, QR_INTERNAL, "rows %llu to %llu of tensor \"%s\", which has %llu", (unsigned long long)row,
                       (unsigned long long)(row + n), tensor->name, (unsigned long long)tensor->n_row);
    if (source->random)
        return qr_source_random_rows(source, tensor, row, n, dst, err);
    if (tensor->derived)
        return qr_source_derived_rows(source, tensor, row, n, dst, err);
    copy = (struct copy){dst, tensor->data + row * row_bytes, n * row_bytes};
    return qr_map_guard(source->map[tensor - source->tensor], copy_bytes, &copy, err);
}

void qr_source_forget(const struct qr_source *source, const struct qr_source_tensor *tensor)
{
    const struct qr_map *map = source->map[tensor - source->tensor];

    if (map)
        qr_map_forget(map, (uint64_t)(tensor->data - map->data), tensor->bytes);
}
