/* grammar_value.c - the states of strings, arrays and enum values. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "text/grammar_internal.h"
#include "text/utf8.h"
#include "text/vocab.h"

struct qr_gr_text qr_gr_quote(struct qr_gr_builder *b, const char *s, size_t n, bool ascii)
{
    static const char letters[] = "\"\\bfnrt", codes[] = "\"\\\b\f\n\r\t";
    char *out = qr_gr_alloc(b, n * 6 + 3, 1);
    size_t at = 0, len;

    if (!out)
        return (struct qr_gr_text){"", 0};
    out[at++] = '"';
    for (size_t i = 0; i < n; i += len) {
        int32_t cp = qr_utf8_get(s + i, &len);
        const char *known = cp > 0 && cp < 0x80 ? strchr(codes, cp) : NULL;

        if (known) {
            out[at++] = '\\';
            out[at++] = letters[known - codes];
        } else if (cp < 0x20 || (cp >= 0x7F && ascii && cp < 0x10000))
            at += (size_t)sprintf(out + at, "\\u%04x", (unsigned)cp);
        else if (cp >= 0x10000 && ascii)
            at += (size_t)sprintf(out + at, "\\u%04x\\u%04x", 0xD800 + (((unsigned)cp - 0x10000) >> 10),
                                  0xDC00 + ((unsigned)cp & 0x3FF));
        else {
            memcpy(out + at, s + i, len);
            at += len;
        }
    }
    out[at++] = '"';
    return (struct qr_gr_text){out, at};
}

/* ------------------------------------------------------------------ strings */

/* What patterns, formats and lengths leave; NULL with b->status right: any string. */
struct qr_cdfa *qr_gr_string_dfa(struct qr_gr_builder *b, const json_t *schema, const char *path)
{
    const json_t *pattern = json_object_get(schema, "\1patterns"), *format = json_object_get(schema, "\1formats");
    uint32_t min = 0, max = QR_RE_MANY;
    struct qr_cdfa *all = NULL;

    if (!qr_gr_count(b, schema, "minLength", path, &min) || !qr_gr_count(b, schema, "maxLength", path, &max))
        return NULL;
    for (size_t i = 0; i < json_array_size(pattern) + json_array_size(format) && b->status == QR_OK; i++) {
        bool search = i < json_array_size(pattern);
        const json_t *text = search ? json_array_get(pattern, i) : json_array_get(format, i - json_array_size(pattern));
        const char *s = search ? json_string_value(text) : qr_gr_format(json_string_value(text));
        struct qr_cdfa *one = s ? qr_cdfa_pattern(b, s, search ? json_string_length(text) : strlen(s), search,
                                                  qr_gr_path(b, path, search ? "pattern" : "format"))
                                : NULL;

        if (one)
            all = all ? qr_cdfa_and(b, all, one) : one;
    }
    if (!all || b->status != QR_OK)
        return NULL;
    return min > 0 || max != QR_RE_MANY ? qr_cdfa_length(b, all, min, max) : all;
}

uint32_t qr_gr_string(struct qr_gr_builder *b, const json_t *schema, const char *path)
{
    bool shaped = json_object_get(schema, "\1patterns") || json_object_get(schema, "\1formats");
    uint32_t min = 0, max = QR_RE_MANY, *slot;
    uint64_t key[2];

    if (!qr_gr_count(b, schema, "minLength", path, &min) || !qr_gr_count(b, schema, "maxLength", path, &max))
        return 0;
    if (min > max)
        return 0;
    if (shaped) {
        struct qr_arena *outer = qr_gr_scratch(b);
        struct qr_cdfa *dfa = qr_gr_string_dfa(b, schema, path);
        uint32_t start = dfa && dfa->n ? qr_gr_emit_string(b, dfa) : 0;

        qr_gr_scratch_end(b, outer);
        return start;
    }
    key[0] = qr_hash_mix(((uint64_t)min << 32 | max) * 0xD6E8FEB86659FD93u);
    key[1] = (uint64_t)min << 32 | max;
    slot = qr_gr_memo(b, &b->strings, key); /* one automaton for all strings of these lengths, and its masks */
    if (slot && !*slot)
        *slot = qr_gr_emit_counted(b, min, max);
    return slot ? *slot : 0;
}

/* ------------------------------------------------------------------ arrays */

/* '[' has been read or an item is expected: (rule, next). */
static uint32_t item_state(struct qr_gr_builder *b, json_t *schema, uint32_t next, const char *path)
{
    struct qr_gr_call call = {schema ? qr_gr_schema_rule(b, schema, path) : b->any_rule, next};

    if (!schema && !b->any_rule) {
        json_t *any = qr_gr_keep(b, json_true());

        call.rule = any ? qr_gr_schema_rule(b, any, path) : 0;
        b->any_rule = call.rule;
    }
    return qr_gr_cons(b, NULL, 0, &call, 1, false);
}

/* Behind an item: ']' when it may end, ',' when another may come. */
static void behind_item(struct qr_gr_builder *b, uint32_t state, bool end, uint32_t another)
{
    struct qr_gr_edge edge[2];
    size_t n = 0;

    if (end)
        edge[n++] = (struct qr_gr_edge){QR_GR_FIN, ']', ']'};
    if (another)
        edge[n++] = (struct qr_gr_edge){qr_gr_spaced(b, another), ',', ','};
    if (b->status == QR_OK)
        qr_gr_set(b, state, edge, n, NULL, 0, false);
}

#define MAX_UNIQUE 8 /* values; there is a state for each set of them */

/* The values of items that uniqueItems can be honoured for: few, from a list, and none equal to another. */
static json_t *few_values(struct qr_gr_builder *b, const json_t *schema, json_t *items, const char *path)
{
    json_t *plain = items && !json_object_get(schema, "prefixItems") ? qr_gr_plain(b, items, path) : NULL;
    json_t *list = json_object_get(plain, "enum");
    size_t n = json_array_size(list);

    if (!n || n > MAX_UNIQUE)
        return NULL;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k <= i; k++) {
            const json_t *x = json_array_get(list, i);

            if (json_is_real(x) || json_is_array(x) || json_is_object(x) ||
                (k < i && json_equal(x, json_array_get(list, k))))
                return NULL;
        }
    return list;
}

/* An array in which no value comes twice: behind[set] when those of the set stand there. */
static uint32_t unique_array(struct qr_gr_builder *b, json_t *items, json_t *values, uint32_t min, uint32_t max,
                             const char *path)
{
    uint32_t n = (uint32_t)json_array_size(values), behind[1 << MAX_UNIQUE], rule[MAX_UNIQUE], next = 0;

    for (uint32_t i = 0; i < n; i++) {
        json_t *one = qr_gr_keep(b, json_pack("{s:O}", "const", json_array_get(values, i)));
        json_t *both = one ? qr_gr_both(b, items, one) : NULL;

        rule[i] = both ? qr_gr_schema_rule(b, both, path) : 0;
    }
    for (uint32_t set = 1u << n; set-- > 0 && b->status == QR_OK;) {
        uint32_t had = (uint32_t)__builtin_popcount(set);
        struct qr_gr_call call[MAX_UNIQUE];
        struct qr_gr_edge edge[2];
        size_t n_call = 0, n_edge = 0;

        for (uint32_t i = 0; i < n && had < max; i++)
            if (!(set >> i & 1))
                call[n_call++] = (struct qr_gr_call){rule[i], behind[set | 1u << i]};
        next = n_call ? qr_gr_cons(b, NULL, 0, call, n_call, false) : 0;
        if (had >= min)
            edge[n_edge++] = (struct qr_gr_edge){QR_GR_FIN, ']', ']'};
        if (next)
            edge[n_edge++] = (struct qr_gr_edge){qr_gr_spaced(b, next), ',', ','};
        behind[set] = qr_gr_cons(b, edge, n_edge, NULL, 0, false);
    }
    if (min == 0)
        next = qr_gr_union(b, next, qr_gr_one(b, ']', QR_GR_FIN));
    return next && b->status == QR_OK ? qr_gr_one(b, '[', next) : 0;
}

uint32_t qr_gr_array(struct qr_gr_builder *b, const json_t *schema, const char *path)
{
    const json_t *prefix = json_object_get(schema, "prefixItems");
    json_t *items = json_object_get(schema, "items");
    uint32_t min = 0, max = QR_RE_MANY, n = (uint32_t)json_array_size(prefix), last, at, ready = 0;
    const char *inner = qr_gr_path(b, path, "items");

    if (!qr_gr_count(b, schema, "minItems", path, &min) || !qr_gr_count(b, schema, "maxItems", path, &max))
        return 0;
    if (json_is_false(items) && max > n)
        max = n;
    if (min > max)
        return 0;
    if (json_object_get(schema, "uniqueItems") && max > 1) {
        json_t *values = few_values(b, schema, items, inner);

        if (values || b->status != QR_OK)
            return values ? unique_array(b, items, values, min, max, inner) : 0;
        return qr_gr_fail(b, QR_UNSUPPORTED,
                          "uniqueItems at %s cannot be honoured but for an enum of up to %d values; leave it out", path,
                          MAX_UNIQUE);
    }
    last = max != QR_RE_MANY ? max : min > n ? min : n; /* items in a row of their own */
    if (last > 100000)
        return qr_gr_fail(b, QR_LIMIT, "%s %u at %s is over the limit of 100000", max == last ? "maxItems" : "minItems",
                          last, path);
    /* From the end: `at` is behind item i, `ready` in front of it. */
    at = qr_gr_new(b);
    if (max == QR_RE_MANY) {
        ready = item_state(b, items, at, inner);
        behind_item(b, at, true, ready);
    } else
        behind_item(b, at, true, 0);
    for (uint32_t i = last; i-- > 0 && b->status == QR_OK;) {
        json_t *one = i < n ? json_array_get(prefix, i) : items;

        ready = item_state(b, one, at, i < n ? qr_gr_path(b, path, "prefixItems") : inner);
        if (i == 0)
            break;
        at = qr_gr_new(b);
        behind_item(b, at, i >= min, ready);
    }
    if (b->status == QR_OK && min == 0)
        ready = qr_gr_union(b, ready, qr_gr_one(b, ']', QR_GR_FIN));
    return ready && b->status == QR_OK ? qr_gr_one(b, '[', ready) : 0;
}

/* ------------------------------------------------------------------ enum */

/* A number the way Python writes it. */
static struct qr_gr_text number_text(struct qr_gr_builder *b, const json_t *x)
{
    char *out = qr_gr_alloc(b, 400, 1), *e;
    double value = json_real_value(x);
    int precision = 1, exponent;

    if (!out)
        return (struct qr_gr_text){"", 0};
    if (json_is_integer(x))
        return (struct qr_gr_text){out, (size_t)snprintf(out, 400, "%lld", (long long)json_integer_value(x))};
    for (; precision <= 17; precision++) {
        snprintf(out, 400, "%.*e", precision - 1, value);
        if (strtod(out, NULL) == value)
            break;
    }
    e = strchr(out, 'e');
    exponent = e ? atoi(e + 1) : 0;
    if (exponent >= -4 && exponent < 16)
        snprintf(out, 400, "%.*f", precision - 1 - exponent > 1 ? precision - 1 - exponent : 1, value);
    return (struct qr_gr_text){out, strlen(out)};
}

/* The states that write a value and lead to next. */
static uint32_t value_states(struct qr_gr_builder *b, const json_t *x, uint32_t next);

static uint32_t text_states(struct qr_gr_builder *b, const char *s, size_t n, uint32_t next)
{
    struct qr_gr_text raw = qr_gr_quote(b, s, n, false), ascii = qr_gr_quote(b, s, n, true);
    uint32_t state = qr_gr_literal(b, raw.s, raw.n, next);

    if (ascii.n != raw.n && n <= 1024)
        state = qr_gr_insert(b, state, ascii.s, ascii.n, next);
    return state;
}

static uint32_t container_states(struct qr_gr_builder *b, const json_t *x, uint32_t next)
{
    bool object = json_is_object(x);
    size_t n = object ? json_object_size(x) : json_array_size(x), i = 0;
    const char **name = qr_gr_alloc(b, n, sizeof *name), *key;
    json_t *value;
    uint32_t at = qr_gr_one(b, object ? '}' : ']', next);

    if (!name)
        return 0;
    json_object_foreach((json_t *)(uintptr_t)x, key, value)
    {
        name[i++] = key;
    }
    for (i = n; i-- > 0 && b->status == QR_OK;) {
        at = value_states(b, object ? json_object_get(x, name[i]) : json_array_get(x, i), at);
        if (object)
            at = text_states(b, name[i], strlen(name[i]), qr_gr_one(b, ':', qr_gr_spaced(b, at)));
        if (i > 0)
            at = qr_gr_one(b, ',', qr_gr_spaced(b, at));
    }
    return qr_gr_one(b, object ? '{' : '[', at);
}

static uint32_t value_states(struct qr_gr_builder *b, const json_t *x, uint32_t next)
{
    struct qr_gr_text text;

    if (b->status != QR_OK)
        return 0;
    if (json_is_object(x) || json_is_array(x))
        return container_states(b, x, next);
    if (json_is_string(x))
        return text_states(b, json_string_value(x), json_string_length(x), next);
    if (json_is_number(x)) {
        text = number_text(b, x);
        return qr_gr_literal(b, text.s, text.n, next);
    }
    return json_is_null(x) ? qr_gr_literal(b, "null", 4, next)
                           : qr_gr_literal(b, json_is_true(x) ? "true" : "false", json_is_true(x) ? 4 : 5, next);
}

static bool number_fits(const json_t *schema, const json_t *x)
{
    double v = json_number_value(x), m = json_number_value(json_object_get(schema, "multipleOf"));
    const json_t *lo = json_object_get(schema, "minimum"), *lo2 = json_object_get(schema, "exclusiveMinimum");
    const json_t *hi = json_object_get(schema, "maximum"), *hi2 = json_object_get(schema, "exclusiveMaximum");

    if ((lo && v < json_number_value(lo)) || (lo2 && v <= json_number_value(lo2)))
        return false;
    if ((hi && v > json_number_value(hi)) || (hi2 && v >= json_number_value(hi2)))
        return false;
    return !(m > 0) || fabs(v / m - round(v / m)) < 1e-9;
}

static bool string_fits(struct qr_gr_builder *b, const json_t *schema, const json_t *x, const struct qr_cdfa *dfa,
                        const char *path)
{
    const char *s = json_string_value(x);
    uint32_t min = 0, max = QR_RE_MANY, n = 0;

    if (!qr_gr_count(b, schema, "minLength", path, &min) || !qr_gr_count(b, schema, "maxLength", path, &max))
        return false;
    for (size_t i = 0, len; i < json_string_length(x); i += len, n++)
        qr_utf8_get(s + i, &len);
    return n >= min && n <= max && (!dfa || qr_cdfa_matches(dfa, s, json_string_length(x)));
}

uint32_t qr_gr_value_bits(const json_t *x)
{
    double v = json_number_value(x);

    if (json_is_number(x))
        return v == floor(v) ? QR_T_INTEGER : QR_T_NUMBER;
    if (json_is_null(x))
        return QR_T_NULL;
    if (json_is_boolean(x))
        return QR_T_BOOL;
    return json_is_string(x) ? QR_T_STRING : json_is_array(x) ? QR_T_ARRAY : QR_T_OBJECT;
}

/* Does the value fulfil the other keywords? */
static bool fits(struct qr_gr_builder *b, const json_t *schema, const json_t *x, const struct qr_cdfa *dfa,
                 const char *path)
{
    static const char *const inner[] = {
        "properties", "required", "additionalProperties", "patternProperties", "items",        "prefixItems",
        "minItems",   "maxItems", "propertyNames",        "minProperties",     "maxProperties"};
    const json_t *type = json_object_get(schema, "type");
    uint32_t bits = type ? qr_gr_type_bits(type) : QR_T_ALL, own;

    own = qr_gr_value_bits(x);
    if (!(bits & own))
        return false;
    if (json_is_number(x))
        return number_fits(schema, x);
    if (json_is_string(x))
        return string_fits(b, schema, x, dfa, path);
    for (size_t i = 0; (own & (QR_T_ARRAY | QR_T_OBJECT)) && i < sizeof inner / sizeof *inner; i++)
        if (json_object_get(schema, inner[i])) {
            qr_gr_fail(b, QR_UNSUPPORTED,
                       "an enum or const of arrays or objects beside %s at %s cannot be honoured; leave one out",
                       inner[i], path);
            return false;
        }
    return true;
}

uint32_t qr_gr_enum(struct qr_gr_builder *b, const json_t *schema, const char *path)
{
    const json_t *list = json_object_get(schema, "enum");
    struct qr_cdfa *dfa = qr_gr_string_dfa(b, schema, path);
    size_t n = json_array_size(list), n_text = 0, n_call = 0;
    struct qr_gr_text *text = qr_gr_alloc(b, n * 2, sizeof *text);
    struct qr_gr_call *call = qr_gr_alloc(b, n, sizeof *call);
    uint32_t scalars, containers = 0;

    for (size_t i = 0; text && call && i < n && qr_gr_work(b, 1); i++) {
        const json_t *x = json_array_get(list, i);

        if (!qr_gr_work(b, json_string_length(x)))
            return 0;

        if (!fits(b, schema, x, dfa, path))
            continue;
        if (json_is_string(x)) {
            text[n_text++] = qr_gr_quote(b, json_string_value(x), json_string_length(x), false);
            text[n_text] = qr_gr_quote(b, json_string_value(x), json_string_length(x), true);
            n_text += text[n_text].n != text[n_text - 1].n;
        } else if (json_is_number(x)) {
            text[n_text++] = number_text(b, x);
            if (json_is_real(x) && text[n_text - 1].n > 2 &&
                !memcmp(text[n_text - 1].s + text[n_text - 1].n - 2, ".0", 2)) {
                text[n_text] = (struct qr_gr_text){text[n_text - 1].s, text[n_text - 1].n - 2}; /* as an integer too */
                n_text++;
            }
        } else if (json_is_array(x) || json_is_object(x)) {
            uint32_t rule = qr_gr_rule(b), start = value_states(b, x, QR_GR_FIN);

            if (b->status == QR_OK) {
                b->g->rule[rule].start = start;
                call[n_call++] = (struct qr_gr_call){rule, QR_GR_FIN};
            }
        } else
            text[n_text++] = json_is_null(x)   ? (struct qr_gr_text){"null", 4}
                             : json_is_true(x) ? (struct qr_gr_text){"true", 4}
                                               : (struct qr_gr_text){"false", 5};
    }
    if (b->status != QR_OK)
        return 0;
    scalars = qr_gr_choice(b, text, n_text);
    if (n_call)
        containers = qr_gr_cons(b, NULL, 0, call, n_call, false);
    return qr_gr_union(b, scalars, containers);
}
