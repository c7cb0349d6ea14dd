/* memory.c - /proc/meminfo (proc(5): MemAvailable counts what can be reclaimed) and the limits of control groups,
 * version 2 or 1, as seen from inside a container. */
#include "engine/memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mapfile.h"

enum { SMALL_FILE = 65536 };

/* The number behind a key of a file whose lines are "Key:  N kB", in bytes; 0: not there. */
static uint64_t read_kb(const char *path, const char *key)
{
    char *text;
    size_t n;
    if (qr_read_file(path, SMALL_FILE, &text, &n, NULL) != QR_OK)
        return 0;
    const char *line = strstr(text, key);
    uint64_t kb = line ? strtoull(line + strlen(key), NULL, 10) : 0;
    free(text);
    return kb * 1024;
}

uint64_t qr_memory_of_files(void)
{
    return read_kb("/proc/self/status", "RssFile:");
}

/* A file with one number; false when it is absent or says "max". */
static bool read_number(const char *path, uint64_t *out)
{
    char *text, *end;
    size_t n;
    if (qr_read_file(path, SMALL_FILE, &text, &n, NULL) != QR_OK)
        return false;
    *out = strtoull(text, &end, 10);
    bool ok = end != text;
    free(text);
    return ok;
}

/* "inactive_file N" of memory.stat: page cache that goes away when asked for. */
static uint64_t reclaimable(const char *path)
{
    char *text;
    size_t n;
    if (qr_read_file(path, SMALL_FILE, &text, &n, NULL) != QR_OK)
        return 0;
    const char *line = strstr(text, "inactive_file ");
    uint64_t bytes = line ? strtoull(line + strlen("inactive_file "), NULL, 10) : 0;
    free(text);
    return bytes;
}

static bool group_left(const char *limit_path, const char *used_path, const char *stat_path, uint64_t *left)
{
    uint64_t limit, used;
    if (!read_number(limit_path, &limit) || !read_number(used_path, &used) || limit >= UINT64_MAX / 4)
        return false;
    uint64_t cache = reclaimable(stat_path);
    used -= cache < used ? cache : used;
    *left = limit > used ? limit - used : 0;
    return true;
}

uint64_t qr_memory_available(void)
{
    uint64_t available = read_kb("/proc/meminfo", "MemAvailable:"), left;
    if (group_left("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat", &left) ||
        group_left("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
                   "/sys/fs/cgroup/memory/memory.stat", &left))
        available = available == 0 || left < available ? left : available;
    return available;
}
