/* grammar_step.c - threads of (state, stack) move over bytes. */
#include "text/grammar_internal.h"

uint32_t qr_gr_target(const struct qr_grammar *g, const struct qr_gr_state *s, uint8_t b)
{
    const struct qr_gr_edge *edge = g->edge + s->edge;
    uint32_t lo = 0, hi = s->n_edge;

    if (s->dense)
        return g->row[s->dense - 1][b];
    if (hi <= 4) {
        for (; lo < hi; lo++)
            if (b <= edge[lo].hi)
                return b >= edge[lo].lo ? edge[lo].to : QR_GR_NONE;
        return QR_GR_NONE;
    }
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;

        if (b > edge[mid].hi)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < s->n_edge && b >= edge[lo].lo ? edge[lo].to : QR_GR_NONE;
}

/* The frame (next, parent): the same one when this byte made it already. */
static uint32_t push(struct qr_gr_space *space, uint32_t next, uint32_t parent)
{
    uint32_t n = space->n_frame;

    for (uint32_t i = space->set_frame; i < n; i++)
        if (space->frame[i].next == next && space->frame[i].parent == parent)
            return i;
    if (n == space->room_frame) {
        space->full = true;
        return QR_GR_ROOT;
    }
    space->frame[n] = (struct qr_gr_frame){next, parent, space->frame[parent].depth + 1};
    space->n_frame++;
    return n;
}

/* Is there room on the stack to get from here to the end? */
static bool fits(struct qr_gr_space *space, uint32_t state, uint32_t frame)
{
    uint32_t need = space->frame[frame].depth + space->g->state[state].height;

    if (space->base + need > space->g->max_depth)
        return false;
    if (need > space->rise)
        space->rise = need;
    return true;
}

static void add(struct qr_gr_space *space, uint32_t state, uint32_t count, uint32_t frame)
{
    struct qr_gr_thread *t = space->thread;

    for (uint32_t i = space->set; i < space->n_thread; i++)
        if (t[i].state == state && t[i].frame == frame && t[i].count == count)
            return;
    if (space->n_thread == space->room_thread || space->n_thread - space->set == QR_GR_THREADS) {
        space->full = true;
        return;
    }
    t[space->n_thread++] = (struct qr_gr_thread){state, count, frame};
}

void qr_gr_step(struct qr_gr_space *space, struct qr_gr_thread t, uint8_t b)
{
    const struct qr_grammar *g = space->g;

    for (;;) { /* each round returns from one frame */
        const struct qr_gr_state *s = &g->state[t.state];
        uint32_t to = qr_gr_target(g, s, b);

        space->work++;
        if (s->between) {
            const struct qr_gr_limit *limit = &g->limit[s->limit];

            if (b == '"' ? t.count < limit->min : t.count >= limit->max)
                to = QR_GR_NONE;
        }
        if (to && fits(space, to, t.frame)) {
            uint32_t count = to == QR_GR_FIN ? 0 : t.count;

            if (g->state[to].between && count < QR_RE_MANY)
                count++;
            add(space, to, count, t.frame);
        }
        for (uint32_t i = 0; i < s->n_call && !space->full; i++) {
            const struct qr_gr_call *call = &g->call[s->call + i];
            const struct qr_gr_rule *rule = &g->rule[call->rule];
            uint32_t frame = t.frame;

            if (!(rule->first[b / 32] >> b % 32 & 1) || !fits(space, call->next, frame))
                continue;
            if (call->next != QR_GR_FIN) {
                if (space->base + space->frame[frame].depth + 1 > g->max_depth)
                    continue;
                frame = push(space, call->next, frame);
            }
            if (!space->full && fits(space, rule->start, frame))
                qr_gr_step(space, (struct qr_gr_thread){rule->start, 0, frame}, b);
        }
        if (!s->accept || t.frame < QR_GR_FRAMES || space->full)
            return;
        t = (struct qr_gr_thread){space->frame[t.frame].next, 0, space->frame[t.frame].parent};
    }
}

bool qr_gr_returns(const struct qr_gr_space *space, uint32_t state, uint32_t frame, uint32_t bottom)
{
    while (space->g->state[state].accept) {
        if (frame == bottom)
            return true;
        if (frame < QR_GR_FRAMES)
            return false;
        state = space->frame[frame].next;
        frame = space->frame[frame].parent;
    }
    return false;
}
