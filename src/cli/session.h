/* session.h - what most commands share: the options that choose a model and an engine, opening both with a progress bar,
 * the sampling options, and one request from start to end. */
#ifndef QR_CLI_SESSION_H
#define QR_CLI_SESSION_H
#include "cli/args.h"
#include "quire.h"

#define CLI_NAME 256

struct cli_session {
    /* options, filled by cli_parse through the tables below */
    const char *device, *isa, *kv_cache_dtype, *fuse, *chat_template, *quantization;
    int64_t n_thread, max_model_len, max_num_seqs, max_num_batched_tokens, kv_cache_tokens, seed;
    double gpu_memory_utilization; /* 0: not given */
    bool verbose, prefix_cache, no_prefix_cache;
    /* sampling options; NAN and INT64_MIN: not given, the model's default */
    double temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
    int64_t top_k, max_tokens, min_tokens, logprobs;
    struct cli_list stop, stop_token_ids;
    bool ignore_eos;
    const char *json_schema, *regex; /* the form of answers */
    bool json_object;
    struct cli_list choice;
    /* what cli_open made */
    struct qr_model *model;
    struct qr_engine *engine;
    struct qr_constraint constraint; /* by cli_sampling; .ctx NULL: none */
    double load_s;
    const char *path;
    char name[CLI_NAME]; /* cli_model_name of path */
    char *resolved;      /* what path stands for when it is a repository; else NULL */
    int32_t stop_ids[CLI_LIST_MAX];
    /* tables */
    struct cli_option model_options[12], engine_options[13], sampling_options[20];
};

/* Sets the defaults and makes the tables point into this struct; it must not move afterwards. */
void cli_session_init(struct cli_session *session);

/* The path of QUIRE_MODEL, else of the file that `make run` fetched. False after saying what to do. */
bool cli_default_model(char *path, size_t room);

/* What answers and figures call a model: the last part of the path or repository that was given for it. */
void cli_model_name(const char *path, char name[CLI_NAME]);

enum cli_need { CLI_NEED_TOKENIZER, CLI_NEED_HEADERS, CLI_NEED_WEIGHTS, CLI_NEED_ENGINE };
/* Opens the model (path NULL: the default one) and, if needed, an engine. Prints the error; CLI_GO_ON when it went well. */
int cli_open(const struct cli_command *command, struct cli_session *session, const char *path, enum cli_need need);
void cli_close(struct cli_session *session);

/* Engine options as the command line says; for the ledger too. CLI_GO_ON or CLI_USAGE. */
int cli_engine_options(const struct cli_command *command, const struct cli_session *session,
                       struct qr_engine_options *options);
/* The model's defaults overlaid with the command line, and the constraint. CLI_GO_ON, CLI_USAGE or CLI_FAILED. */
int cli_sampling(const struct cli_command *command, struct cli_session *session, struct qr_sampling *sampling);
/* form.c: the constraint that the options ask for. */
int cli_form(const struct cli_command *command, struct cli_session *session);

/* Prints "error: message", returns CLI_FAILED. */
int cli_fail(const struct qr_err *err);
#endif
