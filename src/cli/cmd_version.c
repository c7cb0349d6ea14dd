/* cmd_version.c - version, build and devices. */
#include <jansson.h>
#include <stdio.h>
#include "base/pool.h"
#include "cli/commands.h"
#include "cpu/cpu.h"
#include "cuda/cuda.h"

static void add_gpus(json_t *devices)
{
    struct qr_cuda_device gpu;
    int n = 0;
    if (qr_cuda_count(&n, NULL) != QR_OK)
        return;
    for (int i = 0; i < n; i++)
        if (qr_cuda_device_get(i, false, &gpu, NULL) == QR_OK)
            json_array_append_new(devices, json_pack("{s:s, s:i, s:s, s:i, s:i, s:i, s:I}", "device", "cuda", "index",
                                                     i, "name", gpu.name, "major", gpu.major, "minor", gpu.minor,
                                                     "multiprocessors", gpu.n_sm, "memory", (json_int_t)gpu.memory));
}

static void print_gpus(void)
{
    char driver[16], runtime[16];
    struct qr_err err;
    int n;
    qr_cuda_versions(driver, runtime);
    if (!qr_cuda_built())
        printf("cuda: not in this build\n");
    else if (qr_cuda_count(&n, &err) != QR_OK)
        printf("cuda: runtime %s; %s\n", runtime, err.message);
    else
        for (int i = 0; i < n; i++) {
            struct qr_cuda_device gpu;
            if (qr_cuda_device_get(i, false, &gpu, &err) == QR_OK)
                printf("cuda %d: %s, compute capability %d.%d, %d multiprocessors, %.1f GiB; driver for CUDA %s, "
                       "runtime %s\n",
                       i, gpu.name, gpu.major, gpu.minor, gpu.n_sm, (double)gpu.memory / (1024.0 * 1024 * 1024), driver,
                       runtime);
            else
                printf("cuda %d: %s\n", i, err.message);
        }
}

int cmd_version(const struct cli_command *command, int argc, char **argv)
{
    struct cli_positional words;
    bool json = false;
    const struct cli_option own[] = {{"--json", NULL, CLI_FLAG, NULL, "one JSON object", &json, 0, 0}, {0}};
    const struct cli_group groups[] = {{"Options", own}, {0}};
    int code = cli_parse(command, groups, argc, argv, &words, 0);
    if (code != CLI_GO_ON)
        return code;
    if (json) {
        json_t *root = json_pack("{s:s, s:s, s:[{s:s, s:s, s:i}]}", "version", qr_version(), "compiler", __VERSION__,
                                 "devices", "device", "cpu", "isa", qr_isa_name(qr_isa_best()), "cpus", qr_cpu_count());
        add_gpus(json_object_get(root, "devices"));
        json_dumpf(root, stdout, JSON_PRESERVE_ORDER);
        putchar('\n');
        json_decref(root);
        return CLI_OK;
    }
    printf("quire %s, built with gcc %s\n", qr_version(), __VERSION__);
    printf("cpu: %d CPUs, kernels", qr_cpu_count());
    for (enum qr_isa isa = QR_ISA_C; isa < QR_N_ISA; isa++)
        printf(" %s%s", qr_isa_name(isa),
               qr_isa_runs_here(isa) ? (isa == qr_isa_best() ? " (used)" : "") : " (not on this CPU)");
    putchar('\n');
    print_gpus();
    return CLI_OK;
}
