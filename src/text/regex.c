/* regex.c - compiling and matching with PCRE2, in bounded time.
 *
 * PCRE2's own match limit counts anew at every start position, so that it bounds no search. Instead every item of the
 * pattern calls back, and the distance that the matcher moved since the last call is counted: the sum is what
 * matching cost, the same on every machine, and a pattern that backtracks without end fails at a fixed point. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"
#include <pcre2.h>
#include <stdlib.h>

#define MATCH_LIMIT   100000000u
#define HEAP_LIMIT_KB (256u << 10)

struct qr_regex {
    pcre2_code *code;
    bool jit;
};

static enum qr_status compile(const char *pattern, size_t n, struct qr_regex *regex, struct qr_err *err)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    PCRE2_UCHAR message[128];
    PCRE2_SIZE at;
    int code;

    if (!context)
        return qr_fail(err, QR_NOMEM, "regular expression: out of memory");
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    regex->code = pcre2_compile((PCRE2_SPTR)pattern, n, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_AUTO_CALLOUT,
                                &code, &at, context);
    pcre2_compile_context_free(context);
    if (regex->code) {
        regex->jit = pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE) == 0;
        return QR_OK;
    }
    if (code == PCRE2_ERROR_HEAP_FAILED || code == PCRE2_ERROR_NOMEMORY)
        return qr_fail(err, QR_NOMEM, "regular expression: out of memory");
    pcre2_get_error_message(code, message, sizeof message);
    return qr_fail(err, QR_FORMAT, "regular expression: %s", (char *)message);
}

enum qr_status qr_regex_compile(const char *pattern, size_t n, struct qr_regex **regex, struct qr_err *err)
{
    struct qr_buf text;
    enum qr_status status;

    *regex = calloc(1, sizeof **regex);
    if (!*regex)
        return qr_fail(err, QR_NOMEM, "regular expression: out of memory");
    qr_buf_init(&text, 0);
    status = qr_regex_rewrite(pattern, n, &text, err);
    if (status == QR_OK)
        status = compile(text.data ? text.data : "", text.len, *regex, err);
    qr_buf_free(&text);
    if (status != QR_OK) {
        qr_regex_free(*regex);
        *regex = NULL;
    }
    return status;
}

void qr_regex_free(struct qr_regex *regex)
{
    if (!regex)
        return;
    pcre2_code_free(regex->code);
    free(regex);
}

static int count_work(pcre2_callout_block *block, void *data)
{
    struct qr_regex_state *state = data;
    size_t here = block->current_position;

    state->work += 1 + (here > state->position ? here - state->position : state->position - here);
    state->position = here;
    return state->work > state->room ? PCRE2_ERROR_CALLOUT : 0;
}

enum qr_status qr_regex_state_init(struct qr_regex_state *state, uint64_t room, struct qr_err *err)
{
    pcre2_match_context *context = pcre2_match_context_create(NULL);

    *state = (struct qr_regex_state){.room = room, .match_context = context};
    state->match_data = pcre2_match_data_create(1, NULL);
    if (!context || !state->match_data) {
        qr_regex_state_free(state);
        return qr_fail(err, QR_NOMEM, "regular expression: out of memory");
    }
    pcre2_set_callout(context, count_work, state);
    pcre2_set_match_limit(context, MATCH_LIMIT);
    pcre2_set_heap_limit(context, HEAP_LIMIT_KB);
    return QR_OK;
}

void qr_regex_state_free(struct qr_regex_state *state)
{
    pcre2_match_data_free(state->match_data);
    pcre2_match_context_free(state->match_context);
    *state = (struct qr_regex_state){0};
}

static enum qr_status match_failed(int code, struct qr_err *err)
{
    PCRE2_UCHAR message[128];

    if (code == PCRE2_ERROR_NOMEMORY)
        return qr_fail(err, QR_NOMEM, "regular expression: out of memory");
    if (code == PCRE2_ERROR_CALLOUT || code == PCRE2_ERROR_MATCHLIMIT || code == PCRE2_ERROR_HEAPLIMIT ||
        code == PCRE2_ERROR_DEPTHLIMIT)
        return qr_fail(err, QR_LIMIT,
                       "the tokenizer's regular expression takes more steps than allowed on this text: split the text");
    pcre2_get_error_message(code, message, sizeof message);
    return qr_fail(err, QR_INTERNAL, "the tokenizer's regular expression failed: %s", (char *)message);
}

enum qr_status qr_regex_match(const struct qr_regex *regex, const char *s, size_t n, size_t from,
                              struct qr_regex_state *state, bool *found, size_t *start, size_t *end, struct qr_err *err)
{
    PCRE2_SIZE *ovector = pcre2_get_ovector_pointer(state->match_data);
    int code = PCRE2_ERROR_JIT_STACKLIMIT;

    *found = false;
    state->position = from;
    if (regex->jit)
        code = pcre2_match(regex->code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK, state->match_data,
                           state->match_context);
    if (code == PCRE2_ERROR_JIT_STACKLIMIT)
        code = pcre2_match(regex->code, (PCRE2_SPTR)s, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, state->match_data,
                           state->match_context);
    if (code == PCRE2_ERROR_NOMATCH)
        return QR_OK;
    if (code < 0)
        return match_failed(code, err);
    *found = true;
    *start = ovector[0];
    *end = ovector[1];
    return QR_OK;
}
