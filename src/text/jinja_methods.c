/* jinja_methods.c - methods of str that cut, search and test: split, strip, startswith, find, replace, join ... */
#include <string.h>
#include "text/jinja_render.h"
#include "text/jinja_unicode.h"

static struct jv view(struct jrt *rt, const char *from, const char *to)
{
    return qr_jv_str_view(rt, from, (size_t)(to - from));
}

/* Words between runs of whitespace; behind max cuts the rest is one. */
static struct jv_list *split_space(struct jrt *rt, const struct jv_str *str, int64_t max)
{
    struct jv_list *parts = qr_jv_list_new(rt, JV_KIND_LIST);
    const char *s = str->s, *end = s + str->n, *next;
    while (!rt->failed) {
        for (next = s; next < end && qr_u_is_space(qr_u8_next(&next, end));)
            s = next;
        if (s == end)
            return parts;
        const char *start = s;
        if (max-- == 0) {
            qr_jv_push(rt, parts, view(rt, s, end));
            return parts;
        }
        for (next = s; next < end && !qr_u_is_space(qr_u8_next(&next, end));)
            s = next;
        qr_jinja_step(rt, 1);
        qr_jv_push(rt, parts, view(rt, start, s));
    }
    return parts;
}

static struct jv_list *rsplit_space(struct jrt *rt, const struct jv_str *str, int64_t max)
{
    struct jv_list *parts = qr_jv_list_new(rt, JV_KIND_LIST);
    const char *from = str->s, *s = from + str->n, *before;
    while (!rt->failed) {
        for (before = s; before > from && qr_u_is_space(qr_u8_before(from, &before));)
            s = before;
        if (s == from)
            return parts;
        const char *end = s;
        if (max-- == 0) {
            qr_jv_push(rt, parts, view(rt, from, s));
            return parts;
        }
        for (before = s; before > from && !qr_u_is_space(qr_u8_before(from, &before));)
            s = before;
        qr_jinja_step(rt, 1);
        qr_jv_push(rt, parts, view(rt, s, end));
    }
    return parts;
}

/* The last place of needle in [s, end); NULL: none. Takes the product of the lengths: the caller charges for that. */
static const char *last_of(const char *s, const char *end, const struct jv_str *needle)
{
    for (const char *p = end - needle->n; (size_t)(end - s) >= needle->n && p >= s; p--) {
        if (memcmp(p, needle->s, needle->n) == 0)
            return p;
        if (p == s)
            break;
    }
    return NULL;
}

static void reverse(struct jv_list *list)
{
    for (size_t i = 0; i + 1 < list->n - i; i++) {
        struct jv swap = list->v[i];
        list->v[i] = list->v[list->n - 1 - i];
        list->v[list->n - 1 - i] = swap;
    }
}

static struct jv split_any(struct jrt *rt, struct jv_str *str, struct jv by, int64_t max, bool right)
{
    const char *s = str->s, *end = s + str->n;
    struct jv_list *parts = qr_jv_list_new(rt, JV_KIND_LIST);
    if (max < 0)
        max = INT64_MAX;
    if (!qr_jinja_work(rt, right && by.type == JV_STR ? str->n * (by.u.str->n + 1) : str->n))
        return qr_jv_list(parts);
    if (by.type == JV_MISSING || by.type == JV_NONE) {
        parts = right ? rsplit_space(rt, str, max) : split_space(rt, str, max);
    } else {
        const struct jv_str *sep = qr_jinja_arg_str(rt, by, NULL);
        if (!sep->n)
            qr_jinja_raise(rt, QR_INVALID, "empty separator");
        for (int64_t k = 0; !rt->failed; k++) {
            const char *hit = k >= max ? NULL
                              : right  ? last_of(s, end, sep)
                                       : memmem(s, (size_t)(end - s), sep->s, sep->n);
            if (!hit) {
                qr_jv_push(rt, parts, view(rt, s, end));
                break;
            }
            qr_jinja_step(rt, 1);
            qr_jv_push(rt, parts, right ? view(rt, hit + sep->n, end) : view(rt, s, hit));
            if (right)
                end = hit;
            else
                s = hit + sep->n;
        }
    }
    if (right)
        reverse(parts);
    return qr_jv_list(parts);
}

#define METHOD(name)                                                                                                   \
    static struct jv name(struct jrt *rt, struct jv self, const struct jv *arg, const struct jargs *args)

METHOD(split)
{
    (void)args;
    return split_any(rt, self.u.str, arg[0], qr_jinja_arg_int(rt, arg[1], -1), false);
}

METHOD(rsplit)
{
    (void)args;
    return split_any(rt, self.u.str, arg[0], qr_jinja_arg_int(rt, arg[1], -1), true);
}

METHOD(splitlines)
{
    (void)args;
    return qr_jv_list(qr_jinja_splitlines(rt, self.u.str, qr_jinja_arg_true(rt, arg[0], false)));
}

METHOD(strip)
{
    (void)args;
    return qr_jinja_strip(rt, self.u.str, arg[0], true, true);
}

METHOD(lstrip)
{
    (void)args;
    return qr_jinja_strip(rt, self.u.str, arg[0], true, false);
}

METHOD(rstrip)
{
    (void)args;
    return qr_jinja_strip(rt, self.u.str, arg[0], false, true);
}

/* The bytes of [start, stop) in code points, as the optional arguments of find and startswith say; false: empty beyond the
 * end. */
static bool window(struct jrt *rt, struct jv_str *str, struct jv start, struct jv stop, const char **s,
                   const char **end)
{
    int64_t n = qr_jv_str_len(str), a = qr_jinja_arg_int(rt, start, 0), b = qr_jinja_arg_int(rt, stop, n);
    qr_jinja_work(rt, str->n);
    a = a < 0 ? (a + n < 0 ? 0 : a + n) : a;
    b = b < 0 ? (b + n < 0 ? 0 : b + n) : b > n ? n : b;
    if (a > n || a > b)
        return false;
    *s = str->s + qr_jv_offset(str, a);
    *end = str->s + qr_jv_offset(str, b);
    return true;
}

static bool affix(struct jrt *rt, struct jv self, struct jv what, const struct jv *range, bool end_of)
{
    const char *s, *end;
    if (what.type == JV_LIST && what.u.list->kind == JV_KIND_TUPLE) {
        for (size_t i = 0; i < what.u.list->n && qr_jinja_step(rt, 1); i++) {
            if (what.u.list->v[i].type == JV_STR && affix(rt, self, what.u.list->v[i], range, end_of))
                return true;
        }
        return false;
    }
    const struct jv_str *x = qr_jinja_arg_str(rt, what, NULL);
    if (rt->failed || !window(rt, self.u.str, range[0], range[1], &s, &end) || (size_t)(end - s) < x->n)
        return false;
    return memcmp(end_of ? end - x->n : s, x->s, x->n) == 0;
}

METHOD(startswith)
{
    (void)args;
    return qr_jv_bool(affix(rt, self, arg[0], arg + 1, false));
}

METHOD(endswith)
{
    (void)args;
    return qr_jv_bool(affix(rt, self, arg[0], arg + 1, true));
}

static int64_t find_any(struct jrt *rt, struct jv self, const struct jv *arg, bool last)
{
    const char *s, *end, *hit;
    const struct jv_str *x = qr_jinja_arg_str(rt, arg[0], NULL);
    if (rt->failed || !window(rt, self.u.str, arg[1], arg[2], &s, &end))
        return -1;
    if (!x->n)
        hit = last ? end : s;
    else if (last && !qr_jinja_work(rt, (size_t)(end - s) * x->n))
        hit = NULL;
    else
        hit = last ? last_of(s, end, x) : memmem(s, (size_t)(end - s), x->s, x->n);
    if (!hit)
        return -1;
    struct jv_str before = {self.u.str->s, (size_t)(hit - self.u.str->s), -1};
    return qr_jv_str_len(&before);
}

METHOD(find)
{
    (void)args;
    return qr_jv_int(find_any(rt, self, arg, false));
}

METHOD(rfind)
{
    (void)args;
    return qr_jv_int(find_any(rt, self, arg, true));
}

static struct jv index_any(struct jrt *rt, int64_t at)
{
    if (at < 0)
        qr_jinja_raise(rt, QR_INVALID, "substring not found");
    return qr_jv_int(at);
}

METHOD(str_index)
{
    (void)args;
    return index_any(rt, find_any(rt, self, arg, false));
}

METHOD(str_rindex)
{
    (void)args;
    return index_any(rt, find_any(rt, self, arg, true));
}

METHOD(count)
{
    const char *s, *end;
    const struct jv_str *x = qr_jinja_arg_str(rt, arg[0], NULL);
    int64_t n = 0;
    (void)args;
    if (rt->failed || !window(rt, self.u.str, arg[1], arg[2], &s, &end))
        return qr_jv_int(0);
    if (!x->n) {
        struct jv_str part = {s, (size_t)(end - s), -1};
        return qr_jv_int(qr_jv_str_len(&part) + 1);
    }
    while ((s = memmem(s, (size_t)(end - s), x->s, x->n)) != NULL) {
        n++;
        s += x->n;
    }
    return qr_jv_int(n);
}

METHOD(replace)
{
    (void)args;
    return qr_jinja_replace(rt, self.u.str, qr_jinja_arg_str(rt, arg[0], NULL), qr_jinja_arg_str(rt, arg[1], NULL),
                            qr_jinja_arg_int(rt, arg[2], -1));
}

METHOD(join)
{
    (void)args;
    return qr_jinja_join(rt, self.u.str, arg[0], qr_jv_none(), true);
}

static struct jv partition_any(struct jrt *rt, struct jv self, struct jv by, bool last)
{
    const struct jv_str *str = self.u.str, *sep = qr_jinja_arg_str(rt, by, NULL);
    const char *s = str->s, *end = s + str->n, *hit = NULL;
    struct jv_list *parts = qr_jv_list_new(rt, JV_KIND_TUPLE);
    if (!sep->n)
        qr_jinja_raise(rt, QR_INVALID, "empty separator");
    if (qr_jinja_work(rt, last ? str->n * (sep->n + 1) : str->n))
        hit = last ? last_of(s, end, sep) : memmem(s, str->n, sep->s, sep->n);
    struct jv empty = qr_jv_cstr(rt, "");
    if (hit) {
        qr_jv_push(rt, parts, view(rt, s, hit));
        qr_jv_push(rt, parts, view(rt, hit, hit + sep->n));
        qr_jv_push(rt, parts, view(rt, hit + sep->n, end));
    } else {
        qr_jv_push(rt, parts, last ? empty : self);
        qr_jv_push(rt, parts, empty);
        qr_jv_push(rt, parts, last ? self : empty);
    }
    return qr_jv_list(parts);
}

METHOD(partition)
{
    (void)args;
    return partition_any(rt, self, arg[0], false);
}

METHOD(rpartition)
{
    (void)args;
    return partition_any(rt, self, arg[0], true);
}

METHOD(removeprefix)
{
    const struct jv_str *str = self.u.str, *x = qr_jinja_arg_str(rt, arg[0], NULL);
    (void)args;
    if (x->n > str->n || memcmp(str->s, x->s, x->n) != 0)
        return self;
    return qr_jv_str_view(rt, str->s + x->n, str->n - x->n);
}

METHOD(removesuffix)
{
    const struct jv_str *str = self.u.str, *x = qr_jinja_arg_str(rt, arg[0], NULL);
    (void)args;
    if (x->n > str->n || memcmp(str->s + str->n - x->n, x->s, x->n) != 0)
        return self;
    return qr_jv_str_view(rt, str->s, str->n - x->n);
}

const struct jbuiltin qr_jinja_str_methods[] = {
    {"split", split, "sep,maxsplit", 0},
    {"rsplit", rsplit, "sep,maxsplit", 0},
    {"splitlines", splitlines, "keepends", 0},
    {"strip", strip, "chars", 0},
    {"lstrip", lstrip, "chars", 0},
    {"rstrip", rstrip, "chars", 0},
    {"startswith", startswith, "prefix,start,end", 1},
    {"endswith", endswith, "suffix,start,end", 1},
    {"find", find, "sub,start,end", 1},
    {"rfind", rfind, "sub,start,end", 1},
    {"index", str_index, "sub,start,end", 1},
    {"rindex", str_rindex, "sub,start,end", 1},
    {"count", count, "sub,start,end", 1},
    {"replace", replace, "old,new,count", 2},
    {"join", join, "iterable", 1},
    {"partition", partition, "sep", 1},
    {"rpartition", rpartition, "sep", 1},
    {"removeprefix", removeprefix, "prefix", 1},
    {"removesuffix", removesuffix, "suffix", 1},
    {NULL, NULL, NULL, 0},
};
