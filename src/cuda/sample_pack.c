/* sample_pack.c - see sample.h. */
#include "cuda/sample.h"
#include <stdlib.h>
#include <string.h>

#define WORD sizeof(int32_t)

static bool masks_ends(const struct qr_pick *pick)
{
    return pick->n_end > 0 && pick->n_output < pick->params->min_tokens;
}

static size_t mask_words(int n_vocab)
{
    return ((size_t)n_vocab + 31) / 32;
}

static size_t list_words(const struct qr_pick *pick, int n_vocab)
{
    if (!pick->samples)
        return 0;
    size_t n = 2 * pick->params->n_logit_bias;
    if (pick->count)
        n += 2 * (size_t)pick->n_count + (size_t)pick->n_pending;
    if (masks_ends(pick))
        n += (size_t)pick->n_end;
    return n + (pick->mask ? mask_words(n_vocab) : 0);
}

size_t qr_sample_packed_bytes(const struct qr_pick *pick, int n_row, int n_vocab)
{
    size_t bytes = sizeof(struct qr_sample_head) + (size_t)n_row * sizeof(struct qr_sample_row);
    for (int r = 0; r < n_row; r++)
        bytes += list_words(&pick[r], n_vocab) * WORD;
    return bytes;
}

size_t qr_sample_row_bound(int n_vocab, int max_count, int max_bias, int max_end)
{
    return sizeof(struct qr_sample_head) + sizeof(struct qr_sample_row) +
           (2 * (size_t)max_count + QR_SAMPLE_MAX_PENDING + 2 * (size_t)max_bias + (size_t)max_end +
            mask_words(n_vocab)) *
               WORD;
}

/* Where the next list goes. */
struct writer {
    int32_t *word; /* the buffer */
    size_t at;     /* words in use */
};

static int32_t put(struct writer *w, const void *from, size_t words)
{
    size_t at = w->at;
    if (words > 0)
        memcpy(w->word + at, from, words * WORD);
    w->at += words;
    return (int32_t)at;
}

static int by_id(const void *a, const void *b)
{
    const struct qr_logit_bias *x = *(const struct qr_logit_bias *const *)a,
                               *y = *(const struct qr_logit_bias *const *)b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* In ascending order of ids, so that one thread adds all of an id in the order in which they were given. */
static void put_bias(struct writer *w, const struct qr_sampling *p, struct qr_sample_row *row)
{
    size_t n = p->n_logit_bias;
    bool ascending = true;
    for (size_t i = 1; i < n; i++)
        ascending = ascending && p->logit_bias[i - 1].id <= p->logit_bias[i].id;
    row->n_bias = (int32_t)n;
    row->bias = put(w, p->logit_bias, 2 * n);
    if (ascending)
        return;
    const struct qr_logit_bias *order[256], **list = n <= 256 ? order : malloc(n * sizeof(*list));
    struct qr_logit_bias *to = (struct qr_logit_bias *)(w->word + row->bias);
    if (!list) { /* no memory: a plain insertion sort in place keeps the order of equals too */
        for (size_t i = 1; i < n; i++)
            for (size_t k = i; k > 0 && to[k - 1].id > to[k].id; k--) {
                struct qr_logit_bias swap = to[k];
                to[k] = to[k - 1];
                to[k - 1] = swap;
            }
        return;
    }
    for (size_t i = 0; i < n; i++)
        list[i] = &p->logit_bias[i];
    qsort(list, n, sizeof(*list), by_id);
    for (size_t i = 0; i < n; i++)
        to[i] = *list[i];
    if (list != order)
        free(list);
}

static void put_row(struct writer *w, const struct qr_pick *pick, int n_vocab, struct qr_sample_row *row)
{
    *row = (struct qr_sample_row){.samples = pick->samples, .id = pick->id, .n_top = pick->n_top};
    if (!pick->samples)
        return;
    const struct qr_sampling *p = pick->params;
    row->temperature = p->temperature;
    row->top_k = p->top_k > 0 && p->top_k < n_vocab ? p->top_k : 0;
    row->top_p = p->top_p;
    row->min_p = p->min_p;
    row->repetition = p->repetition_penalty;
    row->presence = p->presence_penalty;
    row->frequency = p->frequency_penalty;
    row->seed[0] = (uint32_t)pick->seed;
    row->seed[1] = (uint32_t)(pick->seed >> 32);
    row->choice = pick->choice;
    row->position = pick->position;
    if (p->n_logit_bias > 0)
        put_bias(w, p, row);
    if (pick->count) {
        row->n_count = pick->n_count;
        row->count = put(w, pick->count, 2 * (size_t)pick->n_count);
        row->n_pending = pick->n_pending;
        row->pending = put(w, pick->pending, (size_t)pick->n_pending);
    }
    if (masks_ends(pick)) {
        row->n_end = pick->n_end;
        row->end = put(w, pick->end_id, (size_t)pick->n_end);
    }
    if (pick->mask)
        row->mask = put(w, pick->mask, mask_words(n_vocab));
    row->adjusts = row->n_bias || row->n_count || row->n_pending || row->n_end || row->mask;
}

int qr_sample_pack(const struct qr_pick *pick, int n_row, int n_vocab, int place, void *to, size_t bytes, size_t *used)
{
    size_t need = sizeof(struct qr_sample_head);
    int n = 0;
    for (; n < n_row; n++) {
        size_t more = sizeof(struct qr_sample_row) + list_words(&pick[n], n_vocab) * WORD;
        if (pick[n].n_pending > QR_SAMPLE_MAX_PENDING || more > bytes - need || need > bytes)
            break;
        need += more;
    }
    struct qr_sample_head *head = to;
    *used = need;
    if (n == 0)
        return 0;
    *head = (struct qr_sample_head){.n_row = n, .place = place};
    struct writer w = {to, (sizeof(*head) + (size_t)n * sizeof(head->row[0])) / WORD};
    for (int r = 0; r < n; r++)
        put_row(&w, &pick[r], n_vocab, &head->row[r]);
    return n;
}

void qr_sample_unpack(const struct qr_sampled *from, int n_row, struct qr_picked *to)
{
    for (int r = 0; r < n_row; r++) {
        struct qr_picked *p = &to[r];
        p->id = from[r].id;
        p->status = (enum qr_status)from[r].status;
        p->logprob = (struct qr_token_logprob){
            .id = from[r].id, .logprob = from[r].logprob, .rank = from[r].rank, .n_top = from[r].n_top, .top = p->top};
        memcpy(p->top, from[r].top, sizeof(p->top));
    }
}
