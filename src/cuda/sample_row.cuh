// sample_row.cuh - a row of logits spread over a cluster of blocks, and what is done to it before a choice (sample.cu).
//
// A row is cut into 8 parts at multiples of 256 ids. On sm_90 each of 8 blocks of a cluster keeps its part in shared memory
// (a vocabulary of 151,936 is 76 KB a part), so memory is read once whatever filters are on; blocks tell each other by
// stores into each other's shared memory. Elsewhere one block walks the 8 parts in a copy of the row. Both do the same
// arithmetic in the same order.
#pragma once
#include <cfloat>
#include <cooperative_groups.h>
#include "cuda/ptx.cuh"
#include "cuda/sample.h"

constexpr int SAMPLE_PARTS = 8, SAMPLE_THREADS = 512, SAMPLE_WARPS = SAMPLE_THREADS / 32, SAMPLE_BLOCK = 256;
constexpr int SAMPLE_BINS = 2048, SAMPLE_SUMS = 4, SAMPLE_SELECTS = 3;
constexpr int SAMPLE_LIST = SAMPLE_THREADS, SAMPLE_LIST_K = SAMPLE_PARTS * SAMPLE_WARPS;
constexpr uint32_t BAD_KEY = 0xFFFFFFFFu;

struct alignas(16) sample_shared {
    uint32_t hist[SAMPLE_BINS];     // of the part kept here: counts, or the two halves of sums
    uint32_t total[2][SAMPLE_BINS]; // of the row, by turn
    uint64_t best[2][SAMPLE_PARTS][SAMPLE_WARPS];
    double sum[SAMPLE_SUMS][SAMPLE_PARTS];
    double warp_sum[SAMPLE_WARPS];
    double left, held;
    uint32_t floor;
    int rank[SAMPLE_PARTS];
    int equal[SAMPLE_SELECTS][SAMPLE_PARTS], cutoff[SAMPLE_SELECTS];
    int chosen, bin, lowest, n_equal, n_list[2];
    int pending[QR_SAMPLE_MAX_PENDING], counted[QR_SAMPLE_MAX_PENDING];
    float by_weight[SAMPLE_LIST_K], by_id[SAMPLE_LIST_K];
    int id_of[SAMPLE_LIST_K];
    qr_sample_row row;
};

static __device__ inline uint32_t key_of(float x)
{
    uint32_t u = __float_as_uint(__fadd_rn(x, 0.0f)); // -0 becomes +0
    return u ^ (u >> 31 ? 0xFFFFFFFFu : 0x80000000u);
}
static __device__ inline float float_of(uint32_t key)
{
    return __uint_as_float(key ^ (key >> 31 ? 0x80000000u : 0xFFFFFFFFu));
}

// base/rand.c's uniform number, bit for bit.
static __device__ inline float rand_uniform(const uint32_t seed[2], uint32_t choice, uint32_t position)
{
    uint32_t c0 = position, c1 = choice, c2 = 0, c3 = 0, k0 = seed[0], k1 = seed[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (float)(c0 >> 8) * 0x1p-24f;
}

// engine/logits.c's exponential, bit for bit: no product is fused with a sum there, so none is here.
static __device__ inline float exp_neg(float x)
{
    float in = x < -87.0f ? -87.0f : x;
    float n = __fsub_rn(__fadd_rn(__fmul_rn(in, 1.44269504088896341f), 12582912.0f), 12582912.0f);
    float r = __fadd_rn(__fsub_rn(in, __fmul_rn(n, 0.693359375f)), __fmul_rn(n, 2.12194440e-4f));
    float y = __fadd_rn(__fmul_rn(r, 1.9875691500e-4f), 1.3981999507e-3f);
    y = __fadd_rn(__fmul_rn(y, r), 8.3334519073e-3f);
    y = __fadd_rn(__fmul_rn(y, r), 4.1665795894e-2f);
    y = __fadd_rn(__fmul_rn(y, r), 1.6666665459e-1f);
    y = __fadd_rn(__fmul_rn(y, r), 5.0000001201e-1f);
    y = __fadd_rn(__fadd_rn(__fmul_rn(y, __fmul_rn(r, r)), r), 1.0f);
    return x < -87.0f ? 0.0f : __int_as_float(__float_as_int(y) + ((int)n << 23));
}

static __device__ inline double shuffle_xor(double x, int mask)
{
    return __shfl_xor_sync(~0u, x, mask);
}

// Clusters of blocks: sm_90 and later.
static __device__ inline void cluster_arrive()
{
#if __CUDA_ARCH__ >= 900
    cooperative_groups::this_cluster().barrier_arrive();
#endif
}
static __device__ inline void cluster_wait()
{
#if __CUDA_ARCH__ >= 900
    cooperative_groups::this_cluster().barrier_wait();
#endif
}
template <class T>
static __device__ inline T *in_block(T *p, int rank) // the same variable in another block of the cluster
{
#if __CUDA_ARCH__ >= 900
    return cooperative_groups::this_cluster().map_shared_rank(p, rank);
#else
    return p;
#endif
}

// The row as one block sees it.
template <bool CLUSTER> struct sample_view {
    const qr_sample_args &a;
    const int32_t *word;    // the packed buffer
    const qr_sample_row &p; // this row's wishes
    sample_shared &s;
    const float *logits; // [n_vocab], as they came
    float *row;          // the part kept here; all parts where there is no cluster
    double *block_sum;   // of its 256-blocks, likewise
    int me;              // part of this block
    int part;            // ids of a part, a multiple of 256
    int turn;            // of the histogram

    __device__ int first_part() const
    {
        return CLUSTER ? me : 0;
    }
    __device__ int end_part() const
    {
        return CLUSTER ? me + 1 : SAMPLE_PARTS;
    }
    __device__ int begin(int i) const // first id of part i
    {
        return min(i * part, a.n_vocab);
    }
    __device__ float *part_row(int i) const
    {
        return CLUSTER ? row : row + begin(i);
    }
    __device__ double *part_sum(int i) const
    {
        return CLUSTER ? block_sum : block_sum + i * (part / SAMPLE_BLOCK);
    }
    template <class T> __device__ T *at(T *p, int rank) const // the same variable in another block
    {
        return CLUSTER ? in_block(p, rank) : p;
    }
    // Writes value to *p in every block of the cluster; called by threads that have one each.
    template <class T> __device__ void tell(T *p, T value) const
    {
        if constexpr (CLUSTER) {
#pragma unroll
            for (int i = 0; i < SAMPLE_PARTS; i++)
                *at(p, i) = value;
        } else {
            *p = value;
        }
    }
    __device__ void meet_all() const
    {
        if (CLUSTER) {
            cluster_arrive();
            cluster_wait();
        } else {
            __syncthreads();
        }
    }

    // Part i from memory, calling f(value, place in the part) for each element, in ascending order within a thread. The block's
    // threads do not meet.
    template <class F> __device__ void load(int i, F f) const
    {
        constexpr int AHEAD = 5; // loads of 16 bytes in flight
        const bool wide = a.stride % 4 == 0 && ((uintptr_t)logits & 15) == 0;
        float *to = part_row(i);
        const float *from = logits + begin(i);
        const int n = begin(i + 1) - begin(i), fours = wide ? n / 4 : 0;
        for (int k = threadIdx.x; k < fours; k += AHEAD * SAMPLE_THREADS) {
            float4 x[AHEAD];
#pragma unroll
            for (int j = 0; j < AHEAD; j++)
                if (k + j * SAMPLE_THREADS < fours)
                    x[j] = __ldcg((const float4 *)from + k + j * SAMPLE_THREADS);
#pragma unroll
            for (int j = 0; j < AHEAD; j++)
                if (int at = k + j * SAMPLE_THREADS; at < fours) {
                    ((float4 *)to)[at] = x[j];
                    f(x[j].x, at * 4);
                    f(x[j].y, at * 4 + 1);
                    f(x[j].z, at * 4 + 2);
                    f(x[j].w, at * 4 + 3);
                }
        }
        for (int k = fours * 4 + threadIdx.x; k < n; k += SAMPLE_THREADS) {
            float x = __ldcg(from + k);
            to[k] = x;
            f(x, k);
        }
    }

    // Calls f(value, id) for each element of this block's part(s), in ascending order within a thread.
    template <class F> __device__ void each(F f) const
    {
        for (int i = first_part(); i < end_part(); i++) {
            float *x = part_row(i);
            int n = begin(i + 1) - begin(i), id = begin(i), k = threadIdx.x;
            for (; k + 3 * SAMPLE_THREADS < n; k += 4 * SAMPLE_THREADS) {
                float v[4];
#pragma unroll
                for (int j = 0; j < 4; j++)
                    v[j] = x[k + j * SAMPLE_THREADS];
#pragma unroll
                for (int j = 0; j < 4; j++)
                    f(v[j], id + k + j * SAMPLE_THREADS);
            }
            for (; k < n; k += SAMPLE_THREADS)
                f(x[k], id + k);
        }
    }

    __device__ float *find(int id) const // where an id lies, NULL: in another block
    {
        if (!CLUSTER)
            return row + id;
        return id >= begin(me) && id < begin(me + 1) ? row + (id - begin(me)) : nullptr;
    }

    __device__ float penalised(float logit, int n_output) const
    {
        float v = logit > 0 ? __fdiv_rn(logit, p.repetition) : __fmul_rn(logit, p.repetition);
        return n_output > 0 ? __fsub_rn(v, __fadd_rn(__fmul_rn(p.frequency, (float)n_output), p.presence)) : v;
    }
    __device__ int times_pending(int id) const
    {
        int n = 0;
        for (int i = 0; i < p.n_pending; i++)
            n += s.pending[i] == id;
        return n;
    }

    // Steps 1 to 4 of engine/sampler.h.
    __device__ void adjust() const
    {
        if (threadIdx.x < p.n_pending) {
            int id = word[p.pending + threadIdx.x];
            s.pending[threadIdx.x] = id < 0 ? a.place[-1 - id] : id;
            s.counted[threadIdx.x] = 0;
        }
        for (int i = threadIdx.x; i < p.n_bias; i += SAMPLE_THREADS) {
            int id = word[p.bias + 2 * i];
            float *x = find(id);
            if (x && (i == 0 || word[p.bias + 2 * i - 2] != id)) // one thread an id
                for (int k = i; k < p.n_bias && word[p.bias + 2 * k] == id; k++)
                    *x = __fadd_rn(*x, __int_as_float(word[p.bias + 2 * k + 1]));
        }
        __syncthreads();
        for (int i = threadIdx.x; i < p.n_count; i += SAMPLE_THREADS) {
            int id = word[p.count + 2 * i];
            float *x = find(id);
            if (!x)
                continue;
            *x = penalised(*x, word[p.count + 2 * i + 1] + times_pending(id));
            for (int k = 0; k < p.n_pending; k++)
                if (s.pending[k] == id)
                    s.counted[k] = 1;
        }
        __syncthreads();
        if (threadIdx.x < p.n_pending) {
            int id = s.pending[threadIdx.x];
            float *x = id >= 0 && id < a.n_vocab ? find(id) : nullptr;
            for (int k = 0; k < (int)threadIdx.x; k++)
                if (s.pending[k] == id)
                    x = nullptr; // the first of equals does it
            if (x && !s.counted[threadIdx.x])
                *x = penalised(*x, times_pending(id));
        }
        __syncthreads();
        for (int i = threadIdx.x; i < p.n_end; i += SAMPLE_THREADS)
            if (float *x = find(word[p.end + i]))
                *x = -INFINITY;
        if (p.mask)
            for (int i = first_part(); i < end_part(); i++) {
                float *x = part_row(i);
                const uint32_t *mask = (const uint32_t *)word + p.mask + begin(i) / 32;
                for (int k = threadIdx.x, n = begin(i + 1) - begin(i); k < n; k += SAMPLE_THREADS)
                    if (!(__ldg(mask + k / 32) >> k % 32 & 1)) // a warp shares the word
                        x[k] = -INFINITY;
            }
        __syncthreads();
    }
};
