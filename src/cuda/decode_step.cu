// decode_step.cu - a whole decode step of up to 8 sequences in one kernel (docs/KERNELS.md says how and why).
//
// Bytes: every weight once, keys and values once. One block a multiprocessor, all there at once: a cooperative launch.
#include "cuda/decode_add.cuh"
#include "cuda/decode_cuts.cuh"
#include "cuda/decode_fetch.cuh"
#include "cuda/decode_norm.cuh"
#include "cuda/decode_quads.cuh"
#include "cuda/launch.cuh"

#if __CUDA_ARCH__ >= 900
// Tokens of cut `cut` of o or down, from words of 4 k, to the warp's part of d.staged. By one warp.
static __device__ __forceinline__ const uint32_t *stage_chain(const decode_block &d, int layer, int stage, int cut)
{
    const qr_decode_matrix &m = d.p.matrix[stage];
    constexpr int N = 8;
    const int n = m.chain * 4, tokens = d.n_token;
    uint32_t *const chain = d.staged + d.warp * n * 2 * tokens,
                    *to = chain + d.lane / 4 * tokens * 8 + quad_word(d.lane % 4);
    const uint4 *from = d.words(layer, stage == QR_DECODE_O ? d.p.at.y : d.p.at.act) + cut * n;
    if (stage == QR_DECODE_DOWN)
        await_one(from + (blockIdx.x % 256) * n / 256, d.tag(layer), d.r.s->until);
    from += d.lane;
    for (int token = 0; token < tokens; token++, from += m.k16 * 4, to += 8)
        for (int first = 0; first < n; first += N * 32) {
            const int left = n - first - d.lane;
            uint4 w[N];
            unsigned need = 0;
#pragma unroll
            for (int i = 0; i < N; i++)
                need |= i * 32 < left ? 1u << i : 0;
            await_words(w, need, d.tag(layer), d.r.s->until, [&](int i) { return from + first + i * 32; });
#pragma unroll
            for (int i = 0; i < N; i++)
                if (i * 32 < left) {
                    uint32_t *word = to + (first / 4 + i * 8) * tokens * 8;
                    word[0] = w[i].x;
                    word[2] = w[i].y;
                }
        }
    __syncwarp();
    d.mark(layer, stage == QR_DECODE_O ? QR_DECODE_AT_Y : QR_DECODE_AT_ACT);
    return chain;
}

// A strip of gate with its strip of up, which is the next unit: words of 4 neighbouring activations.
static __device__ inline void put_gated(const decode_block &d, int layer, int unit, const float (&sum)[4])
{
    const int odd = d.g % 2, token = 2 * d.t + odd, strip = d.r.s->share.strip[QR_DECODE_UP][0] + unit / 2;
    uint32_t pair[2];
    gated_pairs(d, unit, sum, pair);
    const uint32_t other = __shfl_xor_sync(~0u, odd ? pair[0] : pair[1], 4);
    if (token < d.n_token)
        put_word(d.words(layer, d.p.at.act) + (token * d.p.matrix[QR_DECODE_DOWN].k16 + strip) * 4 + d.g / 2,
                 odd ? other : pair[0], odd ? pair[1] : other, d.tag(layer));
}

static __device__ inline void put_logits(const decode_block &d, int unit, const float (&sum)[4])
{
    const int row = (d.r.s->share.strip[QR_DECODE_HEAD][0] + unit) * 16 + 2 * d.g;
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (2 * d.t + e % 2 < d.n_token && row + e / 2 < d.p.n_vocab)
            d.p.logits[(size_t)(2 * d.t + e % 2) * d.p.n_vocab + row + e / 2] = sum[e];
}

// A stage's units, a warp each. All stages pass here, so that there is one loop of products: what differs from stage to stage is
// small, and code that runs once a layer comes from L2.
template <bool PACKED, bool MANY>
static __device__ __forceinline__ void run_units(decode_block &d, int layer, int stage)
{
    const qr_decode_matrix &m = d.p.matrix[stage];
    const bool whole = stage == QR_DECODE_UP || stage == QR_DECODE_HEAD,
               staged = stage == QR_DECODE_O || stage == QR_DECODE_DOWN;
    const int tiles = opaque(whole ? m.k16 : m.chain), each = PACKED ? pieces_of(m, whole) : pieces_of(tiles),
              n = d.r.s->units[stage];
    for (int first = 0; first < n; first += MATH) {
        const int side = min(MATH, n - first), unit = first + d.warp;
        if (d.warp < side) {
            const int cut = first ? unit % m.cuts : d.r.s->cut_of[stage][d.warp];
            const uint32_t *x = whole || staged ? d.x : d.x + cut * m.chain * d.n_token * 8;
            float sum[4];
            if (!MANY && staged)
                x = stage_chain(d, layer, stage, cut);
            const ring_place at = behind(d.r, d.base, d.warp);
            if constexpr (MANY) {
                if (staged) {
                    const bool o = stage == QR_DECODE_O;
                    word_math{d, layer, o ? QR_DECODE_AT_Y : QR_DECODE_AT_ACT}.run(
                        d.many(layer, o ? d.p.many.y : d.p.many.act) + cut * tiles / 2 * word_math::NEXT, tiles / 2, at,
                        side, sum);
                } else
                    pair_math{d.r, d.lane}.run(d.x, d.n_token, whole ? 0 : cut * tiles, at, side, tiles, m.chain, sum);
            } else if constexpr (PACKED)
                run_quads(d.r, d.lane, x, d.n_token, m, at, side, whole ? 0 : cut * tiles / 4, tiles / 4, sum);
            else
                unit_math{d.r, d.lane, x, d.n_token}.run(at, side, tiles, m.chain, sum);
            d.mark(layer, stage == QR_DECODE_QKV  ? QR_DECODE_AT_QKV
                          : stage == QR_DECODE_O  ? QR_DECODE_AT_O
                          : stage == QR_DECODE_UP ? QR_DECODE_AT_UP
                                                  : QR_DECODE_AT_DOWN);
            if (stage == QR_DECODE_HEAD) {
                put_logits(d, unit, sum);
            } else if (stage != QR_DECODE_UP) {
                d.put_sum(d.sums_of(stage), unit, sum);
            } else {
                if (d.warp % 2)
                    d.put_sum(d.sums_of(stage), unit, sum);
                meet(FIRST_PAIR + d.warp / 2, 64);
                if (d.warp % 2 == 0) {
                    if constexpr (MANY)
                        put_gated_many(d, layer, unit, sum);
                    else
                        put_gated(d, layer, unit, sum);
                }
                d.mark(layer, QR_DECODE_AT_GATED);
            }
        }
        d.base = behind(d.r, d.base, side * each);
    }
    if (DEBUGGED && !whole && d.warp < n)
        meet(BARRIER_ADD, adding_threads(n)); // racecheck does not see what bar.arrive orders
    else if (!whole && d.warp < n)
        pass(BARRIER_ADD, adding_threads(n));
}

// The first exchange to which a stage leads, attention being a part of o's; the head's result comes where the next layer's qkv would.
static __device__ __forceinline__ int exchange_of(int stage)
{
    return stage == QR_DECODE_O      ? QR_DECODE_GIVES_Y
           : stage == QR_DECODE_UP   ? QR_DECODE_GIVES_ACT
           : stage == QR_DECODE_DOWN ? QR_DECODE_EXCHANGES
                                     : QR_DECODE_GIVES_QKV;
}

// Where the kernel ends early: when nobody of the block has anything left to do, the warps that fetch may end too. By those that do not.
template <bool LONG> static __device__ __forceinline__ void end_debugged(ring_shared &s)
{
    meet(BARRIER_END, MATH_THREADS + 32 + (LONG ? 32 : 0));
    if (threadIdx.x == 0)
        poke(s.until.ended, 1);
}

template <int HEAD_DIM, bool PACKED, bool LONG, bool MANY>
static __device__ __forceinline__ void run_math(decode_block &d, decode_shared<HEAD_DIM> &s)
{
    const qr_decode_share &share = s.ring.share;
    const int *cuts = share.attention;
    for (int turn = 0; turn <= 4 * d.p.n_layer; turn++) {
        const int l = turn / 4, stage = l == d.p.n_layer ? QR_DECODE_HEAD : turn % 4;
        if (is_behind_last(d.p, l, exchange_of(stage)))
            break;
        if (stage == QR_DECODE_O || stage == QR_DECODE_DOWN) {
            meet_stage(); // sums and tokens of the stage before lie where this one's will
            if (LONG && stage == QR_DECODE_O)
                attend_cuts<HEAD_DIM, MANY>(d, s, l);
            for (int u = cuts[0]; !LONG && stage == QR_DECODE_O && u < cuts[1]; u++)
                attend<HEAD_DIM, MANY>(d, s, l, u, u == cuts[0]);
            if (stage == QR_DECODE_O && is_behind_last(d.p, l, QR_DECODE_GIVES_X_MID))
                break;
        } else {
            const bool up = stage == QR_DECODE_UP;
            const float *scale = stage == QR_DECODE_HEAD
                                     ? d.p.norm_out
                                     : d.p.vectors + (up ? d.layer(l).norm_mlp : d.layer(l).norm_attention);
            const int *keep = share.strip[up ? QR_DECODE_DOWN : QR_DECODE_O];
            float *kept = d.kept_of(up ? QR_DECODE_DOWN : QR_DECODE_O);
            const int mark = up ? QR_DECODE_AT_X_MID : QR_DECODE_AT_X;
            if constexpr (MANY) {
                stage_many(d, s.part, d.many(l, up ? d.p.many.x_mid : d.p.many.x_next), l, scale, keep, kept, mark);
                if (!up)
                    clear_words(d, l);
            } else {
                stage_norm(d, s.part, d.words(l, up ? d.p.at.x_mid : d.p.at.x_next), l, scale, keep, kept, mark);
            }
        }
        run_units<PACKED, MANY>(d, l, stage);
    }
}
#endif

static __host__ __device__ inline int align_to(int n, int to)
{
    return (n + to - 1) / to * to;
}
// Bytes before the ring, then behind it: tokens of the norm, tokens of attention or the MLP, units' sums, and x of the block's strips. With
// decode_many.cuh attention lies where the norm's tokens do, and there are none of the MLP.
template <int HEAD_DIM> static __host__ __device__ constexpr int fixed_bytes()
{
    return (sizeof(decode_shared<HEAD_DIM>) + 127) / 128 * 128;
}
static __host__ __device__ inline bool is_many(const qr_decode_args &p)
{
    return p.n_token > 1 && !p.packed;
}
template <int HEAD_DIM> static __host__ __device__ inline int attention_bytes(const qr_decode_args &p)
{
    return p.is_long ? sizeof(cuts_shared<HEAD_DIM>) : sizeof(attention_shared<HEAD_DIM>);
}
template <int HEAD_DIM> static __host__ __device__ inline int norm_bytes(const qr_decode_args &p)
{
    const int n = p.n_embd * (is_many(p) ? p.n_token + p.n_token % 2 : p.n_token) * 2,
              attention = is_many(p) ? attention_bytes<HEAD_DIM>(p) : 0;
    return align_to(n > attention ? n : attention, 128);
}
template <int HEAD_DIM> static __host__ __device__ inline int staged_bytes(const qr_decode_args &p)
{
    if (is_many(p))
        return 0;
    int n = p.stage_k * p.n_token * 2, attention = attention_bytes<HEAD_DIM>(p);
    return align_to(n > attention ? n : attention, 128);
}
static __host__ __device__ inline int sum_bytes(const qr_decode_args &p)
{
    return 2 * p.max_units * p.n_token * 64;
}
static __host__ __device__ inline int kept_bytes(const qr_decode_args &p)
{
    return p.max_strips * p.n_token * 64;
}
template <int HEAD_DIM> static int shared_bytes(const qr_decode_args &p)
{
    return fixed_bytes<HEAD_DIM>() + norm_bytes<HEAD_DIM>(p) + staged_bytes<HEAD_DIM>(p) + sum_bytes(p) +
           2 * kept_bytes(p);
}

// ONE: there is one token, which saves much of the arithmetic on addresses. PACKED: some matrices are quantised. LONG: there
// are many cuts to merge.
template <int HEAD_DIM, bool ONE, bool PACKED, bool LONG>
static __global__ void __launch_bounds__(LONG ? LONG_THREADS : BLOCK_THREADS, 1)
    decode_step(const __grid_constant__ qr_decode_args p)
{
#if __CUDA_ARCH__ >= 900
    constexpr bool MANY = !ONE && !PACKED;
    extern __shared__ __align__(1024) char memory[];
    decode_shared<HEAD_DIM> &s = *(decode_shared<HEAD_DIM> *)memory;
    char *slots = memory + fixed_bytes<HEAD_DIM>(), *x = slots + p.n_slot * SLOT,
         *staged = MANY ? x : x + norm_bytes<HEAD_DIM>(p);
    char *sums = MANY ? x + norm_bytes<HEAD_DIM>(p) : staged + staged_bytes<HEAD_DIM>(p), *kept = sums + sum_bytes(p);
    ring_shared &r = s.ring;
    if (threadIdx.x == 0) {
        for (int i = 0; i < p.n_slot; i++) {
            barrier_init(&r.full[0][i], 1);
            barrier_init(&r.full[1][i], 1);
            barrier_init(&r.empty[i], GIVE_BACK_ARRIVALS);
        }
        barrier_init_done();
        r.issued = r.rests = 0;
        r.until.deadline = clock64() + PATIENCE;
        r.until.status = p.status;
        r.until.ended = 0;
    }
    if (threadIdx.x < sizeof(qr_decode_share) / 4)
        ((int *)&r.share)[threadIdx.x] = ((const int *)&p.share[blockIdx.x])[threadIdx.x];
    for (int i = threadIdx.x; i < QR_DECODE_TOKENS * 16; i += BLOCK_THREADS)
        s.part[i / 16][i % 16] = 0;
    for (int i = threadIdx.x; i < p.n_token * HEAD_DIM / 2; i += BLOCK_THREADS) {
        const int token = i / (HEAD_DIM / 2), pair = i % (HEAD_DIM / 2);
        const size_t at = (size_t)p.position[token] * (HEAD_DIM / 2) + pair;
        s.turn[token][pair] = make_float2(p.cos[at], p.sin[at]);
    }
    __syncthreads();
    make_list<PACKED>(p, r);
    __syncthreads();
    int lane; // kept, not asked for again and again in the loop of products
    asm volatile("mov.u32 %0,%%laneid;" : "=r"(lane));
    if (LONG || MANY) // one that comes out of a shuffle ptxas keeps
        lane = __shfl_sync(~0u, lane, lane);
    int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    // A stage often has ten units, three on two of the four schedulers: not on those of the warps that fetch. (Several sequences gain nothing.)
    if (ONE && warp < MATH)
        warp ^= 2;
    decode_block d{p,
                   ONE ? 1 : p.n_token,
                   {slots, &r, p.n_slot},
                   (uint32_t *)x,
                   (uint32_t *)staged,
                   (float *)sums,
                   (float *)kept,
                   warp,
                   lane,
                   lane / 4,
                   lane % 4,
                   {0, 0}};
    if (warp == FETCH_WARP)
        fetch<PACKED>{p, d.r, PAGE_TOKENS * HEAD_DIM * 2}.fill();
    else if (warp == AHEAD_WARP)
        fetch<PACKED>{p, d.r, PAGE_TOKENS * HEAD_DIM * 2}.run_ahead();
    else if (warp == ADD_WARP)
        run_add<HEAD_DIM, PACKED, LONG, MANY>(d, s);
    else if (LONG && warp == MERGE_WARP)
        run_merge<HEAD_DIM, MANY>(p, s);
    else
        run_math<HEAD_DIM, PACKED, LONG, MANY>(d, s);
    if (DEBUGGED && warp != FETCH_WARP && warp != AHEAD_WARP)
        end_debugged<LONG>(r);
#endif
}

extern "C" int qr_cu_decode_has(int head_dim)
{
    return head_dim == 64 || head_dim == 128;
}

extern "C" int qr_cu_decode_shared(const struct qr_decode_args *a, int head_dim)
{
    return head_dim == 64 ? shared_bytes<64>(*a) : shared_bytes<128>(*a);
}

typedef void decode_kernel(qr_decode_args);
template <int HEAD_DIM, bool PACKED> static decode_kernel *kernel_of(bool one, bool is_long)
{
    if (is_long)
        return one ? decode_step<HEAD_DIM, true, PACKED, true> : decode_step<HEAD_DIM, false, PACKED, true>;
    return one ? decode_step<HEAD_DIM, true, PACKED, false> : decode_step<HEAD_DIM, false, PACKED, false>;
}
static decode_kernel *kernel_for(int head_dim, bool one, bool packed, bool is_long)
{
    if (head_dim == 64)
        return packed ? kernel_of<64, true>(one, is_long) : kernel_of<64, false>(one, is_long);
    return packed ? kernel_of<128, true>(one, is_long) : kernel_of<128, false>(one, is_long);
}

extern "C" cudaError_t qr_cu_prepare_decode(int head_dim, int packed, int shared, int *blocks)
{
    for (int form = 0; form < 4; form++) {
        decode_kernel *kernel = kernel_for(head_dim, form % 2, packed, form / 2);
        cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
        const int threads = form / 2 ? LONG_THREADS : BLOCK_THREADS;
        e = e ? e : cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, shared);
        if (e || *blocks < 1)
            return e;
    }
    return cudaSuccess;
}

extern "C" cudaError_t qr_cu_run_decode(const struct qr_cu_on *on, int head_dim, int shared,
                                        const struct qr_decode_args *a)
{
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute together = {};
    c.gridDim = a->n_block;
    c.blockDim = a->is_long ? LONG_THREADS : BLOCK_THREADS;
    c.dynamicSmemBytes = shared;
    c.stream = on->stream;
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    c.attrs = &together;
    c.numAttrs = 1;
    return cudaLaunchKernelEx(&c, kernel_for(head_dim, a->n_token == 1, a->packed, a->is_long), *a);
}
