/* cmd_bench.c - measure speed: which kind? */
#include <stdio.h>
#include <string.h>
#include "cli/bench.h"
#include "cli/commands.h"

int cmd_bench(const struct cli_command *command, int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(const struct cli_command *command, int argc, char **argv);
        const char *usage;
    } kind[] = {{"latency", bench_latency, "[MODEL] [options]"},
                {"throughput", bench_throughput, "[MODEL] [options]"},
                {"kernels", bench_kernels, "[options]"},
                {"serve", bench_serve, "[options]"},
                {"ablate", bench_ablate, "[MODEL] [options]"}};
    for (size_t i = 0; argc && i < sizeof kind / sizeof *kind; i++)
        if (strcmp(argv[0], kind[i].name) == 0) {
            struct cli_command own = *command; /* so that errors and help name the kind */
            char name[32];
            snprintf(name, sizeof name, "%s %s", command->name, kind[i].name);
            own.name = name;
            own.usage = kind[i].usage;
            return kind[i].run(&own, argc - 1, argv + 1);
        }
    if (argc && (strcmp(argv[0], "-h") == 0 || strcmp(argv[0], "--help") == 0)) {
        printf("usage: quire bench %s\n\n%s\n\n%s\n\nquire bench latency -h, quire bench throughput -h, quire bench "
               "kernels -h, quire bench serve -h and quire bench ablate -h list the options.\n",
               command->usage, command->summary, command->details);
        return CLI_OK;
    }
    return cli_usage_error(command,
                           argc ? "unknown kind '%s': latency, throughput, kernels, serve or ablate"
                                : "which kind? latency, throughput, kernels, serve or ablate%s",
                           argc ? argv[0] : "");
}
