/* openai_stream.h - events of the engine as the chunks of a streamed answer: "data: {...}" lines of server-sent events. */
#ifndef QR_SERVER_OPENAI_STREAM_H
#define QR_SERVER_OPENAI_STREAM_H
#include "server/openai_response.h"

struct qr_openai_stream {
    const struct qr_model *model;
    const struct qr_openai_request *request;
    char *head; /* "data: {"id": ..., "model": ...," of every chunk */
    size_t n_head;
    bool *spoke;                     /* [n_choice] the role was sent */
    struct qr_openai_choice *choice; /* [n_choice] log-probabilities and their offsets */
    size_t n_choice;
    /* while an event is dealt with */
    struct qr_buf *out;
    size_t now;     /* choice */
    char *logprobs; /* malloc'ed JSON text that goes with the next chunk; NULL: none */
};

/* request must outlive it. */
enum qr_status qr_openai_stream_init(struct qr_openai_stream *stream, const struct qr_model *model,
                                     const struct qr_openai_request *request, const char *model_name, uint64_t id,
                                     int64_t created, struct qr_err *err);
void qr_openai_stream_free(struct qr_openai_stream *stream); /* a zeroed struct is fine */
/* Appends the chunks that this event of prompt i makes. False: out of memory. */
bool qr_openai_stream_event(struct qr_openai_stream *stream, size_t prompt, const struct qr_event *event,
                            struct qr_buf *out);
/* The chunk with the usage, its choices empty. */
bool qr_openai_stream_usage(struct qr_openai_stream *stream, const struct qr_openai_answer *answer, struct qr_buf *out);
/* An error event. error->message: any text. */
bool qr_openai_stream_error(const struct qr_openai_error *error, struct qr_buf *out);
bool qr_openai_stream_done(struct qr_buf *out); /* "data: [DONE]" */

/* Appends text as a JSON string with its quotes; text is UTF-8. */
bool qr_json_quote(struct qr_buf *out, const char *text, size_t n);
#endif
