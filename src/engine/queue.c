/* queue.c - see queue.h. */
#include "engine/queue.h"
#include <stdlib.h>
#include "engine/request.h"

#define OUTPUT_WEIGHT 2 /* a generated token's step costs more than a prompt's share of one */

bool qr_sequence_before(const struct qr_sequence *a, const struct qr_sequence *b)
{
    return a->priority != b->priority ? a->priority < b->priority : a->order < b->order;
}

static void free_flows(struct qr_flow *flow)
{
    while (flow) {
        struct qr_flow *next = flow->next;
        free(flow);
        flow = next;
    }
}

void qr_queue_free(struct qr_queue *queue)
{
    free_flows(queue->flow);
    free_flows(queue->spare);
    *queue = (struct qr_queue){0};
}

void qr_queue_join(struct qr_queue *queue, struct qr_job *job)
{
    struct qr_flow *flow = queue->flow, *own = job->own_flow;
    uint64_t least = UINT64_MAX;
    job->own_flow = NULL;
    for (; flow && flow->key != job->key; flow = flow->next)
        least = flow->served < least ? flow->served : least;
    if (flow) {
        own->next = queue->spare;
        queue->spare = own;
    } else {
        *own = (struct qr_flow){.key = job->key, .served = queue->flow ? least : 0, .next = queue->flow};
        queue->flow = flow = own;
    }
    flow->n_job++;
    job->flow = flow;
}

void qr_queue_leave(struct qr_queue *queue, struct qr_job *job)
{
    struct qr_flow *flow = job->flow, **link = &queue->flow;
    job->flow = NULL;
    if (--flow->n_job > 0) { /* then at least one flow's memory is spare */
        job->own_flow = queue->spare;
        queue->spare = queue->spare->next;
        return;
    }
    while (*link != flow)
        link = &(*link)->next;
    *link = flow->next;
    job->own_flow = flow;
}

/* From the end, since most arrive in order; those that were preempted are older than all that wait. */
void qr_queue_add(struct qr_queue *queue, struct qr_sequence *seq)
{
    struct qr_flow *flow = seq->job->flow;
    struct qr_sequence *before = flow->last;
    if (flow->first && qr_sequence_before(seq, flow->first))
        before = NULL;
    while (before && qr_sequence_before(seq, before))
        before = before->prev;
    seq->prev = before;
    seq->next = before ? before->next : flow->first;
    *(seq->next ? &seq->next->prev : &flow->last) = seq;
    *(before ? &before->next : &flow->first) = seq;
    queue->n_waiting++;
}

void qr_queue_remove(struct qr_queue *queue, struct qr_sequence *seq)
{
    struct qr_flow *flow = seq->job->flow;
    *(seq->prev ? &seq->prev->next : &flow->first) = seq->next;
    *(seq->next ? &seq->next->prev : &flow->last) = seq->prev;
    seq->prev = seq->next = NULL;
    queue->n_waiting--;
}

/* Does a's first sequence go before b's? Among keys served equally the one goes that has less at work. */
static bool flow_before(const struct qr_flow *a, const struct qr_flow *b)
{
    if (a->first->priority != b->first->priority)
        return a->first->priority < b->first->priority;
    if (a->served != b->served)
        return a->served < b->served;
    if (a->n_running != b->n_running)
        return a->n_running < b->n_running;
    return a->first->order < b->first->order;
}

struct qr_sequence *qr_queue_first(const struct qr_queue *queue)
{
    struct qr_flow *best = NULL;
    for (struct qr_flow *flow = queue->flow; flow; flow = flow->next)
        if (flow->first && (!best || flow_before(flow, best)))
            best = flow;
    return best ? best->first : NULL;
}

void qr_queue_charge(struct qr_sequence *seq, int n_prompt, int n_output)
{
    seq->job->flow->served += (uint64_t)n_prompt + OUTPUT_WEIGHT * (uint64_t)n_output;
}
