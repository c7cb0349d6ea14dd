/* batch_run.c - keeps the engine fed with a batch's requests and writes down each answer as it ends. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/json.h"
#include "base/rand.h"
#include "cli/batch.h"

enum { POLL_MS = 50, DEFAULT_SEQS = 16 /* qr_engine_options */ };

/* ---------------------------------------------------------------- results */

/* {"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error"}; takes body and error. */
static enum qr_status write_result(struct cli_batch *b, const char *custom_id, int64_t number, int http_status,
                                   json_t *body, json_t *error, struct qr_err *err)
{
    unsigned long long random = (unsigned long long)qr_rand_fresh_seed();
    json_t *line = json_pack("{s:o, s:s?, s:{s:i, s:o, s:o}, s:o}", "id", json_sprintf("batch_req_%016llx", random),
                             "custom_id", custom_id, "response", "status_code", http_status, "request_id",
                             json_sprintf("req_%016llx", random), "body", body, "error", error);
    if (line && !custom_id) /* how a restart knows that this line has its answer */
        json_object_set_new(line, "input_line", json_integer((json_int_t)number));
    enum qr_status status =
        line ? cli_results_append(&b->results, line, err)
             : qr_fail(err, QR_NOMEM, "out of memory for the result of line %lld", (long long)number);
    json_decref(line);
    return status;
}

static enum qr_status write_error(struct cli_batch *b, const char *custom_id, int64_t number,
                                  const struct qr_openai_error *error, struct qr_err *err)
{
    json_t *body = qr_openai_error_json(error);
    const json_t *inner = json_object_get(body, "error");
    json_t *brief = json_pack("{s:s, s:O, s:O}", "code", qr_openai_error_type(error->err.status), "message",
                              json_object_get(inner, "message"), "param", json_object_get(inner, "param"));
    b->n_failed++;
    return write_result(b, custom_id, number, qr_openai_http_status(error->err.status), body, brief, err);
}

static void free_slot(struct cli_batch *b, struct cli_batch_slot *slot)
{
    if (slot->used)
        b->n_used--;
    free(slot->custom_id);
    qr_openai_answer_free(&slot->answer);
    qr_openai_request_free(&slot->request);
    *slot = (struct cli_batch_slot){0};
}

/* The slot's request has ended. A cancelled one is written only when it failed for a reason of its own. */
static enum qr_status finish_slot(struct cli_batch *b, struct cli_batch_slot *slot, struct qr_err *err)
{
    struct qr_openai_error error = {0};
    enum qr_status status;
    if (qr_openai_answer_status(&slot->answer, &error.err) == QR_OK) {
        json_t *body = qr_openai_answer_json(&slot->answer, b->session.name, qr_rand_fresh_seed(), (int64_t)time(NULL));
        status = write_result(b, slot->custom_id, slot->number, 200, body, json_null(), err);
        b->n_answered++;
    } else {
        status = write_error(b, slot->custom_id, slot->number, &error, err);
    }
    free_slot(b, slot);
    return status;
}

/* ---------------------------------------------------------------- requests */

static enum qr_status read_request(struct cli_batch *b, const json_t *line, struct qr_openai_request *request,
                                   struct qr_openai_error *error)
{
    const char *method = json_string_value(json_object_get(line, "method"));
    const char *url = json_string_value(json_object_get(line, "url"));
    enum qr_openai_api api;
    if (!cli_custom_id(line))
        return qr_openai_fail(error, QR_INVALID, "custom_id",
                              "line %lld: \"custom_id\" must be a string, not empty: it names the answer",
                              (long long)b->lines.number);
    if (!method || strcmp(method, "POST") != 0)
        return qr_openai_fail(error, QR_INVALID, "method", "\"method\" must be \"POST\"");
    if (!url || !qr_openai_api_of(url, &api))
        return qr_openai_fail(error, QR_INVALID, "url",
                              "\"url\" must be \"/v1/chat/completions\" or \"/v1/completions\"");
    QR_TRY(qr_openai_request_read(b->session.model, qr_engine_max_len(b->session.engine), api,
                                  json_object_get(line, "body"), request, error));
    if (request->stream) {
        qr_openai_request_free(request);
        return qr_openai_fail(error, QR_UNSUPPORTED, "stream", "\"stream\" must be false in a batch");
    }
    if (!request->sampling.has_seed && b->session.seed >= 0) {
        request->sampling.has_seed = true;
        request->sampling.seed = (uint64_t)b->session.seed;
    }
    return QR_OK;
}

static struct cli_batch_slot *find_free(struct cli_batch *b)
{
    for (size_t i = 0; i < b->n_slot; i++)
        if (!b->slot[i].used)
            return &b->slot[i];
    return NULL; /* cannot be: there are more slots than requests */
}

static enum qr_status fill_slot(struct cli_batch *b, const json_t *line, struct qr_openai_request *request,
                                struct qr_openai_error *error)
{
    struct cli_batch_slot *slot = find_free(b);
    char *id = strdup(cli_custom_id(line));
    if (!slot || !id) {
        free(id);
        qr_openai_request_free(request);
        return qr_openai_fail(error, QR_NOMEM, NULL, "out of memory for a request");
    }
    *slot = (struct cli_batch_slot){.used = true, .custom_id = id, .number = b->lines.number, .request = *request};
    b->n_used++;
    if (qr_openai_answer_init(&slot->answer, request, &error->err) != QR_OK) {
        free_slot(b, slot);
        return error->err.status;
    }
    b->pending = slot;
    return QR_OK;
}

/* Makes the next line that has no answer yet the pending one, or writes down what is wrong with it. */
static enum qr_status take_line(struct cli_batch *b, struct qr_err *err)
{
    bool got;
    json_t *line = NULL;
    struct qr_openai_request request = {0};
    struct qr_openai_error error = {0};
    QR_TRY(cli_lines_next(&b->lines, &got, err));
    if (!got) {
        b->at_end = true;
        return QR_OK;
    }
    enum qr_status status = cli_lines_parse(&b->lines, &line, &error.err), result = QR_OK;
    const char *custom_id = cli_custom_id(line);
    if (cli_results_has(&b->results, custom_id, b->lines.number)) {
        b->n_skipped++;
    } else {
        if (status == QR_OK)
            status = read_request(b, line, &request, &error);
        if (status == QR_OK)
            status = fill_slot(b, line, &request, &error);
        if (status != QR_OK)
            result = write_error(b, custom_id, b->lines.number, &error, err);
    }
    json_decref(line);
    return result;
}

/* Hands the pending request's prompts to the engine, as far as it takes them now. */
static enum qr_status submit_pending(struct cli_batch *b, bool *busy, struct qr_err *err)
{
    struct cli_batch_slot *slot = b->pending;
    struct qr_openai_error error = {0};
    *busy = false;
    while (slot->n_submitted < slot->request.n_prompt) {
        uint64_t id;
        struct qr_request request = qr_openai_engine_request(&slot->request, slot->n_submitted);
        enum qr_status status = qr_engine_submit(b->session.engine, &request, &id, &error.err);
        *busy = status == QR_BUSY;
        if (*busy)
            return QR_OK;
        if (status != QR_OK)
            break;
        if (slot->n_submitted++ == 0)
            slot->first_id = id;
        b->n_sequence += (size_t)request.n;
    }
    b->pending = NULL;
    if (slot->n_submitted == slot->request.n_prompt)
        return QR_OK;
    /* Refused: the answers to the prompts before it belong to nobody now. */
    for (size_t i = 0; i < slot->n_submitted; i++)
        qr_engine_cancel(b->session.engine, slot->first_id + i);
    enum qr_status status = write_error(b, slot->custom_id, slot->number, &error, err);
    free_slot(b, slot);
    return status;
}

static enum qr_status feed(struct cli_batch *b, size_t most, struct qr_err *err)
{
    bool busy = false;
    while (!busy && !cli_interrupted) {
        if (b->pending)
            QR_TRY(submit_pending(b, &busy, err));
        else if (b->at_end || b->n_sequence >= most)
            break;
        else
            QR_TRY(take_line(b, err));
    }
    return QR_OK;
}

/* ---------------------------------------------------------------- the loop */

static enum qr_status take_event(struct cli_batch *b, const struct qr_event *event, struct qr_err *err)
{
    if (event->kind == QR_EVENT_DONE)
        b->n_sequence--;
    for (size_t i = 0; i < b->n_slot; i++) {
        struct cli_batch_slot *slot = &b->slot[i];
        if (!slot->used || event->request < slot->first_id || event->request - slot->first_id >= slot->n_submitted)
            continue;
        qr_openai_answer_take(&slot->answer, b->session.model, (size_t)(event->request - slot->first_id), event);
        return qr_openai_answer_done(&slot->answer) ? finish_slot(b, slot, err) : QR_OK;
    }
    return QR_OK;
}

static enum qr_status loop(struct cli_batch *b, size_t most, struct qr_err *err)
{
    struct cli_progress progress;
    enum qr_status status = QR_OK;
    cli_progress_start(&progress, "answering", "requests");
    while (status == QR_OK && !cli_interrupted) {
        struct qr_event event = {0};
        bool got = false;
        status = feed(b, most, err);
        if (status != QR_OK || (b->at_end && !b->n_used))
            break;
        status = qr_engine_next(b->session.engine, &event, POLL_MS, &got, err);
        if (status == QR_OK && got)
            status = take_event(b, &event, err);
        qr_event_clear(&event);
        cli_progress_update(&progress, (uint64_t)(b->n_skipped + b->n_answered + b->n_failed), (uint64_t)b->n_line);
    }
    cli_progress_end(&progress);
    return status;
}

int cli_batch_run(struct cli_batch *b)
{
    struct qr_err err;
    size_t most = 2 * (size_t)(b->session.max_num_seqs > 0 ? b->session.max_num_seqs : DEFAULT_SEQS);
    b->n_slot = most + 1;
    b->slot = calloc(b->n_slot, sizeof *b->slot);
    if (!b->slot) {
        cli_error("out of memory for %zu requests at once", most);
        return CLI_FAILED;
    }
    enum qr_status status = loop(b, most, &err);
    bool all = b->at_end && !b->n_used;
    for (size_t i = 0; i < b->n_slot; i++)
        free_slot(b, &b->slot[i]);
    free(b->slot);
    b->slot = NULL;
    if (status != QR_OK)
        return cli_fail(&err);
    return all ? CLI_GO_ON : CLI_INTERRUPTED;
}
