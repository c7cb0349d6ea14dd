/* hub.c - looking a repository up in the Hugging Face cache. */
#include "model/hub.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/mapfile.h"

#define MAX_NAME 96 /* of an organisation or a model, as on the hub */

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
}

/* Letters that a name of the hub may have, none of them leading out of the cache. */
static bool plain_part(const char *s, size_t n)
{
    if (n == 0 || n > MAX_NAME || s[0] == '.' || s[0] == '-')
        return false;
    for (size_t i = 0; i < n; i++)
        if (!name_char(s[i]) || (s[i] == '.' && i + 1 < n && s[i + 1] == '.'))
            return false;
    return true;
}

/* org, name, revision ("main" when it is not said). */
struct repo {
    const char *org, *name, *revision;
    int n_org, n_name;
};

static bool split(const char *s, struct repo *repo)
{
    const char *slash = strchr(s, '/'), *at;

    if (!slash)
        return false;
    at = strchr(slash, '@');
    repo->org = s;
    repo->n_org = (int)(slash - s);
    repo->name = slash + 1;
    repo->n_name = (int)(at ? at - repo->name : (long)strlen(repo->name));
    repo->revision = at ? at + 1 : "main";
    return plain_part(repo->org, (size_t)repo->n_org) && plain_part(repo->name, (size_t)repo->n_name) &&
           plain_part(repo->revision, strlen(repo->revision));
}

bool qr_hub_is_repo(const char *name)
{
    struct repo repo;

    return strlen(name) < 4 * MAX_NAME && split(name, &repo);
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

static enum qr_status cache_dir(char **out, struct qr_err *err)
{
    const char *value;
    int n;

    if ((value = variable("HF_HUB_CACHE")))
        n = asprintf(out, "%s", value);
    else if ((value = variable("HF_HOME")))
        n = asprintf(out, "%s/hub", value);
    else if ((value = variable("XDG_CACHE_HOME")))
        n = asprintf(out, "%s/huggingface/hub", value);
    else if ((value = variable("HOME")))
        n = asprintf(out, "%s/.cache/huggingface/hub", value);
    else
        return qr_fail(err, QR_NOTFOUND,
                       "neither HF_HUB_CACHE, HF_HOME nor HOME is set: quire does not know where the "
                       "Hugging Face cache is");
    return n < 0 ? qr_fail(err, QR_NOMEM, "out of memory") : QR_OK;
}

static bool is_dir(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The commit of a revision; *commit stays NULL when there is no such branch or tag. */
static enum qr_status read_ref(const char *home, const char *revision, char **commit, struct qr_err *err)
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
        if (plain_part(text, strlen(text))) {
            *commit = text;
        } else {
            free(text);
            status = qr_fail(err, QR_FORMAT, "%s holds no commit", path);
        }
    }
    free(path);
    return status;
}

enum qr_status qr_hub_find(const char *name, char **dir, struct qr_err *err)
{
    char *cache = NULL, *home = NULL, *commit = NULL;
    struct repo repo;
    enum qr_status status;

    *dir = NULL;
    if (!qr_hub_is_repo(name) || !split(name, &repo))
        return qr_fail(err, QR_INVALID, "\"%.100s\" is no repository such as Qwen/Qwen2.5-1.5B-Instruct", name);
    QR_TRY(cache_dir(&cache, err));
    if (asprintf(&home, "%s/models--%.*s--%.*s", cache, repo.n_org, repo.org, repo.n_name, repo.name) < 0) {
        free(cache);
        return qr_fail(err, QR_NOMEM, "out of memory");
    }
    status = read_ref(home, repo.revision, &commit, err);
    if (status == QR_OK && asprintf(dir, "%s/snapshots/%s", home, commit ? commit : repo.revision) < 0) {
        *dir = NULL;
        status = qr_fail(err, QR_NOMEM, "out of memory");
    }
    if (status == QR_OK && !is_dir(*dir)) {
        free(*dir);
        *dir = NULL;
        status = qr_fail(err, QR_NOTFOUND,
                         "%.200s is no file and not in the Hugging Face cache (%.100s): download it there first", name,
                         cache);
    }
    free(commit);
    free(home);
    free(cache);
    return status;
}
