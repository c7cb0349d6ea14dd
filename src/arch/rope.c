/* rope.c - the angle of each pair of a head: inv_freq[i] = theta^(-2i/head_dim), stretched as the config says.
 *
 * Sources: Su et al., RoFormer, 2021 (default); Chen et al., Extending Context Window via Positional Interpolation,
 * 2023 (linear); the Llama 3.1 model card and transformers' modeling_rope_utils.py (llama3); GGUF's rope_freqs tensor,
 * by which the frequencies are divided. Computed in double, rounded once. */
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

enum qr_status qr_rope_inv_freq(const struct qr_config *config, const struct qr_vector *freq_factors, float *inv_freq,
                                struct qr_err *err)
{
    const struct qr_rope *rope = &config->rope;
    int n = config->head_dim / 2;
    bool factors = freq_factors->data != NULL;
    if (factors && freq_factors->n != (uint32_t)n)
        return qr_fail(err, QR_FORMAT, "rope_freqs has %u factors; heads of %d need %d", freq_factors->n,
                       config->head_dim, n);
    for (int i = 0; i < n; i++) {
        double freq = pow(rope->theta, -2.0 * i / config->head_dim);
        switch (rope->kind) {
        case QR_ROPE_DEFAULT:
            break;
        case QR_ROPE_LINEAR:
            freq /= rope->factor;
            break;
        case QR_ROPE_LLAMA3:
            freq = llama3(rope, freq);
            break;
        }
        if (factors)
            freq /= (double)freq_factors->data[i];
        if (!isfinite(freq))
            return qr_fail(err, QR_FORMAT, "rope frequency %d is %g: theta %g or its scaling is out of range", i, freq,
                           rope->theta);
        inv_freq[i] = (float)freq;
    }
    return QR_OK;
}
