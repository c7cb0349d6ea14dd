// sample_select.cuh - the best part of a row by number (top-k) or by mass (top-p), by radix descent as engine/select.c.
//
// Three passes over the row in shared memory: a histogram of the leading bits tells in which bin the limit lies, the next
// bits are looked at in that bin only. A block counts its own part, then adds what it found to every block's totals; after
// one meeting of the cluster each block reads its totals and comes to the same answer. Weights of one bin have one exponent, so
// the sums of their mantissas are integers: exact, whatever the order in which threads add them.
#pragma once
#include "cuda/sample_row.cuh"

// The best: those with a key above, and those with this key up to the id `cutoff`.
struct sample_limit {
    uint32_t key;
    int cutoff;
    __device__ bool holds(uint32_t k, int id) const
    {
        return k > key || (k == key && id <= cutoff);
    }
};

// MASS: keys are the bits of weights in [0, 1], 30 bits in use; a bin has two words, the low 12 bits and the rest of its mantissas.
template <bool MASS, int PASS> struct select_pass {
    static constexpr int shift = PASS == 0 ? (MASS ? 20 : 21) : PASS == 1 ? 10 : 0;
    static constexpr int above = PASS == 0 ? 31 : PASS == 1 ? (MASS ? 20 : 21) : 10;
    static constexpr int bins = MASS || PASS == 2 ? 1024 : 2048, words = MASS ? 2 : 1, per = bins / SAMPLE_THREADS;
};
template <bool MASS> static __device__ inline uint32_t select_key(float x)
{
    return MASS ? __float_as_uint(x) : key_of(x);
}
static __device__ inline uint32_t mantissa_of(uint32_t key)
{
    return (key & 0x7FFFFFu) | 0x800000u;
}

// This block's part into its histogram, and that into everyone's totals. Ends before the meeting.
template <bool MASS, int PASS, bool CLUSTER>
static __device__ void fill_histogram(const sample_view<CLUSTER> &v, uint32_t key, uint32_t floor)
{
    using pass = select_pass<MASS, PASS>;
    sample_shared &s = v.s;
    uint32_t *mine = CLUSTER ? s.hist : s.total[v.turn & 1], *next = s.total[(v.turn & 1) ^ 1];
    if (CLUSTER)
        for (int i = threadIdx.x; i < pass::bins * pass::words; i += SAMPLE_THREADS)
            mine[i] = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        s.bin = SAMPLE_BINS;
        s.lowest = -1;
    }
    v.each([&](float x, int) {
        uint32_t k = select_key<MASS>(x);
        if (k < floor || (PASS && (k ^ key) >> pass::above))
            return;
        uint32_t bin = (k >> pass::shift) & (pass::bins - 1);
        if (MASS) {
            atomicAdd(mine + bin * 2, mantissa_of(k) & 4095u);
            atomicAdd(mine + bin * 2 + 1, mantissa_of(k) >> 12);
        } else {
            atomicAdd(mine + bin, 1u);
        }
    });
    __syncthreads();
    if (CLUSTER)
        for (int i = threadIdx.x; i < pass::bins * pass::words; i += SAMPLE_THREADS)
            if (uint32_t n = mine[i])
#pragma unroll
                for (int r = 0; r < SAMPLE_PARTS; r++)
                    atomicAdd(v.at(s.total[v.turn & 1] + i, (v.me + r) % SAMPLE_PARTS), n);
    for (int i = threadIdx.x; i < SAMPLE_BINS; i += SAMPLE_THREADS)
        next[i] = 0; // for the pass after this one: nobody adds there before the meeting
}

struct select_state {
    uint32_t key;
    int bin;
    double left, held; // still to be found in the bin; all that it holds
};

// One pass: the bin in which the limit lies. Every block comes to the same result.
template <bool MASS, int PASS, bool CLUSTER>
static __device__ void narrow(sample_view<CLUSTER> &v, select_state &at, uint32_t floor)
{
    using pass = select_pass<MASS, PASS>;
    sample_shared &s = v.s;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    fill_histogram<MASS, PASS>(v, at.key, floor);
    v.meet_all();
    const uint32_t *total = s.total[v.turn & 1];
    v.turn++;
    double value[pass::per], mine = 0; // thread 0 has the best bins
#pragma unroll
    for (int i = 0; i < pass::per; i++) {
        int b = pass::bins - 1 - ((int)threadIdx.x * pass::per + i);
        if (MASS) {
            uint2 n = *(const uint2 *)(total + 2 * b);
            int exponent = PASS ? at.key >> 23 : b >> 3; // the power of two of the bin
            value[i] = ((double)n.y * 4096 + (double)n.x) * __hiloint2double((exponent - 150 + 1023) << 20, 0);
        } else {
            value[i] = total[b];
        }
        mine += value[i];
    }
    double until = mine; // sums over threads, in a fixed order
#pragma unroll
    for (int m = 1; m < 32; m *= 2) {
        double other = __shfl_up_sync(~0u, until, m);
        until += lane >= m ? other : 0;
    }
    if (lane == 31)
        s.warp_sum[warp] = until;
    uint32_t some = __ballot_sync(~0u, mine > 0);
    if (lane == 0 && some)
        atomicMax(&s.lowest, ((warp * 32 + 31 - __clz(some)) + 1) * pass::per - 1);
    __syncthreads();
    double run = __shfl_up_sync(~0u, until, 1);
    if (lane == 0)
        run = 0;
#pragma unroll
    for (int w = 0; w < SAMPLE_WARPS; w++)
        run += w < warp ? s.warp_sum[w] : 0;
    int order = SAMPLE_BINS;
    double front = 0, held = 0;
#pragma unroll
    for (int i = 0; i < pass::per; i++) {
        if (order == SAMPLE_BINS && value[i] > 0 && run + value[i] >= at.left)
            order = (int)threadIdx.x * pass::per + i, front = run, held = value[i];
        run += value[i];
    }
    uint32_t over = __ballot_sync(~0u, order < SAMPLE_BINS);
    if (over && lane == __ffs(over) - 1)
        atomicMin(&s.bin, order);
    __syncthreads();
    if (s.bin == SAMPLE_BINS) { // rounding may leave a crumb of the goal behind: then the last that holds something
        int last = max(s.lowest, 0) / pass::per;
        if ((int)threadIdx.x == last) {
            order = last * pass::per;
            front = at.left; // nothing is left to be found
#pragma unroll
            for (int i = 0; i < pass::per; i++)
                if (value[i] > 0)
                    order = last * pass::per + i, held = value[i];
        }
        __syncthreads();
        if ((int)threadIdx.x == last)
            s.bin = order;
        __syncthreads();
    }
    if (order == s.bin) {
        s.left = at.left - front;
        s.held = held;
    }
    __syncthreads();
    at.bin = pass::bins - 1 - s.bin;
    at.left = s.left;
    at.held = s.held;
    at.key |= (uint32_t)at.bin << pass::shift;
}

// In order of ids, which of those equal to the limit is the last that is kept: the n-th. After the last pass.
template <bool MASS, bool CLUSTER>
static __device__ int find_cutoff(const sample_view<CLUSTER> &v, const select_state &at, int n, int index)
{
    sample_shared &s = v.s;
    int before = 0;
    bool mine = true;
    if (CLUSTER) { // equals in the parts before this one
        if (threadIdx.x == 0) {
            double sum = MASS ? (double)s.hist[at.bin * 2 + 1] * 4096 + (double)s.hist[at.bin * 2] : 0;
            v.tell(&s.equal[index][v.me], MASS ? (int)rint(sum / (double)mantissa_of(at.key)) : (int)s.hist[at.bin]);
        }
        v.meet_all();
        for (int i = 0; i < v.me; i++)
            before += s.equal[index][i];
        mine = before < n && before + s.equal[index][v.me] >= n;
    }
    if (mine && threadIdx.x < 32) {
        int left = n - before, id = v.begin(v.first_part()), end = v.begin(v.end_part());
        const float *x = v.part_row(v.first_part());
        for (int k = threadIdx.x; k - (int)threadIdx.x + id < end; k += 32) {
            uint32_t hit = __ballot_sync(~0u, id + k < end && select_key<MASS>(x[k]) == at.key);
            if (__popc(hit) < left) {
                left -= __popc(hit);
                continue;
            }
            if (threadIdx.x == 0)
                v.tell(&s.cutoff[index], (int)(id + k + __fns(hit, 0, left)));
            break;
        }
    }
    v.meet_all();
    return s.cutoff[index];
}

// The fewest best that are `left` in number, or whose weights add up to `left` (at least one). Keys under `floor` are known
// not to be among them. index: which select of the row this is.
template <bool MASS, bool CLUSTER>
static __device__ sample_limit select_best(sample_view<CLUSTER> &v, double left, uint32_t floor, int index)
{
    select_state at = {0, 0, left, 0};
    narrow<MASS, 0>(v, at, floor);
    narrow<MASS, 1>(v, at, floor);
    narrow<MASS, 2>(v, at, floor);
    int n_equal = (int)at.left;
    if (MASS) {
        double one = (double)__uint_as_float(at.key), many = one > 0 ? rint(at.held / one) : 1;
        double n = one > 0 ? ceil(at.left / one) : 1;
        while (n > 1 && (n - 1) * one >= at.left)
            n--;
        while (n < many && n * one < at.left)
            n++;
        n_equal = (int)fmin(fmax(n, 1.0), many);
        at.held = many;
    }
    sample_limit limit = {at.key, INT_MAX};
    if ((double)n_equal < at.held)
        limit.cutoff = find_cutoff<MASS>(v, at, n_equal, index);
    return limit;
}
