/* conversation.h - the messages of a chat. */
#ifndef QR_CLI_CONVERSATION_H
#define QR_CLI_CONVERSATION_H
#include <jansson.h>
#include "cli/generate.h"

struct cli_conversation {
    json_t *messages; /* array of {"role", "content"} */
    char *system;     /* malloc'ed or NULL */
    struct qr_usage last;
};

bool cli_conversation_init(struct cli_conversation *talk, const char *system); /* system may be NULL */
void cli_conversation_free(struct cli_conversation *talk);
/* Forgets all messages; system NULL keeps the system message, "" removes it. False: not UTF-8, or no memory. */
bool cli_conversation_reset(struct cli_conversation *talk, const char *system);
/* False after printing an error. */
bool cli_conversation_add(struct cli_conversation *talk, const char *role, const char *text, size_t n);
void cli_conversation_drop_last(struct cli_conversation *talk);
/* The whole conversation through the model's template, as ids (malloc'ed, qr_free). */
enum qr_status cli_conversation_ids(const struct cli_conversation *talk, const struct qr_model *model, int32_t **ids,
                                    size_t *n_ids, struct qr_err *err);
enum qr_status cli_conversation_save(const struct cli_conversation *talk, const char *path, struct qr_err *err);
#endif
