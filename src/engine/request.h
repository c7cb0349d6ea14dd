/* request.h - a request as the engine keeps it: a job with one sequence per choice.
 *
 * Everything that a request will need is allocated when it is made, on the thread that submits it: from then on it
 * cannot run out of memory. After submission the engine thread alone touches it, but for `cancelled`. */
#ifndef QR_ENGINE_REQUEST_H
#define QR_ENGINE_REQUEST_H
#include <stdatomic.h>
#include "engine/events.h"
#include "engine/queue.h"
#include "engine/tally.h"
#include "plan/exec.h"
#include "text/stream.h"

#define QR_MAX_CHOICES  128
#define QR_MAX_STOP     64    /* stop strings of a request */
#define QR_MAX_STOP_LEN 1024  /* bytes of one */
#define QR_MAX_STOP_IDS 1024  /* stop ids */
#define QR_MAX_BIAS     4096  /* logit_bias entries */
#define QR_MAX_PENALTY  100.0 /* repetition_penalty */

enum qr_sequence_state {
    QR_SEQ_NEW,     /* known to no scheduler */
    QR_SEQ_WAITING, /* in the scheduler's queue, holds no block */
    QR_SEQ_RUNNING, /* holds blocks */
    QR_SEQ_LEAVING, /* its last event is out, its blocks wait for steps in flight */
    QR_SEQ_ENDED
};

struct qr_job;

/* One choice. It is n_token known tokens, behind them either n_draft proposed ones, which a step is to judge, or n_ahead
 * that steps in flight pick, whose ids are not known here yet. The first n_computed of all these have their K and V in
 * the cache once all submitted steps have run; the scheduler brings the rest to a step. */
struct qr_sequence {
    struct qr_job *job;
    int choice;
    enum qr_sequence_state state;
    uint64_t order; /* of arrival, over all sequences of the engine */
    int priority;

    int32_t *token; /* [room] prompt, then output, then drafts */
    int n_token, n_prompt, room;
    int n_draft;
    int n_ahead;
    int32_t ahead[QR_MAX_AHEAD + 1]; /* their places, as qr_step.token names them */
    int n_computed;
    int n_flight;     /* steps in flight that it takes part in */
    bool spoiled;     /* a step with it failed: its K and V are not to be kept */
    bool cancelled;   /* ends once no step with it is in flight; brings nothing any more */
    int max_output;   /* tokens that it may generate: max_tokens and what the context leaves */
    int next_logprob; /* the first prompt position whose log-probability no step was asked for; n_prompt: none */

    int32_t *block; /* [blocks for room] the block table */
    int n_block;
    int n_indexed;   /* blocks from the front that the prefix cache knows */
    uint64_t parent; /* serial of the last of them, or the root */
    int n_cached;    /* prompt tokens that came from the cache when it first ran */
    int n_charged;   /* tokens that its key was charged for */

    struct qr_tally tally;
    struct qr_stream *stream;   /* NULL without a tokenizer */
    void *constraint;           /* a clone of job->constraint's; NULL: none */
    uint32_t *mask;             /* [(n_vocab + 31) / 32] for the constraint */
    struct qr_err failure;      /* of the constraint, found while a mask was made */
    struct qr_event_node *done; /* reserved for its last event */
    double started_s, first_s;  /* when it entered a step first; when its first token came; 0: not yet */

    struct qr_sequence *prev, *next; /* the waiting queue */
};

struct qr_job {
    uint64_t id;
    struct qr_sampling params;       /* arrays point to the job's own copies */
    struct qr_constraint constraint; /* .ctx is the caller's: unused */
    uint64_t seed, key, salt;
    bool penalised; /* one of the penalties is on */
    int32_t *end_id;
    int n_end; /* EOS (unless ignored) and stop ids */
    atomic_bool cancelled;
    bool ending;         /* the cancellation was seen */
    atomic_bool counted; /* among those that wait for their first step */
    double submitted_s;
    int n_choice, n_ended; /* choices that are gone, blocks and all */
    int n_added; /* choices that the scheduler knows: the others wait for the first one's prompt, to share it */
    struct qr_sequence *choice;      /* [n_choice] */
    struct qr_flow *flow, *own_flow; /* queue.h */
    struct qr_job *prev, *next;      /* all live jobs */
};

/* What a request is checked against. */
struct qr_request_limits {
    int n_vocab;
    int max_len; /* tokens of a sequence, prompt and output */
    const int32_t *eos;
    int n_eos;
    const struct qr_tokenizer *tok; /* NULL: none */
};

/* QR_INVALID names the field, its value and the limits; QR_LIMIT: "maximum context length". */
enum qr_status qr_request_check(const struct qr_request *request, const struct qr_request_limits *limits,
                                struct qr_err *err);
/* Checks, copies, allocates. The nodes for the last events come from events. */
enum qr_status qr_job_create(const struct qr_request *request, const struct qr_request_limits *limits,
                             struct qr_events *events, struct qr_job **job, struct qr_err *err);
void qr_job_destroy(struct qr_job *job, struct qr_events *events);

static inline int qr_sequence_n_output(const struct qr_sequence *seq)
{
    return seq->n_token - seq->n_prompt;
}

/* Tokens, the proposed and the unread among them. */
static inline int qr_sequence_length(const struct qr_sequence *seq)
{
    return seq->n_token + seq->n_draft + seq->n_ahead;
}

/* All that it may generate is picked, be it unread. */
static inline bool qr_sequence_is_full(const struct qr_sequence *seq)
{
    return qr_sequence_n_output(seq) + seq->n_ahead >= seq->max_output;
}

/* Positions whose logits are wanted are one range [first, last]; first > last: none. */
static inline int qr_sequence_first_row(const struct qr_sequence *seq)
{
    if (seq->next_logprob < seq->n_prompt)
        return seq->next_logprob > 0 ? seq->next_logprob - 1 : 0;
    return seq->n_token + seq->n_ahead - 1;
}

static inline int qr_sequence_last_row(const struct qr_sequence *seq)
{
    return qr_sequence_is_full(seq) ? seq->n_prompt - 2 : qr_sequence_length(seq) - 1;
}

/* How many of the rows that are wanted lie among the n positions from first on; *row: the first of them. */
static inline int qr_sequence_rows(const struct qr_sequence *seq, int first, int n, int *row)
{
    int lo = qr_sequence_first_row(seq), hi = qr_sequence_last_row(seq);
    lo = lo > first ? lo : first;
    hi = hi < first + n ? hi : first + n - 1;
    *row = lo;
    return hi >= lo ? hi - lo + 1 : 0;
}

bool qr_job_ends_with(const struct qr_job *job, int32_t id); /* is id an EOS or a stop id? */
/* A token was generated: appended and counted. */
void qr_sequence_append(struct qr_sequence *seq, int32_t id);
#endif
