/* bench.h - the kinds of `quire bench`. */
#ifndef QR_CLI_BENCH_H
#define QR_CLI_BENCH_H
#include "cli/args.h"
int bench_latency(const struct cli_command *command, int argc, char **argv);
int bench_throughput(const struct cli_command *command, int argc, char **argv);
int bench_serve(const struct cli_command *command, int argc, char **argv);
int bench_ablate(const struct cli_command *command, int argc, char **argv);
int bench_kernels(const struct cli_command *command, int argc, char **argv);
/* Bytes a second that n_thread threads (0: all) read from a buffer that no cache holds; the best of a few passes. 0: out of memory. */
double bench_read_bandwidth(int n_thread);
#endif
