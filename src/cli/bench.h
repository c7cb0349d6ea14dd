/* bench.h - the kinds of `quire bench`. */
#ifndef QR_CLI_BENCH_H
#define QR_CLI_BENCH_H
#include <stdint.h>
#include "cli/args.h"
int bench_latency(const struct cli_command *command, int argc, char **argv);
int bench_throughput(const struct cli_command *command, int argc, char **argv);
int bench_serve(const struct cli_command *command, int argc, char **argv);
int bench_ablate(const struct cli_command *command, int argc, char **argv);
int bench_kernels(const struct cli_command *command, int argc, char **argv);
/* What the kinds share (bench_share.c). */
struct bench_range {
    int64_t low, high;
};
/* "100:1024" or "512", within 1 and most. */
bool bench_parse_range(const char *text, int64_t most, struct bench_range *out);
/* A number of the range, by a counter of qr_rand_uniform. */
int64_t bench_draw(uint64_t seed, const struct bench_range *range, uint32_t what, size_t i);
int bench_by_value(const void *a, const void *b); /* for qsort of doubles */
/* Nearest rank: the least value that percent (1 to 100) of all do not exceed; its index among n > 0 sorted ones. */
size_t bench_rank(uint64_t n, int percent);
double bench_percentile(const double *sorted, size_t n, int percent); /* 0 without values */
/* Bytes a second that n_thread threads (0: all) read from a buffer that no cache holds; the best of a few passes. 0: out of memory. */
double bench_read_bandwidth(int n_thread);
#endif
