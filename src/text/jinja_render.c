/* jinja_render.c - a render: its budgets, its errors, the context from JSON, and the entry point. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "text/jinja_render.h"

void qr_jinja_raise(struct jrt *rt, enum qr_status status, const char *fmt, ...)
{
    if (rt->failed)
        return;
    char message[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    rt->failed = true;
    rt->status = qr_fail(rt->err, status, "chat template, line %d: %s", rt->line, message);
}

void qr_jinja_raise_plain(struct jrt *rt, const char *s, size_t n)
{
    if (rt->failed)
        return;
    rt->failed = true;
    rt->status = qr_fail(rt->err, QR_INVALID, "%.*s", (int)(n > 500 ? 500 : n), s);
}

bool qr_jinja_step(struct jrt *rt, uint64_t n)
{
    if (n > rt->max_steps - rt->steps) {
        qr_jinja_raise(rt, QR_LIMIT, "the template takes more than %llu steps", (unsigned long long)rt->max_steps);
        return false;
    }
    rt->steps += n;
    return !rt->failed;
}

bool qr_jinja_work(struct jrt *rt, size_t bytes)
{
    return qr_jinja_step(rt, bytes / 1024);
}

bool qr_jinja_charge(struct jrt *rt, size_t bytes)
{
    if (bytes > rt->max_text - rt->text) {
        qr_jinja_raise(rt, QR_LIMIT, "the template's output and strings take more than %zu bytes", rt->max_text);
        return false;
    }
    rt->text += bytes;
    return !rt->failed;
}

void *qr_jinja_alloc(struct jrt *rt, size_t n, size_t size)
{
    if (rt->failed)
        return NULL;
    void *p = qr_arena_array(rt->arena, n, size);
    if (!p && n * size > rt->max_values - qr_arena_used(rt->arena))
        qr_jinja_raise(rt, QR_LIMIT, "the template's values take more than %zu bytes", rt->max_values);
    else if (!p)
        qr_jinja_raise(rt, QR_NOMEM, "out of memory");
    return p;
}

void qr_jinja_emit(struct jrt *rt, const char *s, size_t n)
{
    if (!n || !qr_jinja_charge(rt, n) || !qr_jinja_work(rt, n))
        return;
    if (qr_buf_append(rt->out, s, n))
        return;
    if (rt->out->cap && n > rt->out->cap - rt->out->len)
        qr_jinja_raise(rt, QR_LIMIT, "the rendered text takes more than the %zu bytes that are accepted", rt->out->cap);
    else
        qr_jinja_raise(rt, QR_NOMEM, "out of memory");
}

static struct jv from_json(struct jrt *rt, const json_t *json, int depth)
{
    const char *key;
    json_t *value;
    size_t i;
    if (depth > 256) {
        qr_jinja_raise(rt, QR_LIMIT, "the request's variables nest deeper than 256 levels");
        return qr_jv_none();
    }
    switch (json_typeof(json)) {
    case JSON_OBJECT: {
        struct jv_dict *dict = qr_jv_dict_new(rt);
        json_object_foreach((json_t *)json, key, value)
        {
            qr_jv_dict_set(rt, dict, qr_jv_cstr(rt, key), from_json(rt, value, depth + 1));
        }
        return qr_jv_dict(dict);
    }
    case JSON_ARRAY: {
        struct jv_list *list = qr_jv_list_new(rt, JV_KIND_LIST);
        json_array_foreach(json, i, value)
        {
            qr_jv_push(rt, list, from_json(rt, value, depth + 1));
        }
        return qr_jv_list(list);
    }
    case JSON_STRING:
        return qr_jv_str_view(rt, json_string_value(json), json_string_length(json));
    case JSON_INTEGER:
        return qr_jv_int(json_integer_value(json));
    case JSON_REAL:
        return qr_jv_float(json_real_value(json));
    case JSON_TRUE:
        return qr_jv_bool(true);
    case JSON_FALSE:
        return qr_jv_bool(false);
    default:
        return qr_jv_none();
    }
}

struct jv qr_jinja_from_json(struct jrt *rt, const json_t *json)
{
    return from_json(rt, json, 0);
}

/* Not part of the budget: it is as large as the request, which its own limits bound. */
static bool load_context(struct jrt *rt, const json_t *context)
{
    uint64_t steps = rt->max_steps;
    rt->max_steps = UINT64_MAX;
    rt->context = qr_jinja_from_json(rt, context).u.dict;
    rt->max_steps = steps;
    rt->steps = 0;
    return !rt->failed;
}

static void run(struct jrt *rt, const json_t *context)
{
    if (!load_context(rt, context))
        return;
    struct qr_arena *variables = rt->arena; /* the budget of values starts behind the variables */
    rt->arena = qr_arena_create(rt->max_values);
    rt->tail_room = 0;
    rt->tail = NULL;
    if (rt->arena)
        qr_jinja_exec(rt, rt->jinja->body, qr_jinja_scope(rt, NULL));
    else
        qr_jinja_raise(rt, QR_NOMEM, "out of memory");
    qr_arena_destroy(rt->arena);
    rt->arena = variables;
}

enum qr_status qr_jinja_render(const struct qr_jinja *jinja, const json_t *context,
                               const struct qr_jinja_budget *budget, struct qr_buf *out, struct qr_err *err)
{
    struct qr_jinja_budget b = {1000000, (size_t)16 << 20, 200};
    if (budget && budget->steps)
        b.steps = budget->steps;
    if (budget && budget->output_bytes)
        b.output_bytes = budget->output_bytes;
    if (budget && budget->depth > 0)
        b.depth = budget->depth;
    if (b.output_bytes > SIZE_MAX / 8)
        b.output_bytes = SIZE_MAX / 8;
    if (b.depth > 400) /* the evaluator's stack: some 4 MB */
        b.depth = 400;
    if (!json_is_object(context))
        return qr_fail(err, QR_INVALID, "the variables of a chat template must be a JSON object");
    struct jrt rt = {.jinja = jinja,
                     .err = err,
                     .line = 1,
                     .max_steps = b.steps,
                     .max_text = b.output_bytes,
                     .max_values = 4 * b.output_bytes + ((size_t)1 << 20),
                     .max_calls = b.depth,
                     .max_depth = 20 * b.depth, /* a call costs some levels of the tree */
                     .out = out,
                     .void_str = {"", 0, 0}};
    size_t start = out->len;
    rt.arena = qr_arena_create(0);
    if (!rt.arena)
        return qr_fail(err, QR_NOMEM, "out of memory before the chat template was rendered");
    run(&rt, context);
    qr_arena_destroy(rt.arena);
    if (!rt.failed)
        return QR_OK;
    if (out->data && out->len > start) {
        out->len = start;
        out->data[start] = 0;
    }
    return rt.status;
}
