/* conversation.c - the messages of a chat. */
#include "cli/conversation.h"
#include <stdlib.h>
#include <string.h>
#include "base/err.h"
#include "base/mapfile.h"

bool cli_conversation_init(struct cli_conversation *talk, const char *system)
{
    *talk = (struct cli_conversation){0};
    return cli_conversation_reset(talk, system);
}

void cli_conversation_free(struct cli_conversation *talk)
{
    json_decref(talk->messages);
    free(talk->system);
    *talk = (struct cli_conversation){0};
}

bool cli_conversation_reset(struct cli_conversation *talk, const char *system)
{
    json_t *messages = json_array();
    if (system) {
        free(talk->system);
        talk->system = *system ? strdup(system) : NULL;
    }
    if (messages && talk->system) {
        json_t *first = json_pack("{s:s, s:s}", "role", "system", "content", talk->system);
        if (!first || json_array_append_new(messages, first) != 0) {
            json_decref(messages);
            return false;
        }
    }
    json_decref(talk->messages);
    talk->messages = messages;
    talk->last = (struct qr_usage){0};
    return messages != NULL;
}

bool cli_conversation_add(struct cli_conversation *talk, const char *role, const char *text, size_t n)
{
    json_t *content = json_stringn(text, n);
    if (!content) {
        cli_error("the message is not valid UTF-8");
        return false;
    }
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", content);
    if (message && json_array_append_new(talk->messages, message) == 0)
        return true;
    cli_error("out of memory");
    return false;
}

void cli_conversation_drop_last(struct cli_conversation *talk)
{
    size_t n = json_array_size(talk->messages);
    if (n)
        json_array_remove(talk->messages, n - 1);
}

enum qr_status cli_conversation_ids(const struct cli_conversation *talk, const struct qr_model *model, int32_t **ids,
                                    size_t *n_ids, struct qr_err *err)
{
    json_t *request = json_pack("{s:O}", "messages", talk->messages);
    char *text = request ? json_dumps(request, 0) : NULL, *prompt = NULL;
    size_t n = 0;
    json_decref(request);
    if (!text)
        return qr_fail(err, QR_NOMEM, "out of memory");
    enum qr_status status = qr_chat_prompt(model, text, &prompt, &n, err);
    free(text);
    if (status == QR_OK)
        status = qr_tokenize(model, prompt, n, true, false, ids, n_ids, err);
    qr_free(prompt);
    return status;
}

enum qr_status cli_conversation_save(const struct cli_conversation *talk, const char *path, struct qr_err *err)
{
    json_t *root = json_pack("{s:O}", "messages", talk->messages);
    char *text = root ? json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;
    json_decref(root);
    if (!text)
        return qr_fail(err, QR_NOMEM, "out of memory");
    enum qr_status status = qr_write_file(path, text, strlen(text), err);
    free(text);
    return status;
}
