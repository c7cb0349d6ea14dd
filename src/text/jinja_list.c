/* jinja_list.c - lists and everything that can be walked. Each item that is walked over costs one step. */
#include <string.h>
#include "text/jinja_render.h"
#include "text/jinja_unicode.h"

struct jv_list *qr_jv_list_new(struct jrt *rt, enum jv_list_kind kind)
{
    struct jv_list *list = qr_jinja_alloc(rt, 1, sizeof *list);
    if (!list)
        return &rt->void_list;
    list->kind = kind;
    return list;
}

void qr_jv_push(struct jrt *rt, struct jv_list *list, struct jv v)
{
    if (rt->failed)
        return;
    if (list->n == list->room) {
        size_t room = list->room ? list->room * 2 : 4;
        struct jv *more = qr_jinja_alloc(rt, room, sizeof *more);
        if (!more)
            return;
        if (list->n)
            memcpy(more, list->v, list->n * sizeof *more);
        list->v = more;
        list->room = room;
    }
    list->v[list->n++] = v;
}

struct jv qr_jv_pair(struct jrt *rt, struct jv a, struct jv b)
{
    struct jv_list *pair = qr_jv_list_new(rt, JV_KIND_TUPLE);
    struct jv *v = qr_jinja_alloc(rt, 2, sizeof *v);
    if (v) {
        v[0] = a;
        v[1] = b;
        pair->v = v;
        pair->n = pair->room = 2;
    }
    return qr_jv_list(pair);
}

struct jv qr_jv_iter_of(struct jrt *rt, struct jv_list *items)
{
    struct jv_iter *iter = qr_jinja_alloc(rt, 1, sizeof *iter);
    if (!iter)
        return qr_jv_none();
    iter->items = items;
    return (struct jv){.type = JV_ITER, .u.iter = iter};
}

bool qr_jv_iterable(struct jv v)
{
    switch (v.type) {
    case JV_UNDEFINED:
    case JV_STR:
    case JV_LIST:
    case JV_DICT:
    case JV_RANGE:
    case JV_ITER:
        return true;
    default:
        return false;
    }
}

bool qr_jv_walk(struct jrt *rt, struct jv v, struct jv_cursor *cursor)
{
    *cursor = (struct jv_cursor){.v = v};
    if (qr_jv_iterable(v))
        return !rt->failed;
    qr_jinja_raise(rt, QR_INVALID, "'%s' object is not iterable", qr_jv_type_name(v));
    cursor->v = (struct jv){.type = JV_UNDEFINED};
    return false;
}

bool qr_jv_next(struct jrt *rt, struct jv_cursor *cursor, struct jv *item)
{
    size_t pos = cursor->pos;
    struct jv v = cursor->v;
    if (!qr_jinja_step(rt, 1))
        return false;
    switch (v.type) {
    case JV_STR: {
        const char *s = v.u.str->s + pos, *start = s;
        if (pos >= v.u.str->n)
            return false;
        qr_u8_next(&s, v.u.str->s + v.u.str->n);
        *item = qr_jv_str_view(rt, start, (size_t)(s - start));
        cursor->pos += (size_t)(s - start);
        return !rt->failed;
    }
    case JV_LIST:
        if (pos >= v.u.list->n)
            return false;
        *item = v.u.list->v[pos];
        break;
    case JV_DICT:
        if (pos >= v.u.dict->n)
            return false;
        *item = v.u.dict->key[pos];
        break;
    case JV_RANGE:
        if ((int64_t)pos >= v.u.range->n)
            return false;
        *item = qr_jv_int(v.u.range->start + (int64_t)pos * v.u.range->step);
        break;
    case JV_ITER:
        if (v.u.iter->pos >= v.u.iter->items->n)
            return false;
        *item = v.u.iter->items->v[v.u.iter->pos++];
        break;
    default:
        return false;
    }
    cursor->pos++;
    return true;
}

struct jv_list *qr_jv_to_list(struct jrt *rt, struct jv v)
{
    struct jv_list *list = qr_jv_list_new(rt, JV_KIND_LIST);
    struct jv_cursor cursor;
    struct jv item;
    if (qr_jv_walk(rt, v, &cursor)) {
        while (qr_jv_next(rt, &cursor, &item))
            qr_jv_push(rt, list, item);
    }
    return list;
}

/* Merges the sorted runs [lo, mid) and [mid, hi) of order into out. reverse keeps equal items in their order, as Python
 * does. */
static void merge(struct jrt *rt, const struct jv *keys, const size_t *order, size_t *out, size_t lo, size_t mid,
                  size_t hi, bool reverse)
{
    size_t i = lo, j = mid, k = lo;
    while (i < mid && j < hi) {
        struct jv left = keys[order[i]], right = keys[order[j]];
        bool second = reverse ? qr_jv_less(rt, left, right) : qr_jv_less(rt, right, left);
        out[k++] = second ? order[j++] : order[i++];
    }
    while (i < mid)
        out[k++] = order[i++];
    while (j < hi)
        out[k++] = order[j++];
}

void qr_jv_sort(struct jrt *rt, struct jv_list *items, struct jv *keys, bool reverse)
{
    size_t n = items->n;
    size_t *order = qr_jinja_alloc(rt, 2 * n + 1, sizeof *order);
    struct jv *sorted = qr_jinja_alloc(rt, 2 * n + 1, sizeof *sorted);
    if (!order || !sorted)
        return;
    size_t *from = order, *to = order + n;
    for (size_t i = 0; i < n; i++)
        from[i] = i;
    for (size_t width = 1; width < n && !rt->failed; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            size_t mid = lo + width < n ? lo + width : n, hi = lo + 2 * width < n ? lo + 2 * width : n;
            qr_jinja_step(rt, hi - lo);
            merge(rt, keys, from, to, lo, mid, hi, reverse);
        }
        size_t *swap = from;
        from = to;
        to = swap;
    }
    for (size_t i = 0; i < n; i++) {
        sorted[i] = items->v[from[i]];
        sorted[n + i] = keys[from[i]];
    }
    if (n) {
        memcpy(items->v, sorted, n * sizeof *sorted);
        memcpy(keys, sorted + n, n * sizeof *sorted);
    }
}
