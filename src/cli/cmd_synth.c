/* cmd_synth.c - write a model with random weights. */
#include <stdio.h>
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/ui.h"
#include "base/dtype.h"
#include "model/synth.h"

static bool on_progress(void *ctx, uint64_t done, uint64_t total)
{
    cli_progress_update(ctx, done, total);
    return !cli_interrupted;
}

int cmd_synth(const struct cli_command *command, int argc, char **argv)
{
    struct cli_positional words;
    int64_t seed = 0, shard_mb = 0;
    const char *type_name = "bf16";
    bool overwrite = false;
    const struct cli_option own[] = {
        {"--seed", NULL, CLI_INT, "N", "of the random numbers (default: 0)", &seed, 0, 9e18},
        {"--dtype", NULL, CLI_TEXT, "TYPE", "bf16 (default), f16, f32; for GGUF also q8_0, q4_0, q4_1", &type_name, 0,
         0},
        {"--shard-mb", NULL, CLI_INT, "N", "split safetensors into files of about N MB (default: one file)", &shard_mb,
         0, 1 << 20},
        {"--overwrite", NULL, CLI_FLAG, NULL, "replace what stands at that path", &overwrite, 0, 0},
        {0},
    };
    const struct cli_group groups[] = {{"Options", own}, {0}};
    int code = cli_parse(command, groups, argc, argv, &words, 2);
    if (code != CLI_GO_ON)
        return code;
    if (words.n < 2)
        return cli_usage_error(command, "give a SHAPE and a path, such as: quire synth tiny-qwen2 /tmp/tiny");
    struct qr_config config;
    struct qr_err err;
    struct cli_progress progress;
    enum qr_dtype type;
    if (!qr_dtype_from_name(type_name, &type))
        return cli_usage_error(command,
                               "--dtype %s is unknown: bf16, f16 and f32 are written, and q8_0, q4_0 and q4_1 to GGUF",
                               type_name);
    if (qr_config_from_shape(words.arg[0], &config, &err) != QR_OK)
        return cli_usage_error(command, "%s", err.message);
    cli_catch_interrupt();
    cli_progress_start(&progress, "writing", "B");
    enum qr_status status = qr_synth_write(&config, (uint64_t)seed, type, words.arg[1], (uint64_t)shard_mb * 1000000,
                                           overwrite, on_progress, &progress, &err);
    cli_progress_end(&progress);
    if (status == QR_CANCELLED)
        return CLI_INTERRUPTED;
    if (status != QR_OK)
        return cli_fail(&err);
    fprintf(stderr, "wrote %s\n", words.arg[1]);
    return CLI_OK;
}
