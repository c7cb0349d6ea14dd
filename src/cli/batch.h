/* batch.h - the requests of a batch on their way through the engine. */
#ifndef QR_CLI_BATCH_H
#define QR_CLI_BATCH_H
#include "cli/batch_file.h"
#include "cli/session.h"
#include "cli/ui.h"
#include "server/openai_response.h"

/* A line whose request is in the engine, or about to be. */
struct cli_batch_slot {
    bool used;
    char *custom_id; /* malloc'ed */
    int64_t number;  /* of its line */
    struct qr_openai_request request;
    struct qr_openai_answer answer;
    uint64_t first_id;  /* of the engine; prompt i has first_id + i */
    size_t n_submitted; /* prompts */
};

struct cli_batch {
    struct cli_session session;
    struct cli_lines lines;
    struct cli_results results;
    struct cli_batch_slot *slot; /* [n_slot] */
    size_t n_slot, n_used;
    struct cli_batch_slot *pending; /* the engine has not taken all its prompts yet */
    size_t n_sequence;              /* choices in the engine */
    bool at_end;                    /* of the input */
    int64_t n_line, n_skipped, n_answered, n_failed;
};

/* From the first line to the last result. Prints errors; CLI_GO_ON when all is done, else an exit code. */
int cli_batch_run(struct cli_batch *batch);
#endif
