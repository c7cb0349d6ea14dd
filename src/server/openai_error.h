/* openai_error.h - an error as OpenAI's API tells it: HTTP status, type, message and the field at fault. */
#ifndef QR_SERVER_OPENAI_ERROR_H
#define QR_SERVER_OPENAI_ERROR_H
#include <jansson.h>
#include "base/err.h"

struct qr_openai_error {
    struct qr_err err;
    char param[64]; /* the request's field; empty: none */
};

/* Sets everything, returns status. error may not be NULL. */
enum qr_status qr_openai_fail(struct qr_openai_error *error, enum qr_status status, const char *param, const char *fmt,
                              ...) __attribute__((format(printf, 4, 5)));
/* 400 for what the client can change, 429 for a full queue, else 500. */
int qr_openai_http_status(enum qr_status status);
const char *qr_openai_error_type(enum qr_status status); /* "invalid_request_error", ... */
/* {"error": {"message", "type", "param", "code"}}; NULL: out of memory. */
json_t *qr_openai_error_json(const struct qr_openai_error *error);
#endif
