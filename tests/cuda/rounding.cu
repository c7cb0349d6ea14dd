// rounding.cu - do mma.sync and wgmma round alike? (DESIGN.md, one arithmetic per row)
//
// One packed weight, rows as the A operand, must give the same bits whether a decode kernel multiplies it by mma.sync.m16n8k16 or a
// prefill kernel by wgmma.m64nNk16. This program runs both on the same random tiles, K in steps of 16 into one fp32
// accumulator, and counts outputs whose bits differ, for bf16 and f16 inputs, several N, several spreads of exponents, and
// accumulators that start at zero or at large values. It prints a table; exit 0: all bits equal.
//
//   nvcc -gencode=arch=compute_90a,code=sm_90a -O2 tests/cuda/rounding.cu -o build/rounding && build/rounding
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                                     \
    do {                                                                                                \
        cudaError_t e_ = (call);                                                                        \
        if (e_ != cudaSuccess) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e_));                  \
            exit(2);                                                                                    \
        }                                                                                               \
    } while (0)

template <bool BF16> __device__ void mma16816(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    if (BF16)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Shared-memory descriptor without swizzle: start address, leading (K) and stride (N) byte offsets, each in units of 16 bytes.
__device__ uint64_t descriptor(const void *p, uint32_t lead, uint32_t stride)
{
    uint32_t a = (uint32_t)__cvta_generic_to_shared(p);
    return (uint64_t)((a & 0x3FFFF) >> 4) | (uint64_t)(lead >> 4) << 16 | (uint64_t)(stride >> 4) << 32;
}

#define D4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA8(T)                                                                                                   \
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32." T "." T " {%0,%1,%2,%3},{%4,%5,%6,%7},%8,1,1,1,0;"     \
                 : D4(d, 0)                                                                                         \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(desc))
#define WGMMA64(T)                                                                                                   \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." T "." T                                               \
                 " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,"   \
                 "%26,%27,%28,%29,%30,%31},{%32,%33,%34,%35},%36,1,1,1,0;"                                            \
                 : D4(d, 0), D4(d, 4), D4(d, 8), D4(d, 12), D4(d, 16), D4(d, 20), D4(d, 24), D4(d, 28)                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(desc))

// One warpgroup: D[64, N] = C + A[64, K] B[N, K]^T, by mma.sync into d0 and by wgmma into d1.
template <bool BF16, int N>
__global__ void both(const uint16_t *A, const uint16_t *B, const float *C, float *d0, float *d1, int K)
{
    __shared__ alignas(128) uint16_t sb[N * 16];
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) // wgmma exists for sm_90a alone; elsewhere the outputs keep their poison and differ
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    float x[N / 2], d[N / 2];
    for (int j = 0; j < N / 8; j++)
        for (int i = 0; i < 4; i++)
            x[j * 4 + i] = d[j * 4 + i] = C[(warp * 16 + g + (i >> 1) * 8) * N + j * 8 + t * 2 + (i & 1)];
    for (int k = 0; k < K; k += 16) {
        uint32_t a[4];
        for (int i = 0; i < 4; i++) // a0: row g, k 2t; a1: row g+8; a2, a3: the same at k + 8
            memcpy(&a[i], A + (size_t)(warp * 16 + g + (i & 1) * 8) * K + k + t * 2 + (i >> 1) * 8, 4);
        for (int j = 0; j < N / 8; j++) {
            uint32_t b[2];
            for (int i = 0; i < 2; i++)
                memcpy(&b[i], B + (size_t)(j * 8 + g) * K + k + t * 2 + i * 8, 4);
            mma16816<BF16>(x + j * 4, a, b);
        }
        __syncthreads();
        for (int e = threadIdx.x; e < N * 16; e += blockDim.x) { // core matrices of 8 n x 8 k: [n/8][k/8][8][8]
            int n = e / 16, kk = e % 16;
            sb[((n / 8) * 2 + kk / 8) * 64 + (n % 8) * 8 + kk % 8] = B[(size_t)n * K + k + kk];
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        uint64_t desc = descriptor(sb, 128, 256);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        if (N == 8) {
            if (BF16) WGMMA8("bf16"); else WGMMA8("f16");
        } else {
            if (BF16) WGMMA64("bf16"); else WGMMA64("f16");
        }
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    for (int j = 0; j < N / 8; j++)
        for (int i = 0; i < 4; i++) {
            size_t at = (size_t)(warp * 16 + g + (i >> 1) * 8) * N + j * 8 + t * 2 + (i & 1);
            d0[at] = x[j * 4 + i];
            d1[at] = d[j * 4 + i];
        }
#endif
}

static uint64_t state = 88172645463325252ull;
static uint32_t next_u32()
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

// A random sign, mantissa and an exponent within `spread` octaves below 1.
template <bool BF16> static uint16_t random_half(int spread)
{
    float f = (1.0f + (float)(next_u32() & 0xFFFF) / 65536.0f) * exp2f(-(float)(next_u32() % (spread + 1)));
    f = next_u32() & 1 ? -f : f;
    uint16_t h;
    if (BF16) {
        __nv_bfloat16 v = __float2bfloat16(f);
        memcpy(&h, &v, 2);
    } else {
        __half v = __float2half(f);
        memcpy(&h, &v, 2);
    }
    return h;
}

template <bool BF16, int N> static long run(int K, int spread, float start, int trials)
{
    std::vector<uint16_t> a(64 * K), b(N * K);
    std::vector<float> c(64 * N), x(64 * N), y(64 * N);
    uint16_t *da, *db;
    float *dc, *dx, *dy;
    CHECK(cudaMalloc(&da, a.size() * 2));
    CHECK(cudaMalloc(&db, b.size() * 2));
    CHECK(cudaMalloc(&dc, c.size() * 4));
    CHECK(cudaMalloc(&dx, c.size() * 4));
    CHECK(cudaMalloc(&dy, c.size() * 4));
    long differ = 0, total = 0;
    double worst = 0;
    for (int trial = 0; trial < trials; trial++) {
        for (auto &v : a) v = random_half<BF16>(spread);
        for (auto &v : b) v = random_half<BF16>(spread);
        for (auto &v : c) v = start * ((float)(next_u32() & 0xFFFFFF) / 8388608.0f - 1.0f);
        CHECK(cudaMemcpy(da, a.data(), a.size() * 2, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(db, b.data(), b.size() * 2, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(dc, c.data(), c.size() * 4, cudaMemcpyHostToDevice));
        CHECK(cudaMemset(dx, 0xFF, c.size() * 4));
        CHECK(cudaMemset(dy, 0xFE, c.size() * 4));
        both<BF16, N><<<1, 128>>>(da, db, dc, dx, dy, K);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(x.data(), dx, x.size() * 4, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(y.data(), dy, y.size() * 4, cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < x.size(); i++) {
            total++;
            differ += memcmp(&x[i], &y[i], 4) != 0;
            double scale = fabs((double)x[i]) + 1e-30, gap = fabs((double)x[i] - (double)y[i]) / scale;
            worst = gap > worst ? gap : worst;
        }
    }
    printf("%-5s N=%-3d K=%-5d spread 2^%-3d C up to %-6g %8ld outputs, %ld differ, gap %.1e\n", BF16 ? "bf16" : "f16", N, K,
           spread, start, total, differ, worst);
    cudaFree(da);
    cudaFree(db);
    cudaFree(dc);
    cudaFree(dx);
    cudaFree(dy);
    return differ;
}

int main()
{
    cudaDeviceProp p;
    CHECK(cudaGetDeviceProperties(&p, 0));
    printf("%s, sm_%d%d, %d SMs\n", p.name, p.major, p.minor, p.multiProcessorCount);
    long differ = 0;
    const int ks[] = {16, 64, 1536, 8960};
    for (int k : ks)
        for (int spread : {0, 4, 12, 24}) {
            int trials = k > 1000 ? 20 : 200;
            for (float start : {0.0f, 1.0f, 4096.0f}) {
                differ += run<true, 8>(k, spread, start, trials);
                differ += run<true, 64>(k, spread, start, trials);
                differ += run<false, 8>(k, spread > 12 ? 12 : spread, start, trials);
                differ += run<false, 64>(k, spread > 12 ? 12 : spread, start, trials);
            }
        }
    printf("%s\n", differ ? "DIFFERENT" : "all bits equal");
    return differ != 0;
}
