/* cmd_version.c - version, build and devices. */
#include <jansson.h>
#include <stdio.h>
#include "base/pool.h"
#include "cli/commands.h"
#include "cpu/cpu.h"

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
    printf("\ncuda: not in this build\n");
    return CLI_OK;
}
