/* openai_tools.c - the schema of an answer that must call tools, made of the schemas of their parameters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "server/openai_parse.h"

static bool is_one_of(const char *key, const char *const *list)
{
    while (*list && strcmp(*list, key) != 0)
        list++;
    return *list != NULL;
}

/* Keywords whose value maps names to schemas, and those whose value is data. */
static const char *const maps[] = {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions", NULL};
static const char *const data[] = {"enum", "const", "default", "examples", "required", NULL};

static bool has(const json_t *schema, const char *key)
{
    return json_object_get(schema, key) != NULL;
}

/* Calls visit for the schema and all below it, deepest first, until it returns false. */
static bool walk(json_t *schema, bool (*visit)(json_t *schema, const void *ctx), const void *ctx)
{
    const char *key;
    json_t *value, *one;
    size_t i;
    json_array_foreach(schema, i, value)
    {
        if (!walk(value, visit, ctx))
            return false;
    }
    if (!json_is_object(schema))
        return true;
    json_object_foreach(schema, key, value)
    {
        const char *name;
        if (is_one_of(key, data))
            continue;
        if (!is_one_of(key, maps) && !walk(value, visit, ctx))
            return false;
        json_object_foreach(is_one_of(key, maps) ? value : NULL, name, one)
        {
            if (!walk(one, visit, ctx))
                return false;
        }
    }
    return visit(schema, ctx);
}

/* "#/$defs/X" means the whole schema, of which this one has become a part: ctx is its place there. */
static bool move_reference(json_t *schema, const void *ctx)
{
    const char *reference = json_string_value(json_object_get(schema, "$ref"));
    if (!reference || *reference != '#')
        return true;
    return json_object_set_new(schema, "$ref", json_sprintf("#%s%s", (const char *)ctx, reference + 1)) == 0;
}

/* Do several schemas speak of one object here, so that none of them knows all its members? */
static bool is_simple(json_t *schema, const void *ctx)
{
    (void)ctx;
    bool own = has(schema, "properties") || has(schema, "$ref");
    return !has(schema, "allOf") && !has(schema, "if") && !has(schema, "not") && !has(schema, "dependentSchemas") &&
           !(own && (has(schema, "anyOf") || has(schema, "oneOf"))) &&
           !(has(schema, "properties") && has(schema, "$ref"));
}

/* Who lists the parameters of a function means these: members of other names, which JSON Schema lets through unless it is
 * told otherwise, would be arguments that the function does not have. */
static bool close_object(json_t *schema, const void *ctx)
{
    (void)ctx;
    if (!json_object_size(json_object_get(schema, "properties")) || has(schema, "additionalProperties") ||
        has(schema, "patternProperties") || has(schema, "unevaluatedProperties"))
        return true;
    return json_object_set_new(schema, "additionalProperties", json_false()) == 0;
}

/* A tool's parameters at a place of the whole schema; NULL: out of memory. */
static json_t *parameters_of(const json_t *tool, const char *place)
{
    const json_t *given = json_object_get(json_object_get(tool, "function"), "parameters");
    json_t *schema = json_is_object(given) ? json_deep_copy(given) : json_pack("{s:s}", "type", "object");
    bool ok = schema && walk(schema, move_reference, place) &&
              (!walk(schema, is_simple, NULL) || walk(schema, close_object, NULL));
    if (ok)
        return schema;
    json_decref(schema);
    return NULL;
}

json_t *qr_openai_tool_schema(const struct qr_openai_parse *p)
{
    json_t *any = json_array();
    size_t i;
    const json_t *tool;
    json_array_foreach(qr_openai_field(p, "tools"), i, tool)
    {
        const char *name = json_string_value(json_object_get(json_object_get(tool, "function"), "name"));
        char place[64];
        if (p->request->tools == QR_TOOLS_NAMED && name && strcmp(name, p->request->named) == 0) {
            json_decref(any);
            return parameters_of(tool, "");
        }
        snprintf(place, sizeof place, "/items/anyOf/%zu/properties/parameters", i);
        json_array_append_new(any,
                              json_pack("{s:s, s:{s:{s:[s?]}, s:o}, s:[s, s], s:b}", "type", "object", "properties",
                                        "name", "enum", name, "parameters", parameters_of(tool, place), "required",
                                        "name", "parameters", "additionalProperties", 0));
    }
    if (json_array_size(any) != i) { /* one could not be made */
        json_decref(any);
        return NULL;
    }
    int most = p->request->one_call ? 1 : 16;
    return json_pack("{s:s, s:i, s:i, s:{s:o}}", "type", "array", "minItems", 1, "maxItems", most, "items", "anyOf",
                     any);
}
