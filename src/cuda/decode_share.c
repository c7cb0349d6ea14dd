/* decode_share.c - who does what in the persistent kernel: whole strips, handed out one by one to whichever block has the fewest bytes
 * of a layer so far, so that all read equally many, and each stage's as evenly as its number allows. */
#include "cuda/decode_host.h"
#include <string.h>

#define MAX_BLOCKS 1024

static int ceil_div(int a, int b)
{
    return (a + b - 1) / b;
}

static double strip_bytes(const struct qr_decode_args *a, int stage)
{
    const struct qr_decode_matrix *m = &a->matrix[stage];
    return (a->packed ? m->strip : 512.0 * m->k16) * (stage == QR_DECODE_UP ? 2 : 1);
}

/* Pieces of a unit of the ring. */
static int pieces_of(const struct qr_decode_args *a, int stage)
{
    const struct qr_decode_matrix *m = &a->matrix[stage];
    if (a->packed) /* a piece has quads of one chain */
        return ceil_div(m->chain / 4, m->quads) * (stage == QR_DECODE_UP ? m->cuts : 1);
    return ceil_div(stage == QR_DECODE_UP ? m->k16 : m->chain, QR_DECODE_PIECE);
}

static int units_of_strip(const struct qr_decode_args *a, int stage)
{
    return stage == QR_DECODE_UP ? 2 : stage == QR_DECODE_HEAD ? 1 : a->matrix[stage].cuts;
}

/* Strips of a block at most: no stage is less even than its number makes it, as all wait for the block that has the most. */
static int most_strips(const struct qr_decode_args *a, int stage)
{
    return ceil_div(a->matrix[stage].strips, a->n_block);
}

/* n things of `bytes` each to blocks that have `have`, from least to most a block; contiguous ranges at `at`, the first share's. */
static void hand_out(int n, int n_block, int least, int most, double bytes, double *have, int32_t (*at)[2])
{
    int count[MAX_BLOCKS], last = 0;
    for (int i = 0; i < n_block; i++) {
        count[i] = least;
        have[i] += least * bytes;
    }
    for (int left = n - least * n_block; left > 0; left--) {
        int best = -1;
        for (int i = 0; i < n_block; i++)
            if (count[i] < most && (best < 0 || have[i] < have[best]))
                best = i;
        count[best]++;
        have[best] += bytes;
    }
    for (int i = 0; i < n_block; i++) {
        int32_t(*range)[2] = (int32_t(*)[2])(void *)((char *)at + (size_t)i * sizeof(struct qr_decode_share));
        (*range)[0] = last;
        (*range)[1] = last += count[i];
    }
}

/* Where contexts are long: every block's first unit, then every block's second one and so on, so that the cuts of a KV head end at about
 * the same time, and those of the first ones are merged while blocks are at the last. */
static void take_turns(int n_block, struct qr_decode_share *share)
{
    int16_t unit = 0;
    for (int turn = 0; turn < QR_DECODE_CUT_UNITS; turn++)
        for (int i = 0; i < n_block; i++)
            if (share[i].attention[1] - share[i].attention[0] > turn)
                share[i].unit[turn] = unit++;
}

static bool has_room(const struct qr_decode_args *a, const struct qr_decode_share *s)
{
    int cuts = s->attention[1] - s->attention[0], pieces = cuts * QR_CU_CUT / QR_CU_PAGE;
    for (int stage = 0; stage < QR_DECODE_HEAD; stage++) {
        int units = (s->strip[stage][1] - s->strip[stage][0]) * units_of_strip(a, stage);
        pieces += units * pieces_of(a, stage);
    }
    return pieces <= QR_DECODE_LIST && cuts <= QR_DECODE_CUT_UNITS;
}

bool qr_decode_share_out(const struct qr_decode_args *a, int units, double cut_bytes, struct qr_decode_share *share)
{
    static const int order[] = {QR_DECODE_DOWN, QR_DECODE_O,
                                QR_DECODE_UP}; /* large strips first, then what evens out */
    const int n = a->n_block;
    double have[MAX_BLOCKS] = {0}, none[MAX_BLOCKS] = {0};
    memset(share, 0, (size_t)n * sizeof *share);
    hand_out(a->matrix[QR_DECODE_QKV].strips, n, 0, most_strips(a, QR_DECODE_QKV), strip_bytes(a, QR_DECODE_QKV), have,
             &share[0].strip[QR_DECODE_QKV]);
    hand_out(units, n, 0, ceil_div(units, n), cut_bytes, have, &share[0].attention);
    take_turns(n, share);
    for (int i = 0; i < 3; i++) {
        int stage = order[i], least = stage == QR_DECODE_UP; /* each block has some of gate and up: docs/KERNELS.md */
        hand_out(a->matrix[stage].strips, n, least, most_strips(a, stage), strip_bytes(a, stage), have,
                 &share[0].strip[stage]);
    }
    hand_out(a->matrix[QR_DECODE_HEAD].strips, n, 0, most_strips(a, QR_DECODE_HEAD), 1, none,
             &share[0].strip[QR_DECODE_HEAD]);
    for (int i = 0; i < n; i++)
        if (!has_room(a, &share[i]))
            return false;
    return true;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

void qr_decode_size(struct qr_decode_args *a, int n_sm)
{
    a->n_block = n_sm < MAX_BLOCKS ? n_sm : MAX_BLOCKS;
    if (a->matrix[QR_DECODE_UP].strips < a->n_block)
        a->n_block = a->matrix[QR_DECODE_UP].strips;
    a->stage_k = a->max_units = a->max_strips = 0;
    for (int stage = 0; stage < QR_DECODE_HEAD; stage++) {
        int strips = most_strips(a, stage), units = strips * units_of_strip(a, stage);
        int side = units < QR_DECODE_MATH ? units : QR_DECODE_MATH;
        a->max_units = larger(a->max_units, units);
        if (stage == QR_DECODE_O || stage == QR_DECODE_DOWN) {
            a->max_strips = larger(a->max_strips, strips);
            a->stage_k = larger(a->stage_k, side * a->matrix[stage].chain * 16);
        }
    }
}
