/* jinja.h - Jinja templates as chat models ship them, rendered as jinja2 does with transformers' settings
 * (trim_blocks, lstrip_blocks, loop controls, tojson without HTML escapes, raise_exception, strftime_now).
 * A template is immutable after parsing; renders may run in parallel. */
#ifndef QR_TEXT_JINJA_H
#define QR_TEXT_JINJA_H
#include <jansson.h>
#include "base/buf.h"
#include "base/err.h"

struct qr_jinja;
struct qr_jinja_budget { /* zeros: the defaults */
    uint64_t steps;      /* 10^6 */
    size_t output_bytes; /* 16 MB; also what all intermediate strings may take */
    int depth;           /* 200: nesting of the text and of calls */
};

/* Syntax errors name the line. */
enum qr_status qr_jinja_parse(const char *text, size_t n, struct qr_jinja **jinja, struct qr_err *err);
void qr_jinja_free(struct qr_jinja *jinja);
/* context: an object with the variables. raise_exception's message becomes the error's (QR_INVALID). */
enum qr_status qr_jinja_render(const struct qr_jinja *jinja, const json_t *context,
                               const struct qr_jinja_budget *budget, struct qr_buf *out, struct qr_err *err);
#endif
