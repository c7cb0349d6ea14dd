/* rand.c - Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011, section 3.3 and table 2) and what is drawn from it. */
#include "base/rand.h"
#include <math.h>
#include <sys/random.h>
#include <unistd.h>
#include "base/clock.h"

#define N_ROUND 10

void qr_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];

    for (int round = 0; round < N_ROUND; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u; /* golden ratio */
        k1 += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

float qr_rand_uniform(uint64_t seed, uint32_t choice, uint32_t position)
{
    uint32_t counter[4] = {position, choice, 0, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t out[4];

    qr_philox(counter, key, out);
    return (float)(out[0] >> 8) * 0x1p-24f;
}

/* Box and Muller, A Note on the Generation of Random Normal Deviates, 1958. */
static void normal_pair(uint32_t a, uint32_t b, float pair[2])
{
    float u = (float)((a >> 8) + 1) * 0x1p-24f; /* (0, 1]: its logarithm is finite */
    float angle = 6.2831853071795864769f * ((float)(b >> 8) * 0x1p-24f);
    float radius = sqrtf(-2.0f * logf(u));

    pair[0] = radius * cosf(angle);
    pair[1] = radius * sinf(angle);
}

void qr_rand_normal(uint64_t seed, uint64_t stream, float deviation, float *out, uint64_t n)
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};

    for (uint64_t i = 0; i < n; i += 4) {
        uint64_t block = i / 4;
        uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)};
        uint32_t bits[4];
        float four[4];

        qr_philox(counter, key, bits);
        normal_pair(bits[0], bits[1], four);
        normal_pair(bits[2], bits[3], four + 2);
        for (uint64_t k = 0; k < 4 && i + k < n; k++)
            out[i + k] = deviation * four[k];
    }
}

uint64_t qr_rand_fresh_seed(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed)
        return seed;
    return (uint64_t)qr_now_ns() ^ (uint64_t)getpid() << 32; /* early boot only: no entropy yet */
}
