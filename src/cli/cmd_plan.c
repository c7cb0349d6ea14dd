/* cmd_plan.c - print the recorded forward pass. */
#include <stdio.h>
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/ui.h"
#include "engine/model.h"
#include "plan/fuse.h"

static int print_plan(const struct qr_model *model, uint32_t mask, bool all_layers)
{
    struct qr_err err;
    struct qr_plan *plan;
    struct qr_buf text;
    if (qr_fuse(model->plan, mask, &plan, &err) != QR_OK)
        return cli_fail(&err);
    qr_buf_init(&text, 0);
    qr_plan_print(plan, all_layers, cli_fancy(stdout), &text);
    bool failed = text.failed;
    if (failed)
        cli_error("out of memory");
    else
        fwrite(text.data, 1, text.len, stdout);
    qr_buf_free(&text);
    qr_plan_free(plan);
    return failed ? CLI_FAILED : CLI_OK;
}

int cmd_plan(const struct cli_command *command, int argc, char **argv)
{
    struct cli_session session;
    struct cli_positional words;
    struct qr_err err;
    const char *fuse = "default";
    bool all_layers = false;
    uint32_t mask;
    cli_session_init(&session);
    const struct cli_option own[] = {
        {"--fuse", NULL, CLI_TEXT, "MASK",
         "default, all, none, a number, names with commas, or -name: all but that one", &fuse, 0, 0},
        {"--all-layers", NULL, CLI_FLAG, NULL, "print equal layers one by one", &all_layers, 0, 0},
        {0},
    };
    const struct cli_group groups[] = {{"Options", own}, {"Model", session.model_options}, {0}};
    int code = cli_parse(command, groups, argc, argv, &words, 1);
    if (code != CLI_GO_ON)
        return code;
    if (qr_fuse_parse(fuse, &mask, &err) != QR_OK)
        return cli_usage_error(command, "--fuse: %s", err.message);
    code = cli_open(command, &session, words.n ? words.arg[0] : NULL, CLI_NEED_HEADERS);
    if (code != CLI_GO_ON)
        return code;
    code = print_plan(session.model, mask, all_layers);
    cli_close(&session);
    return code;
}
