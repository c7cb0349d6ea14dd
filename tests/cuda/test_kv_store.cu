// test_kv_store.cu - what KV_STORE leaves in pages of each type, against values worked out here in double: bf16 and f16 rounded to the
// nearest even, fp8 as E4M3 times the least power of two that holds a token's head; V is always finite, a K that cannot be held
// is not. Values of all sizes, zeros, subnormals, infinities, NaN.
#include <cmath>
#include <cstring>
#include <random>
#include <cuda_fp16.h>
#include "common.cuh"
#include "cuda/attention.cuh"
#include "cuda/launch.h"

constexpr int N_TOKEN = 400, N_KV_HEAD = 3, N_BLOCK = 32;

static double held(double x, double most)
{
    return x != x ? 0 : x > most ? most : x < -most ? -most : x;
}

// To the nearest even with so many bits behind the first and no finer steps than those at 2^least; beyond most: infinite.
static double rounded(double x, int bits, int least, double most)
{
    int exponent;
    if (x != x || std::isinf(x))
        return x;
    frexp(x, &exponent);
    double step = ldexp(1, std::max(exponent - 1, least) - bits), y = nearbyint(x / step) * step;
    return fabs(y) > most ? copysign(INFINITY, y) : y;
}

// A head as it should come back.
static void expect(const float *x, int D, enum qr_cu_kv kv, bool is_v, std::vector<double> &out)
{
    const double most = kv == QR_CU_F16 ? 65504 : kv == QR_CU_FP8 ? 57344 : 3.3895313892515355e38;
    double high = 0;
    int e = -100;
    bool lost = false;
    out.resize(D);
    for (int d = 0; d < D; d++) {
        out[d] = is_v ? held(x[d], most) : x[d];
        high = std::max(high, fabs(out[d]));
        lost |= !(fabs(out[d]) <= most);
    }
    while (kv == QR_CU_FP8 && !lost && ldexp(448, e) < high)
        e++;
    for (int d = 0; d < D; d++)
        out[d] = kv == QR_CU_F16    ? rounded(out[d], 10, -14, most)
                 : kv == QR_CU_BF16 ? rounded(out[d], 7, -126, most)
                 : lost             ? NAN
                                    : ldexp(rounded(ldexp(out[d], -e), 3, -6, 448), e);
}

static double code_value(uint8_t c)
{
    int exponent = c >> 3 & 15;
    double m = ldexp((c & 7) / 8.0 + (exponent ? 1 : 0), (exponent ? exponent : 1) - 7);
    return (c & 0x7F) == 0x7F ? NAN : c & 0x80 ? -m : m;
}

static double value_at(const uint8_t *page, int D, enum qr_cu_kv kv, bool is_v, int token, int d)
{
    const int row = is_v ? d % 16 : token, k = is_v ? token : d % 16;
    uint16_t bits;
    if (kv == QR_CU_FP8) {
        memcpy(&bits, page + 16 * D + token * 2, 2);
        uint32_t u = (uint32_t)bits << 16;
        float factor;
        memcpy(&factor, &u, 4);
        return code_value(page[fp8_index(d / 16, row, k)]) * ldexp((double)factor, -120);
    }
    memcpy(&bits, page + 2 * page_index(d / 16, row, k), 2);
    if (kv == QR_CU_F16) {
        __half_raw h;
        h.x = bits;
        return __half2float(h);
    }
    uint32_t u = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &u, 4);
    return x;
}

static void run(int D, enum qr_cu_kv kv)
{
    const size_t n = (size_t)N_TOKEN * N_KV_HEAD * D, bytes = (size_t)N_BLOCK * N_KV_HEAD * qr_cu_page_bytes(D, kv);
    std::mt19937 rng(D);
    std::normal_distribution<float> normal;
    std::vector<float> x[2];
    std::vector<int> slot(N_TOKEN), position(N_TOKEN);
    for (int i = 0; i < N_TOKEN; i++)
        slot[i] = i % 17 == 3 ? -1 : i * 7 % (N_BLOCK * 16);
    static const float ODD[] = {0, -0.0f, NAN, INFINITY, -INFINITY, 448, 448.0001f, 224, 57344, 57345, -65504, 65520, 1e30f, 1e-30f, 1e-42f,
                                0x1.1p0f, 0x1.3p0f, 0x1.08p0f, 3.4e38f};
    for (int which = 0; which < 2; which++)
        for (int head = 0; head < N_TOKEN * N_KV_HEAD; head++) {
            const float size = ldexpf(1, (int)(rng() % 40) - 25);
            for (int d = 0; d < D; d++)
                x[which].push_back(normal(rng) * size * (rng() % 5 ? 1 : 0x1p-6f));
            if (head % 3 == 0)
                x[which][x[which].size() - 1 - rng() % D] = ODD[head / 3 % (sizeof ODD / sizeof *ODD)];
            if (head % 50 == 0)
                std::fill(x[which].end() - D, x[which].end(), 0.0f);
        }
    float *dev[2];
    uint8_t *pages[2];
    std::vector<uint8_t> got[2];
    int *at = device_array<int>(N_TOKEN);
    CHECK(cudaMemcpy(at, slot.data(), N_TOKEN * 4, cudaMemcpyHostToDevice));
    for (int which = 0; which < 2; which++) {
        dev[which] = device_array<float>(n);
        pages[which] = device_array<uint8_t>(bytes);
        CHECK(cudaMemcpy(dev[which], x[which].data(), n * 4, cudaMemcpyHostToDevice));
        CHECK(cudaMemset(pages[which], 0, bytes));
    }
    qr_cu_rope a = {};
    a.k = dev[0], a.v = dev[1], a.slot = at, a.k_pages = (char *)pages[0], a.v_pages = (char *)pages[1];
    a.k_stride = a.v_stride = N_KV_HEAD * D, a.n_kv_head = a.n_head = N_KV_HEAD, a.head_dim = D, a.n = N_TOKEN, a.kv = kv;
    qr_cu_on on = {0, 0, 80, 1};
    CHECK(qr_cu_run_rope(&on, &a));
    CHECK(cudaDeviceSynchronize());
    size_t wrong = 0;
    for (int which = 0; which < 2; which++) {
        got[which].resize(bytes);
        CHECK(cudaMemcpy(got[which].data(), pages[which], bytes, cudaMemcpyDeviceToHost));
        std::vector<double> want;
        for (int i = 0; i < N_TOKEN; i++)
            for (int h = 0; h < N_KV_HEAD && slot[i] >= 0; h++) {
                expect(&x[which][((size_t)i * N_KV_HEAD + h) * D], D, kv, which, want);
                const uint8_t *page =
                    &got[which][((size_t)(slot[i] / 16) * N_KV_HEAD + h) * qr_cu_page_bytes(D, kv)];
                for (int d = 0; d < D; d++) {
                    double v = value_at(page, D, kv, which, slot[i] % 16, d);
                    if (v == want[d] || (v != v && want[d] != want[d]))
                        continue;
                    if (wrong++ == 0)
                        printf("%s of %g is %g, not %g\n", which ? "v" : "k",
                               (double)x[which][((size_t)i * N_KV_HEAD + h) * D + d], v, want[d]);
                }
            }
        cudaFree(dev[which]);
        cudaFree(pages[which]);
    }
    cudaFree(at);
    failures += wrong != 0;
    printf("heads of %d in %s: %zu of %zu wrong\n", D, kv == QR_CU_F16 ? "f16" : kv == QR_CU_FP8 ? "fp8" : "bf16", wrong,
           2 * n);
}

int main()
{
    for (int D : {16, 32, 64, 96, 128, 256})
        for (enum qr_cu_kv kv : {QR_CU_BF16, QR_CU_F16, QR_CU_FP8})
            run(D, kv);
    printf("%s\n", failures ? "FAILED" : "all as they should be");
    return failures != 0;
}
