// attention_stream.cu - ATTENTION of many decoding sequences on sm_90: what matters is that pages never stop coming.
//
// Units are those of attention_few.cu, whole contexts for the most part. One warp copies their pages into a ring, ahead over cuts
// and units; eight multiply as attention_decode.cuh does: 16 tokens of K as rows against 8 pairs, then a tile of 16 d of V. Cuts
// are merged in registers. Two blocks a multiprocessor, so that one multiplies while the other waits for its own warps.
// A unit of more than 8 pairs goes through twice. Keys and values in bf16, heads of 64 or 128, no window, no soft cap.
//
// Bytes: 4 head_dim per token of context and KV head, and as much again for pairs 8 to 15.
#include "cuda/attention_unit.cuh"

constexpr int STREAM_THREADS = WARPS * 32 + 32, STREAM_BLOCKS = 2;
template <int HEAD_DIM> struct stream_shared {
    static constexpr int page = PAGE_TOKENS * HEAD_DIM * 2, stage = STAGE_PAGES * page, stages = 96 * 1024 / stage;
    char ring[stages][stage];
    uint2 p[STEPS][32];
    float high[WARPS][8];
    uint64_t full[stages], empty[stages];
    unsigned before;
};

template <int HEAD_DIM>
static __global__ void __launch_bounds__(STREAM_THREADS, STREAM_BLOCKS)
    attention_stream(const __grid_constant__ qr_cu_attention a)
{
#if __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) char raw[];
    using shared = stream_shared<HEAD_DIM>;
    constexpr int STAGES = shared::stages, TILES = HEAD_DIM / 16, PAGE = shared::page;
    shared &s = *(shared *)raw;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int group = a.n_head / a.n_kv_head, n_unit = a.max_few * a.n_kv_head;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(s.full + i, 1);
            barrier_init(s.empty + i, WARPS * 32); // every thread that reads
        }
        barrier_init_done();
    }
    __syncthreads();
    begin();
    int at = 0, turn = 0;
    auto advance = [&]() {
        if (++at == STAGES) {
            at = 0;
            turn++;
        }
    };
    if (warp == WARPS) {
        const int table_stride = a.count[2];
        for (int u = blockIdx.x; u < n_unit; u += gridDim.x) {
            const qr_cu_item item = a.few[u / a.n_kv_head];
            if (item.n_pair == 0)
                return; // padding, and so is all that follows
            const int kv_head = u % a.n_kv_head, last = (item.first + (item.n_pair - 1) / group) / PAGE_TOKENS;
            const int cut_first = max(item.cut, 0), cut_last = item.cut < 0 ? last / STEPS : item.cut;
            const int *table = a.table + (size_t)item.sequence * table_stride;
            for (int pass = 0; pass < item.n_pair; pass += 8)
                for (int cut = cut_first; cut <= cut_last; cut++) {
                    const int block = lane < STEPS && cut * STEPS + lane <= last ? table[cut * STEPS + lane] : 0;
                    for (int i = 0; i < 2 * STEPS / STAGE_PAGES; i++) {
                        const int first = i * STAGE_PAGES % STEPS,
                                  here = max(0, min(STAGE_PAGES, last + 1 - cut * STEPS - first));
                        const size_t mine =
                            (size_t)__shfl_sync(~0u, block, first + lane % STAGE_PAGES) * a.n_kv_head + kv_head;
                        barrier_wait(s.empty + at, (turn & 1) ^ 1);
                        if (lane == 0)
                            barrier_expect(s.full + at, here * PAGE);
                        __syncwarp();
                        if (lane < here)
                            copy_bulk(s.ring[at] + lane * PAGE,
                                      (i * STAGE_PAGES < STEPS ? a.k_pages : a.v_pages) + mine * PAGE, PAGE,
                                      s.full + at);
                        advance();
                    }
                }
        }
        return;
    }
    const float c = a.scale * 1.4426950408889634f;
    const uint4 ones = make_uint4(BF16_ONES, BF16_ONES, BF16_ONES, BF16_ONES);
    for (int u = blockIdx.x; u < n_unit; u += gridDim.x) {
        const qr_cu_item item = a.few[u / a.n_kv_head];
        if (item.n_pair == 0)
            return;
        const int kv_head = u % a.n_kv_head, last = item.first + (item.n_pair - 1) / group;
        const int cut_first = max(item.cut, 0), cut_last = item.cut < 0 ? last / CUT_TOKENS : item.cut;
        // Row and first column of pair n of the unit, in a matrix of [tokens, n_head * HEAD_DIM].
        auto row_of = [&](int n) { return (size_t)(item.row + n / group); };
        auto column_of = [&](int n) { return (kv_head * group + n % group) * HEAD_DIM; };
        for (int pass = 0; pass < item.n_pair; pass += 8) {
            uint32_t q[TILES][2];
            {
                const int n = min(pass + g, item.n_pair - 1);
                const uint32_t *from =
                    (const uint32_t *)((const uint16_t *)a.q + row_of(n) * a.n_head * HEAD_DIM + column_of(n)) + t;
#pragma unroll
                for (int j = 0; j < TILES; j++) // k 2t, 2t + 1 and 2t + 8, 2t + 9 of each 16
                    q[j][0] = from[j * 8], q[j][1] = from[j * 8 + 4];
            }
            int position[2];
#pragma unroll
            for (int e = 0; e < 2; e++)
                position[e] = item.first + min(pass + 2 * t + e, item.n_pair - 1) / group;
            float o[4] = {}, l[2] = {0, 0}, mc[2] = {-INFINITY, -INFINITY};
            for (int cut = cut_first; cut <= cut_last; cut++) {
                const int base = cut * CUT_TOKENS;
                float x[2][4] = {}; // tokens g, g + 8 of two pages; pairs 2t, 2t + 1
#pragma unroll
                for (int i = 0; i < STEPS / STAGE_PAGES; i++) {
                    if (i == warp / 2) {
                        barrier_wait(s.full + at, turn & 1);
                        const uint4 *k = (const uint4 *)(s.ring[at] + warp % 2 * 2 * PAGE) + lane;
#pragma unroll
                        for (int j = 0; j < TILES; j++)
#pragma unroll
                            for (int n = 0; n < 2; n++)
                                if (base + (warp * 2 + n) * PAGE_TOKENS <= last)
                                    mma_bf16(x[n], k[n * (PAGE / 16) + j * 32], q[j][0], q[j][1]);
                        __syncwarp();
                    }
                    barrier_arrive(s.empty + at);
                    advance();
                }
                float high[2] = {-INFINITY, -INFINITY};
#pragma unroll
                for (int n = 0; n < 2; n++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        if (base + (warp * 2 + n) * PAGE_TOKENS + g + e / 2 * 8 > position[e % 2])
                            x[n][e] = -INFINITY;
                        high[e % 2] = fmaxf(high[e % 2], x[n][e]);
                    }
#pragma unroll
                for (int m = 4; m < 32; m *= 2) {
                    high[0] = fmaxf(high[0], __shfl_xor_sync(~0u, high[0], m));
                    high[1] = fmaxf(high[1], __shfl_xor_sync(~0u, high[1], m));
                }
                if (g == 0)
                    *(float2 *)&s.high[warp][2 * t] = make_float2(high[0], high[1]);
                meet(1, WARPS * 32);
#pragma unroll
                for (int w = 0; w < WARPS; w++) {
                    float2 h = *(const float2 *)&s.high[w][2 * t];
                    high[0] = fmaxf(high[0], h.x);
                    high[1] = fmaxf(high[1], h.y);
                }
                const float cut_mc[2] = {__fmul_rn(high[0], c), __fmul_rn(high[1], c)};
                const float weight_mc[2] = {high[0] == -INFINITY ? 0 : cut_mc[0], // nothing to see: every p is 0
                                            high[1] == -INFINITY ? 0 : cut_mc[1]};
#pragma unroll
                for (int n = 0; n < 2; n++) {
                    uint32_t lo = pack_bf16(attention_weight(x[n][0], c, weight_mc[0]),
                                            attention_weight(x[n][1], c, weight_mc[1]));
                    uint32_t hi = pack_bf16(attention_weight(x[n][2], c, weight_mc[0]),
                                            attention_weight(x[n][3], c, weight_mc[1]));
                    s.p[warp * 2 + n][lane] = make_uint2(transpose_8x8(lo), transpose_8x8(hi));
                }
                meet(1, WARPS * 32);
                float sum[4] = {}, sum_l[4] = {};
#pragma unroll
                for (int i = 0; i < STEPS / STAGE_PAGES; i++) {
                    barrier_wait(s.full + at, turn & 1);
                    const uint4 *v = (const uint4 *)(s.ring[at] + warp % TILES * 512) + lane;
#pragma unroll
                    for (int n = 0; n < STAGE_PAGES; n++)
                        if (base + (i * STAGE_PAGES + n) * PAGE_TOKENS <= last) {
                            uint2 p = s.p[i * STAGE_PAGES + n][lane];
                            mma_bf16(sum, v[n * (PAGE / 16)], p.x, p.y);
                            mma_bf16(sum_l, ones, p.x, p.y);
                        }
                    barrier_arrive(s.empty + at);
                    advance();
                }
#pragma unroll
                for (int e = 0; e < 2; e++) { // the first cut joins -inf, with a factor of zero for what is not there
                    if (high[e] == -INFINITY)
                        continue;
                    merge_factors f = merge_cut(mc[e], cut_mc[e]);
                    o[e] = merge_value(f, o[e], sum[e]);
                    o[e + 2] = merge_value(f, o[e + 2], sum[e + 2]);
                    l[e] = merge_value(f, l[e], sum_l[e]);
                    mc[e] = f.mc;
                }
            }
            if (warp >= TILES)
                ; // heads of 64: four warps have no d of their own
            else if (item.cut < 0) {
                uint32_t to[2]; // of pair g: d 2t, 2t + 1 and those 8 further
                const float inverse[2] = {__frcp_rn(l[0]), __frcp_rn(l[1])};
#pragma unroll
                for (int h = 0; h < 2; h++)
                    to[h] =
                        transpose_8x8(pack_bf16(__fmul_rn(o[h * 2], inverse[0]), __fmul_rn(o[h * 2 + 1], inverse[1])));
                const int n = pass + g;
                if (a.y16 && n < item.n_pair)
#pragma unroll
                    for (int h = 0; h < 2; h++)
                        *(uint32_t *)((__nv_bfloat16 *)a.y16 + row_of(n) * a.y16_stride + column_of(n) + warp * 16 +
                                      h * 8 + 2 * t) = to[h];
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (a.y && pass + 2 * t + e % 2 < item.n_pair)
                        a.y[row_of(pass + 2 * t + e % 2) * a.y_stride + column_of(pass + 2 * t + e % 2) + warp * 16 +
                            g + e / 2 * 8] = __fmul_rn(o[e], inverse[e % 2]);
            } else {
                const size_t first = ((size_t)(item.part + item.cut) * a.n_kv_head + kv_head) * 16 + pass + 2 * t;
                float2 *ml = (float2 *)(a.part + (size_t)a.n_part * a.n_kv_head * 16 * HEAD_DIM);
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (pass + 2 * t + e % 2 < item.n_pair)
                        __stcg(a.part + (first + e % 2) * HEAD_DIM + warp * 16 + g + e / 2 * 8, o[e]);
#pragma unroll
                for (int e = 0; e < 2; e++)
                    if (warp == 0 && g == 0 && pass + 2 * t + e < item.n_pair)
                        __stcg(ml + first + e, make_float2(mc[e], l[e]));
            }
        }
        if (item.cut < 0)
            continue;
        __threadfence();
        meet(1, WARPS * 32);
        unsigned *counter = a.counter + (size_t)item.tile * a.n_kv_head + kv_head;
        if (threadIdx.x == 0)
            s.before = atomicAdd(counter, 1);
        meet(1, WARPS * 32);
        if (s.before != (unsigned)item.n_cut - 1)
            continue;
        __threadfence();
        add_parts<HEAD_DIM>(a, item, kv_head, group, WARPS * 32);
        if (threadIdx.x == 0)
            *counter = 0;
    }
#endif
}

template <int HEAD_DIM> static cudaError_t run(const qr_cu_on *on, const qr_cu_attention &a)
{
    int units = a.max_few * a.n_kv_head, blocks = on->n_sm * STREAM_BLOCKS;
    return launch(on, attention_stream<HEAD_DIM>, units < blocks ? units : blocks, STREAM_THREADS,
                  sizeof(stream_shared<HEAD_DIM>), a);
}

cudaError_t qr_cu_attention_stream(const qr_cu_on *on, const qr_cu_attention &a)
{
    if (on->arch < 90 || on->arch >= 120 || a.kv != QR_CU_BF16 || a.window > 0 || a.soft_cap > 0 ||
        a.max_few * a.n_kv_head * 8 < on->n_sm * 7) // fewer than a unit a multiprocessor: attention_few.cu
        return cudaErrorInvalidConfiguration;
    return a.head_dim == 128 ? run<128>(on, a) : a.head_dim == 64 ? run<64>(on, a) : cudaErrorInvalidConfiguration;
}

cudaError_t qr_cu_prepare_attention_stream(int head_dim)
{
    const auto most = cudaFuncAttributeMaxDynamicSharedMemorySize;
    return head_dim == 128  ? cudaFuncSetAttribute(attention_stream<128>, most, (int)sizeof(stream_shared<128>))
           : head_dim == 64 ? cudaFuncSetAttribute(attention_stream<64>, most, (int)sizeof(stream_shared<64>))
                            : cudaSuccess;
}
