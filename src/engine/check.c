/* check.c - the fields of a request: their defaults, and each against its limits before anything is copied. */
#include <math.h>
#include <string.h>
#include "engine/model.h"
#include "engine/request.h"

void qr_sampling_defaults(const struct qr_model *model, struct qr_sampling *sampling)
{
    *sampling = (struct qr_sampling){
        .temperature = 1,
        .top_p = 1,
        .repetition_penalty = 1,
        .max_tokens = -1,
        .logprobs = -1,
        .prompt_logprobs = -1,
    };
    if (!model || !model->source)
        return;
    const struct qr_config *c = &model->config; /* negative: generation_config does not say */
    if (c->gen_temperature >= 0)
        sampling->temperature = c->gen_temperature;
    if (c->gen_top_p > 0)
        sampling->top_p = c->gen_top_p;
    if (c->gen_top_k >= 0)
        sampling->top_k = c->gen_top_k;
    if (c->gen_repetition_penalty > 0)
        sampling->repetition_penalty = c->gen_repetition_penalty;
}

static enum qr_status check_real(const char *name, double value, double min, double max, struct qr_err *err)
{
    if (isfinite(value) && value >= min && value <= max)
        return QR_OK;
    return qr_fail(err, QR_INVALID, "%s is %g: it must lie within %g and %g", name, value, min, max);
}

static enum qr_status check_int(const char *name, int64_t value, int64_t min, int64_t max, struct qr_err *err)
{
    if (value >= min && value <= max)
        return QR_OK;
    return qr_fail(err, QR_INVALID, "%s is %lld: it must lie within %lld and %lld", name, (long long)value,
                   (long long)min, (long long)max);
}

static enum qr_status check_count(const char *name, size_t n, const void *array, size_t max, struct qr_err *err)
{
    if (n > max)
        return qr_fail(err, QR_INVALID, "%s has %zu entries: at most %zu are allowed", name, n, max);
    if (n > 0 && !array)
        return qr_fail(err, QR_INVALID, "%s has %zu entries but is NULL", name, n);
    return QR_OK;
}

static enum qr_status check_ids(const char *name, const int32_t *id, size_t n, int n_vocab, struct qr_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (id[i] < 0 || id[i] >= n_vocab)
            return qr_fail(err, QR_INVALID, "%s[%zu] is %d: the model's ids lie within 0 and %d", name, i, (int)id[i],
                           n_vocab - 1);
    return QR_OK;
}

static enum qr_status check_numbers(const struct qr_sampling *p, struct qr_err *err)
{
    QR_TRY(check_real("temperature", (double)p->temperature, 0, 100, err));
    QR_TRY(check_real("top_p", (double)p->top_p, 0, 1, err));
    if (!(p->top_p > 0))
        return qr_fail(err, QR_INVALID, "top_p is 0: it must be above 0 and at most 1");
    QR_TRY(check_real("min_p", (double)p->min_p, 0, 1, err));
    QR_TRY(check_int("top_k", p->top_k, -1, INT32_MAX, err));
    QR_TRY(check_real("repetition_penalty", (double)p->repetition_penalty, 0, QR_MAX_PENALTY, err));
    if (!(p->repetition_penalty >= 1e-3f))
        return qr_fail(err, QR_INVALID, "repetition_penalty is %g: it must be at least 0.001; 1 turns it off",
                       (double)p->repetition_penalty);
    QR_TRY(check_real("presence_penalty", (double)p->presence_penalty, -2, 2, err));
    QR_TRY(check_real("frequency_penalty", (double)p->frequency_penalty, -2, 2, err));
    QR_TRY(check_int("max_tokens", p->max_tokens, -1, INT32_MAX, err));
    QR_TRY(check_int("logprobs", p->logprobs, -1, QR_MAX_TOP, err));
    return check_int("prompt_logprobs", p->prompt_logprobs, -1, QR_MAX_TOP, err);
}

static enum qr_status check_arrays(const struct qr_sampling *p, const struct qr_request_limits *limits,
                                   struct qr_err *err)
{
    QR_TRY(check_count("logit_bias", p->n_logit_bias, p->logit_bias, QR_MAX_BIAS, err));
    for (size_t i = 0; i < p->n_logit_bias; i++) {
        QR_TRY(check_real("logit_bias", (double)p->logit_bias[i].bias, -100, 100, err));
        QR_TRY(check_ids("logit_bias", &p->logit_bias[i].id, 1, limits->n_vocab, err));
    }
    QR_TRY(check_count("stop_token_ids", p->n_stop_token_ids, p->stop_token_ids, QR_MAX_STOP_IDS, err));
    QR_TRY(check_ids("stop_token_ids", p->stop_token_ids, p->n_stop_token_ids, limits->n_vocab, err));
    QR_TRY(check_count("stop", p->n_stop, p->stop, QR_MAX_STOP, err));
    if (p->n_stop > 0 && !limits->tok)
        return qr_fail(err, QR_UNSUPPORTED,
                       "stop strings need a tokenizer and this model has none: use stop_token_ids");
    for (size_t i = 0; i < p->n_stop; i++) {
        size_t n = p->stop[i] ? strnlen(p->stop[i], QR_MAX_STOP_LEN + 1) : 0;
        if (n == 0)
            return qr_fail(err, QR_INVALID, "stop[%zu] is empty: a stop string needs at least one character", i);
        if (n > QR_MAX_STOP_LEN)
            return qr_fail(err, QR_INVALID, "stop[%zu] is longer than %d bytes: shorten it", i, QR_MAX_STOP_LEN);
    }
    return QR_OK;
}

/* Prompt and output against the context. */
static enum qr_status check_lengths(const struct qr_request *request, const struct qr_request_limits *limits,
                                    struct qr_err *err)
{
    const struct qr_sampling *p = &request->sampling;
    QR_TRY(check_count("prompt", request->n_prompt, request->prompt, SIZE_MAX, err));
    if (request->n_prompt == 0)
        return qr_fail(err, QR_INVALID, "the prompt is empty: it needs at least one token");
    size_t room = (size_t)limits->max_len - (p->max_tokens != 0 ? 1 : 0);
    if (request->n_prompt > room)
        return qr_fail(err, QR_LIMIT,
                       "the prompt has %zu tokens%s but the maximum context length is %d tokens: shorten the prompt",
                       request->n_prompt, p->max_tokens != 0 ? " and at least one is to be generated" : "",
                       limits->max_len);
    QR_TRY(check_ids("prompt", request->prompt, request->n_prompt, limits->n_vocab, err));
    if (p->prompt_logprobs >= 0)
        QR_TRY(check_int("prompt_logprobs_from", p->prompt_logprobs_from, 0, (int64_t)request->n_prompt, err));
    int64_t most = limits->max_len - (int64_t)request->n_prompt;
    if (p->max_tokens >= 0 && p->max_tokens < most)
        most = p->max_tokens;
    return check_int("min_tokens", p->min_tokens, 0, most, err);
}

enum qr_status qr_request_check(const struct qr_request *request, const struct qr_request_limits *limits,
                                struct qr_err *err)
{
    QR_TRY(check_int("n", request->n, 0, QR_MAX_CHOICES, err));
    if (request->cache_salt >> 63)
        return qr_fail(err, QR_INVALID, "cache_salt is %llu: it must be under 2^63",
                       (unsigned long long)request->cache_salt);
    QR_TRY(check_numbers(&request->sampling, err));
    QR_TRY(check_arrays(&request->sampling, limits, err));
    return check_lengths(request, limits, err);
}
