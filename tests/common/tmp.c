/* tmp.c - see tmp.h. */
#include "common/tmp.h"
#include <ftw.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <setjmp.h>
#include <cmocka.h>

#define N_PATH 8

static char *next_path(void)
{
    static char paths[N_PATH][4096];
    static unsigned next;

    return paths[next++ % N_PATH];
}

int tmp_setup(void **state)
{
    const char *base = getenv("TMPDIR");
    char *dir = next_path();

    snprintf(dir, 4096, "%s/quire-test-XXXXXX", base && base[0] ? base : "/tmp");
    if (!mkdtemp(dir))
        return -1;
    *state = strdup(dir);
    return *state ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *level)
{
    (void)st;
    (void)type;
    (void)level;
    return remove(path);
}

int tmp_teardown(void **state)
{
    int failed = nftw(*state, remove_one, 16, FTW_DEPTH | FTW_PHYS);

    free(*state);
    return failed;
}

const char *tmp_path(void *const *state, const char *name)
{
    char *path = next_path();

    snprintf(path, 4096, "%s/%s", (const char *)*state, name);
    return path;
}

const char *tmp_write(void *const *state, const char *name, const void *data, size_t n)
{
    const char *path = tmp_path(state, name);
    FILE *file = fopen(path, "wb");

    if (!file || (n && fwrite(data, 1, n, file) != n) || fclose(file) != 0)
        fail_msg("cannot write %s", path);
    return path;
}

static const char *existing(const char *path)
{
    return access(path, R_OK) == 0 ? path : NULL;
}

const char *shared_path(const char *name)
{
    const char *base = getenv("QUIRE_SHARED");
    char *path = next_path();

    snprintf(path, 4096, "%s/%s", base && base[0] ? base : "../shared", name);
    return existing(path);
}

const char *default_model_path(void)
{
    const char *given = getenv("QUIRE_MODEL");
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    char *path = next_path();

    if (given && given[0])
        return existing(given);
    if (cache && cache[0])
        snprintf(path, 4096, "%s/quire/SmolLM2-135M-Instruct.Q4_1.gguf", cache);
    else
        snprintf(path, 4096, "%s/.cache/quire/SmolLM2-135M-Instruct.Q4_1.gguf", home ? home : "");
    return existing(path);
}
