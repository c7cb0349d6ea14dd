// decode_step.cu - a whole decode step of up to 8 sequences in one kernel (docs/KERNELS.md says how and why).
//
// Bytes: every weight once, keys and values once. One block a multiprocessor, all there at once: a cooperative launch.
#include "cuda/decode_attention.cuh"
#include "cuda/decode_norm.cuh"
#include "cuda/launch.cuh"

#if __CUDA_ARCH__ >= 900
constexpr uint64_t PATIENCE_NS = 1000000000; // of a wait

// The cuts of K that a block's chains [first, last) of a stage need.
struct k_range {
    int first, n; // tiles
};
static __device__ inline k_range range_of(const decode_block &d, int stage)
{
    const qr_decode_matrix &m = d.p.matrix[stage];
    const int *unit = d.r.s->share.unit[stage];
    if (unit[0] == unit[1])
        return {0, 0};
    int first = unit[0] / m.strips, last = (unit[1] - 1) / m.strips;
    return {first * m.chain, (last + 1 - first) * m.chain};
}

// Attention's results, as put_result leaves them, to d.staged: a pair of d an item.
template <int HEAD_DIM> static __device__ inline void stage_attention(decode_block &d, int layer, const k_range &k)
{
    constexpr int PAIRS = HEAD_DIM / 2, TILES = HEAD_DIM / 16;
    const int group = d.p.group, n = k.n * 8;
    for (int from = 0; from < n * d.p.n_token; from += MATH_THREADS) {
        int i = from + threadIdx.x, token = d.p.n_token == 1 ? 0 : i / n, pair = k.first * 8 + i - token * n;
        int head = pair / PAIRS, in_tile = pair % 8, h = head * d.p.group_inverse >> 16, j = head - h * group;
        int g = in_tile < 4 ? 2 * in_tile : 2 * in_tile - 7;
        bool mine = i < n * d.p.n_token;
        uint4 w[1];
        await_words(w, mine, d.tag(layer), d.r.s->until, [&](int) {
            return d.words(layer, d.p.at.y) +
                   ((size_t)(token * d.p.n_kv_head + h) * TILES + pair % PAIRS / 8) * 32 + g * 4 + j / 2;
        });
        if (mine)
            d.staged[token_word((pair - k.first * 8) * 2, d.p.n_token, token)] = j % 2 ? w[0].y : w[0].x;
    }
    meet_math();
}

// The MLP's activations to d.staged: two pairs an item.
static __device__ inline void stage_mlp(decode_block &d, int layer, const k_range &k)
{
    const int n = k.n * 4, row = d.p.matrix[QR_DECODE_DOWN].k16 * 4;
    for (int from = 0; from < n * d.p.n_token; from += 2 * MATH_THREADS) {
        uint4 w[2];
        const int total = n * d.p.n_token, i0 = from + threadIdx.x, i1 = i0 + MATH_THREADS;
        unsigned need = (i0 < total ? 1 : 0) | (i1 < total ? 2 : 0);
        const int t0 = d.p.n_token == 1 ? 0 : i0 / n, t1 = d.p.n_token == 1 ? 0 : i1 / n;
        const uint4 *words = d.words(layer, d.p.at.act) + k.first * 4;
        await_words(w, need, d.tag(layer), d.r.s->until,
                    [&](int e) { return words + (e ? t1 * (row - n) + i1 : t0 * (row - n) + i0); });
#pragma unroll
        for (int e = 0; e < 2; e++)
            if (need >> e & 1) {
                int token = e ? t1 : t0, i = (e ? i1 : i0) - token * n;
                uint32_t *to = d.staged + token_word(i * 4, d.p.n_token, token);
                to[0] = w[e].x;
                to[2] = w[e].y;
            }
    }
    meet_math();
}

// 8 rows of gate and the same of up: gate's lie in lanes 0-15, up's in 16-31. A word: activations 4 (g / 2) .. + 3 of the 8.
static __device__ inline void put_gated(const decode_block &d, int layer, uint32_t at, const float (&sum)[4])
{
    uint32_t pair[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float up0 = __shfl_xor_sync(~0u, sum[i], 16), up1 = __shfl_xor_sync(~0u, sum[i + 2], 16);
        pair[i] = pack_bf16(silu(sum[i]) * up0, silu(sum[i + 2]) * up1);
    }
    const int odd = d.g % 2, token = 2 * d.t + odd;
    uint32_t other = __shfl_xor_sync(~0u, odd ? pair[0] : pair[1], 4);
    if (d.g < 4 && token < d.p.n_token)
        put_word(d.words(layer, d.p.at.act) + token * d.p.matrix[QR_DECODE_DOWN].k16 * 4 + at + d.g / 2,
                 odd ? other : pair[0], odd ? pair[1] : other, d.tag(layer));
}

static __device__ inline void put_logits(const decode_block &d, int unit, const float (&sum)[4])
{
    const int row = unit * 16 + 2 * d.g;
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (2 * d.t + e % 2 < d.p.n_token && row + e / 2 < d.p.n_vocab)
            d.p.logits[(size_t)(2 * d.t + e % 2) * d.p.n_vocab + row + e / 2] = sum[e];
}

// A stage's units, a warp each. All stages pass here, so that there is one loop of products: what differs from stage to stage is
// small, and code that runs once a layer comes from L2.
template <bool EVEN> static __device__ __forceinline__ void run_units(decode_block &d, int layer, int stage, const uint32_t *x)
{
    const qr_decode_matrix &m = d.p.matrix[stage];
    const bool whole = stage == QR_DECODE_UP || stage == QR_DECODE_HEAD, halves = stage == QR_DECODE_UP;
    const int tiles = opaque(whole ? m.k16 : m.chain), each = pieces_of(tiles), chain = opaque(m.chain);
    const int lane_at = halves ? d.lane / 16 * (SLOT / 2) + d.lane % 16 * 16 : d.lane * 16, tile_bytes = halves ? 256 : 512;
    const int begin = d.r.s->share.unit[stage][0], n = d.r.s->share.unit[stage][1] - begin;
    for (int first = 0; first < n; first += MATH) {
        const int side = min(MATH, n - first);
        if (d.warp < side) {
            const uint2 unit = stage == QR_DECODE_HEAD ? make_uint2(0, begin + first + d.warp)
                                                       : d.r.s->unit[d.r.s->first_unit[stage] + first + d.warp];
            float sum[4];
            unit_math<EVEN>{d.r, d.lane, lane_at, tile_bytes, x + unit.x, d.p.n_token}.run(behind(d.r, d.base, d.warp), side, tiles,
                                                                                          chain, sum);
            if (stage == QR_DECODE_UP)
                put_gated(d, layer, unit.y, sum);
            else if (stage == QR_DECODE_HEAD)
                put_logits(d, unit.y, sum);
            else
                put_partial(d, layer, stage, unit.y, sum);
        }
        d.base = behind(d.r, d.base, side * each);
    }
}

enum { TICK_ATTENTION = 2 * QR_DECODE_STAGES };

template <int HEAD_DIM, int EACH, bool EVEN>
static __device__ __forceinline__ void run_math(decode_block &d, decode_shared<HEAD_DIM> &s)
{
    const k_range k_o = range_of(d, QR_DECODE_O), k_down = range_of(d, QR_DECODE_DOWN);
    const int *cuts = s.ring.share.attention;
    d.tick(-1);
    for (int turn = 0; turn <= 4 * d.p.n_layer; turn++) {
        const int l = turn / 4, stage = l == d.p.n_layer ? QR_DECODE_HEAD : turn % 4;
        const uint32_t *x = d.x;
        if (stage == QR_DECODE_O) {
            for (int u = cuts[0]; u < cuts[1]; u++)
                attend<HEAD_DIM>(d, s, l, u, u == cuts[0]);
            d.tick(TICK_ATTENTION);
            stage_attention<HEAD_DIM>(d, l, k_o);
            x = d.staged;
        } else if (stage == QR_DECODE_DOWN) {
            stage_mlp(d, l, k_down);
            x = d.staged;
        } else {
            const float *scale = stage == QR_DECODE_HEAD ? d.p.norm_out
                                                         : d.p.vectors + (stage == QR_DECODE_UP ? d.layer(l).norm_mlp
                                                                                                : d.layer(l).norm_attention);
            stage_norm<EACH>(d, s.part, d.words(l, stage == QR_DECODE_UP ? d.p.at.x_mid : d.p.at.x_next), d.tag(l), scale);
        }
        d.tick(2 * stage);
        run_units<EVEN>(d, l, stage, x);
        d.tick(2 * stage + 1);
    }
}

// The adding warp: x of its (strip, token) items, 8 lanes each, kept in `x` from layer to layer. Its first words are embeddings.
template <int HEAD_DIM> static __device__ __forceinline__ void run_add(decode_block &d, float2 *x)
{
    const int strips = d.p.matrix[QR_DECODE_O].strips, items = strips * d.p.n_token, row = d.p.n_embd / 2;
    const int rounds = (items - (int)blockIdx.x + (int)gridDim.x * 4 - 1) / ((int)gridDim.x * 4), g = d.lane % 8;
    for (int turn = -1; turn < 2 * d.p.n_layer; turn++) {
        const int l = turn >> 1, stage = turn % 2 ? QR_DECODE_DOWN : QR_DECODE_O; // turn -1: embeddings, x of layer 0
        const float *bias = turn < 0 ? nullptr : d.vector(stage == QR_DECODE_O ? d.layer(l).bias_o : d.layer(l).bias_down);
        uint4 *to = stage == QR_DECODE_O ? d.words(l, d.p.at.x_mid) : d.words(l + 1, d.p.at.x_next);
        const uint32_t tag = d.tag(stage == QR_DECODE_O ? l : l + 1);
        if (turn >= 0 && stage == QR_DECODE_O)
            merge_all<HEAD_DIM>(d, l);
        for (int i = 0; i < rounds; i++) {
            const int item = (int)blockIdx.x + (i * 4 + d.lane / 8) * (int)gridDim.x;
            const int token = d.p.n_token == 1 ? 0 : item / strips;
            const int strip = item - token * strips;
            const bool mine = item < items;
            float2 v = x[i * 32 + d.lane];
            if (turn < 0) {
                float4 e = mine ? embedded(d.p, token, strip * 16 + g / 2 * 4) : make_float4(0, 0, 0, 0);
                v = g % 2 ? make_float2(e.z, e.w) : make_float2(e.x, e.y);
            } else {
                const uint4 *const from[1] = {d.partial(l, stage, strip, 0, token) + g};
                float2 sum[1];
                add_partials<1, 12>(d, l, stage, from, mine, sum);
                float2 r = sum[0];
                if (bias && mine) {
                    r.x += bias[strip * 16 + 2 * g];
                    r.y += bias[strip * 16 + 2 * g + 1];
                }
                v = make_float2(v.x + r.x, v.y + r.y);
            }
            x[i * 32 + d.lane] = v;
            if (mine)
                put_word(to + token * row + strip * 8 + g, v.x, v.y, tag);
        }
    }
}
#endif

static __host__ __device__ inline int align_to(int n, int to)
{
    return (n + to - 1) / to * to;
}
// Bytes before the ring, then behind it: tokens of the norm, tokens of attention or the MLP, what the adding warp keeps.
template <int HEAD_DIM> static __host__ __device__ constexpr int fixed_bytes()
{
    return (sizeof(decode_shared<HEAD_DIM>) + 127) / 128 * 128;
}
static __host__ __device__ inline int norm_bytes(const qr_decode_args &p)
{
    return align_to(p.n_embd * p.n_token * 2, 128);
}
static __host__ __device__ inline int staged_bytes(const qr_decode_args &p)
{
    return align_to(p.stage_k * p.n_token * 2, 128);
}
static __host__ __device__ inline int kept_bytes(const qr_decode_args &p)
{
    int items = p.matrix[QR_DECODE_O].strips * p.n_token;
    return (items + p.n_block * 4 - 1) / (p.n_block * 4) * 32 * 8;
}

template <int HEAD_DIM, int EACH, bool EVEN>
static __global__ void __launch_bounds__(BLOCK_THREADS, 1) decode_step(const __grid_constant__ qr_decode_args p,
                                                                      const __grid_constant__ CUtensorMap map)
{
#if __CUDA_ARCH__ >= 900
    extern __shared__ __align__(1024) char memory[];
    decode_shared<HEAD_DIM> &s = *(decode_shared<HEAD_DIM> *)memory;
    char *slots = memory + fixed_bytes<HEAD_DIM>(), *at = slots + p.n_slot * SLOT;
    uint32_t *x = (uint32_t *)at, *staged = (uint32_t *)(at += norm_bytes(p));
    float2 *kept = (float2 *)(at + staged_bytes(p));
    ring_shared &r = s.ring;
    if (threadIdx.x == 0) {
        for (int i = 0; i < p.n_slot; i++) {
            barrier_init(&r.full[i], 1);
            barrier_init(&r.empty[i], 1);
        }
        barrier_init_done();
        r.until.deadline = clock_ns() + PATIENCE_NS;
        r.until.status = p.status;
        r.until.ended = 0;
    }
    if (threadIdx.x < sizeof(qr_decode_share) / 4)
        ((int *)&r.share)[threadIdx.x] = ((const int *)&p.share[blockIdx.x])[threadIdx.x];
    for (int i = threadIdx.x; i < QR_DECODE_TOKENS * 16; i += BLOCK_THREADS)
        s.part[i / 16][i % 16] = 0;
    for (int i = threadIdx.x; i < HEAD_DIM / 16 * 64; i += BLOCK_THREADS)
        (&s.q[0][0][0])[i] = 0;
    __syncthreads();
    make_list(p, r);
    __syncthreads();
    int lane; // kept, not asked for again and again in the loop of products
    asm volatile("mov.u32 %0,%%laneid;" : "=r"(lane));
    const int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    decode_block d{p, {slots, &r, p.n_slot}, x, staged, warp, lane, lane / 4, lane % 4, {0, 0}, 0};
    if (warp == FETCH_WARP) {
        fetch{p, &map, d.r, PAGE_TOKENS * HEAD_DIM * 2, 0}.run();
    } else if (warp == ADD_WARP) {
        run_add<HEAD_DIM>(d, kept);
    } else {
        run_math<HEAD_DIM, EACH, EVEN>(d, s);
    }
#endif
}

extern "C" int qr_cu_decode_has(int head_dim)
{
    return head_dim == 64 || head_dim == 128;
}

extern "C" int qr_cu_decode_shared(const struct qr_decode_args *a, int head_dim)
{
    return norm_bytes(*a) + staged_bytes(*a) + kept_bytes(*a) +
           (head_dim == 64 ? fixed_bytes<64>() : fixed_bytes<128>());
}

typedef CUresult encode_tiled(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                              const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                              CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// All weights as [tiles][2 halves of 8 rows][64 words], in boxes of one half of 8 tiles.
extern "C" cudaError_t qr_cu_decode_map(const void *tiles, uint64_t bytes, struct qr_decode_map *map)
{
    void *encode = nullptr;
    cudaDriverEntryPointQueryResult found;
    cudaError_t e = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found);
    if (e || !encode)
        return e ? e : cudaErrorNotSupported;
    cuuint64_t size[] = {64, 2, bytes / 512}, stride[] = {256, 512};
    cuuint32_t box[] = {64, 1, PIECE}, one[] = {1, 1, 1};
    CUresult r = ((encode_tiled *)encode)((CUtensorMap *)map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 3, (void *)tiles, size, stride,
                                          box, one, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                          CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return r == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// Chains of whole pieces, or of any length.
typedef void decode_kernel(qr_decode_args, CUtensorMap);
static decode_kernel *kernel_for(const qr_decode_args *a, int head_dim)
{
    bool even = true;
    for (int i = 0; i < QR_DECODE_STAGES; i++)
        even = even && a->matrix[i].k16 % PIECE == 0 && a->matrix[i].chain % PIECE == 0;
    if (head_dim == 64)
        return even ? decode_step<64, 1, true> : decode_step<64, 1, false>;
    return even ? decode_step<128, 1, true> : decode_step<128, 1, false>;
}

extern "C" cudaError_t qr_cu_prepare_decode(const struct qr_decode_args *a, int head_dim, int shared, int *blocks)
{
    decode_kernel *kernel = kernel_for(a, head_dim);
    cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    return e ? e : cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, BLOCK_THREADS, shared);
}

extern "C" cudaError_t qr_cu_run_decode(const struct qr_cu_on *on, int head_dim, int shared,
                                        const struct qr_decode_map *map, const struct qr_decode_args *a)
{
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute together = {};
    c.gridDim = a->n_block;
    c.blockDim = BLOCK_THREADS;
    c.dynamicSmemBytes = shared;
    c.stream = on->stream;
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    c.attrs = &together;
    c.numAttrs = 1;
    return cudaLaunchKernelEx(&c, kernel_for(a, head_dim), *a, *(const CUtensorMap *)map);
}
