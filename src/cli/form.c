/* form.c - --json-schema, --json-object, --regex and --choice: the answer keeps to a form. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli/input.h"
#include "cli/session.h"
#include "cli/ui.h"

#define MAX_SCHEMA (4 << 20) /* bytes */

int cli_form(const struct cli_command *command, struct cli_session *s)
{
    int n = (s->json_schema != NULL) + s->json_object + (s->regex != NULL) + (s->choice.n > 0);
    const char *const *text = NULL;
    const char *one[1];
    char *from_file = NULL;
    size_t n_text = 1, n_file;
    struct qr_err err;
    enum qr_form form = QR_FORM_JSON_OBJECT;
    if (n == 0)
        return CLI_GO_ON;
    if (n > 1)
        return cli_usage_error(command, "--json-schema, --json-object, --regex and --choice: give one of them");
    if (s->choice.n > 0) {
        form = QR_FORM_CHOICE;
        text = s->choice.item;
        n_text = s->choice.n;
    } else if (s->regex) {
        form = QR_FORM_REGEX;
        one[0] = s->regex;
        text = one;
    } else if (s->json_schema) {
        form = QR_FORM_JSON_SCHEMA;
        if (s->json_schema[0] == '@' && !(from_file = cli_read_file(s->json_schema + 1, MAX_SCHEMA, &n_file)))
            return cli_interrupted ? CLI_INTERRUPTED : CLI_FAILED;
        one[0] = from_file ? from_file : s->json_schema;
        text = one;
    }
    enum qr_status status = qr_constraint_create(s->model, form, text, n_text, &s->constraint, &err);
    if (status != QR_OK && form == QR_FORM_JSON_SCHEMA && !from_file && access(s->json_schema, R_OK) == 0)
        cli_error("--json-schema wants JSON; for that of a file write --json-schema @%s", s->json_schema);
    else if (status != QR_OK && form == QR_FORM_JSON_SCHEMA && !from_file && !strpbrk(s->json_schema, "{}[]\""))
        cli_error("--json-schema '%.100s' is no JSON: give a schema such as '{\"type\": \"object\"}', or @FILE",
                  s->json_schema);
    else if (status != QR_OK)
        cli_fail(&err);
    free(from_file);
    return status == QR_OK ? CLI_GO_ON : CLI_FAILED;
}
