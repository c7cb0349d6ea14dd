/* jinja_string.c - strings: views, copies, concatenation. Lengths and positions are in code points.
 *
 * Slices, strips and splits are views of the string that they came from. a + b grows a in place when a is the newest
 * string of the render, so that a text built piece by piece costs its length, not its square. */
#include <errno.h>
#include <string.h>
#include "text/jinja_render.h"

struct jv qr_jv_str_view(struct jrt *rt, const char *s, size_t n)
{
    struct jv_str *str = qr_jinja_alloc(rt, 1, sizeof *str);
    if (!str)
        return (struct jv){.type = JV_STR, .u.str = &rt->void_str};
    *str = (struct jv_str){.s = s, .n = n, .n_cp = -1};
    return (struct jv){.type = JV_STR, .u.str = str};
}

#define CHUNK ((size_t)16 << 10)

/* Room for n bytes behind the newest string; NULL: failed. grow: leave as much again behind it. */
static char *take(struct jrt *rt, size_t n, bool grow)
{
    if (!qr_jinja_charge(rt, n) || !qr_jinja_work(rt, n))
        return NULL;
    if (n > rt->tail_room) {
        size_t room = grow && n > CHUNK / 2 ? 2 * n : n > CHUNK / 4 ? n : CHUNK;
        char *chunk = qr_jinja_alloc(rt, room, 1);
        if (!chunk)
            return NULL;
        rt->tail = chunk;
        rt->tail_room = room;
    }
    char *s = rt->tail;
    rt->tail += n;
    rt->tail_room -= n;
    return s;
}

struct jv qr_jv_str_copy(struct jrt *rt, const char *s, size_t n)
{
    char *copy = n ? take(rt, n, false) : NULL;
    if (!copy)
        return qr_jv_str_view(rt, "", 0);
    memcpy(copy, s, n);
    return qr_jv_str_view(rt, copy, n);
}

struct jv qr_jv_cstr(struct jrt *rt, const char *s)
{
    return qr_jv_str_view(rt, s, strlen(s));
}

struct jv qr_jv_concat(struct jrt *rt, struct jv a, struct jv b)
{
    const struct jv_str *x = a.u.str, *y = b.u.str;
    if (!y->n)
        return a;
    if (!x->n)
        return b;
    bool newest = x->s + x->n == rt->tail && y->n <= rt->tail_room;
    if (newest) {
        if (!qr_jinja_charge(rt, y->n) || !qr_jinja_work(rt, y->n))
            return a;
        memcpy(rt->tail, y->s, y->n);
        rt->tail += y->n;
        rt->tail_room -= y->n;
        return qr_jv_str_view(rt, x->s, x->n + y->n);
    }
    char *s = take(rt, x->n + y->n, true);
    if (!s)
        return a;
    memcpy(s, x->s, x->n);
    memcpy(s + x->n, y->s, y->n);
    return qr_jv_str_view(rt, s, x->n + y->n);
}

struct jv qr_jv_repeat(struct jrt *rt, struct jv v, int64_t times)
{
    const struct jv_str *str = v.u.str;
    size_t n;
    if (times <= 0 || str->n == 0)
        return qr_jv_str_view(rt, "", 0);
    if (__builtin_mul_overflow(str->n, (uint64_t)times, &n))
        n = SIZE_MAX;
    char *s = take(rt, n, false);
    if (!s)
        return v;
    for (size_t i = 0; i < n; i += str->n)
        memcpy(s + i, str->s, str->n);
    return qr_jv_str_view(rt, s, n);
}

int64_t qr_jv_str_len(struct jv_str *str)
{
    if (str->n_cp < 0) {
        int64_t count = 0;
        for (size_t i = 0; i < str->n; i++)
            count += ((unsigned char)str->s[i] & 0xc0) != 0x80;
        str->n_cp = count;
    }
    return str->n_cp;
}

size_t qr_jv_offset(const struct jv_str *str, int64_t cp)
{
    if (cp <= 0)
        return 0;
    if (str->n_cp >= 0 && cp >= str->n_cp)
        return str->n;
    if (str->n_cp == (int64_t)str->n)
        return (size_t)cp;
    size_t i = 0;
    while (i < str->n && cp > 0) {
        i++;
        while (i < str->n && ((unsigned char)str->s[i] & 0xc0) == 0x80)
            i++;
        cp--;
    }
    return i;
}

bool qr_jv_str_is(const struct jv_str *str, const char *s)
{
    return str->n == strlen(s) && memcmp(str->s, s, str->n) == 0;
}

void qr_jv_text_begin(struct jrt *rt, struct qr_buf *buf)
{
    size_t left = rt->max_text - rt->text;
    qr_buf_init(buf, left + 1);
    errno = 0;
    if (rt->failed)
        buf->failed = true;
}

struct jv qr_jv_text_end(struct jrt *rt, struct qr_buf *buf)
{
    struct jv v = {.type = JV_STR, .u.str = &rt->void_str};
    if (!buf->failed)
        v = qr_jv_str_copy(rt, buf->data ? buf->data : "", buf->len);
    else if (errno == ENOMEM) /* a qr_buf does not say whether memory or its cap ended it */
        qr_jinja_raise(rt, QR_NOMEM, "out of memory");
    else
        qr_jinja_charge(rt, rt->max_text - rt->text + 1);
    qr_buf_free(buf);
    return v;
}
