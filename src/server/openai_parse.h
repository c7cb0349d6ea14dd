/* openai_parse.h - what the files that read a request's body share. */
#ifndef QR_SERVER_OPENAI_PARSE_H
#define QR_SERVER_OPENAI_PARSE_H
#include "server/openai_request.h"

struct qr_openai_parse {
    struct qr_model *model;
    int max_len; /* tokens */
    const json_t *body;
    struct qr_openai_request *request;
    struct qr_openai_error *error;
};

/* The value of a field; NULL where it is absent or null. */
const json_t *qr_openai_field(const struct qr_openai_parse *p, const char *key);
/* Names key as the field at fault when status is an error; returns status. */
enum qr_status qr_openai_blame(struct qr_openai_parse *p, const char *key, enum qr_status status);
enum qr_status qr_openai_no_memory(struct qr_openai_parse *p, const char *key);

/* openai_fields.c: every field that is a number, a boolean or a list of them. */
enum qr_status qr_openai_read_sampling(struct qr_openai_parse *p);
/* A list of token ids within the vocabulary into malloc'ed *ids. */
enum qr_status qr_openai_read_ids(struct qr_openai_parse *p, const char *key, const json_t *list, size_t most,
                                  int32_t **ids, size_t *n);
/* openai_prompt.c: "prompt", or "messages" with what the chat template takes. */
enum qr_status qr_openai_read_prompts(struct qr_openai_parse *p);
/* openai_format.c: what the answer must look like. */
enum qr_status qr_openai_read_format(struct qr_openai_parse *p);
/* What the answer must be by the schemas of the tools: see enum qr_tool_format. NULL: out of memory. */
json_t *qr_openai_tool_schema(const struct qr_openai_parse *parse);
#endif
