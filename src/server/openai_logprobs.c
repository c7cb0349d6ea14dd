/* openai_logprobs.c - log-probabilities as OpenAI shows them.
 *
 * Chat: {"content": [{"token", "logprob", "bytes", "top_logprobs": [...]}]}. Completions: four lists that run side by side,
 * "tokens", "token_logprobs", "top_logprobs" (objects, token -> logprob) and "text_offset" (in code points). A token whose
 * bytes are no whole UTF-8 reads "bytes:\xe2\x80", as OpenAI writes it; so does NUL, which many parsers refuse in a key. */
#include <math.h>
#include <string.h>
#include "engine/model.h"
#include "server/openai_response.h"

#define LEAST_LOGPROB (-9999.0) /* JSON has no -Infinity; the value that OpenAI's API uses */

static const char *token_bytes(const struct qr_model *model, int32_t id, size_t *n)
{
    const char *bytes = model->tok ? qr_tokenizer_bytes(model->tok, id, n) : NULL;
    if (!bytes)
        *n = 0;
    return bytes ? bytes : "";
}

json_t *qr_openai_token_name(const struct qr_model *model, int32_t id)
{
    size_t n;
    const char *bytes = token_bytes(model, id, &n);
    if (!model->tok)
        return json_sprintf("token_id:%d", (int)id);
    json_t *text = memchr(bytes, 0, n) ? NULL : json_stringn(bytes, n);
    if (text)
        return text;
    struct qr_buf buf;
    qr_buf_init(&buf, 0);
    qr_buf_puts(&buf, "bytes:");
    for (size_t i = 0; i < n; i++)
        qr_buf_printf(&buf, "\\x%02x", (unsigned char)bytes[i]);
    text = buf.failed ? NULL : json_stringn(buf.data, buf.len);
    qr_buf_free(&buf);
    return text;
}

json_t *qr_openai_logprob_json(float logprob)
{
    if (isnan(logprob)) /* the first token of a prompt, which nothing predicts */
        return json_null();
    return json_real(isfinite(logprob) ? (double)logprob : LEAST_LOGPROB);
}

static json_t *bytes_json(const struct qr_model *model, int32_t id)
{
    size_t n;
    const char *bytes = token_bytes(model, id, &n);
    if (!model->tok)
        return json_null();
    json_t *list = json_array();
    for (size_t i = 0; i < n && list; i++)
        if (json_array_append_new(list, json_integer((unsigned char)bytes[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *chat_token(const struct qr_model *model, int32_t id, float logprob)
{
    return json_pack("{s:o, s:o, s:o}", "token", qr_openai_token_name(model, id), "logprob",
                     qr_openai_logprob_json(logprob), "bytes", bytes_json(model, id));
}

static bool add_chat(struct qr_openai_choice *c, const struct qr_model *model, const struct qr_token_logprob *l)
{
    json_t *top = json_array(), *one = chat_token(model, l->id, l->logprob);
    bool ok = top && one;
    for (int i = 0; i < l->n_top && ok; i++)
        ok = json_array_append_new(top, chat_token(model, l->top[i].id, l->top[i].logprob)) == 0;
    ok = json_object_set_new(one, "top_logprobs", top) == 0 && ok;
    return json_array_append_new(json_object_get(c->logprobs, "content"), one) == 0 && ok;
}

/* Several tokens may read alike; the most probable one is kept. */
static bool set_best(json_t *object, const struct qr_model *model, int32_t id, float logprob)
{
    json_t *name = qr_openai_token_name(model, id);
    if (!name)
        return false;
    const char *key = json_string_value(name);
    size_t n = json_string_length(name);
    const json_t *old = json_object_getn(object, key, n);
    bool ok = (old && json_real_value(old) >= (double)logprob) ||
              json_object_setn_new(object, key, n, qr_openai_logprob_json(logprob)) == 0;
    json_decref(name);
    return ok;
}

static bool append(struct qr_openai_choice *c, const char *list, json_t *value)
{
    return json_array_append_new(json_object_get(c->logprobs, list), value) == 0;
}

static bool add_completion(struct qr_openai_choice *c, const struct qr_model *model, const struct qr_token_logprob *l)
{
    size_t n;
    const char *bytes = token_bytes(model, l->id, &n);
    json_t *top = isnan(l->logprob) ? json_null() : json_object();
    bool ok = top && (json_is_null(top) || set_best(top, model, l->id, l->logprob));
    for (int i = 0; i < l->n_top && ok && json_is_object(top); i++)
        ok = set_best(top, model, l->top[i].id, l->top[i].logprob);
    ok = append(c, "tokens", qr_openai_token_name(model, l->id)) && ok;
    ok = append(c, "token_logprobs", qr_openai_logprob_json(l->logprob)) && ok;
    ok = append(c, "top_logprobs", top) && ok;
    ok = append(c, "text_offset", json_integer((json_int_t)c->offset)) && ok;
    for (size_t i = 0; i < n; i++)
        c->offset += ((unsigned char)bytes[i] & 0xc0) != 0x80; /* every byte that starts a code point */
    return ok;
}

bool qr_openai_add_logprobs(struct qr_openai_choice *choice, enum qr_openai_api api, const struct qr_model *model,
                            const struct qr_token_logprob *logprob)
{
    if (!choice->logprobs)
        choice->logprobs = api == QR_OPENAI_CHAT ? json_pack("{s:[]}", "content")
                                                 : json_pack("{s:[], s:[], s:[], s:[]}", "tokens", "token_logprobs",
                                                             "top_logprobs", "text_offset");
    if (!choice->logprobs)
        return false;
    return api == QR_OPENAI_CHAT ? add_chat(choice, model, logprob) : add_completion(choice, model, logprob);
}
