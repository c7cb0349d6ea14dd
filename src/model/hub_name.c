/* hub_name.c - reading Org/Name[/FILE.gguf][:TAG][@REVISION]. */
#include <string.h>
#include "model/hub_parts.h"

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
}

bool qr_hub_plain(const char *s, size_t n)
{
    if (n == 0 || n > QR_HUB_PART || s[0] == '.' || s[0] == '-')
        return false;
    for (size_t i = 0; i < n; i++)
        if (!name_char(s[i]) || (s[i] == '.' && i + 1 < n && s[i + 1] == '.'))
            return false;
    return true;
}

/* Parts with slashes between, as in refs/pr/1. */
static bool plain_path(const char *s)
{
    for (const char *slash; (slash = strchr(s, '/')); s = slash + 1)
        if (!qr_hub_plain(s, (size_t)(slash - s)))
            return false;
    return qr_hub_plain(s, strlen(s));
}

static bool ends_in(const char *s, size_t n, const char *end)
{
    size_t n_end = strlen(end);

    return n > n_end && memcmp(s + n - n_end, end, n_end) == 0;
}

static bool copy(char *to, size_t room, const char *s, size_t n)
{
    if (n >= room)
        return false;
    memcpy(to, s, n);
    to[n] = 0;
    return true;
}

bool qr_hub_parse(const char *s, struct qr_hub_name *name)
{
    size_t n = strcspn(s, "@:"), org = strcspn(s, "/"), repo;

    *name = (struct qr_hub_name){.revision = "main"};
    if (org >= n)
        return false;
    repo = org + 1 + strcspn(s + org + 1, "/@:");
    if (!qr_hub_plain(s, org) || !qr_hub_plain(s + org + 1, repo - org - 1) ||
        !copy(name->repo, sizeof name->repo, s, repo))
        return false;
    if (ends_in(s, repo, ".gguf") || ends_in(s, repo, ".safetensors")) /* a file's name, not a repository's */
        return false;
    if (repo < n && (!copy(name->file, sizeof name->file, s + repo + 1, n - repo - 1) || !plain_path(name->file) ||
                     !ends_in(name->file, strlen(name->file), ".gguf")))
        return false;
    while (s[n]) {
        char kind = s[n];
        size_t length = strcspn(s + n + 1, "@:");
        bool fits = kind == '@' ? copy(name->revision, sizeof name->revision, s + n + 1, length)
                                : copy(name->tag, sizeof name->tag, s + n + 1, length);

        if (!fits || !(kind == '@' ? plain_path(name->revision) : qr_hub_plain(name->tag, length)))
            return false;
        n += 1 + length;
    }
    return !(name->file[0] && name->tag[0]);
}

bool qr_hub_is_name(const char *name)
{
    struct qr_hub_name parsed;

    return qr_hub_parse(name, &parsed);
}

bool qr_hub_is_repo(const char *name)
{
    struct qr_hub_name parsed;

    return qr_hub_parse(name, &parsed) && !parsed.file[0] && !parsed.tag[0];
}
