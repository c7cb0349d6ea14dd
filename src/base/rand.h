/* rand.h - random numbers as a pure function of a key and a counter (Philox4x32-10; Salmon et al., Parallel
 * Random Numbers: As Easy as 1, 2, 3, SC 2011), so that a draw depends on nothing that ran before. */
#ifndef QR_BASE_RAND_H
#define QR_BASE_RAND_H
#include <stdint.h>

void qr_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
/* Uniform in [0, 1) with 24 bits, of (seed, choice, position): the sampler's one number. It is
 * (out[0] >> 8) * 2^-24 of counter {position, choice, 0, 0}, key {low, high half of seed}, on every device. */
float qr_rand_uniform(uint64_t seed, uint32_t choice, uint32_t position);
/* n normal numbers with that deviation: stream of (seed, stream), for random weights. */
void qr_rand_normal(uint64_t seed, uint64_t stream, float deviation, float *out, uint64_t n);
uint64_t qr_rand_fresh_seed(void); /* from the system */
#endif
