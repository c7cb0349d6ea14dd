/* chat_request.h - a request's JSON into the variables of a chat template. */
#ifndef QR_TEXT_CHAT_REQUEST_H
#define QR_TEXT_CHAT_REQUEST_H
#include <jansson.h>
#include <stdbool.h>
#include "base/err.h"

/* Checks the request and gives a new object: bos_token and eos_token (where not NULL), tools and documents (none when
 * absent), add_generation_prompt (default true), every field of the request, and chat_template_kwargs' fields on top. Content
 * given as a list of text parts becomes one string, a newline between parts, unless keep_parts. The caller json_decref()s. */
enum qr_status qr_chat_context(const json_t *request, const char *bos, const char *eos, bool keep_parts,
                               json_t **context, struct qr_err *err);
#endif
