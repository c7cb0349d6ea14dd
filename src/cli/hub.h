/* hub.h - repositories of the Hugging Face hub, for the commands. */
#ifndef QR_CLI_HUB_H
#define QR_CLI_HUB_H
#include "cli/args.h"

/* Downloads a repository. *path, malloc'ed: where it lies. CLI_GO_ON, or the exit code after it printed the error. */
int cli_hub_fetch(const char *name, char **path);
/* *path, malloc'ed: what to open for a MODEL that is a repository; NULL when it is none. device as in --device. */
int cli_hub_resolve(const char *name, const char *device, bool tokenizer_only, char **path);
#endif
