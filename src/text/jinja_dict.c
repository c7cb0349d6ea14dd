/* jinja_dict.c - dicts: insertion order, any hashable key, a hash table beside the arrays once there are many. As in Python
 * 1, 1.0 and True are one key. */
#include <string.h>
#include "text/jinja_render.h"

#define SMALL 8 /* up to here keys are compared one by one */

struct jv_dict *qr_jv_dict_new(struct jrt *rt)
{
    struct jv_dict *dict = qr_jinja_alloc(rt, 1, sizeof *dict);
    return dict ? dict : &rt->void_dict;
}

bool qr_jv_hashable(struct jv v)
{
    if (v.type == JV_LIST) {
        if (v.u.list->kind != JV_KIND_TUPLE && v.u.list->kind != JV_KIND_GROUP)
            return false;
        for (size_t i = 0; i < v.u.list->n; i++) {
            struct jv item = v.u.list->v[i];
            if (item.type == JV_LIST ||
                item.type == JV_DICT) /* a tuple of tuples is hashable in Python, and no template's key */
                return false;
        }
        return true;
    }
    return v.type != JV_DICT;
}

static uint64_t mix(uint64_t h, uint64_t x)
{
    h ^= x;
    h *= 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static uint64_t hash(struct jv v)
{
    uint64_t h = 1469598103934665603u;
    switch (v.type) {
    case JV_STR: /* FNV-1a */
        for (size_t i = 0; i < v.u.str->n; i++)
            h = (h ^ (unsigned char)v.u.str->s[i]) * 1099511628211u;
        return mix(h, 0);
    case JV_BOOL:
    case JV_INT:
    case JV_FLOAT: {
        double f = qr_jv_as_float(v);
        uint64_t bits;
        if (f == 0)
            f = 0; /* -0.0 is 0 */
        memcpy(&bits, &f, 8);
        return mix(h, bits);
    }
    case JV_LIST:
        for (size_t i = 0; i < v.u.list->n; i++)
            h = mix(h, hash(v.u.list->v[i]));
        return h;
    default:
        return v.type;
    }
}

static bool same_key(struct jrt *rt, struct jv a, struct jv b)
{
    if (a.type == JV_STR && b.type == JV_STR)
        return a.u.str->n == b.u.str->n && (a.u.str == b.u.str || memcmp(a.u.str->s, b.u.str->s, a.u.str->n) == 0);
    if (a.type == JV_STR || b.type == JV_STR)
        return false;
    return qr_jv_equal(rt, a, b);
}

/* Position of the key, or dict->n. */
static size_t find(struct jrt *rt, const struct jv_dict *dict, struct jv key)
{
    if (key.type == JV_STR && !qr_jinja_work(rt, key.u.str->n))
        return dict->n;
    if (!dict->slot) {
        for (size_t i = 0; i < dict->n; i++) {
            if (same_key(rt, dict->key[i], key))
                return i;
        }
        return dict->n;
    }
    size_t mask = dict->n_slot - 1;
    for (size_t at = hash(key) & mask; dict->slot[at]; at = (at + 1) & mask) {
        if (!qr_jinja_step(rt, 1))
            break;
        if (same_key(rt, dict->key[dict->slot[at] - 1], key))
            return dict->slot[at] - 1;
    }
    return dict->n;
}

static void insert_slot(struct jv_dict *dict, size_t position)
{
    size_t mask = dict->n_slot - 1, at = hash(dict->key[position]) & mask;
    while (dict->slot[at])
        at = (at + 1) & mask;
    dict->slot[at] = (uint32_t)position + 1;
}

static bool grow(struct jrt *rt, struct jv_dict *dict)
{
    size_t room = dict->room ? dict->room * 2 : 4;
    struct jv *more = qr_jinja_alloc(rt, 2 * room, sizeof *more);
    uint32_t *slot = room > SMALL ? qr_jinja_alloc(rt, 2 * room, sizeof *slot) : NULL;
    if (!more || (room > SMALL && !slot))
        return false;
    if (dict->n) {
        memcpy(more, dict->key, dict->n * sizeof *more);
        memcpy(more + room, dict->value, dict->n * sizeof *more);
    }
    dict->key = more;
    dict->value = more + room;
    dict->room = room;
    dict->slot = slot;
    dict->n_slot = slot ? 2 * room : 0;
    for (size_t i = 0; slot && i < dict->n; i++)
        insert_slot(dict, i);
    return true;
}

bool qr_jv_dict_get(struct jrt *rt, const struct jv_dict *dict, struct jv key, struct jv *value)
{
    if (!qr_jv_hashable(key))
        return false;
    size_t i = find(rt, dict, key);
    if (i == dict->n)
        return false;
    *value = dict->value[i];
    return true;
}

bool qr_jv_dict_get_str(struct jrt *rt, const struct jv_dict *dict, struct jv_str *key, struct jv *value)
{
    return qr_jv_dict_get(rt, dict, (struct jv){.type = JV_STR, .u.str = key}, value);
}

void qr_jv_dict_set(struct jrt *rt, struct jv_dict *dict, struct jv key, struct jv value)
{
    if (!qr_jv_hashable(key)) {
        qr_jinja_raise(rt, QR_INVALID, "unhashable type: '%s'", qr_jv_type_name(key));
        return;
    }
    size_t i = find(rt, dict, key);
    if (rt->failed)
        return;
    if (i < dict->n) {
        dict->value[i] = value;
        return;
    }
    if (dict->n == dict->room && !grow(rt, dict))
        return;
    dict->key[dict->n] = key;
    dict->value[dict->n] = value;
    dict->n++;
    if (dict->slot)
        insert_slot(dict, dict->n - 1);
}
