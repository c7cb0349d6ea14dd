/* openai_request.h - the JSON body of /v1/chat/completions and /v1/completions into requests for the engine, every field
 * checked. A field that is not supported is refused when it would change the answer; else it is listed as ignored. */
#ifndef QR_SERVER_OPENAI_REQUEST_H
#define QR_SERVER_OPENAI_REQUEST_H
#include <jansson.h>
#include "server/openai_error.h"
#include "server/parts.h"

#define QR_OPENAI_MAX_CHOICES 256 /* prompts of a request times n */
#define QR_OPENAI_MAX_IGNORED 16
#define QR_OPENAI_MAX_VALUES  (1 << 21) /* JSON values of a body: each takes some 40 bytes once it is parsed */

enum qr_openai_api { QR_OPENAI_COMPLETIONS, QR_OPENAI_CHAT };

/* "/v1/chat/completions" -> QR_OPENAI_CHAT; false for another path. */
bool qr_openai_api_of(const char *path, enum qr_openai_api *api);

struct qr_openai_prompt {
    int32_t *ids; /* [n] malloc'ed */
    size_t n;
    char *text; /* [n_text] malloc'ed; NULL unless it is echoed */
    size_t n_text;
};

struct qr_openai_request {
    enum qr_openai_api api;
    json_t *body;                /* held: strings below point into it */
    struct qr_sampling sampling; /* its arrays are this struct's */
    int n, priority;
    uint64_t cache_salt; /* 0: none; beginnings are shared among requests with the same one only */
    bool stream, include_usage;
    bool echo;           /* completions: the prompt goes before the answer, with its logprobs if there are any */
    int prompt_logprobs; /* best tokens of each prompt position, in a field of that name; -1: not asked for */
    struct qr_openai_prompt *prompt; /* [n_prompt] */
    size_t n_prompt;
    const char *ignored[QR_OPENAI_MAX_IGNORED]; /* fields that have no effect here */
    size_t n_ignored;
    /* chat: how the answer is taken apart */
    enum qr_tool_format tools; /* QR_TOOLS_NONE: no tools, or not to be called */
    bool thinks, in_thought;   /* the model writes think tags; its prompt ends with an open one */
    const char *named;         /* QR_TOOLS_NAMED: the function that is to be called */
    bool one_call;             /* parallel_tool_calls is false */
    bool constrained;          /* what the answer must look like */
    struct qr_constraint constraint;
    /* memory of sampling's arrays */
    struct qr_logit_bias *bias;
    const char **stop;
    int32_t *stop_ids;
};

/* Reads body for this model, in an engine whose sequences reach max_len tokens. Without a field the model's
 * generation_config or OpenAI's default holds. On error *request is empty and error tells the field. What it accepts the
 * engine accepts too, unless its queue is full or memory runs out. */
enum qr_status qr_openai_request_read(struct qr_model *model, int max_len, enum qr_openai_api api, json_t *body,
                                      struct qr_openai_request *request, struct qr_openai_error *error);
void qr_openai_request_free(struct qr_openai_request *request); /* a zeroed struct is fine */
/* Gives back what nobody needs once the engine has the request: long prompts take much memory. */
void qr_openai_request_slim(struct qr_openai_request *request);
/* The engine's request for prompt i; it points into *request. */
struct qr_request qr_openai_engine_request(const struct qr_openai_request *request, size_t i);
#endif
