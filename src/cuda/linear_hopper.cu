// linear_hopper.cu - LINEAR for more than 8 tokens on sm_90a: which tile of linear_large.cuh (docs/LAYOUT.md has the figures).
#include "cuda/launch.cuh"
#include "cuda/linear.cuh"
#include "cuda/linear_cluster.cuh"

typedef CUresult encode_tiled(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                              const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                              CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// x [T, K] in boxes of 64 k x `box` tokens; what lies behind T is zero.
static cudaError_t token_map(const linear_args &a, int box, CUtensorMap *map)
{
    void *encode = nullptr;
    cudaDriverEntryPointQueryResult found;
    cudaError_t e =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found);
    if (e || !encode)
        return e ? e : cudaErrorNotSupported;
    cuuint64_t size[] = {(cuuint64_t)a.w.k, (cuuint64_t)a.tokens}, stride[] = {(cuuint64_t)a.w.k * 2};
    cuuint32_t shape[] = {LARGE_K, (cuuint32_t)box}, one[] = {1, 1};
    CUresult r = ((encode_tiled *)encode)(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void *)a.x, size, stride, shape,
                                          one, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                          CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return r == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

template <int GROUPS, int N, linear_form FORM> static cudaError_t run(const qr_cu_on *on, const linear_args &a)
{
    using shape = large_shape<GROUPS, N, FORM>;
    int row_tiles = ceil_div(a.w.rows, shape::rows), token_tiles = ceil_div(a.tokens, N);
    int units = row_tiles * token_tiles * (FORM == SPLIT ? a.w.cuts : 1), blocks = on->n_sm * shape::blocks;
    int band = row_tiles < 24 / GROUPS ? row_tiles : 24 / GROUPS;
    CUtensorMap map, narrow = {};
    cudaError_t e = token_map(a, N, &map);
    if (!e && FORM == ONE_CHAIN && N == 256)
        e = token_map(a, 64, &narrow);
    return e ? e
             : launch(on, linear_large<GROUPS, N, FORM>, units < blocks ? units : blocks, shape::threads, shape::shared,
                      a, map, narrow, band);
}

// C blocks a tile share its cuts.
template <int GROUPS, int N, int C> static cudaError_t run_cluster(const qr_cu_on *on, const linear_args &a)
{
    using shape = cluster_shape<GROUPS, N, C>;
    CUtensorMap map;
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute at[2] = {};
    cudaError_t e = token_map(a, N, &map);
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
    return cudaLaunchKernelEx(&c, linear_cluster<GROUPS, N, C>, a, map);
}

constexpr int SIXTEEN_SHARED = 200 * 1024; // bytes of 16 tokens

// K in cuts: few rows. Clusters where all of them find room at once.
static cudaError_t in_cuts(const qr_cu_on *on, const linear_args &a)
{
    int tiles = ceil_div(a.w.rows, 64);
    if (a.tokens <= 64)
        return a.w.cuts % 6 == 0 && tiles * 6 <= on->n_sm * 3 / 2 ? run_cluster<1, 64, 6>(on, a)
                                                                  : run<1, 64, SPLIT>(on, a);
    if (a.tokens <= 128)
        return a.w.cuts % 3 == 0 && tiles * 6 <= on->n_sm * 3 / 2 ? run_cluster<1, 64, 3>(on, a)
                                                                  : run<1, 128, SPLIT>(on, a);
    if (a.tokens <= 512 && a.w.k >= 4096)
        return run<2, 256, SPLIT>(on, a);
    return a.tokens <= LINEAR_SPLIT_TOKENS ? run<1, 64, CUT>(on, a) : run<2, 192, CUT>(on, a);
}

// Microseconds of the two forms for many tokens, from figures of K = 1,536 (docs/LAYOUT.md): a round of tiles costs as much when few are left.
static bool is_wide_better(const qr_cu_on *on, const linear_args &a)
{
    int high = ceil_div(a.w.rows, 192) * ceil_div(a.tokens, 128),
        wide = ceil_div(a.w.rows, 128) * ceil_div(a.tokens, 256);
    int left = wide % on->n_sm;
    int wide_us = wide / on->n_sm * 26 + (left == 0 ? 0 : left * 4 <= on->n_sm * 2 && left < wide ? 12 : 26);
    return wide_us < ceil_div(high, on->n_sm) * 20;
}

cudaError_t qr_cu_linear_hopper(const qr_cu_on *on, const linear_args &a)
{
    if (a.w.cuts > 1)
        return in_cuts(on, a);
    bool many = ceil_div(a.w.rows, 64) > 4 * on->n_sm;
    if (a.tokens <= 16 && a.w.k * 32 <= SIXTEEN_SHARED) {
        int strips = a.w.rows / 16;
        return launch(on, linear_small<2, true>, strips < on->n_sm ? strips : on->n_sm, 512, (size_t)a.w.k * 32, a);
    }
    if (a.tokens <= 64)
        return a.tokens <= 32 || many ? run<2, 64, ONE_CHAIN>(on, a) : run<1, 64, ONE_CHAIN>(on, a);
    return a.tokens <= 128 || !is_wide_better(on, a) ? run<3, 128, ONE_CHAIN>(on, a) : run<2, 256, ONE_CHAIN>(on, a);
}

template <int GROUPS, int N, linear_form FORM> static cudaError_t prepare()
{
    return cudaFuncSetAttribute(linear_large<GROUPS, N, FORM>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                large_shape<GROUPS, N, FORM>::shared);
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
        prepare<1, 64, CUT>(),
        prepare<2, 192, CUT>(),
        prepare<1, 64, ONE_CHAIN>(),
        prepare<2, 64, ONE_CHAIN>(),
        prepare<3, 128, ONE_CHAIN>(),
        prepare<2, 256, ONE_CHAIN>(),
        prepare_cluster<1, 64, 6>(),
        prepare_cluster<1, 64, 3>(),
        cudaFuncSetAttribute(linear_small<2, true>, cudaFuncAttributeMaxDynamicSharedMemorySize, SIXTEEN_SHARED)};
    for (cudaError_t e : all)
        if (e)
            return e;
    return cudaSuccess;
}
