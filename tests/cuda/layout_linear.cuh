// layout_linear.cuh - part (b) of layout.cu: each shape of Qwen2.5-1.5B at T = 1 to 4096 from one packed weight.
#pragma once
#include "cuda/linear_cluster.cuh"
#include "cuda/linear_large.cuh"
#include "peer.cuh"

// Norm of the error against sums in double, over the rows of 16 tokens.
static __global__ void linear_error(const __nv_bfloat16 *w, const __nv_bfloat16 *x, const float *y, int rows, int K,
                                    double *out)
{
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    double sum[16] = {};
    for (int k = lane; k < K; k += 32)
        for (int t = 0; t < 16; t++)
            sum[t] += (double)__bfloat162float(w[(size_t)row * K + k]) * (double)__bfloat162float(x[(size_t)t * K + k]);
    for (int t = 0; t < 16; t++) {
        for (int m = 16; m; m >>= 1)
            sum[t] += __shfl_xor_sync(~0u, sum[t], m);
        double e = (double)y[(size_t)t * rows + row] - sum[t];
        if (lane == 0) {
            atomicAdd(out, e * e);
            atomicAdd(out + 1, sum[t] * sum[t]);
        }
    }
}

// How many of y differ from (want + bias) + add.
static __global__ void count_unfinished(const float *y, const float *want, const float *bias, const float *add,
                                        size_t n, int rows, unsigned long long *out)
{
    unsigned long long differ = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        differ += __float_as_uint(y[i]) != __float_as_uint(__fadd_rn(__fadd_rn(want[i], bias[i % rows]), add[i]));
    if (differ)
        atomicAdd(out, differ);
}
// How many of silu(gate) * up in bf16 differ from what SILU_MUL makes of (want + bias).
static __global__ void count_ungated(const __nv_bfloat16 *y, const float *want, const float *bias, size_t n, int half,
                                     unsigned long long *out)
{
    unsigned long long differ = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        size_t t = i / half, r = i % half, at = t * 2 * half + r;
        float gate = bias ? __fadd_rn(want[at], bias[r]) : want[at];
        float up = bias ? __fadd_rn(want[at + half], bias[half + r]) : want[at + half];
        differ += __bfloat16_as_ushort(y[i]) != __bfloat16_as_ushort(__float2bfloat16(silu(gate) * up));
    }
    if (differ)
        atomicAdd(out, differ);
}
static __global__ void fill_floats(float *p, size_t n, uint32_t seed)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        p[i] = (float)hash_u32(i, seed) * 0x1p-31f - 1.0f;
}

struct linear_case {
    int rows, K, cuts, sms, copies;
    __nv_bfloat16 *plain, *x;
    uint4 *packed;
    float *y, *work;
    __nv_bfloat16 *gated;
    unsigned *count;
    const float *bias, *add;

    linear_args args(int T, int copy = 0) const
    {
        return {{packed + (size_t)(copy % copies) * rows * K / 8, rows, K, cuts}, x, y, work, count, T, bias, add};
    }
};

static decltype(&cuTensorMapEncodeTiled) encode_map()
{
    static decltype(&cuTensorMapEncodeTiled) encode;
    cudaDriverEntryPointQueryResult r;
    if (!encode)
        CHECK(
            cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", (void **)&encode, 12000, cudaEnableDefault, &r));
    return encode;
}

static CUtensorMap token_map(const __nv_bfloat16 *x, int T, int K, int box)
{
    CUtensorMap m;
    cuuint64_t size[] = {(cuuint64_t)K, (cuuint64_t)T}, stride[] = {(cuuint64_t)K * 2};
    cuuint32_t shape[] = {64, (cuuint32_t)box}, one[] = {1, 1};
    CUresult r = encode_map()(&m, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)x, size, stride, shape, one,
                              CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                              CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (r != CUDA_SUCCESS) {
        fprintf(stderr, "cuTensorMapEncodeTiled: %d\n", (int)r);
        exit(2);
    }
    return m;
}

// Weights: 2 KB of each of so many strips.
static CUtensorMap weight_map(const linear_args &a, int strips)
{
    CUtensorMap m;
    cuuint64_t size[] = {(cuuint64_t)a.w.k * 4, (cuuint64_t)a.w.rows / 16}, stride[] = {(cuuint64_t)a.w.k * 32};
    cuuint32_t shape[] = {256, (cuuint32_t)strips}, one[] = {1, 1};
    CUresult r = encode_map()(&m, CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 2, (void *)a.w.tiles, size, stride, shape, one,
                              CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                              CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (r != CUDA_SUCCESS) {
        fprintf(stderr, "cuTensorMapEncodeTiled: %d\n", (int)r);
        exit(2);
    }
    return m;
}

template <int GROUPS, int N, linear_form FORM, bool GATED = false>
static void run_large(const linear_case &c, int T, int copy, cudaStream_t s)
{
    using shape = large_shape<GROUPS, N, FORM, GATED>;
    int row_tiles = (c.rows + shape::rows - 1) / shape::rows, token_tiles = (T + N - 1) / N;
    int units = row_tiles * token_tiles * (FORM == SPLIT ? c.cuts : 1);
    linear_args a = c.args(T, copy);
    a.gated = GATED ? c.gated : nullptr;
    launch_early(linear_large<GROUPS, N, FORM, GATED>, std::min(units, c.sms * shape::blocks), shape::threads,
                 shape::shared, s, a, token_map(c.x, T, c.K, N), token_map(c.x, T, c.K, 64),
                 weight_map(a, shape::rows / (GATED ? 32 : 16)), std::min(row_tiles, 24 / GROUPS));
}

template <int GROUPS, int N, int C> static void run_cluster(const linear_case &c, int T, int copy, cudaStream_t s)
{
    using shape = cluster_shape<GROUPS, N, C>;
    int tiles = (c.rows + shape::rows - 1) / shape::rows * ((T + N - 1) / N);
    cudaLaunchConfig_t l = {};
    cudaLaunchAttribute at[2];
    l.gridDim = tiles * C;
    l.blockDim = shape::threads;
    l.dynamicSmemBytes = shape::shared;
    l.stream = s;
    l.attrs = at;
    l.numAttrs = 2;
    at[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    at[0].val.programmaticStreamSerializationAllowed = 1;
    at[1].id = cudaLaunchAttributeClusterDimension;
    at[1].val.clusterDim.x = C;
    at[1].val.clusterDim.y = at[1].val.clusterDim.z = 1;
    CHECK(
        cudaFuncSetAttribute(linear_cluster<GROUPS, N, C>, cudaFuncAttributeMaxDynamicSharedMemorySize, shape::shared));
    if (c.cuts % C == 0)
        CHECK(cudaLaunchKernelEx(&l, linear_cluster<GROUPS, N, C>, c.args(T, copy), token_map(c.x, T, c.K, N),
                                 weight_map(c.args(T, copy), GROUPS * 4)));
}

// `warps` a block, a chain a warp where the device holds that many: blocks are small, so that those of the next kernel find room.
template <int N8, bool WHOLE> static void run_small(const linear_case &c, int T, int warps, int copy, cudaStream_t s)
{
    linear_args a = c.args(T, copy);
    int chains = WHOLE ? c.rows / 16 : c.rows / 16 * c.cuts, blocks = std::min(c.sms * (16 / warps), chains);
    int span = 0;
    for (int b = 0; b < blocks; b++) {
        chain_range r = chains_of<WHOLE>(a.w, b, blocks);
        span = std::max(span, r.k_last - r.k_first);
    }
    if ((size_t)span * 16 * N8 <= 227 * 1024)
        launch_early(linear_small<N8, WHOLE>, blocks, warps * 32, (size_t)span * 16 * N8, s, a);
}

// One way to run T tokens, by name.
struct linear_way {
    const char *name;
    int T;
    std::function<void(const linear_case &, int copy, cudaStream_t)> run;
    bool gated = false;
};

static std::vector<linear_way> ways_of(const linear_case &c)
{
    std::vector<linear_way> v;
    auto small = [&](const char *name, int T, int warps, void (*f)(const linear_case &, int, int, int, cudaStream_t)) {
        v.push_back({name, T, [=](const linear_case &c, int copy, cudaStream_t s) { f(c, T, warps, copy, s); }});
    };
    for (int T : {1, 8}) {
        small("mma, 16 rows a warp, 4", T, 4, run_small<1, true>);
        small("mma, 16 rows a warp, 16", T, 16, run_small<1, true>);
        if (c.cuts == 1)
            continue;
        small("mma, chain a warp, 8", T, 8, run_small<1, false>);
        small("mma, chain a warp, 16", T, 16, run_small<1, false>);
    }
    small("mma, 16 rows a warp, 16", 16, 16, run_small<2, true>);
    small("mma, 16 rows a warp, 16", 32, 16, run_small<4, true>);
    if (c.cuts > 1) {
        small("mma, chain a warp, 8", 16, 8, run_small<2, false>);
        small("mma, chain a warp, 16", 16, 16, run_small<2, false>);
        small("mma, chain a warp, 8", 32, 8, run_small<4, false>);
    }
    auto large = [&](const char *name, int T, void (*f)(const linear_case &, int, int, cudaStream_t)) {
        v.push_back({name, T, [=](const linear_case &c, int copy, cudaStream_t s) { f(c, T, copy, s); }});
    };
    auto cluster = [&](const char *name, int T, int C, void (*f)(const linear_case &, int, int, cudaStream_t)) {
        if (c.cuts % C == 0)
            large(name, T, f);
    };
    if (c.cuts > 1) {
        for (int T : {16, 32, 64}) {
            large("wgmma 64x64, split", T, run_large<1, 64, SPLIT>);
            cluster("wgmma 64x64, 3 blocks", T, 3, run_cluster<1, 64, 3>);
            cluster("wgmma 64x64, 6 blocks", T, 6, run_cluster<1, 64, 6>);
        }
        for (int T : {200, 300}) {
            large("wgmma 64x64, cut", T, run_large<1, 64, CUT>);
            large("wgmma 128x256, split", T, run_large<2, 256, SPLIT>);
            large("wgmma 128x32, cut", T, run_large<2, 32, CUT>);
            large("wgmma 128x48, cut", T, run_large<2, 48, CUT>);
            large("wgmma 128x64, cut", T, run_large<2, 64, CUT>);
            large("wgmma 128x96, cut", T, run_large<2, 96, CUT>);
        }
        for (int T : {1024, 2048}) {
            large("wgmma 128x64, cut", T, run_large<2, 64, CUT>);
            large("wgmma 128x96, cut", T, run_large<2, 96, CUT>);
            large("wgmma 128x128, cut", T, run_large<2, 128, CUT>);
            large("wgmma 128x192, cut", T, run_large<2, 192, CUT>);
        }
        for (int T : {128, 256, 512}) {
            large("wgmma 128x32, cut", T, run_large<2, 32, CUT>);
            large("wgmma 128x48, cut", T, run_large<2, 48, CUT>);
            large("wgmma 128x64, cut", T, run_large<2, 64, CUT>);
            large("wgmma 128x96, cut", T, run_large<2, 96, CUT>);
            large("wgmma 64x64, cut", T, run_large<1, 64, CUT>);
            large("wgmma 64x64, split", T, run_large<1, 64, SPLIT>);
            large("wgmma 64x128, split", T, run_large<1, 128, SPLIT>);
            large("wgmma 128x128, split", T, run_large<2, 128, SPLIT>);
            large("wgmma 128x256, split", T, run_large<2, 256, SPLIT>);
            cluster("wgmma 64x64, 3 blocks", T, 3, run_cluster<1, 64, 3>);
            cluster("wgmma 64x64, 6 blocks", T, 6, run_cluster<1, 64, 6>);
        }
        large("wgmma 192x128, cut", 4096, run_large<3, 128, CUT>);
        large("wgmma 128x192, cut", 4096, run_large<2, 192, CUT>);
    } else {
        auto gated = [&](const char *name, int T, void (*f)(const linear_case &, int, int, cudaStream_t)) {
            large(name, T, f);
            v.back().gated = true;
        };
        const bool gates = c.rows == 17920 || c.rows == 1120;
        for (int T : {16, 32, 64})
            if (gates) {
                gated("gated 64x64", T, run_large<1, 64, ONE_CHAIN, true>);
                gated("gated 128x64", T, run_large<2, 64, ONE_CHAIN, true>);
            }
        for (int T : {128, 200, 256, 300, 512, 1024, 2048})
            if (gates) {
                gated("gated 192x128", T, run_large<3, 128, ONE_CHAIN, true>);
                gated("gated 128x256", T, run_large<2, 256, ONE_CHAIN, true>);
            }
        for (int T : {1024, 2048}) {
            large("wgmma 192x128", T, run_large<3, 128, ONE_CHAIN>);
            large("wgmma 128x256", T, run_large<2, 256, ONE_CHAIN>);
        }
        for (int T : {16, 32, 64}) {
            large("wgmma 64x64", T, run_large<1, 64, ONE_CHAIN>);
            large("wgmma 128x64", T, run_large<2, 64, ONE_CHAIN>);
        }
        for (int T : {200, 300}) // the last quarters of a tile are empty, or partly
            large("wgmma 128x256", T, run_large<2, 256, ONE_CHAIN>);
        for (int T : {128, 256, 512}) {
            large("wgmma 128x128", T, run_large<2, 128, ONE_CHAIN>);
            large("wgmma 128x256", T, run_large<2, 256, ONE_CHAIN>);
            large("wgmma 192x128", T, run_large<3, 128, ONE_CHAIN>);
        }
        large("wgmma 192x128", 4096, run_large<3, 128, ONE_CHAIN>);
        large("wgmma 128x192", 4096, run_large<2, 192, ONE_CHAIN>);
        if (gates)
            gated("gated 128x256", 4096, run_large<2, 256, ONE_CHAIN, true>);
        large("wgmma 128x256", 4096, run_large<2, 256, ONE_CHAIN>);
    }
    return v;
}

static void test_shape(int rows, int K, int cuts, int sms, peer_blas *peer)
{
    linear_case c;
    c.rows = rows, c.K = K, c.cuts = cuts, c.sms = sms, c.bias = c.add = nullptr;
    size_t weights = (size_t)rows * K;
    c.copies =
        quick() ? 2 : (int)((600u << 20) / (weights * 2) + 2); // so that a copy has left L2 before it is read again
    c.plain = device_array<__nv_bfloat16>(weights * c.copies);
    c.packed = (uint4 *)device_array<__nv_bfloat16>(weights * c.copies);
    c.x = device_array<__nv_bfloat16>((size_t)4096 * K);
    c.y = device_array<float>((size_t)4096 * rows);
    c.work = device_array<float>((size_t)1024 * rows * cuts);
    c.gated = device_array<__nv_bfloat16>((size_t)4096 * rows / 2);
    float *first = device_array<float>((size_t)4096 * rows);
    c.count = device_array<unsigned>(1 << 16);
    CHECK(cudaMemset(c.count, 0, 4 << 16));
    fill_random<<<2048, 256>>>(c.plain, weights * c.copies, 1, 0.05f);
    fill_random<<<2048, 256>>>(c.x, (size_t)4096 * K, 2, 1.0f);
    for (int i = 0; i < c.copies; i++)
        pack_weight<<<(unsigned)((weights / 8 + 255) / 256), 256>>>((const uint32_t *)(c.plain + i * weights),
                                                                    c.packed + i * (weights / 8), rows, K);
    CHECK(cudaDeviceSynchronize());
    std::vector<linear_way> ways = ways_of(c);
    std::reverse(ways.begin(), ways.end()); // 4096 tokens first: the others are compared with its rows
    bool have = false;
    const int Ts[] = {1, 8, 16, 32, 64, 128, 200, 256, 300, 512, 1024, 2048, 4096}, n_T = sizeof(Ts) / sizeof(Ts[0]);
    double best[n_T] = {}, *err = device_array<double>(2), e[2];
    const char *how[n_T] = {};
    float *bias = device_array<float>(rows), *add = device_array<float>((size_t)512 * rows);
    unsigned long long *unfinished = device_array<unsigned long long>(1);
    fill_floats<<<1024, 256>>>(bias, rows, 3);
    fill_floats<<<1024, 256>>>(add, (size_t)512 * rows, 4);
    for (auto &way : ways) {
        CHECK(cudaMemset(c.y, 0xFF, (size_t)way.T * rows * 4));
        CHECK(cudaMemset(c.work, 0xFF, (size_t)1024 * rows * cuts * 4));
        CHECK(cudaMemset(c.gated, 0xFF, (size_t)4096 * rows));
        way.run(c, 0, 0);
        CHECK(cudaDeviceSynchronize());
        if (!have) {
            have = true;
            CHECK(cudaMemcpy(first, c.y, (size_t)4096 * rows * 4, cudaMemcpyDeviceToDevice));
            CHECK(cudaMemset(err, 0, 16));
            linear_error<<<rows / 8, 256>>>(c.plain, c.x, c.y, rows, K, err);
            CHECK(cudaMemcpy(e, err, 16, cudaMemcpyDeviceToHost));
        }
        int slot = (int)(std::find(Ts, Ts + n_T, way.T) - Ts);
        double flop = 2.0 * way.T * weights;
        int launches = (int)std::min(200.0, std::max(3.0, 2e-3 / std::max(weights * 2 / 4e12, flop / 7e14)));
        if (way.gated) { // in both ways: without bias and with it
            for (const float *b : {(const float *)nullptr, (const float *)bias}) {
                unsigned long long differ;
                c.bias = b;
                CHECK(cudaMemset(c.gated, 0xFF, (size_t)way.T * rows));
                CHECK(cudaMemset(unfinished, 0, 8));
                way.run(c, 0, 0);
                count_ungated<<<1024, 256>>>(c.gated, first, b, (size_t)way.T * rows / 2, rows / 2, unfinished);
                CHECK(cudaMemcpy(&differ, unfinished, 8, cudaMemcpyDeviceToHost));
                failures += differ != 0;
                if (differ)
                    printf("  %6dx%-5d T=%-4d %s%s: %llu DIFFER\n", rows, K, way.T, way.name, b ? " with bias" : "",
                           differ);
            }
            c.bias = nullptr;
            double us = graph_us(launches, [&](int i, cudaStream_t s) { way.run(c, i, s); });
            if (getenv("VERBOSE"))
                printf("  %-28s T=%-4d %9.2f us\n", way.name, way.T, us);
            continue;
        }
        uint32_t y0;
        CHECK(cudaMemcpy(&y0, c.y, 4, cudaMemcpyDeviceToHost));
        if (y0 == 0xFFFFFFFF && way.T <= 64)
            continue; // its tokens do not fit in shared memory
        unsigned long long differ = unequal(c.y, first, (size_t)way.T * rows);
        if (differ) {
            failures++;
            printf("  %6dx%-5d T=%-4d %s: %llu of %zu DIFFER\n", rows, K, way.T, way.name, differ,
                   (size_t)way.T * rows);
        }
        if (way.T <= 512) {
            c.bias = bias, c.add = add;
            CHECK(cudaMemset(c.y, 0xFF, (size_t)way.T * rows * 4));
            CHECK(cudaMemset(unfinished, 0, 8));
            way.run(c, 0, 0);
            count_unfinished<<<1024, 256>>>(c.y, first, bias, add, (size_t)way.T * rows, rows, unfinished);
            CHECK(cudaMemcpy(&differ, unfinished, 8, cudaMemcpyDeviceToHost));
            c.bias = c.add = nullptr;
            if (differ) {
                failures++;
                printf("  %6dx%-5d T=%-4d %s: %llu with bias and add DIFFER\n", rows, K, way.T, way.name, differ);
            }
        }
        double us = graph_us(launches, [&](int i, cudaStream_t s) { way.run(c, i, s); });
        if (getenv("VERBOSE"))
            printf("  %-28s T=%-4d %9.2f us\n", way.name, way.T, us);
        if (!best[slot] || us < best[slot])
            best[slot] = us, how[slot] = way.name;
    }
    double error = sqrt(e[0] / e[1]);
    if (!(error < 1e-5))
        failures++;
    printf("%6d x %-5d cuts %-2d error %.1e\n", rows, K, cuts, error);
    for (int i = 0; i < n_T; i++) {
        int T = Ts[i];
        double flop = 2.0 * T * weights;
        int launches = (int)std::min(200.0, std::max(3.0, 2e-3 / std::max(weights * 2 / 4e12, flop / 7e14)));
        double theirs = peer ? peer->us(c.plain, c.copies, c.x, c.y, rows, K, T, launches) : 0;
        printf("  T=%-4d %9.2f us  %5.0f GB/s %4.0f TFLOP/s  %-24s peer %9.2f us\n", T, best[i],
               weights * 2 / best[i] / 1e3, flop / best[i] / 1e6, how[i], theirs);
    }
    for (void *p : {(void *)c.plain, (void *)c.packed, (void *)c.x, (void *)c.y, (void *)c.work, (void *)first,
                    (void *)c.gated, (void *)c.count, (void *)err, (void *)bias, (void *)add, (void *)unfinished})
        CHECK(cudaFree(p));
}

static void test_linear(int sms, bool sweep)
{
    peer_blas peer;
    if (!sweep)
        peer.open();
    struct {
        int rows, K;
        std::vector<int> others;
    } shapes[] = {{2048, 1536, {1, 2, 3, 4, 8, 12}},
                  {1536, 1536, {1, 2, 3, 4, 8, 12}},
                  {17920, 1536, {2, 3, 4, 6, 12}},
                  {1536, 8960, {4, 5, 7, 14, 20, 28}},
                  {151936, 1536, {2, 4}}};
    for (auto &s : shapes)
        if (quick())
            test_shape(s.rows / 256 * 16, s.K > 2000 ? 640 : 384,
                       s.K > 2000      ? 10
                       : s.rows < 4000 ? 6
                                       : 1,
                       sms, nullptr); // every form, small
        else if (!sweep)
            test_shape(s.rows, s.K, cuts_of(s.rows, s.K), sms, &peer);
        else
            for (int cuts : s.others)
                test_shape(s.rows, s.K, cuts, sms, nullptr);
}
