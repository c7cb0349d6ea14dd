/* generate.h - one request from its ids to an answer, streamed to standard output if wanted. */
#ifndef QR_CLI_GENERATE_H
#define QR_CLI_GENERATE_H
#include <jansson.h>
#include "base/buf.h"
#include "cli/session.h"

struct cli_answer {
    struct qr_buf text;
    int32_t *ids; /* malloc'ed */
    size_t n_ids, room;
    json_t *logprobs; /* array, when asked for */
    enum qr_finish finish;
    struct qr_usage usage;
};

/* Ctrl-C cancels the request: finish is then QR_FINISH_CANCELLED and cli_interrupted stays set. Prints errors. */
int cli_generate(struct cli_session *session, const int32_t *prompt, size_t n_prompt,
                 const struct qr_sampling *sampling, bool stream, struct cli_answer *answer);
void cli_answer_free(struct cli_answer *answer);
/* "41 tokens in 0.31 s (132 tok/s), prompt of 37 tokens in 0.05 s (740 tok/s)" */
void cli_print_timings(const struct cli_answer *answer);
const char *cli_finish_name(enum qr_finish finish);
#endif
