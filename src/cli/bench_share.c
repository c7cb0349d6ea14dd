/* bench_share.c - ranges of lengths, numbers drawn from them, percentiles of measured values. */
#include <stdlib.h>
#include "base/rand.h"
#include "cli/bench.h"

bool bench_parse_range(const char *text, int64_t most, struct bench_range *out)
{
    char *end;
    out->low = out->high = strtoll(text, &end, 10);
    if (end != text && *end == ':') {
        text = end + 1;
        out->high = strtoll(text, &end, 10);
    }
    return end != text && !*end && out->low >= 1 && out->low <= out->high && out->high <= most;
}

int64_t bench_draw(uint64_t seed, const struct bench_range *range, uint32_t what, size_t i)
{
    double u = (double)qr_rand_uniform(seed, what, (uint32_t)i); /* below 1 */
    return range->low + (int64_t)(u * (double)(range->high - range->low + 1));
}

int bench_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_percentile(const double *sorted, size_t n, int percent)
{
    return n ? sorted[bench_rank(n, percent)] : 0;
}

size_t bench_rank(uint64_t n, int percent)
{
    return (size_t)((n * (uint64_t)percent + 99) / 100) - 1;
}
