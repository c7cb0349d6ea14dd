/* step.c - a step's attention cut into items. */
#include "cpu/exec.h"

/* ------------------------------------------------------- attention's items */

/* Query heads that a tile holds for each token: over all attention ops, the most. */
static int heads_in_tile(const struct qr_cpu_exec *exec)
{
    int heads = exec->sizes.max_heads / (int)exec->plan->n_kv_head;
    return heads < 1 ? 1 : heads > QR_ATTN_ROWS ? QR_ATTN_ROWS : heads;
}

static void add_item(struct qr_cpu_exec *exec, struct qr_attn_item item)
{
    exec->item[exec->n_item++] = item;
}

/* The last tile first: it sees the most keys, and work that is handed out should end with small portions. */
static void add_tiles(struct qr_cpu_exec *exec, int sequence, int begin, int end)
{
    int tile = QR_ATTN_ROWS / heads_in_tile(exec);
    for (int t = begin + (end - begin - 1) / tile * tile; t >= begin && end > begin; t -= tile) {
        int n = end - t < tile ? end - t : tile;
        add_item(exec, (struct qr_attn_item){.sequence = sequence, .t0 = t, .n_token = n, .segment = -1});
    }
}

/* Every token of the sequence alone, cut into segments; *used counts (token, segment) pairs. */
static void add_segments(struct qr_cpu_exec *exec, int sequence, int begin, int end, int *used)
{
    for (int t = begin; t < end; t++) {
        int n = exec->step->position[t] / QR_SEGMENT + 1;
        for (int s = 0; s < n; s++)
            add_item(exec,
                     (struct qr_attn_item){
                         .sequence = sequence, .t0 = t, .n_token = 1, .segment = s, .partial = *used, .n_partial = n});
        *used += n;
    }
}

/* Few tiles for many workers (decoding): sequences that bring few tokens are cut into segments, too, as long as the
 * area for partial results has room. Which way a token goes does not change its result. */
void qr_cpu_plan_attention(struct qr_cpu_exec *exec)
{
    const struct qr_step *step = exec->step;
    int tile = QR_ATTN_ROWS / heads_in_tile(exec), n_tile = 0, used = 0;
    for (int s = 0; s < step->n_seq; s++)
        n_tile += (step->seq_begin[s + 1] - step->seq_begin[s] + tile - 1) / tile;
    bool few = exec->n_thread > 1 && n_tile * (int)exec->plan->n_kv_head < 4 * exec->n_thread;
    exec->n_item = 0;
    exec->split = false;
    for (int s = 0; s < step->n_seq; s++) {
        int begin = step->seq_begin[s], end = step->seq_begin[s + 1];
        int pairs = end > begin ? step->position[end - 1] / QR_SEGMENT + 1 : 0;
        if (few && end - begin <= 2 && pairs > 1 && used + pairs * (end - begin) <= exec->sizes.max_partial) {
            add_segments(exec, s, begin, end, &used);
            exec->split = true;
        } else {
            add_tiles(exec, s, begin, end);
        }
    }
}
