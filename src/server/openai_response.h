/* openai_response.h - events of the engine gathered into OpenAI's response objects (not streamed). */
#ifndef QR_SERVER_OPENAI_RESPONSE_H
#define QR_SERVER_OPENAI_RESPONSE_H
#include <jansson.h>
#include "base/buf.h"
#include "server/openai_request.h"

struct qr_openai_choice {
    struct qr_buf text;
    json_t *logprobs; /* as the API shows them; NULL: not asked for */
    size_t offset;    /* code points of the tokens so far, for text_offset */
    enum qr_finish finish;
    /* chat, where the answer is taken apart */
    struct qr_parts parts;
    struct qr_buf thought;
    json_t *calls; /* as the API shows them; NULL: none */
    int n_call;
    bool one_call; /* further ones are dropped */
};

struct qr_openai_echo {           /* of one prompt */
    struct qr_openai_choice part; /* its log-probabilities, to go before those of each choice */
    json_t *prompt_logprobs;      /* as vLLM shows them; NULL: not asked for */
};

struct qr_openai_answer {
    enum qr_openai_api api;
    bool parted;                           /* chat: thoughts and calls are told apart from text */
    const struct qr_openai_prompt *prompt; /* the request's; NULL: nothing is echoed */
    struct qr_openai_echo *echo;           /* [n_choice / n] */
    int echo_top, prompt_top;              /* best tokens that the echo and prompt_logprobs show; -1: not asked for */
    int n;                                 /* choices of a prompt */
    struct qr_openai_choice *choice;       /* [n_choice], prompt by prompt */
    size_t n_choice, n_done;
    int64_t prompt_tokens, cached_tokens, output_tokens;
    struct qr_err error; /* the first choice that failed */
    bool cancelled, no_memory;
};

enum qr_status qr_openai_answer_init(struct qr_openai_answer *answer, const struct qr_openai_request *request,
                                     struct qr_err *err);
void qr_openai_answer_free(struct qr_openai_answer *answer); /* a zeroed struct is fine */
/* An event of the request for prompt i. Lack of memory is kept until the end. */
void qr_openai_answer_take(struct qr_openai_answer *answer, const struct qr_model *model, size_t prompt,
                           const struct qr_event *event);
bool qr_openai_answer_done(const struct qr_openai_answer *answer);
/* QR_OK, or why there is no response: an error of the engine, out of memory, QR_CANCELLED. */
enum qr_status qr_openai_answer_status(const struct qr_openai_answer *answer, struct qr_err *err);
/* A chat.completion or text_completion object; NULL: out of memory. id: "chatcmpl-..." or "cmpl-..." goes before
 * the number; created: seconds since 1970. */
json_t *qr_openai_answer_json(const struct qr_openai_answer *answer, const char *model_name, uint64_t id,
                              int64_t created);

/* openai_calls.c: thoughts and calls of tools. */
bool qr_openai_is_parted(const struct qr_openai_request *request);
/* An id for a call; text [32]. Mistral's templates want nine letters and digits. */
void qr_openai_call_id(enum qr_tool_format tools, char *text);
/* Makes the choices ready to be taken apart. */
void qr_openai_parts_init(struct qr_openai_answer *answer, const struct qr_openai_request *request);
/* The message of a chat choice; takes content. NULL: out of memory. */
json_t *qr_openai_message_json(const struct qr_openai_choice *choice, json_t *content);

/* openai_echo.c: what a request wants to know of its prompt. */
void qr_openai_echo_take(struct qr_openai_answer *answer, const struct qr_model *model, size_t prompt,
                         const struct qr_event *event);
/* The text and the log-probabilities of a choice behind those of its prompt; NULL: out of memory. */
json_t *qr_openai_echo_text(const struct qr_openai_answer *answer, size_t choice);
json_t *qr_openai_echo_logprobs(const struct qr_openai_answer *answer, size_t choice);
void qr_openai_echo_free(struct qr_openai_echo *echo, size_t n);

/* openai_logprobs.c: one token's log-probabilities in the form of the choice's API, appended. False: out of memory. */
bool qr_openai_add_logprobs(struct qr_openai_choice *choice, enum qr_openai_api api, const struct qr_model *model,
                            const struct qr_token_logprob *logprob);
json_t *qr_openai_token_name(const struct qr_model *model, int32_t id); /* the token as log-probabilities show it */
json_t *qr_openai_logprob_json(float logprob);                          /* JSON has no infinity and no NaN */
#endif
