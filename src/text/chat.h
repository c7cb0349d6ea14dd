/* chat.h - a conversation into the prompt text, by the model's own template. */
#ifndef QR_TEXT_CHAT_H
#define QR_TEXT_CHAT_H
#include <jansson.h>
#include "base/buf.h"
#include "base/err.h"

struct qr_chat;
/* templates: "default" first; a tokenizer_config.json may hold several by name ("tool_use" is taken when tools are given). bos, eos: text
 * of these tokens, or NULL. */
struct qr_chat_template {
    const char *name;
    const char *text;
    size_t n;
};
enum qr_status qr_chat_create(const struct qr_chat_template *templates, size_t n, const char *bos, const char *eos,
                              struct qr_chat **chat, struct qr_err *err);
/* The other special tokens of a tokenizer_config.json (pad_token, additional_special_tokens ...), which templates may name. */
enum qr_status qr_chat_set_tokens(struct qr_chat *chat, const json_t *config, struct qr_err *err);
void qr_chat_destroy(struct qr_chat *chat);
/* request: {"messages":[...], "tools":[...], "documents", "add_generation_prompt" (default true), "chat_template_kwargs":{...},
 * and other variables}. Checks roles and content types; content given as a list of text parts is joined to a string for templates
 * that do not handle lists. */
enum qr_status qr_chat_render(const struct qr_chat *chat, const json_t *request, struct qr_buf *out,
                              struct qr_err *err);
/* Does the text of a template hold this? Tells how the model was trained to write calls of tools and thoughts. */
bool qr_chat_mentions(const struct qr_chat *chat, const char *word);
const char *qr_chat_default_text(const struct qr_chat *chat); /* of the template that is taken without tools */
#endif
