// sample_list.cuh - the few best of a row as a list in one block: log-probabilities, and top-k with what follows it.
//
// k of the 128 warps have a best of at least the k-th largest of the warps' bests, so that is a floor
// under the k best (k up to 128). What reaches the floor, k to some 3k numbers, is gathered without order and ranked by counting who is
// better: every place is known at once and nothing depends on the order of arrival.
#pragma once
#include "cuda/sample_row.cuh"

template <bool CLUSTER> static __device__ inline qr_top *listed(const sample_view<CLUSTER> &v)
{
    return (qr_top *)v.s.hist; // [SAMPLE_LIST]
}

// Those for which take(x, id) is true, to the list of the first block; returns how many, even where they do not all fit.
template <bool CLUSTER, class F> static __device__ int gather_if(const sample_view<CLUSTER> &v, int which, F take)
{
    static_assert(sizeof(qr_top) * SAMPLE_LIST <= sizeof(v.s.hist), "the list lies in the histogram");
    int *n = v.at(&v.s.n_list[which], 0);
    qr_top *list = v.at(listed(v), 0);
    v.each([&](float x, int id) {
        if (!take(x, id))
            return;
        int at = atomicAdd(n, 1);
        if (at < SAMPLE_LIST)
            list[at] = {id, x};
    });
    v.meet_all();
    return *(volatile int *)n;
}
template <bool CLUSTER> static __device__ int gather(const sample_view<CLUSTER> &v, uint32_t floor, int which)
{
    return gather_if(v, which, [&](float x, int) { return key_of(x) >= floor; });
}

// How many of the n in the list stand before this one.
template <bool CLUSTER> static __device__ int rank_in_list(const sample_view<CLUSTER> &v, int n, qr_top mine)
{
    const qr_top *list = listed(v);
    int before = 0;
#pragma unroll 4
    for (int i = 0; i < n; i++) {
        qr_top x = list[i];
        before += x.logprob > mine.logprob || (x.logprob == mine.logprob && x.id < mine.id);
    }
    return before;
}

// The first of 32 lanes with a value at which the running sum passes target; else the last lane with a value. before: the sum in front of
// it, from `before` on. Returns -1 where no lane has a value; before is then the sum of all.
static __device__ inline int walk_lanes(double mine, double target, double *before, bool *passed)
{
    const int lane = threadIdx.x % 32;
    double until = mine;
#pragma unroll
    for (int m = 1; m < 32; m *= 2) {
        double other = __shfl_up_sync(~0u, until, m);
        until += lane >= m ? other : 0;
    }
    double front = __shfl_up_sync(~0u, until, 1);
    front = *before + (lane ? front : 0);
    uint32_t some = __ballot_sync(~0u, mine > 0), over = __ballot_sync(~0u, mine > 0 && front + mine > target);
    *passed = over != 0;
    int chosen = over ? __ffs(over) - 1 : some ? 31 - __clz(some) : -1;
    double sum = *before + __shfl_sync(~0u, until, 31);
    *before = chosen < 0 ? sum : over ? __shfl_sync(~0u, front, chosen) : sum;
    return chosen;
}

// The same for values x[first .. end) of each lane, ascending over lanes: the place chosen in the lane that has it, -1 in the others.
static __device__ inline int walk_values(const float *x, int first, int end, double target, double front)
{
    double mine = 0;
    for (int i = first; i < end; i++)
        mine += (double)x[i];
    bool passed;
    int lane = walk_lanes(mine, target, &front, &passed), at = -1;
    if ((int)threadIdx.x % 32 != lane)
        return -1;
    for (int i = first; i < end; i++) {
        front += (double)x[i];
        if (x[i] > 0)
            at = i;
        if (passed && at == i && front > target)
            break;
    }
    return at;
}

// Steps 6 to 9 of engine/sampler.h on a list of n that holds the k best. By the first block; the choice is told to all.
template <bool CLUSTER>
static __device__ void draw_list(const sample_view<CLUSTER> &v, int n, float max, float scale, float u)
{
    sample_shared &s = v.s;
    const qr_sample_row &p = v.p;
    const int me = threadIdx.x, m = min(n, p.top_k);
    qr_top mine = {0, 0};
    int rank = SAMPLE_LIST;
    if (me < n) {
        mine = listed(v)[me];
        rank = rank_in_list(v, n, mine);
    }
    if (rank < m) {
        s.by_weight[rank] = exp_neg(__fmul_rn(__fsub_rn(mine.logprob, max), scale));
        s.id_of[rank] = mine.id;
    }
    __syncthreads();
    float w = 0;
    int id = 0, place = 0;
    rank = 0;
    if (me < m) { // by weight now: different logits may have equal ones
        w = s.by_weight[me], id = s.id_of[me];
        for (int i = 0; i < m; i++) {
            rank += s.by_weight[i] > w || (s.by_weight[i] == w && s.id_of[i] < id);
            place += s.id_of[i] < id;
        }
    }
    __syncthreads();
    if (me < m) {
        s.by_weight[rank] = w;
        s.id_of[place] = id;
    }
    __syncthreads();
    if (me < m) {
        double total = 0, before = 0;
        for (int i = 0; i < m; i++) {
            before = i == rank ? total : before;
            total += (double)s.by_weight[i];
        }
        bool kept = (p.top_p >= 1 || rank == 0 || before < (double)p.top_p * total) && w >= p.min_p;
        s.by_id[place] = kept ? w : 0;
    }
    __syncthreads();
    if (me < 32) {
        constexpr int PER = SAMPLE_LIST_K / 32;
        double total = 0;
        for (int i = 0; i < m; i++)
            total += (double)s.by_id[i];
        int at = walk_values(s.by_id, me * PER, min(me * PER + PER, m), (double)u * total, 0);
        if (at >= 0)
            v.tell(&s.chosen, s.id_of[at]);
    }
}
