/* hub.c - looking a repository up in the Hugging Face cache. */
#include "model/hub.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/mapfile.h"
#include "model/hub_parts.h"

enum qr_status qr_hub_cache(char **cache, struct qr_err *err)
{
    const char *value, *home = qr_hub_variable("HOME");
    int n;

    if ((value = qr_hub_variable("HF_HUB_CACHE")))
        n = strncmp(value, "~/", 2) == 0 && home ? asprintf(cache, "%s%s", home, value + 1)
                                                 : asprintf(cache, "%s", value);
    else if ((value = qr_hub_variable("HF_HOME")))
        n = strncmp(value, "~/", 2) == 0 && home ? asprintf(cache, "%s%s/hub", home, value + 1)
                                                 : asprintf(cache, "%s/hub", value);
    else if ((value = qr_hub_variable("XDG_CACHE_HOME")))
        n = asprintf(cache, "%s/huggingface/hub", value);
    else if (home)
        n = asprintf(cache, "%s/.cache/huggingface/hub", home);
    else
        return qr_fail(err, QR_NOTFOUND,
                       "neither HF_HUB_CACHE, HF_HOME nor HOME is set: quire does not know where the "
                       "Hugging Face cache is");
    if (n < 0)
        *cache = NULL;
    return n < 0 ? qr_fail(err, QR_NOMEM, "out of memory") : QR_OK;
}

enum qr_status qr_hub_home(const struct qr_hub_name *name, char **home, struct qr_err *err)
{
    const char *slash = strchr(name->repo, '/');
    char *cache;
    int n;

    *home = NULL;
    QR_TRY(qr_hub_cache(&cache, err));
    n = asprintf(home, "%s/models--%.*s--%s", cache, (int)(slash - name->repo), name->repo, slash + 1);
    free(cache);
    if (n < 0)
        *home = NULL;
    return n < 0 ? qr_fail(err, QR_NOMEM, "out of memory") : QR_OK;
}

static bool is_dir(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

enum qr_status qr_hub_read_ref(const char *home, const char *revision, char **commit, struct qr_err *err)
{
    enum qr_status status;
    char *path, *text;
    size_t n;

    *commit = NULL;
    if (asprintf(&path, "%s/refs/%s", home, revision) < 0)
        return qr_fail(err, QR_NOMEM, "out of memory");
    status = qr_read_file(path, 1024, &text, &n, err);
    if (status == QR_NOTFOUND) {
        free(path);
        return QR_OK;
    }
    if (status == QR_OK) {
        text[strcspn(text, " \t\r\n")] = 0;
        if (qr_hub_plain(text, strlen(text))) {
            *commit = text;
        } else {
            free(text);
            status = qr_fail(err, QR_FORMAT, "%s holds no commit", path);
        }
    }
    free(path);
    return status;
}

enum qr_status qr_hub_make_dirs(const char *path, struct qr_err *err)
{
    char *copy = strdup(path);
    enum qr_status status = QR_OK;

    if (!copy)
        return qr_fail(err, QR_NOMEM, "out of memory");
    for (char *slash = copy + 1; status == QR_OK && (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            status = qr_fail_errno(err, "cannot make the directory %s", copy);
        *slash = '/';
    }
    free(copy);
    return status;
}

enum qr_status qr_hub_find(const char *repo, char **dir, struct qr_err *err)
{
    struct qr_hub_name name;
    char *home, *commit = NULL;
    enum qr_status status;

    *dir = NULL;
    if (!qr_hub_parse(repo, &name))
        return qr_fail(err, QR_INVALID, "\"%.100s\" is no repository such as Qwen/Qwen2.5-1.5B-Instruct", repo);
    QR_TRY(qr_hub_home(&name, &home, err));
    status = qr_hub_read_ref(home, name.revision, &commit, err);
    if (status == QR_OK && asprintf(dir, "%s/snapshots/%s", home, commit ? commit : name.revision) < 0) {
        *dir = NULL;
        status = qr_fail(err, QR_NOMEM, "out of memory");
    }
    if (status == QR_OK && !is_dir(*dir)) {
        free(*dir);
        *dir = NULL;
        status = qr_fail(err, QR_NOTFOUND,
                         "%.200s is no file and not in the Hugging Face cache (%.100s): quire fetch downloads it", repo,
                         home);
    }
    free(commit);
    free(home);
    return status;
}
