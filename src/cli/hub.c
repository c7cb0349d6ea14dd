/* hub.c - a MODEL that is a repository: from the Hugging Face cache, or downloaded with a progress bar. */
#include "cli/hub.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "cli/session.h"
#include "cli/ui.h"
#include "cuda/cuda.h"
#include "engine/memory.h"
#include "model/hub.h"

static bool on_progress(void *ctx, uint64_t done, uint64_t total)
{
    cli_progress_update(ctx, done, total);
    return !cli_interrupted;
}

static void on_note(void *ctx, const char *line)
{
    const struct cli_progress *progress = ctx;
    fprintf(stderr, "%s%s\n", progress->on ? "\r\033[K" : "", line);
}

/* Of the GPU where a model would run on one, else of the machine; 0: not known. */
static uint64_t memory_for_models(const char *device)
{
    struct qr_cuda_device gpu;
    if ((!device || strcmp(device, "cpu") != 0) && qr_cuda_device_get(0, true, &gpu, NULL) == QR_OK && gpu.available)
        return gpu.available;
    return qr_memory_available();
}

static bool no_bars(void)
{
    const char *v = getenv("HF_HUB_DISABLE_PROGRESS_BARS");
    return v &&
           (strcmp(v, "1") == 0 || strcasecmp(v, "true") == 0 || strcasecmp(v, "on") == 0 || strcasecmp(v, "yes") == 0);
}

static int run(enum qr_status (*call)(const char *, const struct qr_hub_options *, char **, struct qr_err *),
               const char *name, const char *device, bool tokenizer_only, char **path)
{
    struct cli_progress progress;
    struct qr_hub_options options = {.memory = memory_for_models(device),
                                     .tokenizer_only = tokenizer_only,
                                     .progress = on_progress,
                                     .note = on_note,
                                     .ctx = &progress};
    struct qr_err err;
    cli_catch_interrupt();
    cli_progress_start(&progress, "fetching", "B");
    progress.on = progress.on && !no_bars();
    enum qr_status status = call(name, &options, path, &err);
    cli_progress_end(&progress);
    if (status == QR_CANCELLED) {
        fputs("stopped; call it again and it goes on from there\n", stderr);
        return CLI_INTERRUPTED;
    }
    return status == QR_OK ? CLI_GO_ON : cli_fail(&err);
}

int cli_hub_fetch(const char *name, char **path)
{
    return run(qr_hub_fetch, name, NULL, false, path);
}

int cli_hub_resolve(const char *name, const char *device, bool tokenizer_only, char **path)
{
    struct stat st;
    *path = NULL;
    if (!qr_hub_is_name(name) || stat(name, &st) == 0 || errno != ENOENT)
        return CLI_GO_ON;
    int code = run(qr_hub_resolve, name, device, tokenizer_only, path);
    if (code == CLI_FAILED) /* it may have been meant as a path */
        fprintf(stderr, "note: there is no file or directory %s here, so it was taken for a repository\n", name);
    return code;
}
