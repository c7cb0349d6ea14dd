/* jinja_replace.c - replace, strip, split, join and padding: what string filters and methods share. */
#include <string.h>
#include "text/jinja_render.h"
#include "text/jinja_unicode.h"

/* An empty from stands before every code point and at the end. */
static void replace_empty(struct qr_buf *buf, const struct jv_str *str, const struct jv_str *to, int64_t count)
{
    const char *s = str->s, *end = s + str->n;
    while (!buf->failed) {
        if (count-- <= 0) {
            qr_buf_append(buf, s, (size_t)(end - s));
            return;
        }
        qr_buf_append(buf, to->s, to->n);
        if (s == end)
            return;
        const char *start = s;
        qr_u8_next(&s, end);
        qr_buf_append(buf, start, (size_t)(s - start));
    }
}

struct jv qr_jinja_replace(struct jrt *rt, struct jv_str *str, struct jv_str *from, struct jv_str *to, int64_t count)
{
    struct qr_buf buf;
    const char *s = str->s, *end = s + str->n;
    if (count < 0)
        count = INT64_MAX;
    if (!qr_jinja_work(rt, str->n + from->n))
        return qr_jv_none();
    if (from->n && !memmem(s, str->n, from->s, from->n))
        return (struct jv){.type = JV_STR, .u.str = str};
    qr_jv_text_begin(rt, &buf);
    if (!from->n)
        replace_empty(&buf, str, to, count);
    while (from->n && !buf.failed) {
        const char *hit = count-- > 0 ? memmem(s, (size_t)(end - s), from->s, from->n) : NULL;
        qr_buf_append(&buf, s, (size_t)((hit ? hit : end) - s));
        if (!hit)
            break;
        qr_buf_append(&buf, to->s, to->n);
        s = hit + from->n;
    }
    return qr_jv_text_end(rt, &buf);
}

/* Is this one of the characters to strip? *spent: bytes looked at that are not charged yet. */
static bool strips(struct jrt *rt, const struct jv_str *chars, uint32_t cp, size_t *spent)
{
    if (!chars)
        return qr_u_is_space(cp);
    *spent += chars->n;
    if (*spent >= 1024) {
        qr_jinja_work(rt, *spent);
        *spent = 0;
    }
    for (const char *s = chars->s, *end = s + chars->n; s < end && !rt->failed;) {
        if (qr_u8_next(&s, end) == cp)
            return true;
    }
    return false;
}

struct jv qr_jinja_strip(struct jrt *rt, struct jv_str *str, struct jv chars, bool left, bool right)
{
    const char *s = str->s, *end = s + str->n;
    size_t spent = 0;
    bool space = chars.type == JV_MISSING || chars.type == JV_NONE;
    const struct jv_str *set = space ? NULL : qr_jinja_arg_str(rt, chars, NULL);
    qr_jinja_work(rt, str->n);
    while (left && s < end) {
        const char *next = s;
        if (!strips(rt, set, qr_u8_next(&next, end), &spent))
            break;
        s = next;
    }
    while (right && end > s) {
        const char *before = end;
        if (!strips(rt, set, qr_u8_before(s, &before), &spent))
            break;
        end = before;
    }
    return qr_jv_str_view(rt, s, (size_t)(end - s));
}

/* The boundaries of str.splitlines. */
static bool ends_line(uint32_t cp)
{
    return (cp >= 10 && cp <= 13) || (cp >= 28 && cp <= 30) || cp == 0x85 || cp == 0x2028 || cp == 0x2029;
}

struct jv_list *qr_jinja_splitlines(struct jrt *rt, struct jv_str *str, bool keep_ends)
{
    struct jv_list *lines = qr_jv_list_new(rt, JV_KIND_LIST);
    const char *s = str->s, *end = s + str->n, *start = s;
    qr_jinja_work(rt, str->n);
    while (s < end && !rt->failed) {
        const char *at = s;
        uint32_t cp = qr_u8_next(&s, end);
        if (!ends_line(cp))
            continue;
        if (cp == '\r' && s < end && *s == '\n')
            s++;
        qr_jinja_step(rt, 1);
        qr_jv_push(rt, lines, qr_jv_str_view(rt, start, (size_t)((keep_ends ? s : at) - start)));
        start = s;
    }
    if (start < end)
        qr_jv_push(rt, lines, qr_jv_str_view(rt, start, (size_t)(end - start)));
    return lines;
}

struct jv qr_jinja_pad(struct jrt *rt, struct jv_str *str, int64_t width, struct jv fill, char align)
{
    struct jv_str *with = qr_jinja_arg_str(rt, fill, " ");
    int64_t n = qr_jv_str_len(str), more = width > n ? width - n : 0;
    if (qr_jv_str_len(with) != 1)
        qr_jinja_raise(rt, QR_INVALID, "the fill character must be exactly one character long");
    if (rt->failed || !more)
        return (struct jv){.type = JV_STR, .u.str = str};
    /* str.center puts the odd blank left when the width is odd. */
    int64_t left = align == '<' ? 0 : align == '>' ? more : more / 2 + (more & width & 1);
    struct jv blank = {.type = JV_STR, .u.str = with}, text = qr_jv_repeat(rt, blank, left);
    text = qr_jv_concat(rt, text, (struct jv){.type = JV_STR, .u.str = str});
    return qr_jv_concat(rt, text, qr_jv_repeat(rt, blank, more - left));
}

struct jv qr_jinja_join(struct jrt *rt, struct jv_str *sep, struct jv items, struct jv attribute, bool strings_only)
{
    struct qr_buf buf;
    struct jv_cursor cursor;
    struct jv item;
    bool first = true;
    qr_jv_text_begin(rt, &buf);
    qr_jv_walk(rt, items, &cursor);
    while (!buf.failed && qr_jv_next(rt, &cursor, &item)) {
        item = qr_jinja_path(rt, item, attribute);
        if (strings_only && item.type != JV_STR)
            qr_jinja_raise(rt, QR_INVALID, "join: sequence item: expected str instance, %s found",
                           qr_jv_type_name(item));
        if (rt->failed)
            break;
        if (!first)
            qr_buf_append(&buf, sep->s, sep->n);
        first = false;
        qr_jv_write(rt, &buf, item);
    }
    return qr_jv_text_end(rt, &buf);
}
