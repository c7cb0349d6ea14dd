/* openai_fields.c - the fields that say how to sample: each against its range, with its name in the error. */
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "engine/request.h"
#include "server/openai_parse.h"

enum { COMPLETIONS_MAX_TOKENS = 16 }; /* OpenAI's default for /v1/completions */

static enum qr_status read_real(struct qr_openai_parse *p, const char *key, double min, double max, float *out)
{
    double v = (double)*out;
    enum qr_status status = qr_json_real(p->body, key, min, max, &v, &p->error->err);
    *out = (float)v;
    return qr_openai_blame(p, key, status);
}

static enum qr_status read_int(struct qr_openai_parse *p, const char *key, int64_t min, int64_t max, int *out)
{
    int64_t v = *out;
    enum qr_status status = qr_json_int(p->body, key, min, max, &v, &p->error->err);
    *out = (int)v;
    return qr_openai_blame(p, key, status);
}

static enum qr_status read_bool(struct qr_openai_parse *p, const char *key, bool *out)
{
    return qr_openai_blame(p, key, qr_json_bool(p->body, key, out, &p->error->err));
}

static enum qr_status read_numbers(struct qr_openai_parse *p)
{
    struct qr_sampling *s = &p->request->sampling;
    const struct {
        const char *key;
        double min, max;
        float *out;
    } real[] = {
        {"temperature", 0, 100, &s->temperature},
        {"top_p", 0, 1, &s->top_p},
        {"min_p", 0, 1, &s->min_p},
        {"presence_penalty", -2, 2, &s->presence_penalty},
        {"frequency_penalty", -2, 2, &s->frequency_penalty},
        {"repetition_penalty", 0.001, QR_MAX_PENALTY, &s->repetition_penalty},
    };
    for (size_t i = 0; i < sizeof real / sizeof *real; i++)
        QR_TRY(read_real(p, real[i].key, real[i].min, real[i].max, real[i].out));
    if (!(s->top_p > 0))
        return qr_openai_fail(p->error, QR_INVALID, "top_p", "\"top_p\" is 0: it must be above 0 and at most 1");
    QR_TRY(read_int(p, "top_k", -1, INT32_MAX, &s->top_k));
    QR_TRY(read_int(p, "n", 1, QR_MAX_CHOICES, &p->request->n));
    QR_TRY(read_int(p, "priority", INT32_MIN, INT32_MAX, &p->request->priority));
    QR_TRY(read_int(p, "min_tokens", 0, INT32_MAX, &s->min_tokens));
    QR_TRY(read_bool(p, "ignore_eos", &s->ignore_eos));
    return read_bool(p, "stream", &p->request->stream);
}

/* max_completion_tokens is the newer name and wins. */
static enum qr_status read_max_tokens(struct qr_openai_parse *p)
{
    bool chat = p->request->api == QR_OPENAI_CHAT;
    int *out = &p->request->sampling.max_tokens;
    *out = chat ? -1 : COMPLETIONS_MAX_TOKENS;
    QR_TRY(read_int(p, "max_tokens", chat ? 1 : 0, INT32_MAX, out));
    return read_int(p, "max_completion_tokens", chat ? 1 : 0, INT32_MAX, out);
}

/* A text: whoever sends the same one shares beginnings of prompts. 63 bits of FNV-1a (Fowler, Noll, Vo), none of them 0. */
static enum qr_status read_cache_salt(struct qr_openai_parse *p)
{
    const char *salt = NULL;
    uint64_t hash = 14695981039346656037u;
    QR_TRY(qr_openai_blame(p, "cache_salt", qr_json_string(p->body, "cache_salt", &salt, &p->error->err)));
    if (!salt)
        return QR_OK;
    if (!*salt)
        return qr_openai_fail(p->error, QR_INVALID, "cache_salt",
                              "\"cache_salt\" is empty: give a text, or leave it out");
    for (; *salt; salt++)
        hash = (hash ^ (unsigned char)*salt) * 1099511628211u;
    p->request->cache_salt = hash >> 1 ? hash >> 1 : 1;
    return QR_OK;
}

static enum qr_status read_seed(struct qr_openai_parse *p)
{
    int64_t seed = 0;
    struct qr_sampling *s = &p->request->sampling;
    QR_TRY(qr_openai_blame(p, "seed", qr_json_int(p->body, "seed", INT64_MIN, INT64_MAX, &seed, &p->error->err)));
    s->has_seed = qr_openai_field(p, "seed") != NULL;
    s->seed = (uint64_t)seed;
    return QR_OK;
}

/* Chat: "logprobs" is true or false and "top_logprobs" a number; completions: "logprobs" is the number. */
static enum qr_status read_logprobs(struct qr_openai_parse *p)
{
    struct qr_sampling *s = &p->request->sampling;
    bool wanted = false;
    s->logprobs = -1;
    if (p->request->api == QR_OPENAI_COMPLETIONS)
        return read_int(p, "logprobs", 0, QR_MAX_TOP, &s->logprobs);
    QR_TRY(read_bool(p, "logprobs", &wanted));
    if (wanted)
        s->logprobs = 0;
    else if (qr_openai_field(p, "top_logprobs"))
        return qr_openai_fail(p->error, QR_INVALID, "top_logprobs", "\"top_logprobs\" needs \"logprobs\": true");
    return read_int(p, "top_logprobs", 0, QR_MAX_TOP, &s->logprobs);
}

static enum qr_status read_stop(struct qr_openai_parse *p)
{
    const json_t *stop = qr_openai_field(p, "stop");
    struct qr_openai_request *r = p->request;
    size_t n = json_is_array(stop) ? json_array_size(stop) : 1;
    if (!stop)
        return QR_OK;
    if (n > QR_MAX_STOP)
        return qr_openai_fail(p->error, QR_LIMIT, "stop", "\"stop\" has %zu strings: at most %d are allowed", n,
                              QR_MAX_STOP);
    r->stop = malloc((n + 1) * sizeof *r->stop);
    if (!r->stop)
        return qr_openai_no_memory(p, "stop");
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(stop) ? json_array_get(stop, i) : stop;
        size_t length = json_string_length(one);
        if (!json_is_string(one))
            return qr_openai_fail(p->error, QR_INVALID, "stop", "\"stop\" must be a string or a list of strings");
        if (length == 0 || length > QR_MAX_STOP_LEN)
            return qr_openai_fail(p->error, QR_INVALID, "stop",
                                  "\"stop\" string %zu has %zu bytes: it must have 1 to %d", i, length,
                                  QR_MAX_STOP_LEN);
        r->stop[i] = json_string_value(one);
        if (strlen(r->stop[i]) != length)
            return qr_openai_fail(p->error, QR_INVALID, "stop", "\"stop\" must not hold a NUL character");
    }
    r->sampling.stop = r->stop;
    r->sampling.n_stop = n;
    return QR_OK;
}

enum qr_status qr_openai_read_ids(struct qr_openai_parse *p, const char *key, const json_t *list, size_t most,
                                  int32_t **ids, size_t *n)
{
    int n_vocab = qr_model_vocab_size(p->model);
    size_t count = json_array_size(list);
    *ids = NULL;
    *n = 0;
    if (!json_is_array(list))
        return qr_openai_fail(p->error, QR_INVALID, key, "\"%s\" must be a list of token ids", key);
    if (count > most)
        return qr_openai_fail(p->error, QR_LIMIT, key, "\"%s\" has %zu ids: at most %zu are allowed", key, count, most);
    int32_t *out = malloc((count + 1) * sizeof *out);
    if (!out)
        return qr_openai_no_memory(p, key);
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_array_get(list, i);
        if (!json_is_integer(one) || json_integer_value(one) < 0 || json_integer_value(one) >= n_vocab) {
            free(out);
            return qr_openai_fail(p->error, QR_INVALID, key, "\"%s\" entry %zu must be a token id, 0 to %d", key, i,
                                  n_vocab - 1);
        }
        out[i] = (int32_t)json_integer_value(one);
    }
    *ids = out;
    *n = count;
    return QR_OK;
}

static enum qr_status read_stop_ids(struct qr_openai_parse *p)
{
    const json_t *list = qr_openai_field(p, "stop_token_ids");
    struct qr_sampling *s = &p->request->sampling;
    if (!list)
        return QR_OK;
    QR_TRY(qr_openai_read_ids(p, "stop_token_ids", list, QR_MAX_STOP_IDS, &p->request->stop_ids, &s->n_stop_token_ids));
    s->stop_token_ids = p->request->stop_ids;
    return QR_OK;
}

/* Only digits: "12" is an id, " 12", "+12" and "0x1" are not. */
static bool parse_id(const char *text, int n_vocab, int32_t *id)
{
    size_t n = strlen(text);
    if (n == 0 || n > 9 || strspn(text, "0123456789") != n)
        return false;
    *id = (int32_t)strtol(text, NULL, 10);
    return *id < n_vocab;
}

static enum qr_status read_bias(struct qr_openai_parse *p)
{
    const json_t *map = qr_openai_field(p, "logit_bias");
    struct qr_openai_request *r = p->request;
    int n_vocab = qr_model_vocab_size(p->model);
    const char *key;
    json_t *value;
    size_t n = 0;
    if (!map)
        return QR_OK;
    if (!json_is_object(map))
        return qr_openai_fail(p->error, QR_INVALID, "logit_bias",
                              "\"logit_bias\" must be an object: token ids to numbers");
    if (json_object_size(map) > QR_MAX_BIAS)
        return qr_openai_fail(p->error, QR_LIMIT, "logit_bias",
                              "\"logit_bias\" has %zu entries: at most %d are allowed", json_object_size(map),
                              QR_MAX_BIAS);
    r->bias = malloc((json_object_size(map) + 1) * sizeof *r->bias);
    if (!r->bias)
        return qr_openai_no_memory(p, "logit_bias");
    json_object_foreach((json_t *)map, key, value)
    {
        double bias = json_number_value(value);
        if (!parse_id(key, n_vocab, &r->bias[n].id))
            return qr_openai_fail(p->error, QR_INVALID, "logit_bias",
                                  "\"logit_bias\" names '%.40s': its keys must be token ids, \"0\" to \"%d\"", key,
                                  n_vocab - 1);
        if (!json_is_number(value) || !(bias >= -100 && bias <= 100))
            return qr_openai_fail(p->error, QR_INVALID, "logit_bias",
                                  "\"logit_bias\" of token %s must be a number, -100 to 100", key);
        r->bias[n++].bias = (float)bias;
    }
    r->sampling.logit_bias = r->bias;
    r->sampling.n_logit_bias = n;
    return QR_OK;
}

static enum qr_status read_stream_options(struct qr_openai_parse *p)
{
    const json_t *options = qr_openai_field(p, "stream_options");
    if (!options)
        return QR_OK;
    if (!json_is_object(options))
        return qr_openai_fail(p->error, QR_INVALID, "stream_options", "\"stream_options\" must be an object");
    if (!p->request->stream)
        return qr_openai_fail(p->error, QR_INVALID, "stream_options", "\"stream_options\" needs \"stream\": true");
    return qr_openai_blame(p, "stream_options",
                           qr_json_bool(options, "include_usage", &p->request->include_usage, &p->error->err));
}

/* Both ask the engine for log-probabilities of the prompt. */
static enum qr_status read_prompt_logprobs(struct qr_openai_parse *p)
{
    struct qr_openai_request *r = p->request;
    struct qr_sampling *s = &r->sampling;
    QR_TRY(read_bool(p, "echo", &r->echo));
    QR_TRY(read_int(p, "prompt_logprobs", 0, QR_MAX_TOP, &r->prompt_logprobs));
    s->prompt_logprobs = r->prompt_logprobs;
    if (r->echo && s->logprobs > s->prompt_logprobs)
        s->prompt_logprobs = s->logprobs;
    if (r->echo && r->api == QR_OPENAI_CHAT)
        return qr_openai_fail(p->error, QR_UNSUPPORTED, "echo", "\"echo\" is for /v1/completions: leave it out");
    if (r->stream && r->prompt_logprobs >= 0)
        return qr_openai_fail(p->error, QR_INVALID, "prompt_logprobs", "\"prompt_logprobs\" needs \"stream\": false");
    return QR_OK;
}

enum qr_status qr_openai_read_sampling(struct qr_openai_parse *p)
{
    qr_sampling_defaults(p->model, &p->request->sampling);
    QR_TRY(read_numbers(p));
    QR_TRY(read_max_tokens(p));
    QR_TRY(read_seed(p));
    QR_TRY(read_cache_salt(p));
    QR_TRY(read_logprobs(p));
    QR_TRY(read_prompt_logprobs(p));
    QR_TRY(read_stop(p));
    QR_TRY(read_stop_ids(p));
    QR_TRY(read_bias(p));
    return read_stream_options(p);
}
