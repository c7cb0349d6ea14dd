/* jinja_slice.c - obj[a:b:c] of strings, lists, tuples and ranges, with Python's rules for what lies outside. */
#include "text/jinja_render.h"
#include "text/jinja_unicode.h"

/* Python's slice.indices: start and stop, and how many items; step is not 0. */
static int64_t slice_range(struct jv from, struct jv to, int64_t step, int64_t n, int64_t *start, int64_t *stop)
{
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n, a = step < 0 ? high : low, b = step < 0 ? low : high,
            i;
    if (qr_jv_as_int(from, &i)) {
        i = i < 0 ? i + n : i;
        a = i < low ? low : i > high ? high : i;
    }
    if (qr_jv_as_int(to, &i)) {
        i = i < 0 ? i + n : i;
        b = i < low ? low : i > high ? high : i;
    }
    *start = a;
    *stop = b;
    if (step > 0)
        return b > a ? (b - a - 1) / step + 1 : 0;
    return a > b ? (a - b - 1) / -step + 1 : 0;
}

static struct jv slice_str(struct jrt *rt, struct jv_str *str, int64_t start, int64_t count, int64_t step)
{
    if (!qr_jinja_work(rt, str->n) || count == 0)
        return qr_jv_cstr(rt, "");
    if (step == 1) {
        size_t from = qr_jv_offset(str, start), to = qr_jv_offset(str, start + count);
        return qr_jv_str_view(rt, str->s + from, to - from);
    }
    /* Walk to the first, then step by step, forwards or backwards. */
    struct qr_buf text;
    const char *s = str->s + qr_jv_offset(str, start), *end = str->s + str->n;
    qr_jv_text_begin(rt, &text);
    for (int64_t k = 0; k < count && !text.failed; k++) {
        const char *next = s;
        qr_u8_next(&next, end);
        qr_buf_append(&text, s, (size_t)(next - s));
        for (int64_t hop = 0; k + 1 < count && hop < (step < 0 ? -step : step); hop++) {
            if (step < 0)
                qr_u8_before(str->s, &s);
            else
                qr_u8_next(&s, end);
        }
    }
    return qr_jv_text_end(rt, &text);
}

/* One step beyond the ends may not fit: the nearest number will do, as it is never an item. */
static int64_t range_at(const struct jv_range *r, int64_t i)
{
    int64_t v;
    if (__builtin_mul_overflow(i, r->step, &v) || __builtin_add_overflow(r->start, v, &v))
        return (i < 0) == (r->step < 0) ? INT64_MAX : INT64_MIN;
    return v;
}

struct jv qr_jinja_slice(struct jrt *rt, struct jv obj, struct jv from, struct jv to, struct jv by)
{
    int64_t step, start, stop, ignored;
    const struct jv parts[] = {from, to, by};
    if (obj.type == JV_UNDEFINED)
        qr_jv_raise_undefined(rt, obj);
    bool sliceable =
        obj.type == JV_STR || obj.type == JV_RANGE || (obj.type == JV_LIST && obj.u.list->kind < JV_KIND_KEYS);
    const struct jv *odd = NULL; /* a part that is no index */
    for (int i = 0; i < 3 && !odd; i++)
        odd = parts[i].type != JV_NONE && !qr_jv_as_int(parts[i], &ignored) ? &parts[i] : NULL;
    if (rt->folding && !rt->failed && (odd || !sliceable))
        return qr_jv_undefined(JV_WHY_ELEMENT, obj, NULL);
    if (!sliceable)
        qr_jinja_raise(rt, QR_INVALID, "'%s' object cannot be sliced", qr_jv_type_name(obj));
    else if (odd)
        qr_jinja_raise(rt, QR_INVALID, "slice indices must be integers or none, not '%s'", qr_jv_type_name(*odd));
    if (rt->failed)
        return qr_jv_none();
    if (!qr_jv_as_int(by, &step))
        step = 1;
    if (step == 0) {
        qr_jinja_raise(rt, QR_INVALID, "slice step cannot be zero");
        return qr_jv_none();
    }
    if (step == INT64_MIN)
        step++;
    int64_t n = qr_jv_len(rt, obj), count = slice_range(from, to, step, n, &start, &stop);
    if (rt->failed)
        return qr_jv_none();
    if (obj.type == JV_STR)
        return slice_str(rt, obj.u.str, start, count, step);
    if (obj.type == JV_RANGE) {
        struct jv_range *r = qr_jinja_alloc(rt, 1, sizeof *r), *of = obj.u.range;
        if (!r)
            return qr_jv_none();
        *r = (struct jv_range){range_at(of, start), range_at(of, stop), of->step, count};
        if (__builtin_mul_overflow(of->step, step, &r->step))
            r->step = step < 0 ? -1 : 1; /* one item at most */
        return (struct jv){.type = JV_RANGE, .u.range = r};
    }
    struct jv_list *list = qr_jv_list_new(rt, obj.u.list->kind == JV_KIND_GROUP ? JV_KIND_TUPLE : obj.u.list->kind);
    if (qr_jinja_step(rt, (uint64_t)count)) {
        for (int64_t k = 0; k < count; k++)
            qr_jv_push(rt, list, obj.u.list->v[start + k * step]);
    }
    return qr_jv_list(list);
}
