/* grammar_merge.c - two schemas that hold together, as one: what allOf, $ref beside other keywords, and anyOf beside
 * others come down to. Keywords of one's own start with U+0001: lists of patterns and formats. */
#include <math.h>
#include <string.h>
#include "text/grammar_internal.h"

json_t *qr_gr_keep(struct qr_gr_builder *b, json_t *made)
{
    if (!made || json_array_append_new(b->owned, made) != 0) {
        qr_gr_nomem(b);
        return NULL;
    }
    return made;
}

static bool is_true(const json_t *x)
{
    return !x || json_is_true(x) || (json_is_object(x) && json_object_size(x) == 0);
}

json_t *qr_gr_both(struct qr_gr_builder *b, json_t *x, json_t *y)
{
    json_t *both;

    if (is_true(x))
        return y ? y : x;
    if (is_true(y) || x == y)
        return x;
    both = qr_gr_keep(b, json_pack("{s:[O,O]}", "allOf", x, y));
    return both;
}

/* base[key] = value, which stays the caller's. */
static bool put(struct qr_gr_builder *b, json_t *base, const char *key, json_t *value)
{
    if (b->status != QR_OK || !value || json_object_set(base, key, value) != 0) {
        qr_gr_nomem(b);
        return false;
    }
    return true;
}

static bool invalid(struct qr_gr_builder *b, const char *key, const char *path, const char *want)
{
    qr_gr_fail(b, QR_INVALID, "%s at %s is not %s; correct the schema", key, path, want);
    return false;
}

static const struct {
    const char *name;
    uint32_t bits;
} types[] = {
    {"null", QR_T_NULL},     {"boolean", QR_T_BOOL}, {"integer", QR_T_INTEGER}, {"number", QR_T_INTEGER | QR_T_NUMBER},
    {"string", QR_T_STRING}, {"array", QR_T_ARRAY},  {"object", QR_T_OBJECT}};

/* 0: no type. */
uint32_t qr_gr_type_bits(const json_t *type)
{
    uint32_t bits = 0;

    if (json_is_string(type))
        for (size_t i = 0; i < 7; i++)
            if (strcmp(json_string_value(type), types[i].name) == 0)
                return types[i].bits;
    if (json_is_array(type))
        for (size_t i = 0; i < json_array_size(type); i++) {
            const json_t *one = json_array_get(type, i);
            uint32_t more = json_is_string(one) ? qr_gr_type_bits(one) : 0;

            if (!more)
                return 0;
            bits |= more;
        }
    return bits;
}

static bool merge_type(struct qr_gr_builder *b, json_t *base, const json_t *type, const char *path)
{
    uint32_t bits = qr_gr_type_bits(type);
    json_t *had = json_object_get(base, "type"), *list;

    if (!bits && !(json_is_array(type) && json_array_size(type) == 0))
        return invalid(b, "type", path, "a type of JSON Schema, or a list of them");
    if (had)
        bits &= qr_gr_type_bits(had);
    list = qr_gr_keep(b, json_array());
    for (size_t i = 0; list && i < 7; i++)
        if ((bits & types[i].bits) == types[i].bits && !(i == 2 && (bits & QR_T_NUMBER)))
            if (json_array_append_new(list, json_string(types[i].name)) != 0) {
                qr_gr_nomem(b);
                return false;
            }
    return list && put(b, base, "type", list);
}

static bool equal(const json_t *x, const json_t *y)
{
    if (json_is_number(x) && json_is_number(y))
        return json_number_value(x) == json_number_value(y);
    return json_equal(x, y);
}

static bool merge_enum(struct qr_gr_builder *b, json_t *base, json_t *list)
{
    json_t *had = json_object_get(base, "enum"), *both;

    if (!had)
        return put(b, base, "enum", list);
    both = qr_gr_keep(b, json_array());
    for (size_t i = 0; both && i < json_array_size(had) && qr_gr_work(b, json_array_size(list)); i++)
        for (size_t k = 0; k < json_array_size(list); k++)
            if (equal(json_array_get(had, i), json_array_get(list, k))) {
                if (json_array_append(both, json_array_get(had, i)) != 0)
                    return qr_gr_nomem(b);
                break;
            }
    return both && put(b, base, "enum", both);
}

/* The greater or the less of the two. */
static bool merge_bound(struct qr_gr_builder *b, json_t *base, const char *key, json_t *value, bool greater, bool count,
                        const char *path)
{
    json_t *had = json_object_get(base, key);
    double x = json_number_value(value);

    if (!json_is_number(value) || (count && (x < 0 || x != floor(x))))
        return invalid(b, key, path, count ? "a whole number of 0 or more" : "a number");
    if (had && (greater ? json_number_value(had) >= x : json_number_value(had) <= x))
        return true;
    return put(b, base, key, value);
}

static bool merge_multiple(struct qr_gr_builder *b, json_t *base, json_t *value, const char *path)
{
    json_t *had = json_object_get(base, "multipleOf");
    int64_t x = json_integer_value(had), y = json_integer_value(value), r, lcm;

    if (!json_is_number(value))
        return invalid(b, "multipleOf", path, "a number");
    if (!had || equal(had, value))
        return put(b, base, "multipleOf", value);
    if (x < 1 || y < 1 || x > 10000 || y > 10000) {
        qr_gr_fail(b, QR_UNSUPPORTED, "two values of multipleOf at %s cannot be honoured together", path);
        return false;
    }
    lcm = x * y;
    while (y) {
        r = x % y;
        x = y;
        y = r;
    }
    return put(b, base, "multipleOf", qr_gr_keep(b, json_integer(lcm / x)));
}

/* Adds what is not in the list yet. */
static bool add_to_list(struct qr_gr_builder *b, json_t *base, const char *key, json_t *value)
{
    json_t *had = json_object_get(base, key);
    json_t *list = qr_gr_keep(b, had ? json_copy(had) : json_array());

    for (size_t i = 0; list && i < json_array_size(list); i++)
        if (json_equal(json_array_get(list, i), value))
            return true;
    if (!list || json_array_append(list, value) != 0)
        return qr_gr_nomem(b);
    return put(b, base, key, list);
}

/* Adds those strings that are not in the list yet. */
static bool add_all(struct qr_gr_builder *b, json_t *base, const char *key, const json_t *values)
{
    json_t *had = json_object_get(base, key), *seen, *list;

    if (json_array_size(values) == 0)
        return true;
    seen = qr_gr_keep(b, json_object());
    list = qr_gr_keep(b, had ? json_copy(had) : json_array());
    for (size_t i = 0; seen && list && i < json_array_size(had); i++)
        if (json_object_set_new(seen, json_string_value(json_array_get(had, i)), json_null()) != 0)
            return qr_gr_nomem(b);
    for (size_t i = 0; seen && list && i < json_array_size(values) && qr_gr_work(b, 4); i++) {
        json_t *x = json_array_get(values, i);

        if (!json_is_string(x))
            return invalid(b, key, "#", "a list of strings");
        if (json_object_get(seen, json_string_value(x)))
            continue;
        if (json_object_set_new(seen, json_string_value(x), json_null()) != 0 || json_array_append(list, x) != 0)
            return qr_gr_nomem(b);
    }
    return seen && list && put(b, base, key, list);
}

static bool merge_required(struct qr_gr_builder *b, json_t *base, json_t *names, const char *path)
{
    json_t *had = json_object_get(base, "required");

    if (!json_is_array(names))
        return invalid(b, "required", path, "a list of names");
    for (size_t i = 0; i < json_array_size(names); i++)
        if (!json_is_string(json_array_get(names, i)))
            return invalid(b, "required", path, "a list of names");
    if (!had)
        return put(b, base, "required", names);
    return add_all(b, base, "required", names);
}

/* What a schema asks of a member: by its name, else as an additional one. */
static json_t *member(const json_t *schema, const char *name)
{
    json_t *own = json_object_get(json_object_get(schema, "properties"), name);

    return own ? own : json_object_get(schema, "additionalProperties");
}

static bool merge_properties(struct qr_gr_builder *b, json_t *base, const json_t *schema, const char *path)
{
    json_t *x = json_object_get(base, "properties"), *y = json_object_get(schema, "properties");
    json_t *more_x = json_object_get(base, "additionalProperties");
    json_t *more_y = json_object_get(schema, "additionalProperties"), *all, *value, *more;
    json_t *match_x = json_object_get(base, "patternProperties");
    json_t *match_y = json_object_get(schema, "patternProperties");
    const char *name;

    if ((y && !json_is_object(y)) || (match_y && !json_is_object(match_y)))
        return invalid(b, y && !json_is_object(y) ? "properties" : "patternProperties", path, "an object");
    if ((match_x && !is_true(more_y)) || (match_y && !is_true(more_x) && json_object_size(base) > 0)) {
        qr_gr_fail(
            b, QR_UNSUPPORTED,
            "patternProperties and additionalProperties of two schemas that hold together at %s cannot be honoured",
            path);
        return false;
    }
    all = qr_gr_keep(b, json_object());
    json_object_foreach(x, name, value)
    {
        json_t *both = all && qr_gr_work(b, 1) ? qr_gr_both(b, value, member(schema, name)) : NULL;

        if (!both || !put(b, all, name, both))
            return false;
    }
    json_object_foreach(y, name, value)
    {
        json_t *both = all && qr_gr_work(b, 1) ? qr_gr_both(b, member(base, name), value) : NULL;

        if (!both || (!json_object_get(x, name) && !put(b, all, name, both)))
            return false;
    }
    if (!all || !put(b, base, "properties", all))
        return false;
    more = qr_gr_both(b, more_x, more_y);
    if (more && !put(b, base, "additionalProperties", more))
        return false;
    if (match_y) {
        all = qr_gr_keep(b, match_x ? json_copy(match_x) : json_object());
        json_object_foreach(match_y, name, value)
        {
            json_t *both = all ? qr_gr_both(b, json_object_get(all, name), value) : NULL;

            if (!both || !put(b, all, name, both))
                return false;
        }
        return all && put(b, base, "patternProperties", all);
    }
    return b->status == QR_OK;
}

/* "items" as a list is what drafts before 2020 have for prefixItems. */
static void item_keys(const json_t *schema, json_t **prefix, json_t **rest)
{
    *prefix = json_object_get(schema, "prefixItems");
    *rest = json_object_get(schema, "items");
    if (json_is_array(*rest)) {
        *prefix = *rest;
        *rest = json_object_get(schema, "additionalItems");
    }
}

static bool merge_items(struct qr_gr_builder *b, json_t *base, const json_t *schema, const char *path)
{
    json_t *prefix[2], *rest[2], *all, *both;
    size_t n;

    item_keys(base, &prefix[0], &rest[0]);
    item_keys(schema, &prefix[1], &rest[1]);
    if (prefix[1] && !json_is_array(prefix[1]))
        return invalid(b, "prefixItems", path, "a list of schemas");
    n = json_array_size(prefix[0]) > json_array_size(prefix[1]) ? json_array_size(prefix[0])
                                                                : json_array_size(prefix[1]);
    all = qr_gr_keep(b, json_array());
    for (size_t i = 0; all && i < n && qr_gr_work(b, 1); i++) {
        json_t *x = json_array_get(prefix[0], i), *y = json_array_get(prefix[1], i);

        both = qr_gr_both(b, x ? x : rest[0], y ? y : rest[1]);
        if (!both || json_array_append(all, both) != 0)
            return qr_gr_nomem(b);
    }
    if (n && (!all || !put(b, base, "prefixItems", all)))
        return false;
    both = qr_gr_both(b, rest[0], rest[1]);
    return both ? put(b, base, "items", both) : b->status == QR_OK;
}

static bool merge_strings(struct qr_gr_builder *b, json_t *base, const json_t *schema, const char *path)
{
    json_t *pattern = json_object_get(schema, "pattern"), *format = json_object_get(schema, "format");

    if (pattern && !json_is_string(pattern))
        return invalid(b, "pattern", path, "a string");
    if (pattern && !add_to_list(b, base, "\1patterns", pattern))
        return false;
    if (json_is_string(format) && qr_gr_format(json_string_value(format)) && !add_to_list(b, base, "\1formats", format))
        return false;
    return add_all(b, base, "\1patterns", json_object_get(schema, "\1patterns")) &&
           add_all(b, base, "\1formats", json_object_get(schema, "\1formats"));
}

static bool merge_bounds(struct qr_gr_builder *b, json_t *base, const json_t *schema, const char *path)
{
    static const struct {
        const char *key;
        bool greater, count;
    } keys[] = {{"minimum", true, false},           {"exclusiveMinimum", true, false}, {"maximum", false, false},
                {"exclusiveMaximum", false, false}, {"minLength", true, true},         {"maxLength", false, true},
                {"minItems", true, true},           {"maxItems", false, true},         {"minProperties", true, true},
                {"maxProperties", false, true}};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(schema, keys[i].key);

        if (value && !merge_bound(b, base, keys[i].key, value, keys[i].greater, keys[i].count, path))
            return false;
    }
    return true;
}

/* Everything but $ref, allOf, anyOf, oneOf. */
bool qr_gr_merge(struct qr_gr_builder *b, json_t *base, const json_t *schema, const char *path)
{
    json_t *type = json_object_get(schema, "type"), *list = json_object_get(schema, "enum");
    json_t *one = json_object_get(schema, "const"), *multiple = json_object_get(schema, "multipleOf");
    json_t *names = json_object_get(schema, "propertyNames"), *required = json_object_get(schema, "required"), *both;

    if (type && !merge_type(b, base, type, path))
        return false;
    if (list && !json_is_array(list))
        return invalid(b, "enum", path, "a list");
    if (list && !merge_enum(b, base, list))
        return false;
    if (one && ((list = qr_gr_keep(b, json_pack("[O]", one))) == NULL || !merge_enum(b, base, list)))
        return false;
    if (multiple && !merge_multiple(b, base, multiple, path))
        return false;
    if (!merge_bounds(b, base, schema, path) || !merge_strings(b, base, schema, path))
        return false;
    if (required && !merge_required(b, base, required, path))
        return false;
    if (json_object_get(schema, "properties") || json_object_get(schema, "additionalProperties") ||
        json_object_get(schema, "patternProperties"))
        if (!merge_properties(b, base, schema, path))
            return false;
    if (names) {
        both = qr_gr_both(b, json_object_get(base, "propertyNames"), names);
        if (!both || !put(b, base, "propertyNames", both))
            return false;
    }
    if (json_object_get(schema, "items") || json_object_get(schema, "prefixItems"))
        if (!merge_items(b, base, schema, path))
            return false;
    if (json_is_true(json_object_get(schema, "uniqueItems")))
        return put(b, base, "uniqueItems", json_object_get(schema, "uniqueItems"));
    return b->status == QR_OK;
}
