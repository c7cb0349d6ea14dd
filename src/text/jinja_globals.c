/* jinja_globals.c - functions every template has: range, dict, namespace, cycler, joiner, raise_exception, strftime_now. */
#include <string.h>
#include <time.h>
#include "text/jinja_render.h"

#define GLOBAL(name)                                                                                                   \
    static struct jv name(struct jrt *rt, struct jv self, const struct jv *arg, const struct jargs *args)

#define MAX_RANGE 100000 /* of jinja2's sandbox */

GLOBAL(range)
{
    int64_t start = 0, stop, step = 1;
    (void)self;
    if (!args->n_kw && args->n_pos == 0)
        qr_jinja_raise(rt, QR_INVALID, "range expected at least 1 argument, got 0");
    for (int i = 0; i < 3; i++) {
        if (arg[i].type == JV_NONE)
            qr_jinja_raise(rt, QR_INVALID, "'NoneType' object cannot be interpreted as an integer");
    }
    stop = qr_jinja_arg_int(rt, arg[0], 0);
    if (arg[1].type != JV_MISSING) {
        start = stop;
        stop = qr_jinja_arg_int(rt, arg[1], 0);
        step = qr_jinja_arg_int(rt, arg[2], 1);
    }
    if (step == 0) {
        qr_jinja_raise(rt, QR_INVALID, "range() arg 3 must not be zero");
        return qr_jv_none();
    }
    struct jv_range *r = qr_jinja_alloc(rt, 1, sizeof *r);
    if (!r)
        return qr_jv_none();
    uint64_t span = step > 0 ? (start < stop ? (uint64_t)stop - (uint64_t)start : 0)
                             : (start > stop ? (uint64_t)start - (uint64_t)stop : 0);
    uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step, n = span ? (span - 1) / by + 1 : 0;
    if (n > MAX_RANGE) {
        qr_jinja_raise(rt, QR_LIMIT, "range too big: %llu items, at most %d are allowed", (unsigned long long)n,
                       MAX_RANGE);
        return qr_jv_none();
    }
    *r = (struct jv_range){start, stop, step, (int64_t)n};
    return (struct jv){.type = JV_RANGE, .u.range = r};
}

/* dict(mapping or pairs, **kwargs) */
static struct jv_dict *make_dict(struct jrt *rt, const struct jargs *args)
{
    struct jv_dict *dict = qr_jv_dict_new(rt);
    struct jv_cursor cursor;
    struct jv item;
    if (args->n_pos > 1)
        qr_jinja_raise(rt, QR_INVALID, "dict expected at most 1 argument, got %d", args->n_pos);
    if (args->n_pos == 1 && args->pos[0].type == JV_DICT) {
        const struct jv_dict *from = args->pos[0].u.dict;
        for (size_t i = 0; i < from->n && qr_jinja_step(rt, 1); i++)
            qr_jv_dict_set(rt, dict, from->key[i], from->value[i]);
    } else if (args->n_pos == 1) {
        qr_jv_walk(rt, args->pos[0], &cursor);
        while (qr_jv_next(rt, &cursor, &item)) {
            struct jv_list *pair = qr_jv_to_list(rt, item);
            if (pair->n != 2) {
                qr_jinja_raise(rt, QR_INVALID, "a dict is made of pairs, and an item has length %zu", pair->n);
                break;
            }
            qr_jv_dict_set(rt, dict, pair->v[0], pair->v[1]);
        }
    }
    for (int k = 0; k < args->n_kw && !rt->failed; k++)
        qr_jv_dict_set(rt, dict, (struct jv){.type = JV_STR, .u.str = args->kw_name[k]}, args->kw[k]);
    return dict;
}

GLOBAL(dict)
{
    (void)self, (void)arg;
    return qr_jv_dict(make_dict(rt, args));
}

GLOBAL(namespace)
{
    (void)self, (void)arg;
    return (struct jv){.type = JV_NAMESPACE, .u.dict = make_dict(rt, args)};
}

GLOBAL(cycler)
{
    struct jv_cycler *c = qr_jinja_alloc(rt, 1, sizeof *c);
    (void)self, (void)arg;
    if (!args->n_pos)
        qr_jinja_raise(rt, QR_INVALID, "cycler: at least one item has to be provided");
    if (!c || rt->failed)
        return qr_jv_none();
    c->items = qr_jv_list_new(rt, JV_KIND_TUPLE);
    for (int i = 0; i < args->n_pos; i++)
        qr_jv_push(rt, c->items, args->pos[i]);
    return rt->failed ? qr_jv_none() : (struct jv){.type = JV_CYCLER, .u.cycler = c};
}

GLOBAL(joiner)
{
    struct jv_joiner *j = qr_jinja_alloc(rt, 1, sizeof *j);
    (void)self, (void)args;
    if (!j)
        return qr_jv_none();
    j->sep = arg[0].type == JV_MISSING ? qr_jv_cstr(rt, ", ") : arg[0];
    return (struct jv){.type = JV_JOINER, .u.joiner = j};
}

GLOBAL(raise_exception)
{
    struct jv message = qr_jv_to_str(rt, arg[0]);
    (void)self, (void)args;
    if (message.u.str->n > 0)
        qr_jinja_raise_plain(rt, message.u.str->s, message.u.str->n);
    else
        qr_jinja_raise(rt, QR_INVALID, "the chat template refused the conversation without saying why");
    return qr_jv_none();
}

GLOBAL(strftime_now)
{
    char format[256], out[1024];
    const struct jv_str *f = qr_jinja_arg_str(rt, arg[0], NULL);
    time_t now = time(NULL);
    struct tm tm;
    (void)self, (void)args;
    if (f->n >= sizeof format || memchr(f->s, 0, f->n)) {
        qr_jinja_raise(rt, QR_LIMIT, "the format of strftime_now has %zu bytes; at most %zu are accepted", f->n,
                       sizeof format - 1);
        return qr_jv_none();
    }
    memcpy(format, f->s, f->n);
    format[f->n] = 0;
    if (!localtime_r(&now, &tm))
        memset(&tm, 0, sizeof tm);
    return qr_jv_str_copy(rt, out, strftime(out, sizeof out, format, &tm));
}

const struct jbuiltin qr_jinja_globals[] = {
    {"range", range, "start,stop,step", 1},
    {"dict", dict, NULL, 0},
    {"namespace", namespace, NULL, 0},
    {"cycler", cycler, NULL, 0},
    {"joiner", joiner, "sep", 0},
    {"raise_exception", raise_exception, "message", 1},
    {"strftime_now", strftime_now, "format", 1},
    {NULL, NULL, NULL, 0},
};
