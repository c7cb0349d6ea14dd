/* grammar_object.c - the states of an object: its members in the order of the schema, then additional ones.
 *
 * Names that may come next share one trie; that in front of member i is that in front of i + 1 with one name more, of
 * which only the path is new: all tries together are linear in the names. */
#include <stdlib.h>
#include <string.h>
#include "text/grammar_internal.h"
#include "text/utf8.h"
#include "text/vocab.h"

#define MAX_NAME     1024 /* bytes */
#define MAX_PATTERNS 4
#define MAX_GRID     200000

struct member {
    const char *name;
    struct qr_gr_text text[2]; /* in quotes; the second with \uXXXX, or n 0 */
    uint32_t rule;
    bool required;
};
struct extra { /* a kind of additional members */
    uint32_t key_rule, rule;
};
struct object {
    struct qr_gr_builder *b;
    const json_t *schema;
    const char *path;
    struct member *member;
    uint32_t n;
    struct extra extra[1 << MAX_PATTERNS];
    int n_extra;
    struct qr_cdfa *match[MAX_PATTERNS]; /* patternProperties */
    json_t *matched[MAX_PATTERNS];
    int n_match;
    struct qr_cdfa *names;  /* propertyNames; NULL: any */
    json_t *name_list;      /* its enum, or NULL */
    json_t *name_set;       /* the same as an object */
    json_t *additional;     /* schema */
    uint32_t min, max, top; /* counts up to top are told apart */
    uint32_t *behind;       /* [top + 1] states behind an additional member when so many stand there */
    uint32_t *more;         /* [top + 1] in front of one; 0: none may come */
};

static bool read_names(struct object *o)
{
    struct qr_gr_builder *b = o->b;
    json_t *names = json_object_get(o->schema, "propertyNames"), *base, *any;
    const char *path = qr_gr_path(b, o->path, "propertyNames");

    if (!names || json_is_true(names))
        return true;
    base = qr_gr_plain(b, names, path);
    if (b->status != QR_OK)
        return false;
    if (!base || (json_object_get(base, "type") && !(qr_gr_type_bits(json_object_get(base, "type")) & QR_T_STRING))) {
        qr_gr_fail(b, QR_UNSUPPORTED,
                   "propertyNames at %s cannot be honoured; only type, enum, pattern and lengths can", o->path);
        return false;
    }
    if (json_object_get(base, "minLength") ||
        json_object_get(base, "maxLength")) { /* they need an automaton to count in */
        any = qr_gr_keep(b, json_pack("{s:s}", "pattern", ""));
        if (!any || !qr_gr_merge(b, base, any, path))
            return false;
    }
    o->names = qr_gr_string_dfa(b, base, path);
    o->name_list = json_object_get(base, "enum");
    o->name_set = qr_gr_keep(b, json_object());
    for (size_t i = 0; o->name_set && i < json_array_size(o->name_list); i++) {
        json_t *name = json_array_get(o->name_list, i);

        if (json_is_string(name) && json_object_set(o->name_set, json_string_value(name), name) != 0)
            return qr_gr_nomem(b);
    }
    return b->status == QR_OK;
}

static bool read_patterns(struct object *o)
{
    const char *pattern;
    json_t *value;

    json_object_foreach(json_object_get(o->schema, "patternProperties"), pattern, value)
    {
        if (o->n_match == MAX_PATTERNS) {
            qr_gr_fail(o->b, QR_LIMIT, "patternProperties at %s has more than %d patterns; use fewer", o->path,
                       MAX_PATTERNS);
            return false;
        }
        o->match[o->n_match] =
            qr_cdfa_pattern(o->b, pattern, strlen(pattern), true, qr_gr_path(o->b, o->path, "patternProperties"));
        o->matched[o->n_match++] = value;
    }
    return o->b->status == QR_OK;
}

static bool name_allowed(const struct object *o, const char *name)
{
    bool listed = !o->name_list || json_object_get(o->name_set, name);

    return listed && (!o->names || qr_cdfa_matches(o->names, name, strlen(name)));
}

/* own: what "properties" says; NULL: nothing. */
static bool add_member(struct object *o, const char *name, json_t *own, bool required)
{
    struct qr_gr_builder *b = o->b;
    struct member *m = &o->member[o->n];
    bool matched = false;
    size_t n = strlen(name);
    json_t *schema = own;

    if (n > MAX_NAME) {
        qr_gr_fail(b, QR_LIMIT, "a name in properties at %s has %zu bytes; the limit is %d", o->path, n, MAX_NAME);
        return false;
    }
    for (int i = 0; i < o->n_match && b->status == QR_OK; i++)
        if (qr_cdfa_matches(o->match[i], name, n)) {
            schema = qr_gr_both(b, schema, o->matched[i]);
            matched = true;
        }
    if (!own && !matched)
        schema = o->additional;
    if (!name_allowed(o, name))
        schema = qr_gr_keep(b, json_false());
    if (!schema)
        schema = qr_gr_keep(b, json_true());
    m->name = name;
    m->required = required;
    m->text[0] = qr_gr_quote(b, name, n, false);
    m->text[1] = qr_gr_quote(b, name, n, true);
    if (m->text[1].n == m->text[0].n)
        m->text[1].n = 0;
    m->rule = schema ? qr_gr_schema_rule(b, schema, qr_gr_path(b, qr_gr_path(b, o->path, "properties"), name)) : 0;
    o->n++;
    return qr_gr_work(b, n * (size_t)(o->n_match + 1));
}

static bool read_members(struct object *o)
{
    json_t *properties = json_object_get(o->schema, "properties"), *required = json_object_get(o->schema, "required");
    size_t room = json_object_size(properties) + json_array_size(required) + json_array_size(o->name_list);
    const char *name;
    json_t *value, *wanted = qr_gr_keep(o->b, json_object()); /* names that are required, as a set */
    size_t i;

    o->member = qr_gr_alloc(o->b, room, sizeof *o->member);
    if (!o->member || !wanted)
        return false;
    json_array_foreach(required, i, value)
    {
        if (json_object_set(wanted, json_string_value(value), value) != 0)
            return qr_gr_nomem(o->b);
    }
    json_object_foreach(properties, name, value)
    {
        if (!add_member(o, name, value, json_object_get(wanted, name) != NULL))
            return false;
    }
    json_object_foreach(wanted, name, value)
    {
        if (!json_object_get(properties, name) && !add_member(o, name, NULL, true))
            return false;
    }
    json_array_foreach(o->name_list, i, value) /* names from a list are as good as declared */
    {
        name = json_string_value(value);
        if (name && !json_object_get(properties, name) && !json_object_get(wanted, name) &&
            !add_member(o, name, NULL, false))
            return false;
    }
    return true;
}

/* The names that additional members may have: none of the declared ones. */
static struct qr_cdfa *other_names(struct object *o)
{
    struct qr_gr_builder *b = o->b;
    struct qr_cdfa *any = qr_cdfa_any(b), *declared;
    struct qr_re **all = qr_gr_alloc(b, o->n, sizeof(struct qr_re *)), *re;

    if (!any || !all)
        return NULL;
    if (o->names)
        any = qr_cdfa_and(b, any, o->names);
    for (uint32_t i = 0; i < o->n && b->status == QR_OK; i++) {
        const char *s = o->member[i].name;
        size_t n = strlen(s), m = 0, len;
        struct qr_re **cp = qr_gr_alloc(b, n, sizeof(struct qr_re *));

        for (size_t at = 0; cp && at < n; at += len) {
            int32_t c = qr_utf8_get(s + at, &len);

            cp[m++] = qr_re_range(b, c, c);
        }
        all[i] = cp ? qr_re_make(b, QR_RE_SEQ, cp, (uint32_t)m) : NULL;
    }
    if (o->n == 0 || b->status != QR_OK)
        return any;
    re = qr_re_make(b, QR_RE_ALT, all, o->n);
    declared = re ? qr_cdfa_from_re(b, re, false, o->path) : NULL;
    return qr_cdfa_without(b, any, declared);
}

static void add_extra(struct object *o, struct qr_cdfa *keys, json_t *schema)
{
    struct qr_gr_builder *b = o->b;
    const char *path = qr_gr_path(b, o->path, "additionalProperties");
    json_t *any = schema ? schema : qr_gr_keep(b, json_true());
    uint32_t rule = any ? qr_gr_schema_rule(b, any, path) : 0, key_rule, start;

    if (b->status != QR_OK || (keys && !keys->n))
        return;
    key_rule = qr_gr_rule(b);
    start = keys ? qr_gr_emit_string(b, keys) : qr_gr_string(b, json_object_get(o->schema, "\1none"), path);
    if (b->status != QR_OK)
        return;
    b->g->rule[key_rule].start = start;
    o->extra[o->n_extra++] = (struct extra){key_rule, rule};
}

/* Every set of patterns that a name may match at once is a kind of its own. */
static void read_extras(struct object *o)
{
    struct qr_gr_builder *b = o->b;
    struct qr_cdfa *rest = NULL;

    if (!o->n && !o->n_match && !o->names) { /* any name: the automaton of free strings */
        add_extra(o, NULL, o->additional);
        return;
    }
    rest = other_names(o);
    for (int set = 0; set < 1 << o->n_match && b->status == QR_OK; set++) {
        struct qr_cdfa *keys = rest;
        json_t *schema = set ? NULL : o->additional;

        if (!set && json_is_false(o->additional))
            continue;
        for (int i = 0; i < o->n_match && keys; i++) {
            keys = set >> i & 1 ? qr_cdfa_and(b, keys, o->match[i]) : qr_cdfa_without(b, keys, o->match[i]);
            if (set >> i & 1)
                schema = qr_gr_both(b, schema, o->matched[i]);
        }
        if (keys)
            add_extra(o, keys, schema);
    }
}

static uint32_t next_count(const struct object *o, uint32_t count)
{
    return count < o->top ? count + 1 : o->top;
}

static uint32_t colon(struct object *o, uint32_t rule, uint32_t behind)
{
    struct qr_gr_call call = {rule, behind};

    return qr_gr_one(o->b, ':', qr_gr_spaced(o->b, qr_gr_cons(o->b, NULL, 0, &call, 1, false)));
}

/* States around additional members, by how many members stand there. */
static void extra_states(struct object *o)
{
    struct qr_gr_builder *b = o->b;

    for (uint32_t c = 0; c <= o->top; c++)
        o->behind[c] = qr_gr_new(b);
    for (uint32_t c = 0; c <= o->top && b->status == QR_OK; c++) {
        struct qr_gr_call call[1 << MAX_PATTERNS];

        if (!o->n_extra || (o->max != QR_RE_MANY && c >= o->max))
            continue;
        for (int i = 0; i < o->n_extra; i++)
            call[i] =
                (struct qr_gr_call){o->extra[i].key_rule, colon(o, o->extra[i].rule, o->behind[next_count(o, c)])};
        o->more[c] = qr_gr_cons(b, NULL, 0, call, (size_t)o->n_extra, false);
    }
    for (uint32_t c = 0; c <= o->top && b->status == QR_OK; c++) {
        struct qr_gr_edge edge[2];
        size_t n = 0;

        if (c >= o->min)
            edge[n++] = (struct qr_gr_edge){QR_GR_FIN, '}', '}'};
        if (o->more[c])
            edge[n++] = (struct qr_gr_edge){qr_gr_spaced(b, o->more[c]), ',', ','};
        if (b->status == QR_OK)
            qr_gr_set(b, o->behind[c], edge, n, NULL, 0, false);
    }
}

/* From the last member to the first: at[c] is behind member i when c members stand there, trie[c] in front of it. */
static uint32_t member_states(struct object *o)
{
    struct qr_gr_builder *b = o->b;
    uint32_t *at = qr_gr_alloc(b, o->top + 1, sizeof *at), *trie = qr_gr_alloc(b, o->top + 1, sizeof *trie);
    uint32_t *before = qr_gr_alloc(b, o->top + 1, sizeof *before);
    bool wanted = false; /* one from i on is required */
    uint32_t ready;

    if (!at || !trie || !before)
        return 0;
    memcpy(at, o->behind, (o->top + 1) * sizeof *at);
    for (uint32_t i = o->n; i-- > 0 && b->status == QR_OK;) {
        const struct member *m = &o->member[i];

        wanted = wanted || m->required;
        for (uint32_t c = 0; c <= o->top && b->status == QR_OK; c++) {
            uint32_t next;
            struct qr_gr_edge edge[2];
            size_t n = 0;

            if (o->max == QR_RE_MANY || c < o->max) {
                next = colon(o, m->rule, at[next_count(o, c)]);
                trie[c] = qr_gr_insert(b, m->required ? 0 : trie[c], m->text[0].s, m->text[0].n, next);
                if (m->text[1].n)
                    trie[c] = qr_gr_insert(b, trie[c], m->text[1].s, m->text[1].n, next);
            } else if (m->required)
                trie[c] = 0;
            ready = qr_gr_union(b, trie[c], wanted ? 0 : o->more[c]);
            if (!wanted && c >= o->min)
                edge[n++] = (struct qr_gr_edge){QR_GR_FIN, '}', '}'};
            if (ready)
                edge[n++] = (struct qr_gr_edge){qr_gr_spaced(b, ready), ',', ','};
            before[c] = qr_gr_cons(b, edge, n, NULL, 0, false);
        }
        memcpy(at, before, (o->top + 1) * sizeof *at);
    }
    ready = qr_gr_union(b, trie[0], wanted ? 0 : o->more[0]);
    if (!wanted && o->min == 0)
        ready = qr_gr_union(b, ready, qr_gr_one(b, '}', QR_GR_FIN));
    return ready && b->status == QR_OK ? qr_gr_one(b, '{', ready) : 0;
}

/* How far members must be counted for minProperties and maxProperties. */
static bool set_counts(struct object *o)
{
    uint32_t n_required = 0, min = 0, max = QR_RE_MANY;

    if (!qr_gr_count(o->b, o->schema, "minProperties", o->path, &min) ||
        !qr_gr_count(o->b, o->schema, "maxProperties", o->path, &max))
        return false;
    for (uint32_t i = 0; i < o->n; i++)
        n_required += o->member[i].required;
    if (min <= n_required)
        min = 0;
    if (!o->n_extra && max >= o->n)
        max = QR_RE_MANY;
    if (min > 1 && o->n_extra) { /* additional members may repeat a name, and then count once */
        qr_gr_fail(
            o->b, QR_UNSUPPORTED,
            "minProperties %u at %s cannot be honoured beside additional members; set additionalProperties false", min,
            o->path);
        return false;
    }
    o->min = min;
    o->max = max;
    o->top = max != QR_RE_MANY ? max : min;
    if (o->top > o->n + 1000 && !o->n_extra)
        o->top = o->n + 1000;
    if ((uint64_t)(o->top + 1) * (o->n + 1) > MAX_GRID) {
        qr_gr_fail(o->b, QR_LIMIT, "minProperties or maxProperties %u at %s is too large beside %u properties", o->top,
                   o->path, o->n);
        return false;
    }
    return true;
}

uint32_t qr_gr_object(struct qr_gr_builder *b, const json_t *schema, const char *path)
{
    struct object o = {.b = b, .schema = schema, .path = path};

    o.additional = json_object_get(schema, "additionalProperties");
    if (!o.additional && b->closed_objects && json_object_get(schema, "properties"))
        o.additional = qr_gr_keep(b, json_false());
    if (b->status != QR_OK || !read_names(&o) || !read_patterns(&o) || !read_members(&o))
        return 0;
    if (!o.name_list && (!json_is_false(o.additional) || o.n_match))
        read_extras(&o);
    if (b->status != QR_OK || !set_counts(&o))
        return 0;
    o.behind = qr_gr_alloc(b, o.top + 1, sizeof *o.behind);
    o.more = qr_gr_alloc(b, o.top + 1, sizeof *o.more);
    if (!o.behind || !o.more)
        return 0;
    extra_states(&o);
    return member_states(&o);
}
