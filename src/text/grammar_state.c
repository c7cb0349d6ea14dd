/* grammar_state.c - where a sequence is in its grammar. */
#include <stdlib.h>
#include <string.h>
#include "text/grammar_internal.h"
#include "text/grammar_state.h"

void qr_grammar_state_reset(struct qr_grammar_state *state)
{
    state->ended = false;
    state->n_thread = 1;
    state->n_frame = QR_GR_FRAMES;
    state->thread[0] = (struct qr_gr_thread){state->g->rule[0].start, 0, QR_GR_ROOT};
    memset(state->frame, 0, QR_GR_FRAMES * sizeof *state->frame);
}

enum qr_status qr_grammar_state_create(struct qr_grammar *grammar, struct qr_grammar_state **state, struct qr_err *err)
{
    *state = calloc(1, sizeof **state);
    if (!*state)
        return qr_fail(err, QR_NOMEM, "out of memory for the state of a grammar");
    (*state)->g = grammar;
    qr_grammar_state_reset(*state);
    return QR_OK;
}

enum qr_status qr_grammar_state_clone(const struct qr_grammar_state *from, struct qr_grammar_state **state,
                                      struct qr_err *err)
{
    QR_TRY(qr_grammar_state_create(from->g, state, err));
    memcpy(*state, from, sizeof **state);
    return QR_OK;
}

void qr_grammar_state_destroy(struct qr_grammar_state *state)
{
    free(state);
}

/* Keeps the frames that threads stand on, and closes the gaps. */
static void compact(struct qr_grammar_state *s)
{
    uint32_t n = QR_GR_FRAMES;

    memset(s->moved, 0, s->n_frame * sizeof *s->moved);
    for (uint32_t i = 0; i < s->n_thread; i++)
        s->moved[s->thread[i].frame] = 1;
    for (uint32_t i = s->n_frame; i-- > QR_GR_FRAMES;)
        if (s->moved[i])
            s->moved[s->frame[i].parent] = 1;
    s->moved[QR_GR_ROOT] = QR_GR_ROOT;
    for (uint32_t i = QR_GR_FRAMES; i < s->n_frame; i++) {
        if (!s->moved[i])
            continue;
        s->frame[n] = s->frame[i];
        s->frame[n].parent = s->moved[s->frame[i].parent];
        s->moved[i] = n++;
    }
    for (uint32_t i = 0; i < s->n_thread; i++)
        s->thread[i].frame = s->moved[s->thread[i].frame];
    s->n_frame = n;
}

enum qr_status qr_grammar_accept_bytes(struct qr_grammar_state *state, const char *s, size_t n, struct qr_err *err)
{
    struct qr_gr_space space = {.g = state->g,
                                .frame = state->frame,
                                .n_frame = state->n_frame,
                                .room_frame = QR_GR_POOL,
                                .room_thread = QR_GR_THREADS};
    const struct qr_gr_thread *from = state->thread;
    uint32_t n_from = state->n_thread;

    if (state->ended)
        return qr_fail(err, QR_INVALID, "the text has ended already");
    for (size_t i = 0; i < n; i++) {
        space.thread = state->step[i % 2];
        space.n_thread = space.set = 0;
        space.set_frame = space.n_frame;
        for (uint32_t t = 0; t < n_from; t++)
            qr_gr_step(&space, from[t], (uint8_t)s[i]);
        if (space.full)
            return qr_fail(err, QR_LIMIT, "the grammar is too ambiguous here: more than %d readings side by side",
                           QR_GR_THREADS);
        if (!space.n_thread)
            return qr_fail(err, QR_INVALID, "the grammar does not allow byte 0x%02X here", (uint8_t)s[i]);
        from = space.thread;
        n_from = space.n_thread;
    }
    if (n > 0)
        memcpy(state->thread, from, n_from * sizeof *from);
    state->n_thread = n_from;
    state->n_frame = space.n_frame;
    compact(state);
    return QR_OK;
}

enum qr_status qr_grammar_accept(struct qr_grammar_state *state, int32_t id, struct qr_err *err)
{
    const struct qr_grammar_vocab *v = state->g->vocab;

    for (size_t i = 0; i < v->n_end; i++)
        if (v->end[i] == id) {
            if (!qr_grammar_may_end(state))
                return qr_fail(err, QR_INVALID, "the grammar does not allow the text to end here");
            state->ended = true;
            return QR_OK;
        }
    if (id < 0 || (uint32_t)id >= v->n_bits || !v->spelled[id])
        return qr_fail(err, QR_INVALID, "token %d cannot stand in a text that a grammar rules", id);
    return qr_grammar_accept_bytes(state, v->bytes + v->at[id], v->at[id + 1] - v->at[id], err);
}

static struct qr_gr_space looking(const struct qr_grammar_state *state)
{
    return (struct qr_gr_space){.g = state->g, .frame = (struct qr_gr_frame *)(uintptr_t)state->frame};
}

bool qr_grammar_may_end(const struct qr_grammar_state *state)
{
    const struct qr_gr_space space = looking(state);

    for (uint32_t i = 0; i < state->n_thread; i++)
        if (qr_gr_returns(&space, state->thread[i].state, state->thread[i].frame, QR_GR_ROOT))
            return true;
    return false;
}

bool qr_grammar_is_finished(const struct qr_grammar_state *state)
{
    if (state->ended)
        return true;
    for (uint32_t i = 0; i < state->n_thread; i++) {
        struct qr_gr_thread t = state->thread[i];

        for (;;) {
            const struct qr_gr_state *s = &state->g->state[t.state];

            if (s->n_edge || s->n_call)
                return false;
            if (t.frame == QR_GR_ROOT)
                break;
            t = (struct qr_gr_thread){state->frame[t.frame].next, 0, state->frame[t.frame].parent};
        }
    }
    return true;
}
