/* act.c - the input of a LINEAR in the order of the dot kernels: integer codes with a scale per 32 columns, or fp32. */
#include "cpu/kernel.h"
#include "cpu/isa/kernels.h"
#include "cpu/isa/vec.h"

#define INFINITE_BITS 0x7f800000

/* Index of token t's block 0 in its chunk, and the distance to its next block. */
static size_t act_index(const struct qr_act *act, int t, size_t *step)
{
    int first = t / act->chunk * act->chunk;
    int nt = act->n_token - first < act->chunk ? act->n_token - first : act->chunk;
    *step = (size_t)nt;
    return (size_t)first * (size_t)act->n_block + (size_t)(t - first);
}

/* The largest magnitude is found on the bits: NaN and infinity are larger than every number there, so a block that
 * holds one gets the scale NaN, and the results that read it become NaN. Magnitudes under 1e-30 count as 0. */
static void quantise_block(const float *x, int n, int16_t *code, int8_t *bytes, struct qr_act_meta *meta)
{
    int n_low = n < 16 ? n : 16;
    vf a = n_low == 16 ? v_load(x) : v_load_n(x, n_low);
    vf b = n == 32 ? v_load(x + 16) : n > 16 ? v_load_n(x + 16, n - 16) : v_zero();
    vi magnitude = i_set1(0x7fffffff);
    int32_t bits = i_hmax(i_max(i_and(v_bits(a), magnitude), i_and(v_bits(b), magnitude)));
    float largest, inverse = 0;
    memcpy(&largest, &bits, 4);
    meta->scale = 0;
    if (bits >= INFINITE_BITS)
        meta->scale = __builtin_nanf("");
    else if (largest > 1e-30f) {
        meta->scale = largest * (1.0f / QR_ACT_MOST);
        inverse = (float)QR_ACT_MOST / largest;
    }
    if (inverse == 0)
        a = b = v_zero();
    vi low = v_to_i(v_mul(a, v_set1(inverse))), high = v_to_i(v_mul(b, v_set1(inverse)));
    i_store_codes(code, 0, low);
    i_store_codes(code, 1, high);
#ifdef V_LONE
    if (bytes) {
        i_store_bytes(bytes, 0, low);
        i_store_bytes(bytes, 1, high);
    }
#else
    (void)bytes;
#endif
    meta->sum_high = i_sum(high);
    meta->sum = i_sum(low) + meta->sum_high;
    meta->scale_sum = meta->scale * (float)meta->sum;
}

void QR_NAME(qr_k_act_i16)(const struct qr_act *act, const float *x, size_t stride, int t0, int t1)
{
    for (int t = t0; t < t1; t++, x += stride) {
        size_t step, at = act_index(act, t, &step);
        for (int c = 0; c < act->n_col; c += QR_ACT_BLOCK, at += step) {
            int n = act->n_col - c < QR_ACT_BLOCK ? act->n_col - c : QR_ACT_BLOCK;
            int16_t *code = act->code + at * QR_ACT_BLOCK, *lone = code + act->n_block * QR_ACT_BLOCK;
            quantise_block(x + c, n, code, act->n_token == 1 ? (int8_t *)lone : NULL, &act->meta[at]);
        }
    }
}

void QR_NAME(qr_k_act_f32)(const struct qr_act *act, const float *x, size_t stride, int t0, int t1)
{
    for (int t = t0; t < t1; t++, x += stride) {
        size_t step, at = act_index(act, t, &step);
        for (int c = 0; c < act->n_col; c += QR_ACT_BLOCK, at += step) {
            float *dst = act->f32 + at * QR_ACT_BLOCK;
            int n = act->n_col - c;
            v_store(dst, n >= 16 ? v_load(x + c) : v_load_n(x + c, n));
            v_store(dst + 16, n >= 32 ? v_load(x + c + 16) : n > 16 ? v_load_n(x + c + 16, n - 16) : v_zero());
        }
    }
}
