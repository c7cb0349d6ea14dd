/* grammar_schema.c - JSON Schema to rules: references, allOf, anyOf, oneOf, types. Rules wait in a list, so that schemas
 * that refer to each other need no recursion; equal schemas share one rule. */
#include <stdlib.h>
#include <string.h>
#include "text/grammar_internal.h"
#include "text/vocab.h"

#define MAX_SCHEMA_DEPTH 128
#define MAX_CONJUNCTS    64 /* $ref and allOf inside each other */
#define MAX_CHOICES      16 /* anyOf and oneOf that hold together */
#define MAX_ONE_OF       64

const char *qr_gr_path(struct qr_gr_builder *b, const char *path, const char *step)
{
    size_t n = strlen(path), m = strlen(step);
    char *longer;

    if (n + m > 240) /* messages are short */
        return path;
    longer = qr_gr_alloc(b, n + m + 2, 1);
    if (!longer)
        return path;
    memcpy(longer, path, n);
    longer[n] = '/';
    memcpy(longer + n + 1, step, m);
    return longer;
}

bool qr_gr_count(struct qr_gr_builder *b, const json_t *schema, const char *key, const char *path, uint32_t *out)
{
    const json_t *value = json_object_get(schema, key);
    double x = json_number_value(value);

    if (!value)
        return true;
    if (x > 1e9) {
        if (strncmp(key, "max", 3) == 0) /* more than any text has */
            return true;
        qr_gr_fail(b, QR_LIMIT, "%s %g at %s is over the limit of 1e9", key, x, path);
        return false;
    }
    *out = (uint32_t)x;
    return true;
}

static int hash_text(const char *text, size_t n, void *ctx)
{
    uint64_t *key = ctx;

    for (size_t i = 0; i < n; i++) { /* byte by byte: the pieces that jansson hands out are not to matter */
        key[0] = (key[0] ^ (unsigned char)text[i]) * 0x100000001B3u;
        key[1] = qr_hash_mix(key[1] + (unsigned char)text[i]);
    }
    key[2] += n;
    return 0;
}

static bool key_of(struct qr_gr_builder *b, const json_t *schema, uint64_t key[3])
{
    key[0] = b->seed | 1;
    key[1] = ~b->seed;
    key[2] = 0;
    if (json_dump_callback(schema, hash_text, key, JSON_COMPACT | JSON_ENCODE_ANY) != 0) {
        qr_gr_nomem(b);
        return false;
    }
    key[0] = qr_hash_mix(key[0]);
    return qr_gr_work(b, key[2]);
}

uint32_t qr_gr_schema_rule(struct qr_gr_builder *b, json_t *schema, const char *path)
{
    uint64_t key[3];
    uint32_t *slot, rule;

    if (b->status != QR_OK || !key_of(b, schema, key))
        return 0;
    slot = qr_gr_memo(b, &b->schemas, key);
    if (!slot || *slot)
        return slot ? *slot - 1 : 0;
    rule = qr_gr_rule(b);
    if (!qr_gr_room(b, &b->item, b->n_item, &b->room_item, sizeof *b->item))
        return 0;
    b->item[b->n_item++] = (struct qr_gr_item){schema, path, rule};
    *slot = rule + 1;
    return rule;
}

/* The value that a fragment points to (RFC 6901). */
static json_t *resolve(struct qr_gr_builder *b, const char *ref, const char *path)
{
    json_t *at = (json_t *)(uintptr_t)b->root;
    const char *s = ref;
    char name[512];

    if (*s++ != '#' || (*s && *s != '/')) {
        qr_gr_fail(b, QR_UNSUPPORTED, "$ref \"%.100s\" at %s leads out of the schema; only #/... can be honoured", ref,
                   path);
        return NULL;
    }
    while (at && *s == '/') {
        size_t n = 0;

        for (s++; *s && *s != '/' && n + 1 < sizeof name; n++) {
            unsigned code;

            if (*s == '~' && (s[1] == '0' || s[1] == '1')) {
                name[n] = s[1] == '0' ? '~' : '/';
                s += 2;
            } else if (*s == '%' && strspn(s + 1, "0123456789abcdefABCDEF") >= 2) {
                char hex[3] = {s[1], s[2], 0};

                code = (unsigned)strtoul(hex, NULL, 16);
                name[n] = (char)code;
                s += 3;
            } else
                name[n] = *s++;
        }
        name[n] = 0;
        at = json_is_array(at) ? json_array_get(at, strtoul(name, NULL, 10)) : json_object_get(at, name);
    }
    if (!at || *s)
        qr_gr_fail(b, QR_INVALID, "$ref \"%.100s\" at %s leads nowhere; correct it", ref, path);
    return b->status == QR_OK ? at : NULL;
}

/* All that must hold at once, apart from choices. */
struct flat {
    json_t *base;
    json_t *choice[MAX_CHOICES];
    bool one[MAX_CHOICES]; /* oneOf */
    int n_choice;
    bool never;
    int n; /* schemas in it */
};

/* Keywords that no automaton honours, where they say something. */
static bool refused(struct qr_gr_builder *b, const json_t *schema, const char *path)
{
    static const char *const keys[] = {"not", "if", "contains", "$dynamicRef", "$recursiveRef", "unevaluatedItems"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = json_object_get(schema, keys[i]);

        if (!value || (i == 5 && json_is_true(value)))
            continue;
        qr_gr_fail(b, QR_UNSUPPORTED, "%s at %s cannot be honoured; leave it out", keys[i], path);
        return true;
    }
    if (json_is_boolean(json_object_get(schema, "exclusiveMinimum")) ||
        json_is_boolean(json_object_get(schema, "exclusiveMaximum"))) {
        qr_gr_fail(b, QR_UNSUPPORTED, "exclusiveMinimum or exclusiveMaximum at %s is a boolean; write it as a number",
                   path);
        return true;
    }
    return false;
}

/* Where no other schema has a say, unevaluatedProperties means additionalProperties. */
static json_t *evaluated(struct qr_gr_builder *b, json_t *schema, const char *path)
{
    static const char *const others[] = {"$ref", "allOf", "anyOf", "oneOf"};
    json_t *rest = json_object_get(schema, "unevaluatedProperties"), *copy;

    if (!rest || json_is_true(rest) || json_object_get(schema, "additionalProperties"))
        return schema;
    for (size_t i = 0; i < 4; i++)
        if (json_object_get(schema, others[i])) {
            qr_gr_fail(b, QR_UNSUPPORTED, "unevaluatedProperties beside %s at %s cannot be honoured; leave it out",
                       others[i], path);
            return NULL;
        }
    copy = qr_gr_keep(b, json_copy(schema));
    if (!copy || json_object_set(copy, "additionalProperties", rest) != 0) {
        qr_gr_nomem(b);
        return NULL;
    }
    return copy;
}

static void add_choice(struct qr_gr_builder *b, struct flat *flat, json_t *choice, bool one, const char *path)
{
    if (flat->n_choice == MAX_CHOICES) {
        qr_gr_fail(b, QR_LIMIT, "more than %d anyOf, oneOf and dependent names hold together at %s", MAX_CHOICES, path);
        return;
    }
    flat->one[flat->n_choice] = one;
    flat->choice[flat->n_choice++] = choice;
}

/* A member that asks for other members, or for a schema: it is not there, or it is there with them. */
static void dependent(struct qr_gr_builder *b, const json_t *schema, const char *key, const char *path,
                      struct flat *flat)
{
    json_t *map = json_object_get(schema, key), *value, *choice;
    const char *name;

    if (map && !json_is_object(map))
        qr_gr_fail(b, QR_INVALID, "%s at %s is not an object; correct it", key, path);
    json_object_foreach(map, name, value)
    {
        const char *what = json_is_array(value) ? "required" : "allOf";
        json_t *rest = json_is_array(value) ? json_incref(value) : json_pack("[O]", value);

        choice =
            json_pack("[{s:{s:b}},{s:[{s:[s]},{s:o}]}]", "properties", name, 0, "allOf", "required", name, what, rest);
        if (!qr_gr_keep(b, choice))
            return;
        add_choice(b, flat, choice, false, path);
    }
}

static void flatten(struct qr_gr_builder *b, json_t *schema, const char *path, struct flat *flat, int depth)
{
    json_t *ref, *all, *target;

    if (b->status != QR_OK || json_is_true(schema))
        return;
    if (json_is_false(schema)) {
        flat->never = true;
        return;
    }
    if (!json_is_object(schema)) {
        qr_gr_fail(b, QR_INVALID, "the schema at %s is not an object, true or false; correct it", path);
        return;
    }
    if (depth > MAX_CONJUNCTS || ++flat->n > 1000) {
        qr_gr_fail(b, QR_UNSUPPORTED, "$ref or allOf at %s leads back to itself, or too far; take the cycle out", path);
        return;
    }
    if (refused(b, schema, path) || !(schema = evaluated(b, schema, path)))
        return;
    ref = json_object_get(schema, "$ref");
    if (ref) {
        target = json_is_string(ref) ? resolve(b, json_string_value(ref), path) : NULL;
        if (!json_is_string(ref))
            qr_gr_fail(b, QR_INVALID, "$ref at %s is not a string; correct it", path);
        if (target)
            flatten(b, target, json_string_value(ref), flat, depth + 1);
    }
    all = json_object_get(schema, "allOf");
    if (all && !json_is_array(all))
        qr_gr_fail(b, QR_INVALID, "allOf at %s is not a list; correct it", path);
    for (size_t i = 0; i < json_array_size(all); i++)
        flatten(b, json_array_get(all, i), path, flat, depth + 1);
    for (int one = 0; one < 2 && b->status == QR_OK; one++) {
        json_t *choice = json_object_get(schema, one ? "oneOf" : "anyOf");

        if (!choice)
            continue;
        if (!json_is_array(choice) || json_array_size(choice) == 0)
            qr_gr_fail(b, QR_INVALID, "%s at %s is not a list of schemas; correct it", one ? "oneOf" : "anyOf", path);
        else
            add_choice(b, flat, choice, one, path);
    }
    dependent(b, schema, "dependentRequired", path, flat);
    dependent(b, schema, "dependentSchemas", path, flat);
    dependent(b, schema, "dependencies", path, flat);
    if (b->status == QR_OK)
        qr_gr_merge(b, flat->base, schema, path);
}

json_t *qr_gr_plain(struct qr_gr_builder *b, json_t *schema, const char *path)
{
    struct flat flat = {.base = qr_gr_keep(b, json_object())};

    if (!flat.base)
        return NULL;
    flatten(b, schema, path, &flat, 0);
    return b->status == QR_OK && !flat.never && !flat.n_choice ? flat.base : NULL;
}

/* base, one alternative, and the choices still open, as a schema. */
static json_t *taken(struct qr_gr_builder *b, const struct flat *flat, json_t *branch, json_t *second, int last)
{
    json_t *all = json_pack("[O,O]", flat->base, branch), *made;

    if (second && all && json_array_append(all, second) != 0)
        qr_gr_nomem(b);
    for (int i = 0; all && !second && i < last; i++)
        if (json_array_append_new(all, json_pack("{s:O}", flat->one[i] ? "oneOf" : "anyOf", flat->choice[i])) != 0)
            qr_gr_nomem(b);
    if (!second && last == 0 && json_object_size(flat->base) == 0 && all) { /* nothing beside it */
        json_decref(all);
        return branch;
    }
    made = qr_gr_keep(b, json_pack("{s:o}", "allOf", all));
    return made;
}

/* The values that a required member of an object may have; NULL: any. */
static json_t *fixed_values(struct qr_gr_builder *b, const json_t *schema, const char *name)
{
    json_t *member = json_object_get(json_object_get(schema, "properties"), name), *one, *required;
    bool found = false;

    required = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(required) && !found; i++)
        found = json_is_string(json_array_get(required, i)) &&
                strcmp(json_string_value(json_array_get(required, i)), name) == 0;
    one = json_object_get(member, "const");
    if (!found || (!one && !json_is_array(json_object_get(member, "enum"))))
        return NULL;
    return one ? qr_gr_keep(b, json_pack("[O]", one)) : json_object_get(member, "enum");
}

/* One that json_equal compares as JSON Schema does: 1 and 1.0 are the same there. */
static bool plain_value(const json_t *x)
{
    return json_is_string(x) || json_is_integer(x) || json_is_boolean(x) || json_is_null(x);
}

/* Objects with a required member of fixed values that tells them apart, the common case, are seen without more ado. */
static bool clearly_apart(struct qr_gr_builder *b, const json_t *x, const json_t *y)
{
    const char *name;
    json_t *value;

    if (qr_gr_type_bits(json_object_get(x, "type")) != QR_T_OBJECT ||
        qr_gr_type_bits(json_object_get(y, "type")) != QR_T_OBJECT)
        return false;
    json_object_foreach(json_object_get(x, "properties"), name, value)
    {
        json_t *in_x = fixed_values(b, x, name), *in_y = in_x ? fixed_values(b, y, name) : NULL;
        bool shared = !in_x || !in_y;

        for (size_t i = 0; !shared && i < json_array_size(in_x) && qr_gr_work(b, json_array_size(in_y) + 1); i++) {
            const json_t *v = json_array_get(in_x, i);

            shared = !plain_value(v);
            for (size_t k = 0; !shared && k < json_array_size(in_y); k++)
                shared = !plain_value(json_array_get(in_y, k)) || json_equal(v, json_array_get(in_y, k));
        }
        if (!shared)
            return b->status == QR_OK;
    }
    return false;
}

/* One step of $ref. */
static const json_t *behind_ref(struct qr_gr_builder *b, const json_t *schema, const char *path)
{
    const json_t *ref = json_object_get(schema, "$ref");

    return json_is_string(ref) ? resolve(b, json_string_value(ref), path) : schema;
}

/* No two alternatives may hold at once: their conjunctions must have no value, which finishing the grammar tells. */
static void check_apart(struct qr_gr_builder *b, const struct flat *flat, json_t *choice, const char *path)
{
    size_t n = json_array_size(choice);

    if (n > MAX_ONE_OF) {
        qr_gr_fail(b, QR_LIMIT, "oneOf at %s has %zu alternatives; the limit is %d; use anyOf", path, n, MAX_ONE_OF);
        return;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n && b->status == QR_OK; k++) {
            json_t *x = json_array_get(choice, i), *y = json_array_get(choice, k), *both;
            uint32_t rule;

            if (clearly_apart(b, behind_ref(b, x, path), behind_ref(b, y, path)))
                continue;
            both = taken(b, flat, x, y, 0);
            rule = both ? qr_gr_schema_rule(b, both, path) : 0;
            if (!qr_gr_room(b, &b->empty, b->n_empty, &b->room_empty, sizeof *b->empty))
                return;
            b->empty[b->n_empty++] = (struct qr_gr_item){both, path, rule};
        }
}

/* A schema of nothing but values. */
static bool is_values(const json_t *schema)
{
    static const char *const keys[] = {"const", "enum", "type", "title", "description"};
    size_t n = 0;

    for (size_t i = 0; i < 5; i++)
        n += json_object_get(schema, keys[i]) != NULL;
    return json_is_object(schema) && n == json_object_size(schema) &&
           !json_object_get(schema, "enum") != !json_object_get(schema, "const") &&
           (json_is_array(json_object_get(schema, "enum")) || json_object_get(schema, "const"));
}

static bool add_values(struct qr_gr_builder *b, json_t *list, const json_t *schema)
{
    json_t *one = json_object_get(schema, "const"), *some = json_object_get(schema, "enum");
    const json_t *type = json_object_get(schema, "type");
    size_t n = one ? 1 : json_array_size(some);

    for (size_t i = 0; i < n && qr_gr_work(b, 1); i++) {
        json_t *x = one ? one : json_array_get(some, i);

        if ((!type || (qr_gr_type_bits(type) & qr_gr_value_bits(x))) && json_array_append(list, x) != 0)
            return qr_gr_nomem(b);
    }
    return b->status == QR_OK;
}

/* Alternatives that are lists of values become one list, which a trie holds. */
static json_t *join_values(struct qr_gr_builder *b, json_t *choice)
{
    json_t *joined, *values, *one;
    size_t n = 0, i;

    for (i = 0; i < json_array_size(choice); i++)
        n += is_values(json_array_get(choice, i));
    if (n < 2)
        return choice;
    joined = qr_gr_keep(b, json_array());
    values = qr_gr_keep(b, json_array());
    one = joined && values ? qr_gr_keep(b, json_pack("{s:O}", "enum", values)) : NULL;
    for (i = 0; one && i < json_array_size(choice); i++) {
        json_t *x = json_array_get(choice, i);

        if (is_values(x) ? !add_values(b, values, x) : json_array_append(joined, x) != 0)
            one = NULL;
    }
    if (!one || json_array_append(joined, one) != 0) {
        qr_gr_nomem(b);
        return NULL;
    }
    return joined;
}

static uint32_t choose(struct qr_gr_builder *b, const struct flat *flat, const char *path)
{
    int last = flat->n_choice - 1;
    json_t *choice = flat->choice[last];
    size_t n = json_array_size(choice), m = 0;
    struct qr_gr_call *call = qr_gr_alloc(b, n, sizeof *call);
    const char *inner = qr_gr_path(b, path, flat->one[last] ? "oneOf" : "anyOf");

    if (flat->one[last])
        check_apart(b, flat, choice, path);
    choice = join_values(b, choice);
    n = json_array_size(choice);
    for (size_t i = 0; call && i < n && qr_gr_work(b, 1 + m / 4); i++) {
        json_t *branch = taken(b, flat, json_array_get(choice, i), NULL, last);
        uint32_t rule = branch ? qr_gr_schema_rule(b, branch, inner) : 0;
        size_t k = 0;

        while (k < m && call[k].rule != rule)
            k++;
        if (k == m)
            call[m++] = (struct qr_gr_call){rule, QR_GR_FIN};
    }
    return call && b->status == QR_OK ? qr_gr_cons(b, NULL, 0, call, m, false) : 0;
}

/* Types start with bytes of their own, so that their start states join into one. */
static uint32_t simple(struct qr_gr_builder *b, const json_t *base, const char *path)
{
    const json_t *type = json_object_get(base, "type");
    uint32_t bits = type ? qr_gr_type_bits(type) : QR_T_ALL, start = 0;

    if (json_object_get(base, "enum"))
        return qr_gr_enum(b, base, path);
    if (bits & QR_T_NULL)
        start = qr_gr_union(b, start, qr_gr_literal(b, "null", 4, QR_GR_FIN));
    if (bits & QR_T_BOOL) {
        start = qr_gr_union(b, start, qr_gr_literal(b, "true", 4, QR_GR_FIN));
        start = qr_gr_union(b, start, qr_gr_literal(b, "false", 5, QR_GR_FIN));
    }
    if (bits & (QR_T_INTEGER | QR_T_NUMBER))
        start = qr_gr_union(b, start, qr_gr_number(b, base, !(bits & QR_T_NUMBER), path));
    if (bits & QR_T_STRING)
        start = qr_gr_union(b, start, qr_gr_string(b, base, path));
    if (bits & QR_T_ARRAY)
        start = qr_gr_union(b, start, qr_gr_array(b, base, path));
    if (bits & QR_T_OBJECT)
        start = qr_gr_union(b, start, qr_gr_object(b, base, path));
    return b->status == QR_OK ? start : 0;
}

static void compile_item(struct qr_gr_builder *b, struct qr_gr_item item)
{
    struct flat flat = {.base = qr_gr_keep(b, json_object())};
    uint32_t start = 0;

    if (!flat.base)
        return;
    flatten(b, item.schema, item.path, &flat, 0);
    if (qr_gr_work(b, 1000) && !flat.never) /* about what merging takes */
        start = flat.n_choice ? choose(b, &flat, item.path) : simple(b, flat.base, item.path);
    b->g->rule[item.rule].start = start;
}

static bool too_deep(const json_t *x, int depth)
{
    const char *key;
    json_t *value;
    size_t i;

    if (depth > MAX_SCHEMA_DEPTH)
        return true;
    if (json_is_array(x)) {
        json_array_foreach(x, i, value)
        {
            if (too_deep(value, depth + 1))
                return true;
        }
    }
    if (json_is_object(x)) {
        json_object_foreach((json_t *)(uintptr_t)x, key, value)
        {
            if (too_deep(value, depth + 1))
                return true;
        }
    }
    return false;
}

void qr_gr_schema(struct qr_gr_builder *b, const json_t *schema)
{
    if (!schema || (!json_is_object(schema) && !json_is_boolean(schema))) {
        qr_gr_fail(b, QR_INVALID, "a JSON schema must be an object, true or false");
        return;
    }
    if (too_deep(schema, 0)) {
        qr_gr_fail(b, QR_LIMIT, "the JSON schema is nested deeper than %d; flatten it with $defs", MAX_SCHEMA_DEPTH);
        return;
    }
    b->root = schema;
    qr_gr_schema_rule(b, (json_t *)(uintptr_t)schema, "#");
    for (size_t i = 0; i < b->n_item && b->status == QR_OK; i++)
        compile_item(b, b->item[i]);
}
