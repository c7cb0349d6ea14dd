/* cpucount.c - how many CPUs this process may keep busy: its affinity mask, cut to the quota of its control
 * groups (cgroup v2's cpu.max, v1's cpu.cfs_quota_us; Linux, Documentation/admin-guide/cgroup-v2.rst). */
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/pool.h"

static int affinity_count(void)
{
    /* the kernel refuses a mask that is smaller than its own */
    for (int n_bit = 1024; n_bit <= 65536; n_bit *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)n_bit);
        size_t size = CPU_ALLOC_SIZE((size_t)n_bit);
        int n = 0;

        if (!set)
            break;
        if (sched_getaffinity(0, size, set) == 0)
            n = CPU_COUNT_S(size, set);
        CPU_FREE(set);
        if (n > 0)
            return n;
    }
    return 1;
}

static bool read_line(const char *path, char *line, int size)
{
    FILE *file = fopen(path, "re");
    bool got = file && fgets(line, size, file);

    if (file)
        fclose(file);
    return got;
}

/* CPUs that the group at this path of the v2 hierarchy may use; INFINITY where nothing limits it. */
static double quota_v2(const char *group)
{
    char path[4200], line[64], *end;
    double quota, period;

    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
    if (!read_line(path, line, sizeof line))
        return INFINITY;
    quota = strtod(line, &end); /* "200000 100000", or "max 100000" */
    period = strtod(end, NULL);
    if (end == line || quota <= 0 || period <= 0)
        return INFINITY;
    return quota / period;
}

static double quota_v1(void)
{
    char line[64];
    double quota, period;

    if (!read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", line, sizeof line))
        return INFINITY;
    quota = strtod(line, NULL);
    if (!read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", line, sizeof line))
        return INFINITY;
    period = strtod(line, NULL);
    return quota > 0 && period > 0 ? quota / period : INFINITY;
}

/* The group of this process and every one above it limit it; in a container /proc may name a path that is
 * not visible, and the visible root is then the group itself. */
static double quota(void)
{
    char line[4096];
    double least = fmin(quota_v1(), quota_v2(""));
    FILE *file = fopen("/proc/self/cgroup", "re");

    if (!file)
        return least;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "0::/", 4) != 0)
            continue;
        line[strcspn(line, "\n")] = 0;
        for (char *slash; (slash = strrchr(line + 3, '/')) && slash[1]; *slash = 0)
            least = fmin(least, quota_v2(line + 3));
    }
    fclose(file);
    return least;
}

int qr_cpu_count(void)
{
    int n = affinity_count();
    double most = ceil(quota());

    if (most >= 1 && most < n)
        n = (int)most;
    return n;
}
