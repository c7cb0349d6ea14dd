/* rope.c - the angle of each pair of a head: inv_freq[i] = theta^(-2i/dim) where dim numbers turn, stretched as the
 * config says.
 *
 * Sources: Su et al., RoFormer, 2021 (default); Chen et al., Extending Context Window via Positional Interpolation,
 * 2023 (linear); the Llama 3.1 model card (llama3); Peng et al., YaRN, 2023; Ding et al., LongRoPE, 2024; transformers'
 * modeling_rope_utils.py for what the fields of a config mean; GGUF's tensors rope_freqs and rope_factors_*, by which the
 * frequencies are divided. Computed in double, rounded once. */
#include "arch/record.h"
#include <math.h>

#define TWO_PI 6.283185307179586476925

/* Llama 3: wavelengths over the trained context divided by low_freq_factor are stretched by factor, those under context /
 * high_freq_factor are kept, and between the two a line leads from one to the other. */
static double llama3(const struct qr_rope *rope, double freq)
{
    double turns = rope->original_max_len / (TWO_PI / freq); /* of this pair over the trained context */
    if (turns < rope->low_freq_factor)
        return freq / rope->factor;
    if (turns > rope->high_freq_factor)
        return freq;
    double smooth = (turns - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
    return (1 - smooth) * freq / rope->factor + smooth * freq;
}

/* YaRN, equation 17: the pair, as a real number, that turns so many times over the trained context. */
static double pair_of_turns(const struct qr_rope *rope, int32_t dim, double turns)
{
    return dim * log(rope->original_max_len / (turns * TWO_PI)) / (2 * log(rope->theta));
}

/* Pairs before beta_fast's are kept, those behind beta_slow's stretched by factor, a line between. */
static double yarn(const struct qr_rope *rope, int32_t dim, int i, double freq)
{
    double low = pair_of_turns(rope, dim, rope->beta_fast), high = pair_of_turns(rope, dim, rope->beta_slow);
    if (!rope->no_truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, dim - 1);
    if (low == high)
        high += 0.001;
    double stretched = fmin(fmax((i - low) / (high - low), 0), 1);
    return stretched * freq / rope->factor + (1 - stretched) * freq;
}

/* YaRN, equation 22, with DeepSeek's weight. */
static double magnitude(double factor, double weight)
{
    return factor <= 1 ? 1 : 0.1 * weight * log(factor) + 1;
}

float qr_rope_scale(const struct qr_rope *rope, int32_t max_len)
{
    if (rope->kind != QR_ROPE_YARN && rope->kind != QR_ROPE_LONGROPE)
        return 1;
    if (rope->attention_factor != 0)
        return (float)rope->attention_factor;
    if (rope->kind == QR_ROPE_YARN && rope->mscale != 0 && rope->mscale_all_dim != 0)
        return (float)(magnitude(rope->factor, rope->mscale) / magnitude(rope->factor, rope->mscale_all_dim));
    if (rope->kind == QR_ROPE_YARN)
        return (float)magnitude(rope->factor, 1);
    double factor = rope->factor != 0 ? rope->factor : (double)max_len / rope->original_max_len; /* LongRoPE */
    return factor <= 1 ? 1 : (float)sqrt(1 + log(factor) / log(rope->original_max_len));
}

enum qr_status qr_rope_inv_freq(const struct qr_rope *rope, int32_t dim, int32_t context,
                                const struct qr_vector *factors, float *inv_freq, struct qr_err *err)
{
    int n = dim / 2;
    bool divided = factors && factors->data != NULL;
    if (divided && factors->n != (uint32_t)n)
        return qr_fail(err, QR_FORMAT, "%s has %u factors; heads of which %d numbers turn need %d", factors->name,
                       factors->n, dim, n);
    const float *stretch = context > rope->original_max_len ? rope->long_factor : rope->short_factor;
    for (int i = 0; i < n; i++) {
        double freq = pow(rope->theta, -2.0 * i / dim);
        if (rope->kind == QR_ROPE_LINEAR)
            freq /= rope->factor;
        else if (rope->kind == QR_ROPE_LLAMA3)
            freq = llama3(rope, freq);
        else if (rope->kind == QR_ROPE_YARN)
            freq = yarn(rope, dim, i, freq);
        else if (rope->kind == QR_ROPE_LONGROPE && rope->n_factor == n)
            freq /= (double)stretch[i];
        if (divided)
            freq /= (double)factors->data[i];
        if (!isfinite((float)freq))
            return qr_fail(err, QR_FORMAT, "rope frequency %d is %g: theta %g or its scaling is out of range", i, freq,
                           rope->theta);
        inv_freq[i] = (float)freq;
    }
    return QR_OK;
}
