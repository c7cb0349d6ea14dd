/* jinja_filters.c - filters on text. Each turns its value into a string first, as jinja2's soft_str does. */
#include <string.h>
#include "text/jinja_render.h"
#include "text/jinja_unicode.h"

#define FILTER(name)                                                                                                   \
    static struct jv name(struct jrt *rt, struct jv self, const struct jv *arg, const struct jargs *args)

static struct jv_str *text_of(struct jrt *rt, struct jv v)
{
    return qr_jv_to_str(rt, v).u.str;
}

FILTER(upper)
{
    (void)arg, (void)args;
    return qr_jinja_case(rt, text_of(rt, self), JC_UPPER);
}

FILTER(lower)
{
    (void)arg, (void)args;
    return qr_jinja_case(rt, text_of(rt, self), JC_LOWER);
}

FILTER(capitalize)
{
    (void)arg, (void)args;
    return qr_jinja_case(rt, text_of(rt, self), JC_CAPITALIZE);
}

FILTER(title)
{
    (void)arg, (void)args;
    return qr_jinja_case(rt, text_of(rt, self), JC_TITLE_FILTER);
}

FILTER(trim)
{
    (void)args;
    return qr_jinja_strip(rt, text_of(rt, self), arg[0], true, true);
}

FILTER(string)
{
    (void)arg, (void)args;
    return qr_jv_to_str(rt, self);
}

FILTER(center)
{
    (void)args;
    return qr_jinja_pad(rt, text_of(rt, self), qr_jinja_arg_int(rt, arg[0], 80), (struct jv){.type = JV_MISSING}, '^');
}

FILTER(replace)
{
    (void)args;
    struct jv_str *from = text_of(rt, arg[0]), *to = text_of(rt, arg[1]);
    return qr_jinja_replace(rt, text_of(rt, self), from, to, qr_jinja_arg_int(rt, arg[2], -1));
}

FILTER(join)
{
    struct jv_str *sep = arg[0].type == JV_MISSING ? qr_jv_cstr(rt, "").u.str : text_of(rt, arg[0]);
    (void)args;
    return qr_jinja_join(rt, sep, self, arg[1], false);
}

FILTER(format)
{
    (void)arg;
    return qr_jinja_percent(rt, qr_jv_to_str(rt, self), args);
}

FILTER(indent)
{
    struct jv pad = arg[0];
    bool first = qr_jinja_arg_true(rt, arg[1], false), blank = qr_jinja_arg_true(rt, arg[2], false);
    struct qr_buf buf;
    (void)args;
    if (self.type != JV_STR)
        return self.type == JV_UNDEFINED ? (qr_jv_raise_undefined(rt, self), self)
                                         : qr_jinja_binary(rt, '+', self, qr_jv_cstr(rt, "\n"));
    if (pad.type != JV_STR)
        pad = qr_jv_repeat(rt, qr_jv_cstr(rt, " "), qr_jinja_arg_int(rt, pad, 4));
    const struct jv_str *by = pad.u.str;
    struct jv_list *lines = qr_jinja_splitlines(rt, qr_jv_concat(rt, self, qr_jv_cstr(rt, "\n")).u.str, false);
    qr_jv_text_begin(rt, &buf);
    for (size_t i = 0; i < lines->n && !buf.failed; i++) {
        const struct jv_str *line = lines->v[i].u.str;
        if (i)
            qr_buf_putc(&buf, '\n');
        if (i ? blank || line->n : first)
            qr_buf_append(&buf, by->s, by->n);
        qr_buf_append(&buf, line->s, line->n);
    }
    return qr_jv_text_end(rt, &buf);
}

FILTER(truncate)
{
    int64_t length = qr_jinja_arg_int(rt, arg[0], 255), leeway = qr_jinja_arg_int(rt, arg[3], 5);
    bool box = self.type != JV_STR && qr_jv_len(rt, self) >= 0; /* a list is left as it is, or cannot be cut */
    bool kept = self.type == JV_UNDEFINED || (box && qr_jv_len(rt, self) - leeway <= length);
    struct jv_str *end = qr_jinja_arg_str(rt, arg[2], "..."),
                  *s = qr_jinja_arg_str(rt, kept ? qr_jv_cstr(rt, "") : self, NULL);
    (void)args;
    if (self.type == JV_UNDEFINED)
        return self;
    if (length < qr_jv_str_len(end) || leeway < 0)
        qr_jinja_raise(rt, QR_INVALID, "truncate: the length must be at least that of the end, and leeway at least 0");
    if (rt->failed || kept || qr_jv_str_len(s) - leeway <= length)
        return self;
    size_t cut = qr_jv_offset(s, length - qr_jv_str_len(end));
    if (!qr_jinja_arg_true(rt, arg[1], false)) {
        const char *space = memrchr(s->s, ' ', cut);
        cut = space ? (size_t)(space - s->s) : cut;
    }
    return qr_jv_concat(rt, qr_jv_str_view(rt, s->s, cut), (struct jv){.type = JV_STR, .u.str = end});
}

static bool word_char(uint32_t cp)
{
    return cp == '_' || qr_u_is_alpha(cp) || qr_u_is_numeric(cp);
}

FILTER(wordcount)
{
    const struct jv_str *str = text_of(rt, self);
    const char *s = str->s, *end = s + str->n;
    int64_t n = 0;
    bool in_word = false;
    (void)arg, (void)args;
    qr_jinja_work(rt, str->n);
    while (s < end) {
        bool word = word_char(qr_u8_next(&s, end));
        n += word && !in_word;
        in_word = word;
    }
    return qr_jv_int(n);
}

FILTER(escape)
{
    const struct jv_str *str = text_of(rt, self);
    struct qr_buf buf;
    (void)arg, (void)args;
    qr_jinja_work(rt, str->n);
    qr_jv_text_begin(rt, &buf);
    for (size_t i = 0; i < str->n && !buf.failed; i++) {
        char c = str->s[i];
        const char *as = c == '&'    ? "&amp;"
                         : c == '<'  ? "&lt;"
                         : c == '>'  ? "&gt;"
                         : c == '\'' ? "&#39;"
                         : c == '"'  ? "&#34;"
                                     : NULL;
        if (as)
            qr_buf_puts(&buf, as);
        else
            qr_buf_putc(&buf, c);
    }
    return qr_jv_text_end(rt, &buf);
}

static void url_quote(struct qr_buf *buf, const struct jv_str *str, bool query)
{
    static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~";
    for (size_t i = 0; i < str->n && !buf->failed; i++) {
        char c = str->s[i];
        if ((c && strchr(safe, c)) || (c == '/' && !query))
            qr_buf_putc(buf, c);
        else if (c == ' ' && query)
            qr_buf_putc(buf, '+');
        else
            qr_buf_printf(buf, "%%%02X", (unsigned char)c);
    }
}

static void url_pairs(struct jrt *rt, struct qr_buf *buf, struct jv self)
{
    struct jv_cursor cursor;
    struct jv item, value;
    bool first = true;
    qr_jv_walk(rt, self, &cursor);
    while (!buf->failed && qr_jv_next(rt, &cursor, &item)) {
        if (self.type == JV_DICT) {
            qr_jv_dict_get(rt, self.u.dict, item, &value);
        } else {
            struct jv_list *pair = qr_jv_to_list(rt, item);
            if (pair->n != 2) {
                qr_jinja_raise(rt, QR_INVALID, "urlencode needs pairs");
                return;
            }
            item = pair->v[0];
            value = pair->v[1];
        }
        if (rt->failed)
            return;
        qr_buf_puts(buf, first ? "" : "&");
        first = false;
        url_quote(buf, text_of(rt, item), true);
        qr_buf_putc(buf, '=');
        url_quote(buf, text_of(rt, value), true);
    }
}

FILTER(urlencode)
{
    struct qr_buf buf;
    (void)arg, (void)args;
    qr_jv_text_begin(rt, &buf);
    if (self.type == JV_STR || !qr_jv_iterable(self)) {
        const struct jv_str *str = text_of(rt, self);
        qr_jinja_work(rt, 4 * str->n);
        url_quote(&buf, str, false);
    } else {
        url_pairs(rt, &buf, self);
    }
    return qr_jv_text_end(rt, &buf);
}

const struct jbuiltin qr_jinja_filters_text[] = {
    {"upper", upper, "", 0},
    {"lower", lower, "", 0},
    {"capitalize", capitalize, "", 0},
    {"title", title, "", 0},
    {"trim", trim, "chars", 0},
    {"string", string, "", 0},
    {"safe", string, "", 0}, /* without autoescaping, a mark that nobody reads */
    {"center", center, "width", 0},
    {"replace", replace, "old,new,count", 2},
    {"join", join, "d,attribute", 0},
    {"format", format, NULL, 0},
    {"indent", indent, "width,first,blank", 0},
    {"truncate", truncate, "length,killwords,end,leeway", 0},
    {"wordcount", wordcount, "", 0},
    {"escape", escape, "", 0},
    {"e", escape, "", 0},
    {"forceescape", escape, "", 0},
    {"urlencode", urlencode, "", 0},
    {"tojson", qr_jinja_tojson, "ensure_ascii,indent,separators,sort_keys", 0},
    {NULL, NULL, NULL, 0},
};
