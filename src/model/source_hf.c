/* source_hf.c - a directory in Hugging Face layout as a source: config.json, generation_config.json, and
 * model.safetensors or the shards that model.safetensors.index.json names. A directory without those that holds one
 * GGUF file is that file. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/json.h"
#include "model/source_parts.h"

#define MAX_CONFIG ((uint64_t)16 << 20) /* bytes of a config.json */
#define MAX_INDEX  ((uint64_t)64 << 20) /* bytes of an index */
#define MAX_SHARD  4096

static enum qr_status join(const char *dir, const char *name, char **out, struct qr_err *err)
{
    if (asprintf(out, "%s/%s", dir, name) < 0) {
        *out = NULL;
        return qr_fail(err, QR_NOMEM, "out of memory");
    }
    return QR_OK;
}

static bool exists(const char *dir, const char *name)
{
    char *path;
    bool there = asprintf(&path, "%s/%s", dir, name) >= 0;

    if (there) {
        there = access(path, F_OK) == 0;
        free(path);
    }
    return there;
}

/* A JSON file of the directory. NULL when it is not there, which the caller judges. */
static enum qr_status read_json(const char *dir, const char *name, uint64_t cap, json_t **out, struct qr_err *err)
{
    enum qr_status status;
    char *path;

    *out = NULL;
    if (!exists(dir, name))
        return QR_OK;
    QR_TRY(join(dir, name, &path, err));
    status = qr_json_file(path, cap, out, err);
    free(path);
    return status;
}

static enum qr_status read_config(struct qr_source *source, bool *ties_itself, struct qr_err *err)
{
    json_t *config = NULL, *generation = NULL;
    enum qr_status status = read_json(source->dir, "config.json", MAX_CONFIG, &config, err);

    if (status == QR_OK && !config)
        status = qr_fail(err, QR_NOTFOUND,
                         "%s has no config.json: a directory of a model has one, or holds a .gguf file", source->dir);
    if (status == QR_OK)
        status = read_json(source->dir, "generation_config.json", MAX_CONFIG, &generation, err);
    if (status == QR_OK) {
        status = qr_config_from_hf(config, generation, &source->config, err);
        if (status != QR_OK)
            status = qr_err_prefix(err, status, "%s", source->dir);
        *ties_itself = json_is_boolean(json_object_get(config, "tie_word_embeddings"));
    }
    json_decref(config);
    json_decref(generation);
    return status;
}

/* Opens one more safetensors file of the directory. */
static enum qr_status open_shard(struct qr_source *source, const char *name, struct qr_err *err)
{
    enum qr_status status;
    char *path;

    QR_TRY(join(source->dir, name, &path, err));
    status = qr_safetensors_open(path, &source->st[source->n_st], err);
    free(path);
    if (status == QR_OK)
        source->n_st++;
    return status;
}

/* A shard lies in the directory itself: no index may lead elsewhere. */
static bool plain_name(const char *name)
{
    return name && name[0] && name[0] != '.' && !strchr(name, '/') && !strchr(name, '\\') && !strstr(name, "..");
}

/* The set of file names that the index gives to its tensors. */
static enum qr_status collect_shards(const json_t *index, json_t *shards, struct qr_err *err)
{
    json_t *map = json_object_get(index, "weight_map"), *value;
    const char *tensor;

    if (!json_is_object(map) || json_object_size(map) == 0)
        return qr_fail(err, QR_FORMAT, "it has no \"weight_map\" with tensors");
    json_object_foreach(map, tensor, value)
    {
        const char *name = json_string_value(value);

        if (!plain_name(name))
            return qr_fail(err, QR_FORMAT, "tensor \"%s\" is said to be in \"%s\"; a shard is a file beside the index",
                           tensor, name ? name : "?");
        if (json_object_set_new(shards, name, json_true()) != 0)
            return qr_fail(err, QR_NOMEM, "out of memory for the names of shards");
        if (json_object_size(shards) > MAX_SHARD)
            return qr_fail(err, QR_LIMIT, "it names more than %d files", MAX_SHARD);
    }
    return QR_OK;
}

static enum qr_status open_shards(struct qr_source *source, const json_t *index, struct qr_err *err)
{
    json_t *shards = json_object(), *value;
    enum qr_status status = shards ? QR_OK : qr_fail(err, QR_NOMEM, "out of memory");
    const char *name;

    if (status == QR_OK)
        status = collect_shards(index, shards, err);
    if (status != QR_OK)
        status = qr_err_prefix(err, status, "%s/model.safetensors.index.json", source->dir);
    if (status == QR_OK) {
        source->st = calloc(json_object_size(shards), sizeof *source->st);
        if (!source->st)
            status = qr_fail(err, QR_NOMEM, "out of memory for the shards");
    }
    json_object_foreach(shards, name, value)
    {
        if (status != QR_OK)
            break;
        if (!exists(source->dir, name))
            status = qr_fail(err, QR_NOTFOUND, "%s: shard %s, which the index names, is missing: download it again",
                             source->dir, name);
        else
            status = open_shard(source, name, err);
    }
    json_decref(shards);
    return status;
}

static enum qr_status open_files(struct qr_source *source, struct qr_err *err)
{
    enum qr_status status;
    json_t *index;

    if (exists(source->dir, "model.safetensors")) {
        source->st = calloc(1, sizeof *source->st);
        if (!source->st)
            return qr_fail(err, QR_NOMEM, "out of memory");
        return open_shard(source, "model.safetensors", err);
    }
    QR_TRY(read_json(source->dir, "model.safetensors.index.json", MAX_INDEX, &index, err));
    if (!index)
        return qr_fail(
            err, QR_NOTFOUND,
            "%s has neither model.safetensors nor model.safetensors.index.json; quire reads no other weights "
            "but GGUF files",
            source->dir);
    status = open_shards(source, index, err);
    json_decref(index);
    return status;
}

static enum qr_status add_tensor(struct qr_source *source, const struct qr_st_tensor *in, const struct qr_map *map,
                                 struct qr_err *err)
{
    struct qr_source_tensor tensor = {.n_row = 1, .n_col = 1, .data = in->data};
    bool ignored = false, empty, derived = qr_source_is_derived(source, in);
    char name[160];

    if (qr_source_is_side_tensor(source, in->name))
        return QR_OK;
    /* X.qweight stands for X.weight */
    snprintf(name, sizeof name, "%s", in->name);
    if (derived && source->config.quant.method != QR_QUANT_FP8)
        snprintf(name, sizeof name, "%.*sweight", (int)(strrchr(in->name, '.') - in->name) + 1, in->name);
    if (strlen(in->name) >= sizeof name ||
        !qr_tensor_name_from_hf(source->config.arch, name, tensor.name, sizeof tensor.name, &ignored))
        return ignored ? QR_OK
                       : qr_fail(err, QR_UNSUPPORTED,
                                 "the model has a tensor \"%.100s\", which quire does not know for %s models", in->name,
                                 qr_arch_name(source->config.arch));
    QR_TRY(qr_source_empty_bias(source, tensor.name, in, map, &empty, err));
    if (empty)
        return QR_OK;
    if (derived) {
        QR_TRY(qr_source_derive(source, in, map, &tensor, err));
        return qr_source_add(source, &tensor, map, err);
    }
    if (in->n_dim < 1 || in->n_dim > 2)
        return qr_fail(err, QR_UNSUPPORTED, "tensor \"%s\" has %d dimensions; quire knows vectors and matrices",
                       in->name, in->n_dim);
    tensor.n_col = in->dim[in->n_dim - 1];
    if (in->n_dim == 2)
        tensor.n_row = in->dim[0];
    if (tensor.n_row == 0 || tensor.n_col == 0)
        return qr_fail(err, QR_FORMAT, "tensor \"%s\" is empty", in->name);
    if (!qr_dtype_from_safetensors(in->dtype, &tensor.type))
        return qr_fail(err, QR_UNSUPPORTED, "tensor \"%s\" has type %.40s; quire reads F32, F16 and BF16 safetensors",
                       in->name, in->dtype);
    return qr_source_add(source, &tensor, map, err);
}

static enum qr_status add_all(struct qr_source *source, struct qr_err *err)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < source->n_st; i++)
        n += qr_safetensors_n_tensor(source->st[i]);
    QR_TRY(qr_source_reserve(source, 3 * n, err)); /* a merged matrix is up to three */
    for (uint64_t i = 0; i < source->n_st; i++)
        for (uint64_t k = 0; k < qr_safetensors_n_tensor(source->st[i]); k++)
            QR_TRY(add_tensor(source, qr_safetensors_at(source->st[i], k), qr_safetensors_map(source->st[i]), err));
    return qr_source_finish(source, err);
}

/* NAME-00002-of-00003.gguf: a part that the first one brings with it. */
static bool later_part(const char *name, size_t length)
{
    int no, count, used = 0;

    return length > 20 && sscanf(name + length - 20, "-%5d-of-%5d.gguf%n", &no, &count, &used) == 2 && used == 20 &&
           no > 1;
}

/* *first: of a directory's GGUF files the first by name, malloc'ed, later parts of split ones left out; *n: how many. */
static enum qr_status first_gguf(const char *dir, char **first, int *n, struct qr_err *err)
{
    DIR *stream = opendir(dir);
    const struct dirent *entry;

    *first = NULL;
    *n = 0;
    while (stream && (entry = readdir(stream))) {
        size_t length = strlen(entry->d_name);

        if (length < 6 || strcmp(entry->d_name + length - 5, ".gguf") != 0 || later_part(entry->d_name, length))
            continue;
        if ((*n)++ > 0 && strcmp(entry->d_name, *first) > 0)
            continue;
        free(*first);
        *first = strdup(entry->d_name);
        if (!*first)
            break;
    }
    if (stream)
        closedir(stream);
    return *n == 0 || *first ? QR_OK : qr_fail(err, QR_NOMEM, "out of memory while reading %s", dir);
}

enum qr_status qr_source_gguf_inside(const char *dir, char **path, struct qr_err *err)
{
    enum qr_status status;
    char *first;
    int n;

    *path = NULL;
    if (exists(dir, "model.safetensors") || exists(dir, "model.safetensors.index.json"))
        return QR_OK;
    QR_TRY(first_gguf(dir, &first, &n, err));
    if (n == 0)
        return QR_OK;
    const char *slash = dir[strlen(dir) - 1] == '/' ? "" : "/";
    if (n > 1)
        status = qr_fail(err, QR_INVALID, "%s holds %d GGUF files: name the one that you want, such as %s%s%s", dir, n,
                         dir, slash, first);
    else if (asprintf(path, "%s%s%s", dir, slash, first) >= 0)
        status = QR_OK;
    else {
        *path = NULL;
        status = qr_fail(err, QR_NOMEM, "out of memory while opening %s", dir);
    }
    free(first);
    return status;
}

enum qr_status qr_source_open_dir(struct qr_source *source, const char *path, struct qr_err *err)
{
    bool says_tied = false;
    char *gguf;

    QR_TRY(qr_source_gguf_inside(path, &gguf, err));
    if (gguf) {
        enum qr_status status = qr_source_open_gguf(source, gguf, err);
        free(gguf);
        return status;
    }
    source->dir = strdup(path);
    if (!source->dir)
        return qr_fail(err, QR_NOMEM, "out of memory while opening %s", path);
    QR_TRY(read_config(source, &says_tied, err));
    qr_source_set_name(source, path);
    QR_TRY(open_files(source, err));
    QR_TRY(add_all(source, err));
    /* a config that does not say whether the head is the embedding: the files do */
    if (!says_tied && !qr_names_find(source->name, source->n_tensor, "output.weight", 13))
        source->config.tie_embd = true;
    return QR_OK;
}
