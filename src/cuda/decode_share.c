/* decode_share.c - who does what in the persistent kernel: every stage's units in contiguous parts, so that all blocks read
 * equally many bytes of a layer together, and each stage is as even as that lets it be. */
#include "cuda/decode_host.h"
#include <string.h>

#define MAX_BLOCKS 1024

static double unit_bytes(const struct qr_decode_args *a, int stage)
{
    const struct qr_decode_matrix *m = &a->matrix[stage];
    return 512.0 * (stage == QR_DECODE_UP || stage == QR_DECODE_HEAD ? m->k16 : m->chain);
}

static int unit_count(const struct qr_decode_args *a, int stage)
{
    const struct qr_decode_matrix *m = &a->matrix[stage];
    return stage == QR_DECODE_UP ? 2 * m->strips : stage == QR_DECODE_HEAD ? m->strips : m->strips * m->cuts;
}

/* n units in parts as large as the weights; weight NULL: equal ones. at: the stage's pair in the first share. */
static void spread(int n, int n_block, const double *weight, int32_t (*at)[2], size_t stride)
{
    double total = 0, before = 0;
    for (int i = 0; i < n_block; i++)
        total += weight ? weight[i] : 1;
    int last = 0;
    for (int i = 0; i < n_block; i++) {
        before += weight ? weight[i] : 1;
        int end = i + 1 == n_block ? n : (int)(before / total * n + 0.5);
        int32_t(*pair)[2] = (int32_t(*)[2])(void *)((char *)at + (size_t)i * stride);
        (*pair)[0] = last;
        (*pair)[1] = end > last ? end : last;
        last = (*pair)[1];
    }
}

static bool has_room(const struct qr_decode_args *a, const struct qr_decode_share *s)
{
    int units = 0, pieces = (s->attention[1] - s->attention[0]) * 2 * QR_CU_CUT / QR_CU_PAGE;
    for (int stage = 0; stage < QR_DECODE_HEAD; stage++) {
        const struct qr_decode_matrix *m = &a->matrix[stage];
        const int32_t *u = s->unit[stage];
        int tiles = stage == QR_DECODE_UP ? m->k16 : m->chain;
        units += u[1] - u[0];
        pieces += (u[1] - u[0]) * ((tiles + 7) / 8);
        if ((stage == QR_DECODE_O || stage == QR_DECODE_DOWN) && u[1] > u[0] &&
            ((u[1] - 1) / m->strips - u[0] / m->strips + 1) * m->chain * 16 > a->stage_k)
            return false;
    }
    return pieces <= QR_DECODE_LIST && units <= QR_DECODE_UNITS &&
           s->attention[1] - s->attention[0] <= QR_DECODE_CUT_UNITS &&
           s->unit[QR_DECODE_DOWN][1] > s->unit[QR_DECODE_DOWN][0];
}

static bool all_have_room(const struct qr_decode_args *a, const struct qr_decode_share *share)
{
    for (int i = 0; i < a->n_block; i++)
        if (!has_room(a, &share[i]))
            return false;
    return true;
}

bool qr_decode_share_out(const struct qr_decode_args *a, int units, double cut_bytes, struct qr_decode_share *share)
{
    const size_t stride = sizeof *share;
    const int n = a->n_block;
    double weight[MAX_BLOCKS], all = units * cut_bytes;
    memset(share, 0, (size_t)n * sizeof *share);
    for (int stage = 0; stage < QR_DECODE_HEAD; stage++)
        all += unit_count(a, stage) * unit_bytes(a, stage);
    /* Few units of attention go to blocks far from one another. */
    for (int i = 0; i < n; i++) {
        share[i].attention[0] = (int32_t)((int64_t)units * i / n);
        share[i].attention[1] = (int32_t)((int64_t)units * (i + 1) / n);
    }
    spread(unit_count(a, QR_DECODE_HEAD), n, NULL, &share[0].unit[QR_DECODE_HEAD], stride);
    for (int even = 0; even < 2; even++) { /* by bytes, and where that cannot be, evenly */
        for (int stage = 0; stage < QR_DECODE_HEAD; stage++) {
            const bool balances = !even && (stage == QR_DECODE_UP || stage == QR_DECODE_DOWN);
            const double later =
                stage == QR_DECODE_UP ? unit_count(a, QR_DECODE_DOWN) * unit_bytes(a, QR_DECODE_DOWN) / n : 0;
            for (int i = 0; i < n && balances; i++) {
                double have = (share[i].attention[1] - share[i].attention[0]) * cut_bytes;
                for (int s = 0; s < stage; s++)
                    have += (share[i].unit[s][1] - share[i].unit[s][0]) * unit_bytes(a, s);
                weight[i] = all / n - have - later;
                weight[i] = weight[i] > unit_bytes(a, stage) ? weight[i] : unit_bytes(a, stage);
            }
            spread(unit_count(a, stage), n, balances ? weight : NULL, &share[0].unit[stage], stride);
        }
        if (all_have_room(a, share))
            return true;
    }
    return false;
}

void qr_decode_size(struct qr_decode_args *a, int n_sm)
{
    const int stages[] = {QR_DECODE_O, QR_DECODE_DOWN};
    a->n_block = n_sm < MAX_BLOCKS ? n_sm : MAX_BLOCKS;
    if (unit_count(a, QR_DECODE_DOWN) < a->n_block) /* each block has to have some: docs/KERNELS.md */
        a->n_block = unit_count(a, QR_DECODE_DOWN);
    a->stage_k = 0;
    for (int i = 0; i < 2; i++) {
        const struct qr_decode_matrix *m = &a->matrix[stages[i]];
        int each = 2 * ((unit_count(a, stages[i]) + a->n_block - 1) / a->n_block);
        int cuts = (each + m->strips - 1) / m->strips + 1, k;
        cuts = cuts < m->cuts ? cuts : m->cuts;
        k = cuts * m->chain * 16;
        a->stage_k = k > a->stage_k ? k : a->stage_k;
    }
}
