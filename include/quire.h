/* quire.h - the public C API of quire: load a model, ask it, read events.
 *
 * Threads: a model is immutable once opened and may be shared by any number of threads. An engine runs
 * one thread of its own; qr_engine_submit, qr_engine_cancel and qr_engine_next may be called from any
 * thread. Strings passed in are copied. What an event points to belongs to the caller of qr_engine_next,
 * who frees it with qr_event_clear before the struct is used again.
 *
 * Errors: every fallible function returns enum qr_status and fills a struct qr_err that the caller
 * owns (it may be NULL). Nothing here prints, aborts or exits. */
#ifndef QUIRE_H
#define QUIRE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum qr_status {
    QR_OK = 0,
    QR_NOMEM,       /* an allocation failed */
    QR_IO,          /* the system refused a file or a socket */
    QR_FORMAT,      /* a file or a message breaks its format */
    QR_UNSUPPORTED, /* well formed, but quire cannot do it */
    QR_INVALID,     /* an argument or field is out of its range */
    QR_LIMIT,       /* a size, budget or capacity is exceeded */
    QR_NOTFOUND,    /* no such file, model, tensor */
    QR_BUSY,        /* the queue is full: try again later */
    QR_CANCELLED,   /* the caller asked to stop */
    QR_INTERNAL     /* a bug in quire */
};

/* One sentence that names the value and the limit, and says what to do. */
struct qr_err {
    enum qr_status status;
    char message[512];
};

const char *qr_status_name(enum qr_status status); /* "invalid", "out of memory", ... */
const char *qr_version(void);                      /* "0.1.0 (commit abcdef1)" */

/* ------------------------------------------------------------------ model */

struct qr_model; /* configuration, weights, tokenizer, chat template: read only */

struct qr_model_options {
    const char *chat_template; /* file with a Jinja template; NULL: the model's own */
    const char *quantization;  /* "fp8": weights of 16 bits become 8 at load; "none" or NULL: they stay */
    uint64_t seed;             /* of random weights, for dummy:SHAPE */
    int n_thread;              /* threads for loading; 0: all CPUs */
    bool tokenizer_only;       /* load no weights (tokenize, detokenize, template) */
    bool config_only;          /* read headers only: for qr_model_info */
    /* Not NULL: a model that an engine with these options could not run on its GPU is refused before weights are read. */
    const struct qr_engine_options *engine;
    /* Called every few hundred kilobytes of loading, in the thread that opens; return false to stop (QR_CANCELLED). */
    bool (*progress)(void *ctx, uint64_t bytes_done, uint64_t bytes_total);
    void *progress_ctx;
};

/* path: a directory in Hugging Face layout, a .gguf file, a repo id found in the Hugging Face cache,
 * or dummy:SHAPE. options may be NULL. On error *model is NULL. */
enum qr_status qr_model_open(const char *path, const struct qr_model_options *options, struct qr_model **model,
                             struct qr_err *err);
void qr_model_close(struct qr_model *model); /* after every engine on it is destroyed */

int qr_model_vocab_size(const struct qr_model *model);
int qr_model_max_len(const struct qr_model *model); /* context length that it was trained for, tokens */
const char *qr_model_name(const struct qr_model *model);

/* Text to ids. *ids is malloc'ed (free with qr_free), *n_ids its length.
 * parse_special: text such as <|im_end|> becomes its one id. add_special: put the tokens in front (and
 * behind) that the tokenizer's own configuration adds. */
enum qr_status qr_tokenize(const struct qr_model *model, const char *text, size_t n_text, bool parse_special,
                           bool add_special, int32_t **ids, size_t *n_ids, struct qr_err *err);
/* Ids to text, malloc'ed, NUL-terminated; bytes that form no UTF-8 become U+FFFD. */
enum qr_status qr_detokenize(const struct qr_model *model, const int32_t *ids, size_t n_ids, bool skip_special,
                             char **text, size_t *n_text, struct qr_err *err);
/* request_json: an object with "messages" and, if wanted, "tools", "add_generation_prompt" (default
 * true) and further variables of the template. The prompt is malloc'ed. */
enum qr_status qr_chat_prompt(const struct qr_model *model, const char *request_json, char **prompt, size_t *n_prompt,
                              struct qr_err *err);
void qr_free(void *p);

/* ----------------------------------------------------------------- engine */

struct qr_engine; /* an executor, its KV pages, the scheduler, one thread */

struct qr_engine_options {
    const char *device; /* "cpu", "cuda" or "auto"; NULL: auto */
    const char *isa;    /* of the CPU's kernels: "auto", "avx512", "avx2" or "c"; NULL: auto, the best that runs here */
    const char *kv_cache_dtype; /* "auto", "bf16", "f16", "f32" on a CPU, "fp8" on a GPU */
    int n_thread;               /* CPU threads; 0: all CPUs */
    int max_model_len;          /* tokens a sequence may reach; 0: the model's, or what memory allows */
    int max_num_seqs;           /* sequences in one step; 0: 16 */
    int max_num_batched_tokens; /* tokens in one step; 0: 512 */
    int64_t kv_cache_tokens; /* that the KV cache holds, over all sequences; 0: one sequence of max_model_len, on a GPU
                                 * what the model leaves of its share */
    double gpu_memory_utilization; /* the share of a GPU's memory that the engine takes; 0: 0.9 */
    int64_t fuse_mask;             /* bits of plan/fuse.h; -1: the default set */
    bool no_prefix_cache;          /* beginnings that requests have in common are computed again for each */
    /* Called while weights go to a GPU, in the thread that creates; return false to stop (QR_CANCELLED). May be NULL. */
    bool (*progress)(void *ctx, uint64_t bytes_done, uint64_t bytes_total);
    void *progress_ctx;
};

enum qr_status qr_engine_create(struct qr_model *model, const struct qr_engine_options *options,
                                struct qr_engine **engine, struct qr_err *err);
/* Cancels what runs, ends the thread, frees everything. */
void qr_engine_destroy(struct qr_engine *engine);
int qr_engine_max_len(const struct qr_engine *engine); /* tokens that one sequence may reach here */

struct qr_logit_bias {
    int32_t id;
    float bias; /* added to the logit, -100 .. 100 */
};

/* Fill with qr_sampling_defaults first, then change what you need. */
struct qr_sampling {
    float temperature;        /* 0: greedy; else 0 .. 100 */
    float top_p;              /* 0 < p <= 1; 1: off */
    float min_p;              /* 0: off; of the best token's probability */
    int top_k;                /* 0 or -1: off */
    float repetition_penalty; /* 1: off; over prompt and output (Keskar et al. 2019) */
    float presence_penalty;   /* 0: off; over the output */
    float frequency_penalty;  /* 0: off; over the output */
    uint64_t seed;            /* the same seed, the same text */
    bool has_seed;            /* else a fresh one is drawn */
    int max_tokens;           /* tokens to generate; -1: up to the context's end; 0: none */
    int min_tokens;           /* no end before that many */
    bool ignore_eos;
    int logprobs;             /* -1: none; else the chosen token's and that many best ones, 0 .. 20 */
    int prompt_logprobs;      /* the same for the prompt's tokens */
    int prompt_logprobs_from; /* the first prompt token whose log-probability is wanted; 0: all */
    const struct qr_logit_bias *logit_bias;
    size_t n_logit_bias;
    const char *const *stop; /* strings that end the text; they are not sent */
    size_t n_stop;
    const int32_t *stop_token_ids;
    size_t n_stop_token_ids;
};

/* Neutral values, overlaid with the model's generation_config where it has one. model may be NULL. */
void qr_sampling_defaults(const struct qr_model *model, struct qr_sampling *sampling);

/* What a text may be, said token by token: a grammar, a list of words. clone is called in qr_engine_submit, the others
 * by the engine's thread, between two steps: they must be quick. */
struct qr_constraint {
    void *ctx;
    /* bits [(n_vocab + 31) / 32], all 0: set bit v % 32 of word v / 32 for each id v that may come next, an end of text
     * among them where the text may end. No bit set, or an error: the request ends with an error. */
    enum qr_status (*mask)(void *ctx, uint32_t *bits, struct qr_err *err);
    enum qr_status (*accept)(void *ctx, int32_t id, struct qr_err *err); /* id was generated */
    void *(*clone)(const void *ctx); /* a state of its own for a choice; NULL: out of memory */
    void (*destroy)(void *ctx);      /* of a clone */
};

enum qr_form {
    QR_FORM_JSON_SCHEMA, /* text[0]: a JSON Schema */
    QR_FORM_JSON_OBJECT, /* any JSON object; no text */
    QR_FORM_REGEX,       /* text[0]: a pattern that the whole answer matches */
    QR_FORM_CHOICE       /* one of text [n_text] */
};

/* A constraint that keeps an answer to a form; requests made with it may outlive it. Compiling takes from microseconds to
 * a second. Errors: QR_UNSUPPORTED names what cannot be honoured, QR_INVALID what is no form, QR_LIMIT. Any thread. */
enum qr_status qr_constraint_create(struct qr_model *model, enum qr_form form, const char *const *text, size_t n_text,
                                    struct qr_constraint *constraint, struct qr_err *err);
void qr_constraint_free(struct qr_constraint *constraint); /* of qr_constraint_create; a zeroed struct is fine */

struct qr_request {
    const int32_t *prompt; /* ids */
    size_t n_prompt;
    struct qr_sampling sampling;
    int n;               /* choices; 0 or 1: one */
    int priority;        /* lower goes first */
    bool keep_special;   /* text of special tokens is sent too */
    uint64_t key;        /* whose request it is: keys are served in turn */
    uint64_t cache_salt; /* under 2^63; beginnings are shared among requests with the same salt only */
    const struct qr_constraint *constraint; /* cloned for each choice; NULL: none */
};

/* Puts a request into the engine's queue. *id tells its events. Errors: QR_INVALID (a field out of
 * range, an id outside the vocabulary), QR_LIMIT (the prompt is too long: "maximum context length"),
 * QR_BUSY (queue full). */
enum qr_status qr_engine_submit(struct qr_engine *engine, const struct qr_request *request, uint64_t *id,
                                struct qr_err *err);
/* Asks to end a request; its last event comes with QR_FINISH_CANCELLED. Unknown ids are ignored. */
void qr_engine_cancel(struct qr_engine *engine, uint64_t id);

enum qr_finish {
    QR_FINISH_NONE = 0,
    QR_FINISH_STOP,   /* EOS, a stop id or a stop string */
    QR_FINISH_LENGTH, /* max_tokens or the context's end */
    QR_FINISH_CANCELLED,
    QR_FINISH_ERROR
};

enum qr_event_kind {
    QR_EVENT_PROMPT_LOGPROBS, /* prompt_logprobs, in order, in slices; before the first token */
    QR_EVENT_TOKEN,           /* one generated token and the text that became certain with it */
    QR_EVENT_DONE             /* a choice ended; the last event of that choice */
};

struct qr_top {
    int32_t id;
    float logprob; /* natural logarithm */
};

struct qr_token_logprob {
    int32_t id;
    float logprob; /* NaN for the first prompt token, which nothing predicts */
    int32_t rank;  /* 0: the most probable */
    int n_top;
    struct qr_top *top; /* [n_top], best first */
};

struct qr_usage {
    int prompt_tokens, cached_tokens, output_tokens;
    double queue_s, prefill_s, decode_s; /* wall seconds: waiting; to the first token; from it to the end */
};

struct qr_event {
    uint64_t request;
    int choice;
    enum qr_event_kind kind;
    int32_t id; /* TOKEN: the token; -1 when only held-back text is flushed */
    char *text; /* TOKEN: whole code points, NUL-terminated, may be empty */
    size_t n_text;
    struct qr_token_logprob *logprobs; /* TOKEN: 1 when asked for; PROMPT_LOGPROBS: a slice */
    size_t n_logprobs;
    enum qr_finish finish; /* DONE */
    struct qr_err error;   /* DONE with QR_FINISH_ERROR */
    struct qr_usage usage; /* DONE */
};

/* Waits up to timeout_ms (-1: for ever) for the next event of any request. *got is false on time-out. */
enum qr_status qr_engine_next(struct qr_engine *engine, struct qr_event *event, int timeout_ms, bool *got,
                              struct qr_err *err);
void qr_event_clear(struct qr_event *event);

#ifdef __cplusplus
}
#endif
#endif
