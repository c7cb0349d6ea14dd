// linear_hopper.cu - LINEAR for more than 8 tokens on sm_90a: which tile of linear_large.cuh (docs/LAYOUT.md has the figures).
#include <climits>
#include "cuda/launch.cuh"
#include "cuda/linear.cuh"
#include "cuda/linear_cluster.cuh"

typedef CUresult encode_tiled(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                              const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                              CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

static cudaError_t encode(CUtensorMap *map, CUtensorMapDataType type, const void *p, const cuuint64_t (&size)[2],
                          cuuint64_t stride, const cuuint32_t (&box)[2], CUtensorMapSwizzle swizzle)
{
    void *f = nullptr;
    cudaDriverEntryPointQueryResult found;
    cudaError_t e = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault, &found);
    if (e || !f)
        return e ? e : cudaErrorNotSupported;
    cuuint32_t one[] = {1, 1};
    CUresult r = ((encode_tiled *)f)(map, type, 2, (void *)p, size, &stride, box, one, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                     swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return r == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// x [T, K] in boxes of 64 k x `box` tokens; what lies behind T is zero.
static cudaError_t token_map(const linear_args &a, int box, CUtensorMap *map)
{
    return encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, a.x, {(cuuint64_t)a.w.k, (cuuint64_t)a.tokens},
                  (cuuint64_t)a.w.k * 2, {LARGE_K, (cuuint32_t)box}, CU_TENSOR_MAP_SWIZZLE_128B);
}

// Weights as rows of a strip each, in boxes of 64 k (2 KB, words of 8 bytes since a box has at most 256) x so many strips.
static cudaError_t weight_map(const linear_args &a, int strips, CUtensorMap *map)
{
    return encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT64, a.w.tiles, {(cuuint64_t)a.w.k * 4, (cuuint64_t)a.w.rows / 16},
                  (cuuint64_t)a.w.k * 32, {256, (cuuint32_t)strips}, CU_TENSOR_MAP_SWIZZLE_NONE);
}

template <int GROUPS, int N, linear_form FORM, bool GATED = false>
static cudaError_t run(const qr_cu_on *on, const linear_args &a)
{
    using shape = large_shape<GROUPS, N, FORM, GATED>;
    int row_tiles = ceil_div(a.w.rows, shape::rows), token_tiles = ceil_div(a.tokens, N);
    int units = row_tiles * token_tiles * (FORM == SPLIT ? a.w.cuts : 1), blocks = on->n_sm * shape::blocks;
    int band = row_tiles < 24 / GROUPS ? row_tiles : 24 / GROUPS;
    CUtensorMap map, narrow = {}, weights;
    cudaError_t e = token_map(a, N, &map);
    if (!e)
        e = weight_map(a, GROUPS * (GATED ? 2 : 4), &weights);
    if (!e && FORM == ONE_CHAIN && N == 256)
        e = token_map(a, 64, &narrow);
    return e ? e
             : launch(on, linear_large<GROUPS, N, FORM, GATED>, units < blocks ? units : blocks, shape::threads,
                      shape::shared, a, map, narrow, weights, band);
}

// C blocks a tile share its cuts.
template <int GROUPS, int N, int C> static cudaError_t run_cluster(const qr_cu_on *on, const linear_args &a)
{
    using shape = cluster_shape<GROUPS, N, C>;
    CUtensorMap map, weights;
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute at[2] = {};
    cudaError_t e = token_map(a, N, &map);
    if (!e)
        e = weight_map(a, GROUPS * 4, &weights);
    if (e)
        return e;
    c.gridDim = ceil_div(a.w.rows, shape::rows) * ceil_div(a.tokens, N) * C;
    c.blockDim = shape::threads;
    c.dynamicSmemBytes = shape::shared;
    c.stream = on->stream;
    c.attrs = at;
    c.numAttrs = on->early ? 2 : 1;
    at[0].id = cudaLaunchAttributeClusterDimension;
    at[0].val.clusterDim.x = C;
    at[0].val.clusterDim.y = at[0].val.clusterDim.z = 1;
    at[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    at[1].val.programmaticStreamSerializationAllowed = 1;
    return cudaLaunchKernelEx(&c, linear_cluster<GROUPS, N, C>, a, map, weights);
}

constexpr int SIXTEEN_SHARED = 200 * 1024; // bytes of 16 tokens

// What a form for all of K costs: rounds of tiles times a stage's price. Shared memory gives 128 bytes a clock; a stage moves its own
// bytes, the tokens once more for each warpgroup and the weights once more. Below 96 tokens latency is what counts (docs/LAYOUT.md).
enum whole_form { BY_32, BY_48, BY_64, BY_96, BY_128, BY_192, HIGH, WHOLE_FORMS };
static whole_form choose_whole(const qr_cu_on *on, const linear_args &a)
{
    static const struct {
        int rows, tokens, price;
    } FORM[WHOLE_FORMS] = {{128, 32, 43},  {128, 48, 45},   {128, 64, 47},  {128, 96, 68},
                           {128, 128, 80}, {128, 192, 104}, {192, 128, 101}};
    int best = 0;
    long least = LONG_MAX;
    for (int f = a.tokens > 128; f < WHOLE_FORMS; f++) {
        long tiles = (long)ceil_div(a.w.rows, FORM[f].rows) * ceil_div(a.tokens, FORM[f].tokens),
             price = (long)ceil_div(tiles, on->n_sm) * FORM[f].price;
        if (price < least)
            best = f, least = price;
    }
    return (whole_form)best;
}

// K in cuts: few rows. Clusters where all of them find room at once.
static cudaError_t in_cuts(const qr_cu_on *on, const linear_args &a)
{
    int tiles = ceil_div(a.w.rows, 64);
    if (a.tokens <= 64)
        return a.w.cuts % 6 == 0 && tiles * 6 <= on->n_sm * 3 / 2 ? run_cluster<1, 64, 6>(on, a)
                                                                  : run<1, 64, SPLIT>(on, a);
    if (a.tokens <= 256 && a.w.k >= 4096)
        return a.tokens <= 128 ? run<1, 128, SPLIT>(on, a) : run<2, 256, SPLIT>(on, a);
    switch (choose_whole(on, a)) {
    case BY_32:
        return run<2, 32, CUT>(on, a);
    case BY_48:
        return run<2, 48, CUT>(on, a);
    case BY_64:
        return run<2, 64, CUT>(on, a);
    case BY_96:
        return run<2, 96, CUT>(on, a);
    case BY_128:
        return run<2, 128, CUT>(on, a);
    case BY_192:
        return run<2, 192, CUT>(on, a);
    default:
        return run<3, 128, CUT>(on, a);
    }
}

// Microseconds of the two forms for many tokens, from figures of K = 1,536 (docs/LAYOUT.md): a round of tiles costs as much when few are left.
static bool is_wide_better(const qr_cu_on *on, const linear_args &a)
{
    int high = ceil_div(a.w.rows, 192) * ceil_div(a.tokens, 128),
        wide = ceil_div(a.w.rows, 128) * ceil_div(a.tokens, 256);
    int left = wide % on->n_sm;
    int wide_us = wide / on->n_sm * 22 + (left == 0 ? 0 : left * 4 <= on->n_sm * 2 && left < wide ? 7 : 22);
    return wide_us < ceil_div(high, on->n_sm) * 17;
}

template <bool GATED> static cudaError_t in_one_chain(const qr_cu_on *on, const linear_args &a)
{
    bool many = ceil_div(a.w.rows, 64) > 4 * on->n_sm;
    if (a.tokens <= 64)
        return a.tokens <= 32 || many ? run<2, 64, ONE_CHAIN, GATED>(on, a) : run<1, 64, ONE_CHAIN, GATED>(on, a);
    return a.tokens <= 128 || !is_wide_better(on, a) ? run<3, 128, ONE_CHAIN, GATED>(on, a)
                                                     : run<2, 256, ONE_CHAIN, GATED>(on, a);
}

bool qr_cu_linear_hopper_gates(const linear_args &a)
{
    return a.w.cuts == 1 && a.tokens > 16 && a.w.rows % 32 == 0;
}

cudaError_t qr_cu_linear_hopper(const qr_cu_on *on, const linear_args &a)
{
    if (a.w.cuts > 1)
        return in_cuts(on, a);
    if (a.gated)
        return in_one_chain<true>(on, a);
    if (a.tokens <= 16 && a.w.k * 32 <= SIXTEEN_SHARED) {
        int strips = a.w.rows / 16;
        return launch(on, linear_small<2, true>, strips < on->n_sm ? strips : on->n_sm, 512, (size_t)a.w.k * 32, a);
    }
    return in_one_chain<false>(on, a);
}

template <int GROUPS, int N, linear_form FORM, bool GATED = false> static cudaError_t prepare()
{
    return cudaFuncSetAttribute(linear_large<GROUPS, N, FORM, GATED>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                large_shape<GROUPS, N, FORM, GATED>::shared);
}
template <int GROUPS, int N, int C> static cudaError_t prepare_cluster()
{
    return cudaFuncSetAttribute(linear_cluster<GROUPS, N, C>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                cluster_shape<GROUPS, N, C>::shared);
}

cudaError_t qr_cu_prepare_linear_hopper()
{
    cudaError_t all[] = {
        prepare<1, 64, SPLIT>(),
        prepare<1, 128, SPLIT>(),
        prepare<2, 256, SPLIT>(),
        prepare<2, 32, CUT>(),
        prepare<2, 48, CUT>(),
        prepare<2, 64, CUT>(),
        prepare<2, 96, CUT>(),
        prepare<2, 128, CUT>(),
        prepare<2, 192, CUT>(),
        prepare<3, 128, CUT>(),
        prepare<1, 64, ONE_CHAIN>(),
        prepare<2, 64, ONE_CHAIN>(),
        prepare<3, 128, ONE_CHAIN>(),
        prepare<2, 256, ONE_CHAIN>(),
        prepare<1, 64, ONE_CHAIN, true>(),
        prepare<2, 64, ONE_CHAIN, true>(),
        prepare<3, 128, ONE_CHAIN, true>(),
        prepare<2, 256, ONE_CHAIN, true>(),
        prepare_cluster<1, 64, 6>(),
        cudaFuncSetAttribute(linear_small<2, true>, cudaFuncAttributeMaxDynamicSharedMemorySize, SIXTEEN_SHARED)};
    for (cudaError_t e : all)
        if (e)
            return e;
    return cudaSuccess;
}
