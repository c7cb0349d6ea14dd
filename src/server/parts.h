/* parts.h - what a model wrote, taken apart as it comes: thoughts between think tags, calls of tools in the formats that
 * models are trained to write, and text. Knows no JSON API. */
#ifndef QR_SERVER_PARTS_H
#define QR_SERVER_PARTS_H
#include <jansson.h>
#include "base/buf.h"
#include "base/err.h"

enum qr_tool_format {
    QR_TOOLS_NONE,
    QR_TOOLS_HERMES,  /* <tool_call>{"name", "arguments"}</tool_call>: Qwen2.5, Qwen3, Hermes */
    QR_TOOLS_LLAMA3,  /* {"name", "parameters"} as the whole answer, several with ; between: Llama 3.x */
    QR_TOOLS_MISTRAL, /* [TOOL_CALLS][{"name", "arguments"}, ...] or [TOOL_CALLS]name[ARGS]{...}: Mistral */
    QR_TOOLS_NAMED,   /* the whole answer is the arguments of one function, which the client named */
    QR_TOOLS_FORCED   /* the whole answer is a list [{"name", "parameters"}, ...] */
};
/* "hermes", "llama3_json", "mistral", "none"; false: unknown. */
bool qr_tool_format_named(const char *name, enum qr_tool_format *format);

enum qr_part_kind { QR_PART_TEXT, QR_PART_THOUGHT, QR_PART_CALL };
struct qr_part {
    enum qr_part_kind kind;
    const char *name; /* CALL: of the function */
    const char *text; /* [n] of a call: its arguments, a JSON object; of one that was cut off their beginning */
    size_t n;
};

enum qr_parts_mode {
    QR_PARTS_WHOLE,
    QR_PARTS_TEXT,
    QR_PARTS_THOUGHT,
    QR_PARTS_HERMES,
    QR_PARTS_LLAMA3,
    QR_PARTS_MISTRAL
};

struct qr_parts {
    enum qr_tool_format tools;
    const char *named; /* QR_TOOLS_NAMED: the function */
    bool thinks;       /* think tags are looked for at the start */
    enum qr_parts_mode mode;
    bool spoke;                                          /* something but white space was said in this mode */
    struct qr_buf held;                                  /* may be the start of a tag or of a call */
    bool (*emit)(void *ctx, const struct qr_part *part); /* false: out of memory */
    void *ctx;
    bool no_memory;
};

/* in_thought: the prompt ends with an open think tag. */
void qr_parts_init(struct qr_parts *parts, enum qr_tool_format tools, bool thinks, bool in_thought);
void qr_parts_free(struct qr_parts *parts); /* a zeroed struct is fine */
/* emit and ctx are set before. What is certain is given to emit; a call when it is whole. What looked like a call and is
 * none comes as the text that it is. */
void qr_parts_feed(struct qr_parts *parts, const char *text, size_t n);
void qr_parts_end(struct qr_parts *parts); /* nothing more comes */

/* parts_cut.c: what there is of a call {"name", "parameters"} whose text [n] ends before it does. *call: an object with the
 * name, NULL as long as that is not whole; *arguments: where they begin in text, n if they do not. QR_OK or QR_NOMEM. */
enum qr_status qr_parts_cut_call(const char *text, size_t n, json_t **call, size_t *arguments);
#endif
