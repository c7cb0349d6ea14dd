/* chat.c - the model's chat templates: parsed once, picked by what a request holds, and given their variables. */
#include "text/chat.h"
#include <stdlib.h>
#include <string.h>
#include "text/chat_request.h"
#include "text/jinja.h"

struct entry {
    char *name;
    struct qr_jinja *jinja;
    char *text;
    bool reads_parts; /* takes content given as a list of parts */
};

struct qr_chat {
    char *bos, *eos; /* NULL: the model has none */
    json_t *tokens;  /* other special tokens by name, or NULL */
    struct entry *entry;
    size_t n;
};

void qr_chat_destroy(struct qr_chat *chat)
{
    if (!chat)
        return;
    for (size_t i = 0; i < chat->n; i++) {
        free(chat->entry[i].name);
        free(chat->entry[i].text);
        qr_jinja_free(chat->entry[i].jinja);
    }
    free(chat->entry);
    free(chat->bos);
    free(chat->eos);
    json_decref(chat->tokens);
    free(chat);
}

/* Does the template print the text of [{"type": "text", "text": ...}], and not the list itself? Asked once by rendering
 * such a message: the answer is exact where words like "content is string" in the template say little (one that empties
 * every content that is no string has them too). */
static bool reads_parts(const struct qr_chat *chat, const struct qr_jinja *jinja)
{
    static const char needle[] = "needle6174";
    struct qr_buf out;
    json_t *context = json_pack("{s:[{s:s, s:[{s:s, s:s}]}], s:s*, s:s*, s:n, s:n, s:b}", "messages", "role", "user",
                                "content", "type", "text", "text", needle, "bos_token", chat->bos, "eos_token",
                                chat->eos, "tools", "documents", "add_generation_prompt", 1);
    if (!context)
        return false;
    qr_buf_init(&out, (size_t)1 << 20);
    bool yes = qr_jinja_render(jinja, context, NULL, &out, NULL) == QR_OK && out.data && strstr(out.data, needle) &&
               !strstr(out.data, "'type'") && !strstr(out.data, "\"type\"");
    qr_buf_free(&out);
    json_decref(context);
    return yes;
}

static enum qr_status add(struct qr_chat *chat, const struct qr_chat_template *template, struct qr_err *err)
{
    struct entry *entry = &chat->entry[chat->n];
    enum qr_status status = qr_jinja_parse(template->text, template->n, &entry->jinja, err);
    if (status != QR_OK)
        return strcmp(template->name, "default") == 0 ? status
                                                      : qr_err_prefix(err, status, "template '%s'", template->name);
    chat->n++;
    entry->name = strdup(template->name);
    entry->text = strndup(template->text, template->n);
    if (!entry->name || !entry->text)
        return qr_fail(err, QR_NOMEM, "out of memory while the chat templates were read");
    entry->reads_parts = reads_parts(chat, entry->jinja);
    return QR_OK;
}

enum qr_status qr_chat_create(const struct qr_chat_template *templates, size_t n, const char *bos, const char *eos,
                              struct qr_chat **chat, struct qr_err *err)
{
    *chat = NULL;
    if (n == 0)
        return qr_fail(err, QR_NOTFOUND, "the model has no chat template: give one with --chat-template FILE");
    struct qr_chat *c = calloc(1, sizeof *c);
    bool ok = c && (c->entry = calloc(n, sizeof *c->entry)) && (!bos || (c->bos = strdup(bos))) &&
              (!eos || (c->eos = strdup(eos)));
    if (!ok) {
        qr_chat_destroy(c);
        return qr_fail(err, QR_NOMEM, "out of memory while the chat templates were read");
    }
    for (size_t i = 0; i < n; i++) {
        enum qr_status status = add(c, &templates[i], err);
        if (status != QR_OK) {
            qr_chat_destroy(c);
            return status;
        }
    }
    *chat = c;
    return QR_OK;
}

/* "<pad>" or {"content": "<pad>", ...}; a new reference, NULL where it is neither. */
static json_t *token_text(const json_t *token)
{
    const json_t *text = json_is_object(token) ? json_object_get(token, "content") : token;
    return json_is_string(text) ? json_string_nocheck(json_string_value(text)) : NULL;
}

enum qr_status qr_chat_set_tokens(struct qr_chat *chat, const json_t *config, struct qr_err *err)
{
    static const char *const names[] = {"unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};
    const json_t *more = json_object_get(config, "additional_special_tokens"), *one;
    json_t *tokens = json_object(), *list = json_array();
    size_t i;
    bool ok = tokens && list;
    for (i = 0; ok && i < sizeof names / sizeof names[0]; i++) {
        json_t *text = token_text(json_object_get(config, names[i]));
        ok = !text || json_object_set_new(tokens, names[i], text) == 0;
    }
    json_array_foreach(more, i, one)
    {
        json_t *text = token_text(one);
        ok = ok && (!text || json_array_append_new(list, text) == 0);
    }
    if (ok && json_array_size(list) > 0)
        ok = json_object_set(tokens, "additional_special_tokens", list) == 0;
    json_decref(list);
    json_decref(chat->tokens);
    chat->tokens = ok ? tokens : NULL;
    if (!ok)
        json_decref(tokens);
    return ok ? QR_OK : qr_fail(err, QR_NOMEM, "out of memory for the names of special tokens");
}

static const struct entry *pick(const struct qr_chat *chat, const json_t *request)
{
    const char *want = json_array_size(json_object_get(request, "tools")) ? "tool_use" : "default";
    const struct entry *found = NULL;
    for (size_t i = 0; i < chat->n; i++) {
        if (strcmp(chat->entry[i].name, want) == 0)
            return &chat->entry[i];
        if (!found && strcmp(chat->entry[i].name, "default") == 0)
            found = &chat->entry[i];
    }
    return found ? found : &chat->entry[0];
}

bool qr_chat_mentions(const struct qr_chat *chat, const char *word)
{
    for (size_t i = 0; i < chat->n; i++)
        if (strstr(chat->entry[i].text, word))
            return true;
    return false;
}

const char *qr_chat_default_text(const struct qr_chat *chat)
{
    return chat->entry[0].text;
}

enum qr_status qr_chat_render(const struct qr_chat *chat, const json_t *request, struct qr_buf *out, struct qr_err *err)
{
    json_t *context = NULL;
    const struct entry *entry = pick(chat, request);
    enum qr_status status = qr_chat_context(request, chat->bos, chat->eos, entry->reads_parts, &context, err);
    if (status == QR_OK && chat->tokens && json_object_update_missing(context, chat->tokens) != 0)
        status = qr_fail(err, QR_NOMEM, "out of memory for the variables of the chat template");
    if (status == QR_OK)
        status = qr_jinja_render(entry->jinja, context, NULL, out, err);
    json_decref(context);
    return status;
}
