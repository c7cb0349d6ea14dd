/* chat_request.c - checks a chat request and lays out the variables that its template sees. */
#include "text/chat_request.h"
#include <string.h>
#include "base/buf.h"

static const char *type_name(const json_t *v)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string", [JSON_INTEGER] = "a number",
        [JSON_REAL] = "a number",    [JSON_TRUE] = "true",      [JSON_FALSE] = "false",     [JSON_NULL] = "null"};
    return v ? names[json_typeof(v)] : "missing";
}

static enum qr_status no_memory(struct qr_err *err)
{
    return qr_fail(err, QR_NOMEM, "out of memory while the chat request was read");
}

/* One content part into the text, or refused. */
static enum qr_status join_part(const json_t *part, size_t message, size_t i, struct qr_buf *text, struct qr_err *err)
{
    const json_t *type = json_object_get(part, "type"), *s = json_object_get(part, "text");
    if (!json_is_object(part) || !json_is_string(type))
        return qr_fail(err, QR_INVALID, "messages[%zu].content[%zu] must be an object with a string \"type\"", message,
                       i);
    if (strcmp(json_string_value(type), "text") != 0)
        return qr_fail(err, QR_UNSUPPORTED,
                       "messages[%zu].content[%zu] has type \"%.60s\"; this model reads only \"text\"", message, i,
                       json_string_value(type));
    if (!json_is_string(s))
        return qr_fail(err, QR_INVALID, "messages[%zu].content[%zu].text must be a string, not %s", message, i,
                       type_name(s));
    if (i)
        qr_buf_putc(text, '\n');
    return qr_buf_append(text, json_string_value(s), json_string_length(s)) ? QR_OK : no_memory(err);
}

/* A message whose list of parts became a string: a shallow copy, the request stays as it is. */
static enum qr_status join_parts(const json_t *message, size_t index, json_t **copy, struct qr_err *err)
{
    struct qr_buf text;
    const json_t *parts = json_object_get(message, "content");
    enum qr_status status = QR_OK;
    qr_buf_init(&text, 0);
    for (size_t i = 0; i < json_array_size(parts) && status == QR_OK; i++)
        status = join_part(json_array_get(parts, i), index, i, &text, err);
    if (status == QR_OK) {
        *copy = json_copy((json_t *)message);
        json_t *content = json_stringn_nocheck(text.data ? text.data : "", text.len);
        if (json_object_set_new_nocheck(*copy, "content", content) != 0) { /* frees content, also when *copy is NULL */
            json_decref(*copy);
            *copy = NULL;
            status = no_memory(err);
        }
    }
    qr_buf_free(&text);
    return status;
}

static enum qr_status check_message(const json_t *message, size_t i, struct qr_err *err)
{
    const json_t *role = json_object_get(message, "role"), *content = json_object_get(message, "content");
    if (!json_is_object(message))
        return qr_fail(err, QR_INVALID, "messages[%zu] must be an object, not %s", i, type_name(message));
    if (!json_is_string(role))
        return qr_fail(err, QR_INVALID, "messages[%zu].role must be a string, and is %s", i, type_name(role));
    if (content && !json_is_string(content) && !json_is_array(content) && !json_is_null(content))
        return qr_fail(err, QR_INVALID, "messages[%zu].content must be a string, a list of parts or null, not %s", i,
                       type_name(content));
    return QR_OK;
}

static enum qr_status add_messages(const json_t *request, bool keep_parts, json_t *context, struct qr_err *err)
{
    const json_t *messages = json_object_get(request, "messages");
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return qr_fail(err, QR_INVALID, "\"messages\" must be a list with at least one message, and is %s",
                       json_is_array(messages) ? "empty" : type_name(messages));
    json_t *list = json_array();
    enum qr_status status = list ? QR_OK : no_memory(err);
    for (size_t i = 0; i < json_array_size(messages) && status == QR_OK; i++) {
        json_t *message = json_array_get(messages, i), *copy = NULL;
        status = check_message(message, i, err);
        if (status == QR_OK && !keep_parts && json_is_array(json_object_get(message, "content")))
            status = join_parts(message, i, &copy, err);
        if (status == QR_OK && json_array_append_new(list, copy ? copy : json_incref(message)) != 0)
            status = no_memory(err);
    }
    if (status == QR_OK && json_object_set_nocheck(context, "messages", list) != 0)
        status = no_memory(err);
    json_decref(list);
    return status;
}

static enum qr_status check_list(const json_t *request, const char *key, struct qr_err *err)
{
    const json_t *v = json_object_get(request, key);
    if (!v || json_is_null(v))
        return QR_OK;
    for (size_t i = 0; json_is_array(v) && i < json_array_size(v); i++) {
        if (!json_is_object(json_array_get(v, i)))
            return qr_fail(err, QR_INVALID, "%s[%zu] must be an object, not %s", key, i,
                           type_name(json_array_get(v, i)));
    }
    return json_is_array(v) ? QR_OK : qr_fail(err, QR_INVALID, "\"%s\" must be a list, not %s", key, type_name(v));
}

static enum qr_status check_fields(const json_t *request, struct qr_err *err)
{
    const json_t *prompt = json_object_get(request, "add_generation_prompt"),
                 *kwargs = json_object_get(request, "chat_template_kwargs");
    if (prompt && !json_is_boolean(prompt) && !json_is_null(prompt))
        return qr_fail(err, QR_INVALID, "\"add_generation_prompt\" must be true or false, not %s", type_name(prompt));
    if (kwargs && !json_is_object(kwargs) && !json_is_null(kwargs))
        return qr_fail(err, QR_INVALID, "\"chat_template_kwargs\" must be an object, not %s", type_name(kwargs));
    QR_TRY(check_list(request, "tools", err));
    return check_list(request, "documents", err);
}

static enum qr_status fill(const json_t *request, const char *bos, const char *eos, bool keep_parts, json_t *context,
                           struct qr_err *err)
{
    const char *key;
    json_t *value;
    bool ok = (!bos || json_object_set_new(context, "bos_token", json_string(bos)) == 0) &&
              (!eos || json_object_set_new(context, "eos_token", json_string(eos)) == 0) &&
              json_object_set_new(context, "tools", json_null()) == 0 &&
              json_object_set_new(context, "documents", json_null()) == 0;
    json_object_foreach((json_t *)request, key, value)
    {
        if (strcmp(key, "chat_template_kwargs") != 0 && strcmp(key, "messages") != 0)
            ok = ok && json_object_set_nocheck(context, key, value) == 0;
    }
    json_t *prompt = json_object_get(context, "add_generation_prompt");
    if (!prompt || json_is_null(prompt))
        ok = ok && json_object_set_new(context, "add_generation_prompt", json_true()) == 0;
    json_object_foreach(json_object_get(request, "chat_template_kwargs"), key, value) ok =
        ok && json_object_set_nocheck(context, key, value) == 0;
    return ok ? add_messages(request, keep_parts, context, err) : no_memory(err);
}

enum qr_status qr_chat_context(const json_t *request, const char *bos, const char *eos, bool keep_parts,
                               json_t **context, struct qr_err *err)
{
    *context = NULL;
    if (!json_is_object(request))
        return qr_fail(err, QR_INVALID, "a chat request must be a JSON object, not %s", type_name(request));
    QR_TRY(check_fields(request, err));
    json_t *c = json_object();
    enum qr_status status = c ? fill(request, bos, eos, keep_parts, c, err) : no_memory(err);
    if (status == QR_OK)
        *context = c;
    else
        json_decref(c);
    return status;
}
