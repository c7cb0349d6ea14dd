/* parts.c - see parts.h. */
#include "server/parts.h"
#include <stdlib.h>
#include <string.h>
#include "base/json.h"

enum { MAX_HELD = 1 << 18 /* bytes of a call */ };

static const char think_open[] = "<think>", think_close[] = "</think>";
static const char hermes_open[] = "<tool_call>", hermes_close[] = "</tool_call>";
static const char llama_open[] = "<|python_tag|>", mistral_open[] = "[TOOL_CALLS]", mistral_args[] = "[ARGS]";

bool qr_tool_format_named(const char *name, enum qr_tool_format *format)
{
    static const struct {
        const char *name;
        enum qr_tool_format format;
    } known[] = {{"none", QR_TOOLS_NONE},
                 {"hermes", QR_TOOLS_HERMES},
                 {"llama3_json", QR_TOOLS_LLAMA3},
                 {"mistral", QR_TOOLS_MISTRAL}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            *format = known[i].format;
            return true;
        }
    return false;
}

void qr_parts_init(struct qr_parts *p, enum qr_tool_format tools, bool thinks, bool in_thought)
{
    *p = (struct qr_parts){.tools = tools, .thinks = thinks, .mode = in_thought ? QR_PARTS_THOUGHT : QR_PARTS_TEXT};
    if (tools == QR_TOOLS_NAMED || tools == QR_TOOLS_FORCED)
        p->mode = QR_PARTS_WHOLE;
    qr_buf_init(&p->held, 0);
}

void qr_parts_free(struct qr_parts *p)
{
    qr_buf_free(&p->held);
}

/* ---------------------------------------------------------------- pieces */

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static size_t count_space(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && is_space(text[i]))
        i++;
    return i;
}

static void drop(struct qr_parts *p, size_t n)
{
    p->held.len -= n;
    memmove(p->held.data, p->held.data + n, p->held.len);
    p->held.data[p->held.len] = 0;
}

static void say(struct qr_parts *p, enum qr_part_kind kind, const char *text, size_t n)
{
    if (n && !p->emit(p->ctx, &(struct qr_part){.kind = kind, .text = text, .n = n}))
        p->no_memory = true;
}

/* The first n held bytes, as text or thought; white space before the first word is left out. */
static void say_held(struct qr_parts *p, size_t n)
{
    size_t skip = p->spoke ? 0 : count_space(p->held.data, n);
    bool tidy = p->thinks || p->tools != QR_TOOLS_NONE;
    if (!tidy)
        skip = 0;
    say(p, p->mode == QR_PARTS_THOUGHT ? QR_PART_THOUGHT : QR_PART_TEXT, p->held.data + skip, n - skip);
    p->spoke = p->spoke || n > skip;
    drop(p, n);
}

static void enter(struct qr_parts *p, enum qr_parts_mode mode)
{
    p->mode = mode;
    p->spoke = false;
}

/* The length of the JSON object or array that text starts with; 0: it does not end here. */
static size_t whole_value(const char *text, size_t n)
{
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return i + 1;
        }
    }
    return 0;
}

/* {"name", "arguments" or "parameters"}; false: it is no call. */
static bool say_call(struct qr_parts *p, const json_t *call, const char *name)
{
    const json_t *arguments = json_object_get(call, "arguments");
    if (!arguments)
        arguments = json_object_get(call, "parameters");
    if (!name) {
        name = json_string_value(json_object_get(call, "name"));
        if (!name || (arguments && !json_is_object(arguments) && !json_is_string(arguments)))
            return false;
    } else {
        arguments = call;
    }
    char *dumped = json_is_object(arguments) ? json_dumps(arguments, 0) : NULL;
    const char *text = dumped ? dumped : json_is_string(arguments) ? json_string_value(arguments) : "{}";
    if ((json_is_object(arguments) && !dumped) ||
        !p->emit(p->ctx, &(struct qr_part){.kind = QR_PART_CALL, .name = name, .text = text, .n = strlen(text)}))
        p->no_memory = true;
    free(dumped);
    return true;
}

/* All calls of a JSON text: an object, or a list of them. */
static bool say_calls(struct qr_parts *p, const char *text, size_t n, const char *name)
{
    json_t *root;
    if (qr_json_parse_lax(text, n, "a call", &root, NULL) == QR_NOMEM)
        p->no_memory = true;
    bool good = json_is_object(root) && say_call(p, root, name);
    size_t i;
    const json_t *one;
    json_array_foreach(root, i, one)
    {
        good = (json_is_object(one) && say_call(p, one, NULL)) || good;
    }
    json_decref(root);
    return good;
}

/* ---------------------------------------------------------------- modes: true when there may be more to do */

struct tag {
    const char *text;
    enum qr_parts_mode mode;
};

/* How many bytes at the end of text may be the start of tag. */
static size_t overlap(const char *text, size_t n, const char *tag)
{
    size_t k = strlen(tag) - 1;
    for (k = k < n ? k : n; k > 0; k--)
        if (memcmp(text + n - k, tag, k) == 0)
            return k;
    return 0;
}

/* Text up to the first of the tags goes out; true when one was found, and the mode is its. */
static bool up_to(struct qr_parts *p, const struct tag *tag, int n_tag, bool final)
{
    size_t n = p->held.len, keep = 0, at = n;
    const struct tag *found = NULL;
    for (int i = 0; i < n_tag; i++) {
        const char *hit = n ? memmem(p->held.data, n, tag[i].text, strlen(tag[i].text)) : NULL;
        if (hit && (size_t)(hit - p->held.data) < at) {
            at = (size_t)(hit - p->held.data);
            found = &tag[i];
        }
        size_t k = overlap(p->held.data, n, tag[i].text);
        keep = k > keep ? k : keep;
    }
    if (!found) {
        size_t out = final ? n : n - keep;
        if (!final) /* white space may be that before a tag or before the first word */
            while (out > 0 && is_space(p->held.data[out - 1]) && n_tag)
                out--;
        if (out)
            say_held(p, out);
        return false;
    }
    size_t tag_length = strlen(found->text);
    while (at > 0 && is_space(p->held.data[at - 1])) { /* between text and tag */
        memmove(p->held.data + at - 1, p->held.data + at, p->held.len - at);
        p->held.len--;
        at--;
    }
    if (at)
        say_held(p, at);
    drop(p, tag_length);
    enter(p, found->mode);
    return true;
}

static bool text_mode(struct qr_parts *p, bool final)
{
    struct tag tag[2];
    int n_tag = 0;
    size_t space = count_space(p->held.data, p->held.len);
    if (p->tools == QR_TOOLS_LLAMA3 && !p->spoke) {
        if (space == p->held.len)
            return false;
        if (p->held.data[space] == '{') {
            drop(p, space);
            enter(p, QR_PARTS_LLAMA3);
            return true;
        }
    }
    size_t left = p->held.len - space, n_open = sizeof think_open - 1;
    if (p->thinks && !p->spoke && memcmp(p->held.data + space, think_open, left < n_open ? left : n_open) == 0)
        tag[n_tag++] = (struct tag){think_open, QR_PARTS_THOUGHT};
    if (p->tools == QR_TOOLS_HERMES)
        tag[n_tag++] = (struct tag){hermes_open, QR_PARTS_HERMES};
    else if (p->tools == QR_TOOLS_LLAMA3)
        tag[n_tag++] = (struct tag){llama_open, QR_PARTS_LLAMA3};
    else if (p->tools == QR_TOOLS_MISTRAL)
        tag[n_tag++] = (struct tag){mistral_open, QR_PARTS_MISTRAL};
    bool found = up_to(p, tag, n_tag, final);
    if (found && p->mode == QR_PARTS_THOUGHT)
        p->thinks = true;
    return found;
}

static bool thought_mode(struct qr_parts *p, bool final)
{
    const struct tag tag = {think_close, QR_PARTS_TEXT};
    bool found = up_to(p, &tag, 1, final);
    return found;
}

/* What was taken for a call is text: tag, what goes before it. */
static bool no_call(struct qr_parts *p, const char *tag)
{
    enter(p, QR_PARTS_TEXT);
    p->spoke = true;
    say(p, QR_PART_TEXT, tag, strlen(tag));
    say_held(p, p->held.len);
    return false;
}

static bool hermes_mode(struct qr_parts *p, bool final)
{
    size_t space = count_space(p->held.data, p->held.len);
    if (space == p->held.len)
        return final && p->held.len ? no_call(p, hermes_open) : false;
    if (p->held.data[space] != '{' || p->held.len > MAX_HELD)
        return no_call(p, hermes_open);
    size_t n = whole_value(p->held.data + space, p->held.len - space);
    if (n == 0)
        return final ? no_call(p, hermes_open) : false;
    size_t at = space + n, left, close = strlen(hermes_close);
    at += count_space(p->held.data + at, p->held.len - at);
    left = p->held.len - at;
    if (!final && left < close && memcmp(p->held.data + at, hermes_close, left) == 0)
        return false; /* the closing tag is still coming */
    if (!say_calls(p, p->held.data + space, n, NULL))
        return no_call(p, hermes_open);
    drop(p, left >= close && memcmp(p->held.data + at, hermes_close, close) == 0 ? at + close : at);
    enter(p, QR_PARTS_TEXT);
    return true;
}

static bool llama_mode(struct qr_parts *p, bool final)
{
    size_t skip = 0;
    while (skip < p->held.len && (is_space(p->held.data[skip]) || p->held.data[skip] == ';'))
        skip++;
    if (skip == p->held.len)
        return false;
    if (p->held.data[skip] != '{' || p->held.len > MAX_HELD)
        return no_call(p, "");
    size_t n = whole_value(p->held.data + skip, p->held.len - skip);
    if (n == 0)
        return final ? no_call(p, "") : false;
    if (!say_calls(p, p->held.data + skip, n, NULL))
        return no_call(p, "");
    drop(p, skip + n);
    return true;
}

/* [...] or name[ARGS]{...}, or name{...}. */
static bool mistral_mode(struct qr_parts *p, bool final)
{
    size_t space = count_space(p->held.data, p->held.len), n_name;
    char *at = p->held.data + space, name[128];
    size_t left = p->held.len - space;
    if (p->held.len > MAX_HELD)
        return no_call(p, mistral_open);
    if (left == 0)
        return final && space ? no_call(p, mistral_open) : false;
    bool list = *at == '[';
    n_name = 0;
    while (!list && n_name < left && at[n_name] != '[' && at[n_name] != '{')
        n_name++;
    size_t args = strlen(mistral_args), begin = n_name;
    if (!list && n_name < left && at[n_name] == '[') {
        if (left - n_name < args && !final)
            return false;
        if (left - n_name < args || memcmp(at + n_name, mistral_args, args) != 0)
            return no_call(p, mistral_open);
        begin += args;
    }
    size_t n = begin < left ? whole_value(at + begin, left - begin) : 0;
    if (n_name >= sizeof name || (n == 0 && final))
        return no_call(p, mistral_open);
    if (n == 0)
        return false;
    while (n_name && is_space(at[n_name - 1]))
        n_name--;
    memcpy(name, at, n_name);
    name[n_name] = 0;
    if (!say_calls(p, at + begin, n, list ? NULL : name))
        return no_call(p, mistral_open);
    drop(p, space + begin + n);
    enter(p, QR_PARTS_TEXT);
    return true;
}

/* The last call of a list, cut off: what there is of its arguments, as OpenAI's API has it. Cut off in its name it is none. */
static void say_cut_call(struct qr_parts *p, const char *text, size_t n)
{
    json_t *call;
    size_t at;
    p->no_memory = qr_parts_cut_call(text, n, &call, &at) != QR_OK || p->no_memory;
    const char *name = json_string_value(json_object_get(call, "name"));
    const struct qr_part part = {QR_PART_CALL, name, text + at, n - at};
    if (name && !p->emit(p->ctx, &part))
        p->no_memory = true;
    json_decref(call);
}

/* [{"name", "parameters"}, ...], perhaps cut off; false: it is something else. */
static bool say_list(struct qr_parts *p, const char *text, size_t n)
{
    size_t at = count_space(text, n);
    if (at == n || text[at] != '[')
        return false;
    for (at++; at < n && text[at] != ']';) {
        size_t length = text[at] == '{' ? whole_value(text + at, n - at) : 1;
        if (length == 0) {
            say_cut_call(p, text + at, n - at);
            return true;
        }
        if (text[at] == '{' ? !say_calls(p, text + at, length, NULL) : text[at] != ',' && !is_space(text[at]))
            return false;
        at += length;
    }
    return true;
}

/* Nothing is certain before the end. Arguments that were cut off are arguments still. */
static bool whole_mode(struct qr_parts *p, bool final)
{
    const struct qr_part part = {QR_PART_CALL, p->named, p->held.data, p->held.len};
    if (!final)
        return false;
    if (p->tools == QR_TOOLS_NAMED)
        p->no_memory = !p->emit(p->ctx, &part) || p->no_memory;
    else if (!say_list(p, p->held.data, p->held.len))
        return no_call(p, "");
    drop(p, p->held.len);
    return false;
}

static bool step(struct qr_parts *p, bool final)
{
    switch (p->mode) {
    case QR_PARTS_WHOLE:
        return whole_mode(p, final);
    case QR_PARTS_THOUGHT:
        return thought_mode(p, final);
    case QR_PARTS_HERMES:
        return hermes_mode(p, final);
    case QR_PARTS_LLAMA3:
        return llama_mode(p, final);
    case QR_PARTS_MISTRAL:
        return mistral_mode(p, final);
    case QR_PARTS_TEXT:
        break;
    }
    return text_mode(p, final);
}

void qr_parts_feed(struct qr_parts *p, const char *text, size_t n)
{
    if (!qr_buf_append(&p->held, text, n)) {
        p->no_memory = true;
        return;
    }
    bool in_call = p->mode != QR_PARTS_TEXT && p->mode != QR_PARTS_THOUGHT;
    bool may_end = p->held.len > MAX_HELD;
    for (size_t i = 0; i < n && !may_end; i++)
        may_end = strchr("{}[]>", text[i]) != NULL;
    if (in_call && !may_end) /* no need to look through all of it again */
        return;
    while (p->held.len && step(p, false))
        ;
}

void qr_parts_end(struct qr_parts *p)
{
    while (p->held.len && step(p, true))
        ;
}
