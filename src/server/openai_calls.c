/* openai_calls.c - thoughts and calls of tools in an answer: "reasoning_content" and "tool_calls" of its message. */
#include <stdio.h>
#include "base/rand.h"
#include "server/openai_response.h"

bool qr_openai_is_parted(const struct qr_openai_request *request)
{
    return request->tools != QR_TOOLS_NONE || request->thinks;
}

void qr_openai_call_id(enum qr_tool_format tools, char *text)
{
    unsigned long long random = (unsigned long long)qr_rand_fresh_seed();
    if (tools == QR_TOOLS_MISTRAL)
        snprintf(text, 32, "%09llx", random & 0xfffffffffull);
    else
        snprintf(text, 32, "call_%016llx", random);
}

static bool add_call(struct qr_openai_choice *c, const struct qr_part *part)
{
    char id[32];
    qr_openai_call_id(c->parts.tools, id);
    if (!c->calls)
        c->calls = json_array();
    c->n_call++;
    return json_array_append_new(c->calls,
                                 json_pack("{s:s, s:s, s:{s:s, s:s%}}", "id", id, "type", "function", "function",
                                           "name", part->name, "arguments", part->text, part->n)) == 0;
}

static bool take_part(void *ctx, const struct qr_part *part)
{
    struct qr_openai_choice *c = ctx;
    switch (part->kind) {
    case QR_PART_THOUGHT:
        return qr_buf_append(&c->thought, part->text, part->n);
    case QR_PART_CALL:
        return c->one_call && c->n_call ? true : add_call(c, part);
    case QR_PART_TEXT:
        break;
    }
    return qr_buf_append(&c->text, part->text, part->n);
}

void qr_openai_parts_init(struct qr_openai_answer *a, const struct qr_openai_request *request)
{
    a->parted = qr_openai_is_parted(request);
    for (size_t i = 0; a->parted && i < a->n_choice; i++) {
        struct qr_openai_choice *c = &a->choice[i];
        qr_parts_init(&c->parts, request->tools, request->thinks, request->in_thought);
        c->parts.named = request->named;
        c->parts.emit = take_part;
        c->parts.ctx = c;
        c->one_call = request->one_call;
    }
}

json_t *qr_openai_message_json(const struct qr_openai_choice *c, json_t *content)
{
    bool silent = c->calls && json_string_length(content) == 0;
    json_t *message = json_pack("{s:s, s:o}", "role", "assistant", "content", silent ? json_null() : content);
    if (silent)
        json_decref(content);
    bool ok = message != NULL;
    if (ok && c->thought.len)
        ok = json_object_set_new(message, "reasoning_content", json_stringn(c->thought.data, c->thought.len)) == 0;
    if (ok && c->calls)
        ok = json_object_set(message, "tool_calls", c->calls) == 0;
    if (ok)
        return message;
    json_decref(message);
    return NULL;
}
