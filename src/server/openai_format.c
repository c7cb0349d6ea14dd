/* openai_format.c - what an answer must look like: response_format and vLLM's structured_outputs, as a constraint.
 *
 * response_format {"type": "json_object"}, {"type": "json_schema", "json_schema": {"schema"}}; structured_outputs
 * {"json" | "regex" | "choice"}, or the older guided_json, guided_regex, guided_choice. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "server/openai_parse.h"

enum { MAX_CHOICES = 100000 };

struct wish {
    bool any;
    enum qr_form form;
    const char *field; /* where it was found */
    const json_t *value;
};

static const json_t *field(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

static enum qr_status read_response_format(const json_t *value, struct wish *wish, struct qr_openai_error *error)
{
    const char *type = json_string_value(field(value, "type"));
    if (type && strcmp(type, "text") == 0)
        return QR_OK;
    *wish = (struct wish){.any = true, .field = "response_format", .form = QR_FORM_JSON_SCHEMA};
    if (type && strcmp(type, "json_object") == 0) {
        wish->value = field(value, "schema"); /* llama.cpp's way to give one */
        wish->form = wish->value ? QR_FORM_JSON_SCHEMA : QR_FORM_JSON_OBJECT;
        return QR_OK;
    }
    if (!type || strcmp(type, "json_schema") != 0)
        return qr_openai_fail(error, QR_INVALID, "response_format",
                              "\"response_format\" must have the \"type\" text, json_object or json_schema");
    wish->value = field(field(value, "json_schema"), "schema");
    if (!wish->value)
        return qr_openai_fail(error, QR_INVALID, "response_format",
                              "\"response_format\" must hold {\"json_schema\": {\"schema\": {...}}}");
    return QR_OK;
}

static enum qr_status find_wish(const json_t *body, struct wish *wish, struct qr_openai_error *error)
{
    static const struct {
        const char *old_name, *name;
        enum qr_form form;
    } ways[] = {{"guided_json", "json", QR_FORM_JSON_SCHEMA},
                {"guided_regex", "regex", QR_FORM_REGEX},
                {"guided_choice", "choice", QR_FORM_CHOICE}};
    const json_t *value = field(body, "response_format"), *outputs = field(body, "structured_outputs");
    if (value)
        QR_TRY(read_response_format(value, wish, error));
    int n = wish->any;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const json_t *old = field(body, ways[i].old_name), *fresh = field(outputs, ways[i].name);
        if (!old && !fresh)
            continue;
        n += (old != NULL) + (fresh != NULL);
        *wish = (struct wish){.any = true,
                              .form = ways[i].form,
                              .field = fresh ? "structured_outputs" : ways[i].old_name,
                              .value = fresh ? fresh : old};
    }
    if (outputs && (!json_is_object(outputs) || (json_object_size(outputs) && n == 0)))
        return qr_openai_fail(error, QR_UNSUPPORTED, "structured_outputs",
                              "\"structured_outputs\" must be an object with \"json\", \"regex\" or \"choice\"");
    if (n > 1)
        return qr_openai_fail(error, QR_INVALID, wish->field,
                              "\"%s\" is one of %d descriptions of the answer: give one", wish->field, n);
    return QR_OK;
}

static enum qr_status create(struct qr_openai_parse *p, const struct wish *wish, const char *const *text, size_t n)
{
    struct qr_err *err = &p->error->err;
    enum qr_status status = qr_constraint_create(p->model, wish->form, text, n, &p->request->constraint, err);
    return status == QR_OK ? QR_OK : qr_err_prefix(err, status, "\"%s\"", wish->field);
}

static enum qr_status make_choice(struct qr_openai_parse *p, const struct wish *wish)
{
    size_t n = json_array_size(wish->value);
    if (!json_is_array(wish->value) || n == 0 || n > MAX_CHOICES)
        return qr_openai_fail(p->error, QR_INVALID, wish->field, "\"%s\" must list 1 to %d strings to choose from",
                              wish->field, MAX_CHOICES);
    const char **choice = malloc(n * sizeof *choice);
    if (!choice)
        return qr_openai_no_memory(p, wish->field);
    enum qr_status status = QR_OK;
    for (size_t i = 0; i < n && status == QR_OK; i++) {
        const json_t *one = json_array_get(wish->value, i);
        choice[i] = json_string_value(one);
        if (!choice[i] || strlen(choice[i]) != json_string_length(one))
            status = qr_openai_fail(p->error, QR_INVALID, wish->field, "\"%s\" entry %zu must be a string without NUL",
                                    wish->field, i);
    }
    if (status == QR_OK)
        status = create(p, wish, choice, n);
    free(choice);
    return qr_openai_blame(p, wish->field, status);
}

/* A schema may also come as a string that holds it. */
static enum qr_status make_text(struct qr_openai_parse *p, const struct wish *wish)
{
    char *dumped = wish->value && !json_is_string(wish->value) && wish->form == QR_FORM_JSON_SCHEMA
                       ? json_dumps(wish->value, JSON_COMPACT | JSON_ENCODE_ANY)
                       : NULL;
    const char *text = dumped ? dumped : json_string_value(wish->value);
    enum qr_status status;
    if (wish->value && !text)
        status = qr_openai_fail(p->error, QR_INVALID, wish->field, "\"%s\" must be a string", wish->field);
    else if (text && !dumped && strlen(text) != json_string_length(wish->value))
        status = qr_openai_fail(p->error, QR_INVALID, wish->field, "\"%s\" must not hold NUL", wish->field);
    else
        status = create(p, wish, &text, text ? 1 : 0);
    free(dumped);
    return qr_openai_blame(p, wish->field, status);
}

/* ---------------------------------------------------------------- calls of tools that are forced */

static enum qr_status force_tool(struct qr_openai_parse *p)
{
    json_t *schema = qr_openai_tool_schema(p);
    const struct wish wish = {.any = true, .form = QR_FORM_JSON_SCHEMA, .field = "tool_choice", .value = schema};
    enum qr_status status = schema ? make_text(p, &wish) : qr_openai_no_memory(p, "tool_choice");
    json_decref(schema);
    return status;
}

enum qr_status qr_openai_read_format(struct qr_openai_parse *p)
{
    struct wish wish = {0};
    bool forced = p->request->tools == QR_TOOLS_NAMED || p->request->tools == QR_TOOLS_FORCED;
    QR_TRY(find_wish(p->body, &wish, p->error));
    if (wish.any && forced)
        return qr_openai_fail(p->error, QR_INVALID, wish.field,
                              "\"%s\" cannot be given along with a \"tool_choice\" that forces a call", wish.field);
    if (!wish.any && !forced)
        return QR_OK;
    QR_TRY(forced ? force_tool(p) : wish.form == QR_FORM_CHOICE ? make_choice(p, &wish) : make_text(p, &wish));
    p->request->constrained = true;
    return QR_OK;
}
