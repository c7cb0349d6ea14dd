/* events.c - see events.h. */
#include "engine/events.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_SPARE 4096 /* nodes kept for reuse */
#define TEXT_ROOM 64   /* bytes that a node's text has from the start */

struct qr_events {
    pthread_mutex_t mutex;
    pthread_cond_t arrived; /* a node, or the end */
    pthread_cond_t left;    /* a reader went away */
    struct qr_event_chain ready;
    struct qr_event_node *spare;
    int n_spare, n_reader;
    bool closed;
};

void qr_event_chain_add(struct qr_event_chain *chain, struct qr_event_node *node)
{
    node->next = NULL;
    if (chain->last)
        chain->last->next = node;
    else
        chain->first = node;
    chain->last = node;
}

enum qr_status qr_events_create(struct qr_events **events, struct qr_err *err)
{
    struct qr_events *q = calloc(1, sizeof(*q));
    *events = q;
    if (!q)
        return qr_fail(err, QR_NOMEM, "out of memory for the event queue");
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&q->mutex, NULL);
    pthread_cond_init(&q->arrived, &attr);
    pthread_cond_init(&q->left, &attr);
    pthread_condattr_destroy(&attr);
    return QR_OK;
}

static void free_node(struct qr_event_node *node)
{
    qr_buf_free(&node->text);
    free(node->slice);
    free(node);
}

static void free_chain(struct qr_event_node *node)
{
    while (node) {
        struct qr_event_node *next = node->next;
        free_node(node);
        node = next;
    }
}

void qr_events_destroy(struct qr_events *events)
{
    if (!events)
        return;
    pthread_mutex_lock(&events->mutex);
    events->closed = true;
    pthread_cond_broadcast(&events->arrived);
    while (events->n_reader > 0)
        pthread_cond_wait(&events->left, &events->mutex);
    pthread_mutex_unlock(&events->mutex);
    free_chain(events->ready.first);
    free_chain(events->spare);
    pthread_cond_destroy(&events->arrived);
    pthread_cond_destroy(&events->left);
    pthread_mutex_destroy(&events->mutex);
    free(events);
}

static struct qr_event_node *blank(struct qr_event_node *node)
{
    struct qr_buf text = node->text;
    qr_buf_clear(&text);
    *node = (struct qr_event_node){.text = text};
    return node;
}

static struct qr_event_node *fresh(void)
{
    struct qr_event_node *node = calloc(1, sizeof(*node));
    if (!node)
        return NULL;
    qr_buf_init(&node->text, 0);
    if (!qr_buf_reserve(&node->text, TEXT_ROOM)) {
        free(node);
        return NULL;
    }
    return node;
}

struct qr_event_node *qr_events_take(struct qr_events *events)
{
    pthread_mutex_lock(&events->mutex);
    struct qr_event_node *node = events->spare;
    if (node) {
        events->spare = node->next;
        events->n_spare--;
    }
    pthread_mutex_unlock(&events->mutex);
    return node ? blank(node) : fresh();
}

struct qr_event_node *qr_events_take_from(struct qr_events *events, struct qr_event_node **stock)
{
    if (!*stock) {
        pthread_mutex_lock(&events->mutex);
        *stock = events->spare;
        events->spare = NULL;
        events->n_spare = 0;
        pthread_mutex_unlock(&events->mutex);
    }
    struct qr_event_node *node = *stock;
    if (!node)
        return fresh();
    *stock = node->next;
    return blank(node);
}

void qr_events_give_stock(struct qr_events *events, struct qr_event_node **stock)
{
    while (*stock) {
        struct qr_event_node *next = (*stock)->next;
        qr_events_give_back(events, *stock);
        *stock = next;
    }
}

void qr_events_give_back(struct qr_events *events, struct qr_event_node *node)
{
    if (!node)
        return;
    free(node->slice);
    node->slice = NULL;
    pthread_mutex_lock(&events->mutex);
    bool keep = events->n_spare < MAX_SPARE && node->text.room < 4096;
    if (keep) {
        node->next = events->spare;
        events->spare = node;
        events->n_spare++;
    }
    pthread_mutex_unlock(&events->mutex);
    if (!keep)
        free_node(node);
}

void qr_events_publish(struct qr_events *events, struct qr_event_chain *chain)
{
    if (!chain->first)
        return;
    pthread_mutex_lock(&events->mutex);
    if (events->ready.last)
        events->ready.last->next = chain->first;
    else
        events->ready.first = chain->first;
    events->ready.last = chain->last;
    pthread_cond_broadcast(&events->arrived);
    pthread_mutex_unlock(&events->mutex);
    *chain = (struct qr_event_chain){0};
}

struct qr_token_logprob *qr_logprobs_alloc(size_t n, int n_top)
{
    size_t tops = n * (size_t)n_top;
    struct qr_token_logprob *all = calloc(1, n * sizeof(*all) + tops * sizeof(struct qr_top));
    for (size_t i = 0; all && i < n; i++)
        all[i].top = (struct qr_top *)(all + n) + i * (size_t)n_top;
    return all;
}

/* Makes the reader's own copy. The prompt's slices are handed over, not copied. */
static bool copy_out(struct qr_event_node *node, struct qr_event *event)
{
    struct qr_event copy = node->event;
    copy.text = NULL;
    copy.logprobs = NULL;
    copy.n_text = 0;
    if (copy.kind == QR_EVENT_TOKEN) {
        copy.n_text = node->text.len;
        copy.text = malloc(copy.n_text + 1);
        if (!copy.text)
            return false;
        memcpy(copy.text, node->text.data, copy.n_text);
        copy.text[copy.n_text] = '\0';
        if (copy.n_logprobs > 0) {
            copy.logprobs = qr_logprobs_alloc(1, node->logprob.n_top);
            if (!copy.logprobs) {
                free(copy.text);
                return false;
            }
            struct qr_top *top = copy.logprobs->top;
            *copy.logprobs = node->logprob;
            copy.logprobs->top = top;
            memcpy(top, node->top, (size_t)node->logprob.n_top * sizeof(*top));
        }
    } else if (copy.kind == QR_EVENT_PROMPT_LOGPROBS) {
        copy.logprobs = node->slice;
        node->slice = NULL;
    }
    *event = copy;
    return true;
}

/* Under the mutex. False on time-out; true with the queue closed or not empty. */
static bool wait_ready(struct qr_events *q, int timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (!q->ready.first && !q->closed) {
        if (timeout_ms < 0)
            pthread_cond_wait(&q->arrived, &q->mutex);
        else if (pthread_cond_timedwait(&q->arrived, &q->mutex, &until) != 0)
            return q->ready.first || q->closed;
    }
    return true;
}

enum qr_status qr_events_next(struct qr_events *events, struct qr_event *event, int timeout_ms, bool *got,
                              struct qr_err *err)
{
    *got = false;
    *event = (struct qr_event){0};
    pthread_mutex_lock(&events->mutex);
    events->n_reader++;
    bool ready = wait_ready(events, timeout_ms), closed = events->closed;
    struct qr_event_node *node = ready && !closed ? events->ready.first : NULL;
    if (node) {
        events->ready.first = node->next;
        if (!events->ready.first)
            events->ready.last = NULL;
    }
    pthread_mutex_unlock(&events->mutex);
    if (node && copy_out(node, event)) {
        qr_events_give_back(events, node);
        *got = true;
        node = NULL;
    }
    pthread_mutex_lock(&events->mutex);
    if (node) { /* no memory for the copy: the event stays first in the queue */
        node->next = events->ready.first;
        events->ready.first = node;
        if (!events->ready.last)
            events->ready.last = node;
    }
    events->n_reader--;
    if (events->closed && events->n_reader == 0)
        pthread_cond_signal(&events->left);
    pthread_mutex_unlock(&events->mutex);
    if (node)
        return qr_fail(err, QR_NOMEM, "out of memory for an event: free some and ask again");
    return closed ? qr_fail(err, QR_CANCELLED, "the engine is being destroyed") : QR_OK;
}

void qr_event_clear(struct qr_event *event)
{
    if (!event)
        return;
    free(event->text);
    free(event->logprobs);
    *event = (struct qr_event){0};
}
