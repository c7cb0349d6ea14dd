/* hub_env.c - what the environment says of the hub, by the names and rules of huggingface_hub. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/mapfile.h"
#include "model/hub_parts.h"

#define DEFAULT_ENDPOINT "https://huggingface.co"
#define MAX_TOKEN        4096

const char *qr_hub_variable(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

bool qr_hub_is_true(const char *variable)
{
    static const char *const yes[] = {"1", "ON", "YES", "TRUE"};
    const char *value = qr_hub_variable(variable);

    for (size_t i = 0; value && i < sizeof yes / sizeof *yes; i++)
        if (strcasecmp(value, yes[i]) == 0)
            return true;
    return false;
}

enum qr_status qr_hub_endpoint(char **endpoint, struct qr_err *err)
{
    const char *value = qr_hub_variable("HF_ENDPOINT");
    size_t n;

    value = value ? value : DEFAULT_ENDPOINT;
    if (strncasecmp(value, "http://", 7) != 0 && strncasecmp(value, "https://", 8) != 0)
        return qr_fail(err, QR_INVALID, "HF_ENDPOINT is \"%.100s\": it must begin with https:// or http://", value);
    *endpoint = strdup(value);
    if (!*endpoint)
        return qr_fail(err, QR_NOMEM, "out of memory");
    for (n = strlen(*endpoint); n > 0 && (*endpoint)[n - 1] == '/'; n--)
        (*endpoint)[n - 1] = 0;
    return QR_OK;
}

/* Without white space around; NULL when nothing is left. *out is malloc'ed. */
static enum qr_status clean_token(const char *value, const char *where, char **out, struct qr_err *err)
{
    size_t n;

    value += strspn(value, " \t\r\n");
    for (n = strlen(value); n > 0 && strchr(" \t\r\n", value[n - 1]); n--)
        ;
    *out = NULL;
    if (n == 0)
        return QR_OK;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)value[i] <= 0x20 || (unsigned char)value[i] >= 0x7F)
            return qr_fail(err, QR_INVALID, "the token in %s has a character that no token has", where);
    *out = strndup(value, n);
    return *out ? QR_OK : qr_fail(err, QR_NOMEM, "out of memory for a token");
}

static enum qr_status token_path(char **path, struct qr_err *err)
{
    const char *value;
    int n;

    *path = NULL;
    if ((value = qr_hub_variable("HF_TOKEN_PATH")))
        n = asprintf(path, "%s", value);
    else if ((value = qr_hub_variable("HF_HOME")))
        n = asprintf(path, "%s/token", value);
    else if ((value = qr_hub_variable("XDG_CACHE_HOME")))
        n = asprintf(path, "%s/huggingface/token", value);
    else if ((value = qr_hub_variable("HOME")))
        n = asprintf(path, "%s/.cache/huggingface/token", value);
    else
        return QR_OK;
    if (n < 0)
        *path = NULL;
    return n < 0 ? qr_fail(err, QR_NOMEM, "out of memory") : QR_OK;
}

enum qr_status qr_hub_token(char **token, struct qr_err *err)
{
    static const char *const names[] = {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"};
    enum qr_status status;
    char *path, *text;
    size_t n;

    *token = NULL;
    if (qr_hub_is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN"))
        return QR_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = qr_hub_variable(names[i]);

        if (value)
            QR_TRY(clean_token(value, names[i], token, err));
        if (*token)
            return QR_OK;
    }
    QR_TRY(token_path(&path, err));
    if (!path)
        return QR_OK;
    status = qr_read_file(path, MAX_TOKEN, &text, &n, err);
    if (status == QR_OK) {
        status = clean_token(text, path, token, err);
        free(text);
    } else if (status == QR_NOTFOUND) {
        status = QR_OK;
    }
    free(path);
    return status;
}
