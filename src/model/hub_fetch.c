/* hub_fetch.c - a repository into the cache, and what a name stands for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/json.h"
#include "base/mapfile.h"
#include "model/config.h"
#include "model/hub_parts.h"

#define MAX_LISTING (64u << 20)
#define MAX_CONFIG  (32u << 20)

static void close_hub(struct qr_hub *hub)
{
    qr_http_close(hub->http);
    free(hub->endpoint);
    free(hub->token);
    free(hub->cache);
    free(hub->home);
}

static enum qr_status open_hub(struct qr_hub *hub, struct qr_err *err)
{
    if (qr_hub_is_true("HF_HUB_OFFLINE") || qr_hub_is_true("TRANSFORMERS_OFFLINE"))
        return qr_fail(
            err, QR_NOTFOUND,
            "%.200s is not wholly in the Hugging Face cache, and HF_HUB_OFFLINE is set: unset it to download",
            hub->name.repo);
    QR_TRY(qr_hub_cache(&hub->cache, err));
    QR_TRY(qr_hub_home(&hub->name, &hub->home, err));
    QR_TRY(qr_hub_endpoint(&hub->endpoint, err));
    QR_TRY(qr_hub_token(&hub->token, err));
    return qr_http_open(&hub->http, err);
}

/* ---------------------------------------------------------------- the list of files */

static enum qr_status read_sibling(const json_t *item, struct qr_hub_list *list, struct qr_err *err)
{
    const json_t *lfs = json_object_get(item, "lfs");
    const char *path = NULL, *etag = NULL;
    struct qr_hub_file *file;
    int64_t size = -1;

    QR_TRY(qr_json_string(item, "rfilename", &path, err));
    if (!path)
        return qr_fail(err, QR_FORMAT, "the list of files has an entry without a name");
    QR_TRY(qr_hub_list_add(list, path, &file, err));
    QR_TRY(qr_json_int(item, "size", 0, INT64_MAX, &size, err));
    QR_TRY(qr_json_string(item, "blobId", &etag, err));
    if (json_is_object(lfs)) {
        QR_TRY(qr_json_int(lfs, "size", 0, INT64_MAX, &size, err));
        etag = NULL;
        QR_TRY(qr_json_string(lfs, "sha256", &etag, err));
    }
    file->sized = size >= 0;
    file->size = size >= 0 ? (uint64_t)size : 0;
    if (etag && qr_hub_plain(etag, strlen(etag)))
        snprintf(file->etag, sizeof file->etag, "%s", etag);
    return QR_OK;
}

static enum qr_status read_listing(const struct qr_buf *text, struct qr_hub_list *list, struct qr_err *err)
{
    const json_t *item, *all;
    const char *sha = NULL;
    enum qr_status status;
    json_t *json;
    size_t i;

    QR_TRY(qr_json_parse(text->data ? text->data : "", text->len, "the list of files", &json, err));
    all = json_object_get(json, "siblings");
    status = qr_json_string(json, "sha", &sha, err);
    if (status == QR_OK && (!sha || !qr_hub_plain(sha, strlen(sha)) || !json_is_array(all)))
        status = qr_fail(err, QR_FORMAT, "the server's answer names no commit and files");
    if (status == QR_OK)
        snprintf(list->commit, sizeof list->commit, "%s", sha);
    if (status == QR_OK)
        json_array_foreach(all, i, item)
        {
            status = read_sibling(item, list, err);
            if (status != QR_OK)
                break;
        }
    json_decref(json);
    return status;
}

static enum qr_status list_remote(struct qr_hub *hub, struct qr_hub_list *list, struct qr_err *err)
{
    struct qr_buf path, text;
    enum qr_status status;

    qr_buf_init(&path, 0);
    qr_buf_init(&text, MAX_LISTING);
    qr_buf_printf(&path, "/api/models/%s/revision/", hub->name.repo);
    for (const char *p = hub->name.revision; *p; p++)
        if (*p == '/')
            qr_buf_puts(&path, "%2F");
        else
            qr_buf_putc(&path, *p);
    status = qr_buf_puts(&path, "?blobs=true") ? qr_hub_get_json(hub, path.data, &text, err)
                                               : qr_fail(err, QR_NOMEM, "out of memory");
    if (status == QR_OK) {
        status = read_listing(&text, list, err);
        if (status != QR_OK)
            qr_err_prefix(err, status, "%.150s", hub->name.repo);
    }
    qr_buf_free(&path);
    qr_buf_free(&text);
    return status;
}

/* ---------------------------------------------------------------- downloading */

/* What quire cannot run is said before gigabytes of it are downloaded. */
static enum qr_status check_config(const struct qr_hub *hub, const char *commit, struct qr_err *err)
{
    struct qr_config config;
    enum qr_status status;
    json_t *json;
    char *path;

    if (asprintf(&path, "%s/snapshots/%s/config.json", hub->home, commit) < 0)
        return qr_fail(err, QR_NOMEM, "out of memory");
    status = qr_json_file(path, MAX_CONFIG, &json, err);
    free(path);
    if (status != QR_OK)
        return status;
    status = qr_config_from_hf(json, NULL, &config, err);
    json_decref(json);
    if (status == QR_UNSUPPORTED)
        return qr_err_prefix(err, status, "%.150s", hub->name.repo);
    return QR_OK; /* what else is wrong with it, loading tells */
}

static enum qr_status get_all(struct qr_hub *hub, struct qr_hub_list *list, const struct qr_hub_file *gguf,
                              struct qr_err *err)
{
    for (size_t i = 0; i < list->n; i++) {
        struct qr_hub_file *f = &list->file[i];

        if (f->taken && (!f->etag[0] || !f->sized))
            QR_TRY(qr_hub_get_head(hub, list->commit, f, err));
        if (f->taken)
            hub->total += f->size;
    }
    for (size_t i = 0; i < list->n; i++) {
        const struct qr_hub_file *f = &list->file[i];

        if (!f->taken)
            continue;
        QR_TRY(qr_hub_get_file(hub, list->commit, f, err));
        if (!gguf && !hub->options->tokenizer_only && strcmp(f->path, "config.json") == 0)
            QR_TRY(check_config(hub, list->commit, err));
    }
    return QR_OK;
}

static enum qr_status write_ref(const struct qr_hub *hub, const char *commit, struct qr_err *err)
{
    static const char tag[] = "Signature: 8a477f597d28d172789f06886806bc55\n# bford.info/cachedir\n";
    enum qr_status status;
    char *path;

    if (asprintf(&path, "%s/CACHEDIR.TAG", hub->cache) < 0)
        return qr_fail(err, QR_NOMEM, "out of memory");
    if (access(path, F_OK) != 0) /* tells programs that make backups */
        qr_write_file(path, tag, sizeof tag - 1, NULL);
    free(path);
    if (strcmp(hub->name.revision, commit) == 0)
        return QR_OK;
    if (asprintf(&path, "%s/refs/%s", hub->home, hub->name.revision) < 0)
        return qr_fail(err, QR_NOMEM, "out of memory");
    status = qr_hub_make_dirs(path, err);
    if (status == QR_OK)
        status = qr_write_file(path, commit, strlen(commit), err);
    free(path);
    return status;
}

static enum qr_status name_result(const char *home, const char *commit, const struct qr_hub_file *gguf, char **path,
                                  struct qr_err *err)
{
    if (asprintf(path, "%s/snapshots/%s%s%s", home, commit, gguf ? "/" : "", gguf ? gguf->path : "") >= 0)
        return QR_OK;
    *path = NULL;
    return qr_fail(err, QR_NOMEM, "out of memory");
}

static enum qr_status fetch(struct qr_hub *hub, struct qr_hub_list *list, char **path, bool *is_gguf,
                            struct qr_err *err)
{
    const struct qr_hub_file *gguf;

    QR_TRY(open_hub(hub, err));
    QR_TRY(list_remote(hub, list, err));
    QR_TRY(qr_hub_pick(list, &hub->name, hub->options, &gguf, err));
    QR_TRY(get_all(hub, list, gguf, err));
    QR_TRY(write_ref(hub, list->commit, err));
    *is_gguf = gguf != NULL;
    return name_result(hub->home, list->commit, gguf, path, err);
}

static enum qr_status fetch_name(const struct qr_hub_name *name, const struct qr_hub_options *options, char **path,
                                 bool *is_gguf, struct qr_err *err)
{
    struct qr_hub hub = {.options = options, .name = *name};
    struct qr_hub_list list = {0};
    enum qr_status status = fetch(&hub, &list, path, is_gguf, err);

    qr_hub_list_free(&list);
    close_hub(&hub);
    return status;
}

static enum qr_status parse(const char *text, struct qr_hub_name *name, struct qr_err *err)
{
    if (qr_hub_parse(text, name))
        return QR_OK;
    return qr_fail(err, QR_INVALID,
                   "\"%.150s\" is no repository: write Org/Name, Org/Name@REVISION, Org/Name:Q4_K_M or "
                   "Org/Name/FILE.gguf",
                   text);
}

enum qr_status qr_hub_fetch(const char *text, const struct qr_hub_options *options, char **path, struct qr_err *err)
{
    struct qr_hub_name name;
    bool is_gguf;

    *path = NULL;
    QR_TRY(parse(text, &name, err));
    return fetch_name(&name, options, path, &is_gguf, err);
}

/* ---------------------------------------------------------------- what the cache has */

static bool has_file(const char *dir, const char *name)
{
    struct stat st;
    char *path;
    bool found;

    if (asprintf(&path, "%s/%s", dir, name) < 0)
        return false;
    found = stat(path, &st) == 0;
    free(path);
    return found;
}

/* Are all the shards there that the index names? */
static bool has_shards(const char *dir)
{
    const json_t *file;
    const char *key;
    json_t *json = NULL;
    bool all = true;
    char *path;

    if (asprintf(&path, "%s/model.safetensors.index.json", dir) < 0)
        return false;
    if (qr_json_file(path, MAX_LISTING, &json, NULL) != QR_OK)
        all = false;
    free(path);
    json_object_foreach(json_object_get(json, "weight_map"), key, file) all =
        all && json_is_string(file) && has_file(dir, json_string_value(file));
    json_decref(json);
    return all;
}

static bool is_whole(const char *dir, const struct qr_hub_options *options)
{
    if (options->tokenizer_only)
        return has_file(dir, "tokenizer.json") && has_file(dir, "config.json");
    if (!has_file(dir, "config.json"))
        return false;
    return has_file(dir, "model.safetensors.index.json") ? has_shards(dir) : true;
}

/* *path stays NULL when the cache has not got all of it. */
static void find_cached(const struct qr_hub_name *name, const char *text, const struct qr_hub_options *options,
                        char **path)
{
    struct qr_hub_options quiet = *options;
    const struct qr_hub_file *gguf;
    struct qr_hub_list list = {0};
    char *dir;

    if (qr_hub_find(text, &dir, NULL) != QR_OK)
        return;
    quiet.note = NULL;
    if (qr_hub_list_local(dir, &list, NULL) == QR_OK && qr_hub_pick(&list, name, &quiet, &gguf, NULL) == QR_OK) {
        if (gguf && asprintf(path, "%s/%s", dir, gguf->path) < 0)
            *path = NULL;
        else if (!gguf && is_whole(dir, options))
            *path = strdup(text);
    }
    qr_hub_list_free(&list);
    free(dir);
}

enum qr_status qr_hub_resolve(const char *text, const struct qr_hub_options *options, char **path, struct qr_err *err)
{
    struct qr_hub_name name;
    enum qr_status status;
    bool is_gguf = false;

    *path = NULL;
    QR_TRY(parse(text, &name, err));
    find_cached(&name, text, options, path);
    if (*path)
        return QR_OK;
    status = fetch_name(&name, options, path, &is_gguf, err);
    if (status == QR_OK && !is_gguf) { /* the directory's own name is a hash */
        free(*path);
        *path = strdup(text);
        if (!*path)
            status = qr_fail(err, QR_NOMEM, "out of memory");
    }
    return status;
}
