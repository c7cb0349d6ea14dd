// sample_select.cuh - the best part of a row by number (top-k) or by mass (top-p), by radix descent as engine/select.c.
//
// Three passes over the row in shared memory: a histogram of the leading bits tells in which bin the limit lies, the next
// bits are looked at in that bin only. Weights of one bin have one exponent, so the sums of their mantissas are integers:
// exact, whatever the order in which threads add them.
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

template <bool MASS> static __device__ inline uint32_t select_key(float x)
{
    return MASS ? __float_as_uint(x) : key_of(x);
}

// Of bin `bin` of one block's histogram: how many, or their weight in units of 2^-23 of the bin's power of two.
template <bool MASS> static __device__ inline double bin_value(uint32_t low, uint32_t high)
{
    return MASS ? (double)high * 4096 + (double)low : (double)low;
}

template <bool CLUSTER, bool MASS>
static __device__ void fill_histogram(const sample_view<CLUSTER> &v, int pass, uint32_t key, uint32_t floor)
{
    constexpr int SHIFT[3] = {MASS ? 19 : 21, MASS ? 9 : 10, 0}, BINS[3] = {2048, MASS ? 1024 : 2048, MASS ? 512 : 1024};
    uint32_t *low = v.s.hist[v.turn & 1][0], *high = v.s.hist[v.turn & 1][1];
    const int bins = BINS[pass], shift = SHIFT[pass], above = pass ? SHIFT[pass - 1] : 31;
    for (int i = threadIdx.x; i < bins; i += SAMPLE_THREADS)
        low[i] = high[i] = 0;
    __syncthreads();
    v.each([&](float x, int) {
        uint32_t k = select_key<MASS>(x);
        if (k < floor || (pass && (k ^ key) >> above))
            return;
        uint32_t bin = (k >> shift) & (bins - 1), mantissa = (k & 0x7FFFFFu) | 0x800000u;
        atomicAdd(low + bin, MASS ? mantissa & 4095u : 1u);
        if (MASS)
            atomicAdd(high + bin, mantissa >> 12);
    });
}

// In order of ids, which of those equal to the limit is the last that is kept: the n-th.
template <bool CLUSTER, bool MASS>
static __device__ int find_cutoff(const sample_view<CLUSTER> &v, uint32_t key, int bin, int n, int *cutoff)
{
    int before = 0;
    bool mine = true;
    if (CLUSTER) { // equals in the parts before this one, from their histograms of the last pass
        const double one = MASS ? (double)((key & 0x7FFFFFu) | 0x800000u) : 1;
        int here = 0;
        for (int i = 0; i <= v.me; i++) {
            before += here;
            uint32_t low = *v.at(&v.s.hist[v.turn & 1][0][bin], i), high = *v.at(&v.s.hist[v.turn & 1][1][bin], i);
            here = (int)rint(bin_value<MASS>(low, high) / one);
        }
        mine = before < n && before + here >= n;
    }
    if (mine && threadIdx.x < 32) {
        int left = n - before, id = v.begin(v.first_part()), end = v.begin(v.end_part());
        const float *x = v.part_row(v.first_part());
        for (int k = threadIdx.x; k - (int)threadIdx.x + id < end; k += 32) {
            uint32_t hit = __ballot_sync(~0u, id + k < end && select_key<MASS>(x[k]) == key);
            if (__popc(hit) < left) {
                left -= __popc(hit);
                continue;
            }
            if (threadIdx.x == 0)
                v.tell(cutoff, (int)(id + k + __fns(hit, 0, left)));
            break;
        }
    }
    v.meet_all();
    return *cutoff;
}

// The fewest best that are `left` in number, or whose weights add up to `left` (at least one). Keys under `floor` are known
// not to be among them. Every block comes to the same result. index: which select of the row this is.
template <bool CLUSTER, bool MASS>
static __device__ sample_limit select_best(sample_view<CLUSTER> &v, double left, uint32_t floor, int index)
{
    constexpr int SHIFT[3] = {MASS ? 19 : 21, MASS ? 9 : 10, 0}, BINS[3] = {2048, MASS ? 1024 : 2048, MASS ? 512 : 1024};
    sample_shared &s = v.s;
    uint32_t key = 0;
    int n_equal = 0, bin = 0;
    double held = 0;
    for (int pass = 0; pass < 3; pass++) {
        const int bins = BINS[pass], per = bins / SAMPLE_THREADS;
        v.turn++;
        fill_histogram<CLUSTER, MASS>(v, pass, key, floor);
        if (threadIdx.x == 0) {
            s.bin = SAMPLE_BINS;
            s.lowest = -1;
        }
        v.meet_all();
        const uint32_t *low = s.hist[v.turn & 1][0], *high = s.hist[v.turn & 1][1];
        double value[4], mine = 0; // thread 0 has the best bins
        for (int i = 0; i < per; i++) {
            int b = bins - 1 - ((int)threadIdx.x * per + i);
            double sum = 0;
            for (int r = 0; r < (CLUSTER ? SAMPLE_PARTS : 1); r++)
                sum += bin_value<MASS>(*v.at(low + b, r), MASS ? *v.at(high + b, r) : 0);
            if (MASS) // the power of two of the bin
                sum *= __hiloint2double(((int)(pass ? key >> 23 : b >> 4) - 150 + 1023) << 20, 0);
            value[i] = sum;
            mine += sum;
        }
        double until = mine; // inclusive sums over threads, in a fixed order
        for (int m = 1; m < 32; m *= 2) {
            double other = __shfl_up_sync(~0u, until, m);
            until += (threadIdx.x & 31) >= m ? other : 0;
        }
        if ((threadIdx.x & 31) == 31)
            s.warp_sum[threadIdx.x / 32] = until;
        __syncthreads();
        double run = __shfl_up_sync(~0u, until, 1);
        if ((threadIdx.x & 31) == 0)
            run = 0;
        for (int w = SAMPLE_WARPS - 1; w >= 0; w--)
            run += w < (int)threadIdx.x / 32 ? s.warp_sum[w] : 0;
        const double start = run;
        for (int i = 0; i < per; i++) {
            int order = (int)threadIdx.x * per + i;
            if (value[i] > 0) {
                atomicMax(&s.lowest, order);
                if (run + value[i] >= left) {
                    atomicMin(&s.bin, order);
                    break;
                }
            }
            run += value[i];
        }
        __syncthreads();
        int order = s.bin < SAMPLE_BINS ? s.bin : max(s.lowest, 0); // rounding may leave a crumb of the goal behind
        if (order / per == (int)threadIdx.x) {
            run = start;
            for (int i = 0; i < per; i++) {
                if (i == order % per) {
                    s.left = left - run;
                    held = value[i];
                    break;
                }
                run += value[i];
            }
            s.warp_sum[0] = held;
        }
        __syncthreads();
        bin = bins - 1 - order;
        left = s.left;
        held = s.warp_sum[0];
        key |= (uint32_t)bin << SHIFT[pass];
        __syncthreads();
    }
    if (MASS) {
        double one = (double)__uint_as_float(key), many = one > 0 ? rint(held / one) : 1;
        double n = one > 0 ? ceil(left / one) : 1;
        while (n > 1 && (n - 1) * one >= left)
            n--;
        while (n < many && n * one < left)
            n++;
        n_equal = (int)fmin(fmax(n, 1.0), many);
        held = many;
    } else {
        n_equal = (int)left;
    }
    sample_limit limit = {key, INT_MAX};
    if ((double)n_equal < held)
        limit.cutoff = find_cutoff<CLUSTER, MASS>(v, key, bin, n_equal, &s.cutoff[index]);
    return limit;
}
