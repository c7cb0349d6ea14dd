/* openai_error.c - errors as OpenAI's API tells them. */
#include "server/openai_error.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum qr_status qr_openai_fail(struct qr_openai_error *error, enum qr_status status, const char *param, const char *fmt,
                              ...)
{
    va_list ap;
    va_start(ap, fmt);
    error->err.status = status;
    vsnprintf(error->err.message, sizeof error->err.message, fmt, ap);
    va_end(ap);
    snprintf(error->param, sizeof error->param, "%s", param ? param : "");
    return status;
}

int qr_openai_http_status(enum qr_status status)
{
    switch (status) {
    case QR_FORMAT:
    case QR_UNSUPPORTED:
    case QR_INVALID:
    case QR_LIMIT:
    case QR_NOTFOUND: /* a model without tokenizer or template */
        return 400;
    case QR_BUSY:
        return 429;
    case QR_OK:
    case QR_NOMEM:
    case QR_IO:
    case QR_CANCELLED:
    case QR_INTERNAL:
        break;
    }
    return 500;
}

const char *qr_openai_error_type(enum qr_status status)
{
    switch (qr_openai_http_status(status)) {
    case 400:
        return "invalid_request_error";
    case 429:
        return "rate_limit_error";
    }
    return "server_error";
}

/* The start of text in valid UTF-8: a message is cut at its buffer's end, perhaps within a character. */
static json_t *message_json(const char *text)
{
    size_t n = strlen(text);
    json_t *out = json_stringn(text, n);
    for (size_t cut = 1; !out && cut <= n; cut++)
        out = json_stringn(text, n - cut);
    return out;
}

/* "bad format" -> "bad_format": codes are words that programs compare. */
static const char *code_of(enum qr_status status, char code[32])
{
    snprintf(code, 32, "%s", qr_status_name(status));
    for (char *c = code; *c; c++)
        if (*c == ' ' || *c == '/')
            *c = '_';
    return code;
}

json_t *qr_openai_error_json(const struct qr_openai_error *error)
{
    char code[32];
    return json_pack("{s:{s:o, s:s, s:o, s:s}}", "error", "message", message_json(error->err.message), "type",
                     qr_openai_error_type(error->err.status), "param",
                     *error->param ? message_json(error->param) : json_null(), "code",
                     code_of(error->err.status, code));
}
